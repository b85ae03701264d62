"""Inference by messages: Bethe and Kikuchi, with direct minimisation of their free energies."""
