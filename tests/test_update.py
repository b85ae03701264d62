"""Posteriors that go on with new data: fields exactly as a refit, conditional fields near to one; ``partial_fit``."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.fitting.growth import grown, places_in, with_weights_of
from bayesfield.fitting.planning.request import request
from bayesfield.formats.crfsuite import rows_of, vocabulary
from bayesfield.model.conditional import CRF, from_rows, seen_weights
from benchmarks.corpus import corpus

REFIT = 1e-8  # by sums over table entries, exactly the same objective
EXACT = 1e-12


def _binary(seed=0, cases=80):
    return np.random.default_rng(seed).integers(0, 2, size=(cases, 4))


def _worded(cases=70):
    return np.random.default_rng(1).choice(["a", "b", "c"], size=(cases, 3))


FIELDS = {
    "ising": lambda: (bf.pairwise(4, [(0, 1), (1, 2), (2, 3), (0, 3)]), _binary()),
    "potts": lambda: (bf.potts(3, [(0, 1), (1, 2)], ("a", "b", "c")), _worded()),
    "tied grid": lambda: (bf.grid(2, 2, tied=True), np.where(_binary() > 0, 1, -1)),
    "ordinal": lambda: (bf.ordinal(3, [(0, 1), (1, 2)], (0, 1, 2)), np.random.default_rng(2).integers(0, 3, (60, 3))),
}


def _same(one, other, tolerance=REFIT):
    np.testing.assert_allclose(one.mode, other.mode, atol=tolerance)
    np.testing.assert_allclose(one.mean, other.mean, atol=tolerance)
    np.testing.assert_allclose(one.sd, other.sd, atol=tolerance)
    assert one.record.n_cases == other.record.n_cases


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_that_goes_on_is_the_refit(name, tmp_path):
    """With its cases, without them, and from a file; in two batches or three."""
    field, X = FIELDS[name]()
    begun, whole = bf.fit(field, X[:30]), bf.fit(field, X)
    _same(begun.update(X[30:]), whole)
    _same(begun.without_data().update(X[30:]), whole)
    begun.save(tmp_path / "p.bf")
    read = bf.load(tmp_path / "p.bf").update(X[30:45])
    read.save(tmp_path / "q.bf")
    _same(bf.load(tmp_path / "q.bf").update(X[45:]), whole)
    assert bf.fit(field, X[:30]).mode == pytest.approx(begun.mode, abs=EXACT)  # the first is as it was


def test_the_order_of_batches_does_not_matter():
    field, X = FIELDS["ising"]()
    forth = bf.fit(field, X[:30]).update(X[30:])
    back = bf.fit(field, X[30:]).without_data().update(X[:30])
    _same(forth, back)


@pytest.mark.parametrize("prior", [bf.Normal(variance="evidence"), bf.ARD(), bf.Cauchy(scale=1.0)])
def test_what_the_data_choose_of_a_prior_is_chosen_anew(prior):
    field, X = FIELDS["ising"]()
    _same(bf.fit(field, X[:30], prior).without_data().update(X[30:]), bf.fit(field, X, prior))


def test_the_options_of_the_fit_are_kept(tmp_path):
    field, X = bf.grid(3, 3), np.where(np.random.default_rng(3).integers(0, 2, (60, 9)) > 0, 1, -1)
    options = {"engine": bf.Bethe(), "correction": "none", "prior": bf.Normal(variance=0.3)}
    begun = bf.fit(field, X[:40], **options)
    begun.save(tmp_path / "p.bf")
    again = bf.load(tmp_path / "p.bf").update(X[40:])
    assert again.record.engine == repr(bf.Bethe())
    _same(again, bf.fit(field, X, **options))


def test_weights_count():
    field, X = FIELDS["potts"]()
    w = np.random.default_rng(4).uniform(0.5, 2.0, len(X))
    begun, whole = bf.fit(field, X[:30], weights=w[:30]), bf.fit(field, X, weights=w)
    _same(begun.update(X[30:], weights=w[30:]), whole)
    _same(begun.without_data().update(X[30:], weights=w[30:]), whole)
    mixed = bf.fit(field, X[:30]).update(X[30:], weights=w[30:])
    _same(mixed, bf.fit(field, X, weights=np.concatenate([np.ones(30), w[30:]])))


def test_holes():
    """Holes of new cases are summed over; those of old ones are no counts, and need the cases."""
    field, X = FIELDS["ising"]()
    holed = X.astype(float)
    holed[40:, 1] = np.nan
    whole = bf.fit(field, holed)
    _same(bf.fit(field, holed[:30]).update(holed[30:]), whole)
    _same(bf.fit(field, holed[:30]).without_data().update(holed[30:]), whole)
    begun = bf.fit(field, holed[20:])
    _same(begun.update(holed[:20]), bf.fit(field, np.concatenate([holed[20:], holed[:20]])))
    with pytest.raises(bf.InvalidInput, match="cases with holes are no sum of counts"):
        begun.without_data().update(holed[:20])
    _same(begun.without_data().with_data(holed[20:]).update(holed[:20]), begun.update(holed[:20]))


def test_what_a_field_refuses():
    field, X = FIELDS["ising"]()
    posterior = bf.fit(field, X[:30])
    with pytest.raises(bf.InvalidInput, match="y, crf and Z are for conditional fields"):
        posterior.update(X[30:], y=X[30:, 0])
    with pytest.raises(bf.InvalidInput, match="not one of its states"):
        posterior.update(X[30:] + 7)
    learnt = bf.fit(field, X[:30], method="pseudo_likelihood").without_data()
    with pytest.raises(bf.InvalidInput, match="learns from the cases themselves"):
        learnt.update(X[30:])


# --- conditional fields ---------------------------------------------------------------------------------------------


def _chains(labels, count, seed, inputs=3):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(3, 8)), inputs)) for _ in range(count)]
    y = [[labels[int(x[0] + 0.6 * rng.normal() > 0) + (len(labels) > 2 and x[1] > 1.0)] for x in one] for one in X]
    return X, y


def test_a_dense_crf_that_goes_on_is_near_the_refit():
    """Ten batches of ten sequences: means within 0.3 standard deviations, widths within a tenth."""
    X, y = _chains(("a", "b", "c"), 100, 0)
    crf = bf.CRF(("a", "b", "c"), 3)
    posterior = bf.fit_sequences(crf, X[:10], y[:10])
    for k in range(10, 100, 10):
        posterior = posterior.update(X[k : k + 10], y[k : k + 10])
    whole = bf.fit_sequences(crf, X, y)
    assert posterior.record.form == "dense"
    assert posterior.record.n_cases == 100
    for ours, theirs in ((posterior.mean, whole.mean), (posterior.mode, whole.mode)):
        assert np.abs((ours - theirs) / whole.sd).max() < 0.3
    np.testing.assert_allclose(posterior.sd, whole.sd, rtol=0.1)


def test_nothing_new_is_the_old_posterior():
    """One sequence whose labels nobody knows says nothing: its log Z cancels."""
    X, y = _chains(("a", "b"), 40, 1)
    posterior = bf.fit_sequences(bf.CRF(("a", "b"), 3), X, y)
    open_labels = [{"a", "b"}] * len(X[0])
    later = posterior.update([X[0], X[0][:1]], [open_labels, [y[0][0]]], weights=[1.0, 1e-9])
    np.testing.assert_allclose(later.mean, posterior.mean, atol=1e-4 * posterior.sd.max())
    np.testing.assert_allclose(later.sd, posterior.sd, rtol=1e-4)


@pytest.mark.parametrize("symmetric", [False, True])
def test_places_of_a_grown_model(symmetric):
    """By names: a weight has the same one in both models."""
    old = CRF(("b", "d"), ("x", "z"), symmetric=symmetric)
    new = grown(old, ("a", "b", "c", "d"), ("w", "x", "y", "z"))
    at = places_in(new, old)
    named = [new.parameter_names[k] for k in at]
    assert named == old.parameter_names
    back = grown(CRF(("d", "b"), ("x", "z"), symmetric=symmetric), ("b", "c", "d"), ("z", "x"))
    names = {name.replace("d–b", "b–d") for name in CRF(("d", "b"), ("x", "z"), symmetric=symmetric).parameter_names}
    assert names <= set(back.parameter_names)


def test_places_of_weights_that_were_seen():
    rng = np.random.default_rng(5)
    first, later = [[["p", "q"], ["q"]]], [[["q", "r"], ["p"], ["a"]]]
    y, z = [["B", "D"]], [["D", "A", "B"]]
    names, more = vocabulary(first), vocabulary([*first, *later])
    old_whole, new_whole = CRF(("B", "D"), list(names)), CRF(("A", "B", "D"), list(more))
    old = old_whole.with_seen(seen_weights(old_whole, from_rows(old_whole, *rows_of(first, names), y)))
    data = from_rows(new_whole, *rows_of(later, more), z)
    new = with_weights_of(new_whole, old, data)
    assert [new.parameter_names[k] for k in places_in(new, old)] == old.parameter_names
    both = from_rows(new_whole, *rows_of([*first, *later], more), [*y, *z])
    assert new.parameter_names == new_whole.with_seen(seen_weights(new_whole, both)).parameter_names
    weights = rng.normal(size=new.n_parameters)
    assert new.split(weights)[0].shape == (4, 3)
    with pytest.raises(bf.InvalidInput, match="lacks weights of the old one"):
        places_in(new_whole.with_seen(seen_weights(new_whole, data)), old)
    with pytest.raises(bf.InvalidInput, match="no label 'D'"):
        places_in(CRF(("A", "B"), list(more)), old)


def test_new_labels_and_inputs_have_the_prior_that_was_stated():
    """A new label, a new input, in a posterior that is sure of the old ones."""
    X, y = _chains(("a", "b"), 60, 2)
    crf, prior = bf.CRF(("a", "b"), ("u", "v", "w")), bf.Normal(variance=0.7)
    posterior = bf.fit_sequences(crf, X, y, prior)
    wider = bf.CRF(("a", "b", "c"), ("s", "u", "v", "w"))
    one = [np.array([[0.0, 1.0, 0.0, 0.0]])]
    later = posterior.update(one, [["a"]], crf=wider)
    names = later.field.parameter_names
    assert later.sd[names.index("s:c")] == pytest.approx(np.sqrt(0.7), rel=1e-6)  # an input that is 0 says nothing
    assert later.sd[names.index("u:a")] < 0.65
    by_labels = posterior.update([x[:, :3] for x in X[:5]], [["c"] * len(x) for x in X[:5]])
    assert by_labels.field.visible == ("a", "b", "c")
    assert by_labels.mean[by_labels.field.parameter_names.index("c→c")] > 0.3


def test_variances_that_the_data_chose_hold_for_new_weights():
    X, y = _chains(("a", "b"), 60, 3)
    posterior = bf.fit_sequences(
        bf.CRF(("a", "b"), 3), X, y, bf.Normal(variance={"state": "evidence", "transition": 2.0})
    )
    chosen = posterior.record.prior.table.loc["state", "variance"]
    wider = bf.CRF(("a", "b"), ("input0", "input1", "input2", "new"))
    later = posterior.update([np.zeros((2, 4))], [["a", "b"]], crf=wider)
    assert later.sd[later.field.parameter_names.index("new:a")] == pytest.approx(np.sqrt(chosen), rel=1e-6)
    each = bf.fit_sequences(bf.CRF(("a", "b"), 3), X, y, bf.Normal(variance=np.full(10, 0.5)))
    with pytest.raises(bf.InvalidInput, match="stated for each of 10 weights"):
        each.update([np.zeros((2, 4))], [["a", "b"]], crf=wider)


def test_what_a_crf_refuses():
    X, y = _chains(("a", "b"), 20, 4)
    crf = bf.CRF(("a", "b"), 3)
    blocks = bf.fit_sequences(crf, X, y, form="block", correction="none")
    with pytest.raises(bf.InvalidInput, match="a block precision"):
        blocks.update(X, y)
    posterior = bf.fit_sequences(crf, X, y)
    with pytest.raises(bf.InvalidInput, match="no input 'input2'"):
        posterior.update([x[:, :2] for x in X], y, crf=bf.CRF(("a", "b"), 2))
    with pytest.raises(bf.InvalidInput, match="give y"):
        posterior.update(X)
    tables = bf.fit_sequences(
        bf.CRF((-1, 1), 3, node_tables=[[-1, 1]]), X, [[1 if v == "a" else -1 for v in s] for s in y]
    )
    with pytest.raises(bf.InvalidInput, match="keeps its labels and inputs"):
        tables.update(X, [[2] * len(x) for x in X])


# --- estimators -----------------------------------------------------------------------------------------------------


def _text(sentences, seed=1):
    text = corpus(sentences, seed)
    return text.features(), text.labels


def test_partial_fit_of_a_corpus_is_near_the_refit():
    """Three batches of 40 sentences, weights that were seen: log loss of 60 others within 0.01 of the refit's."""
    (X, y), (held_out, wanted) = _text(120), _text(60, 2)
    going = bf.BayesianCRF(0.5, possible="seen", verbose=False)
    for k in range(0, 120, 40):
        going.partial_fit(X[k : k + 40], y[k : k + 40])
    again = bf.BayesianCRF(0.5, possible="seen", verbose=False).fit(X, y)
    assert going.classes_ == again.classes_
    assert going.attributes_ == again.attributes_
    assert going.crf_.parameter_names == again.crf_.parameter_names
    assert going.posterior_.record.form == "mean-field"
    assert going.posterior_.record.n_cases == 120
    for predictor in ("map", "marginal"):
        going.predictor = again.predictor = predictor
        losses = [_loss(crf, held_out, wanted) for crf in (going, again)]
        assert abs(losses[0] - losses[1]) < 0.01


