"""Models against one another: by their evidence for the same data, and one group of cases against another."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from bayesfield.fitting.fields import fit
from bayesfield.learning.objective import gaussian
from bayesfield.model.field import RandomField
from bayesfield.model.prior import Prior, as_numbers, as_prior, shared_by
from bayesfield.posterior.edges import log_density_at_zero, log_prior_at_zero, verdicts
from bayesfield.posterior.posterior import Posterior
from bayesfield.tabular import as_table
from bayesfield.types import FitWarning, FloatArray, IntArray, InvalidInput

_SURE = 0.05  # nats: an error that changes no odds by more than 5 %


def compare(posteriors: Mapping[str, Posterior] | Sequence[Posterior], prior: ArrayLike | None = None) -> pd.DataFrame:
    """Models of the same data, the likeliest first.

    posteriors: by name, or in order. prior: probabilities of the models before the data; by default equal. Columns:
    parameters; log_evidence and its error; log_bayes_factor against the best; probability; method, how the
    evidence was found; learned, how many prior variances the same data chose: where there are many, the evidence is
    flattered.
    """
    given = posteriors if isinstance(posteriors, Mapping | Sequence) else ()
    named = dict(given) if isinstance(given, Mapping) else {f"model {k}": p for k, p in enumerate(given)}
    if len(named) < 2 or not all(isinstance(p, Posterior) for p in named.values()):
        raise InvalidInput("compare takes two posteriors or more, by name or in a list, as bf.fit returns them")
    before = _probabilities(prior, len(named))
    _same_data(named)
    found = [p.evidence() for p in named.values()]
    value = np.array([e.value for e in found])
    with np.errstate(divide="ignore"):
        weight = value + np.log(before)
    table = pd.DataFrame(
        {
            "parameters": [len(p.mean) for p in named.values()],
            "log_evidence": value,
            "error": [e.error for e in found],
            "log_bayes_factor": value - value.max(),
            "probability": special.softmax(weight),
            "method": [e.method for e in found],
            "learned": [0 if p.record.prior is None else len(p.record.prior.table) for p in named.values()],
        },
        index=pd.Index(list(named), name="model"),
    )
    _warn_of_errors(table)
    return table.sort_values("log_evidence", ascending=False, kind="stable")


def _warn_of_errors(table: pd.DataFrame) -> None:
    """Where the error of the best two is as large as their difference, their order says nothing."""
    best = table.sort_values("log_evidence", ascending=False, kind="stable").iloc[:2]
    apart, error = -float(best["log_bayes_factor"].iloc[1]), float(np.hypot(*best["error"]))
    if error >= apart and error > _SURE:
        first, second = best.index
        warnings.warn(
            f"{first!r} and {second!r} differ by {apart:.2f} nats, with an error of {error:.2f}: which is better is "
            "not known. More draws (posterior.evidence(n_draws=…)), or an engine with log Z, make the error smaller",
            FitWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """Do groups of cases share their parameters?

    log_bayes_factor: for parameters of each group's own against one set for all; error: its Monte-Carlo error. parts:
    the same for each of the field's own groups of parameters (such as "nodes", "edges"), the others free, for each pair
    of groups; by Savage and Dickey, so to second order.
    differences: for each pair of groups and each parameter the difference (first minus second), its sd, P(> 0), and the
    log Bayes factor for a difference against none, with verdicts at_10 and at_3. posteriors: of each group. pooled: of
    all cases together.
    """

    log_bayes_factor: float
    error: float
    parts: pd.DataFrame
    differences: pd.DataFrame
    posteriors: dict[Any, Posterior]
    pooled: Posterior

    def __str__(self) -> str:
        factor = self.log_bayes_factor
        side = "of their own" if factor > 0 else "in common"
        counts = self.differences["at_10"].value_counts()
        return (
            f"{len(self.posteriors)} groups: parameters {side}, by {abs(factor):.1f} ± {self.error:.1f} nats; "
            f"{len(self.differences)} differences at a Bayes factor of 10: {int(counts.get('included', 0))} there, "
            f"{int(counts.get('excluded', 0))} not, {int(counts.get('inconclusive', 0))} inconclusive"
        )


def compare_groups(
    field: RandomField, X: Any, groups: Sequence[Any], prior: Prior | None = None, **options: Any
) -> GroupComparison:
    """Each group's posterior, their differences, and whether the groups share all parameters.

    X: cases, as in ``bf.fit``. groups: the group of every case, in the order of X. prior: of the parameters of each
    group and of all. The difference of two independent parameters has a prior twice as wide. options: of ``bf.fit``,
    for every fit.
    """
    X = as_table(X)
    owner = np.asarray(groups, dtype=object)
    if owner.ndim != 1 or len(owner) != len(X):
        raise InvalidInput(f"groups needs one entry for each of the {len(X)} cases; got shape {owner.shape}")
    if pd.isna(owner).any():
        raise InvalidInput("every case needs a group; some are missing. Leave those cases out")
    names = sorted(set(owner.tolist()), key=str)
    if len(names) < 2:
        raise InvalidInput(f"a comparison needs at least two groups; got {names}")
    prior = as_prior(prior)
    if not gaussian(prior, field).independent:
        raise InvalidInput("groups are compared under a prior of independent parameters; this has a covariance")
    if prior.learned(field) or prior.tails(field) is not None:
        raise InvalidInput("groups are compared under one fixed prior: take bf.Normal with variances that are numbers")
    cases = X if isinstance(X, pd.DataFrame) else np.asarray(X)
    field = field.naming(cases)
    posteriors = {name: fit(field, cases[owner == name], prior, **options) for name in names}
    pooled = fit(field, cases, prior, **options)
    found = [p.evidence() for p in posteriors.values()]
    whole = pooled.evidence()
    return GroupComparison(
        float(sum(e.value for e in found) - whole.value),
        float(np.sqrt(sum(e.error**2 for e in [*found, whole]))),
        pd.concat([_parts(a, b, posteriors) for a, b in combinations(names, 2)], ignore_index=True),
        pd.concat([_differences(a, b, posteriors) for a, b in combinations(names, 2)], ignore_index=True),
        posteriors,
        pooled,
    )


def _differences(first: Any, second: Any, posteriors: Mapping[Any, Posterior]) -> pd.DataFrame:
    """Savage-Dickey for λ_a − λ_b = 0; under the prior it is N(0, 2 Λ)."""
    a, b = posteriors[first], posteriors[second]
    assert a.objective is not None
    log_prior_at_zero(a.prior_in_force())  # refuses what is not independent
    mean, sd = a.mean - b.mean, np.hypot(a.sd, b.sd)
    before = 0.5 * np.log(a.objective.prior.precision / 2.0)
    factor = before + np.log(sd) + 0.5 * (mean / sd) ** 2
    return pd.DataFrame(
        {
            "first": first,
            "second": second,
            "parameter": a.field.parameter_names,
            "difference": mean,
            "sd": sd,
            "p_positive": special.ndtr(mean / sd),
            "log_bayes_factor": factor,
            "at_10": verdicts(factor, 10),
            "at_3": verdicts(factor, 3),
        }
    )


def _parts(first: Any, second: Any, posteriors: Mapping[Any, Posterior]) -> pd.DataFrame:
    """Savage-Dickey for all differences of a group of parameters at once."""
    a, b = posteriors[first], posteriors[second]
    assert a.objective is not None
    spread = a.covariance() + b.covariance()
    rows = []
    for part in shared_by(list(a.field.groups)):
        k = part.parameters
        before = 0.5 * float(np.log(a.objective.prior.precision[k] / (4.0 * np.pi)).sum())
        after = log_density_at_zero((a.mean - b.mean)[k], spread[np.ix_(k, k)])
        rows.append((first, second, part.name, len(k), before - after))
    return pd.DataFrame(rows, columns=["first", "second", "group", "parameters", "log_bayes_factor"])


def _probabilities(prior: ArrayLike | None, count: int) -> FloatArray:
    given = np.full(count, 1.0 / count) if prior is None else as_numbers(prior, "prior probabilities")
    if given.shape != (count,) or not (given >= 0.0).all() or not np.isclose(given.sum(), 1.0):
        raise InvalidInput(f"prior needs {count} probabilities that sum to one; got {prior!r}")
    return given


def _same_data(named: Mapping[str, Posterior]) -> None:
    keys = {name: _data_key(p) for name, p in named.items()}
    first = next(iter(keys))
    for name, key in keys.items():
        if key != keys[first]:
            raise InvalidInput(
                f"{first!r} and {name!r} were fitted to different data, so that their evidences cannot be compared; "
                "fit both to the same cases of the same variables"
            )


def _data_key(posterior: Posterior) -> str:
    """A digest of what was observed: labelled cells in any order of cases and variables, or labels in order."""
    objective, field = posterior.objective, posterior.field
    if objective is None or not objective.data.here:
        raise InvalidInput("a posterior without its data cannot be compared")
    data = objective.data
    weights = [] if data.weights is None else [np.sort(data.weights)]
    if isinstance(field, RandomField):
        return _digest([*_cells(field, data.cases.codes), *weights])
    if hasattr(data, "y"):  # observations of hidden labels
        return _digest([data.ptr, data.y])
    names = np.array([str(label) for label in data.crf.visible] + ["?"])
    return _digest([data.items.ptr, names[data.items.labels], *weights])


def _cells(field: RandomField, codes: IntArray) -> list[Any]:
    """Rows of labels, sorted, of the variables that some case observes, in the order of their names."""
    seen = sorted(np.flatnonzero((codes >= 0).any(axis=0)).tolist(), key=lambda v: field.names[v])
    columns = []
    for v in seen:
        labels = np.array([_label(s) for s in field.states[v]] + ["?"])
        columns.append(labels[codes[:, v]])
    names = [field.names[v] for v in seen]
    return [names, np.sort(np.array(["\t".join(row) for row in zip(*columns, strict=True)]))]


def _label(state: Any) -> str:
    """1 and 1.0 are one label."""
    return str(float(state)) if isinstance(state, int | float | np.number) else str(state)


def _digest(parts: Sequence[Any]) -> str:
    found = hashlib.sha256()
    for part in parts:
        array = np.asarray(part)
        found.update(str((array.shape, array.dtype.kind)).encode())
        found.update("\n".join(array.ravel().tolist()).encode() if array.dtype.kind == "U" else array.tobytes())
    return found.hexdigest()
