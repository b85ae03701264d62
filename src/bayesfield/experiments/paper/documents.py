"""Files whose lines are labelled, with 24 features a line: FAQ data where they are, else the standard library.

The model is the paper's: labels −1 and 1, 24 state features x_t y_t and 24 transition features x_t y_t y_{t+1}, 48
parameters. Three corpora can stand behind it. The paper's own (``faq/original``, as McCallum gave it out: see
``faq``), which is not to be had from here; a stand-in that was made anew from public FAQ texts of the same kind
(``faq/faq_features.npz``); and lines of Python's standard library (``lines``), which every machine has. The first that
there is of these is taken: the folder is the one that is given, BAYESFIELD_DATA, or ../shared/data; the folder
"standard-library" asks for the last.
"""

import itertools
import os
import sys
from pathlib import Path

import numpy as np

from bayesfield.experiments.paper.faq import read_original
from bayesfield.experiments.paper.lines import LabelledFile, standard_library
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.types import InvalidInput

KEPT = ("question", "answer")  # heads and tails of files are dropped
FILES = 50  # of the stand-in, and of the standard library
PRIOR_VARIANCE = 1.0
STANDARD_LIBRARY = Path("standard-library")


def data_folder(given: Path | None) -> Path | None:
    """Where data sets are, if anywhere."""
    if given == STANDARD_LIBRARY:
        return None
    if given is not None:
        if not given.is_dir():
            raise InvalidInput(f"there is no folder {given}")
        return given
    named = os.environ.get("BAYESFIELD_DATA")
    beside = Path("..") / "shared" / "data"
    return Path(named) if named else beside if beside.is_dir() else None


def source_of(folder: Path | None) -> str:
    """What ``labelled_files`` reads."""
    if folder is None or not (_original(folder).is_dir() or _stand_in(folder).exists()):
        return f"standard library of Python {sys.version_info.major}.{sys.version_info.minor}"
    return "FAQ, the original" if _original(folder).is_dir() else "FAQ stand-in"


def labelled_files(folder: Path | None, lines: int) -> list[LabelledFile]:
    """All files of the corpus, questions and answers alone where it is of FAQs, each cut at so many lines."""
    if folder is not None and _original(folder).is_dir():
        return _questions_and_answers(read_original(_original(folder)), lines)
    if folder is None or not _stand_in(folder).exists():
        return standard_library(FILES, lines)
    with np.load(_stand_in(folder), allow_pickle=False) as file:
        X, y, ptr = file["X"].astype(np.float64), file["y"], file["ptr"]
    names = ("head", "question", "answer", "tail")
    spans = [slice(a, b) for a, b in itertools.pairwise(ptr)]
    files = [LabelledFile(f"faq{k}", X[own], [names[v] for v in y[own]]) for k, own in enumerate(spans)]
    return _questions_and_answers(files, lines)


def _questions_and_answers(files: list[LabelledFile], lines: int) -> list[LabelledFile]:
    """Without heads and tails."""
    result = []
    for file in files:
        kept = [t for t, label in enumerate(file.labels) if label in KEPT][:lines]
        result.append(LabelledFile(file.name, file.features[kept], [file.labels[t] for t in kept]))
    return result


def line_crf(files: list[LabelledFile]) -> CRF:
    """Labels as −1 and 1, features at lines and at pairs of neighbours."""
    labels = sorted({label for file in files for label in file.labels})
    names = [f"x{k}" for k in range(files[0].features.shape[1])]
    return CRF(labels, names, names, node_tables=[[-1, 1]], edge_tables=[[[1, -1], [-1, 1]]])


def line_sequences(crf: CRF, files: list[LabelledFile], of_pair: str = "second") -> Sequences:
    """of_pair: whose features a pair has, those of its "first" line, as in the paper's figures, or of its "second"."""
    X = [file.features for file in files]
    return as_sequences(crf, X, [file.labels for file in files], [x[1:] if of_pair == "second" else x[:-1] for x in X])


def _stand_in(folder: Path) -> Path:
    return folder / "faq" / "faq_features.npz"


def _original(folder: Path) -> Path:
    return folder / "faq" / "original"
