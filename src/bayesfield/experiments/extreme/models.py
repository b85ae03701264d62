"""Random tiny models, each from its seed: few cases, wide priors, states never seen.

``extreme_model(seed)`` is always the same model, whatever the version of the library: the reference answers are kept
by seed. The joint features are written down here a second time, from the definitions of the builders, so that the
reference shares no code with the fits that it judges.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesfield.model.builders import pairwise, potts
from bayesfield.model.ordinal import ordinal
from bayesfield.types import FloatArray, IntArray

if TYPE_CHECKING:
    from bayesfield.model.field import RandomField

STRUCTURES = ("independent", "chain", "complete")
CODINGS = ("01", "pm", "potts", "ordinal")
DATA = ("drawn", "same", "one", "unseen")
_LIKELIHOODS = (0.75, 0.1, 0.05, 0.1)  # of the kinds of data
CASES = (1, 1000)
VARIANCES = (1e-2, 1e4)
_SIZES = (0.3, 10.0)  # sd of the parameters that data are drawn from


@dataclass(frozen=True, eq=False)
class ExtremeModel:
    """What is fitted, and how it was made.

    coding: "01" and "pm" are ``pairwise`` on {0, 1} and {−1, 1}; "potts", "ordinal" are these builders. data: "drawn"
    from random parameters; "same", all cases in one joint state; "one" case; "unseen", drawn, but one variable never
    in one of its states. codes: (N, n) positions of the states. variance: of the prior N(0, variance) of all
    parameters.
    """

    seed: int
    variables: int
    states: int
    structure: str
    coding: str
    tied: bool
    data: str
    codes: IntArray
    variance: float

    @property
    def edges(self) -> list[tuple[int, int]]:
        return _edges(self.variables, self.structure)

    @property
    def field(self) -> RandomField:
        if self.coding in ("01", "pm"):
            return pairwise(self.variables, self.edges, self.labels, tied=self.tied)
        build = potts if self.coding == "potts" else ordinal
        return build(self.variables, self.edges, self.states, tied=self.tied)

    @property
    def labels(self) -> tuple[int, ...]:
        return (-1, 1) if self.coding == "pm" else tuple(range(self.states))

    @property
    def X(self) -> IntArray:  # noqa: N802 - as everywhere
        """(N, n) the cases, as labels."""
        return np.array(self.labels)[self.codes]

    @property
    def joint_states(self) -> IntArray:
        """(S, n) positions of the states, the last variable fastest."""
        return _joint_states(self.variables, self.states)

    @property
    def joint_features(self) -> FloatArray:
        """f(x) of every joint state: (S, F)."""
        return _features(self.joint_states, self.edges, self.states, self.coding, self.tied)

    @property
    def counts(self) -> FloatArray:
        """How often each joint state was seen: (S,)."""
        place = np.ravel_multi_index(tuple(self.codes.T), (self.states,) * self.variables)
        return np.bincount(place, minlength=self.states**self.variables).astype(np.float64)

    @property
    def has_unseen_states(self) -> bool:
        """Whether some variable is never in one of its states."""
        return any(len(np.unique(column)) < self.states for column in self.codes.T)

    @property
    def fingerprint(self) -> str:
        """Of all that the posterior depends on."""
        parts = (self.joint_features, self.counts, np.array([self.variance]))
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def extreme_model(seed: int) -> ExtremeModel:
    """The model of this seed: 1 to 4 variables of 2 to 4 states, 1 to 1000 cases, prior variance 0.01 to 1e4."""
    rng = np.random.default_rng([22, seed])
    variables = int(rng.integers(1, 5))
    coding = CODINGS[rng.choice(4, p=[0.3, 0.3, 0.2, 0.2])]
    states = 2 if coding in ("01", "pm") else int(rng.choice([2, 3, 4], p=[0.3, 0.55, 0.15]))
    structure = STRUCTURES[rng.choice(3, p=[0.2, 0.4, 0.4])] if variables > 1 else "independent"
    tied = bool(variables > 1 and rng.random() < 0.2)
    variance = _log_uniform(rng, *VARIANCES)
    cases = round(_log_uniform(rng, *CASES))
    size = _log_uniform(rng, *_SIZES)
    data = DATA[rng.choice(4, p=_LIKELIHOODS)]
    features = _features(_joint_states(variables, states), _edges(variables, structure), states, coding, tied)
    codes = _cases(features, _joint_states(variables, states), size, 1 if data == "one" else cases, data, rng)
    return ExtremeModel(seed, variables, states, structure, coding, tied, data, codes, variance)


def _cases(
    features: FloatArray, joint: IntArray, size: float, count: int, data: str, rng: np.random.Generator
) -> IntArray:
    """(N, n) drawn by the probabilities of all joint states at random parameters N(0, size²)."""
    energy = features @ (size * rng.standard_normal(features.shape[1]))
    if data == "unseen":  # one variable is never in one of its states
        variable = int(rng.integers(joint.shape[1]))
        energy[joint[:, variable] == rng.integers(joint.max() + 1)] = -np.inf
    probabilities = np.exp(energy - energy.max())
    drawn = rng.choice(len(joint), size=count, p=probabilities / probabilities.sum())
    return joint[np.full(count, drawn[0]) if data == "same" else drawn]


def _features(joint: IntArray, edges: list[tuple[int, int]], states: int, coding: str, tied: bool) -> FloatArray:
    """f(x) for all joint states, from the definitions: (S, F)."""
    scores = 2.0 * joint - 1.0 if coding == "pm" else joint.astype(np.float64)
    if coding in ("01", "pm"):
        nodes = [[scores[:, i]] for i in range(joint.shape[1])]
    else:
        nodes = [[(joint[:, i] == k) * 1.0 for k in range(1, states)] for i in range(joint.shape[1])]
    if coding == "potts":
        couplings = [(joint[:, i] == joint[:, j]) * 1.0 for i, j in edges]
    else:
        couplings = [scores[:, i] * scores[:, j] for i, j in edges]
    if tied:
        columns = [np.sum(column, axis=0) for column in zip(*nodes, strict=True)]
        columns += [np.sum(couplings, axis=0)] if couplings else []
    else:
        columns = [column for own in nodes for column in own] + couplings
    return np.stack(columns, axis=1)


def _edges(variables: int, structure: str) -> list[tuple[int, int]]:
    if structure == "independent":
        return []
    pairs = itertools.combinations(range(variables), 2)
    return [(i, j) for i, j in pairs if structure == "complete" or j == i + 1]


def _joint_states(variables: int, states: int) -> IntArray:
    return np.indices((states,) * variables).reshape(variables, -1).T.astype(np.int64)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