def _loss(crf, X, y):
    tables = crf.predict_marginals(X)
    return -np.mean([np.log(p.get(v, 1.0)) for s, t in zip(tables, y, strict=True) for p, v in zip(s, t, strict=True)])


def test_a_mean_field_posterior_goes_on_from_a_file(tmp_path):
    X, y = _text(30)
    crf = bf.BayesianCRF(0.5, possible="seen", verbose=False, random_state=3).fit(X[:20], y[:20])
    direct = crf.posterior_
    direct.save(tmp_path / "p.bf")
    data = crf._shape.grown(crf.classes_, X[:20]).data(X[20:], [["O"] * len(s) for s in y[20:]])
    whole = crf._shape.grown(crf.classes_, X[:20]).crf
    one, other = (p.update(data, crf=whole) for p in (direct, bf.load(tmp_path / "p.bf")))
    np.testing.assert_allclose(other.mean, one.mean, atol=1e-10)
    np.testing.assert_allclose(other.sd, one.sd, atol=1e-10)
    assert other.request.prior.variance == 0.5


def test_contract_of_partial_fit():
    X = [[{"w": v} for v in s] for s in (["a", "b"], ["b"], ["c", "a"])]
    y = [["N", "V"], ["V"], ["N", "N"]]
    crf = bf.BayesianCRF(1.0)
    assert crf.partial_fit(X[:2], y[:2], classes=["D", "N", "V"]) is crf
    assert crf.classes_ == ["D", "N", "V"]
    again = pickle.loads(pickle.dumps(crf))
    again.partial_fit([[{"w": "d", "long": 2.0}]], [["X"]])
    assert again.classes_ == ["D", "N", "V", "X"]
    assert "long" in again.attributes_
    assert again.predict([[{"w": "d", "long": 2.0}]]) == [["X"]]
    assert crf.classes_ == ["D", "N", "V"]
    before = crf.posterior_
    with pytest.raises(bf.InvalidInput, match="nothing to learn from"):
        crf.partial_fit([X[0]], [[None, None]])
    assert crf.posterior_ is before
    assert len(again.state_weights_) == again.crf_.n_state
    assert len(crf.fit(X, y).classes_) == 2  # fit begins anew


