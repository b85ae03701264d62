"""Which variables are central in a network, and how sure that is: measures of every draw of the couplings.

strength: Σ_j |λ_ij|; expected_influence: Σ_j λ_ij; closeness: (n − 1) / Σ_j d(i, j); betweenness: the share of the
shortest paths between others that pass through, both with lengths 1 / |λ_ij| (Opsahl et al. 2010).
"""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np
import pandas as pd
from scipy.sparse import csgraph

from bayesfield.posterior.edges import edges_of
from bayesfield.posterior.posterior import Posterior, require_posterior
from bayesfield.types import FloatArray, InvalidInput

USUAL = ("strength", "expected_influence", "closeness")
_SHORTEST = 1e-12  # |λ| below which two variables are not joined


def centrality(
    posterior: Posterior,
    measures: Sequence[str] = USUAL,
    *,
    level: float = 0.95,
    n_draws: int = 500,
    rng: np.random.Generator | int | None = 0,
) -> pd.DataFrame:
    """A row for each measure and variable: mean, sd and central interval over draws of the posterior.

    measures: of "strength", "expected_influence", "closeness" and "betweenness" (slow on large networks). All edges of
    the field count, as strong as they are in each draw; for a field of fewer edges fit one that has those only.
    """
    require_posterior(posterior)
    unknown = [m for m in measures if m not in MEASURES]
    if unknown or not measures:
        raise InvalidInput(f"measures are {', '.join(MEASURES)}; got {list(measures)}")
    if not 0.0 < level < 1.0 or n_draws < 2:
        raise InvalidInput(f"level lies between 0 and 1, n_draws is 2 or more; got {level} and {n_draws}")
    edges, field = edges_of(posterior.field), posterior.field
    if any(len(e.parameters) != 1 for e in edges):
        raise InvalidInput("centrality is of networks with one coupling for each edge; these edges have several")
    names = list(getattr(field, "names", ()))
    points = posterior.sample(n_draws, rng)
    networks = np.zeros((n_draws, len(names), len(names)))
    for e in edges:
        networks[:, e.first, e.second] = networks[:, e.second, e.first] = points[:, e.parameters[0]]
    return pd.concat([_rows(m, names, MEASURES[m](networks), level) for m in measures], ignore_index=True)


def _rows(measure: str, names: Sequence[str], found: FloatArray, level: float) -> pd.DataFrame:
    """found: (draws, n)."""
    tail = (1.0 - level) / 2
    lower, upper = np.quantile(found, [tail, 1.0 - tail], axis=0)
    columns = {"mean": found.mean(axis=0), "sd": found.std(axis=0, ddof=1), "lower": lower, "upper": upper}
    return pd.DataFrame({"measure": measure, "variable": list(names), **columns})


def _strength(networks: FloatArray) -> FloatArray:
    result: FloatArray = np.abs(networks).sum(axis=2)
    return result


def _expected_influence(networks: FloatArray) -> FloatArray:
    result: FloatArray = networks.sum(axis=2)
    return result


def _lengths(network: FloatArray) -> FloatArray:
    """(n, n) 1 / |λ|, infinite where there is no edge."""
    size = np.abs(network)
    return np.where(size > _SHORTEST, 1.0 / np.maximum(size, _SHORTEST), np.inf)


def _closeness(networks: FloatArray) -> FloatArray:
    result = np.zeros(networks.shape[:2])
    for s, network in enumerate(networks):
        far = csgraph.shortest_path(csgraph.csgraph_from_dense(_lengths(network), null_value=np.inf), directed=False)
        total = far.sum(axis=1)
        result[s] = np.where(np.isfinite(total) & (total > 0), (len(network) - 1) / np.maximum(total, _SHORTEST), 0.0)
    return result


def _betweenness(networks: FloatArray) -> FloatArray:
    result = np.zeros(networks.shape[:2])
    for s, network in enumerate(networks):
        lengths = _lengths(network)
        graph = nx.Graph()
        graph.add_nodes_from(range(len(network)))
        first, second = np.nonzero(np.triu(np.isfinite(lengths), 1))
        graph.add_weighted_edges_from(zip(first, second, lengths[first, second], strict=True))
        result[s] = list(nx.betweenness_centrality(graph, weight="weight").values())
    return result


MEASURES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "strength": _strength,
    "expected_influence": _expected_influence,
    "closeness": _closeness,
    "betweenness": _betweenness,
}
