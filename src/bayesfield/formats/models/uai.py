"""Files of the UAI inference competitions: models, evidence, and results (PR, MAR, MPE).

A model is a preamble (MARKOV or BAYES, the number of variables, their cardinalities, the number of functions, the scope
of each) and then each function's table, the last variable of the scope fastest. PR is log10 Z given the evidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesfield import memory
from bayesfield.files import read_text
from bayesfield.graph.potentials import potentials_of
from bayesfield.model.field import Factor, RandomField, Variable
from bayesfield.outputs import write_text
from bayesfield.types import Cost, FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.inference.queries import Beliefs

_SWOLLEN = 25  # bytes in memory for a character, at most
_DIGITS = 18  # of a whole number, at most
_SPARE = 1_000_000  # states of variables in no function, at most
_WIDEST = 60  # variables of a function, at most: NumPy's arrays have 64 axes


def read_model(path: str | Path) -> RandomField:
    """A field without parameters: every function a factor with a fixed table. Variables are x0, x1, …"""
    words = _Words(read_text(path), str(path))
    kind = words.text("the network's type")
    if kind.upper() not in ("MARKOV", "BAYES"):
        raise InvalidInput(f"{path} is no UAI model: it must begin with MARKOV or BAYES, and begins with {kind[:20]!r}")
    n = words.count("the number of variables")
    cardinality = [words.count(f"the cardinality of variable {i}", least=1) for i in range(words.room(n, "variables"))]
    if sum(cardinality) > words.size + _SPARE:
        raise InvalidInput(
            f"{path}: its variables have {sum(cardinality):,} states, and the file {words.size:,} words. All tables "
            "stand in the file in full, so that variables of functions have fewer states than it has words; look at "
            "its cardinalities"
        )
    m = words.count("the number of functions")
    scopes = [_scope(words, f, n) for f in range(words.room(m, "functions"))]
    names = [f"x{i}" for i in range(n)]
    factors = [_function(words, f, scope, cardinality, names) for f, scope in enumerate(scopes)]
    words.end()
    return RandomField([Variable(name, k) for name, k in zip(names, cardinality, strict=True)], factors)


def write_model(path: str | Path, field: RandomField, parameters: Any = ()) -> None:
    """The field at given parameters as a MARKOV network, with as many digits as it takes to read the same numbers."""
    tables = potentials_of(field, parameters)
    lines = ["MARKOV", str(field.n_variables), _row(field.cardinalities), str(len(tables))]
    lines += [_row([len(scope), *scope]) for scope, _ in tables]
    for _, table in tables:
        lines += ["", str(table.size), " " + " ".join(repr(float(v)) for v in table.ravel())]
    write_text(path, "\n".join(lines) + "\n")


def read_evidence(path: str | Path) -> dict[int, int]:
    """Observed variables and their states. Both forms in use: ``k i s i s …``, and the same after a line ``1``."""
    words = _Words(read_text(path), str(path))
    numbers = [words.count("an entry of the evidence") for _ in range(words.left)]
    if not numbers or numbers == [0]:
        return {}
    if len(numbers) != 1 + 2 * numbers[0] and numbers[0] == 1:
        numbers = numbers[1:]
    if not numbers or len(numbers) != 1 + 2 * numbers[0]:
        raise InvalidInput(f"{path} is no UAI evidence: it needs a count k and then k pairs of variable and state")
    evidence = dict(zip(numbers[1::2], numbers[2::2], strict=True))
    if len(evidence) != numbers[0]:
        raise InvalidInput(f"{path} observes a variable twice")
    return evidence


def write_evidence(path: str | Path, evidence: Mapping[int, int]) -> None:
    write_text(path, _row([len(evidence), *(number for pair in evidence.items() for number in pair)]) + "\n")


def pr_text(log_z: float) -> str:
    """Result of task PR: log10 Z."""
    return f"PR\n{log_z / math.log(10):.12g}\n"


def mar_text(beliefs: Beliefs) -> str:
    """Result of task MAR: the marginals of all variables."""
    parts = [f"{len(p)} " + " ".join(f"{v:.10g}" for v in p) for p in beliefs.variables]
    return f"MAR\n{len(parts)} {' '.join(parts)}\n"


def mpe_text(states: IntArray) -> str:
    """Result of task MPE: the most probable state of every variable."""
    return f"MPE\n{_row([len(states), *states])}\n"


def read_pr(path: str | Path) -> float:
    """log10 Z; −inf where the evidence is impossible."""
    words = _result(path, "PR")
    if words.left > 1:
        _samples(words)
    value = words.number("log10 Z")
    words.end("last number")
    if not value < math.inf:
        raise InvalidInput(f"{path}: log10 Z must be a finite number or -inf; found {value}")
    return value


def read_mar(path: str | Path) -> list[FloatArray]:
    """Marginals of all variables."""
    words = _result(path, "MAR")
    if words.left and not _one_marginal(words):
        _samples(words)
    n = words.count("the number of variables")
    found = [
        words.numbers(words.count("a number of states", least=1), f"the marginal of variable {i}")
        for i in range(words.room(n, "variables"))
    ]
    words.end("last number")
    for i, p in enumerate(found):
        if not np.isfinite(p).all() or (p < 0).any():
            raise InvalidInput(f"{path}: the marginal of variable {i} must hold finite numbers not below zero")
    return found


def read_mpe(path: str | Path) -> IntArray:
    """States of all variables."""
    words = _result(path, "MPE")
    if words.left != 2:  # "1 s" is one variable in state s
        _samples(words)
    n = words.count("the number of variables")
    found = np.array([words.count("a state") for _ in range(words.room(n, "variables"))], dtype=np.int64)
    words.end("last number")
    return found


def _samples(words: _Words) -> None:
    """Passes over the 1, a number of evidence samples, that older results have after the task."""
    if words.peek() == "1":
        words.text("the number of samples")


def _one_marginal(words: _Words) -> bool:
    """Whether a 1 that follows is a number of variables: after it come a number of states, so many words, the end."""
    return words.peek(1) == str(words.left - 2)


def _scope(words: _Words, f: int, n: int) -> list[int]:
    size = words.room(words.count(f"the size of the scope of function {f}"), "variables of a scope")
    scope = [words.count(f"a variable of function {f}") for _ in range(size)]
    if any(v >= n for v in scope):
        raise InvalidInput(f"{words.where}: function {f} names variable {max(scope)}; there are {n}, numbered from 0")
    if len(scope) > _WIDEST:
        raise InvalidInput(f"{words.where}: function {f} has {len(scope)} variables; up to {_WIDEST} are read")
    if len(set(scope)) != len(scope):
        raise InvalidInput(f"{words.where}: function {f} names a variable twice: {scope}")
    return scope


def _function(words: _Words, f: int, scope: list[int], cardinality: list[int], names: list[str]) -> Factor:
    shape = tuple(cardinality[v] for v in scope)
    size = words.count(f"the number of entries of function {f}")
    if size != math.prod(shape):
        raise InvalidInput(
            f"{words.where}: the table of function {f} needs {math.prod(shape)} entries; it states {size}"
        )
    table = words.numbers(size, f"the table of function {f}")
    if not np.isfinite(table).all() or (table < 0).any():
        raise InvalidInput(f"{words.where}: the table of function {f} must hold finite numbers not below zero")
    return Factor.from_potential([names[v] for v in scope], table.reshape(shape))


def _result(path: str | Path, task: str) -> _Words:
    words = _Words(read_text(path), str(path))
    found = words.text("the task")
    if found.upper() != task:
        raise InvalidInput(f"{path} must begin with {task}; it begins with {found[:20]!r}")
    return words


def _row(numbers: Sequence[int] | IntArray) -> str:
    return " ".join(str(int(k)) for k in numbers)


class _Words:
    """The words of a file, read one after another, with errors that say what was wanted where."""

    def __init__(self, text: str, where: str) -> None:
        needed = Cost(len(text), float(_SWOLLEN * len(text)), f"{len(text):,} characters as words")
        memory.require(needed, f"reading {where}", "Split the model.")
        self.where = where
        self._words = text.split()
        self._next = 0

    @property
    def size(self) -> int:
        return len(self._words)

    @property
    def left(self) -> int:
        return len(self._words) - self._next

    def text(self, what: str) -> str:
        if not self.left:
            raise InvalidInput(f"{self.where} ends where {what} should stand; the file may be cut off")
        self._next += 1
        return self._words[self._next - 1]

    def peek(self, further: int = 0) -> str | None:
        """A word that comes, if there is one, without passing over it."""
        return self._words[self._next + further] if self.left > further else None

    def count(self, what: str, least: int = 0) -> int:
        word = self.text(what)
        if not (word.isascii() and word.isdecimal()) or len(word) > _DIGITS or int(word) < least:
            raise InvalidInput(f"{self.where}: {what} must be a whole number ≥ {least}; found {word[:20]!r}")
        return int(word)

    def number(self, what: str) -> float:
        return float(self.numbers(1, what)[0])

    def numbers(self, size: int, what: str) -> FloatArray:
        if self.left < size:
            raise InvalidInput(f"{self.where} ends inside {what}: {size} numbers are needed and {self.left} are left")
        words = self._words[self._next : self._next + size]
        self._next += size
        try:
            if any("_" in word or not word.isascii() for word in words):  # 1_0 is a number of Python's
                raise ValueError
            return np.array(words, dtype=np.float64)
        except ValueError:
            raise InvalidInput(f"{self.where}: {what} must hold numbers only; found {' '.join(words)[:40]!r}") from None

    def room(self, size: int, what: str) -> int:
        """A count that is believed only if the file has as many words left."""
        if size > self.left:
            raise InvalidInput(f"{self.where} announces {size} {what} and has only {self.left} words left")
        return size

    def end(self, last: str = "last table") -> None:
        if self.left:
            raise InvalidInput(f"{self.where} goes on after its {last}: {self.left} words too many")
