"""What a search ends with: the best parameters, and how the searches from several starts ended."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesfield.learning.objective import Point
from bayesfield.learning.search.progress import Iteration
from bayesfield.types import FloatArray, Status

_SAME = 1e-3  # nats within which two optima are equally good
_APART = 0.05  # in some parameter: optima further apart are two


class Start(NamedTuple):
    """How one start ended. value: the negative log posterior there."""

    value: float
    converged: bool
    parameters: FloatArray


class Starts(NamedTuple):
    """All starts of a search, the best first."""

    ended: tuple[Start, ...]

    @property
    def equivalent(self) -> int:
        """How many optima, with different parameters, are as good as the best: itself and its images.

        Hidden variables may change places, or names of states, without any change to what is observed.
        """
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


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where a search ended, and how. starts: where it began at several points."""

    point: Point
    status: Status
    iterations: tuple[Iteration, ...]
    starts: Starts | None = None

    @property
    def parameters(self) -> FloatArray:
        return self.point.parameters
