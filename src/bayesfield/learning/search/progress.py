"""What is told of a search while it runs, and when its time is up."""

import time
from collections.abc import Callable
from typing import NamedTuple


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
    decides nothing else.
    """

    def __init__(self, watch: Watch | None = None, seconds: float | None = None) -> None:
        self._watch = watch
        self._end = None if seconds is None else time.monotonic() + seconds

    def tell(self, iteration: Iteration) -> None:
        if self._watch is not None:
            self._watch(iteration)

    @property
    def expired(self) -> bool:
        return self._end is not None and time.monotonic() > self._end


QUIET = Progress()
