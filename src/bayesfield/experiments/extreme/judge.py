"""A default fit of a tiny model beside the truth: one row of figures; and what a table of such rows amounts to."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfield.experiments.extreme.models import ExtremeModel
from bayesfield.experiments.extreme.reference import Reference, reference
from bayesfield.fitting.fields import fit
from bayesfield.model.prior import Normal
from bayesfield.posterior.posterior import Posterior
from bayesfield.types import BayesfieldError, BoolArray

MEAN, SD, P_POSITIVE = 0.1, 0.1, 0.01  # sd; share; probability: what is close enough
INTERVAL = (0.93, 0.97)  # that the 95 % intervals may hold
ERRORS = 3.0  # reported errors that the evidence may be off by
_MEASURED = (  # of a fit; those of one that failed are no numbers, and reach nothing
    *("mean_error", "sd_error", "held_least", "held_most", "p_error"),
    *("moments_within", "held_within", "p_within", "evidence_errors"),
)
_COMPILED = 1.0  # seconds: a fit that took longer is timed again, since the first of its kind compiles


def judged(model: ExtremeModel, references: Path | None = None) -> dict[str, Any]:
    """A row: the model, the largest errors of its default fit over the parameters, warnings and seconds.

    references: the folder of reference answers; they are computed where it has none.
    """
    truth = reference(model, references)
    posterior, warned, seconds = _fitted(model)
    if seconds > _COMPILED:
        posterior, warned, seconds = _fitted(model)
    row: dict[str, Any] = {
        "seed": model.seed,
        "variables": model.variables,
        "states": model.states,
        "structure": model.structure,
        "coding": model.coding,
        "tied": model.tied,
        "data": model.data,
        "parameters": len(truth.mean),
        "cases": len(model.codes),
        "variance": model.variance,
        "unseen": model.has_unseen_states,
        "warned": bool(warned),
        "seconds": round(seconds, 4),
        "failure": posterior if isinstance(posterior, str) else "",
        **_reference_errors(truth),
    }
    if isinstance(posterior, str):
        return row | dict.fromkeys(_MEASURED, np.nan)
    return row | _errors(posterior, truth) | _evidence(posterior, truth)


def _fitted(model: ExtremeModel) -> tuple[Posterior | str, list[str], float]:
    """The posterior by default, or why there is none; the warnings; the seconds of the process."""
    field, X, prior = model.field, model.X, Normal(variance=model.variance)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.process_time()
        try:
            posterior: Posterior | str = fit(field, X, prior)
        except (BayesfieldError, ArithmeticError, ValueError) as error:
            posterior = f"{type(error).__name__}: {error}"
        seconds = time.process_time() - begun
    return posterior, [str(w.message) for w in caught], seconds


def _errors(posterior: Posterior, truth: Reference) -> dict[str, Any]:
    """mean_error in true sd, sd_error as a share, p_error: the largest; held: what the 95 % intervals truly hold.

    The columns …_within count the parameters that are close enough.
    """
    table = posterior.summary(0.95)
    mean = np.abs(posterior.mean - truth.mean) / truth.sd
    sd = np.abs(posterior.sd / truth.sd - 1.0)
    held = truth.probability_between(table["lower"].to_numpy(), table["upper"].to_numpy())
    p = np.abs(table["p_positive"].to_numpy() - truth.p_positive)
    return {
        "mean_error": mean.max(),
        "sd_error": sd.max(),
        "held_least": held.min(),
        "held_most": held.max(),
        "p_error": p.max(),
        "moments_within": int(((mean <= MEAN) & (sd <= SD)).sum()),
        "held_within": int(((held >= INTERVAL[0]) & (held <= INTERVAL[1])).sum()),
        "p_within": int((p <= P_POSITIVE).sum()),
        "correction": str(posterior.record.correction),
    }


def _evidence(posterior: Posterior, truth: Reference) -> dict[str, Any]:
    """evidence_errors: distance from the truth in reported errors, with the reference's own error added to these."""
    begun = time.process_time()
    try:
        evidence = posterior.evidence()
    except BayesfieldError as error:
        return {"evidence_method": f"refused: {error}", "evidence_errors": np.inf}
    seconds = time.process_time() - begun
    distance = evidence.value - truth.log_evidence
    return {
        "evidence": evidence.value,
        "evidence_error": evidence.error,
        "evidence_off": distance,
        "evidence_errors": abs(distance) / np.hypot(evidence.error, truth.evidence_error + 1e-6),
        "evidence_method": evidence.method,
        "evidence_seconds": round(seconds, 4),
    }


def _reference_errors(truth: Reference) -> dict[str, float]:
    return {
        "reference_mean_error": truth.mean_error.max(),
        "reference_sd_error": truth.sd_error.max(),
        "reference_p_error": truth.p_error.max(),
        "reference_evidence": truth.log_evidence,
        "reference_evidence_error": truth.evidence_error,
    }


# --- the table ------------------------------------------------------------------------------------------------------


class Criterion(NamedTuple):
    """What is asked of a model. needed: of which share of the models. parameters: the column of those within.

    far: how far off a model is, to name the worst ones.
    """

    name: str
    needed: float
    passes: Callable[[pd.DataFrame], pd.Series]
    parameters: str
    far: Callable[[pd.DataFrame], Any]


def _moments(table: pd.DataFrame) -> pd.Series:
    return (table["mean_error"] <= MEAN) & (table["sd_error"] <= SD)


