"""Probabilities of entities as wholes and the choice of the best ones, against enumeration."""

import itertools
import re

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.inference.trees.chain import chain_log_z, chain_marginals
from bayesfield.kernels.chains import spans as kernel
from bayesfield.kernels.chains.passes import ChainArrays
from bayesfield.learning.phases.crf_design import potentials
from bayesfield.model.conditional import CRF, as_sequences
from bayesfield.prediction.spans.predict import spans_of_labels
from bayesfield.prediction.spans.schemes import Scheme
from bayesfield.types import InvalidInput

from tolerances import ALGEBRA

EXACT = 1e-12
SCHEMES = {
    "BIO": ("O", "B-x", "I-x", "B-y", "I-y"),
    "two labels": ("O", "B-x"),
    "IOB1, B-y never seen": ("I-y", "O", "B-x", "I-x"),
    "BIO without O": ("B-x", "I-x", "B-y"),
    "IOBES": ("O", "B-x", "I-x", "E-x", "S-x"),
    "IOBES, two types, parts missing": ("O", "B-x", "E-x", "S-y", "I-x"),
    "BILOU": ("O", "B-x", "I-x", "L-x", "U-x"),
    "bare": ("B", "I", "O"),
}


def _conlleval(labels):
    """conlleval.pl's rules for B, I and O: where a chunk starts and where it has ended, by two neighbours."""
    spans, begin = [], None
    pairs = [(label if "-" in label else f"{label}-", after) for label, after in itertools.pairwise([*labels, "O-"])]
    before = "O-"
    for t, (label, _) in enumerate(pairs):
        (last, kind_before), (tag, kind) = before.split("-", 1), label.split("-", 1)
        ended = last != "O" and (tag in "BO" or kind != kind_before)
        starts = tag == "B" or (tag == "I" and (last == "O" or kind != kind_before))
        if ended:
            spans.append((begin, t, kind_before))
        if starts:
            begin = t
        before = label
    if before.split("-", 1)[0] != "O":
        spans.append((begin, len(labels), before.split("-", 1)[1]))
    return spans


def _by_pattern(labels):
    """IOBES: the maximal matches of S or B I* E, type by type."""
    found = []
    for kind in {label[2:] for label in labels if label != "O"}:
        text = "".join(label[0] if label[2:] == kind else "." for label in labels)
        text = text.replace("L", "E").replace("U", "S")
        found += [(m.start(), m.end(), kind) for m in re.finditer("S|BI*E", text)]
    return sorted(found)


@pytest.mark.parametrize("labels", SCHEMES.values(), ids=SCHEMES)
def test_spans_of_labels_are_those_of_conlleval(labels):
    scheme = Scheme(labels)
    for sequence in itertools.product(labels, repeat=4):
        wanted = _by_pattern(sequence) if scheme.whole else _conlleval(sequence)
        assert scheme.spans(sequence) == wanted, sequence


def _chains(K, rng):
    """Sequences of 0 to 4 positions with random potentials; two tables of transitions, some all but forbidden."""
    lengths = rng.integers(0, 5, size=4)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    node, edge = 2.0 * rng.normal(size=(ptr[-1], K)), 2.0 * rng.normal(size=(2, K, K))
    edge[rng.random(edge.shape) < 0.1] = -30.0
    return ChainArrays(ptr, rng.integers(0, 2, size=ptr[-1])), node, edge


def _enumerated(scheme, chains, node, edge, s):
    """p(span) for every span of sequence s that any labelling marks."""
    begin, end = chains.ptr[s], chains.ptr[s + 1]
    total, spans = 0.0, {}
    for states in itertools.product(range(node.shape[1]), repeat=int(end - begin)):
        score = sum(node[begin + t, k] for t, k in enumerate(states))
        score += sum(edge[chains.which[begin + t], a, b] for t, (a, b) in enumerate(itertools.pairwise(states)))
        total += np.exp(score)
        for first, last, kind in scheme.spans([scheme.labels[k] for k in states]):
            place = (s, begin + first, begin + last, scheme.kinds.index(kind))
            spans[place] = spans.get(place, 0.0) + np.exp(score)
    return {place: weight / total for place, weight in spans.items()}


