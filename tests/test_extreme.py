"""Tiny extreme models: the generator, the true posteriors, the judge; and part of the study itself."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import integrate as quadrature
from typer.testing import CliRunner

from bayesfield import parallel
from bayesfield.cli.app import app
from bayesfield.experiments import figures
from bayesfield.experiments.extreme import judge
from bayesfield.experiments.extreme.density import LogDensity, ensemble, mode
from bayesfield.experiments.extreme.judge import CRITERIA, failing, judged, markdown, missed, verdicts
from bayesfield.experiments.extreme.models import CODINGS, DATA, STRUCTURES, extreme_model
from bayesfield.experiments.extreme.reference import _computed, _pieces, integrated, marginals, reference
from bayesfield.types import InvalidInput

SPIN = np.array([[0.0], [1.0]])
MODELS = [extreme_model(seed) for seed in range(300)]


# --- the generator --------------------------------------------------------------------------------------------------


def test_models_cover_what_the_study_claims():
    assert {m.variables for m in MODELS} == {1, 2, 3, 4}
    assert {m.states for m in MODELS} == {2, 3, 4}
    assert {m.coding for m in MODELS} == set(CODINGS)
    assert {m.structure for m in MODELS} == set(STRUCTURES)
    assert {m.data for m in MODELS} == set(DATA)
    assert {m.tied for m in MODELS} == {True, False}
    cases = np.array([len(m.codes) for m in MODELS])
    variances = np.array([m.variance for m in MODELS])
    assert cases.min() == 1
    assert 800 < cases.max() <= 1000
    assert 0.01 <= variances.min() < 0.02
    assert 5e3 < variances.max() <= 1e4
    assert 0.3 < np.mean([m.has_unseen_states for m in MODELS]) < 0.8
    assert np.mean(variances > 10) > 0.4


def test_models_follow_from_their_seeds():
    again = extreme_model(17)
    assert again.fingerprint == MODELS[17].fingerprint
    np.testing.assert_array_equal(again.X, MODELS[17].X)
    assert len({m.fingerprint for m in MODELS}) == len(MODELS)


def test_kinds_of_data():
    for m in MODELS:
        if m.data == "same":
            assert len(np.unique(m.codes, axis=0)) == 1
        if m.data == "one":
            assert len(m.codes) == 1
        if m.data == "unseen":
            assert m.has_unseen_states


def test_features_are_those_of_the_fields():
    """Two ways to write them down: the builders', and the study's own."""
    for m in MODELS:
        labels = np.array(m.labels)
        np.testing.assert_array_equal(m.joint_features, m.field.features(labels[m.joint_states]))
        np.testing.assert_allclose(m.counts @ m.joint_features, m.field.features(m.X).sum(axis=0))


# --- the true posteriors --------------------------------------------------------------------------------------------


def by_quad(cases, variance, power=0):
    """∫ λ^power (1 + e^λ)^−cases N(λ | 0, variance) dλ: a spin of {0, 1} that was never 1."""
    wide = 12 * np.sqrt(variance)
    points = np.unique(np.concatenate([np.linspace(-wide, wide, 60), np.linspace(-15, 15, 60)]))

    def density(x):
        return x**power * np.exp(-cases * np.logaddexp(0, x) - x**2 / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    return sum(quadrature.quad(density, a, b)[0] for a, b in itertools.pairwise(points))


@pytest.mark.parametrize(("cases", "variance"), [(10, 100.0), (3, 1e4), (1000, 1.0), (1, 0.01)])
@pytest.mark.parametrize("by_draws", [False, True])
def test_one_spin_that_was_never_up(cases, variance, by_draws):
    """Against SciPy's quadrature. Draws: within 4.5 standard errors (false alarms 1e-5 for each figure)."""
    mass, first, second = (by_quad(cases, variance, k) for k in (0, 1, 2))
    mean, sd = first / mass, np.sqrt(second / mass - (first / mass) ** 2)
    weighted = integrated(LogDensity.of(SPIN, np.array([cases, 0.0]), variance), np.random.default_rng(1), by_draws)
    answers = marginals(weighted)
    near = {name: 4.5 * answers[name] + 1e-7 for name in ("mean_error", "sd_error")}
    assert abs(answers["mean"] - mean) / sd < near["mean_error"]
    assert abs(answers["sd"] / sd - 1) < near["sd_error"]
    assert weighted.log_evidence == pytest.approx(np.log(mass), abs=0.01 if by_draws else 1e-7)
    assert max(answers["mean_error"].max(), answers["sd_error"].max()) < 0.005


