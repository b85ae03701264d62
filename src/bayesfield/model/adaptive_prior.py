"""Priors that take their shape from the data: relevance determination, and heavy tails."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bayesfield.model.prior import (
    EVIDENCE,
    LEAST,
    MOST,
    Normal,
    Parametrised,
    Prior,
    Shared,
    refuse_variances,
    shared_by,
)
from bayesfield.types import BoolArray, FloatArray, InvalidInput


@dataclass(frozen=True, eq=False)
class ARD(Prior):
    """Automatic relevance determination: every group of parameters has a variance of its own, chosen by the evidence.

    Groups that the data do not ask for are dropped: their parameters end at zero.
    groups: None for every parameter by itself; "inputs" for a CRF, the weights of an input for all labels; "groups" for
    the field's own; or a name for each parameter, as a sequence or a mapping from its name (None leaves it as it is).
    threshold: the Bayes factor, for a group's best variance against none, below which it is dropped. Of pure noise a
    share of about 0.03 has one above 3, 0.014 one above 5. variance: where the search begins, and of the parameters in
    no group.
    """

    groups: str | Sequence[Hashable] | Mapping[str, Hashable] | None = None
    threshold: float = 3.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        if not _positive(self.variance):
            raise InvalidInput(f"ARD begins at a variance that is finite and above zero; got {self.variance!r}")
        refuse_variances(np.array([self.variance], dtype=np.float64), self.variance)
        if not _positive(self.threshold) or self.threshold < 1.0:
            raise InvalidInput(f"threshold is a Bayes factor, 1 or more; got {self.threshold!r}")
        if not isinstance(self.groups, str | Sequence | Mapping | np.ndarray | None):
            raise InvalidInput(f"groups are names, one for each parameter; got {self.groups!r}")

    def location(self, field: Parametrised) -> FloatArray:
        return np.zeros(field.n_parameters)

    def precision(self, field: Parametrised) -> FloatArray:
        return np.full(field.n_parameters, 1.0 / self.variance)

    def learned(self, field: Parametrised) -> tuple[Shared, ...]:
        return shared_by(self._labels(field))

    def _labels(self, field: Parametrised) -> Sequence[Hashable]:
        """The group of every parameter; None for those in none."""
        names = field.parameter_names
        if self.groups is None:
            return names
        if isinstance(self.groups, str):
            found = getattr(field, {"groups": "groups", "inputs": "input_of"}.get(self.groups, ""), None)
            if found is None:
                raise InvalidInput(
                    f'groups is "inputs" (of a CRF), "groups", or a name for each parameter; got {self.groups!r}'
                )
            return list(found)
        if isinstance(self.groups, Mapping):
            missing = [name for name in names if name not in self.groups]
            if missing:
                raise InvalidInput(
                    f"groups must cover all {len(names)} parameters; {len(missing)} are left out, the first "
                    f"{missing[0]!r} (give None to those that keep the prior variance)"
                )
            return [self.groups[name] for name in names]
        if len(self.groups) != len(names):
            raise InvalidInput(f"groups must cover all {len(names)} parameters; got {len(self.groups)} names")
        return self.groups


@dataclass(frozen=True, eq=False)
class Templates(Prior):
    """A variance for each template of a CRF's inputs: words, tags, pairs of tags, each N(0, its own variance).

    The template is what an input's name has before the first "=" or ":" ("w[-1]" of "w[-1]=the"); inputs with neither
    share "others", and transitions are "transition".
    variance: "evidence" lets the data choose each; a number is for all; a mapping from template to either must name all
    of them. begin: where the search begins.
    """

    variance: float | str | Mapping[str, float | str] = EVIDENCE
    begin: float = 1.0

    def __post_init__(self) -> None:
        values = list(self.variance.values()) if isinstance(self.variance, Mapping) else [self.variance]
        fixed = [v for v in (*values, self.begin) if not (isinstance(v, str) and v == EVIDENCE)]
        if not all(isinstance(v, int | float | np.number) for v in fixed):
            raise InvalidInput(
                f'variances of templates are numbers above zero or "evidence", one for all or by template; got '
                f"{self.variance!r}"
            )
        refuse_variances(np.array(fixed, dtype=np.float64), self.variance)

    def location(self, field: Parametrised) -> FloatArray:
        return np.zeros(field.n_parameters)

    def precision(self, field: Parametrised) -> FloatArray:
        names, variance = _templates_of(field), self.variance
        by_name = self._by_template(names) if isinstance(variance, Mapping) else dict.fromkeys(names, variance)
        numbers = {name: self.begin if isinstance(v, str) else float(v) for name, v in by_name.items()}
        return 1.0 / np.array([numbers[name] for name in names], dtype=np.float64)

    def learned(self, field: Parametrised) -> tuple[Shared, ...]:
        names, variance = _templates_of(field), self.variance
        if not isinstance(variance, Mapping):
            return shared_by(names) if isinstance(variance, str) else ()
        by_name = self._by_template(names)
        return shared_by([name if isinstance(by_name[name], str) else None for name in names])

    def _by_template(self, names: Sequence[str]) -> Mapping[str, float | str]:
        assert isinstance(self.variance, Mapping)
        if set(names) != set(self.variance):
            raise InvalidInput(f"the model's templates are {sorted(set(names))}; the prior names {list(self.variance)}")
        return self.variance


def _templates_of(field: Any) -> Sequence[str]:
    names: Sequence[str] | None = getattr(field, "template_of", None)
    if names is None:
        raise InvalidInput(
            "templates are of a CRF's inputs, and this is a field: take bf.Normal(variance={group: …}), whose groups "
            f"are {sorted(set(field.groups))}"
        )
    return names


@dataclass(frozen=True, eq=False)
class Cauchy(Prior):
    """λ ~ Cauchy(0, scale), independently: bgms's prior of couplings. Near its peak a Gaussian, but large effects stay.

    As a scale mixture, N(0, τ) with τ ~ inverse-gamma(½, scale²/2): the fit expands its logarithm about the mode.
    groups: of the field, such as ("edges",), that have it; by default all. others: the prior of the rest.
    """

    scale: float = 2.5
    groups: Sequence[str] | None = None
    others: Normal = field(default_factory=lambda: Normal(variance=1.0))

    def __post_init__(self) -> None:
        if not _positive(self.scale):
            raise InvalidInput(f"the scale of a Cauchy prior is finite and above zero; got {self.scale!r}")
        if not np.sqrt(2 * LEAST) <= self.scale <= np.sqrt(2 * MOST):  # scale²/2: the variance at its peak
            raise InvalidInput(f"the scale of a Cauchy prior goes from 1.5e-6 to 1.4e6; got {self.scale!r}")
        if isinstance(self.groups, str):
            raise InvalidInput(f"groups is a sequence of names, such as ({self.groups!r},); got {self.groups!r}")
        if not isinstance(self.others, Normal) or self.others.covariance is not None:
            raise InvalidInput(
                "beside a Cauchy prior the others are a bf.Normal with independent parameters: give a variance"
            )
        if isinstance(self.others.variance, str) or (
            isinstance(self.others.variance, Mapping) and EVIDENCE in self.others.variance.values()
        ):
            raise InvalidInput('beside a Cauchy prior no variance is learned: give numbers instead of "evidence"')

    def location(self, model: Parametrised) -> FloatArray:
        return np.where(self._heavy(model), 0.0, self.others.location(model))

    def precision(self, model: Parametrised) -> FloatArray:
        """For the heavy ones the curvature at zero."""
        others = self.others
        if isinstance(others.variance, Mapping):  # heavy groups need none of their own
            heavy = dict.fromkeys(self.groups if self.groups is not None else model.groups, 1.0)
            others = replace(others, variance=heavy | dict(others.variance))
        return np.where(self._heavy(model), 2.0 / self.scale**2, others.precision(model))

    def tails(self, model: Parametrised) -> FloatArray | None:
        return np.where(self._heavy(model), self.scale, np.inf)

    def _heavy(self, model: Parametrised) -> BoolArray:
        own = np.array(list(model.groups), dtype=object)
        if self.groups is None:
            return np.ones(len(own), dtype=bool)
        strange = set(self.groups) - set(own)
        if strange:
            raise InvalidInput(f"the field's groups are {sorted(set(own))}; the prior names {sorted(strange)}")
        result: BoolArray = np.isin(own, list(self.groups))
        return result


def _positive(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(0.0 < value < np.inf)
