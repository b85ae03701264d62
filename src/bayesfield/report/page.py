"""From what the page shows to one HTML text: the template, the style and the script with everything in place."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesfield.outputs import write_text
from bayesfield.report.content import Content, collect
from bayesfield.report.pictures import bar, convergence
from bayesfield.report.rows import COLUMNS, OF_EDGES
from bayesfield.report.trust import badge, figures
from bayesfield.report.wording import chance, count, number, percent, sentence, short

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior
    from bayesfield.posterior.record import Check

LARGEST = 2_800_000  # bytes of a page
_PLAIN_ROWS = 50  # that can be read without JavaScript
_LONGEST = 20_000  # characters of the record
_HEADINGS = {
    "mean": "Mean",
    "sd": "SD",
    "lower": "Lower",
    "upper": "Upper",
    "p_positive": "P(> 0)",
    "inclusion": "Inclusion",
    "log_bayes_factor": "log BF",
}
_WIDE_ONLY = ("sd", "p_positive", "log_bayes_factor")  # columns that style.css hides on narrow screens
_CHANCES = ("p_positive", "inclusion")
_MARKS = {
    "good": ("✓", "Fine"),
    "care": ("!", "Take care"),
    "bad": ("✕", "Do not trust"),
    "unknown": ("?", "Not known"),
}
_SLOT = re.compile(r"\{\{(\w+)\}\}")
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_report(
    posterior: Posterior,
    path: str | Path,
    *,
    title: str | None = None,
    check: bool | Check | None = None,
    level: float = 0.95,
) -> None:
    """Write one HTML file about a posterior, which any browser shows without a network.

    title: the heading. check: what ``posterior.check()`` returned; True makes one, False leaves it out; by default the
    fit's own, or a new one where that is quick and the posterior has its data. level: of the intervals.
    """
    content = collect(posterior, title, check, level)
    text = rendered(content)
    while len(text.encode("utf-8")) > LARGEST and len(content.rows.numbers) > 1:
        content = content.smaller()
        text = rendered(content)
    write_text(path, text)


def rendered(content: Content) -> str:
    """The page. Names that are no valid text (lone surrogates) are written as escapes."""
    style, script = _part("style.css"), _part("page.js")
    slots = {
        "policy": f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}",
        "style": style,
        "script": script,
        "data": json_text(content.data()),
        "title": escape(short(content.title)),
        "written": f"{content.written:%Y-%m-%d}",
        "sentence": escape(content.sentence),
        "badge": _badge(content),
        "alarm": _alarm(content),
        "figures": "".join(f"<li><b>{n:,}</b> {what}</li>" for n, what in content.figures),
        "certificate": _certificate(content),
        "remarks": _remarks(content),
        "scope": escape(content.scope),
        "network": _network(content),
        "parameters": _parameters(content),
        "edges": _edges(content),
        "evidence": _evidence(content),
        "check": _check(content),
        "search": convergence(content.posterior.record.iterations),
        "record": escape(str(content.posterior.record)[:_LONGEST]),
        "settings": _pairs((escape(name), escape(value)) for name, value in content.settings),
        "citation": escape(content.citation),
    }
    page = _SLOT.sub(lambda m: slots[m[1]], _part("template.html"))
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def json_text(data: Any) -> str:
    """JSON that may stand inside <script>: no character of it can end the element or a line of JavaScript."""
    plain = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return plain.translate(_UNSAFE)


def _part(name: str) -> str:
    return files("bayesfield.report").joinpath(name).read_text(encoding="utf-8")


def _hashed(text: str) -> str:
    """A source of the content security policy: this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _badge(content: Content) -> str:
    """The certificate in a word, a sign and a colour, with its advice."""
    level, word, advice = badge(content.certificate)
    mark = f'<strong class="mark {level}"><span aria-hidden="true">{_MARKS[level][0]}</span> {word}</strong>'
    return f'<p class="badge"><span class="quiet">How far to trust it:</span> {mark} {escape(advice)}</p>'


def _certificate(content: Content) -> str:
    """Its figures; nothing where there are none."""
    rows = figures(content.certificate)
    if not rows:
        return ""
    body = "".join(
        f'<tr><th scope="row">{name}</th><td class="n">{escape(value)}</td><td>{escape(short(meaning))}</td></tr>'
        for name, value, meaning in rows
    )
    heads = '<th scope="col">Certificate</th><th scope="col" class="n">Figure</th><th scope="col">Meaning</th>'
    return f'<table class="small certificate"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'


def _alarm(content: Content) -> str:
    if not content.alarm:
        return ""
    advice = "Do not trust the numbers on this page."
    return f'<div class="alarm" role="note"><strong>{advice}</strong> {escape(content.alarm)}</div>'


def _remarks(content: Content) -> str:
    items = []
    for level, about, text in content.remarks:
        mark, words = _MARKS[level]
        badge = f'<span class="mark {level}"><span aria-hidden="true">{mark}</span> {words}</span>'
        items.append(f"<li>{badge}<div><h3>{escape(about)}</h3><p>{escape(text)}</p></div></li>")
    return "".join(items)


