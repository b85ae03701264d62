"""Lines of Python's own standard library, labelled docstring or code: labelled sequences that every machine has.

A stand-in for files of questions and answers (figures 6 to 8): a file is a sequence of lines, a line has 24 binary
features in the manner of McCallum, Freitag & Pereira (2000), and labels come in runs.
"""

import io
import itertools
import re
import sysconfig
import tokenize
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bayesfield.types import FloatArray, InvalidInput

LABELS = ("code", "docstring")
_WORDS = r"(what|which|when|where|why|how|who|is|are|do|does|can|should|will|has|have|the|a|an|if|return|returns)"
_RULES = {  # name: pattern that the line, tabs expanded and trailing blanks removed, must hold
    "begins-with-number": r"^\s*\d",
    "begins-with-ordinal": r"^\s*[\[(<]?(\d{1,3}([.-]\d{1,3})*[a-z]?|[a-z])[.):\]>](\s|$)",
    "begins-with-punctuation": r"^\s*[!-/:-@\[-`{-~]",
    "begins-with-common-word": rf"(?i)^\W*{_WORDS}\b",
    "begins-with-capital": r"^\s*[A-Z]",
    "blank": r"^$",
    "contains-alphanumeric": r"[A-Za-z0-9]",
    "contains-bracketed-number": r"[\[(<{]\d[\d.]*[\])>}]",
    "contains-assignment": r"(?<![=<>!])=(?!=)",
    "contains-call": r"[A-Za-z_]\w*\(",
    "contains-number": r"\d",
    "contains-quote": r"['\"]",
    "contains-question-mark": r"\?",
    "contains-two-words": r"[a-z]{2,} [a-z]{2,}",
    "ends-with-period": r"\.$",
    "ends-with-colon": r":$",
    "indented": r"^ +\S",
    "indented-1-to-4": r"^ {1,4}\S",
    "indented-5-to-10": r"^ {5,10}\S",
    "contains-underscore": r"_",
    "only-punctuation": r"^\s*[!-/:-@\[-`{-~\s]+$",
    "contains-comma": r",",
    "contains-dotted-name": r"[A-Za-z_]\w*\.[A-Za-z_]",
}
FEATURES = (*_RULES, "previous-is-blank")


class LabelledFile(NamedTuple):
    """features: (lines, 24) of 0 and 1. labels: one of LABELS for each line."""

    name: str
    features: FloatArray
    labels: list[str]


def line_features(lines: list[str]) -> FloatArray:
    """The features of every line, (lines, 24)."""
    clean = [line.expandtabs(8).rstrip() for line in lines]
    patterns = [re.compile(rule) for rule in _RULES.values()]
    found = np.array([[bool(p.search(line)) for p in patterns] for line in clean], dtype=np.float64)
    found = found.reshape(len(clean), len(patterns))
    blank = np.array([not line for line in clean], dtype=np.float64)
    previous = np.concatenate([[0.0], blank])[: len(clean)]
    return np.concatenate([found, previous[:, None]], axis=1)


def line_labels(source: str) -> list[str]:
    """docstring for the lines of strings that stand alone as statements, code for all others."""
    count = len(source.splitlines())
    labels = [LABELS[0]] * count
    begins = True
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for token, after in itertools.pairwise(tokens):
        if token.type in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            continue
        if begins and token.type == tokenize.STRING and after.type in (tokenize.NEWLINE, tokenize.ENDMARKER):
            for line in range(token.start[0] - 1, token.end[0]):
                labels[line] = LABELS[1]
        begins = token.type == tokenize.NEWLINE
    return labels


def standard_library(count: int = 50, lines: int = 500, seed: int = 0) -> list[LabelledFile]:
    """Files of the standard library, each cut at so many lines, with at least a tenth of both labels."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    paths = sorted(folder.glob("*.py"))
    found = []
    for k in np.random.default_rng(seed).permutation(len(paths)):
        one = _labelled(paths[k], lines)
        if one is not None:
            found.append(one)
        if len(found) == count:
            return found
    raise InvalidInput(f"the standard library here has only {len(found)} files of this kind; asked for {count}")


def _labelled(path: Path, lines: int) -> LabelledFile | None:
    try:
        source = path.read_text(encoding="utf-8")
        labels = line_labels(source)[:lines]
    except (OSError, UnicodeDecodeError, tokenize.TokenError, SyntaxError):
        return None
    share = np.mean([label == LABELS[1] for label in labels]) if labels else 0.0
    if len(labels) < min(lines, 100) or not 0.1 <= share <= 0.9:
        return None
    return LabelledFile(path.stem, line_features(source.splitlines()[:lines]), labels)
