"""What every learner can do: one that finds parameters otherwise than by minimising the objective of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from bayesfield.learning.search.optimum import QUIET, Optimum, Progress
from bayesfield.types import FloatArray

if TYPE_CHECKING:
    from bayesfield.learning.objective import Objective
    from bayesfield.learning.precision.base import Precision

LEARNERS = ("pseudo_likelihood", "cd", "pcd", "iterative_scaling", "pseudo_moments")  # their names


class Request(NamedTuple):
    """How to search: where to begin, how close to come, in which form a learner's own precision is wanted."""

    start: FloatArray | None = None
    tolerance: float = 1e-6
    max_iterations: int = 200
    form: str = "auto"
    progress: Progress = QUIET


class Drawn(NamedTuple):
    """A posterior that a learner has drawn. points: (S, F). effective: how many independent draws they are worth.
    error: Monte-Carlo error of the means, root mean square in sd. settled: whether they have arrived. reason: how."""

    points: FloatArray
    effective: float
    error: float
    settled: bool
    reason: str


class Learned(NamedTuple):
    """What a learner ends with. precision: its own; None where an engine is to give the curvature there. objective:
    what it minimised in the end, where that has another prior than the one that it was given. drawn: its own draws of
    the posterior."""

    optimum: Optimum
    precision: Precision | None = None
    remarks: tuple[str, ...] = ()
    objective: Objective | None = None
    drawn: Drawn | None = None


@runtime_checkable
class Learner(Protocol):
    """name: as users write it. at_mode: whether it ends at the mode of the posterior, where corrections start.
    needs_log_z: of the engine. weighted: whether it takes cases that count for more or less than one. own_precision:
    whether it gives one where no engine is named. takes_holes: whether cells may be missing. takes_hidden: whether
    variables may be that no case shows. drawn: whether it draws its own posterior."""

    at_mode: bool = False
    needs_log_z: bool = False
    weighted: bool = False
    own_precision: bool = False
    takes_holes: bool = False
    takes_hidden: bool = False
    drawn: bool = False

    @property
    def name(self) -> str: ...

    def minimised(self, objective: Objective) -> Objective:
        """What it minimises instead, where that has a price of its own; else the same."""
        return objective

    def work(self, near: Objective) -> tuple[tuple[str, float], ...]:
        """Counted work of its parts, in seconds on our machine; empty for that of a search."""
        return ()

    def form_of(self, near: Objective, asked: str) -> str:
        """The form of its own precision, of what it minimises, where a user asked for this one."""
        return "block" if asked == "block" else "dense"

    def for_evidence(self) -> Learner:
        """The same with a precision that is the data's curvature plus the prior's, by which variances are chosen."""
        return self

    def learn(self, objective: Objective, request: Request) -> Learned: ...
