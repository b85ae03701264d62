"""The mode of a field of two large layers by persistent chains, and its posterior by Langevin moves from there.

∇L = N (E_chains[f] − f̄) + Λ⁻¹(λ − μ), with f̄ over a part of the cases, the hidden layer summed out, and E over chains
that go on from step to step (Younes 1988; Tieleman 2008), each moving whole layers. Steps to the mode are Adam's
(Kingma & Ba 2015) in centred coordinates, their length falling to zero over the second half.

Then, from the mode, with D about diag(∇²L)⁻¹ in these coordinates and a step ε,

    λ ← λ − ½ ε D ∇L + √(ε D) ξ,

whose draws are those of the posterior up to order ε (Welling & Teh 2011): the step's length widens a direction of
curvature p by the factor 1 / √(1 − ε D p / 4), and noise of the slope by some ε N (1/M + 1/B) / 8, for M chains and B
cases. Several runs, each with chains of its own, tell whether they have forgotten the mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesfield import parallel
from bayesfield.graph.layers import SeenLayer
from bayesfield.inference.sampling.annealing import Single, layer_pass
from bayesfield.learning.layers.coordinates import Coordinates, LayerParameters, coordinates
from bayesfield.learning.objective import Point
from bayesfield.learning.precision.mean_field import DiagonalPrecision
from bayesfield.learning.search.learner import Drawn, Learned, Learner, Request
from bayesfield.learning.search.optimum import QUIET, Iteration, Optimum, Progress
from bayesfield.types import FloatArray, IndefiniteCurvature, InvalidInput, Options, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective

_BATCH, _MOST_BATCH = 200, 700  # cases and chains of a step; of a Langevin move
_WORK = 3e12  # operations of either part, about: two minutes of one core …
_LEAST_STEPS = 3000  # … but so many steps at least
_RUNS, _BURN = 4, 0.3  # Langevin runs, and the share of each that is left out
_NUMBERS = 8_000_000  # of all draws that are kept
_FIRST, _SECOND, _TINY = 0.9, 0.999, 1e-8  # Adam's
_SECONDS = 5e-11  # of an operation
_WARM = 50  # passes of the chains before the first Langevin move, and before slopes are counted
_PASSES, _MOST_LOOKED_AT = 150, 5000  # passes of each half of a look at the slope, and cases of each of them
_NEAR = 1.0  # sd: slope up to which a search has ended at an optimum
_BRIEF, _BRISK = 2500, 0.05  # steps to where a search by sums begins, and their length
_BEST = 3  # of such points that are searched from
_TOLD = 100  # steps that are told of
_ARRIVED = 0.5  # sd: difference of the halves of the runs (rms, beyond its noise) up to which they have arrived


@dataclass(frozen=True, repr=False)
class LayerChains(Options, Learner):
    """Learn a field of two layers, one of them hidden, however large: ``bf.fit(..., method=bf.LayerChains())``.

    ``method="auto"`` takes it where the smaller layer is too large to be summed over. steps: to the mode. moves: of
    Langevin runs, all four together; by default as many as some minutes allow, 0 for the mode alone. rate: the length
    of the steps to the mode. move: ε, that of Langevin moves. draws: how many are kept. seed: of everything.
    """

    steps: int = 15_000
    moves: int | None = None
    rate: float = 0.01
    move: float = 0.1
    draws: int = 400
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1 or self.draws < 2 * _RUNS or (self.moves is not None and self.moves < 0):
            raise InvalidInput(f"LayerChains takes at least 1 step and {2 * _RUNS} draws; got {self!r}")
        if not 0.0 < self.rate < 1.0 or not 0.0 < self.move < 1.0:
            raise InvalidInput(f"rate and move lie between 0 and 1; got {self.rate} and {self.move}")

    name = "layer chains"
    own_precision = True
    takes_hidden = True
    weighted = True
    drawn = True

    def form_of(self, near: Objective, asked: str) -> str:
        return "mean-field"

    def work(self, near: Objective) -> tuple[tuple[str, float], ...]:
        layer = seen_layer_of(near)
        each, batch = _SECONDS * _operations(layer), _batch(layer)
        climb = _BATCH * each * _count(self.steps, _BATCH * _operations(layer))
        return ("the search", climb), ("the draws", batch * each * self._moves(layer))

    def _moves(self, layer: SeenLayer) -> int:
        return _count(20_000, _batch(layer) * _operations(layer)) if self.moves is None else self.moves

    def learn(self, objective: Objective, request: Request) -> Learned:
        layer = seen_layer_of(objective)
        at = coordinates(layer, objective.prior)
        with parallel.single_blas():
            walk = Walk(layer, at, self.seed, request.progress)
            mode = walk.climbed(at.from_parameters(request.start) if request.start is not None else None, self)
            expired, moves, left = request.progress.expired, self._moves(layer), walk.left(mode)
            drawn = None if expired or not moves else langevin(walk, mode, moves, self)
        parameters = at.to_parameters(mode)
        status = Status(Outcome.SAMPLED, detail="persistent chains, moved layer by layer")
        point = Point(parameters, float("nan"), np.full(len(parameters), np.nan), status)
        outcome = Outcome.TIME_UP if expired else Outcome.OPTIMUM if left <= _NEAR else Outcome.NO_OPTIMUM
        detail = f"by persistent chains, to {left:.2f} sd (rms) by the slope that is left"
        ended = Status(outcome, self.steps, left, detail=detail)
        optimum = Optimum(point, ended, tuple(walk.log))
        if drawn is None:
            precision = DiagonalPrecision(at.curvature(walk.curvature(mode)))
            return Learned(optimum, precision, ("widths are those of each parameter given all others, at the mode",))
        return Learned(optimum, DiagonalPrecision(1.0 / drawn.points.var(axis=0, ddof=1)), (), drawn=drawn)


def seen_layer_of(objective: Objective) -> SeenLayer:
    layer = getattr(objective.data, "clamped", None)
    if not isinstance(layer, SeenLayer):
        raise InvalidInput(
            "LayerChains learns fields of two layers of binary variables, one of them seen whole and the other hidden, "
            'such as bf.restricted_boltzmann; take method="auto"'
        )
    return layer


def _operations(layer: SeenLayer) -> float:
    """Of one case or chain in one step: some six products with W, and the chances of both layers."""
    V, H = float(len(layer.seen)), float(len(layer.hidden))
    return 12.0 * V * H + 200.0 * (V + H)


def _count(most: int, each: float) -> int:
    return int(np.clip(_WORK / each, min(_LEAST_STEPS, most), most))


def _batch(layer: SeenLayer) -> int:
    return int(min(layer.often.sum(), _MOST_BATCH))


def layer_starts(objective: Objective, count: int | None, seed: int) -> list[FloatArray] | None:
    """Points near modes of their own, by short ways of chains, the best few of so many; None for fields that these do
    not learn."""
    layer = getattr(objective.data, "clamped", None)
    at = Coordinates.of(layer, objective.prior) if isinstance(layer, SeenLayer) else None
    if at is None or not isinstance(layer, SeenLayer):
        return None
    brief, count = LayerChains(steps=_BRIEF, rate=_BRISK), count or 1
    with parallel.single_blas():
        walks = [Walk(layer, at, seed + k, QUIET) for k in range(count)]
        points = [at.to_parameters(walk.climbed(None, brief)) for walk in walks]
    if count > _BEST and objective.has_log_z:
        points.sort(key=lambda point: objective.at(point).value)
    return points[:_BEST] if count > _BEST else points


# --- to the mode ----------------------------------------------------------------------------------------------------


class Walk:
    """Chains of a layer's field, and slopes by them. log: what was told."""

    def __init__(self, layer: SeenLayer, at: Coordinates, seed: int, progress: Progress) -> None:
        self.layer, self.at, self.progress = layer, at, progress
        self.rng = np.random.default_rng(seed)
        self.cases = layer.x.astype(np.float32)
        self.total = float(layer.often.sum())
        self._edges = np.cumsum(layer.often)
        self.x = layer.often @ layer.x / self.total
        joined = np.zeros((len(layer.layers.large), len(layer.layers.small)))
        joined[layer.layers.row, layer.layers.column] = 1.0
        self.joined = joined.T if layer.flipped else joined
        self.log: list[Iteration] = []

    def some(self, count: int) -> Single:
        """Cases at random, by what they count for; each once where all are asked for and count alike."""
        if count >= len(self.cases) and bool((self.layer.often == 1.0).all()):
            every: Single = self.cases
            return every
        rows = np.searchsorted(self._edges, self.rng.random(count) * self._edges[-1], side="right")
        some: Single = self.cases[np.minimum(rows, len(self.cases) - 1)]
        return some

    def begin(self) -> LayerParameters:
        """Each seen variable as often 1 as in the data, and small random couplings."""
        share = (self.x * self.total + 0.5) / (self.total + 1.0)
        V, H = self.joined.shape
        joint = self.joined * self.rng.standard_normal((V, H)) * (0.4 / np.sqrt(V))
        return LayerParameters(np.log(share / (1.0 - share)), -(share @ joint), joint)

    def slope(
        self, here: LayerParameters, seen: Single, chains: Single, h: FloatArray
    ) -> tuple[LayerParameters, Single, FloatArray]:
        """∇ of −log p(D) / N at (a, b, W) in centred coordinates; the chains after a pass; the hidden layer's means."""
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks whether numbers are finite
            a, b, W = (part.astype(np.float32) for part in here)
        chains = layer_pass(chains, a, b, W, self.rng)
        active, free = expit(seen @ W + b), expit(chains @ W + b)
        B, M = len(seen), len(chains)
        seen_mean, free_mean = seen.mean(axis=0, dtype=np.float64), chains.mean(axis=0, dtype=np.float64)
        mean, free_h = active.mean(axis=0, dtype=np.float64), free.mean(axis=0, dtype=np.float64)
        joint = (chains.T @ free).astype(np.float64) / M - (seen.T @ active).astype(np.float64) / B
        found = LayerParameters(free_mean - seen_mean, free_h - mean, joint * self.joined)
        return found.slope_centred(self.x, h), chains, mean

    def climbed(self, start: LayerParameters | None, options: LayerChains) -> LayerParameters:
        """The mode: Adam in centred coordinates, (a, b, W) moving by what these say."""
        here = self.begin() if start is None else start
        batch = int(min(self.total, _BATCH))
        chains, h = self.some(batch).copy(), np.full(self.joined.shape[1], 0.5)
        first = second = LayerParameters(*(np.zeros_like(part) for part in here))
        steps = _count(options.steps, batch * _operations(self.layer))
        for k in range(1, steps + 1):
            slope, chains, mean = self.slope(here, self.some(batch), chains, h)
            h = 0.99 * h + 0.01 * mean
            slope = slope.plus(self.at.pull(here).slope_centred(self.x, h), 1.0 / self.total)
            first = LayerParameters(*(_FIRST * m + (1 - _FIRST) * g for m, g in zip(first, slope, strict=True)))
            second = LayerParameters(*(_SECOND * v + (1 - _SECOND) * g**2 for v, g in zip(second, slope, strict=True)))
            length = options.rate * min(1.0, 2.0 * (1.0 - k / steps)) / (1.0 - _FIRST**k)
            scale = 1.0 - _SECOND**k
            moved = LayerParameters(
                *(-length * m / (np.sqrt(v / scale) + _TINY) for m, v in zip(first, second, strict=True))
            )
            here = here.plus(LayerParameters(moved.seen, moved.hidden, moved.joint * self.joined).uncentred(self.x, h))
            if k % max(steps // _TOLD, 1) == 0:
                self.tell(slope)
                if self.progress.expired:
                    break
        return here

    def left(self, here: LayerParameters) -> float:
        """How far the slope says that the optimum is: in sds of each parameter given all others, rms.

        By the product of two halves of the passes, so that their noise does not add.
        """
        h, chains = self.hidden_means(here), self.some(_batch(self.layer)).copy()
        sums = np.zeros((2, sum(part.size for part in here)))
        for k in range(-_WARM, 2 * _PASSES):
            slope, chains, _ = self.slope(here, self.some(_MOST_LOOKED_AT), chains, h)
            if k >= 0:
                sums[k // _PASSES] += _flat(slope)
        pull = _flat(self.at.pull(here).slope_centred(self.x, h))
        away = (self.total * sums / _PASSES + pull) * np.sqrt(_flat(self.spread(here)))
        return float(np.sqrt(max(float(np.mean(away[0] * away[1])), 0.0)))

    def hidden_means(self, here: LayerParameters) -> FloatArray:
        """How often each hidden variable is 1 in the cases."""
        active = expit(self.cases @ here.joint.astype(np.float32) + here.hidden.astype(np.float32))
        return np.asarray(self.layer.often @ active / self.total, dtype=np.float64)

    def ridge(self, here: LayerParameters) -> float:
        """Of the prior, in centred coordinates: the geometric mean."""
        return float(np.exp(np.log(self.at.curvature(LayerParameters(*(0.0 * part for part in here)))).mean()))

    def spread(self, here: LayerParameters) -> LayerParameters:
        """About the variance of each parameter given all others, in centred coordinates."""
        ridge = self.ridge(here)
        return LayerParameters(*(1.0 / (part + ridge) for part in self.curvature(here)))

    def tell(self, slope: LayerParameters) -> None:
        largest = self.total * max(float(np.abs(part).max(initial=0.0)) for part in slope)
        self.log.append(Iteration(len(self.log), float("nan"), largest, float("nan"), float("nan")))
        self.progress.tell(self.log[-1])

    def curvature(self, here: LayerParameters) -> LayerParameters:
        """About the diagonal of the likelihood's curvature in centred coordinates, N Var(x_i) Var(h_j)."""
        h = self.hidden_means(here)
        spread_x = np.maximum(self.x * (1.0 - self.x), 1.0 / self.total)
        spread_h = np.maximum(h * (1.0 - h), 1.0 / self.total)
        return LayerParameters(
            self.total * spread_x, self.total * spread_h, self.total * np.multiply.outer(spread_x, spread_h)
        )


def _flat(parts: LayerParameters) -> FloatArray:
    return np.concatenate([np.ravel(part) for part in parts])


def expit(logits: Single) -> Single:
    with np.errstate(over="ignore"):
        result = np.asarray(1.0 / (1.0 + np.exp(-logits)), dtype=np.float32)
    return result


# --- about the mode -------------------------------------------------------------------------------------------------


def langevin(walk: Walk, mode: LayerParameters, moves: int, options: LayerChains) -> Drawn:
    """Draws of λ from several runs that begin at the mode, and what they are worth."""
    size = len(walk.at.to_parameters(mode))
    each = moves // _RUNS
    kept = max(2, min(options.draws, _NUMBERS // size) // _RUNS)
    runs = np.array([_run(walk, mode, each, kept, options.move) for _ in range(_RUNS)])  # (runs, kept, F)
    points = runs.reshape(-1, size)
    variance = np.maximum(points.var(axis=0), 1e-300)
    error = runs.mean(axis=1).var(axis=0, ddof=1) / _RUNS
    half = kept // 2
    change = runs[:, :half].mean(axis=1) - runs[:, half:].mean(axis=1)
    noise = change.var(axis=0, ddof=1) / _RUNS
    drift = float(np.sqrt(max(float(np.mean((change.mean(axis=0) ** 2 - noise) / variance)), 0.0)))
    effective = float(min(1.0 / max(float(np.mean(error / variance)), 1e-12), len(points)))
    wider = 0.125 * options.move * walk.total * 2.0 / _batch(walk.layer) + 0.125 * options.move
    reason = (
        f"{_RUNS} runs of {each:,} Langevin moves about the mode, whose length and noise widen by about {wider:.0%}"
    )
    return Drawn(points, effective, float(np.sqrt(np.mean(error / variance))), drift < _ARRIVED, reason)


def _run(walk: Walk, mode: LayerParameters, moves: int, kept: int, length: float) -> FloatArray:
    """(kept, F) draws of λ, evenly spread over the moves after a burn-in."""
    batch, rng = _batch(walk.layer), walk.rng
    ridge, spread, h = walk.ridge(mode), walk.spread(mode), walk.hidden_means(mode)
    here, chains = mode, walk.some(batch).copy()
    for _ in range(_WARM):
        a, b, W = (part.astype(np.float32) for part in here)
        chains = layer_pass(chains, a, b, W, walk.rng)
    noisy = 1.0 / batch + (0.0 if batch >= len(walk.cases) else 1.0 / batch)
    share = [np.maximum(1.0 - 0.25 * length * walk.total * noisy * (1.0 - ridge * d), 0.0) for d in spread]
    first, out = int(_BURN * moves), []
    wanted = set(np.linspace(first, moves - 1, kept).astype(np.int64).tolist())
    for k in range(moves):
        slope, chains, _ = walk.slope(here, walk.some(batch), chains, h)
        pull = walk.at.pull(here).slope_centred(walk.x, h)
        moved = LayerParameters(
            *(
                -0.5 * length * d * (walk.total * g + p) + np.sqrt(length * d * own) * rng.standard_normal(d.shape)
                for d, g, p, own in zip(spread, slope, pull, share, strict=True)
            )
        )
        here = here.plus(LayerParameters(moved.seen, moved.hidden, moved.joint * walk.joined).uncentred(walk.x, h))
        if k in wanted:
            out.append(walk.at.to_parameters(here))
            if not np.isfinite(out[-1]).all():
                raise IndefiniteCurvature(
                    f"moves of length {length} have left the posterior: take bf.LayerChains(move={length / 2}), "
                    'or correction="none" for the mode alone'
                )
        if k % max(moves // _TOLD, 1) == 0:
            walk.tell(slope)
    return np.array(out)
