"""What to label next: scores against sums over all labellings of tiny chains, and the order that they give."""

import itertools

import numpy as np
import pytest
from scipy import sparse

import bayesfield as bf
from bayesfield.analysis.query import greedy

ALGEBRA = 1e-10
MONTE_CARLO = 0.03  # of 1,000 draws against 1,000 others: sd about 0.007


def _tagger(seed=0, count=12):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(int(rng.integers(2, 5)), 2)) for _ in range(count)]
    y = [["a" if row[0] > 0 else "b" if row[1] > 0 else "c" for row in x] for x in X]
    return bf.fit_sequences(bf.CRF(("a", "b", "c"), 2), X, y), rng


def _probabilities(crf, parameters, x):
    """p(y | x) of every labelling, by the sum over all of them."""
    W, V = crf.split(parameters)
    K, T = len(crf.labels), len(x)
    every = list(itertools.product(range(K), repeat=T))
    node, edge = x @ W, V.reshape(K, K)
    scores = [
        sum(node[t, k] for t, k in enumerate(y)) + sum(edge[a, b] for a, b in itertools.pairwise(y)) for y in every
    ]
    p = np.exp(np.array(scores) - max(scores))
    return np.array(every), p / p.sum()


def _entropy(p):
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def test_scores_are_those_of_all_labellings():
    """Entropies and mutual informations of single positions, averaged over as many draws of the same posterior."""
    posterior, rng = _tagger()
    pool = [rng.normal(size=(T, 2)) for T in (1, 2, 3, 4)]
    draws = 1000
    for per in ("position", "sequence"):
        scores = bf.query_scores(posterior, pool, per=per, n_draws=draws, rng=1)
        for s, x in enumerate(pool):
            marginals = np.zeros((draws, len(x), 3))
            for r, here in enumerate(posterior.sample(draws, 2)):
                labellings, p = _probabilities(posterior.field, here, x)
                for t, k in itertools.product(range(len(x)), range(3)):
                    marginals[r, t, k] = p[labellings[:, t] == k].sum()
            total = sum(_entropy(p) for p in marginals.mean(axis=0))
            left_open = np.mean([sum(_entropy(p) for p in one) for one in marginals])
            share = 1.0 / len(x) if per == "position" else 1.0
            assert scores["entropy"][s] == pytest.approx(share * total, abs=MONTE_CARLO)
            assert scores["unsettled"][s] == pytest.approx(share * (total - left_open), abs=MONTE_CARLO)


def test_least_confidence_is_that_of_the_best_of_all_labellings():
    posterior, rng = _tagger(1)
    pool = [rng.normal(size=(T, 2)) for T in (1, 3, 4)]
    for per, power in (("position", [1.0, 1 / 3, 1 / 4]), ("sequence", [1.0, 1.0, 1.0])):
        found = bf.query_scores(posterior, pool, per=per)["least_confidence"]
        best = [_probabilities(posterior.field, posterior.mode, x)[1].max() for x in pool]
        np.testing.assert_allclose(found, [1.0 - p**e for p, e in zip(best, power, strict=True)], atol=ALGEBRA)


@pytest.mark.parametrize("strategy", ["unsettled", "entropy", "least_confidence"])
def test_the_order_is_that_of_the_scores(strategy):
    posterior, rng = _tagger(2)
    pool = [rng.normal(size=(int(rng.integers(0, 5)), 2)) for _ in range(30)]
    chosen = bf.query(posterior, pool, 8, strategy)
    scores = bf.query_scores(posterior, pool)[strategy]
    assert len(set(chosen.tolist())) == 8
    assert (np.diff(scores[chosen]) <= 0).all()
    assert scores[chosen].min() >= scores.drop(chosen).max()
    everything = bf.query(posterior, pool, 1000, strategy)
    assert sorted(everything) == [s for s, x in enumerate(pool) if len(x)]  # what is empty teaches nothing


def test_a_diverse_batch_does_not_ask_the_same_thing_twice():
    """Ten copies of the most unsettled sequence in the pool: one of them is asked for, until nothing else is left."""
    posterior, rng = _tagger(3)
    others = [np.abs(rng.normal(size=(2, 2))) * [1.0, 0.0] for _ in range(3)]
    pool = [np.array([[0.0, 0.3], [0.0, -0.2]])] * 10 + others
    scores = bf.query_scores(posterior, pool)["unsettled"].to_numpy()
    plain, diverse = (bf.query(posterior, pool, 4, strategy) for strategy in ("unsettled", "diverse"))
    assert sum(k < 10 for k in diverse[:2]) == 1
    assert sum(k < 10 for k in plain[:2]) == (2 if scores[0] > scores[10:].max() else 0)
    assert sorted(bf.query(posterior, pool, 13, "diverse")) == list(range(13))


