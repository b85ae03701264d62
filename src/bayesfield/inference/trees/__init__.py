"""Exact inference: junction trees, and chains of labels."""
