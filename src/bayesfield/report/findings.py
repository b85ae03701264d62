"""What the page says of a fit in words: how it ended, what was checked, what may be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayesfield.correction.cumulants import FAR
from bayesfield.posterior.record import Check, FitRecord
from bayesfield.report.wording import count, sentence
from bayesfield.types import BayesfieldError, Outcome

if TYPE_CHECKING:
    from bayesfield.posterior.evidence import LogEvidence
    from bayesfield.posterior.posterior import Posterior

_LARGE = 2000  # parameters beyond which nothing long is started unasked
_METHODS = {
    "newton": "Newton's method",
    "lbfgs": "L-BFGS",
    "cd": "contrastive divergence",
    "pcd": "persistent contrastive divergence",
    "ep": "expectation propagation",
}
_NOT_ASKED = "It was not asked for (check=False)."


class Remark(NamedTuple):
    """One thing to know before trusting the numbers. level: "good", "care", "bad" or "unknown"."""

    level: str
    about: str
    text: str


@dataclass(frozen=True, eq=False)
class Checked:
    """The check, or why there is none. needless: whether none is needed."""

    check: Check | None
    reason: str = ""
    needless: bool = False

    @property
    def level(self) -> str:
        if self.check is None:
            return "good" if self.needless else "unknown"
        if self.check.passed:
            return "good"
        return "care" if self.grade == "fair" else "bad"

    @property
    def grade(self) -> str:
        """ "good", "fair" or "poor"; empty where there is no check."""
        return self.check.verdict.partition(":")[0] if self.check is not None else ""

    @property
    def width(self) -> float:
        """Median of the fit's widths over the sampled ones."""
        return self.check.width if self.check is not None else 1.0

    @property
    def noise(self) -> float:
        """Root mean square Monte-Carlo error of the biases."""
        return float(np.sqrt(np.mean(self.check.error**2))) if self.check is not None else 0.0


class Weighed(NamedTuple):
    """The log evidence, or why there is none."""

    evidence: LogEvidence | None
    reason: str = ""


def checked(posterior: Posterior, wanted: bool | Check | None) -> Checked:
    """wanted: a check, True to make one, False for none, None to take the fit's own or make one if that is quick."""
    if isinstance(wanted, Check):
        return Checked(wanted)
    if wanted is False:
        return Checked(None, _NOT_ASKED)
    if not len(posterior.mean):
        return Checked(None, "There are no parameters to check.")
    if wanted is True:
        return Checked(posterior.check())
    if posterior.record.check is not None:
        return Checked(posterior.record.check)
    if posterior.objective is None:
        return Checked(
            None,
            "This posterior came without its data (it was read from a file, or its parameters were given), so there is "
            "nothing to hold it against. posterior.with_data(X).report(...), with the cases of the fit, has the check.",
        )
    if not posterior.objective.free.samples:
        return Checked(None, "There is nothing to check: inference on sequences is exact.", needless=True)
    if len(posterior.mean) > _LARGE:
        return Checked(
            None,
            f"A check of {count(len(posterior.mean), 'parameter')} takes long and much memory, so none was made "
            "unasked: report(..., check=True) makes one.",
        )
    try:
        return Checked(posterior.check())
    except BayesfieldError as error:
        return Checked(None, f"It could not be made: {error}")


def weighed(posterior: Posterior) -> Weighed:
    """The log evidence where it can be had in a short time."""
    if posterior.objective is not None and len(posterior.mean) > _LARGE:
        size = count(len(posterior.mean), "parameter")
        return Weighed(None, f"not computed unasked for {size}: posterior.evidence() computes it")
    try:
        return Weighed(posterior.evidence())
    except BayesfieldError as error:
        return Weighed(None, str(error))


def alarm(record: FitRecord) -> str:
    """What stands at the top of the page where the fit did not end as it should; empty otherwise."""
    if not record.status.converged:
        return f"The search did not end at an optimum: {record.status}."
    if not record.inference.converged:
        return f"Inference did not converge at the parameters found: {record.inference}."
    return ""


def ended(record: FitRecord) -> str:
    """How the parameters were found, as half a sentence."""
    if record.status.outcome is Outcome.GIVEN:
        return "The parameters were given: nothing was fitted"
    method = _METHODS.get(record.method, record.method.replace("_", " "))
    how = f"{record.engine} found the parameters by {method}"
    return f"{how}, and the search {'converged' if record.status.converged else 'did not converge'}"


def remarks(posterior: Posterior, check: Checked) -> list[Remark]:
    """What may be trusted and what not, most basic first."""
    record = posterior.record
    found = [
        Remark("good" if record.status.converged else "bad", "The search", sentence(str(record.status))),
        _inference(record, check),
        Remark(check.level, "The check", sentence(check.check.verdict if check.check else check.reason)),
    ]
    if not record.correction.settled or record.correction.reason.startswith(FAR):
        found.append(Remark("care", "The shape", sentence(str(record.correction))))
    if record.form == "block":
        found.append(
            Remark(
                "care", "The widths", "Each is given all other inputs' weights: too narrow where inputs go together."
            )
        )
    if record.form == "matrix-free":
        found.append(Remark("care", "The widths", "They are probed, and carry an error (posterior.form.sd_error)."))
    if record.starts is not None:
        level = "care" if record.starts.equivalent > 1 else "good"
        found.append(Remark(level, "The starts", sentence(str(record.starts))))
    if record.prior is not None:
        found.append(Remark("good" if record.prior.settled else "care", "The prior", sentence(str(record.prior))))
    return found


def _inference(record: FitRecord, check: Checked) -> Remark:
    """Exact inference needs no check of itself; of other kinds only the check can tell."""
    if not record.inference.converged:
        return Remark("bad", "Inference", sentence(str(record.inference)))
    if record.inference.outcome is Outcome.EXACT:
        return Remark("good", "Inference", "Exact: the mode is that of the model.")
    advice = "An approximation on fields with loops: the check tells how good it is."
    return Remark(
        "good" if check.level == "good" else "care", "Inference", f"{sentence(str(record.inference))} {advice}"
    )