def test_the_greedy_choice_is_the_best_one_every_time():
    rng = np.random.default_rng(4)
    rows = np.abs(rng.normal(size=(12, 5))) * (rng.random((12, 5)) < 0.6)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    worth = rng.random(12)
    chosen = greedy(worth, sparse.csr_array(rows), 12).tolist()
    for step, k in enumerate(chosen):
        near = (rows @ rows[chosen[:step]].T).max(axis=1, initial=0.0)
        left = [j for j in range(12) if j not in chosen[:step]]
        assert worth[k] * (1.0 - near[k]) == pytest.approx(max(worth[j] * (1.0 - near[j]) for j in left), abs=ALGEBRA)


@pytest.mark.parametrize("per", ["position", "sequence"])
def test_reduction_is_the_greedy_choice_by_its_definition(per):
    """Position by position, weight by weight, everything computed anew after every choice; one input is new."""
    posterior, rng = _tagger(6)
    wider = bf.CRF(("a", "b", "c"), ("input0", "new", "input1"))
    pool = [rng.normal(size=(int(rng.integers(1, 5)), 3)) for _ in range(9)]
    q = [p * (1.0 - p) for p in (_marginals(posterior, x[:, [0, 2]]) for x in pool)]
    variance = np.full((3, 3), posterior.sd.max() ** 2)
    variance[[0, 2]] = (posterior.sd[:6] ** 2).reshape(2, 3)
    weight = sum(np.einsum("td,tk->dk", x**2, open_) for x, open_ in zip(pool, q, strict=True))
    expected, left = [], list(range(9))
    while left:
        told = [np.einsum("td,tk->dk", x**2, open_) for x, open_ in zip(pool, q, strict=True)]
        gain = [
            np.sum(weight * variance**2 * t) / (len(x) if per == "position" else 1)
            for t, x in zip(told, pool, strict=True)
        ]
        if len(left) == 9:
            first = bf.query_scores(posterior, pool, crf=wider, per=per)["reduction"]
            np.testing.assert_allclose(first, gain, rtol=1e-8)
        best = max(left, key=lambda k: gain[k])
        left.remove(best)
        expected.append(best)
        variance = variance / (1.0 + variance * told[best])
    assert bf.query(posterior, pool, 9, crf=wider, per=per).tolist() == expected
    assert bf.query(posterior, pool, 3, crf=wider, per=per).tolist() == expected[:3]


def _marginals(posterior, x):
    """As the query sees them, by the same draws."""
    return bf.predict_sequences(posterior, [x], "marginal", 100, 0).probabilities


def test_what_is_new_and_frequent_is_asked_for():
    """A word that half of the pool has and training has not, before a new word that comes once."""
    crf = bf.BayesianCRF().fit([[{"w": v} for v in "ab"]] * 20, [["N", "V"]] * 20)
    pool = [[{"w": "rare"}], [{"w": "a"}], *[[{"w": "frequent"}]] * 5]
    assert crf.query(pool, 1)[0] >= 2
    assert crf.query_scores(pool)["reduction"].idxmin() == 1


def test_the_estimator_asks_by_its_own_items():
    X = [[{"w": v} for v in s] for s in (["a", "b"], ["b"], ["c", "a"])] * 3
    y = [["N", "V"], ["V"], ["N", "N"]] * 3
    crf = bf.BayesianCRF().fit(X, y)
    pool = [[{"w": "a"}], [{"w": "never"}, {"w": "seen"}], [{"w": "b"}, {"w": "b"}]]
    scores = crf.query_scores(pool)
    for strategy in ("reduction", "unsettled", "least_confidence"):
        assert crf.query(pool, 1, strategy).tolist() == [scores[strategy].idxmax()]
    assert crf.query(pool, 1, "entropy", per="sequence").tolist() == [1]  # nothing but unknown words, and two of them
    assert list(scores["positions"]) == [1, 2, 2]
    doubt = crf.uncertainty(pool)
    np.testing.assert_allclose(scores["entropy"], [table["entropy"].mean() for table in doubt], atol=ALGEBRA)
    with pytest.raises(bf.InvalidInput, match="for a single sequence"):
        crf.query(pool[0], 1)


def test_what_is_refused():
    posterior, rng = _tagger(5)
    pool = [rng.normal(size=(2, 2))]
    for options, complaint in (
        ({"strategy": "bald"}, "strategy is one of"),
        ({"n": 0}, "n is how many"),
        ({"per": "word"}, "per is"),
    ):
        with pytest.raises(bf.InvalidInput, match=complaint):
            bf.query(posterior, pool, **options)
    with pytest.raises(bf.InvalidInput, match="not of graphs"):
        bf.query(posterior, [(np.zeros((2, 2)), np.array([[0, 1]]))])
    with pytest.raises(bf.InvalidInput, match="a posterior of a CRF"):
        bf.query(bf.fit(bf.grid(1, 2), np.array([[1, -1]])), pool)
