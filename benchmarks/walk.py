"""The way of a fit through the code: ``python -m benchmarks.walk`` prints what a newcomer would step through.

Counted by ``sys.setprofile`` in a second, warm call: *functions* and *modules* of bayesfield that are visited, *package
switches* between one first visit and the next, the deepest *stack* of bayesfield's own frames, and all *Python calls*,
those of other packages too. ``--tree`` prints the functions in the order of their first visits.
"""

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import bayesfield as bf

LIMITS = {"modules": 28, "switches": 45, "stack": 13, "calls": 12_000}


class Walk(NamedTuple):
    """visits: (depth, module, function), each function once, in the order of first visits."""

    visits: list[tuple[int, str, str]]
    stack: int
    calls: int

    @property
    def modules(self) -> int:
        return len({module for _, module, _ in self.visits})

    @property
    def switches(self) -> int:
        rooms = [module.split("/")[0] for _, module, _ in self.visits]
        return sum(a != b for a, b in itertools.pairwise(rooms))


def walk(call: Callable[[], Any]) -> Walk:
    """What one call visits."""
    root = os.path.dirname(bf.__file__) + os.sep
    door = root + "doors.py"  # the wrapper around every public function: errors pass through it, readers need not
    seen: dict[tuple[str, str], int] = {}
    stack = calls = 0

    def ours(frame: Any) -> bool:
        name: str = frame.f_code.co_filename
        return name.startswith(root) and name != door

    def profile(frame: Any, event: str, _: Any) -> None:
        nonlocal stack, calls
        if event != "call":
            return
        calls += 1
        if not ours(frame):
            return
        depth, above = 0, frame
        while above is not None:
            depth += ours(above)
            above = above.f_back
        stack = max(stack, depth)
        seen.setdefault((frame.f_code.co_filename[len(root) :], frame.f_code.co_qualname), depth)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return Walk([(depth, module, name) for (module, name), depth in seen.items()], stack, calls)


def field_fit() -> Callable[[], Any]:
    """``bf.fit`` of a 3×3 grid to 100 cases."""
    X = np.where(np.random.default_rng(0).integers(0, 2, size=(100, 9)) > 0, 1, -1)

    def call() -> None:
        bf.fit(bf.grid(3, 3, states=(-1, 1)), X)

    return call


def sequence_fit() -> Callable[[], Any]:
    """``BayesianCRF.fit`` and ``predict_marginals`` on twelve short sequences of two labels."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(int(rng.integers(3, 7)), 3)) for _ in range(12)]
    y = [["a" if v > 0 else "b" for v in x[:, 0] + 0.5 * rng.normal(size=len(x))] for x in X]

    def call() -> None:
        bf.BayesianCRF().fit(X, y).predict_marginals(X[:4])

    return call


WALKS = {"fit(grid(3, 3), X)": field_fit, "BayesianCRF.fit, predict_marginals": sequence_fit}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.walk", description=__doc__)
    parser.add_argument("--tree", action="store_true", help="print the functions, too")
    options = parser.parse_args()
    print(f"{'walk':36}{'functions':>10}{'modules':>9}{'switches':>10}{'stack':>7}{'calls':>8}")
    for name, make in WALKS.items():
        call = make()
        call()  # compiles and imports
        found = walk(call)
        print(f"{name:36}{len(found.visits):10}{found.modules:9}{found.switches:10}{found.stack:7}{found.calls:8,}")
        if options.tree:
            for depth, module, function in found.visits:
                print(f"{'  ' * depth}{module}: {function}")
    limits = "".join(f"{LIMITS[key]:{width},}" for key, width in zip(LIMITS, (9, 10, 7, 8), strict=True))
    print(f"{'to reach, at most':46}{limits}")


if __name__ == "__main__":
    main()
