"""Driving samplers that move step by step: groups of chains on all cores, warm-up that tunes the scale, then draws."""

from typing import Any, Protocol

import numpy as np

from bayesfield import parallel
from bayesfield.samplers.contract import Chain, Plan, Problem, Progress, Run, Stats
from bayesfield.types import FloatArray

_ROUND = 50  # steps between two changes of the scale
_BLOCK = 2000  # steps, at least, between two reports of progress
_GAIN = 2.0  # of the first changes of log scale by (acceptance − target); they shrink as 1/√round


class Stepper(Protocol):
    """target: the acceptance that warm-up tunes the scale for; None where there is nothing to tune."""

    @property
    def target(self) -> float | None: ...

    def lanes(self, chains: int) -> int:
        """Chains that are moved by one call."""
        ...

    def prepare(self, problem: Problem) -> Any:
        """What all chains share, made once."""
        ...

    def advance(self, shared: Any, chains: list[Chain], draws: int, thin: int) -> tuple[FloatArray, Stats]:
        """draws · thin steps of each chain, in place. The kept positions (chain, draw, F), and figures of each."""
        ...


def drive(stepper: Stepper, problem: Problem, chains: list[Chain], plan: Plan, watch: Progress) -> Run:
    """Warm up and draw. A chain's numbers do not depend on how many cores there are."""
    shared = stepper.prepare(problem)
    width = stepper.lanes(len(chains))
    groups = [chains[k : k + width] for k in range(0, len(chains), width)]
    total = max(plan.warmup + plan.draws * plan.thin, 1)
    done = [0] * len(groups)

    def report(k: int, steps: int) -> None:
        done[k] += steps
        watch(min(1.0, sum(done) / (total * len(groups))))

    def group(k: int) -> tuple[FloatArray, Stats]:
        _warm_up(stepper, shared, groups[k], plan.warmup, lambda steps: report(k, steps))
        per_block = max(1, _BLOCK // plan.thin)
        parts = []
        for first in range(0, plan.draws, per_block):
            count = min(per_block, plan.draws - first)
            parts.append(stepper.advance(shared, groups[k], count, plan.thin))
            report(k, count * plan.thin)
        if not parts:
            return np.empty((len(groups[k]), 0, problem.size)), {}
        stats = {name: np.concatenate([p[1][name] for p in parts], axis=1) for name in parts[0][1]}
        return np.concatenate([p[0] for p in parts], axis=1), stats

    results = parallel.thread_map(group, range(len(groups)))
    stats = {name: np.concatenate([f[1][name] for f in results]) for name in results[0][1]}
    return Run(np.concatenate([f[0] for f in results]), stats, chains)


def _warm_up(stepper: Stepper, shared: Any, chains: list[Chain], steps: int, report: Any) -> None:
    """Robbins-Monro on the log of each chain's scale; it stays as it is afterwards, so that draws are of one chain."""
    for number, first in enumerate(range(0, steps, _ROUND)):
        count = min(_ROUND, steps - first)
        _, stats = stepper.advance(shared, chains, 1, count)
        if stepper.target is not None:
            for chain, accepted in zip(chains, stats["acceptance"][:, 0], strict=True):
                chain.scale *= float(np.exp(_GAIN / np.sqrt(1 + number) * (accepted - stepper.target)))
        report(count)
