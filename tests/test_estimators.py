"""Estimators of fields: scikit-learn's contract, tables in and out, and answers against enumeration."""

import itertools
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import bayesfield as bf
from bayesfield.estimators.checks import expected_failed_checks

QUICK = {"engine": "bethe", "correction": "none", "n_draws": 5}
CHECKED = {  # scikit-learn's tables have up to ten states a column: those for two states are given a threshold
    "IsingNetwork": bf.IsingNetwork(binarize=2.0, **QUICK),
    "PottsNetwork": bf.PottsNetwork(**QUICK),
    "OrdinalNetwork": bf.OrdinalNetwork(**QUICK),
    "LatticeField": bf.LatticeField(**QUICK),
    "RBM": bf.RBM(1, binarize=2.0, **QUICK),
    "BoltzmannMachine": bf.BoltzmannMachine(1, binarize=2.0, **QUICK),
}
SKIPPED = {"check_array_api_input": "our arrays are NumPy's"}


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
@pytest.mark.parametrize("name", CHECKED)
def test_contract_of_scikit_learn(name):
    found = check_estimator(CHECKED[name], on_fail=None, on_skip=None)
    assert {r["check_name"]: str(r["exception"]) for r in found if r["status"] == "failed"} == {}
    assert {r["check_name"] for r in found if r["status"] == "skipped"} <= set(SKIPPED)
    assert len(found) > 35


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.parametrize("network", [bf.IsingNetwork(**QUICK), bf.RBM(1, **QUICK)], ids=lambda e: type(e).__name__)
def test_exceptions_are_the_listed_ones(network):
    """Without a threshold, models of two states refuse the checks' tables: just where the list says so."""
    listed = expected_failed_checks(network)
    found = check_estimator(network, expected_failed_checks=listed, on_fail=None, on_skip=None)
    assert {r["check_name"] for r in found if r["status"] == "failed"} == set()
    assert {r["check_name"] for r in found if r["status"] == "xfail"} == set(listed)
    assert expected_failed_checks(bf.IsingNetwork(binarize=0.5)) == expected_failed_checks(bf.PottsNetwork()) == {}


@pytest.mark.parametrize("kind", [bf.BayesianCRF, bf.GraphCRF])
def test_conditional_fields_take_structures(kind):
    """scikit-learn's checks give tables; a list of sequences or graphs is none, and the tags say so."""
    with pytest.warns(Warning, match="Can't test estimator"):
        found = check_estimator(kind(), on_fail=None, on_skip=None)
    assert {r["check_name"]: str(r["exception"]) for r in found if r["status"] == "failed"} == {}
    assert clone(kind(prior=0.5)).get_params()["prior"] == 0.5


def frame(n=300, seed=0):
    rng = np.random.default_rng(seed)
    mood = rng.choice(["low", "high"], n)
    sleep = np.where(rng.random(n) < 0.8, np.where(mood == "low", "bad", "good"), rng.choice(["bad", "good"], n))
    energy = np.where(rng.random(n) < 0.7, (sleep == "good").astype(int), rng.integers(2, size=n))
    table = pd.DataFrame({"mood": mood, "sleep": sleep, "energy": energy}, index=np.arange(n) + 100)
    return table.assign(mood=pd.Categorical(mood, ["low", "high"]), sleep=pd.Categorical(sleep, ["bad", "good"]))


def brute(field, parameters):
    """All joint states, and their log probabilities at each of the parameters, (S, states)."""
    states = list(itertools.product(*field.states))
    grid = np.array(list(itertools.product(*(range(len(s)) for s in field.states))))
    energy = np.array([[_energy(field, row, here) for row in grid] for here in parameters])
    return states, grid, energy - np.logaddexp.reduce(energy, axis=1)[:, None]


def _energy(field, row, here):
    position = {name: k for k, name in enumerate(field.parameter_names)}
    number = {name: k for k, name in enumerate(field.names)}
    total = 0.0
    for factor in field.factors:
        at = tuple(row[number[v]] for v in factor.variables)
        total += sum(here[position[name]] * np.asarray(table)[at] for name, table in factor.features.items())
    return total