def test_answers_that_were_measured_elsewhere():
    answers = marginals(integrated(LogDensity.of(SPIN, np.array([10.0, 0.0]), 100.0), np.random.default_rng(0)))
    assert answers["mean"] == pytest.approx(-9.76, abs=0.005)
    assert answers["sd"] == pytest.approx(5.64, abs=0.005)
    answers = marginals(integrated(LogDensity.of(SPIN, np.array([3.0, 0.0]), 1e4), np.random.default_rng(0)))
    assert round(answers["p_positive"].item(), 3) == 0.001
    # nearly the lower half of N(0, 100²), whose mean is −79.8 and whose sd is 60.3
    assert answers["mean"] == pytest.approx(-80.74, abs=0.01)
    assert answers["sd"] == pytest.approx(60.02, abs=0.01)


def test_a_mesh_along_the_axes_shows():
    """This model is symmetric; its first two meshes differed by 0.005 in P(λ > 0)."""
    truth = reference(MODELS[72])
    assert truth.p_error.max() < 0.001
    assert np.ptp(truth.p_positive) < 4 * truth.p_error.max()


def test_without_data_the_posterior_is_the_prior():
    """Ten parameters by draws; within 4.5 standard errors (70 figures: false alarms 5e-4)."""
    m = next(m for m in MODELS if m.joint_features.shape[1] == 10)
    weighted = integrated(LogDensity.of(m.joint_features, 0 * m.counts, 49.0), np.random.default_rng(2))
    answers = marginals(weighted)
    assert (np.abs(answers["mean"]) / 7.0 < 4.5 * answers["mean_error"]).all()
    assert (np.abs(answers["sd"] / 7.0 - 1) < 4.5 * answers["sd_error"]).all()
    assert (np.abs(answers["p_positive"] - 0.5) < 4.5 * answers["p_error"]).all()
    assert weighted.log_evidence == pytest.approx(0.0, abs=0.01)


def test_draws_agree_with_cubature():
    """Five models of three parameters, within 4.5 standard errors (50 figures: false alarms 3e-4)."""
    chosen = [m for m in MODELS if m.joint_features.shape[1] == 3 and m.edges][:5]
    for m in chosen:
        ((_, density),) = _pieces(m)
        exact, drawn = (integrated(density, np.random.default_rng([3, m.seed]), by) for by in (False, True))
        a, b = marginals(exact), marginals(drawn)
        assert (np.abs(b["mean"] - a["mean"]) / a["sd"] < 4.5 * (b["mean_error"] + a["mean_error"])).all()
        assert (np.abs(b["sd"] / a["sd"] - 1) < 4.5 * (b["sd_error"] + a["sd_error"])).all()
        assert (np.abs(b["p_positive"] - a["p_positive"]) < 4.5 * (b["p_error"] + a["p_error"])).all()
        assert drawn.log_evidence == pytest.approx(exact.log_evidence, abs=0.01)


