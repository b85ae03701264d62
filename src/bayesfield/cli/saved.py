"""What to do with a saved posterior: ``sample``, ``predict``, ``impute``, ``check``, ``edges`` and ``report``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import bayesfield as bf
from bayesfield import memory
from bayesfield.analysis.spans import found_spans
from bayesfield.cli import trust
from bayesfield.cli.app import Json, app, note, show
from bayesfield.cli.options import Decoding
from bayesfield.cli.sentences import labelled_sentences, window_of
from bayesfield.cli.targets import refuse_file, refuse_table
from bayesfield.cli.waiting import doing
from bayesfield.formats.crfsuite import rows_of
from bayesfield.formats.frames import read_frame, write_frame
from bayesfield.formats.models import uai
from bayesfield.model.conditional import from_rows
from bayesfield.outputs import as_one
from bayesfield.prediction.given_others import given_others
from bayesfield.prediction.replicates import new_cases
from bayesfield.types import Cost, InvalidInput

_CELL = 100  # bytes for a variable of a case: drawn, in its own words, in a table, as text
_WEIGHT = 24  # bytes for a parameter of a draw

Saved = Annotated[Path, typer.Argument(help="posterior.bf, or the folder that bayesfield fit wrote.")]
Out = Annotated[Path | None, typer.Option(help="A table to write (CSV, TSV, Parquet, JSON); stdout by default.")]
Draws = Annotated[int, typer.Option(min=1, help="Of the parameters, to average over.")]
Seed = Annotated[int, typer.Option(min=0, help="Of all draws.")]


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(help="A saved posterior (posterior.bf, or its folder), or a UAI model.")],
    cases: Annotated[int, typer.Option(min=1, help="How many.")] = 1000,
    draws: Draws = 100,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Draw new cases: from a posterior (each draw of the parameters gives its share), or from a UAI network.

    Example: bayesfield sample votes-fit --cases 500 --out new.csv
    """
    refuse_table(out)
    rng, made_from = np.random.default_rng(seed), None
    with doing("drawing cases …"):
        if model.suffix.lower() == ".uai":
            field = uai.read_model(model)
            _refuse_many(field, cases)
            values = bf.sample(field, np.empty(0), cases, rng)
        else:
            made_from = posterior_at(model)
            field = _of_field(made_from)
            _refuse_many(field, cases, min(draws, cases))
            values = field.decode(new_cases(made_from, cases, draws, rng))
    _put(pd.DataFrame(values, columns=field.names), out, as_json)
    if made_from is not None:
        trust.conclude(made_from)