def test_frames_go_in_and_come_out():
    table = frame()
    network = bf.IsingNetwork().fit(table)
    assert list(network.feature_names_in_) == ["mood", "sleep", "energy"]
    assert network.field_.states == [("low", "high"), ("bad", "good"), (0, 1)]
    assert network.couplings_.loc["mood", "sleep"] > 1.0
    assert network.couplings_.equals(network.couplings_.T)
    assert (network.couplings_sd_.to_numpy()[~np.eye(3, dtype=bool)] > 0).all()
    assert set(network.edges_["at_10"]) <= {"included", "inconclusive", "excluded"}
    drawn = network.sample(50, 1)
    assert drawn.dtypes.equals(table.dtypes)
    assert list(drawn["mood"].cat.categories) == ["low", "high"]
    holed = table.copy()
    holed.loc[110:120, "sleep"] = None
    filled = network.impute(holed)
    assert filled.dtypes.equals(table.dtypes)
    assert filled.index.equals(table.index)
    assert filled.drop(index=range(110, 121)).equals(table.drop(index=range(110, 121)))
    assert (filled.loc[110:120, "sleep"] == table.loc[110:120, "sleep"]).mean() > 0.6
    assert network.predict(table, "energy").shape == (300,)


def test_states_that_do_not_occur_are_kept():
    table = pd.DataFrame({"a": pd.Categorical([1, 2, 1, 2], [1, 2, 3]), "b": pd.Categorical([3, 1, 1, 2], [1, 2, 3])})
    network = bf.PottsNetwork(correction="none").fit(table)
    assert network.field_.states == [(1, 2, 3)] * 2
    assert network.predict_proba(table, "a").shape == (4, 3)
    mixed = bf.PottsNetwork(correction="none").fit(table.assign(c=["x", "y", "x", "y"]))
    assert "a=2,c=y" in mixed.field_.parameter_names


@pytest.mark.parametrize("make", [bf.IsingNetwork, bf.PottsNetwork, bf.OrdinalNetwork], ids=lambda m: m.__name__)
def test_answers_are_those_of_enumeration(make):
    table = frame(40)
    table = table if make is not bf.PottsNetwork else table.assign(energy=[0, 1, 2, 0] * 10)
    network = make(n_draws=20, random_state=3).fit(table)
    points = network.posterior_.sample(20, 3)
    states, grid, log_p = brute(network.field_, points)
    row = {state: k for k, state in enumerate(states)}
    cases = [row[tuple(case)] for case in table.itertuples(index=False)]
    wanted = np.logaddexp.reduce(log_p[:, cases], axis=0) - np.log(20)
    np.testing.assert_allclose(network.score_samples(table), wanted, atol=1e-9)
    assert network.score(table) == pytest.approx(wanted.mean(), abs=1e-9)
    for j, name in enumerate(table.columns):
        K = len(network.field_.states[j])
        given = np.zeros((len(table), K))
        for n, case in enumerate(cases):
            same = [
                next(k for k in range(len(grid)) if grid[k, j] == s and (np.delete(grid[k] == grid[case], j)).all())
                for s in range(K)
            ]
            p = np.exp(log_p[:, same])
            given[n] = (p / p.sum(axis=1, keepdims=True)).mean(axis=0)
        np.testing.assert_allclose(network.predict_proba(table, name), given, atol=1e-9)
    assert network.predict_proba(table).shape == (40, sum(len(s) for s in network.field_.states))


def test_samples_have_the_predictive_distribution():
    """40,000 cases; every joint state's share within 5 standard errors of its probability: false alarm 5e-6."""
    network = bf.IsingNetwork(n_draws=400).fit(frame())
    drawn = network.sample(40_000, 5)
    _, _, log_p = brute(network.field_, network.posterior_.sample(4000, 9))
    wanted = np.exp(log_p).mean(axis=0)
    codes = network.field_.encode(drawn.to_numpy(dtype=object)) @ [4, 2, 1]
    share = np.bincount(codes, minlength=8) / 40_000
    spread = np.exp(log_p).std(axis=0)  # 400 draws of the parameters stand behind the cases
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 40_000 + spread**2 / 400)).all()


def test_edges_by_name_number_or_graph():
    table = frame()
    by_name = bf.IsingNetwork([("mood", "sleep")]).fit(table)
    by_number = bf.IsingNetwork([(0, 1)]).fit(table)
    graph = nx.Graph([("sleep", "mood")])
    assert by_name.field_.edges == by_number.field_.edges == bf.IsingNetwork(graph).fit(table).field_.edges == [(0, 1)]
    with pytest.raises(bf.InvalidInput, match="by name or number; got \\('mood', 'food'\\)"):
        bf.IsingNetwork([("mood", "food")]).fit(table)


