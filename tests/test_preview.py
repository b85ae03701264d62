"""What a fit is said to do and to take, before it runs. Prices are held against fits in benchmarks/preview.py."""

import itertools
import time

import numba
import numpy as np
import pytest

import bayesfield as bf
from bayesfield import memory
from bayesfield.fitting.plan import make_plan
from bayesfield.fitting.planning.request import request
from bayesfield.kernels.jit import compiling
from bayesfield.learning.phases.cases import field_objective

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
    "cd": {"method": bf.ContrastiveDivergence(steps=100)},
    "pseudo_likelihood": {"method": "pseudo_likelihood"},
    "iterative scaling": {"engine": bf.Exact(), "method": "iterative_scaling", "correction": "mean"},
}
PRIOR = bf.Normal(variance=0.25)
CORRECTIONS = ["none", "mean", "variational"]  # in the order of what they take


@pytest.mark.parametrize("name", CASES)
def test_it_prints_the_plan_of_the_fit_that_follows(name):
    """To the letter; and the fit does what was planned."""
    cost, record = bf.preview(GRID, X, PRIOR, **CASES[name]), bf.fit(GRID, X, PRIOR, **CASES[name]).record
    assert cost.detail == f"{GRID.n_parameters} parameters\n{record.plan}"
    lines = cost.detail.splitlines()
    assert lines[1] == f"engine      {record.plan.engine}"
    assert f"search      {record.method}" in lines
    assert f"precision   {record.form}" in lines
    assert any(line.startswith(f"correction  {record.correction.kind}") for line in lines)
    assert any(line.startswith("check  ") for line in lines) == (record.check is not None)
    assert record.plan.response.split("(")[0] == record.response.split("(")[0]  # Bethe(max_direct=0) where it is tried
    assert cost.seconds == record.plan.total
    assert 0.0 < cost.seconds < np.inf
    assert cost.bytes == record.plan.bytes
    assert 8 * GRID.n_parameters < cost.bytes < np.inf
    assert lines[-1].startswith(f"price       about {cost.seconds:.2g} s of counted work: the ")


def test_holes_and_hidden_variables():
    holed = X.astype(float)
    holed[::3, 0] = np.nan
    whole, with_holes = (bf.preview(GRID, x, engine=bf.Exact()) for x in (X, holed))
    assert 0.0 < whole.seconds < with_holes.seconds < np.inf  # inference in the cases with holes is counted, too
    machine = bf.restricted_boltzmann(4, 2)
    seen = np.random.default_rng(0).choice(2, size=(60, 4))
    several = bf.preview(machine, seen, correction="none")
    assert "from 8 points" in several.detail
    assert "the search" in several.detail
    assert 0.0 < several.seconds < np.inf


def test_conditional_fields():
    rng = np.random.default_rng(0)
    crf = bf.CRF(3, ["a", "b"])
    inputs = [rng.normal(size=(8, 2)) for _ in range(20)]
    labels = [rng.integers(3, size=8) for _ in range(20)]
    edges = np.array([[0, 1], [1, 2], [2, 0]])
    graphs = bf.as_graphs(crf, [(rng.normal(size=(3, 2)), edges)] * 5, [[0, 1, 2]] * 5)
    for cost, record in (
        (bf.preview(crf, inputs, y=labels), bf.fit_sequences(crf, inputs, labels).record),
        (bf.preview(crf, inputs, y=labels, method="ep"), bf.fit_sequences(crf, inputs, labels, method="ep").record),
        (bf.preview(crf, graphs, correction="none"), bf.fit_graphs(crf, graphs, correction="none").record),
    ):
        assert cost.detail == f"{crf.n_parameters} parameters\n{record.plan}"
        assert f"precision   {record.form}" in cost.detail
        assert f"correction  {record.correction.kind}" in cost.detail or (
            record.correction.kind == "draws" and record.plan.draws
        )
        assert cost.seconds == record.plan.total
        assert 0.0 < cost.seconds < np.inf
        assert 0.0 < cost.bytes < np.inf


def test_without_data_it_is_one_inference():
    cost = bf.preview(GRID, engine=bf.Exact())
    assert cost == bf.preview(GRID, bf.Exact())
    assert np.isnan(cost.seconds)
    assert "cliques" in cost.detail


def test_what_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "usable_bytes", lambda: 1000)
    wide = bf.pairwise(60, [(i, j) for j in range(60) for i in range(j)])
    seen = np.random.default_rng(0).choice(2, size=(10, 60))
    monkeypatch.setattr(bf.Bethe, "infer", lambda *_: pytest.fail("it was tried"))
    cost = bf.preview(wide, seen, engine=bf.Bethe(), form="dense")
    assert np.isnan(cost.seconds)
    assert 8 * 1830**2 < cost.bytes < np.inf
    assert cost.detail.startswith("does not fit: ")
    assert 'form="sparse"' in cost.detail
    assert "bf.Kikuchi()" in bf.preview(wide, seen, engine=bf.Exact()).detail


