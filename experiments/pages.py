"""Tables and pictures of docs/explanation/comparison.md, from what commands wrote: ``python experiments/pages.py``.

Between ``<!-- table NAME -->`` and ``<!-- end -->`` stands what NAME's function makes of the cells in
experiments/paper-scale and experiments/standard-library, and of the tables in benchmarks/results. A test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "comparison.md"
CELLS, LIBRARY = ROOT / "experiments" / "paper-scale", ROOT / "experiments" / "standard-library"
QUICK, BENCHMARKS = ROOT / "experiments" / "quick", ROOT / "benchmarks"
NOT_YET = "not run yet"
NAMES = {"HMC": "two exact sets (NUTS)"}
ORDER = (
    "HMC", "BL-MP", "BL-BP", "LV-CD", "MC-BP", "BL-MP + correction", "Kikuchi + correction", "Sampled", "EP",
    "PL naive", "PL sandwich", "Metropolis", "exchange", "Møller",
)  # fmt: skip


@cache
def cells(folder: Path) -> pd.DataFrame:
    """A row for each method, case and set that is finished."""
    rows = [row for path in sorted(folder.glob("cells/*.json")) for row in json.loads(path.read_text())["rows"]]
    return pd.DataFrame(rows)


def score_table(folder: Path, axis: str, values: tuple[float, ...]) -> str:
    """Mean CVM over models and sets, and seconds of the processor by cell."""
    table = cells(folder)
    head = [f"{axis} = {v:g}" if k == 0 else f"{v:,g}" for k, v in enumerate(values)]
    lines = ["| | " + " | ".join([*head, "seconds"]) + " |", "|---" * (len(values) + 2) + "|"]
    for method in ORDER:
        own = table[table["method"] == method] if len(table) else table
        if not len(own):
            continue
        row = [_mean(own[own[axis] == v]) for v in values]
        few = sorted({int(n) for n in own["draws"]} - {int(table["draws"].max())})
        name = NAMES.get(method, method) + (f" (one set of {few[0]:,} draws)" if few and few[0] else "")
        seconds = own.groupby([axis, "model"])["seconds"].first()
        lines.append(f"| {name} | " + " | ".join([*row, _span(seconds)]) + " |")
    return "\n".join(lines)


def _mean(rows: pd.DataFrame) -> str:
    if not len(rows):
        return NOT_YET
    star = "" if rows["converged"].all() else " \\*"
    return f"{rows['cvm'].mean():,.0f}{star}"


def _span(seconds: pd.Series) -> str:
    low, high = (f"{v:,.0f}" if v >= 10 else f"{v:.1f}" for v in (seconds.min(), seconds.max()))
    return low if low == high else f"{low} to {high}"


def costs() -> str:
    """Processor hours of each figure so far, and of what is left, by cells of the same method."""
    wanted = {"fig2": ("N", 20), "fig4": ("d", 5), "fig5": ("d", 5), "fig6": ("N", 5)}
    lines = ["| | cells finished | processor hours so far | versions of the code |", "|---|---|---|---|"]
    total = 0.0
    for figure, (axis, tasks) in wanted.items():
        table = cells(CELLS / figure)
        paths = list((CELLS / figure).glob("cells/*.json"))
        methods = 10 if figure != "fig6" else 8
        hours = 0.0
        if len(table):
            hours = table.drop_duplicates(["method", axis, "model"])["seconds"].sum() / 3600
        versions = len({json.loads(path.read_text())["made_by"] for path in paths})
        total += hours
        lines.append(f"| {figure} | {len(paths)} of {tasks * methods} | {hours:.2f} | {versions} |")
    return "\n".join([*lines, f"| together | | {total:.2f} | |"])


# --- the paper's statements -------------------------------------------------------------------------------------------


class Statement(NamedTuple):
    """text: of section 7, in our words. judge: gives the verdict, and the numbers behind it."""

    text: str
    judge: Callable[[], tuple[str, str]]


def score(figure: str, method: str, x: float, root: Path | None = None) -> float:
    """Mean CVM; NaN where it is not there. root: of the runs, by default those at the paper's scale."""
    table = cells((CELLS if root is None else root) / figure)
    if not len(table):
        return float("nan")
    axis = "N" if "N" in table else "d"
    own = table[(table["method"] == method) & (table[axis] == x)]
    return float(own["cvm"].mean()) if len(own) else float("nan")


