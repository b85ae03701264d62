"""Sparse Cholesky factors by supernodes, and selected inverses."""
