"""Array aliases, the records that layers hand to one another, and the statuses they report."""

from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


# The largest log-potential, feature, input, parameter or prior mean. Engines add and subtract log-potentials: a sum
# with a term of 1e10 is off by up to 2^-53 · 1e10 = 1e-6, and one with 1e16 has lost all other terms. Measured with a
# mask of -1e16 instead of -inf: marginals by Bethe and by sampling were off by 0.05, and called converged; with up to
# -1e12 all engines were right.
LARGEST = 1e10


class GraphArrays(NamedTuple):
    """A factor graph of n variables and m factors (two or more variables each) as flat arrays.

    All tables stand in one vector of T entries: first a table for each variable (its unary potential), then one for
    each factor, row-major, the last variable of the scope fastest. A *slot* is one member of one factor's scope; a
    message runs along each slot in each direction. E slots in all.
    """

    cardinality: IntArray  # (n,) number of states
    node_ptr: IntArray  # (n+1,) table of variable i: entries node_ptr[i]:node_ptr[i+1]
    table_ptr: IntArray  # (m+1,) table of factor a: entries table_ptr[a]:table_ptr[a+1]; starts at node_ptr[n]
    scope_ptr: IntArray  # (m+1,) slots of factor a: scope_ptr[a]:scope_ptr[a+1]
    scope: IntArray  # (E,) the variable of each slot, ascending within a factor
    stride: IntArray  # (E,) step in the factor's table when that variable's state goes up by one
    slot_factor: IntArray  # (E,) the factor of each slot
    slot_ptr: IntArray  # (n+1,) slots of variable i: slots[slot_ptr[i]:slot_ptr[i+1]]
    slots: IntArray  # (E,) slots sorted by variable
    message_ptr: IntArray  # (E+1,) message of slot e: entries message_ptr[e]:message_ptr[e+1]


Region = tuple[int, ...]  # variables, ascending


class RegionGraph(NamedTuple):
    """Outer regions (clusters, counting number 1), inner regions (their intersections) and their counting numbers."""

    outer: tuple[Region, ...]
    inner: tuple[Region, ...]
    counting: tuple[float, ...]


class Outcome(Enum):
    """How a computation ended; the value is the sentence a user reads."""

    EXACT = "exact"
    CONVERGED = "converged by message passing"
    MINIMISED = "message passing did not settle; converged by minimising the free energy directly"
    SAMPLED = "sampled; means carry a Monte-Carlo error"
    OPTIMUM = "converged to an optimum"
    GIVEN = "the parameters were given: nothing was fitted"
    CLOSED_FORM = "read off the data in closed form, without an objective"
    NOT_CONVERGED = (
        "not converged: the result is not a fixed point; raise the budget, add damping, or use bf.Exact() if the "
        "graph allows"
    )
    NO_OPTIMUM = (
        "stopped before the optimum; raise max_iterations, take a narrower prior, or use an engine that is exact on "
        "this field"
    )
    TIME_UP = (
        "stopped by time_limit or an interrupt before it converged: what is here is the best so far; give it more time"
    )
    SLOW = (
        "chains that began apart have not met: they mix too slowly to sample from, and the weights of what they do not "
        "cross are not known; use bf.Exact() or bf.Kikuchi(), or a longer burn_in"
    )
    INDEFINITE = (
        "the curvature is not positive definite here: the engine's approximation breaks down at these couplings; use "
        "bf.Exact() if the graph allows, or a narrower prior"
    )
    TOO_WIDE = (
        "the posterior is too wide for a correction to second order: do not trust labels by it, and average marginals "
        "instead"
    )
    IMPOSSIBLE = "every joint state has probability zero; check the evidence and the zeros in the tables"


_GOOD = frozenset(
    {
        Outcome.EXACT,
        Outcome.CONVERGED,
        Outcome.MINIMISED,
        Outcome.SAMPLED,
        Outcome.OPTIMUM,
        Outcome.GIVEN,
        Outcome.CLOSED_FORM,
    }
)


@dataclass(frozen=True, slots=True)
class Status:
    """How a computation ended, with the figures that show it.

    mixing: of Gibbs chains, how far they are from having forgotten where they began, over the most that is allowed:
    above 1 they have not mixed (inference.sampling.mixing); None where no chains ran, or too few to tell.
    """

    outcome: Outcome
    iterations: int = 0
    residual: float = 0.0
    detail: str = ""
    history: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    mixing: float | None = None

    @property
    def converged(self) -> bool:
        return self.outcome in _GOOD

    def __str__(self) -> str:
        text = self.outcome.value
        if self.iterations:
            text += f" (iterations {self.iterations}, residual {self.residual:.2g})"
        return f"{text}; {self.detail}" if self.detail else text


@dataclass(frozen=True, slots=True)
class Marginals:
    """What an engine returns for tables θ.

    log_z: log Σ_x exp θ(x), exact or the engine's approximation.
    tables: (T,) belief of every table entry, laid out like θ: variables first, then factors.
    state: whatever the engine needs to answer for covariances or to start again (messages, a calibrated tree).
    """

    log_z: float
    tables: FloatArray
    status: Status
    state: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a job will take, known before anything is allocated. seconds: NaN where no one has looked."""

    entries: float
    bytes: float
    detail: str
    seconds: float = float("nan")


class Options:
    """Base of the dataclasses that users write as options: shown with what differs from the default only."""

    def __repr__(self) -> str:
        changed = []
        for f in fields(self):  # type: ignore[arg-type]
            if not f.repr:
                continue
            default = f.default if f.default_factory is MISSING else f.default_factory()
            if getattr(self, f.name) != default:
                changed.append(f"{f.name}={getattr(self, f.name)!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


class BayesfieldError(Exception):
    """Base of the errors this library raises on purpose; the text says what to do."""


class FitWarning(UserWarning):
    """A fit, or chains that were to draw states, did not end as they should; the numbers are not to be trusted."""


class InvalidInput(BayesfieldError, ValueError):  # noqa: N818 - reads as what it says
    """The caller gave something that cannot be used."""


class TooLarge(BayesfieldError, MemoryError):  # noqa: N818
    """The job would not fit in memory; nothing was allocated."""


class IndefiniteCurvature(BayesfieldError, ArithmeticError):  # noqa: N818
    """No Gaussian posterior exists at this point: the precision is not positive definite."""
