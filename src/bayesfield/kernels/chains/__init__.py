"""Chains of labels: forward and backward passes, inputs times weights, Gibbs sweeps of labels."""
