"""The Gaussian prior λ ~ N(mean, Λ), equation (2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from bayesfield.types import FloatArray, InvalidInput


class Parametrised(Protocol):
    """A model as priors and posteriors see it: a field, or a conditional field."""

    @property
    def parameter_names(self) -> list[str]: ...

    @property
    def n_parameters(self) -> int: ...

    @property
    def groups(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class Normal:
    """λ ~ N(mean, Λ): ``Normal(variance=0.25)``, one variance for each parameter, by group, or a full matrix.

    variance: a number, an (F,) array, or a mapping from group (such as "nodes", "edges") to a number.
    covariance: instead of variance, the (F, F) matrix Λ. mean: a number or (F,) array.
    """

    variance: float | ArrayLike | Mapping[str, float] | None = None
    covariance: ArrayLike | None = None
    mean: float | ArrayLike = 0.0

    def __post_init__(self) -> None:
        if (self.variance is None) == (self.covariance is None):
            raise InvalidInput("give the prior either a variance or a covariance matrix")
        if not np.isfinite(_numbers(self.mean, "the prior mean")).all():
            raise InvalidInput(f"the prior mean must be finite; got {self.mean!r}")
        if self.variance is None:
            return
        values = list(self.variance.values()) if isinstance(self.variance, Mapping) else self.variance
        numbers = _numbers(values, "prior variances")
        if not np.isfinite(numbers).all() or (numbers <= 0).any():
            raise InvalidInput(f"prior variances must be finite and above zero; got {self.variance!r}")

    def location(self, field: Parametrised) -> FloatArray:
        """Prior mean, (F,)."""
        return _vector(self.mean, field.n_parameters, "prior mean")

    def precision(self, field: Parametrised) -> FloatArray:
        """Λ⁻¹: its diagonal (F,) when the parameters are independent, else the matrix (F, F)."""
        if self.covariance is not None:
            return self._inverse(field.n_parameters)
        if isinstance(self.variance, Mapping):
            groups = set(field.groups)
            if groups != set(self.variance):
                raise InvalidInput(f"the field's groups are {sorted(groups)}; the prior names {sorted(self.variance)}")
            by_group = self.variance
            return 1.0 / np.array([by_group[g] for g in field.groups], dtype=np.float64)
        if self.variance is None:
            raise InvalidInput("the prior has no variance")
        return 1.0 / _vector(self.variance, field.n_parameters, "prior variance")

    def _inverse(self, size: int) -> FloatArray:
        matrix = _numbers(self.covariance, "the prior covariance")
        if matrix.shape != (size, size):
            raise InvalidInput(f"the prior covariance needs shape {(size, size)}; got {matrix.shape}")
        if not np.isfinite(matrix).all():
            raise InvalidInput("the prior covariance must be finite")
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


def _numbers(value: Any, what: str) -> FloatArray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(f"{what} must be numbers; got {value!r}") from None


def _vector(value: ArrayLike | Mapping[str, float], size: int, what: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape not in {(), (size,)}:
        raise InvalidInput(f"{what} needs one number or {size}, one for each parameter; got shape {array.shape}")
    return np.array(np.broadcast_to(array, (size,)))
