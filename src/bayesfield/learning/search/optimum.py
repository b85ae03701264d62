"""What a search ends with, how the searches from several starts ended, and what is told of them on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.types import FloatArray, Status

if TYPE_CHECKING:
    from bayesfield.learning.objective import Point

_SAME = 1e-3  # nats within which two optima are equally good
_APART = 0.05  # in some parameter: optima further apart are two


class Iteration(NamedTuple):
    """One step: the objective there, the gradient's largest entry, and the step's length.

    distance: √(gᵀP⁻¹g), how far the optimum is in posterior standard deviations (NaN where P is not known); of a
    correction, how far it still moves.
    """

    number: int
    value: float
    gradient: float
    distance: float
    step: float


Watch = Callable[[Iteration], None]


class Progress:
    """Tells every step to those that watch.

    seconds: after so many ``expired`` is True, and what runs ends with the best so far; by default never. The clock
    decides nothing else. ``end`` has the same effect at once.
    """

    def __init__(self, watch: Watch | None = None, seconds: float | None = None) -> None:
        self._watch = watch
        self._end = None if seconds is None else time.monotonic() + seconds

    def tell(self, iteration: Iteration) -> None:
        if self._watch is not None:
            self._watch(iteration)

    def end(self) -> None:
        """What runs is to end with the best so far."""
        self._end = -1.0

    @property
    def expired(self) -> bool:
        return self._end is not None and time.monotonic() > self._end


class _Quiet(Progress):
    """Nobody watches, and there is no hurry."""

    expired = False


QUIET = _Quiet()


class Start(NamedTuple):
    """How one start ended. value: the negative log posterior there."""

    value: float
    converged: bool
    parameters: FloatArray


class Starts(NamedTuple):
    """All starts of a search, the best first. images: how many modes the best one is by symmetry, itself included; None
    where that is not known."""

    ended: tuple[Start, ...]
    images: int | None = None

    @property
    def equivalent(self) -> int:
        """How many optima, with different parameters, are as good as the best: itself and its images.

        Hidden variables may change places, or names of states, without any change to what is observed.
        """
        if self.images is not None:
            return self.images
        best, images = self.ended[0], [self.ended[0].parameters]
        for start in self.ended[1:]:
            apart = min(np.abs(start.parameters - image).max() for image in images)
            if start.converged and start.value - best.value < _SAME and apart > _APART:
                images.append(start.parameters)
        return len(images)

    def __str__(self) -> str:
        values = np.array([s.value for s in self.ended])
        reached = int((values - values[0] < _SAME).sum())
        text = f"{len(values)} starts, {reached} of which ended as well as the best"
        worse = values[np.isfinite(values) & (values - values[0] >= _SAME)]
        text += f" (others worse by {worse.min() - values[0]:.3g} nats or more)" if len(worse) else ""
        if self.equivalent > 1:
            text += (
                f", at {self.equivalent} equivalent modes: hidden variables or their states change places; the "
                "posterior is that of one mode"
            )
        return text


def distinct(images: FloatArray) -> int:
    """How many of the images (G, F) of an optimum are apart: fewer than all where it is its own image."""
    kept: list[FloatArray] = []
    for image in images:
        if all(np.abs(image - other).max() > _APART for other in kept):
            kept.append(image)
    return len(kept)


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where a search ended, and how. starts: where it began at several points. kept: the curvature close to the end,
    where the search keeps one."""

    point: Point
    status: Status
    iterations: tuple[Iteration, ...]
    starts: Starts | None = None
    kept: Any = None

    @property
    def parameters(self) -> FloatArray:
        return self.point.parameters
