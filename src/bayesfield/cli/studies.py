"""Long work that is kept as it goes: ``reproduce``, ``calibrate``; and ``bench``, how fast this machine is."""

from pathlib import Path
from typing import Annotated

import typer

from bayesfield import parallel
from bayesfield.cli.app import Json, app, note, show, text_table
from bayesfield.cli.options import FigureName, ScaleName
from bayesfield.cli.waiting import progress
from bayesfield.types import InvalidInput

Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; by default one for each core.")]
Seed = Annotated[int, typer.Option(min=0, help="Of data, chains and draws.")]
Folder = Annotated[Path, typer.Option(help="The folder to write to; an interrupted run there goes on.")]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler, whose workers do the work and see the folder.")
]


@app.command()
def reproduce(
    figure: Annotated[FigureName, typer.Argument(help="Figure of the paper; all: 2 to 8; faq, ocr: all predictors.")],
    out: Folder,
    scale: Annotated[ScaleName, typer.Option(help="quick: minutes; paper: the paper's protocol.")] = ScaleName.quick,
    jobs: Jobs = None,
    seed: Seed = 0,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of data sets (faq, ocr_letters), or standard-library; by default BAYESFIELD_DATA."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Of figures 2 to 8, such as BL-MP; may be repeated; by default all.")
    ] = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Rerun one of the paper's experiments: figure (PNG, SVG), table (CSV) and manifest.

    fig6, fig7, fig8 and faq label lines of files: of FAQ data where they are, else of Python's standard library.
    all runs fig2 to fig8, each in a folder of OUT, and says what processor time they took.

    Finished parts are kept in OUT/cells: after an interruption the same command goes on and ends in the same table
    (but for the seconds that each part took).

    Example: bayesfield reproduce fig2 --scale quick --out fig2
    """
    workers = parallel.cores() if jobs is None else jobs
    if figure == FigureName.all:
        if method:
            raise InvalidInput("all runs every method: leave out --method, or run the figures one by one")
        _reproduce_all(out, scale.value, workers, seed, data, scheduler, as_json)
        return
    with progress(f"{figure.value}, {scale.value}", _kept(out)) as tell:
        from bayesfield.experiments import figures  # matplotlib takes a second to import

        table = figures.reproduce(
            figure.value, out, scale.value, workers, seed, data, watch=tell, client=scheduler, methods=method or ()
        )
    show(table, text_table(figures.experiment(figure.value, data).shown(table)), as_json)
    note(f"wrote {figure.value}.png, .svg, .csv and manifest.json to {out}")
    _tell_makers(table.attrs["made_by"], out)


def _reproduce_all(
    out: Path, scale: str, jobs: int, seed: int, data: Path | None, scheduler: str | None, as_json: bool
) -> None:
    with progress(f"figures 2 to 8, {scale}", _kept(out)) as tell:
        from bayesfield.experiments import figures

        costs = figures.reproduce_all(out, scale, jobs, seed, data, lambda _, done, total: tell(done, total), scheduler)
    shown = costs.assign(hours=costs["hours"].map("{:.2f}".format)).set_index("figure")
    shown.attrs["title"] = "hours of the processor; figures 3, 7 and 8 show cells of 2 and 6"
    show(costs, text_table(shown), as_json)
    note(f"wrote a folder for each figure, and costs.csv, to {out}: {costs['hours'].sum():.2f} hours of the processor")


@app.command()
def calibrate(
    out: Folder,
    problem: Annotated[
        list[str] | None, typer.Option(help="Such as grid-kikuchi; may be repeated; by default all.")
    ] = None,
    simulations: Annotated[int, typer.Option(min=2, help="Of every problem.")] = 200,
    extreme: Annotated[
        bool,
        typer.Option("--extreme", help="Tiny models, few cases and wide priors against exact integration instead."),
    ] = False,
    models: Annotated[int, typer.Option(min=1, help="With --extreme: how many, of the seeds from --seed on.")] = 1000,
    references: Annotated[
        Path | None,
        typer.Option(help="With --extreme: folder of true posteriors, to share; by default OUT/references."),
    ] = None,
    jobs: Jobs = None,
    seed: Seed = 0,
    scheduler: Scheduler = None,
    as_json: Json = False,
) -> None:
    """Are the posteriors right? Ranks of true values among draws, and coverage of 90 % intervals, by simulation.

    Parameters are drawn from the prior, data from the field, and the posterior is fitted: chains, grids, dense
    networks and chain CRFs, by every engine. Writes rank histograms, a table with a row for each simulation, and a
    manifest; interrupted, the same command goes on.

    With --extreme: means, widths, intervals, P(λ > 0) and evidence of default fits of random models of 1 to 4
    variables with 1 to 1000 cases, against exact integration.

    Example: bayesfield calibrate --problem grid-kikuchi --simulations 50 --out calibration
    """
    workers = parallel.cores() if jobs is None else jobs
    if extreme:
        if problem:
            raise InvalidInput("--extreme has its own models: leave out --problem")
        _calibrate_extreme(out, models, workers, seed, references, scheduler, as_json)
        return
    with progress("calibration", _kept(out)) as tell:
        from bayesfield.experiments import figures
        from bayesfield.experiments.calibration import Calibration

        table = figures.calibrate(out, simulations, problem or (), workers, seed, watch=tell, client=scheduler)
    shown = Calibration().shown(table)
    show(shown.reset_index(names="problem"), text_table(shown), as_json)
    note(f"wrote calibration.png, .svg, .csv and manifest.json to {out}")
    _tell_makers(table.attrs["made_by"], out)


def _calibrate_extreme(
    out: Path, models: int, jobs: int, seed: int, references: Path | None, scheduler: str | None, as_json: bool
) -> None:
    with progress("extreme models", _kept(out)) as tell:
        from bayesfield.experiments import figures
        from bayesfield.experiments.extreme.judge import verdicts

        table = figures.calibrate_extreme(out, models, jobs, seed, references, watch=tell, client=scheduler)
    show(verdicts(table), text_table(verdicts(table), index=False), as_json)
    note(f"wrote extreme.md, .csv, .png, .svg, missed.txt and manifest.json to {out}")
    _tell_makers(table.attrs["made_by"], out)


@app.command()
def bench(as_json: Json = False) -> None:
    """How fast this library is on this machine: half a minute of small tasks, each the best of several runs.

    The comparisons with other libraries are in the repository: make bench.

    Example: bayesfield bench --json > speeds.json
    """
    with progress("measuring") as tell:
        from bayesfield.experiments.speeds import in_words, speeds

        table = speeds(tell)
    show(table, text_table(in_words(table), index=False), as_json)


def _kept(out: Path) -> str:
    return f"what is finished is kept in {out}, and the same command goes on from there"


def _tell_makers(makers: dict[str, int], out: Path) -> None:
    """A table that several versions of the code have made is not what one of them would make."""
    if len(makers) > 1:
        counts = ", ".join(f"{count} by {name}" for name, count in makers.items())
        note(f"note: parts of this table were made by other versions of the code ({counts}); to redo one, delete its")
        note(f"file in {out / 'cells'}")
