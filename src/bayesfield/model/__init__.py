"""What a user states: variables, factors, features, ties, and the prior of the parameters."""

from bayesfield.model.adaptive_prior import ARD, Cauchy
from bayesfield.model.builders import chain, grid, grid_edges, pairwise, potts
from bayesfield.model.field import Factor, FactorBlock, RandomField, Variable
from bayesfield.model.hidden import boltzmann, hidden_potts, mixture, restricted_boltzmann
from bayesfield.model.ordinal import ordinal
from bayesfield.model.prior import Normal, Parametrised, Prior
from bayesfield.model.scales import recoding

__all__ = [
    "ARD",
    "Cauchy",
    "Factor",
    "FactorBlock",
    "Normal",
    "Parametrised",
    "Prior",
    "RandomField",
    "Variable",
    "boltzmann",
    "chain",
    "grid",
    "grid_edges",
    "hidden_potts",
    "mixture",
    "ordinal",
    "pairwise",
    "potts",
    "recoding",
    "restricted_boltzmann",
]