def benchmark(title: str) -> list[dict[str, str]]:
    """Rows of a table of benchmarks/results/paper.md."""
    text = (BENCHMARKS / "results" / "paper.md").read_text() if (BENCHMARKS / "results" / "paper.md").exists() else ""
    part = next((p for p in re.split(r"(?m)^\*\*", text) if p.startswith(title)), "")
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]] if rows else []


def number(text: str) -> float:
    return float(text.replace(",", "").rstrip("%"))


def decided(agrees: bool, found: str) -> tuple[str, str]:
    return ("agrees" if agrees else "**does not**"), found


def known(*values: float) -> bool:
    return bool(np.isfinite(values).all())


def of_cases(way: str) -> list[float]:
    """A row of the benchmark of BL-MP by number of cases."""
    rows = [row for row in benchmark("BL-MP by number of cases") if row[""].startswith(way)]
    return [number(v) for v in list(rows[0].values())[1:]] if rows else []


def _falls() -> tuple[str, str]:
    found = of_cases("prior variance 0.25, mode to the end")
    if not found:
        return NOT_YET, ""
    return decided(found[0] > found[1] > found[2], "BL-MP at N = 10, 100, 1,000: " + _list(found[:3]))


def _rises() -> tuple[str, str]:
    found, stopped = (
        of_cases("prior variance 0.25, mode to the end"),
        of_cases("prior variance 0.25, steepest ascent until a case's gradient is below 1e-3"),
    )
    wide = of_cases("prior variance 100")
    if not (found and stopped and wide):
        return NOT_YET, ""
    text = (
        f"from 1,000 to 5,000 cases: {_list(found[2:])} (floor {_list(of_cases('two exact sets')[2:])}); with a prior "
        f"variance of 100 {_list(wide[2:])}; where ascent stops at a gradient of 0.001 a case {_list(stopped[2:])}"
    )
    return decided(found[3] > found[2], text)


def _skewed() -> tuple[str, str]:
    found = of_cases("largest skewness")
    if not found:
        return NOT_YET, ""
    text = "largest skewness of an exact marginal at N = 10 to 5,000: " + ", ".join(f"{v:.2f}" for v in found)
    return decided(found[3] > found[2], text)


def _bp_grows() -> tuple[str, str]:
    found = of_cases("BL-BP")
    return (
        decided(bool(np.all(np.diff(found) > 0)), "BL-BP at N = 10 to 5,000: " + _list(found))
        if found
        else (NOT_YET, "")
    )


def _bp_small() -> tuple[str, str]:
    own, exact = (of_cases(way)[:1] for way in ("BL-BP", "prior variance 0.25, mode"))
    weak, stronger = (score("fig4", "BL-BP", 0.1), score("fig4", "BL-MP", 0.1)), score("fig4", "BL-BP", 1.0)
    if not (own and exact and known(*weak, stronger)):
        return NOT_YET, ""
    few = f"N = 10: BL-BP {_list(own)}, BL-MP {_list(exact)}"
    text = f"{few}; without fields, d = 0.1: {_list(weak)}, d = 1: BL-BP {stronger:,.0f}"
    return decided(own[0] < 1.5 * exact[0] and weak[0] < 1.5 * weak[1], text)


def _fails() -> tuple[str, str]:
    rows = [r for r in benchmark("Plain messages") if r["fields"] == "0"]
    if not rows:
        return NOT_YET, ""
    at = {number(r["d"]): r for r in rows}
    text = "; ".join(
        f"d = {d:g}: {at[d]['all at once']} of instantiations by flooding, {at[d]['one by one']} one by one, "
        f"{at[d]['fits, plain messages']} of fits ({at[d]['fits, free energy minimised']} where the free energy is "
        "minimised)"
        for d in (1.0, 1.5, 2.0)
    )
    return decided(number(at[1.5]["fits, plain messages"]) >= 50.0, text)