@pytest.mark.parametrize("labels", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("seed", range(8))
def test_probabilities_are_those_of_enumeration(labels, seed):
    scheme = Scheme(labels)
    chains, node, edge = _chains(len(labels), np.random.default_rng(seed))
    m, marks = chain_marginals(chains, node, edge).messages, scheme.marks()
    wanted = {}
    for s in range(len(chains.ptr) - 1):
        wanted |= _enumerated(scheme, chains, node, edge, s)
    places = np.array(sorted(wanted), dtype=np.int64).reshape(-1, 4)
    each = np.empty(len(places))
    kernel.span_probabilities(chains, m, marks, *(np.ascontiguousarray(c) for c in places.T), each)
    np.testing.assert_allclose(each, [wanted[tuple(place)] for place in places], rtol=0, atol=EXACT)
    assert kernel.expected_spans(chains, m, marks) == pytest.approx(sum(wanted.values()), abs=EXACT)
    least, room = 0.05, np.empty((200, 4), dtype=np.int64)
    count = kernel.likely_spans(chains, m, marks, least, room)
    assert {tuple(row) for row in room[:count].tolist()} == {tuple(p) for p in wanted if wanted[p] >= least}


@pytest.mark.parametrize("labels", ["BIO", "IOBES"])
def test_the_posteriors_spans_are_those_of_enumeration_at_its_draws(labels):
    rng = np.random.default_rng(5)
    scheme = Scheme(SCHEMES[labels])
    crf = CRF(SCHEMES[labels], 3)
    y = [rng.choice(scheme.labels, size=6).tolist() for _ in range(4)]
    posterior = bf.fit_sequences(
        crf, [rng.normal(size=(6, 3)) for _ in y], y, bf.Normal(variance=3.0), correction="none"
    )
    data = as_sequences(crf, [rng.normal(size=(4, 3))])
    guess = np.array([1, 2, 2, 1] if labels == "BIO" else [1, 2, 3, 4])
    (found,) = spans_of_labels(posterior, data, guess, 7, 3)
    assert len(found) == 2
    chains = ChainArrays(data.ptr, data.which)
    at_draws = [
        _enumerated(scheme, chains, *potentials(crf, data, parameters), 0) for parameters in posterior.sample(7, 3)
    ]
    for first, end, kind, probability in found:
        place = (0, first, end, scheme.kinds.index(kind))
        assert probability == pytest.approx(np.mean([p[place] for p in at_draws]), abs=EXACT)


@pytest.mark.parametrize("labels", ["BIO", "IOBES"])
@pytest.mark.parametrize("seed", range(5))
def test_expected_f1_is_the_largest_of_all_sets(labels, seed):
    rng = np.random.default_rng(seed)
    crf = CRF(SCHEMES[labels], 2)
    y = [rng.choice(SCHEMES[labels], size=5).tolist() for _ in range(6)]
    X = [rng.normal(size=(5, 2)) for _ in y]
    posterior = bf.fit_sequences(crf, X, y, bf.Normal(variance=2.0), correction="none")
    new = [rng.normal(size=(3, 2)), rng.normal(size=(2, 2))]
    chosen = bf.predict_spans(posterior, new, "map", "f1")
    data, scheme = as_sequences(crf, new), Scheme(crf.labels)
    chains, tables = ChainArrays(data.ptr, data.which), potentials(crf, data, posterior.mode)
    p = {place: v for s in range(2) for place, v in _enumerated(scheme, chains, *tables, s).items()}
    number, best = sum(p.values()), 0.0
    for size in range(1, 6):
        for some in itertools.combinations([place for place in p if p[place] > 0.02], size):
            ends = sorted((first, end) for _, first, end, _ in some)
            if all(a[1] <= b[0] for a, b in itertools.pairwise(ends)):
                best = max(best, 2 * sum(p[place] for place in some) / (size + number))
    flat = [span for own in chosen for span in own]
    assert 2 * sum(s.probability for s in flat) / (len(flat) + number) == pytest.approx(best, rel=ALGEBRA)
    for own in chosen:
        assert all(a.end <= b.first for a, b in itertools.pairwise(own))


X = [[["a"], ["b"], ["c"], ["d"]], [["a"], ["c"], ["b"], ["b"]]]
Y = [["B-x", "I-x", "O", "B-y"], ["B-x", "O", "O", "O"]]


def test_spans_of_the_estimator():
    crf = bf.BayesianCRF(1.0).fit(X * 6, Y * 6)
    spans = crf.predict_spans(X)
    assert [s[:3] for s in spans[0]] == [(0, 2, "x"), (3, 4, "y")]
    assert all(0.0 < s.probability < 1.0 for own in spans for s in own)
    plug_in = bf.BayesianCRF(1.0, predictor="map").fit(X * 6, Y * 6).predict_spans(X[:1])[0][0]
    assert plug_in.probability != spans[0][0].probability
    best = crf.predict_spans(X, "f1")
    assert [s[:3] for s in best[0]] == [(0, 2, "x"), (3, 4, "y")]
    sure = crf.predict_spans(X, "f1", threshold=best[0][0].probability + 1e-6)
    assert all(s.probability > best[0][0].probability for own in sure for s in own)
    assert crf.predict_spans([]) == []
    assert crf.predict_spans([], "f1") == []


def test_a_mean_field_posterior_draws_potentials():
    crf = bf.BayesianCRF(1.0).fit(X * 6, Y * 6)
    posterior = bf.fit_sequences(crf.crf_, crf._shape.data(X * 6, Y * 6), form="mean-field", verbose=False)
    data = crf._shape.data(X)
    labelled = bf.predict_spans(posterior, data)
    chosen = bf.predict_spans(posterior, data, decode="f1")
    assert [s[:3] for s in labelled[0]] == [s[:3] for s in chosen[0]] == [(0, 2, "x"), (3, 4, "y")]
    assert chosen[0][0].probability == pytest.approx(labelled[0][0].probability, abs=0.1)


def test_table_scores_and_reliability():
    spans = [[bf.Span(0, 2, "x", 0.9), bf.Span(3, 4, "y", 0.3)], [bf.Span(0, 1, "x", 0.85)], []]
    y = [["B-x", "I-x", "O", "O"], ["B-x", "O", "O", "O"], ["B-y", "I-y"]]
    assert bf.span_scores(spans, y) == pytest.approx((2 / 3, 2 / 3, 2 / 3))
    table = bf.span_reliability(spans, y)
    assert table["cells"].tolist() == [1, 1, 1]
    assert table["observed"].tolist() == [0.0, 1.0, 1.0]
    assert table["predicted"].tolist() == pytest.approx([0.3, 0.85, 0.9])
    rows = bf.span_table(spans, [["New", "York", "is", "big"], ["Rome", "was", "not", "built"], ["x", "y"]])
    assert rows["words"].tolist() == ["New York", "big", "Rome"]
    assert rows["sequence"].tolist() == [0, 0, 1]
    assert bf.span_scores([[bf.Span(0, 1, "x", 0.5)]], [["O", "O"]])[0] == 0.0
    assert bf.span_table([[]]).columns.tolist() == ["sequence", "first", "end", "label", "probability"]


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="B-type"):
        bf.BayesianCRF(1.0, correction="none").fit([[["a"], ["b"]]], [["one", "two"]]).predict_spans([[["a"]]])
    with pytest.raises(InvalidInput, match="B-type"):
        bf.span_scores([[]], [["NP", "VP"]])
    with pytest.raises(InvalidInput, match="X-a"):
        Scheme(["B-a", "X-a"])
    with pytest.raises(InvalidInput, match="not both"):
        Scheme(["B-a", "E-a", "L-a"])
    crf = bf.BayesianCRF(1.0, correction="none").fit(X, Y)
    with pytest.raises(InvalidInput, match="decode"):
        crf.predict_spans(X, "best")
    with pytest.raises(InvalidInput, match="threshold"):
        crf.predict_spans(X, threshold=0.5)
    with pytest.raises(InvalidInput, match="same sequences"):
        bf.span_scores([[]], Y)
    with pytest.raises(InvalidInput, match="None marks"):
        bf.span_scores([[]], [["B-x", None]])
    with pytest.raises(InvalidInput, match="ends later"):
        bf.span_table([[bf.Span(0, 3, "x", 0.5)]], [["a", "b"]])


