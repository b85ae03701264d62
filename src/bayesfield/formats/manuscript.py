"""What goes into a paper: tables in APA's style as LaTeX, Markdown or HTML for Word, and a paragraph of methods."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from bayesfield import __version__
from bayesfield.types import InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_HEADS = {
    "parameter": "Parameter",
    "first": "First",
    "second": "Second",
    "mean": "M",
    "sd": "SD",
    "p_positive": "P(> 0)",
    "inclusion": "P(edge)",
    "log_bayes_factor": "log BF",
    "at_10": "At BF 10",
    "at_3": "At BF 3",
}
_PROBABILITIES = ("p_positive", "inclusion", "probability", "P(")  # which APA writes without a leading zero
_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"}
_SPECIAL |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
_MARK = {c: f"\\{c}" for c in "\\`*_[]<>|"}
_ITALIC = ("M", "SD", "P(> 0)", "P(edge)")
_ENGINES = {
    "Exact": "exact inference by a junction tree or by summation over all joint states",
    "Enumeration": "summation over all joint states",
    "Bethe": "belief propagation (the Bethe approximation) and linear response",
    "Kikuchi": "generalised belief propagation (the Kikuchi approximation)",
    "Reweighted": "tree-reweighted belief propagation",
    "Sampled": "Markov chain Monte Carlo estimates of the features' expectations",
}
_CORRECTIONS = {
    "none": "no further correction was made",
    "mean": "the mean was corrected to second order",
    "variational": "mean and precision were refined variationally",
    "draws": "the posterior was then represented by weighted draws",
    "profile": "marginals were corrected by profiles of the likelihood",
}


def to_latex(what: Posterior | pd.DataFrame, caption: str = "", label: str = "", digits: int = 2) -> str:
    r"""A table in APA's style, with booktabs' rules: of a posterior its summary, of posterior.edges() all of it.

    It needs \usepackage{booktabs}. digits: after the point.
    """
    heads, rows = _cells(what, digits)
    columns = "l" * _words(what) + "r" * (len(heads) - _words(what))
    shown = [rf"\textit{{{_tex(h)}}}" if h in _ITALIC else _tex(h) for h in heads]
    lines = [r"\begin{table}[htbp]", r"\centering"]
    lines += [rf"\caption{{{_tex(caption)}}}"] * bool(caption) + [rf"\label{{{label}}}"] * bool(label)
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", " & ".join(shown) + r" \\", r"\midrule"]
    lines += [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def to_markdown(what: Posterior | pd.DataFrame, digits: int = 2) -> str:
    """The same table in Markdown."""
    heads, rows = _cells(what, digits)
    count = _words(what)
    marked = [f"*{_escaped(h, _MARK)}*" if h in _ITALIC else _escaped(h, _MARK) for h in heads]
    rule = [":--"] * count + ["--:"] * (len(heads) - count)
    lines = [marked, rule, *([_escaped(cell, _MARK) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def to_word(what: Posterior | pd.DataFrame, caption: str = "", digits: int = 2) -> str:
    """The same table as HTML, which Word and LibreOffice open, or take from the clipboard, as a table."""
    heads, rows = _cells(what, digits)
    count, rule = _words(what), "border-top:1.5pt solid black;"

    def line(cells: list[str], tag: str, style: str) -> str:
        put = [
            f'<{tag} style="text-align:{"left" if k < count else "right"};padding:2pt 6pt;font-weight:normal;{style}">'
            f"{cell}</{tag}>"
            for k, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(put)}</tr>"

    named = [f"<i>{html.escape(h)}</i>" if h in _ITALIC else html.escape(h) for h in heads]
    body = [[html.escape(cell) for cell in row] for row in rows]
    lines = [line(named, "th", rule + "border-bottom:0.75pt solid black;")]
    lines += [line(row, "td", "") for row in body[:-1]]
    lines += [line(row, "td", "border-bottom:1.5pt solid black;") for row in body[-1:]]
    title = f'<caption style="text-align:left;font-style:italic">{html.escape(caption)}</caption>' if caption else ""
    style = "border-collapse:collapse;font-family:'Times New Roman',serif;font-size:11pt"
    inside = "\n".join(lines)
    page = f'<table style="{style}">{title}\n{inside}\n</table>'
    return f'<html><head><meta charset="utf-8"></head><body>{page}</body></html>\n'


def methods_text(posterior: Posterior) -> str:
    """A paragraph for the section on methods: model, prior, engine, correction, certificate, version, citation.

    All of it is of the record of this fit; what the record does not know is not said.
    """
    record, field = posterior.record, posterior.field
    said = [
        f"{_model(posterior)} was fitted to {record.n_cases:,} {'cases' if hasattr(field, 'states') else 'sequences'} "
        f"with bayesfield {__version__}.",
        f"The prior of the parameters was {_prior(posterior)}.",
        _search(posterior),
    ]
    if record.certificate is not None:
        k = record.certificate.pareto_k
        tail = f" (Pareto k = {k:.2f}, {record.certificate.n_draws:,} draws)" if math.isfinite(k) else ""
        verdict = record.certificate.verdict
        if tail:
            said.append(f"Compared with weighted draws of itself, the approximation was {verdict}{tail}.")
        else:
            said.append(f"The approximation was judged {verdict}: {record.certificate.advice.rstrip('.')}.")
    if not (record.status.converged and record.inference.converged):
        said.append(f"NOT CONVERGED: {record.status if not record.status.converged else record.inference}.")
    said.append(
        "The method follows Welling and Parise (2006), Bayesian random fields: The Bethe-Laplace approximation, "
        "Proceedings of the 22nd Conference on Uncertainty in Artificial Intelligence."
    )
    return " ".join(said)


# --- tables ---------------------------------------------------------------------------------------------------------


def _cells(what: Any, digits: int) -> tuple[list[str], list[list[str]]]:
    """Heads and rows, all text; lower and upper become one interval."""
    table = _table(what)
    heads, columns = [], []
    for name in table.columns:
        if name == "upper" and "lower" in table:
            continue
        if name == "lower" and "upper" in table:
            heads.append("95% CI" if _is_posterior(what) else "Interval")
            ends = zip(table["lower"], table["upper"], strict=True)
            columns.append([f"[{_number(a, digits)}, {_number(b, digits)}]" for a, b in ends])
        else:
            bare = str(name).startswith(_PROBABILITIES)
            heads.append(_HEADS.get(str(name), str(name)))
            columns.append([_cell(value, digits, bare) for value in table[name]])
    return heads, [list(row) for row in zip(*columns, strict=True)]


def _table(what: Any) -> pd.DataFrame:
    if isinstance(what, pd.DataFrame):
        table = what
    elif _is_posterior(what):
        table = what.summary()
    else:
        raise InvalidInput(f"give a posterior or a DataFrame, such as posterior.edges(); got {type(what).__name__}")
    return table.reset_index() if table.index.name or isinstance(table.index, pd.MultiIndex) else table


def _is_posterior(what: Any) -> bool:
    return hasattr(what, "summary") and hasattr(what, "record")


def _words(what: Any) -> int:
    """How many columns of words come first."""
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in _table(what).dtypes]
    return numeric.index(True) if True in numeric else len(numeric)


def _cell(value: Any, digits: int, bare: bool) -> str:
    if isinstance(value, float | np.floating):
        text = _number(float(value), digits)
        if bare and 0.0 <= value <= 1.0:
            least = 10.0**-digits
            text = f"< {_bare(least, digits)}" if value < least / 2 else text
            text = f"> {_bare(1 - least, digits)}" if value > 1 - least / 2 else text
            return text.replace("0.", ".", 1) if text.startswith("0.") else text
        return text
    return "" if value is None or value is pd.NA else str(value)


def _bare(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def _number(value: float, digits: int) -> str:
    """With a minus sign, and not -0.00."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    text = f"{value:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def _escaped(text: str, special: dict[str, str]) -> str:
    return "".join(special.get(c, c) for c in text)


def _tex(text: str) -> str:
    return (
        _escaped(text, _SPECIAL).replace("−", "$-$").replace("∞", r"$\infty$").replace("<", "$<$").replace(">", "$>$")
    )


# --- methods --------------------------------------------------------------------------------------------------------


def _model(posterior: Posterior) -> str:
    field: Any = posterior.field
    size = f"{field.n_parameters:,} parameters"
    if not hasattr(field, "n_variables"):
        return f"A conditional random field with {len(getattr(field, 'visible', ()))} labels and {size}"
    hidden = f", {len(field.hidden)} of them hidden," if getattr(field, "hidden", ()) else ""
    whole = f"A random field of {field.n_variables:,} discrete variables{hidden}"
    return f"{whole} with {field.n_factors:,} factors and {size}"


def _prior(posterior: Posterior) -> str:
    prior: Any = posterior.prior
    variance = getattr(prior, "variance", None)
    if isinstance(variance, int | float) and getattr(prior, "covariance", None) is None:
        chosen = ", whose variance the data chose" if posterior.record.prior is not None else ""
        return f"normal with mean {getattr(prior, 'mean', 0.0)} and variance {variance:.3g}{chosen}"
    text = " ".join(str(prior).split())
    return text if len(text) <= 200 else type(prior).__name__


def _search(posterior: Posterior) -> str:
    record = posterior.record
    engine = record.engine.partition("(")[0]
    how = _ENGINES.get(engine, record.engine)
    if record.response != record.engine:
        curvature = record.response.partition("(")[0]
        how += f", and the curvature there by {_ENGINES.get(curvature, record.response)}"
    correction = _CORRECTIONS.get(record.correction.kind, f"it was corrected ({record.correction.kind})")
    return f"The posterior was approximated by a Gaussian about its mode, found by {how}; {correction}."
