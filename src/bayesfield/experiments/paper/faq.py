"""McCallum's FAQ files in their own format: every line begins with its label in angle brackets.

    <head>Archive-name: acorn/faq/part2
    <question>2.6) What configuration of serial cable should I use?
    <answer>
    <answer>   Here follows a diagram of the necessary connections

The 24 features of a line are those of McCallum, Freitag & Pereira (2000), of which only the names were published: what
a name means is our reading, the same as for the stand-in.
"""

import re
from pathlib import Path

import numpy as np

from bayesfield.experiments.paper.lines import LabelledFile
from bayesfield.types import FloatArray, InvalidInput

LABELS = ("head", "question", "answer", "tail")
_LINE = re.compile(rf"<({'|'.join(LABELS)})>[\t]?(.*)")
_PUNCTUATION = r"!-/:-@\[-`{-~"
_BEGINNING = (
    "who whom whose what which when where why how is are was were do does did can could will would should may might "
    "has have"
)
_WITHIN = "who whom whose what which when where why how"
_ENUMERATOR = r"(\d{1,3}([.-]\d{1,3})*[a-z]?|[a-z]|[ivxlc]+)"
_ORDINAL = (
    rf"(?i)^\s*[\[(<]?{_ENUMERATOR}[.):\]>](\s|$)|^\s*\d+(\.\d+)+\s"
    r"|^\s*(first|second|third|fourth|fifth|1st|2nd|3rd|[4-9]th)\b"
)
_RULES = {  # name: pattern that the line, tabs expanded and trailing blanks removed, must hold
    "begins-with-number": r"^\s*\d",
    "begins-with-ordinal": _ORDINAL,
    "begins-with-punctuation": rf"^\s*[{_PUNCTUATION}]",
    "begins-with-question-word": rf"(?i)^[^a-z]*({'|'.join(_BEGINNING.split())})\b",
    "begins-with-subject": r"(?i)^\s*subject:",
    "blank": r"^$",
    "contains-alphanum": r"[A-Za-z0-9]",
    "contains-bracketed-number": r"\[\d[\d.]*\]|\(\d[\d.]*\)|<\d[\d.]*>|\{\d[\d.]*\}",
    "contains-http": r"http",
    "contains-non-space": r"\S",
    "contains-number": r"\d",
    "contains-pipe": r"\|",
    "contains-question-mark": r"\?",
    "contains-question-word": rf"(?i)\b({'|'.join(_WITHIN.split())})\b",
    "ends-with-question-mark": r"\?$",
    "first-alpha-is-capitalized": r"^[^A-Za-z]*[A-Z]",
    "indented": r"^ +\S",
    "indented-1-to-4": r"^ {1,4}\S",
    "indented-5-to-10": r"^ {5,10}\S",
}
FEATURES = (
    *_RULES, "more-than-one-third-space", "only-punctuation", "prev-is-blank", "prev-begins-with-ordinal",
    "shorter-than-30",
)  # fmt: skip


def read_original(folder: Path) -> list[LabelledFile]:
    """All files of a folder, by name, folders within it too."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if not paths:
        raise InvalidInput(f"{folder} is empty: put McCallum's FAQ files there, lines such as <question>1) Why …")
    return [read_file(path) for path in paths]


def read_file(path: Path) -> LabelledFile:
    """One file; lines end as they may."""
    labels, texts = [], []
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            wanted = ", ".join(f"<{label}>" for label in LABELS)
            raise InvalidInput(f"{path}, line {number}: a line begins with one of {wanted}; got {line[:40]!r}")
        labels.append(match[1])
        texts.append(match[2])
    return LabelledFile(path.name, line_features(texts), labels)


def line_features(lines: list[str]) -> FloatArray:
    """(lines, 24) of 0 and 1, in the order of FEATURES."""
    clean = [line.expandtabs(8).rstrip() for line in lines]
    by_rule = np.array([[re.search(rule, line) is not None for rule in _RULES.values()] for line in clean], dtype=float)
    by_rule = by_rule.reshape(len(clean), len(_RULES))
    spaces = np.array([line.count(" ") > len(line) / 3 for line in clean], dtype=float)
    marks = np.array([re.fullmatch(rf"[\s{_PUNCTUATION}]+", line) is not None for line in clean], dtype=float)
    names = list(_RULES)
    before = [_after(by_rule[:, names.index(name)]) for name in ("blank", "begins-with-ordinal")]
    short = np.array([len(line) < 30 for line in clean], dtype=float)
    return np.column_stack([by_rule, spaces, marks, *before, short])


def _after(column: FloatArray) -> FloatArray:
    """Of the line before; the first line has none."""
    return np.concatenate([[0.0], column])[: len(column)]
