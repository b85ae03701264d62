"""Fields that break careless code. Each: a builder of (field, parameters), and whether its factor graph is a forest."""

from typing import NamedTuple

import numpy as np

import bayesfield as bf
from bayesfield import Factor, RandomField


class Case(NamedTuple):
    name: str
    field: RandomField
    parameters: np.ndarray
    forest: bool


def random_field(rng, cardinalities, scopes, features=1, scale=1.0):
    """One random feature table for each parameter; ``features`` parameters a factor, plus a fixed table."""
    names = [f"v{i}" for i in range(len(cardinalities))]
    factors = []
    for k, scope in enumerate(scopes):
        shape = tuple(cardinalities[i] for i in scope)
        tables = {f"p{k}.{j}": rng.normal(size=shape) for j in range(features)}
        factors.append(Factor([names[i] for i in scope], tables, scale * 0.3 * rng.normal(size=shape)))
    return RandomField(dict(zip(names, cardinalities, strict=True)), factors)


def _with(name, field, forest, rng, scale=0.7):
    return Case(name, field, scale * rng.normal(size=field.n_parameters), forest)


def cases():
    rng = np.random.default_rng(20)
    zero = -np.inf
    parity = np.zeros((2, 2, 2))
    parity[np.indices((2, 2, 2)).sum(0) % 2 == 1] = zero
    equal = np.where(np.eye(3) > 0, 0.0, zero)
    barred = rng.normal(size=(3, 4))
    barred[1, :] = zero
    barred[0, 2] = zero
    rf = random_field
    result = [
        _with("chain", bf.chain(6), True, rng),
        _with("chain of one", bf.chain(1), True, rng),
        _with("tied chain", bf.chain(6, tied=True), True, rng),
        _with("star", rf(rng, [3, 2, 2, 4], [(0, 1), (0, 2), (0, 3), (0,)]), True, rng),
        _with("tree of large factors", rf(rng, [2, 3, 2, 4, 3], [(0, 1, 2), (2, 3), (3, 4), (1,)]), True, rng),
        _with("scopes not sorted", rf(rng, [2, 3, 4], [(2, 0), (1, 2), (2, 0)]), True, rng),
        _with("loop", rf(rng, [2, 3, 4], [(0, 1), (1, 2), (2, 0)]), False, rng),
        _with("grid", bf.grid(3, 3), False, rng),
        _with("grid 0/1", bf.grid(2, 4, states=(0, 1)), False, rng),
        _with("potts", bf.potts(5, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)], 3), False, rng),
        _with("potts tables", bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3, interaction="table"), True, rng),
        _with("complete", bf.pairwise(6, [(i, j) for i in range(6) for j in range(i)], states=(-1, 1)), False, rng),
        _with("four-variable factor in loops", rf(rng, [2, 3, 2, 2, 3], [(0, 1, 2, 3), (3, 4), (4, 0)]), False, rng),
        _with("duplicate factors", rf(rng, [2, 3], [(0, 1), (1, 0), (0, 1), (0,), (0,)]), True, rng),
        _with("factor inside factor", rf(rng, [2, 3, 2], [(0, 1, 2), (0, 1)]), False, rng),
        _with("disconnected", rf(rng, [2, 3, 2, 2, 3], [(0, 1), (2, 3)]), True, rng),
        _with("isolated variables", rf(rng, [2, 3, 5], [(0,)]), True, rng),
        _with("no factors", RandomField({"a": 2, "b": 3}), True, rng),
        _with("no variables", RandomField({}), True, rng),
        _with("constant", RandomField({"a": 2}, [Factor((), log_table=1.5), Factor("a", {"h": [0, 1]})]), True, rng),
        _with("one state", rf(rng, [1, 3, 1, 2], [(0, 1), (1, 2, 3), (0, 2), (0,)]), True, rng),
        _with("only one state", rf(rng, [1, 1], [(0, 1)]), True, rng),
        _with("many states", rf(rng, [700, 2], [(0, 1), (0,)]), True, rng, 0.3),
        _with(
            "zeros",
            RandomField(
                {"a": 3, "b": 4, "c": 2},
                [
                    Factor(("a", "b"), {"w": rng.normal(size=(3, 4))}, barred),
                    Factor(("b", "c"), {"u": rng.normal(size=(4, 2))}),
                ],
            ),
            True,
            rng,
        ),
        _with(
            "parity",
            RandomField(
                {"a": 2, "b": 2, "c": 2, "d": 2},
                [Factor(("a", "b", "c"), log_table=parity)] + [Factor(v, {v: [0.0, 1.0]}) for v in "abc"]
                + [Factor(("c", "d"), {"w": [[1.0, 0.0], [0.0, 1.0]]})],
            ),
            True,
            rng,
        ),
        _with(
            "equality",
            RandomField(
                {"a": 3, "b": 3, "c": 2},
                [
                    Factor(("a", "b"), log_table=equal),
                    Factor(("b", "c"), {"w": rng.normal(size=(3, 2))}),
                    Factor("a", {"h": [0, 1, 2]}),
                ],
            ),
            True,
            rng,
        ),
        Case("far too strong", *_strong(), True),
        Case("strong loop", *_strong_loop(), False),
    ]  # fmt: skip
    return result


def _strong():
    """Log-potentials of ±900: plain numbers underflow, and messages contradict one another."""
    field = bf.chain(5)
    return field, np.array([900.0, -900.0, 450.0, 0.0, 3.0, 800.0, -700.0, 600.0, 2.0])


def _strong_loop():
    """Potentials whose products leave the range of plain numbers on a loop."""
    field = bf.pairwise(3, [(0, 1), (1, 2), (0, 2)], states=(-1, 1))
    return field, np.array([400.0, -380.0, 0.3, 390.0, -0.4, 0.2])


CASES = cases()
IDS = [case.name for case in CASES]
FORESTS = [case for case in CASES if case.forest]
FOREST_IDS = [case.name for case in FORESTS]
