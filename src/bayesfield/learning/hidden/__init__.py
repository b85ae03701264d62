"""Hidden labels of measurements: their objective, where its search begins, and how it goes on large fields."""
