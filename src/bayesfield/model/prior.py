"""Priors of the parameters: Gaussian, λ ~ N(mean, Λ), equation (2); learned from the data; with heavy tails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from bayesfield.types import LARGEST, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.model.smooth.coupling import Coupling

EVIDENCE = "evidence"
# Bounds of prior variances v. The precision is P = N·C + 1/v, with curvatures C of a case about 1/4 and below. With
# 1/v < 2^-53·N·C the prior is rounded away, and directions that the data leave open have a singular P: v = 1e12 still
# counts at N·C = 9000. A gradient (λ - μ)/v is off by 2^-53·|λ|/v, which in units of the prior's sd is 2^-53·|λ|/√v:
# 1e-10·|λ| at v = 1e-12, and about 1 at 1e-32, where no step leads anywhere.
LEAST, MOST = 1e-12, 1e12
GONE = 1e10  # prior precision of a parameter that is left out: its sd is 1e-5


class Parametrised(Protocol):
    """A model as priors and posteriors see it: a field, or a conditional field."""

    @property
    def parameter_names(self) -> list[str]: ...

    @property
    def n_parameters(self) -> int: ...

    @property
    def groups(self) -> Any: ...


class Shared(NamedTuple):
    """Parameters with one prior variance, which is learned: the name of their group, and which they are."""

    name: str
    parameters: IntArray


class Prior(ABC):
    """What every prior can say of a field's parameters.

    threshold: the Bayes factor that a group needs to stay; None where none is ever dropped.
    """

    threshold: float | None = None

    @abstractmethod
    def precision(self, field: Parametrised) -> FloatArray:
        """Λ⁻¹, or where it begins: its diagonal (F,) when the parameters are independent, else the matrix (F, F)."""

    @abstractmethod
    def location(self, field: Parametrised) -> FloatArray:
        """Prior mean, (F,)."""

    def coupling(self, field: Parametrised) -> Coupling | None:
        """What ties parameters to one another, where that has a structure (``bf.Smooth``); else None."""
        return None

    def learned(self, field: Parametrised) -> tuple[Shared, ...]:
        """The variances that the data are to choose."""
        return ()

    def tails(self, field: Parametrised) -> FloatArray | None:
        """(F,) scales of the parameters whose prior is a Cauchy, infinite for those whose prior is Gaussian."""
        return None


@dataclass(frozen=True, eq=False)
class Normal(Prior):
    """λ ~ N(mean, Λ): ``Normal(variance=0.25)``, one variance for each parameter, by group, or a full matrix.

    variance: a number, an (F,) array, or a mapping from group (such as "nodes", "edges") to a number; "evidence", as a
    whole or for a group, lets the data choose it: the one with the largest evidence.
    covariance: instead of variance, the (F, F) matrix Λ. mean: a number or (F,) array.
    """

    variance: float | ArrayLike | Mapping[str, float | str] | str | None = None
    covariance: ArrayLike | None = None
    mean: float | ArrayLike = 0.0

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.covariance is None):
            raise InvalidInput("give the prior either a variance or a covariance matrix")
        if not (np.abs(as_numbers(self.mean, "the prior mean")) <= LARGEST).all():
            raise InvalidInput(f"the prior mean must be finite and within ±{LARGEST:g}; got {self.mean!r}")
        if self.variance is None:
            return
        values = list(self.variance.values()) if isinstance(self.variance, Mapping) else [self.variance]
        fixed: Any = [v for v in values if not (isinstance(v, str) and v == EVIDENCE)]
        numbers = as_numbers(fixed[0] if len(fixed) == 1 else fixed, "prior variances")
        refuse_variances(numbers, self.variance)

    def location(self, field: Parametrised) -> FloatArray:
        return _vector(self.mean, field.n_parameters, "prior mean")

    def precision(self, field: Parametrised) -> FloatArray:
        if self.covariance is not None:
            return self._inverse(field.n_parameters)
        if isinstance(self.variance, Mapping):
            groups = set(field.groups)
            if groups != set(self.variance):
                raise InvalidInput(f"the field's groups are {sorted(groups)}; the prior names {sorted(self.variance)}")
            begin = {g: 1.0 if isinstance(v, str) else v for g, v in self.variance.items()}
            return 1.0 / np.array([begin[g] for g in field.groups], dtype=np.float64)
        if self.variance is None:
            raise InvalidInput("the prior has no variance")
        begun = 1.0 if isinstance(self.variance, str) else self.variance
        return 1.0 / _vector(begun, field.n_parameters, "prior variance")

    def learned(self, field: Parametrised) -> tuple[Shared, ...]:
        if isinstance(self.variance, str):
            return (Shared("parameters", np.arange(field.n_parameters)),) if field.n_parameters else ()
        if not isinstance(self.variance, Mapping):
            return ()
        wanted = {g for g, v in self.variance.items() if isinstance(v, str)}
        return tuple(s for s in shared_by([g if g in wanted else None for g in field.groups]))

    def _inverse(self, size: int) -> FloatArray:
        matrix = as_numbers(self.covariance, "the prior covariance")
        if matrix.shape != (size, size):
            raise InvalidInput(f"the prior covariance needs shape {(size, size)}; got {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise InvalidInput("the prior covariance must be finite")
        refuse_variances(np.diag(matrix), f"{np.diag(matrix)} on its diagonal")
        if not np.allclose(matrix, matrix.T):
            raise InvalidInput("the prior covariance must be symmetric")
        try:
            factor = linalg.cho_factor(matrix)
        except linalg.LinAlgError:
            low = float(np.linalg.eigvalsh(matrix)[0])
            raise InvalidInput(
                f"the prior covariance must be positive definite; its smallest eigenvalue is {low:.3g}"
            ) from None
        result: FloatArray = linalg.cho_solve(factor, np.eye(size))
        return (result + result.T) / 2


def refuse_variances(variances: FloatArray, given: Any) -> None:
    """Refuse variances that no arithmetic in double precision can honour (LEAST, MOST)."""
    if not np.isfinite(variances).all() or (variances <= 0).any():
        raise InvalidInput(f"prior variances must be finite and above zero; got {given!r}")
    if (variances < LEAST).any():
        raise InvalidInput(
            f"prior variances go down to {LEAST:g}; got {given!r}. A prior as narrow as that fixes the parameter at "
            "its prior mean: put the value into a factor's log_table instead, or take a wider prior"
        )
    if (variances > MOST).any():
        raise InvalidInput(
            f"prior variances go up to {MOST:g}; got {given!r}. Beyond it the prior is lost to rounding where the data "
            "say nothing, and there is no posterior: take a narrower prior, such as 100 for couplings of any size"
        )


def as_prior(prior: Any) -> Prior:
    """The prior that was given; by default Normal(variance=1)."""
    if prior is None:
        return Normal(variance=1.0)
    if not isinstance(prior, Prior):
        raise InvalidInput(
            "the prior is a bf.Normal, such as bf.Normal(variance=0.25), a bf.ARD, a bf.Cauchy or a bf.Smooth; got "
            f"{prior!r}"
        )
    return prior


def shared_by(labels: Sequence[Hashable]) -> tuple[Shared, ...]:
    """Parameters with the same label, in the order of first appearance; those with None are in no group."""
    members: dict[Hashable, list[int]] = {}
    for k, label in enumerate(labels):
        if label is not None:
            members.setdefault(label, []).append(k)
    return tuple(Shared(str(name), np.array(own, dtype=np.int64)) for name, own in members.items())


def as_numbers(value: Any, what: str) -> FloatArray:
    """An array, or an error that says what must be numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers; got {value!r}") from None


def _vector(value: ArrayLike | Mapping[str, float], size: int, what: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in {(), (size,)}:
        raise InvalidInput(f"{what} needs one number or {size}, one for each parameter; got shape {array.shape}")
    return np.array(np.broadcast_to(array, (size,)))
