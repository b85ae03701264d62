"""From files to answers: ``infer``, ``fit`` and ``compare``."""

import itertools
import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.markup import escape
from rich.table import Table

import bayesfield as bf
from bayesfield.cli.app import NOT_CONVERGED, Json, app, note, notes, progress, show, text_table
from bayesfield.cli.options import Correction, Learner, Method, Model, Task
from bayesfield.estimators.networks import threshold_prior
from bayesfield.files import write_text
from bayesfield.formats import tables, uai
from bayesfield.formats.conll import read_conll
from bayesfield.formats.crfsuite import inputs_of, vocabulary
from bayesfield.inference import most_probable_codes
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
    field = uai.read_model(model)
    given: bf.Evidence = uai.read_evidence(evidence) if evidence is not None else {}
    engine = method.value
    if task is not Task.MAR and method is Method.sampled:
        raise InvalidInput(
            f"sampling gives no log Z and no best state: for --task {task.value} take exact, kikuchi, bethe or auto"
        )
    answer: Any
    if task is Task.MPE:
        codes, status = most_probable_codes(field, engine=engine, evidence=given)
        text, answer = uai.mpe_text(codes), {"states": codes}
    else:
        beliefs = bf.infer(field, engine=engine, evidence=given)
        status = beliefs.status
        if task is Task.MAR and status.outcome is bf.Outcome.IMPOSSIBLE:
            raise InvalidInput(f"there are no marginals: {status}")
        if task is Task.PR:
            text, answer = uai.pr_text(beliefs.log_z), {"log_z": beliefs.log_z}
        else:
            text, answer = uai.mar_text(beliefs), {"marginals": list(beliefs.variables)}
    note(status)
    if out is not None:
        write_text(out, text)
    if out is None or as_json:
        show({"task": task.value, "status": str(status), "converged": status.converged, **answer}, text, as_json)
    if not status.converged:
        raise typer.Exit(NOT_CONVERGED)


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
    engine: Annotated[Method | None, typer.Option(help="Finds the most probable parameters; auto by default.")] = None,
    response: Annotated[Method | None, typer.Option(help="Gives the curvature there; the engine by default.")] = None,
    method: Annotated[
        Learner, typer.Option(help="How; auto: newton, or lbfgs where curvature is dear.")
    ] = Learner.auto,
    correction: Annotated[
        Correction, typer.Option(help="Of the mode towards the mean; auto: the best that is affordable.")
    ] = Correction.auto,
    prior_variance: Variance = None,
    drop: Drop = None,
    window: Annotated[int, typer.Option(min=0, help="crf: words on either side whose columns count, too.")] = 1,
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
    with notes.status("reading …") as status:
        if model is Model.crf:
            posterior = _fit_labels(data, given, window, method, correction, _steps(status, float("nan")))
        else:
            cases = tables.read_cases(data, drop or [])
            field = field_of(cases, model, graph)
            prior = threshold_prior(field) if model is Model.ordinal and prior_variance is None else given
            options: dict[str, Any] = {
                "engine": None if engine is None else engine.value,
                "response": None if response is None else response.value,
                "method": method.value,
                "correction": correction.value,
            }
            seconds = _foreseen(field, cases, prior, options)
            posterior = bf.fit(field, cases, prior, watch=_steps(status, seconds), **options)
    left_out = tables.write_posterior(out, posterior)
    show(tables.fit_summary(posterior), summary_table(posterior), as_json)
    note(posterior.record)
    for line in (*left_out, f"wrote {out}"):
        note(line)
    if not posterior.record.status.converged:
        raise typer.Exit(NOT_CONVERGED)


@app.command()
def compare(
    data: Annotated[Path, typer.Argument(help="A table, as for fit.")],
    model: Annotated[list[Model], typer.Option(help="ising, potts or ordinal; may be repeated.")],
    graph: Annotated[list[str], typer.Option(help="As for fit; may be repeated.")],
    prior_variance: Variance = None,
    drop: Drop = None,
    as_json: Json = False,
) -> None:
    """Fit every given model on every given graph, and weigh them by their evidence.

    Example: bayesfield compare votes.csv --model ising --graph complete --graph blocs.csv
    """
    given = bf.Normal(variance=1.0 if prior_variance is None else prior_variance)
    if Model.crf in model:
        raise InvalidInput("models of cases are compared: ising, potts or ordinal")
    cases = tables.read_cases(data, drop or [])
    pairs = list(dict.fromkeys(itertools.product(model, graph)))
    if len(pairs) < 2:
        raise InvalidInput("there is nothing to compare: give --model or --graph several times, each another one")
    found = {}
    with progress("fitting") as tell:
        for k, (kind, joined) in enumerate(pairs):
            tell(k, len(pairs))
            field = field_of(cases, kind, joined)
            prior = threshold_prior(field) if kind is Model.ordinal and prior_variance is None else given
            found[f"{kind.value}, {joined}"] = bf.fit(field, cases, prior)
    table = bf.compare(found)
    short = table[["log_evidence", "error", "log_bayes_factor", "probability"]]
    short = short.rename(columns={"log_evidence": "log evidence", "log_bayes_factor": "log BF", "probability": "P"})
    show(table.reset_index(names="model"), text_table(short), as_json)


def field_of(cases: pd.DataFrame, model: Model, graph: str) -> bf.RandomField:
    """The field that a table asks for, as the estimators make it."""
    if model is Model.ising:
        return tables.ising_field(cases, graph)
    edges = tables.edges_named(graph, [str(c) for c in cases.columns])
    if not len(cases) or cases.isna().all(axis=0).any():
        raise InvalidInput("every column needs values; the table has no rows, or a column without any")
    if model is Model.potts:
        return bf.PottsNetwork(edges).field_for(cases)
    text = [str(c) for c in cases.columns if not pd.api.types.is_numeric_dtype(cases[c])]
    if text:
        raise InvalidInput(
            f"ordinal columns hold numbers, which have an order; {text[0]!r} holds text. Code it as 0, 1, …"
        )
    return bf.OrdinalNetwork(edges).field_for(cases)


def _fit_labels(
    data: Path, prior: bf.Normal, window: int, method: Learner, correction: Correction, tell: Any
) -> bf.Posterior:
    X, y = read_conll(data, features=window or None)
    labels = sorted({label for labels in y for label in labels})
    known = vocabulary(X)
    crf = bf.CRF(labels, list(known))
    inputs = [inputs_of(sentence, known) for sentence in X]
    return bf.fit_sequences(crf, inputs, y, prior, method=method.value, correction=correction.value, watch=tell)


def _foreseen(field: bf.RandomField, cases: pd.DataFrame, prior: bf.Normal, options: dict[str, Any]) -> float:
    """Seconds that the fit will take, where it is long enough to be asked; else NaN."""
    if field.n_parameters < _LONG or options["method"] not in ("auto", "newton", "lbfgs"):
        return float("nan")
    return bf.preview(field, cases, prior, **options).seconds


def _steps(status: Any, seconds: float) -> Any:
    """What tells every step. seconds: that all will take, NaN where no one knows."""
    status.update("fitting (kernels compile at first use) …")
    begun = time.perf_counter()

    def tell(step: Any) -> None:
        passed = time.perf_counter() - begun
        left = f"about {max(seconds - passed, 1.0):.0f} s left" if seconds == seconds else f"{passed:.0f} s"
        status.update(f"step {step.number}: {step.distance:.2g} posterior sd from the optimum; {left}")

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
