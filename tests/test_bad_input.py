"""What cannot be used is refused: what was needed, what came, what to do. One row a mistake."""

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf

FIELD = bf.grid(2, 2)
X = np.ones((3, 4), dtype=int)
NAMED = bf.pairwise(3, [(0, 1)], names=["a", "b", "c"])

MISTAKES = {
    "too few parameters": (lambda: bf.infer(FIELD, [1.0]), r"\(8,\).*got \(1,\)"),
    "infinite parameter": (lambda: bf.infer(FIELD, [np.inf] * 8), "finite"),
    "wrong name": (
        lambda: bf.infer(FIELD, np.zeros(8), "extract"),
        r"bf\.Exact\(\).*\"exact\".*got 'extract'",
    ),
    "form": (lambda: bf.fit(FIELD, X, form="thin"), "matrix-free.*'thin'"),
    "sparse form of exact inference": (lambda: bf.fit(FIELD, X, engine="exact", form="sparse"), "linear response"),
    "sampling by Bethe": (lambda: bf.sample(FIELD, np.zeros(8), 2, engine=bf.Bethe()), r"bf\.Sampled\(\); got Bethe"),
    "engine class": (lambda: bf.infer(FIELD, np.zeros(8), bf.Exact), "an engine is an object"),
    "one row": (lambda: bf.fit(FIELD, X[0]), r"\(cases, 4\).*got \(4,\).*reshape"),
    "too many columns": (lambda: bf.fit(FIELD, np.ones((3, 5))), r"got \(3, 5\)"),
    "ragged rows": (lambda: bf.fit(FIELD, [[1, 1, 1, 1], [1, 1]]), "one column for each variable"),
    "unknown state": (lambda: bf.fit(FIELD, 2 * X), r"holds 2, which is not one of its states \(-1, 1\)"),
    "text for numbers": (lambda: bf.fit(FIELD, X.astype(str)), "holds '1', which is not one of its states"),
    "missing": (
        lambda: bf.fit(FIELD, np.where(X * [1, 0, 1, 1], 1.0, np.nan)),
        r"no case observes 'x\[0,1\]'; if it is a hidden",
    ),
    "missing in a frame": (
        lambda: bf.fit(NAMED, pd.DataFrame({"a": [1], "b": [pd.NA], "c": [0]})),
        "no case observes 'b'",
    ),
    "column misspelt": (lambda: NAMED.encode(pd.DataFrame({"a": [1], "B": [0], "c": [0]})), "has no column 'b'"),
    "column twice": (lambda: NAMED.encode(pd.DataFrame([[1, 0, 0]], columns=["a", "a", "c"])), "different names"),
    "negative variance": (lambda: bf.Normal(variance=-1.0), "above zero; got -1.0"),
    "zero variance": (lambda: bf.Normal(variance=[1.0, 0.0]), "above zero"),
    "variance in words": (lambda: bf.Normal(variance="wide"), "must be numbers"),
    "variance and covariance": (lambda: bf.Normal(variance=1.0, covariance=np.eye(2)), "either"),
    "no variance": (lambda: bf.Normal(), "either"),
    "too few variances": (lambda: bf.fit(FIELD, X, bf.Normal(variance=[1.0, 2.0])), r"one number or 8.*\(2,\)"),
    "unknown group": (lambda: bf.fit(FIELD, X, bf.Normal(variance={"nodes": 1.0})), "'edges'"),
    "covariance shape": (lambda: bf.fit(FIELD, X, bf.Normal(covariance=np.eye(3))), r"\(8, 8\); got \(3, 3\)"),
    "covariance skew": (lambda: bf.fit(FIELD, X, bf.Normal(covariance=np.triu(np.ones((8, 8))))), "symmetric"),
    "covariance indefinite": (lambda: bf.fit(FIELD, X, bf.Normal(covariance=np.ones((8, 8)))), "positive definite"),
    "mean not finite": (lambda: bf.Normal(variance=1.0, mean=np.nan), "finite"),
    "prior is a number": (lambda: bf.fit(FIELD, X, 0.25), r"bf\.Normal"),
    "unknown method": (
        lambda: bf.fit(FIELD, X, method="sgd"),
        r'"newton", "lbfgs", "ep", "pseudo_likelihood".*got .sgd',
    ),
    "start of wrong length": (lambda: bf.fit(FIELD, X, start=[1.0]), "8 finite numbers"),
    "no tolerance": (lambda: bf.fit(FIELD, X, tolerance=0.0), "above zero"),
    "table of wrong shape": (
        lambda: bf.RandomField({"a": 2, "b": 3}, [bf.Factor(("a", "b"), {"w": np.ones((3, 2))})]),
        r"feature 'w'.*needs shape \(2, 3\).*got \(3, 2\)",
    ),
    "ragged table": (lambda: bf.RandomField({"a": 2}, [bf.Factor("a", log_table=[[1, 2], [3]])]), "table of numbers"),
    "NaN in a table": (lambda: bf.RandomField({"a": 2}, [bf.Factor("a", log_table=[0, np.nan])]), "NaN"),
    "infinite feature": (lambda: bf.RandomField({"a": 2}, [bf.Factor("a", {"h": [0, -np.inf]})]), "not finite"),
    "negative potential": (lambda: bf.Factor.from_potential(["a"], [1.0, -1.0]), "≥ 0; got -1.0"),
    "unknown variable": (lambda: bf.RandomField({"a": 2}, [bf.Factor("b", log_table=[0, 0])]), "'b', which is not"),
    "variable twice in a scope": (
        lambda: bf.RandomField({"a": 2}, [bf.Factor(("a", "a"), log_table=np.zeros((2, 2)))]),
        "twice",
    ),
    "same name twice": (lambda: bf.RandomField([bf.Variable("a"), bf.Variable("a")]), "'a' is given twice"),
    "no states": (lambda: bf.Variable("a", ()), "at least one state"),
    "state twice": (lambda: bf.Variable("a", ("u", "u")), "must differ"),
    "names for variables": (lambda: bf.RandomField(["a", "b"]), r"bf\.Variable"),
    "constant feature": (lambda: bf.RandomField({"a": 2}, [bf.Factor((), {"c": 1.0})]), "constant"),
    "group of no parameter": (lambda: bf.RandomField({"a": 2}, [], groups={"q": "g"}), "'q', which is not a parameter"),
    "edge out of range": (lambda: bf.pairwise(3, [(0, 3)]), r"edge \(0, 3\) leaves the variables 0 to 2"),
    "edge to itself": (lambda: bf.pairwise(3, [(1, 1)]), r"\(1, 1\) joins a variable to itself"),
    "edge of halves": (lambda: bf.pairwise(3, [(0, 1.5)]), "float64"),
    "edges is a number": (lambda: bf.pairwise(3, 5), "pairs of variable numbers"),
    "wrong number of names": (lambda: bf.pairwise(3, [], names=["a"]), "each of the 3 variables; got 1"),
    "unknown interaction": (lambda: bf.potts(2, [(0, 1)], interaction="full"), "'full'"),
    "half a grid": (lambda: bf.grid(2.5, 2), "whole numbers"),
    "unknown schedule": (lambda: bf.Bethe(schedule="random"), "'random'"),
    "full damping": (lambda: bf.Bethe(damping=1.0), r"\[0, 1\)"),
    "unknown response": (lambda: bf.Bethe(linear_response="dense"), "'dense'"),
    "evidence on nothing": (lambda: bf.infer(NAMED, np.zeros(4), evidence={"d": 0}), "no variable 'd'"),
    "evidence out of states": (lambda: bf.infer(NAMED, np.zeros(4), evidence={"a": 2}), "evidence gives 2"),
    "half a sample": (lambda: bf.sample(FIELD, np.zeros(8), 2.5), "whole number"),
    "negative draws": (lambda: bf.fit(FIELD, X).sample(-1), "must not be negative"),
    "level of 95": (lambda: bf.fit(FIELD, X).summary(95), "between 0 and 1"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_refused_in_plain_words(name):
    mistake, complaint = MISTAKES[name]
    with pytest.raises(bf.InvalidInput, match=f"(?s){complaint}") as caught:
        mistake()
    assert len(str(caught.value)) > 25


TOO_LARGE = {
    "exact on a large grid": (lambda: bf.infer(bf.grid(60, 60), np.zeros(10_680), bf.Exact()), r"Use bf\.Bethe"),
    "sampling it": (lambda: bf.sample(bf.grid(60, 60), np.zeros(10_680), 2), r"Use bf\.Bethe"),
    "enumeration": (lambda: bf.infer(bf.grid(7, 7), np.zeros(133), bf.Enumeration()), r"joint states.*Use bf\.Exact"),
    "dense covariance": (lambda: bf.covariance(bf.grid(300, 300), np.zeros(269_400), bf.Bethe()), "269,400 × 269,400"),
    "dense posterior": (lambda: bf.fit(bf.grid(300, 300), np.ones((1, 90_000)), form="dense"), "Tie parameters"),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_cannot_fit_is_refused_before_it_is_allocated(name):
    job, advice = TOO_LARGE[name]
    with pytest.raises(bf.TooLarge, match=f"(?s)GiB.*{advice}|{advice}"):
        job()


def test_memory_is_asked_before_the_tree_is_built(monkeypatch):
    """The same job passes or is refused by what is free now."""
    field = bf.grid(16, 16)  # beyond what there always is
    monkeypatch.setattr("bayesfield.memory.available_bytes", lambda: 1000)
    with pytest.raises(bf.TooLarge, match=r"table entries.*Use bf\.Bethe"):
        bf.infer(field, np.zeros(736), bf.Exact())
    monkeypatch.undo()
    assert bf.infer(field, np.zeros(736), bf.Exact()).log_z == pytest.approx(256 * np.log(2))
