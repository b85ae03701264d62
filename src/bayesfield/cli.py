"""The command line: parse, call, write. Results go to stdout or to files, everything else to stderr."""

import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import bayesfield as bf
from bayesfield import parallel
from bayesfield.files import write_text
from bayesfield.formats import tables, uai
from bayesfield.inference import most_probable_codes
from bayesfield.types import InvalidInput

REFUSED, NOT_CONVERGED, INTERRUPTED = 1, 3, 130

app = typer.Typer(
    name="bayesfield",
    help="Bayesian learning of discrete random fields. Exit codes: 0 done, 1 refused (bad input, too large), 2 wrong "
    "usage, 3 done but not converged.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
notes = Console(stderr=True)


class Task(StrEnum):
    PR = "PR"
    MAR = "MAR"
    MPE = "MPE"


class Method(StrEnum):
    auto = "auto"
    exact = "exact"
    kikuchi = "kikuchi"
    bethe = "bethe"
    sampled = "sampled"


class Learner(StrEnum):
    auto = "auto"
    newton = "newton"
    lbfgs = "lbfgs"
    pseudo_likelihood = "pseudo_likelihood"
    cd = "cd"
    pcd = "pcd"
    iterative_scaling = "iterative_scaling"
    pseudo_moments = "pseudo_moments"


class Correction(StrEnum):
    auto = "auto"
    none = "none"
    mean = "mean"
    variational = "variational"


class FigureName(StrEnum):
    fig2 = "fig2"
    fig3 = "fig3"
    fig4 = "fig4"
    fig5 = "fig5"
    fig6 = "fig6"
    fig7 = "fig7"
    fig8 = "fig8"
    faq = "faq"
    ocr = "ocr"


class ScaleName(StrEnum):
    quick = "quick"
    paper = "paper"


class Model(StrEnum):
    ising = "ising"
    potts = "potts"


def _version(asked: bool) -> None:
    if asked:
        print(f"bayesfield {bf.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    pass


@app.command()
def infer(
    model: Annotated[Path, typer.Argument(help="A UAI model file.")],
    task: Annotated[Task, typer.Option(help="PR: log10 Z; MAR: marginals; MPE: the most probable state.")],
    evidence: Annotated[Path | None, typer.Option(help="A UAI evidence file.")] = None,
    method: Annotated[Method, typer.Option(help="auto: exact where it fits, else kikuchi or bethe.")] = Method.auto,
    out: Annotated[Path | None, typer.Option(help="Where to write the result; stdout by default.")] = None,
) -> None:
    """Answer a query about a UAI network, in the competition's result format.

    Example: bayesfield infer grid.uai --task MAR --method exact --out grid.MAR
    """
    field = uai.read_model(model)
    given: bf.Evidence = uai.read_evidence(evidence) if evidence is not None else {}
    engine = method.value
    if task is Task.PR and method is Method.sampled:
        raise InvalidInput("sampling gives no log Z: take --method exact, kikuchi, bethe or auto for --task PR")
    if task is Task.MPE:
        codes, status = most_probable_codes(field, engine=engine, evidence=given)
        text = uai.mpe_text(codes)
    else:
        beliefs = bf.infer(field, engine=engine, evidence=given)
        status = beliefs.status
        if task is Task.MAR and status.outcome is bf.Outcome.IMPOSSIBLE:
            raise InvalidInput(f"there are no marginals: {status}")
        text = uai.pr_text(beliefs.log_z) if task is Task.PR else uai.mar_text(beliefs)
    notes.print(escape(str(status)), highlight=False)
    if out is None:
        sys.stdout.write(text)
    else:
        write_text(out, text)
    if not status.converged:
        raise typer.Exit(NOT_CONVERGED)


@app.command()
def fit(
    data: Annotated[
        Path, typer.Argument(help="A CSV file: a header, a row for each case, a column for each variable.")
    ],
    model: Annotated[Model, typer.Option(help="ising: two states; potts: any number, unordered.")],
    graph: Annotated[str, typer.Option(help="complete, grid:ROWSxCOLUMNS, or a CSV file of edges (two columns).")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    engine: Annotated[Method | None, typer.Option(help="Finds the most probable parameters; auto by default.")] = None,
    response: Annotated[Method | None, typer.Option(help="Gives the curvature there; the engine by default.")] = None,
    method: Annotated[
        Learner, typer.Option(help="How; auto: newton, or lbfgs where curvature is dear.")
    ] = Learner.auto,
    correction: Annotated[
        Correction, typer.Option(help="Of the mode towards the mean; auto: the best that is affordable.")
    ] = Correction.auto,
    prior_variance: Annotated[float, typer.Option(help="Of every parameter.")] = 1.0,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
) -> None:
    """Fit a field to a table of cases and write its posterior.

    Writes posterior.csv (a row for each parameter), posterior.npz (mean, covariance) and fit.json (how it was found).

    Example: bayesfield fit votes.csv --model ising --graph complete --drop party --out votes-fit
    """
    prior = bf.Normal(variance=prior_variance)
    cases = tables.read_cases(data, drop or [])
    field = tables.field_of(cases, model.value, graph)
    curved = response.value if response is not None else None
    warnings.simplefilter("ignore", bf.FitWarning)  # the record below says it, and so does the exit code
    with notes.status("fitting (kernels compile at first use) …") as status:
        posterior = bf.fit(
            field,
            cases,
            prior,
            engine=engine.value if engine is not None else None,
            response=curved,
            method=method.value,
            correction=correction.value,
            watch=lambda i: status.update(f"step {i.number}: {i.distance:.2g} posterior sd from the optimum"),
        )
    tables.write_posterior(out, posterior)
    Console().print(_summary_table(posterior))
    notes.print(escape(str(posterior.record)), highlight=False)
    notes.print(f"wrote {escape(str(out))}", highlight=False)
    if not posterior.record.status.converged:
        raise typer.Exit(NOT_CONVERGED)


@app.command()
def reproduce(
    figure: Annotated[FigureName, typer.Argument(help="Figure of the paper; faq, ocr: all predictors.")],
    out: Annotated[Path, typer.Option(help="The folder to write to; an interrupted run there goes on.")],
    scale: Annotated[ScaleName, typer.Option(help="quick: minutes; paper: the paper's protocol.")] = ScaleName.quick,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; by default one for each core.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of data, chains and draws.")] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets (faq, ocr_letters); by default BAYESFIELD_DATA.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler, whose workers do the work and see the folder.")
    ] = None,
) -> None:
    """Rerun one of the paper's experiments: figure (PNG, SVG), table (CSV) and manifest.

    fig6, fig7, fig8 and faq label lines of files: of the FAQ data where they are, else of Python's standard library.

    Finished parts are kept in OUT/cells: after an interruption the same command goes on and ends in the same table
    (but for the seconds that each part took).

    Example: bayesfield reproduce fig2 --scale quick --out fig2
    """
    from bayesfield import experiments  # matplotlib takes a second to import

    workers = parallel.cores() if jobs is None else jobs
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=notes) as progress:
        task = progress.add_task(f"{figure.value}, {scale.value}", total=None)
        try:
            table = experiments.reproduce(
                figure.value,
                out,
                scale.value,
                workers,
                seed,
                data,
                watch=lambda done, total: progress.update(task, completed=done, total=total),
                client=scheduler,
            )
        except KeyboardInterrupt:
            progress.stop()
            notes.print(f"interrupted; what is finished is kept in {out}, and the same command goes on from there")
            raise typer.Exit(INTERRUPTED) from None
    Console().print(_text_table(experiments.experiment(figure.value, data).shown(table)))
    notes.print(escape(f"wrote {figure.value}.png, .svg, .csv and manifest.json to {out}"), highlight=False)


