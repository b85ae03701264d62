"""Sentences that people label: files of CoNLL columns, or JSON, that are read, shortened and added to.

CoNLL: a word a line, the label its last column; what stands between the sentences, comments among it, stays where it
is. JSON: a list of {"items": […], "labels": […]}, without labels also of lists of items, as python-crfsuite takes them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bayesfield.files import read_text
from bayesfield.formats.conll import column_names, sentence_items, sentences_of
from bayesfield.types import InvalidInput

NOT_LABELLED = ("", "_", "?")  # what stands where a label is missing


class Sentence(NamedTuple):
    """rows: the columns of every word, or its items as JSON has them, without the label. labels: none where the file
    has none. block: the lines of the file that it stands on, with those between it and the one before."""

    rows: list[Any]
    labels: list[str]
    block: str = ""

    @property
    def key(self) -> str:
        """What tells it from others: all but the labels."""
        return json.dumps(self.rows, sort_keys=True)


def is_json(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".json"


def read_sentences(path: str | Path, labelled: bool) -> list[Sentence]:
    """All sentences of a file."""
    text = read_text(path)
    found = _of_json(str(path), text, labelled) if is_json(path) else _of_columns(str(path), text, labelled)
    if labelled:
        for k, sentence in enumerate(found):
            bare = [t for t, label in enumerate(sentence.labels) if label in NOT_LABELLED]
            if bare:
                raise InvalidInput(
                    f"{path}, sentence {k + 1}: word {bare[0] + 1} has no label ({sentence.labels[bare[0]]!r}); label "
                    "it, or delete the sentence, which then stays in the pool"
                )
    return found


def attributes_of(path: str | Path, sentences: Sequence[Sentence], window: int) -> list[list[Any]]:
    """What a CRF takes: of columns, with those of so many words on either side; of JSON, the items."""
    if is_json(path):
        return [sentence.rows for sentence in sentences]
    return [sentence_items(s.rows, column_names(len(s.rows[0]) + 1), window) for s in sentences]


def labelled_text(path: str | Path, sentences: Sequence[Sentence], notes: Sequence[str] = ()) -> str:
    """A file of sentences with their labels. notes: lines before each, which only columns have room for."""
    if is_json(path):
        rows = [{"items": s.rows, "labels": s.labels} for s in sentences]
        return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"
    blocks = []
    for k, sentence in enumerate(sentences):
        lines = [f"# {notes[k]}"] if notes else []
        lines += ["\t".join([*cells, label]) for cells, label in zip(sentence.rows, sentence.labels, strict=True)]
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def added_text(path: str | Path, new: Sequence[Sentence]) -> str:
    """A file, which may not be there yet, with further labelled sentences behind its own."""
    if not Path(path).exists():
        return labelled_text(path, new)
    own = read_sentences(path, True)
    if is_json(path):
        return labelled_text(path, [*own, *new])
    widths = {len(row) for sentence in (*own, *new) for row in sentence.rows}
    if len(widths) > 1:
        raise InvalidInput(f"{path} has other columns than the new sentences: {sorted(w + 1 for w in widths)}")
    before = read_text(path)
    apart = "\t" if not own or "\t" in own[0].block else " "
    added = labelled_text(path, new) if apart == "\t" else labelled_text(path, new).replace("\t", apart)
    return before.rstrip("\n") + "\n\n" + added if before.strip() else added


def remaining_text(path: str | Path, pool: Sequence[Sentence], taken: Sequence[Sentence], source: str | Path) -> str:
    """A pool without the sentences that were labelled; each of these must be in it. source: the file they are of."""
    left = list(pool)
    places: dict[str, list[int]] = {}
    for k, sentence in enumerate(pool):
        places.setdefault(sentence.key, []).append(k)
    gone = set()
    for k, sentence in enumerate(taken):
        here = places.get(sentence.key)
        if not here:
            raise InvalidInput(
                f"sentence {k + 1} of {source} is not in {path}: its words or columns were changed, or it was taken "
                "before. Labels alone are to be corrected"
            )
        gone.add(here.pop(0))
    left = [sentence for k, sentence in enumerate(pool) if k not in gone]
    if is_json(path):
        return "[\n" + ",\n".join(json.dumps(s.rows, ensure_ascii=False) for s in left) + "\n]\n"
    return "".join(sentence.block for sentence in left).lstrip("\n")


def _of_columns(path: str, text: str, labelled: bool) -> list[Sentence]:
    lines, end, found = text.split("\n"), 0, []
    for words in sentences_of(path, text):
        cells = [word.cells for word in words]
        if labelled and len(cells[0]) < 2:
            raise InvalidInput(f"{path} has one column: it needs words, with what is known of them, and a label")
        last = words[-1].number
        block = "\n".join(lines[end:last]) + "\n"
        rows, labels = ([c[:-1] for c in cells], [c[-1] for c in cells]) if labelled else (cells, [])
        found.append(Sentence(rows, labels, block))
        end = last
    return found


def _of_json(path: str, text: str, labelled: bool) -> list[Sentence]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{path} is no JSON: {error}") from None
    if not isinstance(content, list):
        raise InvalidInput(f"{path} holds no list of sentences")
    found = []
    for k, one in enumerate(content):
        items: Any = one.get("items") if isinstance(one, dict) else one
        labels: Any = one.get("labels") if isinstance(one, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict | list) for item in items):
            raise InvalidInput(
                f'{path}, sentence {k + 1}: it is a list of items (dicts or lists of attributes), or {{"items": […], '
                '"labels": […]}'
            )
        if labelled and not (isinstance(labels, list) and len(labels) == len(items)):
            raise InvalidInput(f"{path}, sentence {k + 1}: it needs labels, one for each of its {len(items)} items")
        found.append(Sentence(items, [str(label) for label in labels] if labelled else []))
    return [sentence for sentence in found if sentence.rows]
