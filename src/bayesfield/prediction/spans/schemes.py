"""Which labels mark which spans: BIO (IOB2), IOB1, IOBES and BILOU.

A span (first, end, type) is there where conlleval and seqeval see it. BIO: its first label is B-type, or I-type after a
label of another type; the others are I-type, and what follows is not. IOB1, where B-type stands only between two spans
of one type, is read by the same rule. IOBES and BILOU: S-type, or B-type, I-type …, E-type; a run that does not come to
its end label is none. Labels that are bare letters (B, I, O) mark spans of one type without a name.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bayesfield.kernels.chains.spans import Marks
from bayesfield.types import IntArray, InvalidInput

_LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "O": "O"}  # L and U are BILOU's E and S

_NEEDED = "spans need labels as B-type, I-type (and E-, S-type, or L-, U-type) and O"


class Tag(NamedTuple):
    """What a label says: B, I, E, S or O, and of which type."""

    letter: str
    kind: str


class Marked(NamedTuple):
    """Positions first … end − 1 of a sequence are a span of this type."""

    first: int
    end: int
    label: str


class Scheme:
    """What the labels mark: a tag for each. whole: whether spans of several positions need their end label.
    outside: how many labels mark none."""

    def __init__(self, labels: Iterable[Hashable]) -> None:
        self.labels = list(labels)
        bare = all(isinstance(label, str) and label in _LETTERS for label in self.labels)
        self._tags = {label: _tag(label, bare) for label in self.labels}
        tags = list(self._tags.values())
        if all(tag.letter == "O" for tag in tags) and not all(label == "O" for label in self.labels):
            raise InvalidInput(f"{_NEEDED}; got {self.labels[:8]}")
        marking = [tag for tag in tags if tag.letter != "O"]
        twice = next((tag for tag in marking if marking.count(tag) > 1), None)
        if twice is not None:
            raise InvalidInput(
                f"two labels mean {twice.letter}-{twice.kind}: take the letters of IOBES or those of BILOU, not both"
            )
        self.whole = any(tag.letter in "ES" for tag in tags)
        self.outside = len(tags) - len(marking)
        self.kinds = list(dict.fromkeys(tag.kind for tag in marking))

    def marks(self) -> Marks:
        """The numbers of the labels, by type."""
        number = {tag: k for k, tag in enumerate(self._tags.values())}

        def of(letter: str) -> IntArray:
            return np.array([number.get(Tag(letter, kind), -1) for kind in self.kinds], dtype=np.int64)

        return Marks(of("B"), of("I"), of("E"), of("S"), np.array([int(self.whole)]))

    def spans(self, labels: Sequence[Hashable]) -> list[Marked]:
        """The spans that the labels of one sequence mark."""
        spans: list[Marked] = []
        begin, kind = 0, None
        for t, tag in enumerate([*(self._tags[label] for label in labels), Tag("O", "")]):
            if kind is not None and not (tag.letter in "IE" and tag.kind == kind):
                if not self.whole:
                    spans.append(Marked(begin, t, kind))
                kind = None
            if kind is None and tag.letter in ("BS" if self.whole else "BI"):
                begin, kind = t, tag.kind
            if kind is not None and tag.letter in "ES":
                if (tag.letter == "S") == (begin == t):
                    spans.append(Marked(begin, t + 1, kind))
                kind = None
        return spans


def marks_spans(labels: Iterable[Hashable]) -> bool:
    """Whether labels are of such a scheme: they mark spans, all of them but one at most."""
    try:
        scheme = Scheme(labels)
    except InvalidInput:
        return False
    return scheme.outside <= 1 and bool(scheme.kinds)


def _tag(label: Hashable, bare: bool) -> Tag:
    letter, _, kind = str(label).partition("-")
    if bare:
        return Tag(_LETTERS[str(label)], "")
    if not kind:
        return Tag("O", "")
    if letter not in _LETTERS:
        raise InvalidInput(f"{_NEEDED}; got {str(label)!r}")
    return Tag(_LETTERS[letter], "" if letter == "O" else kind)
