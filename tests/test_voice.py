"""What a fit says while it runs, an interrupt that leaves what there is, and the commands for the installation."""

import json
import os
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import bayesfield as bf
from bayesfield.cli import app
from bayesfield.fitting.display import _said
from bayesfield.learning.search.optimum import Progress


def test_an_interrupt_leaves_what_there_is(capfd):
    """Twice the signal would end it; once gives the best so far, says so, and gives the signal back."""
    field, X = bf.grid(3, 3), np.random.default_rng(0).choice([-1, 1], (50, 9))
    seen, before = [], signal.getsignal(signal.SIGINT)

    def once(step):
        seen.append(step)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.warns(bf.FitWarning, match="or an interrupt"):
        found = bf.fit(field, X, watch=once, verbose=True, correction="none")
    assert found.record.status.outcome is bf.Outcome.TIME_UP
    assert np.isfinite(found.mean).all()
    said = capfd.readouterr().err
    assert "interrupted; it ends with the best so far" in said
    assert "of counted work" in said.splitlines()[0]
    assert signal.getsignal(signal.SIGINT) is before

    def again(step):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        bf.fit(field, X, watch=again, verbose=True)
    assert signal.getsignal(signal.SIGINT) is before
    progress = Progress()
    assert not progress.expired
    progress.end()
    assert progress.expired


def test_the_time_that_is_left_is_said(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 130.0)
    posterior = bf.fit(bf.grid(2, 2), np.array([[1, -1, 1, 1], [-1, -1, 1, 1]]), correction="none")
    step = posterior.record.iterations[0]
    assert "30 s, about 70 s left" in _said(step, 100.0, 100.0)
    assert "longer than was counted" in _said(step, 100.0, 20.0)


def test_doctor():
    ran = CliRunner().invoke(app, ["doctor", "--json"])
    assert ran.exit_code == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["bayesfield"] == bf.__version__
    assert found["self-test"]["passed"]
    assert found["cache"]["writable"]
    assert all(found["packages"].values())


@pytest.mark.slow
def test_warmup():
    ran = CliRunner().invoke(app, ["warmup", "--json"])
    assert ran.exit_code == 0, ran.stderr
    assert min(json.loads(ran.stdout)["seconds"].values()) >= 0.0
    again = CliRunner().invoke(app, ["warmup", "--json"])  # everything is there
    assert sum(json.loads(again.stdout)["seconds"].values()) < 1.0