def test_draws_in_four_dimensions_agree_with_four_integrals():
    """Independent spins of a wide prior, some never seen in a state: the hardest shape, known exactly."""
    m = next(m for m in MODELS if m.variables == 4 and m.joint_features.shape[1] == 4 and m.has_unseen_states)
    m = replace(m, variance=3e3)
    apart = _computed(m)
    weighted = integrated(LogDensity.of(m.joint_features, m.counts, m.variance), np.random.default_rng(4))
    together = marginals(weighted)
    assert (np.abs(together["mean"] - apart.mean) / apart.sd < 4.5 * together["mean_error"]).all()
    assert (np.abs(together["sd"] / apart.sd - 1) < 4.5 * together["sd_error"]).all()
    assert weighted.log_evidence == pytest.approx(apart.log_evidence, abs=0.01)


def test_two_seeds_agree_where_there_are_many_parameters():
    """By draws alone: 4.5 standard errors of the difference (42 figures: false alarms 3e-4)."""
    m = next(m for m in MODELS if m.joint_features.shape[1] >= 14 and m.variance > 10)
    ((_, density),) = _pieces(m)
    one, two = (marginals(integrated(density, np.random.default_rng([5, k]))) for k in range(2))
    for name in ("mean", "sd"):
        error = np.hypot(one[f"{name}_error"], two[f"{name}_error"])
        assert (np.abs(one[name] - two[name]) / one["sd"] < 4.5 * error).all()
        assert error.max() < 0.01
    assert (np.abs(one["p_positive"] - two["p_positive"]) < 4.5 * np.hypot(one["p_error"], two["p_error"])).all()


def test_derivatives_and_mode():
    m = next(m for m in MODELS if m.joint_features.shape[1] == 6)
    density = LogDensity.of(m.joint_features, m.counts, m.variance)
    point, h = np.random.default_rng(6).normal(size=6), 1e-5 * np.eye(6)
    gradient, curvature = density.derivatives(point)
    np.testing.assert_allclose(gradient, (density(point + h) - density(point - h)) / 2e-5, rtol=1e-6, atol=1e-5)
    slopes = [(density.derivatives(point - e)[0] - density.derivatives(point + e)[0]) / 2e-5 for e in h]
    np.testing.assert_allclose(curvature, slopes, rtol=1e-5, atol=1e-5)
    top = mode(density)[0]
    assert np.abs(density.derivatives(top)[0]).max() < 1e-5 * max(1.0, len(m.codes))


def test_chains_find_the_shape():
    """3200 draws of 400 chains: a mean within 0.15 sd, a width within 15 %, far more than their errors."""
    density = LogDensity.of(SPIN, np.array([3.0, 0.0]), 1e4)
    draws = ensemble(density, 400, 8, np.random.default_rng(7))
    assert draws.shape == (3200, 1)
    assert draws.mean() == pytest.approx(-80.7, abs=9)
    assert draws.std() == pytest.approx(60.0, abs=9)


def test_references_are_kept(tmp_path):
    model = MODELS[3]
    first = reference(model, tmp_path)
    kept = tmp_path / "000003.npz"
    before = kept.stat().st_mtime_ns
    again = reference(model, tmp_path)
    assert kept.stat().st_mtime_ns == before
    np.testing.assert_array_equal(first.quantiles, again.quantiles)
    assert again.log_evidence == first.log_evidence
    other = reference(replace(model, variance=1.0), tmp_path)  # another model of this seed: computed anew
    assert other.log_evidence != first.log_evidence


def test_what_intervals_hold():
    truth = reference(MODELS[3])
    lower, upper = truth.quantiles[:, 500], truth.quantiles[:, 1500]  # Φ(∓2.5)
    np.testing.assert_allclose(truth.probability_between(lower, upper), 0.98758, atol=1e-4)
    np.testing.assert_allclose(truth.probability_between(lower - 1e9, upper + 1e9), 1.0)


# --- the judge ------------------------------------------------------------------------------------------------------


def rows(count=200):
    """Fits that are right."""
    good = {
        **{"mean_error": 0.01, "sd_error": 0.01, "held_least": 0.945, "held_most": 0.955, "p_error": 0.001},
        **{"evidence_errors": 1.0, "warned": False, "seconds": 0.1, "parameters": 2},
        **{"moments_within": 2, "held_within": 2, "p_within": 2},
        **dict.fromkeys([column for column, _, _ in judge.REFERENCE], 1e-3),
    }
    return pd.DataFrame([{"seed": k, **good} for k in range(count)])