def test_codings_are_one_distribution():
    table = frame()
    binary, spin = (bf.IsingNetwork(coding=c, prior=1e4, correction="none").fit(table) for c in ("binary", "spin"))
    np.testing.assert_allclose(binary.couplings_, 4 * spin.couplings_, rtol=1e-3, atol=1e-3)


def test_images():
    rng = np.random.default_rng(0)
    images = (rng.random((60, 4, 5)) < 0.5).astype(int)
    images[:, :, 1:] = np.where(rng.random((60, 4, 4)) < 0.6, images[:, :, :-1], images[:, :, 1:])
    tied = bf.LatticeField().fit(images)
    assert tied.field_.n_parameters == 2
    assert tied.posterior_.mean[1] > 0.1
    assert tied.sample(3).shape == (3, 4, 5)
    assert tied.predict(images).shape == images.shape
    flat = bf.LatticeField((4, 5)).fit(images.reshape(60, -1))
    np.testing.assert_allclose(flat.posterior_.mean, tied.posterior_.mean)
    single = bf.LatticeField().fit(images[:1])
    assert single.posterior_.sd[1] > 3 * tied.posterior_.sd[1]
    holed = images.astype(float)
    holed[0, 0, 0] = np.nan
    assert tied.impute(holed).shape == images.shape
    own = bf.LatticeField(tied=False, engine="bethe").fit(images)
    assert own.field_.n_parameters == 20 + 31
    assert bf.LatticeField(engine="bethe").fit(rng.integers(3, size=(20, 3, 3))).field_.n_parameters == 3


def test_hidden_variables():
    rng = np.random.default_rng(1)
    cause = rng.random(200) < 0.5
    X = (rng.random((200, 4)) < np.where(cause, 0.9, 0.1)[:, None]).astype(int)
    machine = bf.RBM(1, n_draws=10, correction="none").fit(X)
    p = machine.hidden_proba(X)[:, 0]
    assert abs(np.corrcoef(p, cause)[0, 1]) > 0.7
    assert machine.sample(7).shape == (7, 4)
    assert machine.predict_proba(X, 0).shape == (200, 2)
    points = machine.posterior_.sample(10, 0)
    states, _, log_p = brute(machine.field_, points)
    visible = np.array([s[:4] for s in states])
    both = [np.flatnonzero((visible == x).all(axis=1)) for x in X[:5]]
    wanted = [np.logaddexp.reduce(np.logaddexp.reduce(log_p[:, k], axis=1)) - np.log(10) for k in both]
    np.testing.assert_allclose(machine.score_samples(X[:5]), wanted, atol=1e-9)
    dense = bf.BoltzmannMachine(1, correction="none").fit(X)
    assert len(dense.field_.edges) == 10


def test_pickles_and_clones():
    network = bf.IsingNetwork(prior=0.5, random_state=4).fit(frame())
    other = pickle.loads(pickle.dumps(network))
    assert other.posterior_.objective is None
    np.testing.assert_array_equal(other.score_samples(frame(20)), network.score_samples(frame(20)))
    assert clone(network).get_params()["prior"] == 0.5
    assert not hasattr(clone(network), "posterior_")


def test_priors_by_name():
    table = frame()
    assert bf.IsingNetwork(prior="evidence").fit(table).posterior_.record.prior is not None
    assert bf.IsingNetwork(prior="ard").fit(table).posterior_.record.prior is not None
    narrow = bf.IsingNetwork(prior=bf.Cauchy(0.1), correction="none").fit(table)
    assert narrow.couplings_.loc["mood", "energy"] < bf.IsingNetwork().fit(table).couplings_.loc["mood", "energy"]


