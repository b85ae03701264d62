"""Gibbs sweeps of many chains, and Langevin steps that start from them."""
