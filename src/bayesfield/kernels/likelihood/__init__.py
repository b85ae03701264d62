"""Likelihoods in compiled code: composite ones, and the posterior density for samplers."""