@app.command()
def predict(
    posterior: Saved,
    data: Annotated[Path, typer.Argument(help="A table of cases; for a CRF, sentences in CoNLL columns.")],
    column: Annotated[str | None, typer.Option(help="Which column, given the others; needed for tables.")] = None,
    window: Annotated[int | None, typer.Option(min=0, max=100, help="CRFs: as in fit, by default.")] = None,
    labelled: Annotated[bool, typer.Option(help="CRFs: whether the last column is a label, to be compared.")] = True,
    spans: Annotated[bool, typer.Option("--spans", help="CRFs: a row for each entity, not for each word.")] = False,
    decode: Annotated[
        Decoding | None, typer.Option(help="Entities: those of the labels, or of the largest expected F1.")
    ] = None,
    draws: Draws = 100,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Probabilities of a column given the others, of the labels of sentences, or of their entities as wholes, averaged
    over the posterior.

    Example: bayesfield predict votes-fit votes.csv --column crime --out crime.csv

    Example: bayesfield predict tagger test.conll --out labels.csv

    Example: bayesfield predict tagger test.conll --spans --decode f1 --out entities.csv
    """
    refuse_table(out)
    if decode is not None and not spans:
        raise InvalidInput("--decode is of entities: give --spans, too")
    with doing("predicting …"):
        found = posterior_at(posterior)
        _refuse_many(found.field, 0, draws)
        if spans:
            table = _spans(found, data, window, labelled, (decode or Decoding.labels).value, draws, seed)
        elif isinstance(found.field, bf.CRF):
            table = _labels(found, data, window, labelled, draws, seed)
        else:
            table = _column(found, data, column, draws, seed)
    _put(table, out, as_json)
    trust.conclude(found)


@app.command()
def impute(
    posterior: Saved,
    data: Annotated[Path, typer.Argument(help="A table with empty cells.")],
    out: Out = None,
    cells: Annotated[Path | None, typer.Option(help="A table to write: every hole, its state, how likely.")] = None,
    draws: Draws = 100,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fill the empty cells of a table with their likeliest states, and say how likely they are.

    Example: bayesfield impute votes-fit votes.csv --out filled.csv --cells holes.csv
    """
    refuse_table(out)
    refuse_table(cells)
    if out is not None and out == cells:
        raise InvalidInput(f"--out and --cells are two tables; both are {out}")
    with doing("imputing …"):
        found = posterior_at(posterior)
        field, table = _of_field(found), read_frame(data)
        _refuse_many(field, 0, draws)
        seen = _columns(field, table, data)
        given = found.impute(table[seen], draws, 0, seed)
        columns = [field.names.index(name) for name in seen]
        filled = table.copy()
        filled[seen] = pd.DataFrame(given.filled[:, columns], columns=seen, index=table.index)
    _put(filled, out, as_json, None if cells is None else (cells, given.table()))
    trust.conclude(found)


@app.command()
def check(
    posterior: Saved,
    data: Annotated[Path, typer.Argument(help="The table that it was fitted on.")],
    draws: Annotated[int, typer.Option(min=40, help="Replicated data sets.")] = 100,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """How far to trust a fit: certificate, mode against sampling, and the data against data that the model would give.

    Example: bayesfield check votes-fit votes.csv
    """
    with doing("reading …") as say:
        found = _with_data(posterior_at(posterior), data)
        _refuse_many(found.field, 0, draws)
        say("sampling at the mode …")
        fidelity = found.check(seed)
        say("drawing replicated data …")
        replicated = bf.predictive_check(found, n_draws=draws, rng=seed)
    payload = {
        "passed": fidelity.passed,
        "rms": fidelity.rms,
        "verdict": fidelity.verdict,
        "width": fidelity.width,
        "predictive": replicated.table,
        "outside": len(replicated.outside),
        "certificate": asdict(found.certificate),
    }
    show(payload, f"{found.certificate}\n\n{fidelity}\n\n{replicated}", as_json)
    trust.conclude(found)


@app.command()
def edges(
    posterior: Saved,
    probability: Annotated[float, typer.Option(help="Of an edge, before the data.")] = 0.5,
    structure: Annotated[bool, typer.Option("--structure", help="Average over which other edges are there.")] = False,
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Which edges are there: effects, Bayes factors and inclusion probabilities, a row for each.

    Example: bayesfield edges votes-fit --structure --out edges.csv
    """
    refuse_table(out)
    with doing("weighing edges …"):
        found = posterior_at(posterior)
        if structure:
            table = bf.search_structure(found, bf.BernoulliEdges(probability), rng=seed).table
        else:
            table = found.edges(probability)
    _put(table, out, as_json)
    trust.conclude(found)


@app.command()
def report(
    posterior: Saved,
    out: Annotated[Path, typer.Option(help="The HTML file to write.")],
    data: Annotated[Path | None, typer.Option(help="The table that it was fitted on, for the check.")] = None,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
) -> None:
    """One self-contained HTML page: network, parameters, evidence, check, settings.

    Example: bayesfield report votes-fit --data votes.csv --title "House votes" --out votes.html
    """
    refuse_file(out)
    with doing("writing the report …"):
        found = posterior_at(posterior) if data is None else _with_data(posterior_at(posterior), data)
        found.report(out, title=title)
    note(f"wrote {out}")
    trust.conclude(found)


def posterior_at(path: Path) -> bf.Posterior:
    """The posterior of a file, or of a folder that ``fit`` wrote."""
    return bf.load(path / "posterior.bf" if path.is_dir() else path)


def _refuse_many(field: Any, cases: int, draws: int = 0) -> None:
    """Refuse cases, or draws of the parameters, that would not fit in memory."""
    variables = field.n_variables if isinstance(field, bf.RandomField) else 0
    for count, size, unit, each, option in (
        (cases, variables, "cases of {:,} variables", _CELL, "--cases; for more, give every run another --seed"),
        (draws, field.n_parameters, "draws of {:,} parameters", _WEIGHT, "--draws"),
    ):
        numbers = float(min(count, 10**18)) * size
        needed = Cost(numbers, each * numbers, f"{count:,} {unit.format(size)}")
        memory.require(needed, "this", f"Take fewer {option}.")


def _of_field(posterior: bf.Posterior) -> bf.RandomField:
    if not isinstance(posterior.field, bf.RandomField):
        raise InvalidInput("this posterior is of a CRF, which labels sentences: bayesfield predict")
    return posterior.field


def _with_data(posterior: bf.Posterior, data: Path) -> bf.Posterior:
    field, table = _of_field(posterior), read_frame(data)
    return posterior.with_data(table[_columns(field, table, data)])


def _columns(field: bf.RandomField, table: pd.DataFrame, data: Path) -> list[str]:
    """The field's observed variables, which the table must have."""
    table.columns = [str(c) for c in table.columns]
    seen = [name for i, name in enumerate(field.names) if i not in set(field.hidden)]
    absent = [name for name in seen if name not in table]
    if absent:
        raise InvalidInput(f"{data} has no column {absent[0]!r}; the posterior is of {seen[:12]}")
    return seen


def _column(posterior: bf.Posterior, data: Path, column: str | None, draws: int, seed: int) -> pd.DataFrame:
    field, table = _of_field(posterior), read_frame(data)
    if column not in field.names:
        raise InvalidInput(f"--column is one of {field.names[:20]}; got {column!r}")
    if column not in [str(c) for c in table.columns]:
        table[column] = None
    codes = field.encode(table[_columns(field, table, data)], holes=True)
    j = field.names.index(column)
    p = given_others(posterior, codes, j, draws, seed)
    states = field.states[j]
    best = p.argmax(axis=1)
    named = {f"P({state})": p[:, k] for k, state in enumerate(states)}
    return pd.DataFrame({"predicted": [states[k] for k in best], **named})


def _labels(
    posterior: bf.Posterior, data: Path, window: int | None, labelled: bool, draws: int, seed: int
) -> pd.DataFrame:
    """A row for each word: sentence, position, its label if known, the prediction, and how likely that is."""
    crf: Any = posterior.field
    X, y, inputs = _sentences(crf, data, window, labelled)
    found = bf.predict_sequences(posterior, inputs, n_draws=draws, rng=seed)
    places = [(k, t) for k, sentence in enumerate(X) for t in range(len(sentence))]
    table = pd.DataFrame(places, columns=["sentence", "position"])
    if labelled:
        table["label"] = [label for labels in y for label in labels]
    table["predicted"] = [crf.visible[k] for k in found.labels]
    table["probability"] = found.probabilities[np.arange(len(found.labels)), found.labels]
    if labelled:
        note(f"{float((table['label'] == table['predicted']).mean()):.1%} of {len(table)} labels are as given")
    return table


def _spans(
    posterior: bf.Posterior, data: Path, window: int | None, labelled: bool, decode: str, draws: int, seed: int
) -> pd.DataFrame:
    """A row for each entity: sentence, first, end, label, probability, words, and whether the given labels have it."""
    if not isinstance(posterior.field, bf.CRF):
        raise InvalidInput("--spans is for CRFs, which label sentences; this posterior is of a field")
    X, y, inputs = _sentences(posterior.field, data, window, labelled)
    found = bf.predict_spans(posterior, inputs, decode=decode, n_draws=draws, rng=seed)
    table = bf.span_table(found, [[next(iter(word.values()), "") for word in sentence] for sentence in X])
    table = table.rename(columns={"sequence": "sentence"})
    if labelled:
        table["right"] = found_spans(found, y)
        scores = bf.span_scores(found, y)
        note(f"precision {scores.precision:.1%}, recall {scores.recall:.1%}, F1 {scores.f1:.1%} by the given labels")
    return table


def _sentences(
    crf: bf.CRF, data: Path, window: int | None, labelled: bool
) -> tuple[list[list[Any]], list[list[str]], Any]:
    """Words with their columns, their labels if any, and the same as the CRF takes them."""
    X, y = labelled_sentences(data, window_of(crf.inputs, window), labelled)
    known = {name: k for k, name in enumerate(crf.inputs)}
    return X, y, from_rows(crf, *rows_of(X, known))


def _put(table: pd.DataFrame, out: Path | None, as_json: bool, beside: tuple[Path, pd.DataFrame] | None = None) -> None:
    """A table to a file or to stdout; beside: a second one, and where it goes."""
    with doing("writing …"), as_one():
        if out is not None:
            write_frame(out, table)
        if beside is not None:
            write_frame(*beside)
        text = table.to_csv(index=False) if out is None and not as_json else None
    if out is not None:
        note(f"wrote {len(table)} rows to {out}")
    if beside is not None:
        note(f"wrote {beside[0]}")
    if out is None or as_json:
        show(table, text, as_json)
