"""Weights of labels that were seen: the model with all weights, where the others are held at zero."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.formats.crfsuite import rows_of, vocabulary
from bayesfield.inference.trees import chain as trees_chain
from bayesfield.learning.objective import gaussian
from bayesfield.learning.phases import chain
from bayesfield.learning.phases.crf_design import widened
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, from_rows, seen_weights
from bayesfield.types import InvalidInput
from benchmarks.corpus import corpus

ALGEBRA = 1e-10
PRIOR = bf.Normal(variance=0.5)


def _problem(sentences=30, weighted=False, min_frequency=1):
    text = corpus(sentences, 3)
    X = text.features()
    if weighted:
        X = [[{name: 1.0 + 0.25 * (len(name) % 3) for name in item} for item in s] for s in X]
    known = vocabulary(X)
    whole = CRF(sorted({label for s in text.labels for label in s}), list(known))
    data = from_rows(whole, *rows_of(X, known), text.labels)
    return whole, whole.with_seen(seen_weights(whole, data, min_frequency)), data, X, text.labels


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lean", [False, True])
def test_value_gradient_and_curvature_are_those_of_all_weights_with_zeros(weighted, lean, monkeypatch):
    if lean:
        monkeypatch.setattr(chain, "_LEAN", 0)
    whole, some, data, *_ = _problem(weighted=weighted)
    a, b = (sequence_objective(m, data, gaussian(PRIOR, m)) for m in (whole, some))
    here = np.random.default_rng(0).normal(size=some.n_parameters)
    one, other = a.at(widened(some, here)), b.at(here)
    assert other.value == pytest.approx(one.value, rel=ALGEBRA)
    np.testing.assert_allclose(other.gradient, one.gradient[some.places], atol=1e-9)
    np.testing.assert_allclose(b.variances(other), a.variances(one)[some.places], rtol=1e-9)
    v = np.random.default_rng(1).normal(size=some.n_parameters)
    product = a.response(one).product(widened(some, v))[some.places]
    np.testing.assert_allclose(b.response(other).product(v), product, atol=1e-8)
    np.testing.assert_allclose(b.at_many(np.array([here, -here])).gradients[0], other.gradient, atol=1e-9)


def test_passes_without_messages_are_those_with(monkeypatch):
    whole, _, data, *_ = _problem()
    phase = chain.ChainPhase(whole, data)
    here = 3.0 * np.random.default_rng(2).normal(size=whole.n_parameters)
    node, edge = phase.potentials(here)
    node[0, :-1] = -np.inf  # one label allowed
    full, lean = (f(phase.chains, node, edge) for f in (trees_chain.chain_marginals, trees_chain.chain_means))
    np.testing.assert_allclose(lean.log_z, full.log_z, rtol=ALGEBRA)
    np.testing.assert_allclose(lean.marginal, full.marginal, atol=ALGEBRA)
    np.testing.assert_allclose(lean.transitions, full.transitions, atol=1e-9)
    node[:, :] = np.where(np.arange(node.shape[1]) == 0, 0.0, 1e3)
    assert np.isfinite(trees_chain.chain_means(phase.chains, node, edge).log_z).all()


def test_junction_tree_takes_over_with_the_same_weights():
    _, some, data, *_ = _problem(4)
    phase = chain.ChainPhase(some, data)
    here = np.random.default_rng(0).normal(size=some.n_parameters)
    one, other = phase.at(here), phase.by_tree.at(here)
    assert one.log_z == pytest.approx(other.log_z, rel=ALGEBRA)
    np.testing.assert_allclose(one.mean, other.mean, atol=1e-9)


def test_weights_are_those_of_crfsuite(tmp_path):
    """The same objective: c2 = 1 / (2 variance). Both stop close to the optimum: 1e-3."""
    pycrfsuite = pytest.importorskip("pycrfsuite")
    _, some, data, X, y = _problem(60)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "epsilon": 1e-9, "delta": 1e-12, "max_iterations": 1000})
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    path = str(tmp_path / "model")
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    info = tagger.info()
    objective = sequence_objective(some, data, gaussian(PRIOR, some))
    mode = lbfgs(objective, np.zeros(some.n_parameters), 1e-8, 1000).parameters
    W, V = some.split(mode)
    number, known = {label: k for k, label in enumerate(some.labels)}, {d: k for k, d in enumerate(some.inputs)}
    assert len(info.state_features) + len(info.transitions) == some.n_parameters
    theirs = np.array(list(info.state_features.values()))
    ours = np.array([W[known[d], number[k]] for d, k in info.state_features])
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    pairs = [V[0, number[a] * len(number) + number[b]] for a, b in info.transitions]
    np.testing.assert_allclose(pairs, list(info.transitions.values()), atol=1e-3)


def test_min_frequency_leaves_out_what_is_rare():
    _, all_seen, *_ = _problem(min_frequency=1)
    _, frequent, *_ = _problem(min_frequency=3)
    assert 0 < frequent.n_parameters < all_seen.n_parameters / 2
    assert set(frequent.parameter_names) < set(all_seen.parameter_names)
    assert len(all_seen.input_of) == len(all_seen.groups) == all_seen.n_parameters == len(all_seen.parameter_names)


def test_estimator_saves_and_loads_what_was_seen(tmp_path):
    *_, X, y = _problem(12)
    crf = bf.BayesianCRF(0.5, possible="seen", min_frequency=2, correction="none").fit(X, y)
    assert len(crf.state_weights_) + len(crf.transition_weights_) == crf.crf_.n_parameters
    crf.posterior_.save(tmp_path / "tagger.bf")
    again = bf.load(tmp_path / "tagger.bf")
    assert again.field.parameter_names == crf.crf_.parameter_names
    inputs, lengths = rows_of(X[:3], {name: k for k, name in enumerate(crf.attributes_)})
    data = from_rows(crf.crf_, inputs, lengths)
    one, other = (bf.predict_sequences(p, data, "map") for p in (crf.posterior_, again))
    np.testing.assert_array_equal(one.probabilities, other.probabilities)


def test_what_cannot_be_is_refused():
    *_, X, y = _problem(3)
    with pytest.raises(InvalidInput, match="possible is"):
        bf.BayesianCRF(possible="some").fit(X, y)
    with pytest.raises(InvalidInput, match="min_frequency"):
        bf.BayesianCRF(min_frequency=2).fit(X, y)
    with pytest.raises(InvalidInput, match="plain chains"):
        bf.BayesianCRF(possible="seen", latent=2).fit(X, y)
