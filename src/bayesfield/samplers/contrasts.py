"""What a Langevin step moves along: contrastive-divergence gradients of fields and of chains of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bayesfield.graph.structure import counts
from bayesfield.inference.completion import completed
from bayesfield.kernels.chains import langevin as chain_langevin
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.kernels.gibbs import general as gibbs
from bayesfield.kernels.gibbs import langevin
from bayesfield.kernels.gibbs.single import HALF, WIDTH
from bayesfield.samplers.density import require_graph
from bayesfield.types import FloatArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective


class Steps(NamedTuple):
    """covariance: M, (F, F). noise: (steps, F), with covariance ε²M. size: ε. sweeps: of Gibbs, for each gradient."""

    covariance: FloatArray
    noise: FloatArray
    size: float
    sweeps: int


class Contrast(Protocol):
    """generators: of uniform numbers, that it needs for each chain."""

    @property
    def generators(self) -> int: ...

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        """All steps from x, in place; kept (draws, F): every steps/draws-th place."""
        ...


def contrast_of(objective: Objective) -> Contrast:
    data = objective.data
    if not data.here or data.weights is not None:
        raise InvalidInput("bf.Langevin() takes data in this process, each case counting once; take bf.NUTS()")
    if not objective.free.samples and hasattr(data, "sequences"):
        if objective.hidden:
            raise InvalidInput("bf.Langevin() needs all labels, and some are open; take bf.NUTS() or bf.Metropolis()")
        return _Chains(objective)
    require_graph(objective)
    if objective.hidden:
        return _Holes(objective)
    finite = bool(np.isfinite(objective.free.design.offset).all())
    return (
        _Pairs(objective) if objective.free.graph.binary_pairs and finite and objective.weight else _Tables(objective)
    )


class _Pairs:
    """Binary pairwise fields: 128 cases at a time, in single precision."""

    generators = HALF

    def __init__(self, objective: Objective) -> None:
        design, codes, prior = objective.free.design, objective.data.cases.codes, objective.prior
        batches = -(-len(codes) // WIDTH)
        data = np.zeros((batches * WIDTH, codes.shape[1]), dtype=np.float32)
        data[: len(codes)] = codes
        self.known = langevin.Contrast(
            graph=objective.free.graph.arrays,
            data=np.ascontiguousarray(data.reshape(batches, WIDTH, -1).transpose(0, 2, 1)),
            cases=len(codes),
            row_ptr=design.matrix.indptr.astype(np.int64),
            column=design.matrix.indices.astype(np.int64),
            value=design.matrix.data,
            offset=design.offset,
            statistic=objective.statistic / max(objective.weight, 1.0),
            location=prior.location,
            precision=prior.matrix(),
        )

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        langevin.drift(self.known, *steps, x, seeds, kept)


class _Tables:
    """Fields of any kind: a Gibbs chain for each case."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.generators = max(len(objective.data.cases.codes), 1)

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        objective, thin = self._objective, len(steps.noise) // len(kept)
        graph, design = objective.free.graph, objective.free.design
        data = objective.data.cases.codes.astype(np.int32)
        unused = np.zeros(graph.n_entries)
        for k, noise in enumerate(steps.noise):
            states = data.copy()
            gibbs.sweep_chains(graph.arrays, design.potentials(x), states, seeds, steps.sweeps, unused)
            free = design.expectations(counts(graph, states.astype(np.int64)))
            slope = objective.statistic - free - objective.prior.pull(x)
            x += 0.5 * steps.size**2 * (steps.covariance @ slope) + noise
            kept[k // thin] = x


class _Holes:
    """Cases with holes: a clamped draw fills them, and a free Gibbs chain goes on from there, for each case."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.generators = max(len(objective.data.cases.codes), 1)

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        objective, thin = self._objective, len(steps.noise) // len(kept)
        graph, design, cases = objective.free.graph, objective.free.design, objective.data.cases
        unused = np.zeros(graph.n_entries)
        for k, noise in enumerate(steps.noise):
            rng = np.random.default_rng(int(seeds[0, 0]) >> 1)  # anew at every step: the same in blocks of any length
            filled = completed(cases.codes, cases.clamped, x, rng)
            states = filled.astype(np.int32)
            gibbs.sweep_chains(graph.arrays, design.potentials(x), states, seeds, steps.sweeps, unused)
            free, shown = (design.expectations(counts(graph, s)) for s in (states, filled))
            x += 0.5 * steps.size**2 * (steps.covariance @ (shown - free - objective.prior.pull(x))) + noise
            kept[k // thin] = x


class _Chains:
    """Chains of labels: one sweep goes through all sequences."""

    generators = 1

    def __init__(self, objective: Objective) -> None:
        crf, data = objective.data.crf, objective.data.sequences
        assert data.labels is not None
        if crf.seen is not None:
            raise InvalidInput(
                "Langevin's sweeps know chains with all weights, not only those that were seen; take NUTS"
            )
        self.known = chain_langevin.ChainContrast(
            chains=ChainArrays(data.ptr, data.which),
            row_ptr=data.inputs.indptr,
            column=data.inputs.indices,
            value=data.inputs.data.astype(np.float64),
            edge_rows=data.edge_rows,
            node_tables=crf.node_tables,
            edge_tables=crf.edge_tables,
            labels=data.labels,
            statistic=objective.statistic,
            location=objective.prior.location,
            precision=objective.prior.matrix(),
        )

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        chain_langevin.drift(self.known, self._room(), *steps, x, seeds[0], kept)

    def _room(self) -> chain_langevin.Room:
        """For each thread its own."""
        known = self.known
        P, K, Q = len(known.labels), known.node_tables.shape[1], len(known.edge_rows)
        D = (len(known.statistic) - known.edge_rows.shape[1] * len(known.edge_tables)) // len(known.node_tables)
        edge = np.empty((Q, K, K))
        return chain_langevin.Room(
            np.empty((P, K)),
            edge,
            np.empty_like(edge),
            np.empty(Q),
            np.empty(P, dtype=np.int64),
            np.empty((D, K)),
            np.empty(K),
        )
