"""Sentences for CRFs: read, and looked at, before anything is learnt or labelled."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayesfield.cli.app import note
from bayesfield.formats.conll import read_conll
from bayesfield.formats.frames import is_table
from bayesfield.types import InvalidInput

_AWAY = re.compile(r"[+-]([0-9]+):")  # of a word on either side: "-1:word:the"


def labelled_sentences(path: Path, window: int, labelled: bool = True) -> tuple[list[list[Any]], list[list[str]]]:
    """Words with their columns and those of so many words on either side, and labels: the last column, if any."""
    if is_table(path):
        raise InvalidInput(
            f"a CRF takes CoNLL columns (word … label, a word a line, a blank line between sentences), and {path} ends "
            "like a table; rename it to .conll if it is in such columns"
        )
    X, y = read_conll(path, label=-1 if labelled else None, features=window or None)
    if not X:
        raise InvalidInput(f"{path} holds no words; CoNLL columns have a word a line")
    return X, y


def window_of(inputs: Sequence[str], given: int | None) -> int:
    """How many words on either side counted in the fit, by the names of its inputs; given: what is taken instead."""
    away = [int(found[1]) for found in map(_AWAY.match, inputs) if found]
    fitted = max(away, default=int("BOS" in inputs))
    if given is not None and given != fitted:
        note(f"the posterior was fitted with --window {fitted}, and {given} is taken: leave it out for better labels")
    return fitted if given is None else given
