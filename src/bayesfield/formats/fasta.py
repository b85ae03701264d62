"""Aligned sequences in FASTA files (A2M and A3M too, packed by gzip or not), and how much each should count."""

import math
import re
import string
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from bayesfield import memory, parallel
from bayesfield.files import read_bytes
from bayesfield.kernels.identity import count_alike
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput

PROTEIN, DNA, RNA = "ACDEFGHIKLMNPQRSTVWY-", "ACGT-", "ACGU-"
_NUCLEIC = "ACGTUN"
_MOSTLY, _SELDOM = 0.9, 0.6  # shares of these letters from which a text is nucleic, and up to which it is protein
_SOME = 0.05  # a share of sequences of the other kind, from which a file is mixed
_SHORT = 12  # letters below which a sequence is of no kind
_FEW = 100  # letters of a file below which shares tell little
_SAID, _REFUSED = 0.01, 0.1  # shares of unknown letters that are said, and refused
_GAP = "-"
_DROPPED, _UNKNOWN, _STRANGE = -1, -2, -3  # in place of a letter's code
_MOST_LETTERS = 127  # that one byte can number
_BLANKS = " \t\r\n\v\f"
_NAME = 150  # bytes in memory for a name and its place
_STRAY = re.compile(rb"^(?![#;])[^\S\n]*\S", re.MULTILINE)  # text above the first name that is no comment
_NONE = "{} holds no sequences: a FASTA file has lines '>name', each with a sequence after it"


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
    alphabet: str = "auto",
    insertions: Literal["drop", "keep"] = "drop",
    unknown: Literal["auto", "gap", "refuse"] = "auto",
    max_bytes: int = 2**30,
) -> Alignment:
    """The sequences of a file, which must all be of the same length.

    alphabet: its letters in order, with "-" for gaps where there are some. By default protein, DNA ("ACGT-") or RNA
    ("ACGU-"), by the letters that the file has; T and U are then the same letter. A file of both kinds, or of neither,
    is refused. insertions: lower-case letters and dots (A2M, A3M) are dropped, or, with "keep", lower-case letters are
    read as upper-case ones and dots as gaps. unknown: letters outside the alphabet, such as B, Z and X, are read as
    gaps ("gap"), or refused; "auto" reads them as gaps and refuses more than a tenth. More than one in a hundred are
    always said. max_bytes: that the file may hold, once unpacked.
    """
    choices = (("insertions", insertions, ("drop", "keep")), ("unknown", unknown, ("auto", "gap", "refuse")))
    for name, value, known in choices:
        if value not in known:
            raise InvalidInput(f"{name} is one of {', '.join(map(repr, known))}; got {value!r}")
    keep = insertions == "keep"
    if alphabet != "auto":
        codes = _codes(alphabet, keep, unknown != "refuse")
    text = read_bytes(path, max_bytes)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found = _sequences(text, str(path))
    letters = _letters(found, keep)
    if alphabet == "auto":
        alphabet = _kind_of(found, letters)
        codes = _codes(alphabet, keep, unknown != "refuse", {DNA: ("U", "T"), RNA: ("T", "U")}.get(alphabet))
    if unknown != "refuse":
        _say_unknown(found, letters, alphabet, codes, unknown == "auto")
    rows = _rows(found, codes)
    return Alignment(found.names(), rows, alphabet)


class _Sequences(NamedTuple):
    """A file, and where the lines with names begin and end in it."""

    path: str
    text: bytes
    begins: IntArray
    ends: IntArray

    def names(self, some: slice = slice(None)) -> tuple[str, ...]:
        spans = zip(self.begins[some].tolist(), self.ends[some].tolist(), strict=True)
        return tuple(self.text[begin + 1 : end].strip().decode("utf-8", "replace") for begin, end in spans)

    def where(self, k: int) -> str:
        """For errors."""
        line = self.text.count(b"\n", 0, int(self.begins[k])) + 1
        return f"{self.path}, line {line}: sequence {self.names(slice(k, k + 1))[0]!r}"


def _sequences(text: bytes, path: str) -> _Sequences:
    """All at once: line by line, 100 MiB of line ends took 76 s, and ten million short sequences over 100 s."""
    letters = np.frombuffer(text, dtype=np.uint8)
    marks = letters == ord(">")
    marks[1:] &= letters[:-1] == ord("\n")
    count, lines = int(np.count_nonzero(marks)), text.count(b"\n")
    numbers = 5.0 * len(text) + 8.0 * lines + _NAME * count
    needed = Cost(len(text), numbers, f"room for the text, its codes, {lines:,} lines and {count:,} names")
    memory.require(needed, path, "Split the file.")
    begins = np.flatnonzero(marks)
    above = text[: begins[0]] if count else text
    stray = _STRAY.search(above) if above.strip() else None
    if stray is not None:
        line = above.count(b"\n", 0, stray.start()) + 1
        begun = above[stray.start() : stray.start() + 20].split(b"\n")[0]
        raise InvalidInput(f"{path}, line {line}: a FASTA file begins with '>name'; found {begun!r}")
    if not count:
        raise InvalidInput(_NONE.format(path))
    breaks = np.append(np.flatnonzero(letters == ord("\n")), len(text))
    return _Sequences(path, text, begins, breaks[np.searchsorted(breaks, begins)])


