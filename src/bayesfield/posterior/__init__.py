"""The posterior of the parameters: λ | D ≈ N(λ_MP, P⁻¹), and the call that finds it."""

from bayesfield.posterior.check import Check
from bayesfield.posterior.fitting import fit
from bayesfield.posterior.imputation import Imputation
from bayesfield.posterior.laplace import FitRecord, Posterior
from bayesfield.posterior.recoded import recoded

__all__ = ["Check", "FitRecord", "Imputation", "Posterior", "fit", "recoded"]
