"""What a fit is said to take before it runs. Times are held against fits in benchmarks/preview.py."""

import contextlib

import numba
import numpy as np
import pytest

import bayesfield as bf
from bayesfield import memory
from bayesfield.fitting import plan as affordable
from bayesfield.kernels.jit import compiling

GRID = bf.grid(3, 3)
X = bf.sample(GRID, np.random.default_rng(1).normal(0.0, 0.4, GRID.n_parameters), 200, 1)
CASES = {
    "exact": {"engine": bf.Exact()},
    "exact, mean": {"engine": bf.Exact(), "correction": "mean"},
    "bethe": {"engine": bf.Bethe()},
    "sparse": {"engine": bf.Bethe(), "form": "sparse", "correction": "mean"},
    "matrix-free": {"engine": bf.Exact(), "form": "matrix-free", "correction": "none"},
    "kikuchi": {"engine": bf.Kikuchi(), "correction": "mean"},
    "response": {"engine": bf.Exact(), "response": bf.Bethe()},
    "chosen": {},
    "approximate": {"engine": bf.Auto(max_entries=1)},
    "lbfgs": {"engine": bf.Exact(), "method": "lbfgs"},
    "sampled": {"engine": bf.Sampled(chains=64, sweeps=20, burn_in=20), "correction": "mean"},
}


@pytest.mark.parametrize("name", CASES)
def test_it_speaks_of_the_fit_that_follows(name):
    prior = bf.Normal(variance=0.25)
    cost, record = bf.preview(GRID, X, prior, **CASES[name]), bf.fit(GRID, X, prior, **CASES[name]).record
    how = f"{record.form} precision, {record.method}, correction {record.correction.kind}:"
    assert cost.detail.startswith(f"{GRID.n_parameters} parameters, {how}")
    assert ("check" in cost.detail) == (record.check is not None)
    assert 0.0 < cost.seconds < np.inf
    assert cost.bytes > 8 * GRID.n_parameters


def test_holes_and_hidden_variables():
    holed = X.astype(float)
    holed[::3, 0] = np.nan
    assert bf.preview(GRID, holed, engine=bf.Exact()).seconds > 0.0
    machine = bf.restricted_boltzmann(4, 2)
    seen = np.random.default_rng(0).choice(2, size=(60, 4))
    several = bf.preview(machine, seen, correction="none")
    assert "the search" in several.detail


def test_conditional_fields():
    rng = np.random.default_rng(0)
    crf = bf.CRF(3, ["a", "b"])
    inputs = [rng.normal(size=(8, 2)) for _ in range(20)]
    labels = [rng.integers(3, size=8) for _ in range(20)]
    record = bf.fit_sequences(crf, inputs, labels).record
    cost = bf.preview(crf, inputs, y=labels)
    assert f"{record.form} precision, {record.method}, correction {record.correction.kind}" in cost.detail
    assert cost.seconds > 0.0
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    graphs = bf.as_graphs(crf, [(rng.normal(size=(3, 2)), edges)] * 5, [[0, 1, 2]] * 5)
    assert bf.preview(crf, graphs, correction="none").seconds > 0.0


def test_without_data_it_is_one_inference():
    cost = bf.preview(GRID, engine=bf.Exact())
    assert cost == bf.preview(GRID, bf.Exact())
    assert np.isnan(cost.seconds)
    assert "cliques" in cost.detail


def test_what_does_not_fit_is_not_tried(monkeypatch):
    monkeypatch.setattr(memory, "usable_bytes", lambda: 1000)
    wide = bf.pairwise(60, [(i, j) for j in range(60) for i in range(j)])
    seen = np.random.default_rng(0).choice(2, size=(10, 60))
    monkeypatch.setattr(bf.Bethe, "infer", lambda *_: pytest.fail("it was tried"))
    cost = bf.preview(wide, seen, engine=bf.Bethe(), form="dense")
    assert np.isnan(cost.seconds)
    assert cost.detail.startswith("does not fit: ")
    assert 'form="sparse"' in cost.detail
    assert "bf.Kikuchi()" in bf.preview(wide, seen, engine=bf.Exact()).detail


def test_learners_of_other_kinds_are_refused():
    with pytest.raises(bf.InvalidInput, match='method="auto", "newton" and "lbfgs"; got \'cd\''):
        bf.preview(GRID, X, method="cd")
    with pytest.raises(bf.InvalidInput, match="give X"):
        bf.preview(bf.CRF(3, ["a"]))


class Clock:
    """Time that passes only where it is told to. shared: how much of it the processor works for us."""

    def __init__(self, shared=1.0):
        self.now, self.shared = 0.0, shared

    def perf_counter(self):
        return self.now

    def process_time(self):
        return self.shared * self.now


def test_what_compiles_is_timed_again(monkeypatch):
    clock, calls = Clock(), []
    monkeypatch.setattr(affordable, "time", clock)

    @contextlib.contextmanager
    def compiling():
        spent = []
        yield spent
        if len(calls) == 1:
            spent.append(9.0)

    monkeypatch.setattr(affordable, "compiling", compiling)

    def call():
        calls.append(None)
        clock.now += 10.0 if len(calls) == 1 else 1.0
        return len(calls)

    assert affordable.timed(call) == (1.0, 3)  # 10 s do not count; 1 s, and once more, for all together is not brief


def test_waiting_for_others_does_not_count(monkeypatch):
    clock = Clock(shared=0.25)
    monkeypatch.setattr(affordable, "time", clock)

    def call():
        clock.now += 4.0

    assert affordable.timed(call)[0] == 1.0


def test_numba_says_what_it_compiles():
    @numba.njit
    def square(x):
        return x * x

    with compiling() as first:
        square(2.0)
    with compiling() as again:
        square(3.0)
    assert first[0] > 0.0
    assert again == []
