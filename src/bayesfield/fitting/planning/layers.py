"""Fields of two layers, one of them hidden, that are too large for a sum over the smaller one: who learns them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bayesfield.graph.layers import SeenLayer
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.small_layer import SmallLayer
from bayesfield.learning.layers.ascent import LayerChains
from bayesfield.learning.layers.coordinates import Coordinates

if TYPE_CHECKING:
    from bayesfield.fitting.planning.request import Request
    from bayesfield.learning.objective import Objective


def by_layers(objective: Objective, request: Request) -> tuple[Objective, Request]:
    """The same, with ``LayerChains`` where "auto" stands for it; by sizes alone.

    Chains then stand for the free phase, too: a junction tree of such a field is not even looked for.
    """
    asked = request.method == "auto" or isinstance(request.method, LayerChains)
    if not asked or not request.by_itself or not objective.weight or request.form not in ("auto", "mean-field"):
        return objective, request
    layer = getattr(objective.data, "clamped", None)
    if not isinstance(layer, SeenLayer) or not objective.free.samples:
        return objective, request
    if isinstance(request.method, LayerChains):
        return objective.with_engine(Sampled()), request
    if SmallLayer().fits(layer.field.graph) or Coordinates.of(layer, objective.prior) is None:
        return objective, request
    moves = 0 if request.correction == "none" else None
    seed = int(request.rng) if isinstance(request.rng, int) else 0
    return objective.with_engine(Sampled()), replace(request, method=LayerChains(moves=moves, seed=seed))
