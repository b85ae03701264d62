"""What to label next, a loop on files: ``label propose``, ``label take``, ``label update``."""

import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import bayesfield as bf
from bayesfield.cli import trust
from bayesfield.cli.app import Json, app, note, show, text_table
from bayesfield.cli.fields import summary_table
from bayesfield.cli.saved import posterior_at
from bayesfield.cli.sentences import window_of
from bayesfield.cli.targets import folder, refuse_file
from bayesfield.cli.waiting import doing
from bayesfield.fitting.growth import grown
from bayesfield.formats import tables
from bayesfield.formats.crfsuite import rows_of, vocabulary
from bayesfield.formats.frames import is_table
from bayesfield.formats.sentences import (
    Sentence,
    added_text,
    attributes_of,
    is_json,
    labelled_text,
    read_sentences,
    remaining_text,
)
from bayesfield.model.conditional import CRF, Sequences, from_rows
from bayesfield.outputs import as_one, write_text
from bayesfield.types import InvalidInput

_DOUBTED = 3  # words of a sentence that its note names
label = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(label, name="label", help="What to label next: propose sentences, take their labels, go on from them.")
Window = Annotated[int | None, typer.Option(min=0, max=100, help="CoNLL: words on either side, as in fit.")]


class StrategyName(StrEnum):
    reduction = "reduction"
    unsettled = "unsettled"
    entropy = "entropy"
    least_confidence = "least_confidence"
    diverse = "diverse"


class Per(StrEnum):
    position = "position"
    sequence = "sequence"


@label.command()
def propose(
    model: Annotated[Path, typer.Argument(help="posterior.bf, its folder, or labelled sentences to fit first.")],
    pool: Annotated[Path, typer.Argument(help="Sentences without labels: CoNLL columns, or JSON items.")],
    out: Annotated[Path, typer.Option(help="The sentences to label, with proposed labels: as the pool, labels last.")],
    count: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    strategy: Annotated[StrategyName, typer.Option(help="What they are chosen by.")] = StrategyName.reduction,
    per: Annotated[Per, typer.Option(help="Scores by the position, or summed over a sentence.")] = Per.position,
    window: Window = None,
    draws: Annotated[int, typer.Option(min=1, help="Of the weights, to average over.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Of all draws.")] = 0,
    as_json: Json = False,
) -> None:
    """Choose the sentences of a pool that would teach the most, and write them with the labels that are likeliest.

    A note before each sentence (CoNLL) names the words that are least sure. Correct the labels in the file, then:
    bayesfield label take.

    Example: bayesfield label propose tagger pool.conll --count 20 --out batch.conll
    """
    refuse_file(out)
    _refuse_kinds(pool, out)
    warnings.simplefilter("ignore", bf.FitWarning)  # the lines below say it, and so does the exit code
    with doing("reading …") as say:
        sentences = _some(pool, read_sentences(pool, False))
        if model.is_dir() or model.suffix.lower() == ".bf":
            posterior = posterior_at(model)
            crf = _of_crf(posterior)
            width = window_of(crf.inputs, window)
        else:
            say("fitting (kernels compile at first use) …")
            width = 1 if window is None else window
            posterior = _fitted(model, width)
            crf = _of_crf(posterior)
        X = attributes_of(pool, sentences, width)
        wider = grown(crf, crf.visible, sorted({*crf.inputs, *vocabulary(X)}))
        data = _data(wider, X)
        options: dict[str, Any] = {"crf": wider, "per": per.value, "n_draws": draws, "rng": seed}
        say("choosing …")
        chosen = bf.query(posterior, data, count, strategy.value, **options)
        wanted = np.zeros(len(data), dtype=np.bool_)
        wanted[chosen] = True
        known = _data(crf, [X[k] for k in np.flatnonzero(wanted)])
        doubts = _doubts(posterior, known, np.sort(chosen), draws, seed)
        scores = bf.query_scores(posterior, data, **options).loc[chosen]
    batch = [Sentence(sentences[k].rows, doubts[k]["label"].tolist()) for k in chosen]
    notes = [_note(sentences[k], k, scores.loc[k], doubts[k]) for k in chosen]
    with doing("writing …"):
        write_text(out, labelled_text(out, batch, notes))
    rows = [
        {"sentence": int(k) + 1, **scores.loc[k].to_dict(), "words": doubts[k].to_dict(orient="records")}
        for k in chosen
    ]
    shown = scores.astype({"positions": object}).set_axis(scores.index + 1)
    show(rows, text_table(shown), as_json)
    note(f"wrote {len(batch)} of {len(sentences)} sentences to {out}: correct the labels there")
    trust.conclude(posterior)


@label.command()
def take(
    batch: Annotated[Path, typer.Argument(help="The file that propose wrote, its labels corrected.")],
    pool: Annotated[Path, typer.Option(help="The pool; the sentences are taken out of it.")],
    train: Annotated[Path, typer.Option(help="Labelled sentences, to which they are added; made if there are none.")],
    as_json: Json = False,
) -> None:
    """Move sentences that were labelled from the pool to the training file; both files are written, or none.

    Sentences that were deleted from the batch stay in the pool.

    Example: bayesfield label take batch.conll --pool pool.conll --train train.conll
    """
    refuse_file(pool)
    refuse_file(train)
    _refuse_kinds(pool, batch, train)
    if len({path.resolve() for path in (batch, pool, train)}) < 3:
        raise InvalidInput("the batch, --pool and --train are three files")
    with doing("reading …"):
        labelled, unlabelled = _some(batch, read_sentences(batch, True)), read_sentences(pool, False)
        before = {one for s in read_sentences(train, True) for one in s.labels} if train.exists() else set()
        left = remaining_text(pool, unlabelled, labelled, batch)
        both = added_text(train, labelled)
    with doing("writing …", "both files are as they were, or both are new"), as_one():
        write_text(train, both)
        write_text(pool, left)
    new = sorted({one for s in labelled for one in s.labels} - before) if before else []
    if new:
        note(f"labels that are new in {train}: {', '.join(new)}")
    result = {"taken": len(labelled), "left": len(unlabelled) - len(labelled), "new labels": new}
    show(result, None, as_json)
    note(f"moved {len(labelled)} sentences from {pool} to {train}; {result['left']} are left to label")


