"""Draws of the parameters for ArviZ: an InferenceData with ArviZ 0.x, a DataTree with ArviZ 1.x."""

from typing import Any

import numpy as np

from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.diagnostics import arviz
from bayesfield.formats.xarray import made_by
from bayesfield.posterior.posterior import Posterior
from bayesfield.samplers.draws import Draws
from bayesfield.types import FloatArray, InvalidInput


def to_arviz(draws: Draws | Posterior, n: int = 1000, rng: np.random.Generator | int | None = 0) -> Any:
    """The variable ``parameters`` by chain, draw and name, and the sampler's own figures as sample_stats.

    draws: of ``bf.sample_posterior``, or a posterior of ``bf.fit``, from which four times n independent draws are made.
    One that is made of draws gives so many of them, by their weights, and never more than it has.
    """
    if not isinstance(draws, Draws | Posterior):
        raise InvalidInput(f"this takes draws of bf.sample_posterior, or a posterior of bf.fit; got {draws!r}")
    if n < 1:
        raise InvalidInput(f"n is at least 1; got {n}")
    library = arviz()
    groups: dict[str, dict[str, Any]] = {}
    if isinstance(draws, Posterior):
        marginals = draws.marginals
        if isinstance(marginals, DrawnMarginals):
            n = min(n, max(len(marginals.points) // 4, 1))
        values, maker = draws.sample(4 * n, rng).reshape(4, n, -1), made_by(draws)
    else:
        values, maker = draws.values, draws.sampler
        groups["sample_stats"] = {name: _as_arviz(name, figures) for name, figures in draws.stats.items()}
    groups["posterior"] = {"parameters": values}
    labels: Any = {
        "coords": {"parameter": list(draws.field.parameter_names)},
        "dims": {"parameters": ["parameter"]},
    }
    attributes = {"inference_library": "bayesfield", "made_by": maker}
    if int(library.__version__.split(".")[0]) >= 1:
        filled = {name: group for name, group in groups.items() if group}
        return library.from_dict(filled, attrs={"posterior": attributes}, **labels)
    return library.from_dict(**groups, posterior_attrs=attributes, **labels)


def _as_arviz(name: str, figures: FloatArray) -> Any:
    """ArviZ 0.x takes ``diverging`` for a mask, which it is."""
    return figures.astype(bool) if name == "diverging" else figures
