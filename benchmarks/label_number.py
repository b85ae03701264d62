"""How many labels an image has: 20 images of 16 × 16, by the evidence of each number and by chains that jump.

Free Potts fields of 2, 3 and 4 labels, grey levels 2.5 apart, noise of sd 1; up to six labels, all equally likely.
"""

from __future__ import annotations

import time

import numpy as np

import bayesfield as bf
from bayesfield.inference.sampling.labels import LabelChain, neighbours
from benchmarks.timing import Report, Watch

SIDE, MOST, APART = 16, 6, 2.5
COUPLING = {2: 0.7, 3: 0.8, 4: 0.95}
IMAGES = {2: 7, 3: 7, 4: 6}
WANTED = 0.1


def run(watch: Watch) -> list[Report]:
    rounds, jumps, free = (800, 3000, 1000) if watch.quick else (2500, 20_000, 6000)
    rows: list[tuple] = []
    gaps, right = [], [0, 0]
    for labels, images in IMAGES.items():
        for number in range(1 if watch.quick else images):
            watch.tell(f"{labels} labels, image {number}")
            y, begun = _image(labels, number), time.process_time()
            evidence = bf.label_evidence(y, MOST, rounds=rounds, free_updates=free, rng=number)
            middle = time.process_time()
            moved = bf.label_jumps(y, MOST, rounds=jumps, free_updates=free, rng=100 + number)
            ended = time.process_time()
            apart = np.abs(evidence.probabilities - moved.probabilities)
            gaps.append(apart.mean())
            right[0] += evidence.likeliest == labels
            right[1] += moved.likeliest == labels
            rows.append(
                (
                    labels, number, _told(evidence.probabilities), _told(moved.probabilities), float(apart.mean()),
                    float(apart.max()), moved.r_hat, moved.jumps, middle - begun, ended - middle,
                )
            )  # fmt: skip
    mean = float(np.mean(gaps))
    rows.append(("mean", len(gaps), f"likeliest right: {right[0]}", f"{right[1]}", mean, mean <= WANTED, *[None] * 4))
    columns = (
        "labels", "image", "P(K), K = 1 … 6, by evidence", "by jumps", "difference, mean", "largest",
        "R-hat of K", "jumps accepted", "evidence, s", "jumps, s",
    )  # fmt: skip
    notes = (
        f"{rounds:,} rounds of replicas for each number, {jumps:,} of each of 4 jumping chains, 2 from one label and 2 "
        f"from six; log Z of free fields, which both share, by {free:,} updates at each of 30 couplings (in the first "
        "image's seconds)",
    )
    return [Report(f"Number of labels, {SIDE} × {SIDE}", columns, rows, notes)]


def _image(labels: int, number: int) -> np.ndarray:
    rng, edges = np.random.default_rng([number, labels]), bf.grid_edges(SIDE, SIDE)
    field = LabelChain(neighbours(SIDE * SIDE, edges), labels, rng.integers(0, labels, SIDE * SIDE), number)
    field.free(COUPLING[labels], 500)
    grey: np.ndarray = APART * field.z + rng.normal(size=SIDE * SIDE)
    return grey.reshape(SIDE, SIDE)


def _told(probabilities: np.ndarray) -> str:
    return " ".join(f"{p:.2f}" for p in probabilities)