def test_verdicts():
    table = rows()
    assert set(verdicts(table)["reached"]) == {"yes", "–"}
    table.loc[[5, 7], "sd_error"] = 0.2, 0.4
    table.loc[[5, 7], "moments_within"] = 1, 0
    table.loc[5, "warned"] = True
    table.loc[9, "evidence_errors"] = np.nan
    table.loc[:110, "seconds"] = 0.3
    shown = verdicts(table).set_index("criterion")
    moments = shown.iloc[0]
    assert (moments["of models"], moments["of parameters"], moments["reached"]) == ("99.0%", "99.2%", "yes")
    assert moments["worst seeds"] == "7, 5"
    assert (shown.loc["… or warned", "reached"], shown.loc["… or warned", "worst seeds"]) == ("no", "7")
    assert shown.loc["seconds of a fit, median", "reached"] == "no"
    assert list(failing(table, CRITERIA[-1])["seed"]) == [9]
    assert "200 models, seeds 0 to 199." in markdown(table)
    assert missed(table).splitlines()[0].endswith(": 7, 5")
    assert missed(rows()).count(": none\n") == len(CRITERIA)


def test_a_fit_that_fails_reaches_nothing(monkeypatch, tmp_path):
    def refuse(*_):
        raise InvalidInput("not today")

    monkeypatch.setattr(judge, "fit", refuse)
    row = judged(MODELS[3], tmp_path)
    assert row["failure"] == "InvalidInput: not today"
    shown = verdicts(pd.DataFrame([row]))
    assert list(shown["of models"][: len(CRITERIA)]) == ["0.0%"] * len(CRITERIA)


def test_command_goes_on(tmp_path):
    words = ["calibrate", "--extreme", "--models", "11", "--seed", "40", "--jobs", "1", "--json"]
    words += ["--references", str(tmp_path / "kept"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)[0]["needed"] == "≥ 99%"
    table = pd.read_csv(tmp_path / "out" / "extreme.csv")
    assert list(table["seed"]) == list(range(40, 51))
    assert "11 models, seeds 40 to 50." in (tmp_path / "out" / "extreme.md").read_text()
    assert len((tmp_path / "out" / "missed.txt").read_text().splitlines()) == len(CRITERIA)
    assert (tmp_path / "out" / "extreme.png").stat().st_size > 1000
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 11
    next((tmp_path / "out" / "cells").glob("*-00010-*")).unlink()
    assert CliRunner().invoke(app, words).exit_code == 0
    again = pd.read_csv(tmp_path / "out" / "extreme.csv")
    seconds = ["seconds", "evidence_seconds"]
    pd.testing.assert_frame_equal(again.drop(columns=seconds), table.drop(columns=seconds))


def test_command_has_its_own_models(tmp_path):
    done = CliRunner().invoke(app, ["calibrate", "--extreme", "--problem", "grid-exact", "--out", str(tmp_path)])
    assert done.exit_code != 0


# --- the study ------------------------------------------------------------------------------------------------------


def test_default_fits_are_right():
    """The first twelve models, prior variances up to 1e4."""
    table = pd.DataFrame([judged(m) for m in MODELS[:12]])
    for criterion in CRITERIA:
        assert list(failing(table, criterion)["seed"]) == [], criterion.name


@pytest.mark.slow
def test_all_of_it(tmp_path):
    """The 1,000 models: what the documentation promises."""
    table = figures.calibrate_extreme(tmp_path, 1000, parallel.cores())
    shown = verdicts(table)
    missed = shown[shown["reached"] == "no"]["criterion"]
    assert [name for name in missed if not name.startswith("seconds")] == []  # speeds are for benchmarks