def _network(content: Content) -> str:
    """What stands about the drawing: what it leaves out, or why there is none."""
    shown = content.network
    if shown is None:
        return "<p>A network is drawn of fields over variables; this model is one of labels given inputs.</p>"
    notes = []
    if not shown.edges:
        notes.append(f"No edges are drawn: {content.known.note or 'there are none'}.")
    elif content.known.table is None:
        notes.append(
            f"Whether an edge is there cannot be told: {content.known.note}. Shade and slider go by how sure the sign "
            "of the effect is."
        )
    if len(shown.edges) < shown.n_edges or len(shown.nodes) < shown.n_nodes:
        notes.append(
            f"Drawn are the {count(len(shown.edges), 'edge')} that are surest, of {shown.n_edges:,}, and "
            f"{count(len(shown.nodes), 'variable')} of {shown.n_nodes:,}."
        )
    return "".join(f"<p>{escape(note)}</p>" for note in notes) + _part("network.html")


def _parameters(content: Content) -> str:
    rows = content.rows
    shown = f"All {count(rows.total, 'parameter')}" if rows.total != 1 else "The one parameter"
    if rows.left_out:
        shown = f"The {len(rows.numbers):,} surest of {rows.total:,} parameters ({rows.left_out:,} are left out)"
    split = 0 < rows.couplings < len(rows.numbers)
    order = "couplings first, then thresholds, each surest first" if split else "surest first"
    caption = f"{shown}: {order} (by |mean| / SD), with central {percent(content.level)} intervals."
    known = [name for name in (*COLUMNS, *OF_EDGES) if name in rows.table]
    heads = "".join(f'<th scope="col" data-column="{name}" class="n {name}">{_HEADINGS[name]}</th>' for name in known)
    limit = rows.limit
    plain = rows.table.head(_PLAIN_ROWS)[known]
    each = zip(plain.index, plain.to_dict("records"), strict=True)
    body = "".join(_row(str(name), values, limit) for name, values in each)
    return (
        f'<p id="caption">{caption}</p>{_part("controls.html")}{_narrow(known)}'
        '<div class="scroll" role="region" aria-labelledby="parameters-title" tabindex="0"><table id="table" '
        'aria-describedby="caption"><thead><tr><th scope="col" data-column="name">Parameter</th>'
        f'<th scope="col" class="bar">Interval</th>{heads}</tr></thead><tbody>{body}</tbody></table></div>'
        + _rest(len(rows.numbers))
    )


def _narrow(known: list[str]) -> str:
    """What a narrow screen leaves out of the table."""
    others = ", ".join(_HEADINGS[name] for name in known if name in _WIDE_ONLY)
    return f'<p class="quiet narrow">Interval: mean, and the ends in figures. A wider screen also has {others}.</p>'


def _rest(rows: int) -> str:
    plain = ""
    if rows > _PLAIN_ROWS:
        plain = f'<p class="unscripted">Shown are the first {_PLAIN_ROWS}; the others need JavaScript.</p>'
    return f'{plain}<p class="scripted"><button type="button" id="more" hidden>Show more rows</button></p>'


def _row(name: str, values: dict[Any, float], limit: float) -> str:
    words = {column: chance(v) if column in _CHANCES else number(v) for column, v in values.items()}
    cells = "".join(f'<td class="n {column}">{escape(word)}</td>' for column, word in words.items())
    picture = bar(values["mean"], values["lower"], values["upper"], limit)
    ends = f'data-ends="{words["lower"]} to {words["upper"]}"'
    return f'<tr><th scope="row">{escape(short(name))}</th><td class="bar" {ends}>{picture}</td>{cells}</tr>'


def _edges(content: Content) -> str:
    if content.known.table is None:
        return f"<p>There are no Bayes factors of edges: {escape(content.known.note or 'there are no edges')}.</p>"
    lines = []
    for threshold in (10, 3):
        found = content.verdicts(threshold) or {}
        cells = "".join(f'<td class="n">{found[name]:,}</td>' for name in found)
        lines.append(f'<tr><th scope="row">{threshold}</th>{cells}</tr>')
    heads = "".join(f'<th scope="col" class="n">{name.capitalize()}</th>' for name in content.verdicts(10) or {})
    return (
        "<p>For each edge the model with all edges is held against the one without it. <i>Inconclusive</i> means that "
        "the data do not say: that is no evidence that the edge is absent.</p>"
        f'<table class="small"><thead><tr><th scope="col">Bayes factor</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def _evidence(content: Content) -> str:
    found, reason = content.evidence
    if found is None:
        return f"<p><b>The model as a whole:</b> no log evidence. {escape(sentence(reason))}</p>"
    use = "The difference between two models of the same data is their log Bayes factor."
    return f"<p><b>The model as a whole:</b> {escape(str(found))}. {use}</p>"


def _check(content: Content) -> str:
    found = content.check
    if found.check is None:
        return f"<p>{escape(found.reason)}</p>"
    pairs = [
        ("Bias of the mode", f"{found.check.rms:.2f} sd (root mean square; ±{found.noise:.2f})"),
        ("Largest bias", f"{abs(found.check.bias).max(initial=0.0):.2f} sd"),
        ("Widths", f"{found.width:.2f} of the sampled ones (median)"),
        ("Verdict", f"{found.check.verdict}"),
    ]
    return (
        "<p>Gibbs chains at the mode tell how far it is from the true one, in posterior standard deviations, and how "
        "the widths compare. Up to 0.1 sd with widths within a tenth is good, up to 0.3 sd fair.</p>"
        + _pairs((name, escape(value)) for name, value in pairs)
    )


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in pairs)}</dl>"
