"""Baselines that the paper compares with: expectation propagation, max-margin."""
