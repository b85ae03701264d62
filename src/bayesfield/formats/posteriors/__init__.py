"""Posteriors in one file."""
