"""Positive definite matrices, factorised: sparse Cholesky with selected inverses."""