def _letters(found: _Sequences, keep: bool) -> NDArray[np.uint8]:
    """The text, upper-case, with 0 for all that is no letter of a sequence's columns."""
    letters = np.frombuffer(found.text, dtype=np.uint8).copy()
    if keep:
        small = (letters >= ord("a")) & (letters <= ord("z"))
        letters[small] -= ord("a") - ord("A")
    letters[(letters < ord("A")) | (letters > ord("Z"))] = 0
    letters[_in_names(found)] = 0
    return letters


def _in_names(found: _Sequences) -> NDArray[np.bool_]:
    edges = np.zeros(len(found.text) + 1, dtype=np.int8)  # 1 where a name begins, -1 where it ends
    edges[found.begins], edges[found.ends] = 1, -1
    inside: NDArray[np.bool_] = np.cumsum(edges, dtype=np.int8)[:-1] > 0
    inside[: found.begins[0]] = True
    return inside


def _kind_of(found: _Sequences, letters: NDArray[np.uint8]) -> str:
    """Protein, DNA or RNA, by the share of A, C, G, T, U and N among the letters other than X; refused between."""
    counts = np.bincount(letters, minlength=256)
    nucleic = np.zeros(256, dtype=np.bool_)
    nucleic[[ord(c) for c in _NUCLEIC]] = True
    counted = np.arange(256) > 0
    counted[ord("X")] = False
    total = max(int(counts[counted].sum()), 1)
    share = float(counts[nucleic].sum()) / total
    own = np.add.reduceat(counted[letters], found.begins, dtype=np.int64)
    like = np.add.reduceat(nucleic[letters], found.begins, dtype=np.int64)
    long = own >= _SHORT
    odd = like[long] < _SELDOM * own[long] if share >= 0.5 else like[long] >= _MOSTLY * own[long]
    if odd.sum() > _SOME * max(int(long.sum()), 1):
        raise InvalidInput(
            f"{found.path} mixes proteins and nucleic acids: {int(odd.sum())} of {int(long.sum())} sequences are of "
            "the other kind. Split the file, or name its letters in alphabet="
        )
    if share <= _SELDOM or (share < _MOSTLY and total < _FEW):
        return PROTEIN
    if share < _MOSTLY:
        raise InvalidInput(
            f"{found.path}: {share:.0%} of the letters are A, C, G, T, U or N, too many for a protein and too few for "
            f'DNA or RNA. Name its letters: alphabet="{PROTEIN}", "{DNA}" or "{RNA}"'
        )
    return RNA if counts[ord("U")] > counts[ord("T")] else DNA


def _say_unknown(
    found: _Sequences, letters: NDArray[np.uint8], alphabet: str, codes: NDArray[np.int8], refuse: bool
) -> None:
    """Letters that become gaps, and are none."""
    counts = np.bincount(letters, minlength=256)
    gap = alphabet.find(_GAP)
    lost = {
        chr(k): int(counts[k]) for k in np.flatnonzero(counts[1:]) + 1 if codes[k] == gap and chr(k) not in alphabet
    }
    share = sum(lost.values()) / max(int(counts[1:].sum()), 1)
    if gap < 0 or share <= _SAID:
        return
    most = ", ".join(sorted(lost, key=lambda c: -lost[c])[:6])
    what = f"{found.path}: {share:.1%} of the letters ({most}) are not of the alphabet {alphabet!r}"
    if refuse and share > _REFUSED:
        raise InvalidInput(f'{what}; give another by alphabet=, or unknown="gap" to have them read as gaps')
    warnings.warn(f"{what} and are read as gaps", UserWarning, stacklevel=3)


def _rows(found: _Sequences, codes: NDArray[np.int8]) -> NDArray[np.int8]:
    """(N, L) the codes of sequences, which must be of one length."""
    read = codes[np.frombuffer(found.text, dtype=np.uint8)]
    read[_in_names(found)] = _DROPPED
    if read.min() < _DROPPED:
        _refuse_letter(found, int(np.argmax(read < _DROPPED)))
    kept = read >= 0
    lengths = np.add.reduceat(kept, found.begins, dtype=np.int64)
    if (lengths != lengths[0]).any():
        k = int(np.argmax(lengths != lengths[0]))
        raise InvalidInput(
            f"{found.where(k)} has {lengths[k]} columns and the first one {lengths[0]}; align the sequences first, "
            "with insertions in lower case or with gaps for them"
        )
    if not lengths[0]:
        raise InvalidInput(_NONE.format(found.path))
    result: NDArray[np.int8] = read[kept].reshape(len(lengths), -1)
    return result


def _refuse_letter(found: _Sequences, place: int) -> NoReturn:
    k = int(np.searchsorted(found.begins, place)) - 1
    letter = chr(found.text[place])
    why = "is not of the alphabet" if letter.isascii() and letter.isalpha() else "is no letter"
    raise InvalidInput(f"{found.where(k)} holds {letter!r}, which {why}; name it in alphabet=")


def _codes(alphabet: str, keep: bool, gaps: bool, same: tuple[str, str] | None = None) -> NDArray[np.int8]:
    """(256,) what every byte is read as. same: a letter, and the letter of the alphabet that it stands for."""
    if not 2 <= len(alphabet) <= _MOST_LETTERS or len(set(alphabet)) != len(alphabet) or not alphabet.isascii():
        raise InvalidInput(f"an alphabet has 2 to {_MOST_LETTERS} different ASCII letters; got {alphabet[:40]!r}")
    if set(alphabet) & set(_BLANKS + ">"):
        raise InvalidInput(f"an alphabet has no blanks and no '>'; got {alphabet[:40]!r}")
    number = {letter: k for k, letter in enumerate(alphabet)}
    if same is not None:
        number[same[0]] = number[same[1]]
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