def _accurate(figure: str) -> tuple[str, str]:
    found = [score(figure, "BL-MP", d) for d in (0.1, 0.5, 1.0, 1.5, 2.0)]
    if not known(*found):
        return NOT_YET, ""
    text = f"d = 0.1 to 2: {_list(found)} (floor {score(figure, 'HMC', 0.1):,.0f})"
    return decided(max(found[:3]) < 100, text)


def _robust() -> tuple[str, str]:
    """At the paper's scale if these cells are there, else at the quick one."""
    for root, draws in ((CELLS, "10,000"), (QUICK, "2,000")):
        easy = (score("fig4", "LV-CD", 0.1, root), score("fig4", "BL-BP", 0.1, root))
        hard = (score("fig4", "LV-CD", 1.5, root), score("fig4", "BL-BP", 1.5, root))
        if known(*easy, *hard):
            text = f"no fields, {draws} draws: d = 0.1, LV-CD {easy[0]:,.0f}, BL-BP {easy[1]:,.0f}; "
            text += f"d = 1.5, {hard[0]:,.0f} and {hard[1]:,.0f}"
            return decided(easy[0] > easy[1] and hard[0] < hard[1], text)
    return NOT_YET, ""


def _chains_meet() -> tuple[str, str]:
    parts = [cells(CELLS / f) for f in ("fig2", "fig4", "fig5", "fig6")] + [cells(QUICK / "fig4")]
    table = pd.concat([p for p in parts if len(p)])
    own = table[table["method"].isin(["LV-CD", "MC-BP", "HMC"])].dropna(subset=["mpsrf"])
    if not len(own):
        return NOT_YET, ""
    bad = own[own["mpsrf"] >= 1.1].drop_duplicates(["method", "mpsrf"])
    which = ", ".join(f"{r.method} {r.mpsrf:.3g}" for r in bad.itertuples()) or "none"
    text = f"{len(own.drop_duplicates(['method', 'mpsrf']))} runs of chains so far; MPSRF of 1.1 or more: {which}"
    return decided(not len(bad), text)


def _hours() -> tuple[str, str]:
    table = pd.concat([part for f in ("fig2", "fig4", "fig5") if len(part := cells(CELLS / f))])
    fits = table[table["method"].isin(["BL-MP", "BL-BP"])]["seconds"]
    chains, draws = table[table["method"].isin(["LV-CD", "MC-BP"])]["seconds"], "100,000"
    if not len(chains) and len(cells(QUICK / "fig4")):
        quick = cells(QUICK / "fig4")
        chains, draws = quick[quick["method"].isin(["LV-CD", "MC-BP"])]["seconds"], "2,000"
    if not len(chains):
        return NOT_YET, f"BL-MP and BL-BP take {_span(fits)} s with all their draws"
    text = f"chains take {_span(chains)} s for {draws} draws, BL-MP and BL-BP {_span(fits)} s for 100,000, on one core"
    return ("agrees" if chains.min() > 3 * fits.max() else "**does not**") + " in order", text


def _files(x: int) -> tuple[str, str]:
    plain, own, floor = (score("fig6", m, x) for m in ("BL-MP", "BL-MP + correction", "HMC"))
    if not known(plain, own, floor):
        return NOT_YET, ""
    text = f"{x} files: BL-MP {plain:,.0f}, corrected {own:,.0f}, floor {floor:,.0f}"
    return decided(plain < 2 * floor, text)


def _chain_metropolis() -> tuple[str, str]:
    table = cells(CELLS / "fig6")
    own = table[table["method"] == "Metropolis"] if len(table) else table
    if not len(own):
        return NOT_YET, ""
    return decided(bool(own["converged"].all()), f"Metropolis against NUTS: {_list(list(own['cvm']))}")


def _map_error() -> tuple[str, str]:
    rows = benchmark("Labels of lines")
    if not rows:
        return NOT_YET, ""
    found = number(rows[-1]["lines of other files wrong"])
    text = "; ".join(f"{r['files']} files: {r['lines of other files wrong']} of other files' lines" for r in rows)
    return decided(1.0 <= found <= 2.0, text + " (other data)")