def test_potentials_beyond_plain_numbers_are_refused(monkeypatch):
    crf = bf.BayesianCRF(1.0, correction="none", predictor="map").fit(X, Y)
    far = np.where(np.eye(len(crf.classes_), dtype=bool), 0.0, -2000.0)[None]
    nodes = -2000.0 * np.arange(4 * len(crf.classes_)).reshape(4, -1) % 7000.0
    monkeypatch.setattr("bayesfield.learning.phases.chain.potentials", lambda *_: (nodes, far))
    with pytest.raises(InvalidInput, match="scale of about one"):
        crf.predict_spans(X[:1], "f1")


def test_log_z_of_potentials_beyond_plain_numbers():
    """K = 3, two positions: the sum over nine labellings in logs."""
    node = np.array([[0.0, -900.0, -1800.0], [-1800.0, -900.0, 0.0]])
    edge = np.array([[[-5.0, -2000.0, -3000.0], [0.0, 0.0, 0.0], [0.0, 1.0, 2.0]]])
    scores = [node[0, i] + node[1, j] + edge[0, i, j] for i in range(3) for j in range(3)]
    chains = ChainArrays(np.array([0, 2]), np.zeros(2, dtype=np.int64))
    assert not chain_marginals(chains, node, edge).finite
    assert chain_log_z(chains, node, edge)[0] == pytest.approx(np.logaddexp.reduce(scores), rel=ALGEBRA)
