"""Tiny extreme models against exact integration: ``bayesfield calibrate --extreme``."""
