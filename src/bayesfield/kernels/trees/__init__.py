"""Junction trees: elimination orders and the two passes."""