def _held(table: pd.DataFrame) -> pd.Series:
    return (table["held_least"] >= INTERVAL[0]) & (table["held_most"] <= INTERVAL[1])


CRITERIA = (
    Criterion(
        f"mean within {MEAN} sd, sd within {SD:.0%}",
        0.99,
        _moments,
        "moments_within",
        lambda t: np.maximum(t["mean_error"] / MEAN, t["sd_error"] / SD),
    ),
    Criterion("… or warned", 1.0, lambda t: _moments(t) | t["warned"], "", lambda t: t["mean_error"] / MEAN),
    Criterion(
        f"95 % intervals hold {INTERVAL[0]:.0%} to {INTERVAL[1]:.0%}",
        0.99,
        _held,
        "held_within",
        lambda t: np.maximum(0.95 - t["held_least"], t["held_most"] - 0.95),
    ),
    Criterion(
        f"P(λ > 0) within {P_POSITIVE}", 0.99, lambda t: t["p_error"] <= P_POSITIVE, "p_within", lambda t: t["p_error"]
    ),
    Criterion(
        f"log evidence within {ERRORS:.0f} reported errors",
        0.99,
        lambda t: t["evidence_errors"] <= ERRORS,
        "",
        lambda t: t["evidence_errors"],
    ),
)
SECONDS = ((0.5, 0.2), (0.99, 5.0))  # quantile of the time of a fit, and what it may be
REFERENCE = (
    ("reference_mean_error", 0.01, "mean, sd"),
    ("reference_sd_error", 0.01, "sd, share"),
    ("reference_p_error", 0.002, "P(λ > 0)"),
    ("reference_evidence_error", 0.01, "log evidence"),
)


def failing(table: pd.DataFrame, criterion: Criterion) -> pd.DataFrame:
    """The rows that miss it, the farthest first."""
    misses: BoolArray = ~criterion.passes(table).to_numpy(dtype=bool)
    own = table[misses]
    return own.loc[pd.Series(criterion.far(own), index=own.index).fillna(np.inf).sort_values(ascending=False).index]


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each criterion: what is needed, the share of the models, of the parameters, the worst seeds."""
    rows = []
    for criterion in CRITERIA:
        missing = failing(table, criterion)
        share = 1.0 - len(missing) / len(table)
        within = table[criterion.parameters].sum() / table["parameters"].sum() if criterion.parameters else np.nan
        rows.append(
            {
                "criterion": criterion.name,
                "needed": f"≥ {criterion.needed:.0%}" if criterion.needed < 1 else "all",
                "of models": f"{share:.1%}",
                "of parameters": "–" if np.isnan(within) else f"{within:.1%}",
                "reached": "yes" if share >= criterion.needed else "no",
                "worst seeds": ", ".join(str(s) for s in missing["seed"].head(5)) or "–",
            }
        )
    return pd.DataFrame([*rows, *_times(table), _false_alarms(table), *_reference_rows(table)])


def _times(table: pd.DataFrame) -> list[dict[str, str]]:
    rows = []
    for level, most in SECONDS:
        seconds = float(table["seconds"].quantile(level))
        slowest = table.loc[table["seconds"] > most].sort_values("seconds", ascending=False)["seed"].head(5)
        rows.append(
            {
                "criterion": f"seconds of a fit, {'median' if level == 0.5 else f'{level:.0%} quantile'}",
                "needed": f"≤ {most}",
                "of models": f"{seconds:.2g}",
                "of parameters": "–",
                "reached": "yes" if seconds <= most else "no",
                "worst seeds": "–" if level == 0.5 else ", ".join(str(s) for s in slowest) or "–",
            }
        )
    return rows


def _false_alarms(table: pd.DataFrame) -> dict[str, str]:
    alarms = table[_moments(table) & table["warned"]]
    return {
        "criterion": "warned, though mean and sd are right",
        "needed": "–",
        "of models": f"{len(alarms) / len(table):.1%}",
        "of parameters": "–",
        "reached": "–",
        "worst seeds": ", ".join(str(s) for s in alarms["seed"].head(5)) or "–",
    }


def _reference_rows(table: pd.DataFrame) -> list[dict[str, str]]:
    return [
        {
            "criterion": f"largest error of the reference: {what}",
            "needed": f"≤ {most}",
            "of models": f"{table[column].max():.1g}",
            "of parameters": "–",
            "reached": "yes" if table[column].max() <= most else "no",
            "worst seeds": str(table["seed"].to_numpy()[table[column].argmax()]),
        }
        for column, most, what in REFERENCE
    ]


def markdown(table: pd.DataFrame) -> str:
    """The verdicts, and which models they are about."""
    shown = verdicts(table)
    lines = [f"| {' | '.join(shown.columns)} |", f"|{'---|' * len(shown.columns)}"]
    lines += [f"| {' | '.join(row)} |" for row in shown.to_numpy(dtype=str)]
    lines += ["", f"{len(table)} models, seeds {table['seed'].min()} to {table['seed'].max()}."]
    return "\n".join(lines) + "\n"


def missed(table: pd.DataFrame) -> str:
    """A line for each criterion: the seeds of all models that miss it, the farthest first."""
    lists = ((c.name, ", ".join(str(s) for s in failing(table, c)["seed"])) for c in CRITERIA)
    return "".join(f"{name}: {seeds or 'none'}\n" for name, seeds in lists)
