"""What fits in half a minute: which correction, and when curvature is too dear. Rough costs, measured on one core."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from bayesfield.correction.variational import draws_and_bends
from bayesfield.graph.structure import Graph
from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.jit import compiling
from bayesfield.learning.objective import FieldObjective
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.response.base import require_dense
from bayesfield.types import InvalidInput

DENSE = 4000  # parameters up to which the precision is dense …
SMALL = 1500  # … where the sparse form would do as well: it is 8 times faster at 1,160 parameters, 60 times at 4,720
SAMPLED_NEWTON = "sampled newton"  # what a search by the sampled engine is called
SAMPLED = 3000  # parameters up to which the sampled engine, whose covariance is dense, stands in for another
DEAR = 2e9  # table entries times parameters: about 10 s for the exact covariance
DEAR_FIT = 60.0  # seconds of an exact fit, beyond which sampling is the quicker way to a checked one
_TRIES, _BRIEF = 6, 0.2  # how often a step is timed, and seconds after which no more …
_LONG = 2.0  # … or of the first time
_COMPILED = 0.1  # of the first time that may have gone into compiling, for it to count
_AFFORDABLE = 30.0  # seconds
_NEWTON = 8  # steps of a search for the mode
_STEPS = 6  # natural-gradient steps
_DRAWS = 640  # slopes that each of them takes, at most
_SAMPLED = 2000  # parameters up to which the sampled variational correction is taken

T = TypeVar("T")


def picked(objective: FieldObjective, auto: Auto) -> tuple[Bethe | Exact | Kikuchi, str]:
    """The engine that a fit begins with, by its cost, and why."""
    graph = objective.field.graph
    engine, reason = auto.choose(graph)
    if isinstance(engine, Exact) and len(objective.statistic) <= SAMPLED:
        long = exact_fit(objective, engine)
        if long > DEAR_FIT:
            engine, reason = replace(auto, max_entries=0).choose(graph)
            reason = f"{reason.partition(':')[0]}: an exact fit would take about {long:.0f} s"
    return engine, reason


def search_method(objective: FieldObjective, method: str) -> str:
    """Newton, unless one covariance (F directions through all tables) takes some ten seconds or more."""
    if isinstance(objective.engine, Sampled):
        return SAMPLED_NEWTON
    if method != "auto":
        return method
    if objective.form == "sparse":
        return "newton"
    work = sum(objective.engine.preview(graph).entries for graph in objective.graphs) * len(objective.statistic)
    return "lbfgs" if work > DEAR else "newton"


def correction_kind(objective: FieldObjective, curved: FieldObjective, wanted: str, explicit: bool) -> tuple[str, str]:
    """The correction to make, and why. explicit: the engine was given by the user, not chosen."""
    if wanted not in ("auto", "none", "mean", "variational"):
        raise InvalidInput(f'correction is "auto", "none", "mean" or "variational"; got {wanted!r}')
    if wanted != "auto":
        return wanted, ""
    if not objective.weight:
        return "none", "there are no data"
    if curved is not objective or (explicit and isinstance(objective.engine, Bethe)):
        return "none", "as in the paper"
    size = len(objective.statistic)
    if isinstance(objective.engine, Sampled):
        holes = sum(_seconds_on(graph, Auto(), size)[0] for graph in objective.graphs[1:])
        if holes * _STEPS * _DRAWS > _AFFORDABLE:
            return "mean", f"the variational one would take about {holes * _STEPS * _DRAWS:.0f} s for the holes alone"
        return ("variational", "") if size <= _SAMPLED else ("mean", "too many parameters for more")
    once, bent = seconds(objective.engine, objective)
    draws, bends = draws_and_bends(size, dense=objective.form == "dense")
    if objective.form != "dense":
        bent = 100 * bent
    refined = _STEPS * (draws * once + bends * bent)
    if refined < _AFFORDABLE:
        return "variational", ""
    shifted = 2 * min(size, 400) * once
    if shifted < _AFFORDABLE:
        return "mean", f"the variational one would take about {refined:.0f} s"
    return "none", f"a shift of the mean would take about {shifted:.0f} s"


def precision_form(wanted: str, objective: FieldObjective, engine: Engine) -> str:
    """The form of the precision, with what this engine can do."""
    if wanted not in ("auto", "dense", "sparse", "matrix-free"):
        raise InvalidInput(f'form is "auto", "dense", "sparse" or "matrix-free"; got {wanted!r}')
    size = len(objective.statistic)
    whole = not isinstance(objective, HiddenObjective)  # a difference of two sparse forms has none
    local = whole and isinstance(engine, Auto | Bethe | Kikuchi) and objective.precision.ndim == 1
    small = size <= (SMALL if local else DENSE)
    if wanted == "dense" or (wanted == "auto" and small) or isinstance(engine, Sampled):
        require_dense(size, "a posterior", 'Tie parameters, fit a smaller field, or take form="matrix-free".')
        return "dense"
    if wanted == "auto":
        return "sparse" if local else "matrix-free"
    return wanted


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what came of it. What is quick is tried again, and the quickest counts: a machine that does
    something else must not decide how a fit goes. Beside other work the clock runs on while this waits, so the
    processor's time counts where it is less; on several cores it is more, and then the clock counts. What compiled for
    a good part of its time does not count at all."""
    spent: list[float] = []
    fresh = True
    while len(spent) < _TRIES:
        begun, worked = time.perf_counter(), time.process_time()
        with compiling() as lost:
            found = call()
        taken = time.perf_counter() - begun
        if fresh and sum(lost) > _COMPILED * taken:
            fresh = False
            continue
        spent.append(min(taken, time.process_time() - worked))
        if sum(spent[1:]) > _BRIEF or spent[0] > _LONG:
            break
    return min(spent), found


def exact_fit(objective: FieldObjective, engine: Engine) -> float:
    """About how many seconds a search for the mode takes by exact inference."""
    once, bent = seconds(engine, objective)
    return _NEWTON * (once + bent)


def seconds(engine: Engine, objective: FieldObjective) -> tuple[float, float]:
    """About how long one inference and one covariance take."""
    each = np.array([_seconds_on(graph, engine, len(objective.statistic)) for graph in objective.graphs])
    once, bent = each.sum(axis=0)
    return float(once), float(bent)


def _seconds_on(graph: Graph, engine: Engine, size: int) -> tuple[float, float]:
    if isinstance(engine, Auto):
        engine = engine.choose(graph)[0]
    entries = float(engine.preview(graph).entries)
    if isinstance(engine, Kikuchi):
        return 1e-3 + 1.5e-5 * entries, 1e-3 + 2e-5 * entries + 2e-9 * size * size
    if isinstance(engine, Bethe):
        return 1e-4 + 1e-6 * entries, 3e-3 + 5e-7 * entries + 1e-9 * size * size
    return 5e-5 + 5e-8 * entries, 3e-4 + 2e-8 * entries * size