def test_partial_fit_of_graphs():
    rng = np.random.default_rng(6)
    graphs = [(rng.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3], [0, 3]])) for _ in range(30)]
    y = [["u" if row[0] > 0 else "v" for row in nodes] for nodes, _ in graphs]
    going = bf.GraphCRF().partial_fit(graphs[:15], y[:15]).partial_fit(graphs[15:], y[15:])
    again = bf.GraphCRF().fit(graphs, y)
    np.testing.assert_allclose(going.posterior_.mean, again.posterior_.mean, atol=0.3 * again.posterior_.sd.max())
    with pytest.raises(bf.InvalidInput, match="is no graph"):
        going.partial_fit([[{"a": 1}]], [["u"]])


ESTIMATORS = {
    "ising": (bf.IsingNetwork(), lambda: _binary(8)),
    "potts": (bf.PottsNetwork(), _worded),
    "ordinal": (bf.OrdinalNetwork(), lambda: np.random.default_rng(9).integers(0, 3, size=(60, 3))),
    "lattice": (bf.LatticeField((2, 2)), lambda: _binary(10)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_partial_fit_of_fields_is_fit_of_all(name):
    estimator, table = ESTIMATORS[name]
    X = table()
    whole = type(estimator)(**estimator.get_params()).fit(X)
    going = type(estimator)(**estimator.get_params()).partial_fit(X[:35])
    assert going.partial_fit(X[35:50]) is going
    going = pickle.loads(pickle.dumps(going)).partial_fit(X[50:])
    _same(going.posterior_, whole.posterior_)
    assert going.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="features"):
        going.partial_fit(X[:, :2])


def test_states_that_are_to_come():
    frame = pd.DataFrame(_worded(), columns=["p", "q", "r"])
    begun = bf.PottsNetwork().fit(frame[frame["p"] != "c"].head(20))
    with pytest.raises(bf.InvalidInput, match="'c'"):
        begun.partial_fit(frame)
    told = frame.astype(pd.CategoricalDtype(["a", "b", "c"]))
    going = bf.PottsNetwork().partial_fit(told.head(20)).partial_fit(told.tail(50))
    _same(going.posterior_, bf.PottsNetwork().fit(told).posterior_)


def test_a_request_that_is_kept_is_of_no_run():
    asked = request(bf.Normal(variance=0.5), start=[1.0], time_limit=3.0, rng=np.random.default_rng(0))
    field, X = FIELDS["ising"]()
    kept = bf.fit(field, X, rng=7, time_limit=100.0).request
    assert (kept.rng, kept.time_limit, kept.start, kept.watch) == (7, None, None, None)
    assert replace(asked, start=None).prior.variance == 0.5
