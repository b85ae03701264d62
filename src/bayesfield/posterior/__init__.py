"""The posterior of the parameters: λ | D ≈ N(λ_MP, P⁻¹), and the call that finds it."""

from bayesfield.posterior.fitting import fit
from bayesfield.posterior.laplace import FitRecord, Posterior

__all__ = ["FitRecord", "Posterior", "fit"]
