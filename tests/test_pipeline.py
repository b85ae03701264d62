"""What every fit does around the mathematics: no clock decides, time may end it, and people see it run."""

import io
import itertools
import sys
import time
import warnings

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.fitting import display
from test_contract import as_field, as_graphs, chains

FIELD = bf.grid(3, 3)
X = bf.sample(FIELD, 0.3 * np.random.default_rng(0).normal(size=FIELD.n_parameters), 100, 0)
CLOCKS = ("perf_counter", "process_time", "monotonic", "time", "thread_time")
LEARNERS = ("newton", "lbfgs", "pseudo_likelihood", "cd", "pcd", "iterative_scaling")


def doors(kind="complete", **options):
    """The three doors on the same chains."""
    crf, inputs, labels = chains(kind)
    return {
        "sequences": lambda: bf.fit_sequences(crf, inputs, labels, **options),
        "graphs": lambda: bf.fit_graphs(crf, as_graphs(inputs), labels, **options),
        "field": lambda: bf.fit(*as_field(crf, inputs, labels), **options),
    }


def run_clocks(monkeypatch, speed):
    """Every clock runs so many times as fast."""
    for name in CLOCKS:
        real, real_ns = getattr(time, name), getattr(time, f"{name}_ns")
        monkeypatch.setattr(time, name, lambda real=real: speed * real())
        monkeypatch.setattr(time, f"{name}_ns", lambda real=real_ns: int(speed * real()))


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


FITS = {
    **{f"{door}, {kind}": (door, kind) for door in ("sequences", "graphs", "field") for kind in ("complete", "latent")},
    "approximate": lambda: bf.fit(FIELD, X, engine=bf.Auto(max_entries=1)),
    "kikuchi": lambda: bf.fit(FIELD, X, engine="kikuchi"),
    "sampled": lambda: bf.fit(FIELD, X, engine=bf.Sampled(chains=256)),
    "ard": lambda: bf.fit(FIELD, X, bf.ARD()),
    "sparse": lambda: bf.fit(FIELD, X, engine="bethe", form="sparse", correction="mean"),
    **{name: (lambda name=name: bf.fit(FIELD, X, method=name)) for name in LEARNERS},
}


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
@pytest.mark.parametrize("name", FITS)
def test_clocks_that_run_otherwise_change_nothing(monkeypatch, name):
    call = FITS[name] if callable(FITS[name]) else doors(FITS[name][1])[FITS[name][0]]
    wanted = call()
    for speed in (1000.0, 0.001):
        with monkeypatch.context() as patched:
            run_clocks(patched, speed)
            got = call()
        assert got.record.plan == wanted.record.plan
        assert got.record.correction == wanted.record.correction
        np.testing.assert_array_equal(got.mean, wanted.mean)
        np.testing.assert_array_equal(got.sd, wanted.sd)


@pytest.mark.parametrize("method", LEARNERS)
def test_time_ends_a_search_with_the_best_so_far(method):
    with pytest.warns(bf.FitWarning, match="stopped by time_limit"):
        posterior = bf.fit(FIELD, X, method=method, time_limit=1e-9)
    assert posterior.record.status.outcome is bf.Outcome.TIME_UP
    assert np.isfinite(posterior.mean).all()
    assert (posterior.sd > 0).all()


@pytest.mark.parametrize("door", ["sequences", "graphs", "field"])
def test_time_ends_a_search_by_every_door(door):
    with pytest.warns(bf.FitWarning, match="stopped by time_limit"):
        posterior = doors(time_limit=1e-9)[door]()
    assert posterior.record.status.outcome is bf.Outcome.TIME_UP


@pytest.mark.parametrize("door", ["sequences", "graphs", "field"])
def test_time_ends_a_correction(monkeypatch, door):
    clock, steps = Clock(monkeypatch), []

    def watch(step):
        steps.append(step)
        clock.now += 100.0 * np.isnan(step.value)  # the search is over

    with pytest.warns(bf.FitWarning, match="correction was stopped by time_limit"):
        posterior = doors(time_limit=50.0, watch=watch, correction="variational")[door]()
    assert posterior.record.status.converged
    assert not posterior.record.correction.settled
    assert np.isnan(steps[-1].value)


def test_time_enough_changes_nothing():
    np.testing.assert_array_equal(bf.fit(FIELD, X, time_limit=1e6).mean, bf.fit(FIELD, X).mean)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_no_time_is_refused(limit):
    with pytest.raises(bf.InvalidInput, match="time_limit"):
        bf.fit(FIELD, X, time_limit=limit)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("door", ["sequences", "graphs", "field"])
def test_verbose_shows_plan_and_steps(capsys, door):
    doors(verbose=True)[door]()
    shown = capsys.readouterr().err.splitlines()
    assert "of counted work" in shown[0]
    assert any("search, step" in line for line in shown)
    assert any("correction, step" in line for line in shown)


@pytest.mark.parametrize(
    ("verbose", "terminal", "long", "seen"),
    [(None, True, True, True), (None, True, False, False), (None, False, True, False), (False, True, True, False)],
)
def test_long_fits_are_shown_where_somebody_looks(monkeypatch, verbose, terminal, long, seen):
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr("bayesfield.fitting.pipeline.LONG", 0.0 if long else display.LONG)
    bf.fit(FIELD, X, verbose=verbose)
    assert ("fit: Exact()" in screen.getvalue()) is seen


def test_the_price_of_weights_that_a_learner_cannot_take():
    crf, inputs, labels = chains("complete")
    weights = np.arange(1.0, 1.0 + len(inputs))
    for door, data in ((bf.fit_sequences, inputs), (bf.fit_graphs, as_graphs(inputs))):
        with pytest.raises(bf.InvalidInput, match="every sequence or graph once"):
            door(crf, data, labels, method="pseudo_likelihood", weights=weights)


def test_a_converged_fit_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method in itertools.islice(LEARNERS, 3):
            bf.fit(FIELD, X, method=method)
