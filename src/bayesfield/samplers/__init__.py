"""Chains of the parameters: the posterior by sampling, exact where the sampler is, and the paper's approximations."""
