"""From labelled sequences to the posterior of a chain CRF. Inference on chains is exact."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesfield.correction.second_order import CorrectionRecord, correction_record, mean_shift
from bayesfield.correction.skewness import MOST, marginal_skewness
from bayesfield.correction.variational import FEW, MANY, variational
from bayesfield.fitting.fields import ROUGH, Settings, fit_objective
from bayesfield.fitting.optimum import Corrected, checked_start, fit_record, resolved, warn_of
from bayesfield.fitting.plan import timed
from bayesfield.fitting.prior_learning import adapted
from bayesfield.inference.by_name import as_engine
from bayesfield.inference.contract import Engine
from bayesfield.learning.baselines.expectation_propagation import expectation_propagation
from bayesfield.learning.phases.chain import ChainObjective, graph_objective
from bayesfield.learning.phases.hidden_chain import sequence_objective
from bayesfield.learning.phases.sharded import ShardedObjective, sharded_objective
from bayesfield.learning.precision.forms import Precision
from bayesfield.learning.search.minimise import Optimum, Watch, lbfgs, newton
from bayesfield.learning.search.starts import best_of, sequence_points
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.model.graphs import Graphs, as_graphs
from bayesfield.model.partitions import SequenceFiles
from bayesfield.model.prior import Prior, as_prior
from bayesfield.posterior.posterior import Posterior, reason_for_refusal
from bayesfield.response.base import require_dense
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput, Status

_DENSE = 5000  # parameters up to which the precision is dense
_DEAR = 10.0  # seconds of one curvature, beyond which L-BFGS finds the mode
_AFFORDABLE = 30.0  # seconds of a correction
_STEPS = 12  # of the variational correction, more or less
_EXACT = "Chain()"


def fit_sequences(
    crf: CRF,
    X: Sequence[Any] | Sequences | SequenceFiles,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    *,
    Z: Sequence[Any] | None = None,
    client: Any = None,
    method: str = "auto",
    correction: str = "auto",
    form: str = "auto",
    start: FloatArray | None = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 500,
    rng: np.random.Generator | int | None = 0,
    watch: Watch | None = None,
) -> Posterior:
    """The Gaussian posterior of a chain CRF's parameters.

    X: a (T, D) array for each sequence, dense or sparse; y: its labels, each of which may be None (not known) or a set
    (one of these): what is open is summed over. Z: (T − 1, E) inputs of pairs of neighbours, where the model has any.
    Or X: bf.SequenceFiles. client: a dask.distributed.Client, whose workers keep the sequences (files are read there);
    the same posterior, for data beyond one machine.
    prior: by default Normal(variance=1). method: "newton", "lbfgs", or "auto" by the cost of a curvature; "ep" for
    expectation propagation (learning.expectation_propagation), which has no correction. starts: how many points to
    search from, by default 8 where the model has latent states.
    form: "dense" up to some thousands of parameters, "block" beyond: widths of an input's weights given all others
    (learning.block_precision); "matrix-free" has all correlations, at the price of a conjugate-gradient solve a draw.
    correction, start, tolerance, max_iterations, rng, watch: as in ``bf.fit``.
    """
    begun = time.perf_counter()
    known = as_prior(prior)
    objective, n_cases = _objective(crf, X, y, Z, known, client)
    objective = replace(objective, form=_form(form, crf.n_parameters, objective.labelled))
    cost = _cost(objective)
    chosen = _one_of(method, ("auto", "newton", "lbfgs", "ep"), "method")
    points = sequence_points(objective, checked_start(crf, start), starts, rng)
    minimise = _minimiser(chosen, objective, cost)
    optimum, ended = best_of(
        points,
        lambda p: lbfgs(objective, p, ROUGH, max_iterations, watch),
        lambda p: minimise(objective, p, tolerance, max_iterations, watch),
    )
    found = _Found(objective, optimum, sequence_precision(objective, optimum))

    def solve(precision: FloatArray, location: FloatArray, here: FloatArray) -> _Found:
        now = replace(objective, precision=precision, location=location, tails=known.tails(crf))
        again = minimise(now, here, tolerance, max_iterations, watch)
        return _Found(now, again, sequence_precision(now, again))

    learned = None
    if known.learned(crf) or known.tails(crf) is not None:
        found, learned = adapted(known, crf, found, solve)
    if chosen == "ep":
        found, corrected = _propagated(found.objective, found.optimum)
    else:
        chosen = minimise.__name__
        corrected = _correct(found, _kind(correction, cost, objective), np.random.default_rng(rng))
    response = "ExpectationPropagation()" if chosen == "ep" else _EXACT
    record = fit_record(found, corrected, (_EXACT, response, chosen), n_cases, time.perf_counter() - begun)
    record = replace(record, starts=ended, prior=learned)
    posterior = Posterior(
        crf,
        corrected.mean,
        corrected.precision,
        record,
        found.optimum.parameters,
        found.objective,
        corrected.skewness,
        None if chosen == "ep" else found.precision,
        resolved(known, found.objective),
    )
    warn_of(record)
    return posterior


def fit_graphs(
    crf: CRF,
    X: Sequence[Any] | Graphs,
    y: Sequence[Any] | None = None,
    prior: Prior | None = None,
    engine: Engine | str | None = None,
    response: Engine | str | None = None,
    *,
    method: str = "auto",
    correction: Any = "auto",
    form: Any = "auto",
    start: FloatArray | None = None,
    starts: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    rng: np.random.Generator | int | None = 0,
    watch: Watch | None = None,
) -> Posterior:
    """The Gaussian posterior of a CRF's parameters from labelled graphs of any shape, by any engine.

    X: (node_features, edges) or (node_features, edges, edge_features) for each graph; y: the labels of its nodes, None
    where one is not known.
    engine and the rest: as in ``bf.fit``. Trees are fitted exactly.
    """
    data = X if isinstance(X, Graphs) else as_graphs(crf, X, y)
    known = as_prior(prior)
    objective = graph_objective(crf, data, known, as_engine(engine))
    given = None if engine is None else objective.engine
    curved = None if response is None else as_engine(response)
    _one_of(method, ("auto", "newton", "lbfgs"), "method")
    settings = Settings(method, form, start, tolerance, max_iterations, watch, starts)
    return fit_objective(crf, objective, len(data), known, given, curved, settings, correction, rng)


SequenceObjective = ChainObjective | ShardedObjective


def sequence_plan(
    crf: CRF, X: Any, y: Sequence[Any] | None, prior: Prior, method: str, correction: str, form: str
) -> tuple[ChainObjective, str, str]:
    """What ``fit_sequences`` would minimise, how, and the correction that it would make."""
    objective, _ = _objective(crf, X, y, None, prior, None)
    assert isinstance(objective, ChainObjective)
    objective = replace(objective, form=_form(form, crf.n_parameters, objective.labelled))
    cost = _cost(objective)
    return objective, _minimiser(method, objective, cost).__name__, _kind(correction, cost, objective)[0]


def _minimiser(method: str, objective: SequenceObjective, cost: "_Cost") -> Callable[..., Optimum]:
    affordable = objective.form == "dense" and cost.curvature < _DEAR
    return newton if method == "newton" or (method != "lbfgs" and affordable) else lbfgs


def _objective(
    crf: CRF, X: Any, y: Sequence[Any] | None, Z: Sequence[Any] | None, prior: Prior, client: Any
) -> tuple[SequenceObjective, int]:
    """The objective, here or on a client's workers, and how many sequences it has."""
    if isinstance(X, SequenceFiles) and (y is not None or Z is not None):
        raise InvalidInput("bf.SequenceFiles hold the labels; y and Z are for sequences in memory")
    if isinstance(X, SequenceFiles) and client is not None:
        spread = sharded_objective(crf, X, prior, client)
        return spread, sum(spread.cases)
    data = X if isinstance(X, Sequences) else X.all(crf) if isinstance(X, SequenceFiles) else as_sequences(crf, X, y, Z)
    if client is not None:
        return sharded_objective(crf, data, prior, client), len(data)
    return sequence_objective(crf, data, prior), len(data)