def _text_table(rows: pd.DataFrame) -> Table:
    """A frame of text, its index first."""
    shown = Table(title=rows.attrs.get("title"))
    shown.add_column("")
    for column in rows.columns:
        shown.add_column(str(column), justify="right")
    for name, row in rows.iterrows():
        shown.add_row(str(name), *("" if pd.isna(value) else str(value) for value in row))
    return shown


def _summary_table(posterior: bf.Posterior, rows: int = 20) -> Table:
    """The surest parameters; all of them are in the file."""
    summary = posterior.summary()
    order = (summary["mean"] / summary["sd"]).abs().sort_values(ascending=False).index[:rows]
    caption = f"the {len(order)} surest of {len(summary)} parameters"
    table = Table(caption=caption if len(order) < len(summary) else None)
    for column in ("parameter", "mean", "sd", "2.5 %", "97.5 %", "P(> 0)"):
        table.add_column(column, justify="left" if column == "parameter" else "right")
    for name in order:
        r = summary.loc[name]
        table.add_row(escape(str(name)), *(f"{r[c]:.3f}" for c in ("mean", "sd", "lower", "upper", "p_positive")))
    return table


def main() -> None:
    """The entry point: errors in plain words, no stack trace."""
    try:
        app()
    except bf.BayesfieldError as error:
        notes.print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(REFUSED)
    except KeyboardInterrupt:
        notes.print("interrupted; nothing was written")
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