BAD = {
    "three states": (lambda: bf.IsingNetwork().fit([[0, 1], [1, 2], [2, 0]]), "has 3 states.*OrdinalNetwork"),
    "measurements": (lambda: bf.PottsNetwork().fit(np.random.default_rng(0).normal(size=(99, 2))), "pandas.cut"),
    "infinity": (lambda: bf.PottsNetwork().fit([[0.0, np.inf], [1.0, 2.0]]), "infinity"),
    "mixed": (lambda: bf.PottsNetwork().fit(pd.DataFrame({"a": [1, "x"], "b": [0, 1]})), "mixes kinds"),
    "coding": (lambda: bf.IsingNetwork(coding="odd").fit(frame()), '"binary".*got .odd'),
    "prior": (lambda: bf.IsingNetwork(prior=None).fit(frame()), "prior is a variance"),
    "column": (lambda: bf.IsingNetwork().fit(frame()).predict_proba(frame(), "food"), "no column 'food'"),
    "unseen state": (lambda: bf.IsingNetwork().fit(frame()).score(frame().assign(energy=7)), "not one of its states"),
    "shape": (lambda: bf.LatticeField((2, 2)).fit(np.zeros((4, 9), dtype=int)), "X has 9 columns"),
    "images of another shape": (lambda: bf.LatticeField((2, 2)).fit(np.zeros((4, 3, 3), dtype=int)), "images have"),
    "one colour": (lambda: bf.LatticeField().fit(np.zeros((4, 3, 3), dtype=int)), "two states; these.* have 1"),
    "text to cut": (lambda: bf.IsingNetwork(binarize=0.5).fit([["a", "b"], ["b", "a"]]), "columns of numbers"),
    "sequence for graphs": (lambda: bf.GraphCRF().fit([[{"a": 1}]], [["x"]]), "sequences are for BayesianCRF"),
    "no samples": (lambda: bf.IsingNetwork().fit(frame()).sample(0), "at least 1"),
    "samples in text": (lambda: bf.IsingNetwork().fit(frame()).sample("5"), "whole number"),
    "words without order": (lambda: bf.OrdinalNetwork().fit(words(["never", "often", "always"])), "ordered=True"),
    "categories without order": (
        lambda: bf.OrdinalNetwork().fit(words(["never", "often", "always"]).astype("category")),
        "no order of them is known",
    ),
    "a mark for missing cells": (lambda: bf.IsingNetwork().fit(words(["n", "y", "?"])), "na_values='\\?'"),
    "one value": (lambda: bf.IsingNetwork().fit(frame().assign(c="yes")), "'c' never varies, it is always 'yes'"),
    "missing cells only": (lambda: bf.IsingNetwork().fit(frame().assign(c=np.nan)), "missing cells only; leave it out"),
    "twins": (lambda: bf.IsingNetwork().fit(frame().rename(columns={"mood": "sleep"})), "'sleep' stands there 2 times"),
    "twins as text": (lambda: bf.PottsNetwork().fit(pd.DataFrame([[1, 2], [2, 1]], columns=[1, "1"])), "of its own"),
    "many states": (lambda: bf.IsingNetwork().fit(np.arange(18).reshape(9, 2)), r"9 states, \(0, 2, 4, 6, 8, 10, …\)"),
    "thresholds without names": (lambda: bf.IsingNetwork(binarize={"a": 1}).fit([[0, 1], [2, 0]]), "needs a DataFrame"),
    "threshold of a column that is not there": (
        lambda: bf.IsingNetwork(binarize={"b": 1}).fit(pd.DataFrame({"a": [0, 1]})),
        "names the column 'b'",
    ),
    "a threshold that is none": (lambda: bf.IsingNetwork(binarize="high").fit([[0, 1], [2, 0]]), "got 'high'"),
}


def words(states, n=60):
    """Two columns of words that go together."""
    first = np.random.default_rng(0).integers(len(states), size=n)
    second = np.where(np.arange(n) % 3, first, 0)
    return pd.DataFrame({"a": np.array(states)[first], "b": np.array(states)[second]})


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_said(name):
    call, text = BAD[name]
    with pytest.raises(bf.InvalidInput, match=text):
        call()


