"""The search for hidden labels on large graphs with one coupling β: chains given the data beside free ones.

1. Stochastic EM: sweeps of the labels given y, the emission from their beliefs, β by the pseudo-likelihood of the
   labels drawn; then β such that free fields have as many equal pairs as labels given y.
2. Newton steps by both chains' means, −∇L = E[s | y] − E[s], and the observed information, I = I_free + I_emission − M,
   M = Cov(s | y) what is missing (Louis 1982), until a step is within the noise.
3. Long runs there: given y, and free at several β over the posterior, whose means tell the curvature of log Z(β). What
   comes of it is log Z of both to second order: the posterior is the Gaussian at its mode.

Chains run as long as their means' noise asks for, in posterior sd, or the budget of counted work ends. Each run is of
two chains that began apart: given y, from the search's labels and from each site's own best; free, from one label and
from labels at random. Where they have not met, the status says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg

from bayesfield.inference.sampling.labels import LabelChain, Run, neighbours
from bayesfield.learning.hidden.expectation import first_labels
from bayesfield.learning.hidden.labelled import LabelledPhase
from bayesfield.learning.phases.graph import GraphPhase
from bayesfield.learning.phases.surface import Polynomial, SurfacePhase
from bayesfield.learning.search.optimum import QUIET, Iteration, Progress
from bayesfield.types import FloatArray, Outcome, Status

if TYPE_CHECKING:
    from bayesfield.learning.hidden.emission import EmissionPhase
    from bayesfield.learning.objective import Objective

_MATCHES, _MATCHED, _SETTLED = 8, 12, 0.01  # times β is matched, steps of EM between, change of β that ends it
_HIGHEST, _HALVINGS, _LOOK = 3.0, 10, 24  # β at most in a match, halvings, and updates of each
_WARM, _EACH = 60, 2  # steps of stochastic EM, and sweeps of each
_FIRST, _WORK, _LOOKS = 40, 3e6, 16  # sweeps of a look by each chain, at least; draws of labels; looks at most
_KEPT, _GROWTH = 0.7, 1.4  # share of earlier looks' sweeps that still counts for curvatures; of longer ones
_OFTEN, _LONG = 300, 1500  # steps of EM between, and sweeps of a first look, at most: small fields take no longer
_APPROACH, _FREE = 0.5, 2  # share of the budget that looks may take; updates of free chains for each sweep
_NEAR = 0.7  # posterior sd: a step that short ends the approach
_LONGEST, _ROOT = 4.0, 1 / 16  # length of a step in sd of the complete data, at most, or for each root of the sites
_LEAST = 0.05  # of the complete data's information that is left at least when the missing one is taken off
_MOST_FREE, _MOSTLY = 8.0, 0.95  # updates of free chains a sweep; share of the noise from which they run alone
_LEAST_SHARE = 0.3  # of the budget that a long run has whatever was spent before
_BLOCK, _BATCHES = 60, 10  # sweeps of each chain between two looks at the noise, and batches that tell it, a chain
_FEWEST = 4 * _BLOCK
_POINTS, _SPREAD = 8, 2.5  # β at which free chains run, and how far they reach, in posterior sd
_SETTLE = 8  # updates at each β before they count
_RADIUS = 1e6  # posterior sd of β within which log Z(β) is followed: it is a parabola
_FAR = 1e6  # scale of the coordinates that log Z(β) does not know
_SWEEP, _CLUSTER = 4.5e-8, 2.5e-8  # seconds a site: of a sweep given y with its sums, and of a free update
_USUAL = 25_000  # sites up to which the engine's budget is for all
_AGAIN, _ASIDE = 2, 2.0  # long runs about another centre, where the mode lies so many posterior sd aside
_APART, _NOISE = 0.3, 4.0  # posterior sd, and times their noise, by which chains that began apart may differ


class Look(NamedTuple):
    """Both kinds of chains at one λ. beliefs: (n, K). same: E[equal pairs], given y. free: the same without y.
    missing: M, (F, F). variance: of equal pairs in the free field. noise: (F, F), covariance of the gradient's own
    error; free_noise: the part of it that free chains leave. apart: (F,) how far gradients of both starts differ."""

    beliefs: FloatArray
    same: float
    free: float
    missing: FloatArray
    variance: float
    noise: FloatArray
    free_noise: float
    apart: FloatArray


@dataclass(eq=False)
class LabelSearch:
    """Chains of an objective of observations: two given y, two free."""

    objective: Objective
    progress: Progress

    def __post_init__(self) -> None:
        phase: EmissionPhase = self.objective.phases[1]  # type: ignore[assignment]
        data = self.objective.data
        arrays = phase.inner.graph.arrays
        self.views, self.model = phase.views, data.model
        self.K, self.n = self.model.law.labels, len(arrays.cardinality)
        self.graph = neighbours(self.n, arrays.scope.reshape(-1, 2))
        self.engine: Any = self.objective.free.engine
        rng = np.random.default_rng(getattr(self.engine, "seed", 0))
        first = first_labels(data.y, self.K, rng)
        kinds = (first, first, np.zeros(self.n), rng.integers(0, self.K, self.n))
        self.chains = [LabelChain(self.graph, self.K, z, int(rng.integers(2**31))) for z in kinds]
        self.spent = 0.0
        self.allowed = getattr(self.engine, "budget", 0.0) * max(self.n / _USUAL, 1.0)

    # --- stochastic EM ----------------------------------------------------------------------------------------------

    def warmed(self) -> FloatArray:
        """Parameters near a mode, labels in the order of their means."""
        chain = self.chains[0]
        soft = np.full((self.n, self.K), 0.1 / self.K)
        soft[np.arange(self.n), chain.z] += 0.9
        eta, beta = self.views.maximised(soft, None), 0.0
        for _ in range(_WARM):
            beta = chain.pseudo_likelihood(beta)
            run = chain.clamped(beta, self.views.tables(eta), None, _EACH)
            eta = self.views.maximised(run.beliefs, eta)
        often = int(np.clip(_WORK / 2 / self.n, _MATCHED, _OFTEN))
        for _ in range(_MATCHES):
            same = chain.clamped(beta, self.views.tables(eta), None, _EACH).same.mean()
            before, beta = beta, self._matched(float(same))
            for _ in range(often):
                run = chain.clamped(beta, self.views.tables(eta), None, _EACH)
                eta = self.views.maximised(run.beliefs, eta)
            self.spent += often * _EACH * _SWEEP * self.n
            if abs(beta - before) < _SETTLED * beta:
                break
        self.spent += _WARM * (_EACH + 2) * _SWEEP * self.n
        order = self.model.emitted.order(eta)
        place = np.argsort(order).astype(np.int8)
        chain.z = place[chain.z]
        return np.concatenate([[beta], eta[self.model.emitted.relabelled(order)]])

    def _matched(self, same: float) -> float:
        """The β at which a free field has so many equal pairs, by halving: images that are no Potts fields have more of
        them at their pseudo-likelihood's β than labels given y, by far."""
        low, high, chain = 0.0, _HIGHEST, self.chains[2]
        for _ in range(_HALVINGS):
            beta = 0.5 * (low + high)
            chain.free(beta, _LOOK // 2)
            enough = chain.free(beta, _LOOK)[:, 0].mean() > same
            low, high = (low, beta) if enough else (beta, high)
        self.spent += 1.5 * _HALVINGS * _LOOK * _CLUSTER * self.n
        return 0.5 * (low + high)

    def settled(self, here: FloatArray) -> FloatArray:
        """The same parameters, once the labels have come to them."""
        self.chains[0].clamped(float(here[0]), self.views.tables(here[1:]), None, _WARM)
        return here

    # --- at one λ ---------------------------------------------------------------------------------------------------

    def look(self, here: FloatArray, sweeps: int, burn: int) -> Look:
        """All chains at one λ for so many sweeps each, after some that do not count."""
        beta, eta = float(here[0]), here[1:]
        tables, slopes = self.views.tables(eta), self.slopes(eta)
        runs = []
        for chain in self.chains[:2]:
            chain.clamped(beta, tables, None, burn)
            runs.append(chain.clamped(beta, tables, slopes, sweeps))
        free = []
        for chain in self.chains[2:]:
            chain.free(beta, _FREE * burn)
            free.append(chain.free(beta, _FREE * sweeps))
        self.spent += 2 * (sweeps + burn) * (_SWEEP + _FREE * _CLUSTER) * self.n
        return self.joined(eta, runs, free)

    def slopes(self, eta: FloatArray) -> FloatArray:
        """∂U_ik by the label's own parameters, (n, K, p), columns side by side."""
        local = self.model.emitted.local(eta)
        parts = [view.directions(own) for view, own in zip(self.views.each, local, strict=True)]
        return np.ascontiguousarray(np.concatenate(parts, axis=2))

    def _scores(self, states: FloatArray) -> FloatArray:
        """s by parameter, (T, F), from the sums by label, (T, 1 + K p)."""
        index = np.concatenate(self.model.emitted.index, axis=1).ravel()
        gather = np.zeros((len(index), self.objective.size - 1))
        gather[np.arange(len(index)), index] = 1.0
        return np.column_stack([states[:, 0], states[:, 1:] @ gather])

    def joined(self, eta: FloatArray, runs: list[Run], free: list[FloatArray]) -> Look:
        scores = [self._scores(run.states) for run in runs]
        missing = np.mean([np.cov(s.T) for s in scores], axis=0)
        beliefs = (runs[0].beliefs + runs[1].beliefs) / 2
        # given y: the same smoothed sums as the means; the states' own series tell their noise from above
        noise: FloatArray = np.sum([_noise(s) for s in scores], axis=0) / 4
        of_free = float(np.sum([_noise(f[:, :1])[0, 0] for f in free])) / 4
        noise[0, 0] += of_free
        ends = [np.concatenate([[r.same.mean()], self.views.under(r.beliefs).slopes(eta)]) for r in runs]
        apart = ends[1] - ends[0]
        apart[0] += free[0][:, 0].mean() - free[1][:, 0].mean()
        same = float(np.mean([r.same.mean() for r in runs]))
        both = np.concatenate(free)
        variance = float(np.mean([f[:, 1].var() for f in free]))
        return Look(beliefs, same, float(both[:, 0].mean()), missing, variance, noise, of_free, apart)

    def step(self, here: FloatArray, look: Look) -> tuple[FloatArray, FloatArray, FloatArray]:
        """∇L, P, and what P would be if the labels were known, at a look."""
        prior, sums = self.objective.prior, self.views.under(look.beliefs)
        gradient = prior.pull(here)
        gradient[0] += look.free - look.same
        gradient[1:] -= sums.slopes(here[1:])
        complete = prior.plus(np.zeros((len(here), len(here))))
        complete[0, 0] += look.variance
        complete[1:, 1:] -= sums.curvature(here[1:])
        return gradient, _at_least(complete - look.missing, complete), complete

    def approach(self, here: FloatArray) -> tuple[FloatArray, tuple[Iteration, ...]]:
        """Newton steps, none longer than the complete data's own sd allow: where much is missing P is small and
        changes quickly. What is missing is averaged over looks, and P gets as much of the complete data's information
        as its noise may have taken: with few sweeps the steps are those of EM."""
        sweeps, log = int(np.clip(_WORK / self.n, _FIRST, _LONG)), []
        longest, known, seen = max(_LONGEST, _ROOT * np.sqrt(self.n)), None, 0.0
        for number in range(_LOOKS):
            look = self.look(here, sweeps, sweeps // 4)
            share = sweeps / (_KEPT * seen + sweeps)
            known = look if known is None else _averaged(known, look, share)
            seen = _KEPT * seen + sweeps
            gradient, P, complete = self.step(here, known)
            step = linalg.solve(P + complete / np.sqrt(seen), gradient, assume_a="pos")
            distance = float(np.sqrt(max(gradient @ linalg.solve(P, gradient, assume_a="pos"), 0.0)))
            log.append(Iteration(number, float("nan"), float(np.abs(gradient).max()), distance, 1.0))
            self.progress.tell(log[-1])
            here = here - step * min(1.0, longest / max(float(np.sqrt(step @ complete @ step)), 1e-300))
            noise = float(np.sqrt(np.trace(linalg.solve(P, look.noise, assume_a="pos"))))
            used_up = self.spent > _APPROACH * self.allowed or self.progress.expired
            if distance < max(_NEAR, 2.0 * noise) or used_up:
                break
            sweeps = int(_GROWTH * sweeps)
        return here, tuple(log)


def _averaged(known: Look, look: Look, share: float) -> Look:
    """A look whose curvatures are averaged with those of looks nearby."""
    missing = (1.0 - share) * known.missing + share * look.missing
    return look._replace(missing=missing, variance=(1.0 - share) * known.variance + share * look.variance)


def labels_start(objective: Objective) -> FloatArray:
    """By stochastic EM alone."""
    return LabelSearch(objective, QUIET).warmed()


def surfaced_labels(objective: Objective, start: FloatArray | None, progress: Progress = QUIET) -> Objective:
    """The objective with phases that chains have made about its mode. start: parameters near it."""
    search = LabelSearch(objective, progress)
    centre, _ = search.approach(search.warmed() if start is None else search.settled(start))
    search.chains[1].z = search.views.tables(centre[1:]).argmax(axis=1).astype(np.int8)
    look, sweeps, error, P = _long(search, centre)
    for _ in range(_AGAIN):
        step = linalg.solve(P, search.step(centre, look)[0], assume_a="pos")
        if float(step @ P @ step) < _ASIDE**2 or search.spent > search.allowed:
            break
        centre = centre - step
        look, sweeps, error, P = _long(search, centre)
    sd = float(1.0 / np.sqrt(P[0, 0] - P[0, 1:] @ linalg.solve(P[1:, 1:], P[1:, 0], assume_a="pos")))
    look = look._replace(variance=_free_curvature(search, float(centre[0]), sd, sweeps))
    gradient, P, _ = search.step(centre, look)
    inverse = linalg.inv(P)
    width = np.sqrt(np.diag(inverse))
    shift = np.abs(inverse @ look.apart) / width
    noisy = _NOISE * np.sqrt(np.diag(inverse @ (4.0 * look.noise) @ inverse)) / width
    aside = float(np.sqrt(max(gradient @ inverse @ gradient, 0.0)))
    figures = np.max(shift / np.maximum(noisy, _APART)), error / (3.0 * search.engine.error), aside / (2.0 * _ASIDE)
    mixing = float(max(figures))
    detail = (
        f"2 chains of labels given the data and 2 free ones, {sweeps:,} sweeps each; the mode is known to {error:.2g} "
        f"posterior sd, and lies {aside:.2g} from where they ran"
    )
    outcome = Outcome.SLOW if mixing > 1.0 else Outcome.SAMPLED
    status = Status(outcome, sweeps, error, detail, mixing=mixing)
    old: GraphPhase = objective.free
    slope = np.zeros(len(centre))
    slope[0], scale = look.free, np.full(len(centre), _FAR)
    scale[0], powers = sd, np.zeros((1, len(centre)), dtype=np.int64)
    powers[0, 0] = 2  # log Z(β) = m (β − β₀) + ½ C (β − β₀)²
    surface = Polynomial(centre, np.diag(scale), slope, _RADIUS, powers, np.array([0.5 * look.variance * sd**2]))
    free = SurfacePhase(old.graph, old.design, old.engine, 1.0, False, surface, status)
    of_free = np.zeros_like(P)
    of_free[0, 0] = look.variance
    observed = objective.prior.plus(of_free) - P  # what P leaves for the labels given y
    clamped = LabelledPhase(old.engine, centre, objective.prior.pull(centre) + slope - gradient, observed)
    return replace(objective, phases=(free, clamped))


def _long(search: LabelSearch, centre: FloatArray) -> tuple[Look, int, float, FloatArray]:
    """Looks at the mode until its noise is as asked for, or the budget ends: the last one, sweeps, the noise in
    posterior sd, and P."""
    engine = search.engine
    beta, eta = float(centre[0]), centre[1:]
    tables, slopes = search.views.tables(eta), search.slopes(eta)
    for chain in search.chains[:2]:
        chain.clamped(beta, tables, None, _BLOCK)
    for chain in search.chains[2:]:
        chain.free(beta, _BLOCK)
    runs: list[list[Run]] = [[], []]
    free: list[list[FloatArray]] = [[], []]
    begun, of_free, given = search.spent, 1.0, True
    while True:
        if given:
            for chain, run in zip(search.chains[:2], runs, strict=True):
                run.append(chain.clamped(beta, tables, slopes, _BLOCK))
        updates = int(of_free * _BLOCK)
        for chain, ones in zip(search.chains[2:], free, strict=True):
            ones.append(chain.free(beta, updates))
        search.spent += 2 * (_BLOCK * _SWEEP * given + updates * _CLUSTER) * search.n
        sweeps = _BLOCK * len(runs[0])
        look = search.joined(eta, [_whole(run) for run in runs], [np.concatenate(ones) for ones in free])
        _, P, _ = search.step(centre, look)
        inverse = linalg.inv(P)
        whole, own = float(np.sum(inverse * look.noise)), float(inverse[0, 0] * look.free_noise)
        error = float(np.sqrt(whole / len(centre)))
        used_up = search.spent > search.allowed and search.spent - begun > _LEAST_SHARE * search.allowed
        if (sweeps >= _FEWEST and error <= engine.error) or used_up or search.progress.expired:
            return look, sweeps, error, P
        # as much work on either kind of chains as it has of the noise, free ones up to eight updates a sweep
        of_free = float(np.clip(_SWEEP / _CLUSTER * own / max(whole - own, 1e-300), 0.25, _MOST_FREE))
        given = own < _MOSTLY * whole or sweeps < _FEWEST


def _whole(runs: list[Run]) -> Run:
    """Runs of the same length, one after the other."""
    beliefs = np.mean([r.beliefs for r in runs], axis=0)
    return Run(np.concatenate([r.same for r in runs]), np.concatenate([r.states for r in runs]), beliefs)


def _free_curvature(search: LabelSearch, beta: float, sd: float, sweeps: int) -> float:
    """d²log Z/dβ² by a line through E[equal pairs] at several β, which tells more than the variance at one."""
    z = _SPREAD * np.linspace(-1.0, 1.0, _POINTS)
    means, updates = np.empty(_POINTS), max(sweeps // 2, _BLOCK)
    for k, here in enumerate(beta + sd * z):
        for chain in search.chains[2:]:
            chain.free(float(here), _SETTLE)
        means[k] = np.mean([chain.free(float(here), updates)[:, 0].mean() for chain in search.chains[2:]])
    search.spent += 2 * _POINTS * (updates + _SETTLE) * _CLUSTER * search.n
    return max(float(z @ (means - means.mean()) / (z @ z)) / sd, 1e-12)


def _noise(series: FloatArray) -> FloatArray:
    """The covariance of a chain's mean, (F, F), by batches."""
    batches = np.array([part.mean(axis=0) for part in np.array_split(series, min(_BATCHES, len(series)))])
    result: FloatArray = np.atleast_2d(np.cov(batches.T)) / len(batches)
    return result


def _at_least(matrix: FloatArray, reference: FloatArray) -> FloatArray:
    """With eigenvalues, relative to the reference, of at least _LEAST."""
    values, vectors = linalg.eigh((matrix + matrix.T) / 2, reference)
    back = reference @ vectors
    result: FloatArray = (back * np.maximum(values, _LEAST)) @ back.T
    return result
