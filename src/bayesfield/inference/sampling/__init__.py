"""Inference by Gibbs chains, and log Z by thermodynamic integration."""
