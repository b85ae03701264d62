"""Columns of CoNLL files: a word a line, its columns side by side, a blank line between two sentences.

Comments (``# …``, before a sentence) and ``-DOCSTART-`` are passed over. A table of ten columns is CoNLL-U unless its
columns have names of their own; where the first column is ``id``, ranges (1-2) and empty nodes (1.1) are passed over
and ``_`` means that a word has no such attribute.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bayesfield import memory
from bayesfield.files import read_text
from bayesfield.outputs import write_text
from bayesfield.types import Cost, InvalidInput

Item = dict[str, Any]
Features = Callable[[Sequence[Item], int], Any]
CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_SWOLLEN = 100  # bytes in memory for a character, at most
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")
_BLANKS = re.compile(r"[ \t]+")


def read_conll(
    path: str | Path,
    columns: Sequence[str] | None = None,
    label: int | str | None = -1,
    separator: str | None = None,
    features: int | Features | None = None,
    comment: str | None = "#",
) -> tuple[list[list[Any]], list[list[str]]]:
    """Sentences as ``bf.BayesianCRF`` takes them, each word a dict from a column's name to its text; and their labels.

    columns: their names; by default those of CoNLL-U for ten columns, else word, column1, column2, …. label: the column
    of labels, by name or number; None for a file without, whose list of labels is empty. separator: by default a tab
    where the first word's line has one, else blanks. features: a number k, for the columns of the k words before and
    after too ("-1:word", …, with BOS and EOS at the ends), or a function of a sentence and a position that gives the
    word's attributes. comment: what a comment begins with; None where there are none.
    """
    text = read_text(path)
    needed = Cost(len(text), float(_SWOLLEN * len(text)), f"{len(text):,} characters as cells")
    memory.require(needed, f"reading {path}", "Split the file.")
    table = _table(str(path), list(_sentences(str(path), text, separator, comment)), columns)
    answer = None if label is None else _place(label, table.columns, str(path))
    if answer is not None and len(table.columns) == 1:
        raise InvalidInput(
            f"{path} has one column: were it the labels, words would have no attributes. Give label=None "
            "(bayesfield predict: --no-labelled) where it holds the words alone, or a file with the words in front of "
            "their labels"
        )
    X: list[list[Any]] = []
    y: list[list[str]] = []
    for sentence in table.sentences:
        items = [_item(cells, table.columns, answer) for cells in sentence]
        X.append(_seen(items, features))
        if answer is not None:
            y.append([cells[answer] for cells in sentence])
    return X, y


def write_conll(
    path: str | Path,
    X: Sequence[Sequence[Mapping[str, Any]]],
    y: Sequence[Sequence[Any]] | None = None,
    columns: Sequence[str] | None = None,
) -> None:
    """Sentences and their labels, if any, in columns set apart by tabs; the label last.

    columns: the attributes to write; by default those of the first word. A word without one of them has ``_`` there.
    """
    if y is not None and [len(s) for s in X] != [len(labels) for labels in y]:
        raise InvalidInput("X and y need the same sentences, with as many labels as words in each")
    names = list(columns) if columns is not None else [str(n) for n in next((i for s in X for i in s), {})]
    if not names:
        raise InvalidInput("there is nothing to write: words need attributes, and X needs words")
    lines: list[str] = []
    for k, sentence in enumerate(X):
        for t, item in enumerate(sentence):
            cells = [item.get(name, "_") for name in names] + ([y[k][t]] if y is not None else [])
            lines.append("\t".join(_cell(cell, k, t) for cell in cells))
        lines.append("")
    write_text(path, "\n".join(lines) + "\n")


class Line(NamedTuple):
    """Of a word: its number in the file, from one, and its columns."""

    number: int
    cells: list[str]


def sentences_of(path: str | Path, text: str) -> list[list[Line]]:
    """The words of every sentence, as they stand; what is no word (ranges and empty nodes of CoNLL-U) left out."""
    lines = list(_sentences(str(path), text, None, "#"))
    names = _names(len(lines[0][0].cells)) if lines else []
    kept = [[line for line in sentence if not _no_word(line, names)] for sentence in lines]
    return [sentence for sentence in kept if sentence]


def column_names(width: int) -> list[str]:
    """Those of a file with so many columns, the label the last."""
    return _names(width)[: width - 1]


def sentence_items(rows: Sequence[Sequence[str]], names: Sequence[str], window: int) -> list[Any]:
    """The words of a sentence with their attributes, as ``read_conll`` has them. window: of words on either side."""
    return _seen([_item(cells, names, None) for cells in rows], window or None)


class _Table(NamedTuple):
    columns: list[str]
    sentences: list[list[list[str]]]


def _sentences(path: str, text: str, separator: str | None, comment: str | None) -> Iterator[list[Line]]:
    """The lines of every sentence, cut into cells. Within a sentence a word may begin like a comment."""
    open_sentence: list[Line] = []
    width = 0
    for number, line in enumerate(text.split("\n"), 1):
        if comment and not open_sentence and line.startswith(comment) and not _words(line, comment, width, separator):
            continue
        if not line.strip(" \t\r") or line.startswith("-DOCSTART-"):
            if open_sentence:
                yield open_sentence
            open_sentence = []
            continue
        if separator is None:
            separator = "\t" if "\t" in line else " "
        cells = _cut(line.rstrip("\r"), separator)
        width = width or len(cells)
        if len(cells) != width:
            raise InvalidInput(
                f"{path}, line {number}: every word needs the same columns; the first has {width} and this has "
                f"{len(cells)}. Set them apart by one kind of separator (separator='\\t')"
            )
        open_sentence.append(Line(number, cells))
    if open_sentence:
        yield open_sentence


def _words(line: str, comment: str, width: int, separator: str | None) -> bool:
    """Whether a line that begins like a comment has columns: as many as the words before it, if there are any.

    Where blanks set columns apart the mark must stand alone, as ``# NN O`` among words of three columns.
    """
    if separator in (None, "\t"):
        return "\t" in line and width in (0, line.count("\t") + 1)
    cells = _cut(line.rstrip("\r"), separator)
    return cells[0] == comment and len(cells) == width


def _cut(line: str, separator: str) -> list[str]:
    return _BLANKS.split(line.strip(" \t")) if separator == " " else [c.strip() for c in line.split(separator)]


def _table(path: str, sentences: list[list[Line]], columns: Sequence[str] | None) -> _Table:
    width = len(sentences[0][0].cells) if sentences else len(columns or ())
    names = list(columns) if columns is not None else _names(width)
    if len(names) != width:
        raise InvalidInput(f"{path} has {width} columns; got names for {len(names)}: {names[:12]}")
    if len(set(names)) != len(names):
        raise InvalidInput(f"every column needs a name of its own; got {names[:12]}")
    kept = [[line for line in sentence if not _no_word(line, names)] for sentence in sentences]
    return _Table(names, [[line.cells for line in sentence] for sentence in kept if sentence])


def _names(width: int) -> list[str]:
    return list(CONLL_U) if width == len(CONLL_U) else ["word", *(f"column{k}" for k in range(1, width))][:width]


def _no_word(line: Line, names: Sequence[str]) -> bool:
    return names[0] == "id" and _NO_WORD.fullmatch(line.cells[0]) is not None


def _place(label: int | str, names: Sequence[str], path: str) -> int:
    if isinstance(label, str):
        if label not in names:
            raise InvalidInput(f"{path} has no column {label!r} for labels; it has {list(names)[:12]}")
        return names.index(label)
    if names and not -len(names) <= label < len(names):
        raise InvalidInput(f"{path} has {len(names)} columns, and the label should be number {label}")
    return label % max(len(names), 1)


def _item(cells: Sequence[str], names: Sequence[str], answer: int | None) -> Item:
    """A word's attributes: its columns but for the label, the number in the sentence, and what CoNLL-U leaves open."""
    counted = names[0] == "id"
    return {
        name: cell
        for k, (name, cell) in enumerate(zip(names, cells, strict=True))
        if k != answer and not (counted and (k == 0 or cell == "_"))
    }


def _seen(items: list[Item], features: int | Features | None) -> list[Any]:
    if features is None:
        return items
    if callable(features):
        return [features(items, t) for t in range(len(items))]
    if features < 0:
        raise InvalidInput(f"features is a number of words ≥ 0 on either side, or a function; got {features}")
    return [_window(items, t, features) for t in range(len(items))]


def _window(items: Sequence[Item], t: int, k: int) -> Item:
    result: Item = dict(items[t])
    for away in [d for d in range(-k, k + 1) if d and 0 <= t + d < len(items)]:
        result |= {f"{away:+d}:{name}": value for name, value in items[t + away].items()}
    if t == 0:
        result["BOS"] = True
    if t == len(items) - 1:
        result["EOS"] = True
    return result


def _cell(value: Any, k: int, t: int) -> str:
    text = str(value)
    if not text or text != text.strip() or re.search(r"[\t\n\r]", text):
        raise InvalidInput(
            f"sentence {k}, word {t}: {text[:40]!r} cannot stand in a column; cells hold text without tabs or line "
            "ends, and no blanks at either end"
        )
    return text