STATEMENTS = (
    Statement("BL-MP's score falls as cases grow (figure 2)", _falls),
    Statement("and rises at N = 5,000", _rises),
    Statement("which is put down to marginals that are not Gaussian (figure 3)", _skewed),
    Statement("A BP MAP is good for few cases and weak edges", _bp_small),
    Statement("Its score grows with N, since its bias stands out as the posterior narrows", _bp_grows),
    Statement("Without fields loopy belief propagation fails around d = 1.5 (figure 4)", _fails),
    Statement(
        "The Laplace approximation is very accurate given an accurate MAP: without fields", lambda: _accurate("fig4")
    ),
    Statement("and with fields of 1, where one state is rare and mode and mean differ", lambda: _accurate("fig5")),
    Statement("LV-CD is less accurate than BL with a BP MAP in the easy domain, more robust to strong edges", _robust),
    Statement("All chains reach an MPSRF below 1.1", _chains_meet),
    Statement("Chains take 6 to 16 hours for each N, BL below 2 minutes", _hours),
    Statement("The MAP labels about 1.5 % of lines wrongly (figures 6 to 8)", _map_error),
    Statement("Metropolis is a ground truth for the chain CRF", _chain_metropolis),
    Statement("BL-MP is close to the true posterior with 10 files (figure 7)", lambda: _files(10)),
    Statement("and with 48 (figure 8)", lambda: _files(48)),
)


def statements() -> str:
    lines = ["| the paper says | here | numbers |", "|---|---|---|"]
    for one in STATEMENTS:
        verdict, found = one.judge()
        lines.append(f"| {one.text} | {verdict} | {found} |")
    return "\n".join(lines)


def _list(values: list[float] | tuple[float, ...]) -> str:
    return ", ".join(f"{v:,.0f}" for v in values)


def measured(title: str) -> str:
    """A table of benchmarks/results/paper.md as it is, with its notes."""
    path = BENCHMARKS / "results" / "paper.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    part = next((p for p in re.split(r"(?m)^(?=\*\*)", text) if p.startswith(f"**{title}")), "")
    body = part.partition("\n")[2].strip()
    return re.sub(r"(?s)\n\nmeanwhile.*|\n\nPython .*", "", body) or f"({NOT_YET})"


TABLES: dict[str, Callable[[], str]] = {
    "statements": statements,
    "costs": costs,
    "by-cases": lambda: measured("BL-MP by number of cases"),
    "messages": lambda: measured("Plain messages"),
    "propagation": lambda: measured("Widths by expectation propagation"),
    "small-grids": lambda: measured("Exact samplers on small grids"),
    "fig2": lambda: score_table(CELLS / "fig2", "N", (10, 100, 1000, 5000)),
    "fig4": lambda: score_table(CELLS / "fig4", "d", (0.1, 0.5, 1, 1.5, 2)),
    "fig5": lambda: score_table(CELLS / "fig5", "d", (0.1, 0.5, 1, 1.5, 2)),
    "fig6": lambda: score_table(CELLS / "fig6", "N", (10, 20, 30, 40, 48)),
    "fig6-library": lambda: score_table(LIBRARY / "fig6", "N", (10, 20, 30, 40, 48)),
}


def filled(text: str) -> str:
    """The page with every table as it is now."""

    def anew(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n\n{TABLES[match[1]]()}\n\n<!-- end -->"

    return re.sub(r"<!-- table (\S+) -->.*?<!-- end -->", anew, text, flags=re.DOTALL)


def pictures() -> None:
    """Figures of the page from the same cells, finished or not."""
    from bayesfield import plots
    from bayesfield.experiments import figures
    from bayesfield.experiments.store import Store

    for name, source in (("fig4", "fig4"), ("fig5", "fig5"), ("fig6", "fig6"), ("fig7", "fig6")):
        chosen, table = figures.experiment(name), cells(CELLS / source)
        drawn = chosen.draw(table, Store(CELLS / source))
        drawn.suptitle(chosen.title, fontsize=11)
        (ROOT / "docs" / "assets" / f"comparison-{name}.png").write_bytes(plots.rendered(drawn, "png"))
        plots.close(drawn)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    pictures()
