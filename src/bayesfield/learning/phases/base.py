"""What every phase can do: a weighted batch of factor graphs whose log Z enters the objective."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from bayesfield.inference.contract import Engine, Price, Traits
from bayesfield.response.base import Response
from bayesfield.types import BoolArray, FloatArray, InvalidInput, Status

DRAWN = 100_000  # positions in all antithetic pairs of draws that sequences have each for itself, about


class Answer(NamedTuple):
    """A phase at one λ. mean: E[f], (F,). state: to continue from nearby. found: what ``response`` needs."""

    log_z: float
    mean: FloatArray
    status: Status
    state: Any = None
    found: Any = None


class Answers(NamedTuple):
    """A phase at S parameters: log_z (S,), means (S, F), good (S,) whether inference converged. states: to continue
    from; None where inference keeps none."""

    log_z: FloatArray
    means: FloatArray
    good: BoolArray
    states: list[Any] | None = None


class Phase(ABC):
    """w_k log Z_k(λ). weight: w_k. samples: whether Gibbs chains can stand in for its engine: it has a graph here."""

    weight: float
    samples = False
    monte_carlo = 0.0  # error of the mode that its sampled means leave, in posterior sd

    @property
    def cases(self) -> float:
        """How many cases it stands for."""
        return 1.0

    @property
    @abstractmethod
    def traits(self) -> Traits: ...

    @property
    def contrasts(self) -> bool:
        """Whether it sums over what the data might have shown: a clamped phase."""
        return False

    def with_engine(self, engine: Engine) -> Self:
        """The same by another engine; itself where inference is its own."""
        return self

    def with_pairs(self, pairs: int) -> Self:
        """The same with so many antithetic pairs where it averages over draws; itself where it does not."""
        return self

    @abstractmethod
    def choose(self, engine: Any) -> tuple[Engine, str]:
        """The engine for which one that chooses stands here, and why."""

    @abstractmethod
    def price(self, size: int) -> Price: ...

    def prepare(self) -> None:  # noqa: B027
        """What inference needs of the structure alone, made before it is first asked."""

    @abstractmethod
    def bytes(self) -> float:
        """What one evaluation holds in memory, about."""

    @abstractmethod
    def at(self, parameters: FloatArray, start: Any = None) -> Answer: ...

    def at_many(self, points: FloatArray, starts: Sequence[Any] | None = None) -> Answers:
        """One after the other; phases that have a faster way take that."""
        before = [None] * len(points) if starts is None else starts
        answers = [self.at(here, start) for here, start in zip(points, before, strict=True)]
        good = np.array([a.status.converged for a in answers], dtype=np.bool_)
        states = [a.state if a.status.converged else start for a, start in zip(answers, before, strict=True)]
        means = np.array([a.mean for a in answers]).reshape(points.shape)
        return Answers(np.array([a.log_z for a in answers], dtype=np.float64), means, good, states)

    def log_z_many(self, points: FloatArray) -> FloatArray:
        """log Z alone at each of the parameters (S, F), (S,); NaN where inference does not converge."""
        answers = self.at_many(points)
        return np.where(answers.good, answers.log_z, np.nan)

    @abstractmethod
    def response(self, answer: Answer) -> Response:
        """The covariance of the features."""

    def covariances(self, points: FloatArray) -> FloatArray:
        """The sum of the covariances at all of the parameters (S, F), dense; asked of batched phases only."""
        total = np.zeros((points.shape[1], points.shape[1]))
        for here in points:
            total += self.response(self.at(here)).covariance()
        return total

    def prepare_drawn(self, engine: Any) -> None:  # noqa: B027
        """What ``drawn`` needs of the structure alone."""

    def drawn(self, parameters: FloatArray, engine: Any, rng: np.random.Generator) -> FloatArray:
        """The features of data drawn at these parameters, summed over as many cases as were observed, (F,).

        engine: exact, or Sampled, whose burn-in says how long Gibbs chains run; None of them where draws are exact
        anyway.
        """
        raise InvalidInput(
            f"samplers that draw data need a random field or a CRF in this process; {type(self).__name__} draws none. "
            "Take bf.NUTS() or bf.Metropolis()"
        )

    @abstractmethod
    def variances(self, answer: Answer) -> FloatArray:
        """About the diagonal of the covariance, (F,)."""

    def blocks(self, answer: Answer) -> tuple[FloatArray, FloatArray] | None:
        """The covariance without what ties different inputs: blocks (D, G, G), and one of the rest; None for none."""
        return None
