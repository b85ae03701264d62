"""Tolerances with names and reasons."""

ALGEBRA = 1e-10  # two ways to the same number in double precision
FIXED_POINT = 1e-8  # a quantity read off a converged iteration
FINITE_DIFFERENCE = 1e-7  # central differences of converged beliefs, step 1e-5
