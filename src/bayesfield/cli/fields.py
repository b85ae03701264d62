"""From files to answers: ``infer``, ``fit`` and ``compare``."""

import itertools
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

import bayesfield as bf
from bayesfield.cli import trust
from bayesfield.cli.app import NOT_CONVERGED, Json, app, note, show, text_table
from bayesfield.cli.options import Correction, Learner, Method, Model, Task
from bayesfield.cli.sentences import labelled_sentences
from bayesfield.cli.targets import folder, refuse_file
from bayesfield.cli.waiting import doing, progress
from bayesfield.estimators.networks import threshold_prior
from bayesfield.formats import tables
from bayesfield.formats.crfsuite import inputs_of, vocabulary
from bayesfield.formats.frames import missing_cells
from bayesfield.formats.models import uai
from bayesfield.inference.queries import most_probable_codes
from bayesfield.outputs import write_text
from bayesfield.types import InvalidInput

_LONG = 300  # parameters from which a fit's time is foreseen
Drop = Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")]
Variance = Annotated[
    float | None, typer.Option(help="Of every parameter; 1 by default, and 25 of the thresholds of ordinal items.")
]


@app.command()
def infer(
    model: Annotated[Path, typer.Argument(help="A UAI model file.")],
    task: Annotated[Task, typer.Option(help="PR: log10 Z; MAR: marginals; MPE: the most probable state.")],
    evidence: Annotated[Path | None, typer.Option(help="A UAI evidence file.")] = None,
    method: Annotated[Method, typer.Option(help="auto: exact where it fits, else kikuchi or bethe.")] = Method.auto,
    out: Annotated[Path | None, typer.Option(help="Where to write the result; stdout by default.")] = None,
    as_json: Json = False,
) -> None:
    """Answer a query about a UAI network, in the competition's result format.

    Example: bayesfield infer grid.uai --task MAR --method exact --out grid.MAR
    """
    refuse_file(out)
    if task is not Task.MAR and method is Method.sampled:
        raise InvalidInput(
            f"sampling gives no log Z and no best state: for --task {task.value} take exact, kikuchi, bethe or auto"
        )
    with doing("reading …") as say:
        field = uai.read_model(model)
        given: bf.Evidence = uai.read_evidence(evidence) if evidence is not None else {}
        say("inferring …")
        text, answer, status = _answer(field, task, method.value, given)
    note(status)
    if out is not None:
        write_text(out, text)
    if out is None or as_json:
        show({"task": task.value, "status": str(status), "converged": status.converged, **answer}, text, as_json)
    if not status.converged:
        raise typer.Exit(NOT_CONVERGED)


def _answer(field: bf.RandomField, task: Task, engine: str, given: bf.Evidence) -> tuple[str, Any, bf.Status]:
    """The competition's text, the same for JSON, and how it was found."""
    if task is Task.MPE:
        codes, status = most_probable_codes(field, engine=engine, evidence=given)
        return uai.mpe_text(codes), {"states": codes}, status
    beliefs = bf.infer(field, engine=engine, evidence=given)
    if task is Task.PR:
        return uai.pr_text(beliefs.log_z), {"log_z": beliefs.log_z}, beliefs.status
    if beliefs.status.outcome is bf.Outcome.IMPOSSIBLE:
        raise InvalidInput(f"there are no marginals: {beliefs.status}")
    return uai.mar_text(beliefs), {"marginals": list(beliefs.variables)}, beliefs.status