@dataclass(frozen=True, eq=False)
class _Found:
    objective: SequenceObjective
    optimum: Optimum
    precision: Precision

    @property
    def inference(self) -> Status:
        return self.optimum.point.marginals.status


def _propagated(objective: SequenceObjective, optimum: Optimum) -> tuple["_Found", Corrected]:
    if isinstance(objective, ShardedObjective):
        raise InvalidInput("expectation propagation runs in one process; leave client out")
    if not objective.labelled:
        raise InvalidInput("expectation propagation needs all labels, and some are open")
    mean, precision, status = expectation_propagation(objective, optimum.parameters)
    joined = optimum if not optimum.status.converged else replace(optimum, status=status)
    record = correction_record("expectation propagation", optimum.parameters, precision, mean, precision)
    return _Found(objective, joined, precision), Corrected(mean, precision, record, None)


@dataclass(frozen=True)
class _Cost:
    """Seconds of a gradient and of a curvature: one of each kind of pass is timed, the rest is their number."""

    gradient: float
    curvature: float


def _cost(objective: SequenceObjective) -> _Cost:
    gradient, point = timed(lambda: objective.at(objective.location))
    few = min(8, objective.crf.n_parameters)
    directions = np.eye(objective.crf.n_parameters, few)
    product, _ = timed(lambda: objective.response(point).product(directions))
    return _Cost(gradient, product * objective.crf.n_parameters / max(few, 1))


