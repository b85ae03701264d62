"""Models and groups of cases against one another."""

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf

PRIOR = bf.Normal(variance=0.5)


def chain_data(n_cases=300, seed=0, parameters=(0.2, -0.3, 0.1, 0.9, -0.8)):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(bf.sample(bf.chain(3), parameters, n_cases, rng), columns=["x0", "x1", "x2"])


def test_the_model_of_the_data_wins():
    X = chain_data()
    loop = bf.pairwise(3, [(0, 1), (1, 2), (0, 2)], (-1, 1))
    models = {"chain": bf.chain(3), "loop": loop, "independent": bf.pairwise(3, [], (-1, 1))}
    posteriors = {name: bf.fit(field, X, PRIOR) for name, field in models.items()}
    table = bf.compare(posteriors)
    assert table.index[0] == "chain"
    assert abs(table["probability"].sum() - 1.0) < 1e-12
    assert table["log_bayes_factor"].iloc[0] == 0.0
    assert table.loc["independent", "log_bayes_factor"] < -20
    for name, posterior in posteriors.items():
        assert table.loc[name, "log_evidence"] == posterior.log_evidence
        assert table.loc[name, "parameters"] == len(posterior.mean)
    odds = bf.compare(posteriors, prior=[0.1, 0.9, 0.0])["probability"]
    ratio = np.exp(table.loc["chain", "log_evidence"] - table.loc["loop", "log_evidence"]) / 9
    assert abs(odds["chain"] / odds["loop"] - ratio) < 1e-9
    assert odds["independent"] == 0.0


def test_same_data_in_another_order_and_with_hidden_variables():
    X = chain_data(60)
    shuffled = X.sample(frac=1.0, random_state=1)
    swapped = bf.RandomField(
        {"x2": (1, -1), "x0": (-1, 1), "x1": (-1, 1)}, [bf.Factor(("x0", "x2"), {"pull": [[1, 0], [0, 1]]})]
    )
    hidden = bf.mixture(3, 2, (-1, 1), names=["x0", "x1", "x2"])
    table = bf.compare(
        [bf.fit(bf.chain(3), X, PRIOR), bf.fit(swapped, shuffled, PRIOR), bf.fit(hidden, X, PRIOR, correction="none")]
    )
    assert set(table.index) == {"model 0", "model 1", "model 2"}


def test_conditional_models_compare_by_their_labels():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(8, 3)) for _ in range(20)]
    y = [(x[:, 0] > 0).astype(int).tolist() for x in X]
    good = bf.fit_sequences(bf.CRF((0, 1), 1), [x[:, :1] for x in X], y)
    bad = bf.fit_sequences(bf.CRF((0, 1), 2), [x[:, 1:] for x in X], y)
    assert list(bf.compare({"bad": bad, "good": good}).index) == ["good", "bad"]
    other = bf.fit_sequences(bf.CRF((0, 1), 1), [x[:, :1] for x in X], [[1 - v for v in labels] for labels in y])
    with pytest.raises(bf.InvalidInput, match="different data"):
        bf.compare([good, other])


def test_graphs_compare_by_their_labels():
    """The same labels in another order of states are the same data; exchanged labels are not."""
    rng = np.random.default_rng(3)
    X = [(rng.normal(size=(4, 2)), np.array([[0, 1], [1, 2], [2, 3]])) for _ in range(10)]
    y = [["A" if v > 0 else "B" for v in x[:, 0]] for x, _ in X]
    swapped = [["B" if v == "A" else "A" for v in labels] for labels in y]
    one, same, other = (
        bf.fit_graphs(bf.CRF(labels, 2), X, given, correction="none")
        for labels, given in ((("A", "B"), y), (("B", "A"), y), (("B", "A"), swapped))
    )
    assert abs(np.diff(bf.compare([one, same])["log_evidence"])[0]) < 0.2
    with pytest.raises(bf.InvalidInput, match="different data"):
        bf.compare([one, other])


def test_learned_priors_are_marked():
    X = chain_data(100)
    table = bf.compare({"given": bf.fit(bf.chain(3), X, PRIOR), "ard": bf.fit(bf.chain(3), X, bf.ARD())})
    assert table["learned"].to_dict() == {"given": 0, "ard": 5}


def test_an_excluded_model_has_no_probability():
    X = chain_data(400)
    table = bf.compare({"none": bf.fit(bf.pairwise(3, [], (-1, 1)), X), "chain": bf.fit(bf.chain(3), X)}, prior=[1, 0])
    assert table["probability"].to_dict() == {"none": 1.0, "chain": 0.0}


def test_groups_that_differ_in_one_coupling():
    first, second = chain_data(800, 3), chain_data(800, 4, (0.2, -0.3, 0.1, 0.9, 0.3))
    both, groups = pd.concat([first, second], ignore_index=True), ["a"] * 800 + ["b"] * 800
    found = bf.compare_groups(bf.chain(3), both, groups, PRIOR)
    assert found.log_bayes_factor > 20
    table = found.differences.set_index("parameter")
    assert table.loc["x1*x2", "at_10"] == "included"
    assert (table.drop(index="x1*x2")["at_10"] != "included").all()
    assert table.loc["x1*x2", "difference"] == pytest.approx(-1.1, abs=4 * table.loc["x1*x2", "sd"])
    parts = found.parts.set_index("group")["log_bayes_factor"]
    assert parts["edges"] > 10
    assert parts["nodes"] < 0
    assert "parameters of their own" in str(found)
    assert set(found.posteriors) == {"a", "b"}


def test_groups_that_are_alike():
    """The whole is the difference of the evidences."""
    X = chain_data(600, 5)
    found = bf.compare_groups(bf.chain(3), X, [0, 1] * 300, PRIOR)
    assert found.log_bayes_factor < -3
    assert "in common" in str(found)
    a, b = found.posteriors[0].evidence(), found.posteriors[1].evidence()
    assert found.log_bayes_factor == pytest.approx(a.value + b.value - found.pooled.evidence().value)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda p, X: bf.compare([p]), "two posteriors or more"),
        (lambda p, X: bf.compare([p, "x"]), "two posteriors or more"),
        (lambda p, X: bf.compare([p, p], prior=[0.5, 0.6]), "sum to one"),
        (lambda p, X: bf.compare([p, bf.fit(bf.chain(3), X[:-1], PRIOR)]), "different data"),
        (lambda p, X: bf.compare([p, bf.fit(bf.chain(3), X, method="pseudo_likelihood")]), "has no evidence"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1] * len(X)), "at least two groups"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1, 2]), "one entry for each"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1, None] * 15), "every case needs a group"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1, 2] * 15, bf.ARD()), "one fixed prior"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1, 2] * 15, 1.0), "the prior is a bf.Normal"),
        (lambda p, X: bf.compare_groups(bf.chain(3), X, [1, 2] * 15, bf.Normal(covariance=np.eye(5))), "covariance"),
        (lambda p, X: bf.compare(p), "two posteriors or more"),
        (lambda p, X: bf.compare([p, p], prior="even"), "must be numbers"),
    ],
)
def test_bad_input(call, reason):
    X = chain_data(30)
    with pytest.raises(bf.InvalidInput, match=reason):
        call(bf.fit(bf.chain(3), X, PRIOR), X)
