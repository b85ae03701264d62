"""Priors that the data choose: variances, scales and smoothness by evidence, by the bound, or as heavy tails ask."""
