"""Aligned sequences in FASTA files (A2M and A3M too, packed by gzip or not), and how much each should count."""

import math
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfield import memory, parallel
from bayesfield.files import read_bytes
from bayesfield.kernels.identity import count_alike
from bayesfield.types import Cost, FloatArray, InvalidInput

PROTEIN = "ACDEFGHIKLMNPQRSTVWY-"
_GAP = "-"
_DROPPED, _UNKNOWN, _STRANGE = -1, -2, -3  # in place of a letter's code
_MOST_LETTERS = 127  # that one byte can number
_BLANKS = " \t\r\n\v\f"


@dataclass(frozen=True, eq=False)
class Alignment:
    """Sequences of equal length. names: (N,). codes: (N, L), each letter's place in the alphabet."""

    names: tuple[str, ...]
    codes: NDArray[np.int8]
    alphabet: str

    def weights(self, identity: float = 0.8) -> FloatArray:
        """(N,): 1 / the number of sequences, itself among them, that agree in at least that share of the columns.

        Gaps count as a letter. It takes N²L/2 comparisons: some seconds for 13,600 sequences of 53 letters.
        """
        if not 0.0 < identity <= 1.0:
            raise InvalidInput(f"identity is a share of the columns, above 0 and at most 1; got {identity}")
        needed = math.ceil(identity * self.codes.shape[1] - 1e-9)
        parts = parallel.cores()

        def part(k: int) -> Any:
            counts = np.zeros(len(self.codes), dtype=np.int64)
            count_alike(self.codes, k, parts, needed, counts)
            return counts

        alike = 1 + sum(parallel.thread_map(part, range(parts)))
        return np.asarray(1.0 / alike, dtype=np.float64)

    def effective(self, identity: float = 0.8) -> float:
        """How many sequences these count for: the sum of the weights."""
        return float(self.weights(identity).sum())

    def letters(self) -> Any:
        """(N, L) the letters themselves."""
        return np.array(list(self.alphabet))[self.codes]

    def __repr__(self) -> str:
        N, L = self.codes.shape
        return f"Alignment({N} sequences of {L} letters, alphabet {self.alphabet!r})"


def read_fasta(
    path: str | Path,
    alphabet: str = PROTEIN,
    insertions: Literal["drop", "keep"] = "drop",
    unknown: Literal["gap", "refuse"] = "gap",
    max_bytes: int = 2**30,
) -> Alignment:
    """The sequences of a file, which must all be of the same length.

    insertions: lower-case letters and dots (A2M, A3M) are dropped, or, with "keep", lower-case letters are read as
    upper-case ones and dots as gaps. unknown: letters outside the alphabet, such as B, Z and X, are read as gaps, or
    refused. max_bytes: that the file may hold, once unpacked.
    """
    for name, value, known in (("insertions", insertions, ("drop", "keep")), ("unknown", unknown, ("gap", "refuse"))):
        if value not in known:
            raise InvalidInput(f"{name} is {known[0]!r} or {known[1]!r}; got {value!r}")
    codes = _codes(alphabet, insertions == "keep", unknown == "gap")
    text = read_bytes(path, max_bytes)
    memory.require(Cost(len(text), 3.0 * len(text), "room for the text and the codes"), str(path), "Split the file.")
    names: list[str] = []
    rows: list[NDArray[np.int8]] = []
    for found in _sequences(text, str(path)):
        row = _row(found, codes, str(path))
        if rows and len(row) != len(rows[0]):
            raise InvalidInput(
                f"{path}, line {found.line}: sequence {found.name!r} has {len(row)} columns and the first one "
                f"{len(rows[0])}; align the sequences first, with insertions in lower case or with gaps for them"
            )
        names.append(found.name)
        rows.append(row)
    if not rows or not len(rows[0]):
        raise InvalidInput(f"{path} holds no sequences: a FASTA file has lines '>name', each with a sequence after it")
    return Alignment(tuple(names), np.stack(rows), alphabet)


class _Sequence(NamedTuple):
    name: str
    line: int  # of its name
    text: bytes


def _sequences(text: bytes, path: str) -> Iterator[_Sequence]:
    name, begun = None, 0
    parts: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(b">"):
            if name is not None:
                yield _Sequence(name, begun, b"".join(parts))
            name, begun, parts = line[1:].strip().decode("utf-8", "replace"), number, []
        elif name is not None:
            parts.append(line)
        elif line.strip() and not line.startswith((b"#", b";")):
            raise InvalidInput(f"{path}, line {number}: a FASTA file begins with '>name'; found {line[:20]!r}")
    if name is not None:
        yield _Sequence(name, begun, b"".join(parts))


def _codes(alphabet: str, keep: bool, gaps: bool) -> NDArray[np.int8]:
    """(256,) what every byte is read as."""
    if not 2 <= len(alphabet) <= _MOST_LETTERS or len(set(alphabet)) != len(alphabet) or not alphabet.isascii():
        raise InvalidInput(f"an alphabet has 2 to {_MOST_LETTERS} different ASCII letters; got {alphabet[:40]!r}")
    if set(alphabet) & set(_BLANKS + ">"):
        raise InvalidInput(f"an alphabet has no blanks and no '>'; got {alphabet[:40]!r}")
    number = {letter: k for k, letter in enumerate(alphabet)}
    other = number.get(_GAP, _UNKNOWN) if gaps else _UNKNOWN
    result = np.full(256, _STRANGE, dtype=np.int8)
    for letter in string.ascii_uppercase:
        result[ord(letter)] = number.get(letter, other)
        result[ord(letter.lower())] = result[ord(letter)] if keep else _DROPPED
    result[ord(".")] = number.get(_GAP, _UNKNOWN) if keep else _DROPPED
    for blank in _BLANKS:
        result[ord(blank)] = _DROPPED
    for letter, k in number.items():
        result[ord(letter)] = k
    return result


def _row(found: _Sequence, codes: NDArray[np.int8], path: str) -> NDArray[np.int8]:
    row = codes[np.frombuffer(found.text, dtype=np.uint8)]
    if row.size and row.min() < _DROPPED:
        letter = chr(found.text[int(np.argmax(row < _DROPPED))])
        why = "is not of the alphabet" if letter.isascii() and letter.isalpha() else "is no letter"
        raise InvalidInput(
            f"{path}, line {found.line}: sequence {found.name!r} holds {letter!r}, which {why}; name it in alphabet="
        )
    result: NDArray[np.int8] = row[row >= 0]
    return result
