"""``python -m benchmarks [--peers] [--quick] [--json FILE] [names...]``, from the repository's root."""

import argparse
import importlib
import json
import os
import platform
import sys
import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import results
from benchmarks.timing import Others, Report, Watch, text_of, use_one_core

NAMES = (
    "exact",
    "messages",
    "overhead",
    "growth",
    "samplers",
    "crf",
    "holes",
    "pseudo",
    "contrast",
    "evidence",
    "edges",
    "widths",
    "scale",
    "fits",
    "preview",
    "certificate",
    "cluster",
    "taggers",
    "active",
    "updates",
    "templates",
    "mean_field",
    "smooth",
    "snakes",
    "images",
    "dense",
    "long_runs",
    "mixing",
    "emissions",
    "rbm",
    "paper",
    "label_number",
    "cold",
    "overlap",
)
PACKAGES = (
    "bayesfield",
    "numpy",
    "numba",
    "pyagrum",
    "mbi",
    "pgmax",
    "pgmpy",
    "jax",
    "nutpie",
    "numpyro",
    "blackjax",
    "python-crfsuite",
    "cvxopt",
    "distributed",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="names", help=f"any of {', '.join(NAMES)}; by default all")
    parser.add_argument("--peers", action="store_true", help="time the peers that are installed, too")
    parser.add_argument("--quick", action="store_true", help="small sizes and short timings")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables to FILE as well")
    parser.add_argument("--results", type=Path, metavar="DIR", help="write tables (Markdown) and plots to DIR")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="of dense, long_runs, images and taggers, only tables with this in the title",
    )
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {sorted(unknown)[0]!r}; choose from {', '.join(NAMES)}")
    use_one_core()
    warnings.simplefilter("ignore")  # the peers warn of their own deprecations
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(_machine())
    reports: list[Report] = []
    before = 0
    with console.status("") as status:
        watch = Watch(options.peers, options.quick, 0.3 if options.quick else 1.5, status.update, options.only)
        for name in options.names or NAMES:
            others = Others()
            for report in importlib.import_module(f"benchmarks.{name}").run(watch):
                reports.append(replace(report, notes=(*report.notes, str(others))))
                console.print(_table(reports[-1]), *reports[-1].notes, "", sep="\n", highlight=False)
            if options.results:
                own = reports[before:]
                results.write(options.results, name, own, _machine(), bool(options.only))
                before = len(reports)
    if options.json:
        found = {"machine": _machine(), "tables": [r.as_dict() for r in reports]}
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def _machine() -> str:
    versions = [f"{p} {metadata.version(p)}" for p in PACKAGES if _has(p)]
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, one used; {', '.join(versions)}"


def _has(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _table(report: Report) -> Table:
    table = Table(title=report.title, title_justify="left")
    for k, column in enumerate(report.columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in report.rows:
        table.add_row(*(text_of(cell) for cell in row))
    return table


if __name__ == "__main__":
    main()
