"""Hidden labels with numbers, counts or categories in sight of them."""
