"""Tables and plots of a run, as files that the documents show."""

import re
from pathlib import Path

from benchmarks.timing import Report, text_of


def write(folder: Path, name: str, reports: list[Report], machine: str, some: bool = False) -> None:
    """NAME.md with all tables of a benchmark; NAME.png where cost was measured against size. some: others stay."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    before = path.read_text(encoding="utf-8") if some and path.exists() else ""
    kept = re.split(r"(?m)^(?=\*\*)", before.rpartition("\nPython ")[0])
    parts = {part.partition("\n")[0]: part.rstrip() + "\n" for part in kept if part.strip()}
    parts |= {f"**{report.title}**": _markdown(report) for report in reports}
    path.write_text("\n".join([*parts.values(), f"{machine}.", ""]), encoding="utf-8")
    if name == "scale":
        _growth(folder / f"{name}.png", reports[0])


def _markdown(report: Report) -> str:
    head = [f"**{report.title}**", "", "| " + " | ".join(report.columns) + " |"]
    rule = "|" + "|".join(["---"] + ["---:"] * (len(report.columns) - 1)) + "|"
    rows = ["| " + " | ".join(text_of(cell) for cell in row) + " |" for row in report.rows]
    return "\n".join([*head, rule, *rows, "", *(f"{note}.\n" for note in report.notes)]).rstrip() + "\n"


def _growth(path: Path, report: Report) -> None:
    """Seconds and memory against the number of sites, on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    rows = [row for row in report.rows if row[1] is not None]
    sites = [int(str(row[0]).split("×", maxsplit=1)[0]) ** 2 for row in rows]
    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for label, column in (
        ("precision and all sds, s", 4),
        ("all sds, s", 3),
        ("one draw, s", 5),
        ("peak memory, GB", 6),
    ):
        axes.loglog(sites, [row[column] for row in rows], "o-", label=label)
    axes.set(xlabel="sites of the lattice", ylabel="seconds, or GB")
    axes.set_title(report.notes[0], fontsize=9)
    axes.grid(True, which="both", alpha=0.25)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    plt.close(figure)