@label.command()
def update(
    posterior: Annotated[Path, typer.Argument(help="posterior.bf, or the folder that bayesfield fit wrote.")],
    data: Annotated[Path, typer.Argument(help="New labelled sentences alone, such as the corrected batch.")],
    out: Annotated[Path, typer.Option(help="The folder to write the new posterior to; it may be the old one.")],
    window: Window = None,
    as_json: Json = False,
) -> None:
    """Go on from a posterior with new labelled sentences: the old one is their prior. New labels and words may come.

    Writes what bayesfield fit writes. Sentences that the posterior has learnt from already would count twice.

    Example: bayesfield label update tagger batch.conll --out tagger-2
    """
    warnings.simplefilter("ignore", bf.FitWarning)  # the record below says it, and so does the exit code
    with folder(out):
        with doing("reading …") as say:
            old = posterior_at(posterior)
            crf = _of_crf(old)
            sentences = _some(data, read_sentences(data, True))
            X, y = attributes_of(data, sentences, window_of(crf.inputs, window)), [s.labels for s in sentences]
            labels = sorted({*crf.visible, *(one for own in y for one in own)}, key=str)
            model = grown(crf, labels, sorted({*crf.inputs, *vocabulary(X)}))
            say("going on (kernels compile at first use) …")
            new = old.update(_data(model, X, y), crf=model, verbose=False)
        with doing("writing …", f"{out} has all of the new files or none"):
            left_out = tables.write_posterior(out, new)
    show(tables.fit_summary(new), summary_table(new), as_json)
    note(new.record)
    for line in (*left_out, f"wrote {out}"):
        note(line)
    trust.tell(new)
    trust.end_fit(new)


def _refuse_kinds(pool: Path, *others: Path) -> None:
    for path in (pool, *others):
        if is_json(path) != is_json(pool):
            raise InvalidInput(f"{pool} and {path} are of two kinds: take .json for all of them, or for none")
        if not is_json(path) and is_table(path):
            raise InvalidInput(f"sentences are CoNLL columns or .json, and {path} ends like a table")


def _some(path: Path, sentences: list[Sentence]) -> list[Sentence]:
    if not sentences:
        raise InvalidInput(f"{path} holds no sentence")
    return sentences


def _of_crf(posterior: bf.Posterior) -> CRF:
    if not isinstance(posterior.field, CRF):
        raise InvalidInput("this posterior is of a field of cases; sentences are labelled by that of a CRF")
    return posterior.field


def _fitted(path: Path, window: int) -> bf.Posterior:
    """The posterior of labelled sentences."""
    sentences = _some(path, read_sentences(path, True))
    X = attributes_of(path, sentences, window)
    crf = CRF(sorted({one for s in sentences for one in s.labels}), list(vocabulary(X)))
    return bf.fit_sequences(crf, _data(crf, X, [s.labels for s in sentences]), verbose=False)


def _data(crf: CRF, X: list[list[Any]], y: list[list[str]] | None = None) -> Sequences:
    number = {name: k for k, name in enumerate(crf.inputs)}
    return from_rows(crf, *rows_of(X, number), y)


def _doubts(posterior: bf.Posterior, data: Sequences, numbers: Any, draws: int, seed: int) -> dict[int, pd.DataFrame]:
    """For each sentence, by its number in the pool, a row a word: its likeliest label and how sure that is."""
    found, names = bf.predict_sequences(posterior, data, n_draws=draws, rng=seed), _of_crf(posterior).visible
    order = np.argsort(-found.probabilities, axis=1)
    table = pd.DataFrame(
        {
            "label": [str(names[k]) for k in found.labels],
            "probability": found.probabilities[np.arange(len(found.labels)), found.labels],
            "unsettled": found.unsettled,
            "next": [str(names[row[1]]) if len(names) > 1 else "" for row in order],
            "next_probability": np.sort(found.probabilities, axis=1)[:, -2] if len(names) > 1 else 0.0,
        }
    )
    ptr = data.ptr.tolist()
    return {int(k): table.iloc[a:b].reset_index(drop=True) for k, a, b in zip(numbers, ptr[:-1], ptr[1:], strict=True)}


def _note(sentence: Sentence, number: int, score: Any, doubt: pd.DataFrame) -> str:
    """A line before a sentence."""
    told = []
    for t in doubt["probability"].sort_values(kind="stable").index[:_DOUBTED]:
        row, columns = doubt.loc[t], sentence.rows[t]
        word = columns[0] if isinstance(columns, list) and columns else ""
        told.append(f"{t + 1} {word} {row.label} {row.probability:.2f}, {row.next} {row.next_probability:.2f}")
    return f"sentence {number + 1} of the pool, unsettled {score.unsettled:.3g}; least sure: {'; '.join(told)}"
