"""What the page says of the certificate: a badge in a word and a colour, and its figures in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from bayesfield.report.wording import sentence

if TYPE_CHECKING:
    from bayesfield.posterior.record import Certificate

_LEVELS = {"good": "good", "fair": "care", "poor": "bad"}  # of remarks
_NOT_JUDGED = (
    "Nobody has judged this posterior: the fit was asked not to, and its data are not here. "
    "posterior.with_data(X).certificate does it now."
)
_FROM = {  # least figures of k, and what they mean
    0.7: "above 0.7: the weights say only that no Gaussian fits",
    0.5: "up to 0.7: the weights can be believed",
    -math.inf: "below 0.5: the weights are even",
}


class Badge(NamedTuple):
    """What stands at the top. level: as of a remark. word: for those who see no colours. advice: one sentence."""

    level: str
    word: str
    advice: str


def badge(certificate: Certificate | None) -> Badge:
    if certificate is None:
        return Badge("unknown", "Not judged", _NOT_JUDGED)
    return Badge(_LEVELS[certificate.verdict], certificate.verdict.capitalize(), sentence(certificate.advice))


def figures(certificate: Certificate | None) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each figure that there is."""
    if certificate is None:
        return []
    c, rows = certificate, []
    if c.n_draws:
        off = (f"{c.shift:.2f} sd", f"{math.expm1(c.width):.0%}", f"{c.probability:.3f}")
        error = (f"±{c.error[0]:.2f}", f"±{math.expm1(c.error[1]):.0%}", f"±{c.error[2]:.3f}")
        if math.isfinite(c.pareto_k):
            text = next(text for least, text in _FROM.items() if c.pareto_k > least)
            rows = [("Pareto k", f"{c.pareto_k:.2f}", text)]
        rows += [
            ("Largest shift of a mean", f"{off[0]} ({error[0]})", "good up to 0.1 sd, fair up to 0.3 sd"),
            ("Largest change of a width", f"{off[1]} ({error[1]})", "good up to 10 %, fair up to 25 %"),
            ("Largest change of a probability", f"{off[2]} ({error[2]})", "good up to 0.01, fair up to 0.05"),
            ("Weighted draws", f"{c.n_draws:,}", f"worth {c.effective:,.0f} independent ones, over {c.space}"),
        ]
    elif c.effective:
        rows = [("Draws", f"{c.effective:,.0f}", "independent ones that the draws of the posterior are worth")]
    rows.append(("Largest skewness", f"{c.skewness:.2f}", "0 for a Gaussian"))
    if c.monte_carlo:
        rows.append(("Monte-Carlo error of the means", f"{c.monte_carlo:.3f} sd", "good up to 0.1 sd"))
    if math.isfinite(c.mixing):
        rows.append(("Mixing of the chains", f"{c.mixing:.2f}", "above 1 they have not mixed"))
    if c.checked:
        rows.append(("Check by sampling", c.checked.partition(":")[0], "of the mode and the widths"))
    return rows
