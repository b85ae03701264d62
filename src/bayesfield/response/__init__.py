"""Covariances of the features at given beliefs: prepare once, then the full matrix, products, solves, chosen entries.

This layer stands below ``inference``: it needs beliefs, not the engine that made them, and engines build on it.
"""