def test_memory_decides_only_whether_it_is_refused(monkeypatch):
    """At the very byte that the plan needs."""
    cost = bf.preview(GRID, X, PRIOR)
    monkeypatch.setattr(memory, "usable_bytes", lambda: cost.bytes)
    assert bf.preview(GRID, X, PRIOR) == cost
    monkeypatch.setattr(memory, "usable_bytes", lambda: cost.bytes - 1)
    refused = bf.preview(GRID, X, PRIOR)
    assert refused.detail.startswith("does not fit: ")
    assert refused.bytes == cost.bytes


def test_what_a_fit_refuses_a_preview_refuses():
    with pytest.raises(bf.InvalidInput, match="give X"):
        bf.preview(bf.CRF(3, ["a"]))
    with pytest.raises(bf.InvalidInput, match=r"mode of the posterior.*cd"):
        bf.preview(GRID, X, method="cd", correction="mean")
    with pytest.raises(bf.InvalidInput, match="expectation propagation is for sequences"):
        bf.preview(GRID, X, method="ep")
    with pytest.raises(bf.InvalidInput, match="budget"):
        bf.preview(GRID, X, budget=0.0)


CLOCKS = ("perf_counter", "process_time", "monotonic", "time", "thread_time")


def clocks(monkeypatch, second):
    """All clocks jump by so many seconds whenever they are read."""
    for name in CLOCKS:
        ticks = itertools.count()
        monkeypatch.setattr(time, name, lambda ticks=ticks: second * next(ticks))
        monkeypatch.setattr(time, f"{name}_ns", lambda ticks=ticks: int(1e9 * second) * next(ticks))


@pytest.mark.parametrize("name", CASES)
def test_no_clock_decides(monkeypatch, name):
    """The plan is the same on a machine that is infinitely fast and on one that takes a day for every look."""
    wanted = bf.preview(GRID, X, PRIOR, **CASES[name])
    for second in (0.0, 86_400.0):
        with monkeypatch.context() as patched:
            clocks(patched, second)
            found = bf.preview(GRID, X, PRIOR, **CASES[name])
        assert found == wanted


@pytest.mark.parametrize("name", ["chosen", "exact", "approximate"])
def test_no_clock_decides_what_a_fit_does(monkeypatch, name):
    wanted = bf.fit(GRID, X, PRIOR, **CASES[name])
    for second in (0.0, 86_400.0):
        with monkeypatch.context() as patched:
            clocks(patched, second)
            found = bf.fit(GRID, X, PRIOR, **CASES[name])
        assert found.record.plan == wanted.record.plan
        assert found.record.correction == wanted.record.correction
        np.testing.assert_array_equal(found.mean, wanted.mean)
        np.testing.assert_array_equal(found.precision, wanted.precision)


def test_nothing_is_inferred(monkeypatch):
    for engine in (bf.Exact, bf.Bethe, bf.Kikuchi, bf.Sampled):
        for part in ("infer", "response"):
            monkeypatch.setattr(engine, part, lambda *_: pytest.fail("it was tried"))
    for options in CASES.values():
        assert bf.preview(GRID, X, PRIOR, **options).seconds > 0.0


def test_a_bigger_budget_moves_the_correction_up():
    """From none to a shift of the mean to the variational one, never down; and the fit follows."""
    kinds = []
    for budget in 10.0 ** np.arange(-8, 8):
        options = {"engine": bf.Exact(), "budget": float(budget)}
        plan = make_plan(field_objective(GRID, X, PRIOR, bf.Exact()), request(PRIOR, **options)).plan
        kinds.append(CORRECTIONS.index(plan.corrections[0]))
        assert bf.preview(GRID, X, PRIOR, **options).detail.splitlines()[1:] == str(plan).splitlines()
    assert np.diff(kinds).min() >= 0
    assert set(kinds) == {0, 1, 2}
    for kind in (0, 1, 2):
        budget = float(10.0 ** (kinds.index(kind) - 8))
        record = bf.fit(GRID, X, PRIOR, bf.Exact(), budget=budget).record
        assert record.correction.kind == CORRECTIONS[kind]
        assert ("of counted work" in record.correction.reason) == (kind < 2)


def test_the_price_grows_with_the_work():
    rng = np.random.default_rng(0)
    prices = [bf.preview(bf.grid(n, n), rng.choice([-1, 1], size=(50, n * n)), engine="exact") for n in (2, 4, 6, 8)]
    for smaller, larger in itertools.pairwise(prices):
        assert smaller.seconds < larger.seconds
        assert smaller.bytes < larger.bytes
    plain, shifted = (bf.preview(GRID, X, engine="exact", correction=c).seconds for c in ("none", "mean"))
    assert plain < shifted


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
