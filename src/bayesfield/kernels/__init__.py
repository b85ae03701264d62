"""Numba kernels: arrays in, arrays out. No validation, no objects, no model."""
