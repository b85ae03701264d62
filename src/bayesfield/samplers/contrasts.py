"""What a Langevin step moves along: contrastive-divergence gradients of fields and of chains of labels."""

from typing import NamedTuple, Protocol

import numpy as np

from bayesfield.graph.structure import counts
from bayesfield.kernels.chains import langevin as chain_langevin
from bayesfield.kernels.gibbs import general as gibbs
from bayesfield.kernels.gibbs import langevin
from bayesfield.kernels.gibbs.single import HALF, WIDTH
from bayesfield.learning.objective import FieldObjective, Objective
from bayesfield.learning.phases.chain import ChainObjective
from bayesfield.learning.phases.hidden import HiddenObjective
from bayesfield.learning.phases.hidden_chain import HiddenChainObjective
from bayesfield.posterior.imputation import completed
from bayesfield.samplers.density import of_field
from bayesfield.types import FloatArray, InvalidInput


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
    if isinstance(objective, HiddenChainObjective):
        raise InvalidInput("bf.Langevin() needs all labels, and some are open; take bf.NUTS() or bf.Metropolis()")
    if isinstance(objective, ChainObjective):
        return _Chains(objective)
    field = of_field(objective)
    if isinstance(field, HiddenObjective):
        return _Holes(field)
    finite = bool(np.isfinite(field.field.design.offset).all())
    return _Pairs(field) if field.field.graph.binary_pairs and finite and field.weight else _Tables(field)


class _Pairs:
    """Binary pairwise fields: 128 cases at a time, in single precision."""

    generators = HALF

    def __init__(self, objective: FieldObjective) -> None:
        design, codes = objective.field.design, objective.codes
        batches = -(-len(codes) // WIDTH)
        data = np.zeros((batches * WIDTH, codes.shape[1]), dtype=np.float32)
        data[: len(codes)] = codes
        self.known = langevin.Contrast(
            graph=objective.field.graph.arrays,
            data=np.ascontiguousarray(data.reshape(batches, WIDTH, -1).transpose(0, 2, 1)),
            cases=len(codes),
            row_ptr=design.matrix.indptr.astype(np.int64),
            column=design.matrix.indices.astype(np.int64),
            value=design.matrix.data,
            offset=design.offset,
            statistic=objective.statistic,
            location=objective.location,
            precision=_full(objective.precision),
        )

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        langevin.drift(self.known, *steps, x, seeds, kept)


class _Tables:
    """Fields of any kind: a Gibbs chain for each case."""

    def __init__(self, objective: FieldObjective) -> None:
        self._objective = objective
        self.generators = max(len(objective.codes), 1)

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        objective, thin = self._objective, len(steps.noise) // len(kept)
        graph, design = objective.field.graph, objective.field.design
        data = objective.codes.astype(np.int32)
        unused = np.zeros(graph.n_entries)
        for k, noise in enumerate(steps.noise):
            states = data.copy()
            gibbs.sweep_chains(graph.arrays, design.potentials(x), states, seeds, steps.sweeps, unused)
            mean = design.expectations(counts(graph, states.astype(np.int64))) / max(len(data), 1)
            x += 0.5 * steps.size**2 * (steps.covariance @ -objective.gradient(x, mean)) + noise
            kept[k // thin] = x


class _Holes:
    """Cases with holes: a clamped draw fills them, and a free Gibbs chain goes on from there, for each case."""

    def __init__(self, objective: HiddenObjective) -> None:
        self._objective = objective
        self.generators = max(len(objective.codes), 1)

    def drift(self, steps: Steps, x: FloatArray, seeds: np.ndarray, kept: FloatArray) -> None:
        objective, thin = self._objective, len(steps.noise) // len(kept)
        graph, design = objective.field.graph, objective.field.design
        unused = np.zeros(graph.n_entries)
        for k, noise in enumerate(steps.noise):
            rng = np.random.default_rng(int(seeds[0, 0]) >> 1)  # anew at every step: the same in blocks of any length
            filled = completed(objective.codes, objective.clamped, x, rng)
            states = filled.astype(np.int32)
            gibbs.sweep_chains(graph.arrays, design.potentials(x), states, seeds, steps.sweeps, unused)
            free, given = (design.expectations(counts(graph, s)) / len(filled) for s in (states, filled))
            x += 0.5 * steps.size**2 * (steps.covariance @ -objective.gradient(x, free, given)) + noise
            kept[k // thin] = x


class _Chains:
    """Chains of labels: one sweep goes through all sequences."""

    generators = 1

    def __init__(self, objective: ChainObjective) -> None:
        crf, data = objective.crf, objective.data
        assert data.labels is not None
        self.known = chain_langevin.ChainContrast(
            chains=objective.chains,
            row_ptr=data.inputs.indptr,
            column=data.inputs.indices,
            value=data.inputs.data.astype(np.float64),
            edge_rows=data.edge_rows,
            node_tables=crf.node_tables,
            edge_tables=crf.edge_tables,
            labels=data.labels,
            statistic=objective.statistic,
            location=objective.location,
            precision=_full(objective.precision),
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


def _full(precision: FloatArray) -> FloatArray:
    return precision if precision.ndim == 2 else np.diag(precision)
