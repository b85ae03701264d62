"""Random-walk Metropolis with an engine's log Z in the acceptance: exact with Exact(), the paper's MC-BP with Bethe().

Proposals are symmetric and Gaussian, with the shape of the problem's Gaussian times scale · 2.38/√F, which is best for
a Gaussian target (Roberts, Gelman & Gilks 1997); warm-up tunes the scale to an acceptance of 0.234.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield import parallel
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.kernels.likelihood import density
from bayesfield.kernels.likelihood import metropolis as kernel
from bayesfield.kernels.messages.bethe_lanes import WIDTH
from bayesfield.samplers.density import fast_target
from bayesfield.samplers.steps import drive
from bayesfield.types import FloatArray, Options

if TYPE_CHECKING:
    from bayesfield.inference.contract import Engine
    from bayesfield.learning.objective import Objective
    from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats


@dataclass(frozen=True, repr=False)
class Metropolis(Options):
    """Symmetric Gaussian proposals, accepted by the posterior with the engine's log Z.

    engine: bf.Exact() samples the posterior itself; bf.Bethe() is the paper's MC-BP, whose bias is that of Bethe's log
    Z (moves to parameters where belief propagation does not settle are refused and counted).
    scale: of the proposals at the start of warm-up, 1 being best for a Gaussian.
    """

    engine: Engine = field(default_factory=Exact)
    scale: float = 1.0

    @property
    def target(self) -> float:
        return 0.234

    def run(self, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
        return drive(self, problem, chains, plan, watch)

    def lanes(self, chains: int) -> int:
        """Bethe's lanes cost the same full or not; exact ones are worked one after another."""
        return WIDTH if self.engine.traits.as_published else min(WIDTH, -(-chains // parallel.cores()))

    def prepare(self, problem: Problem) -> _Shared:
        shape = problem.factor * (self.scale * 2.38 / np.sqrt(max(problem.size, 1)))
        objective = problem.objective.with_engine(self.engine)
        return _Shared(objective, shape, fast_target(objective, self.engine))

    def advance(self, shared: _Shared, chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        size, steps = len(shared.shape), draws * thin
        noise = np.zeros((steps, size, WIDTH))
        log_uniform = np.zeros((steps, WIDTH))
        for c, chain in enumerate(chains):
            noise[:, :, c] = chain.scale * chain.normals.standard_normal((steps, size)) @ shared.shape.T
            log_uniform[:, c] = np.log(chain.uniforms.random(steps))
        position = np.zeros((size, WIDTH))
        for c in range(WIDTH):  # idle lanes stand where the first chain does
            position[:, c] = chains[c if c < len(chains) else 0].position
        kept, trace = np.empty((draws, size, WIDTH)), np.empty((draws, 3, WIDTH))
        steps_ahead = _Steps(noise, log_uniform, len(chains), position, kept, trace)
        if shared.target is None:
            _walk_slowly(shared.objective, steps_ahead)
        else:
            _walk(shared.target, steps_ahead)
        for c, chain in enumerate(chains):
            chain.position = position[:, c].copy()
        names = ("energy", "acceptance", "unsettled")
        stats = {name: trace[:, k, : len(chains)].T.copy() for k, name in enumerate(names)}
        return np.ascontiguousarray(kept[:, :, : len(chains)].transpose(2, 0, 1)), stats


class _Shared(NamedTuple):
    objective: Objective
    shape: FloatArray
    target: density.Target | None


class _Steps(NamedTuple):
    """What a walk takes and fills: see kernels.metropolis.walk."""

    noise: FloatArray
    log_uniform: FloatArray
    active: int
    position: FloatArray
    kept: FloatArray
    trace: FloatArray


def _walk(target: density.Target, steps: _Steps) -> None:
    work, energy = density.make_work(target), np.empty(WIDTH)
    density.energies(target, steps.position, steps.active, work, energy)
    energy[np.isnan(energy)] = np.inf
    kernel.walk(
        target, work, steps.noise, steps.log_uniform, steps.active, steps.position, energy, steps.kept, steps.trace
    )


def _walk_slowly(objective: Objective, steps: _Steps) -> None:
    """The same for any engine, one inference at a time."""
    thin = len(steps.noise) // len(steps.kept)
    trace = steps.trace
    trace[:] = 0.0
    for c in range(steps.active):
        here = objective.at(steps.position[:, c].copy())
        for step in range(len(steps.noise)):
            there = objective.at(here.parameters + steps.noise[step, :, c])
            draw = step // thin
            if not np.isfinite(there.value):
                trace[draw, 2, c] += 1.0 / thin
            elif steps.log_uniform[step, c] < here.value - there.value:
                here = there
                trace[draw, 1, c] += 1.0 / thin
            steps.kept[draw, :, c], trace[draw, 0, c] = here.parameters, here.value
        steps.position[:, c] = here.parameters