@app.command()
def fit(
    data: Annotated[
        Path,
        typer.Argument(help="A table (CSV, TSV, Parquet, JSON), a row for each case; for a CRF, CoNLL columns."),
    ],
    model: Annotated[Model, typer.Option(help="ising: two states; potts: any, unordered; ordinal; crf: CoNLL files.")],
    out: Annotated[Path, typer.Option(help="The folder to write to.")],
    graph: Annotated[
        str, typer.Option(help="complete, grid:ROWSxCOLUMNS, or a CSV file of edges (two columns).")
    ] = "complete",
    engine: Annotated[Method, typer.Option(help="Finds the most probable parameters.")] = Method.auto,
    response: Annotated[Method | None, typer.Option(help="Gives the curvature there; the engine by default.")] = None,
    method: Annotated[
        Learner, typer.Option(help="How; auto: newton, or lbfgs where curvature is expensive.")
    ] = Learner.auto,
    correction: Annotated[
        Correction, typer.Option(help="auto: the best that is affordable, and draws where no Gaussian fits.")
    ] = Correction.auto,
    prior_variance: Variance = None,
    drop: Drop = None,
    window: Annotated[
        int, typer.Option(min=0, max=100, help="crf: words on either side whose columns count, too.")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Fit a field to a table of cases, or a CRF to labelled sentences, and write its posterior.

    Writes posterior.csv (a row for each parameter), posterior.npz (mean, covariance), posterior.bf (for bayesfield
    sample, predict, impute, check and report, and for bf.load) and fit.json (how it was found).

    Example: bayesfield fit votes.csv --model ising --graph complete --drop party --out votes-fit

    Example: bayesfield fit train.conll --model crf --window 2 --out tagger
    """
    warnings.simplefilter("ignore", bf.FitWarning)  # the record below says it, and so does the exit code
    given = bf.Normal(variance=1.0 if prior_variance is None else prior_variance)  # refuses before anything is read
    options: dict[str, Any] = {"method": method.value, "correction": correction.value}
    with folder(out):
        with doing("reading …") as say:
            if model is Model.crf:
                posterior = _fit_labels(data, given, window, options, say)
            else:
                options |= {"engine": engine.value, "response": response and response.value}
                cases = _varied(tables.read_cases(data, drop or []))
                field = field_of(cases, model, graph)
                prior = threshold_prior(field) if model is Model.ordinal and prior_variance is None else given
                say("fitting (kernels compile at first use) …")
                seconds = _foreseen(field, cases, prior, options)
                posterior = bf.fit(field, cases, prior, watch=_steps(say, seconds), **options)
        with doing("writing …", f"{out} has all of the new files or none"):
            left_out = tables.write_posterior(out, posterior)
    show(tables.fit_summary(posterior), summary_table(posterior), as_json)
    note(posterior.record)
    for line in (*left_out, f"wrote {out}"):
        note(line)
    trust.tell(posterior)
    trust.end_fit(posterior)


@app.command()
def compare(
    data: Annotated[Path, typer.Argument(help="A table, as for fit.")],
    model: Annotated[list[Model], typer.Option(help="ising, potts or ordinal; may be repeated.")],
    graph: Annotated[list[str], typer.Option(help="As for fit; may be repeated.")],
    prior_variance: Variance = None,
    drop: Drop = None,
    as_json: Json = False,
) -> None:
    """Fit every given model on every given graph, weigh them by their evidence, and tell how far to trust each.

    Example: bayesfield compare votes.csv --model ising --graph complete --graph blocs.csv
    """
    warnings.simplefilter("ignore", bf.FitWarning)  # the lines below say it, and so does the exit code
    given = bf.Normal(variance=1.0 if prior_variance is None else prior_variance)
    if Model.crf in model:
        raise InvalidInput("models of cases are compared: ising, potts or ordinal")
    pairs = list(dict.fromkeys(itertools.product(model, graph)))
    if len(pairs) < 2:
        raise InvalidInput("there is nothing to compare: give --model or --graph several times, each another one")
    found = {}
    with progress("fitting") as tell:
        cases = _varied(tables.read_cases(data, drop or []))
        for k, (kind, joined) in enumerate(pairs):
            tell(k, len(pairs))
            field = field_of(cases, kind, joined)
            prior = threshold_prior(field) if kind is Model.ordinal and prior_variance is None else given
            found[f"{kind.value}, {joined}"] = bf.fit(field, cases, prior)
        tell(len(pairs), len(pairs))
    table = bf.compare(found)
    short = table[["log_evidence", "error", "log_bayes_factor", "probability"]]
    short = short.rename(columns={"log_evidence": "log evidence", "log_bayes_factor": "log BF", "probability": "P"})
    short["trust"] = [found[name].certificate.verdict for name in table.index]
    rows = table.reset_index(names="model").to_dict(orient="records")
    show([row | {"certificate": asdict(found[row["model"]].certificate)} for row in rows], text_table(short), as_json)
    for name in table.index:
        trust.tell(found[name], name)
    trust.end(*found.values())


def field_of(cases: pd.DataFrame, model: Model, graph: str) -> bf.RandomField:
    """The field that a table asks for, as the estimators make it."""
    if model is Model.ising:
        return tables.ising_field(cases, graph)
    cases = cases.set_axis([str(c) for c in cases.columns], axis=1)  # Parquet may call them by numbers
    edges = tables.edges_named(graph, list(cases.columns))
    if not len(cases) or cases.isna().all(axis=0).any():
        raise InvalidInput("every column needs values; the table has no rows, or a column without any")
    if model is Model.potts:
        return bf.PottsNetwork(edges).field_for(cases)
    text = [str(c) for c in cases.columns if not _has_order(cases[c])]
    if text:
        raise InvalidInput(
            f"ordinal columns hold numbers, which have an order; {text[0]!r} holds text. Code it as 0, 1, …"
        )
    return bf.OrdinalNetwork(edges).field_for(cases)


def _has_order(column: pd.Series) -> bool:
    """Numbers, and labels that a file has in order."""
    named = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.dtype.ordered)
    return named or pd.api.types.is_numeric_dtype(column.dtype)


def _varied(cases: pd.DataFrame) -> pd.DataFrame:
    """The same; missing cells are counted, columns of one value are named."""
    for line in missing_cells(cases):
        note(line)
    same = [repr(str(name)) for name in cases.columns if cases[name].nunique() == 1]
    if same:
        which = f"column {same[0]} never varies" if len(same) == 1 else f"columns {_some(same)} never vary"
        note(f"{which}: the data cannot tell such parameters, and the prior does; --drop leaves a column out")
    return cases


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _fit_labels(
    data: Path, prior: bf.Normal, window: int, options: dict[str, Any], say: Callable[[str], None]
) -> bf.Posterior:
    X, y = labelled_sentences(data, window)
    labels = sorted({label for labels in y for label in labels})
    known = vocabulary(X)
    crf = bf.CRF(labels, list(known))
    inputs = [inputs_of(sentence, known) for sentence in X]
    say("fitting (kernels compile at first use) …")
    return bf.fit_sequences(crf, inputs, y, prior, watch=_steps(say, float("nan")), **options)


def _foreseen(field: bf.RandomField, cases: pd.DataFrame, prior: bf.Normal, options: dict[str, Any]) -> float:
    """Seconds that the fit will take, where it is long enough to be asked; else NaN."""
    if field.n_parameters < _LONG or options["method"] not in ("auto", "newton", "lbfgs"):
        return float("nan")
    return bf.preview(field, cases, prior, **options).seconds


def _steps(say: Callable[[str], None], seconds: float) -> Any:
    """What tells every step. seconds: that all will take, NaN where it is not estimated."""
    begun = time.perf_counter()

    def tell(step: Any) -> None:
        left = max(seconds - (time.perf_counter() - begun), 1.0)
        foreseen = f"; about {left:.0f} s left" if seconds == seconds else ""
        say(f"step {step.number}: {step.distance:.2g} posterior sd from the optimum{foreseen}")

    return tell


def summary_table(posterior: bf.Posterior, rows: int = 20) -> Table:
    """The surest parameters; all of them are in the file."""
    summary = posterior.summary().reset_index()
    order = (summary["mean"] / summary["sd"]).abs().sort_values(ascending=False).index[:rows]
    caption = f"the {len(order)} surest of {len(summary)} parameters"
    table = Table(caption=caption if len(order) < len(summary) else None)
    for column in ("parameter", "mean", "sd", "2.5 %", "97.5 %", "P(> 0)"):
        table.add_column(column, justify="left" if column == "parameter" else "right")
    for _, r in summary.loc[order].iterrows():
        numbers = (f"{r[c]:.3f}" for c in ("mean", "sd", "lower", "upper", "p_positive"))
        table.add_row(escape(str(r["parameter"])), *numbers)
    return table
