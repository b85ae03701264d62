"""Probabilities of entities as wholes, against enumeration."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.prediction.spans import _marked, _tags, _whole, spans_of_labels
from bayesfield.types import InvalidInput

EXACT = 1e-12
BIO = ("O", "B-x", "I-x", "B-y", "I-y")
IOBES = ("O", "B-x", "I-x", "E-x", "S-x")


def _enumerated(crf, data, parameters, span, tags):
    """Σ of the probabilities of all labellings in which the span is marked."""
    node, edge = potentials(crf, data, parameters)
    total = hit = 0.0
    for labels in itertools.product(range(len(crf.labels)), repeat=data.positions):
        score = sum(node[t, k] for t, k in enumerate(labels))
        score += sum(edge[0, a, b] for a, b in itertools.pairwise(labels))
        weight = np.exp(score)
        total += weight
        if span in _marked([tags[k] for k in labels], _whole(tags)):
            hit += weight
    return hit / total


@pytest.mark.parametrize("labels", [BIO, IOBES])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_probability_of_a_span_is_that_of_enumeration(labels, seed):
    rng = np.random.default_rng(seed)
    crf = CRF(labels, 3)
    data = as_sequences(crf, [rng.normal(size=(5, 3))])
    y = [rng.choice(labels, size=6).tolist() for _ in range(4)]
    prior = bf.Normal(variance=3.0)
    posterior = bf.fit_sequences(crf, [rng.normal(size=(6, 3)) for _ in y], y, prior, correction="none")
    parameters = posterior.mode
    tags = _tags(crf)
    guess = rng.integers(len(labels), size=5)
    guess[:3] = [1, 2, 2] if labels is BIO else [1, 2, 3]
    (found,) = spans_of_labels(posterior, data, guess, 0)
    assert found
    for first, end, kind, probability in found:
        wanted = _enumerated(crf, data, parameters, (first, end, kind), tags)
        assert probability == pytest.approx(wanted, abs=EXACT)


def test_spans_of_the_estimator():
    X = [[["a"], ["b"], ["c"], ["d"]], [["a"], ["c"], ["b"], ["b"]]] * 6
    y = [["B-x", "I-x", "O", "B-y"], ["B-x", "O", "O", "O"]] * 6
    crf = bf.BayesianCRF(1.0).fit(X, y)
    spans = crf.predict_spans(X[:2])
    assert [s[:3] for s in spans[0]] == [(0, 2, "x"), (3, 4, "y")]
    assert all(0.0 < s.probability < 1.0 for own in spans for s in own)
    plug_in = bf.BayesianCRF(1.0, predictor="map").fit(X, y).predict_spans(X[:1])[0][0]
    assert plug_in.probability != spans[0][0].probability


def test_labels_that_mark_nothing_are_refused():
    crf = bf.BayesianCRF(1.0, correction="none").fit([[["a"], ["b"]]], [["one", "two"]])
    with pytest.raises(InvalidInput, match="B-type"):
        crf.predict_spans([[["a"]]])
