"""Weights that an absolute value keeps at zero: the elastic net."""
