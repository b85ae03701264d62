"""Files whose lines are labelled, with 24 features a line: the FAQ data where they are, else the standard library.

The model is the paper's: labels −1 and 1, 24 state features x_t y_t and 24 transition features x_{t+1} y_t y_{t+1}, 48
parameters. The data are looked for in the folder that is given, in BAYESFIELD_DATA, and in ../shared/data.
"""

import os
from pathlib import Path

import numpy as np

from bayesfield.experiments.paper.lines import LabelledFile, standard_library
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.types import InvalidInput

QUESTION, ANSWER = 1, 2  # labels that are kept; heads and tails of files are dropped
FILES = 50
PRIOR_VARIANCE = 1.0


def data_folder(given: Path | None) -> Path | None:
    """Where data sets are, if anywhere."""
    if given is not None:
        if not given.is_dir():
            raise InvalidInput(f"there is no folder {given}")
        return given
    named = os.environ.get("BAYESFIELD_DATA")
    beside = Path("..") / "shared" / "data"
    return Path(named) if named else beside if beside.is_dir() else None


def source_of(folder: Path | None) -> str:
    """What ``labelled_files`` reads."""
    return "FAQ" if folder is not None and _faq(folder).exists() else "standard library"


def labelled_files(folder: Path | None, lines: int) -> list[LabelledFile]:
    """50 files, each cut at so many lines."""
    if folder is None or not _faq(folder).exists():
        return standard_library(FILES, lines)
    with np.load(_faq(folder), allow_pickle=False) as file:
        X, y, ptr = file["X"].astype(np.float64), file["y"], file["ptr"]
    found = []
    for k in range(len(ptr) - 1):
        kept = np.arange(ptr[k], ptr[k + 1])
        kept = kept[(y[kept] == QUESTION) | (y[kept] == ANSWER)][:lines]
        labels = ["question" if v == QUESTION else "answer" for v in y[kept]]
        found.append(LabelledFile(f"faq{k}", X[kept], labels))
    return found


def line_crf(files: list[LabelledFile]) -> CRF:
    """Labels as −1 and 1, features at lines and at pairs of neighbours."""
    labels = sorted({label for file in files for label in file.labels})
    names = [f"x{k}" for k in range(files[0].features.shape[1])]
    return CRF(labels, names, names, node_tables=[[-1, 1]], edge_tables=[[[1, -1], [-1, 1]]])


def line_sequences(crf: CRF, files: list[LabelledFile]) -> Sequences:
    """The features of a pair are those of its second line."""
    X = [file.features for file in files]
    return as_sequences(crf, X, [file.labels for file in files], [x[1:] for x in X])


def _faq(folder: Path) -> Path:
    return folder / "faq" / "faq_features.npz"