def test_thresholds_of_ordinal_items_are_not_shrunk():
    """Coded 1 … 5 or −2 … 2, the same answers have the same verdicts: thresholds are free to balance the slopes."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=300)
    X = np.clip(np.round(common[:, None] + rng.normal(0, 0.8, (300, 3))), -2, 2).astype(int)
    centred, raw = bf.OrdinalNetwork().fit(X), bf.OrdinalNetwork().fit(X + 3)
    np.testing.assert_allclose(raw.edges_["mean"], centred.edges_["mean"], atol=centred.edges_["sd"].max())
    assert list(raw.edges_["at_10"]) == list(centred.edges_["at_10"]) == ["included"] * 3


def test_words_of_two_states_are_told_in_their_order():
    """Alphabetical order makes 'without' the higher one: the sign is as it is, and a warning says so."""
    with pytest.warns(bf.FitWarning, match=r"a \('with' < 'without'\), b"):
        network = bf.IsingNetwork(correction="none").fit(words(["without", "with"]))
    assert network.states_ == {"a": ("with", "without"), "b": ("with", "without")}
    table = words(["no", "yes"])  # in order by themselves: no warning
    chosen = words(["without", "with"]).apply(lambda c: pd.Categorical(c, ["without", "with"], ordered=True))
    ordered = bf.IsingNetwork(correction="none").fit(chosen)
    np.testing.assert_allclose(ordered.couplings_, bf.IsingNetwork(correction="none").fit(table).couplings_, atol=1e-8)


def test_ordered_words_are_a_scale():
    codes = words([0, 1, 2])
    named = words(["never", "often", "always"])
    scale = named.apply(lambda c: pd.Categorical(c, ["never", "often", "always"], ordered=True))
    by_words, by_codes = (bf.OrdinalNetwork(correction="none").fit(t).edges_["mean"] for t in (scale, codes))
    np.testing.assert_allclose(by_words, by_codes, atol=1e-8)


def test_columns_that_never_vary_are_named():
    with pytest.warns(bf.FitWarning, match="no two cases differ in 'c'"):
        bf.IsingNetwork(correction="none").fit(words([0, 1]).assign(c=1))
    with pytest.warns(bf.FitWarning, match="no two cases differ in 'a', 'b'"):
        bf.IsingNetwork(binarize=7, correction="none").fit(words([0, 1, 2]))


def test_thresholds_for_some_columns():
    table = words([0, 1, 2]).assign(c=np.arange(60) % 2)
    network = bf.IsingNetwork(binarize={"a": 0, "b": 1}, correction="none").fit(table)
    cut = table.assign(a=(table["a"] > 0).astype(int), b=(table["b"] > 1).astype(int))
    np.testing.assert_allclose(network.posterior_.mean, bf.IsingNetwork(correction="none").fit(cut).posterior_.mean)
    np.testing.assert_allclose(network.score(table), bf.IsingNetwork(correction="none").fit(cut).score(cut))


def test_a_table_for_a_lattice_is_told_what_it_is_read_as():
    with pytest.warns(bf.FitWarning, match="9 cases of 4 sites in one row; a single image is X"):
        bf.LatticeField(correction="none").fit(np.arange(36).reshape(9, 4) % 2)


def test_holes_in_what_is_scored():
    """A column without any cell, a case without any: summed over, and certain."""
    network, table = bf.IsingNetwork(n_draws=20).fit(frame()), frame(12)
    states, _, log_p = brute(network.field_, network.posterior_.sample(20, 0))
    holed = table.assign(sleep=pd.Categorical([None] * 12, ["bad", "good"]))
    found = network.score_samples(holed)
    for row, value in zip(holed.itertuples(index=False), found, strict=True):
        fits = [k for k, s in enumerate(states) if (s[0], s[2]) == (row.mood, row.energy)]
        assert value == pytest.approx(np.logaddexp.reduce(log_p[:, fits], axis=None) - np.log(20), abs=1e-9)
    empty = pd.DataFrame([[None, None, None], ["low", "bad", 1]], columns=table.columns)
    assert network.score_samples(empty)[0] == 0.0
    assert network.score_samples(empty)[1] == pytest.approx(network.score_samples(empty.iloc[1:])[0])


def test_a_column_is_foretold_where_it_is_absent():
    network, table = bf.IsingNetwork().fit(frame()), frame(20)
    wanted = network.predict_proba(table, "sleep")
    np.testing.assert_array_equal(network.predict_proba(table.drop(columns="sleep"), "sleep"), wanted)
    holed = table.copy()
    holed.loc[holed.index[:5], "sleep"] = None
    np.testing.assert_allclose(network.predict_proba(holed, "sleep"), wanted)
    holed.loc[holed.index[2], "energy"] = np.nan  # then the others of that row are summed over
    found = network.predict_proba(holed, "sleep")
    np.testing.assert_allclose(np.delete(found, 2, axis=0), np.delete(wanted, 2, axis=0))
    assert found[2].sum() == pytest.approx(1.0)
    assert abs(found[2] - wanted[2]).max() > 1e-6


def test_networks_without_edges():
    alone = bf.IsingNetwork([], correction="none").fit(frame())
    assert (alone.couplings_ == 0).all(axis=None)
    assert len(alone.edges_) == 0


def test_machines_in_a_pipeline():
    X = np.random.default_rng(2).integers(2, size=(40, 3))
    machine = bf.RBM(2, correction="none", n_draws=5)
    pipeline = make_pipeline(machine, LogisticRegression()).fit(X, X[:, 0])
    assert pipeline.predict(X).shape == (40,)
    out = bf.RBM(2, correction="none", n_draws=5).set_output(transform="pandas").fit_transform(X)
    assert list(out.columns) == ["h0", "h1"]


def test_more_draws_where_they_cost_nothing():
    small, large = bf.IsingNetwork().fit(frame()), bf.IsingNetwork(engine="bethe", correction="none")
    assert small._draws() == 2000
    assert bf.IsingNetwork(n_draws=7).fit(frame())._draws() == 7
    assert 100 <= large.fit(np.random.default_rng(0).integers(2, size=(400, 12)))._draws() < 2000


def test_a_case_has_its_own_answer(monkeypatch):
    """Whatever cases are beside it, and however many are worked at a time."""
    X = (np.random.default_rng(0).random((400, 9)) < np.random.default_rng(1).random((400, 1))).astype(int)
    network = bf.IsingNetwork(correction="none").fit(X)
    together = network.score_samples(X)
    np.testing.assert_allclose(network.score_samples(X[:1]), together[:1], atol=1e-12)
    np.testing.assert_allclose(network.predict_proba(X[:1]), network.predict_proba(X)[:1], atol=1e-12)
    monkeypatch.setattr("bayesfield.estimators.fields._HELD", 1000)
    np.testing.assert_allclose(network.score_samples(X), together, atol=1e-12)


def test_columns_called_by_numbers():
    """Names win over places; what comes back has the same names, and tables are matched by them."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(2, size=(60, 3)), columns=[2, 1, 0])
    network = bf.IsingNetwork([(2, 1)], n_draws=10, correction="none").fit(table)
    assert network.field_.edges == [(0, 1)]
    np.testing.assert_array_equal(network.predict_proba(table, 2), network.predict_proba(table, "2"))
    np.testing.assert_array_equal(network.predict_proba(table.drop(columns=2), 2), network.predict_proba(table, 2))
    assert list(network.sample(2).columns) == [2, 1, 0]
    np.testing.assert_array_equal(network.score_samples(table[[0, 1, 2]]), network.score_samples(table))
    with pytest.raises(bf.InvalidInput, match="has no column '1'"):
        network.score_samples(table[[0, 2]])
    with pytest.raises(bf.InvalidInput, match="by name or number"):
        bf.IsingNetwork([(0.7, 1.9)]).fit(table)
    path = nx.path_graph([10, 20, 30])
    joined = bf.IsingNetwork(path, correction="none").fit(table.set_axis([10, 20, 30], axis=1))
    assert joined.field_.edges == [(0, 1), (1, 2)]
    cut = bf.IsingNetwork(binarize={0: 0.0}, correction="none").fit(table)
    np.testing.assert_allclose(cut.posterior_.mean, bf.IsingNetwork(correction="none").fit(table).posterior_.mean)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_other_shapes_of_the_same_question():
    network, table = bf.IsingNetwork(n_draws=10, correction="none").fit(frame()), frame(9)
    coded = words([0, 1])
    as_list = bf.IsingNetwork(n_draws=10, correction="none").fit(coded).predict(coded.to_numpy().tolist())
    assert list(as_list.columns) == ["a", "b"]
    np.testing.assert_array_equal(network.predict_proba(table.drop(columns="mood"), 0), network.predict_proba(table, 0))
    lattice = bf.LatticeField(correction="none").fit(np.arange(54).reshape(9, 2, 3) % 2)
    with pytest.raises(bf.InvalidInput, match=r"images of \(2, 3\), and these have \(3, 2\)"):
        lattice.score_samples(np.zeros((1, 3, 2), dtype=int))
    assert bf.LatticeField((1, 3)).field_for(np.arange(6).reshape(2, 3) % 2).n_variables == 3
    nullable = pd.DataFrame({"a": pd.array([0, 2, None, 1] * 5, dtype="Int64"), "b": [0, 1, 2, 0] * 5})
    assert bf.IsingNetwork(binarize=1, correction="none").fit(nullable).states_["a"] == (0, 1)
    assert bf.IsingNetwork(prior=np.float32(2.0), correction="none").fit(frame()).field_.n_parameters == 6
    with pytest.raises(bf.InvalidInput, match="draws is a whole number"):
        bf.IsingNetwork(n_draws=0, correction="none").fit(frame()).predict_proba(frame())


def test_machines_on_machines():
    X = pd.DataFrame(np.random.default_rng(2).integers(2, size=(40, 3)), columns=list("abc"))
    first, second = (bf.RBM(n, binarize=0.5, correction="none", n_draws=5) for n in (2, 1))
    stacked = make_pipeline(first, second).set_output(transform="pandas").fit(X)
    assert list(stacked.transform(X).columns) == ["hh0"]