def sequence_precision(objective: SequenceObjective, optimum: Optimum) -> Precision:
    """P at the optimum; where it is not positive definite, an error with the parameters named."""
    try:
        return objective.posterior_precision(optimum.point)
    except IndefiniteCurvature as error:
        matrix = objective.curvature(optimum.point) if objective.form == "dense" else None
        why = reason_for_refusal(objective.crf, matrix, str(error))
        raise IndefiniteCurvature(f"no posterior: {why}. The optimisation ended as: {optimum.status}") from None


def _form(form: str, size: int, labelled: bool) -> str:
    _one_of(form, ("auto", "dense", "matrix-free", "block"), "form")
    if form == "auto":
        form = "dense" if size <= _DENSE else "block" if labelled else "matrix-free"
    if form == "dense":
        require_dense(size, "a posterior", 'Take form="matrix-free".')
    return form


def _kind(correction: str, cost: _Cost, objective: SequenceObjective) -> tuple[str, str]:
    """The correction to make, and why. About 12 steps, each with gradients, and mostly curvatures, at all draws."""
    _one_of(correction, ("auto", "none", "mean", "variational"), "correction")
    if objective.form == "block":
        if correction in ("mean", "variational"):
            raise InvalidInput(
                f'correction={correction!r} needs all of the precision; take form="matrix-free" or "dense"'
            )
        return "none", "widths by blocks are too rough to correct by"
    if correction != "auto":
        return correction, ""
    size = objective.crf.n_parameters
    refined = _STEPS * (4 * min(max(size, 64), 160) * (cost.gradient + (cost.curvature if size <= MANY else 0.0)))
    refined += _STEPS * 4 * FEW * cost.curvature
    if objective.form == "dense" and refined < _AFFORDABLE:
        return "variational", ""
    shifted = 800 * cost.gradient
    if shifted < _AFFORDABLE:
        return "mean", f"the variational one would take about {refined:.0f} s"
    return "none", f"a shift of the mean would take about {shifted:.0f} s"


def _correct(found: _Found, kind: tuple[str, str], rng: np.random.Generator) -> Corrected:
    objective, mode, precision = found.objective, found.optimum.parameters, found.precision
    name, reason = kind
    if name == "none" or not len(mode) or not found.optimum.status.converged:
        return Corrected(mode, precision, CorrectionRecord("none", reason=reason), None)
    if name == "mean":
        mean, record = mean_shift(objective.slope, mode, precision, rng)
    else:
        mean, precision, record = variational(objective, objective, mode, precision, rng)
    small = len(mode) <= MOST
    skewness = marginal_skewness(objective, mean, precision) if small else None
    return Corrected(mean, precision, replace(record, reason=reason), skewness)


def _one_of(given: str, names: tuple[str, ...], what: str) -> str:
    if given not in names:
        raise InvalidInput(f"{what} is one of {', '.join(names)}; got {given!r}")
    return given
