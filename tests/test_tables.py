"""Tables of every library say the same: columns are matched by name, wherever they stand, or refused."""

import inspect

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from sklearn.base import BaseEstimator

import bayesfield as bf
from bayesfield.tabular import as_table, has_names, like

pytestmark = pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
NAMES = ["anger", "sleep", "worry", "x1", "x0"]  # two of them are names that builders give, in the other order
rng = np.random.default_rng(3)
base = rng.integers(0, 2, size=(60, 1))
WHOLE = pd.DataFrame(np.where(rng.random((60, 5)) < 0.7, base, 1 - base), columns=NAMES)
HOLED = WHOLE.astype(float).mask(rng.random(WHOLE.shape) < 0.1)
NUMBERS = pd.DataFrame(base * 3.0 + rng.normal(size=(60, 5)), columns=NAMES)
SHUFFLED = ["x0", "sleep", "x1", "anger", "worry"]


class Stream:
    """A table of a library that nobody has heard of, which hands out Arrow's streams."""

    def __init__(self, table):
        self._table = pa.Table.from_pandas(table, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self):
        return len(self._table)


KINDS = {
    "pandas": lambda t: t,
    "polars": lambda t: pl.from_dict({c: [None if v != v else v for v in t[c]] for c in t}),
    "lazy polars": lambda t: pl.from_dict({c: t[c].tolist() for c in t}).lazy(),
    "pyarrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
    "narwhals": lambda t: narwhals.from_native(pl.from_dict({c: t[c].tolist() for c in t})),
    "structured": lambda t: t.to_records(index=False),
    "dataset": lambda t: xr.Dataset.from_dataframe(t),
    "data array": lambda t: xr.DataArray(t.to_numpy(), dims=("case", "item"), coords={"item": list(t.columns)}),
    "stream": Stream,
    "dict": lambda t: {c: t[c].to_numpy() for c in t},
}
ONE_BY_ONE = [kind for kind in KINDS if kind not in ("dict", "lazy polars")]  # a dict is a position's attributes
ESTIMATORS = {
    "IsingNetwork": (bf.IsingNetwork(n_draws=20, correction="none"), HOLED),
    "PottsNetwork": (bf.PottsNetwork(n_draws=20, correction="none"), HOLED),
    "OrdinalNetwork": (bf.OrdinalNetwork(n_draws=20, correction="none"), HOLED),
    "RBM": (bf.RBM(1, n_draws=10, correction="none"), WHOLE),
    "BoltzmannMachine": (bf.BoltzmannMachine(1, n_draws=10, correction="none"), WHOLE),
    "LatticeField": (bf.LatticeField(shape=(1, 5), n_draws=10, correction="none"), WHOLE),
    "HiddenChain": (bf.HiddenChain(2, n_draws=10, correction="none"), NUMBERS),
}
SEQUENCES = ("BayesianCRF", "GraphCRF")  # whose tables are one for each sequence or graph
IMAGES = ("HiddenLattice",)  # whose columns are pixels
QUESTIONS = ("predict_proba", "predict", "score_samples", "impute", "hidden_proba", "site_probabilities", "score")


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    estimator, table = ESTIMATORS[request.param]
    return estimator.fit(table), table


def test_no_estimator_is_left_out():
    kinds = [n for n in bf.__all__ if inspect.isclass(getattr(bf, n)) and issubclass(getattr(bf, n), BaseEstimator)]
    assert sorted([*ESTIMATORS, *SEQUENCES, *IMAGES]) == sorted(kinds)


def by_name(answer):
    """An answer of a table, by the names of its columns; any other as it is."""
    if not has_names(answer):
        return np.asarray(answer, dtype=object)
    table = as_table(answer)
    return table[sorted(table.columns)].to_numpy(dtype=object)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_go_by_name(fitted, kind):
    estimator, table = fitted
    there = [name for name in QUESTIONS if hasattr(estimator, name)]
    assert "score_samples" in there
    for name in there:
        ask = getattr(estimator, name)
        np.testing.assert_array_equal(by_name(ask(KINDS[kind](table[SHUFFLED]))), by_name(ask(table)), err_msg=name)


def test_a_fit_goes_by_name(fitted):
    """The order of columns is that of the variables, and no more: the answers of both fits agree to rounding."""
    estimator, table = fitted
    for kind in ("polars", "pyarrow", "structured", "data array"):
        again = type(estimator)(**estimator.get_params()).fit(KINDS[kind](table))
        np.testing.assert_array_equal(again.posterior_.mean, estimator.posterior_.mean)
        assert again.posterior_.field.parameter_names == estimator.posterior_.field.parameter_names
        np.testing.assert_array_equal(again.score_samples(table), estimator.score_samples(table))
    if type(estimator) in (bf.RBM, bf.BoltzmannMachine, bf.LatticeField):  # starts by place; neighbours by place
        return
    other = type(estimator)(**estimator.get_params()).fit(KINDS["polars"](table[SHUFFLED]))
    if isinstance(estimator, bf.HiddenChain):
        np.testing.assert_allclose(other.means_[:, [SHUFFLED.index(n) for n in NAMES]], estimator.means_, atol=1e-3)
        return
    ours, theirs = estimator.edges_, other.edges_
    found = {frozenset(r[:2]): r[2] for r in zip(theirs["first"], theirs["second"], theirs["mean"], strict=True)}
    for first, second, mean in zip(ours["first"], ours["second"], ours["mean"], strict=True):
        assert abs(found[frozenset((first, second))] - mean) < 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_other_names_is_refused(fitted, kind):
    estimator, table = fitted
    for odd in (table.rename(columns={"sleep": "Sleep"}), table.drop(columns="sleep")):
        with pytest.raises(bf.InvalidInput, match="no column 'sleep'"):
            estimator.score_samples(KINDS[kind](odd))
    with pytest.raises(bf.InvalidInput, match="is one of 'anger'"):
        estimator.score_samples(KINDS[kind](table.set_axis(list("abcde"), axis=1)))


def test_answers_are_tables_of_the_same_kind():
    network = ESTIMATORS["IsingNetwork"][0]
    network.fit(KINDS["polars"](HOLED))
    assert isinstance(network.sample(3), pl.DataFrame)
    for kind, wanted in (("polars", pl.DataFrame), ("pyarrow", pa.Table), ("pandas", pd.DataFrame)):
        filled = network.impute(KINDS[kind](HOLED[SHUFFLED]))
        assert isinstance(filled, wanted)
        assert list(as_table(filled).columns) == SHUFFLED
        assert not as_table(filled).isna().to_numpy().any()
    assert network.impute(KINDS["structured"](HOLED)).dtype.names == tuple(NAMES)


# --- bf.fit and posteriors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_fields_with_names(kind):
    """Names of the field's own: matched in bf.fit and wherever its posterior meets cases."""
    field = bf.pairwise(5, [(0, 1), (1, 2), (2, 3), (3, 4)], (0, 1), names=NAMES)
    wanted = bf.fit(field, WHOLE, correction="none")
    found = bf.fit(field, KINDS[kind](WHOLE[SHUFFLED]), correction="none")
    np.testing.assert_array_equal(found.mean, wanted.mean)
    cells = [p.impute(t, 20).probabilities for p, t in ((wanted, HOLED), (found, KINDS[kind](HOLED[SHUFFLED])))]
    np.testing.assert_array_equal(*cells)
    with pytest.raises(bf.InvalidInput, match="no column 'sleep'"):
        bf.fit(field, KINDS[kind](WHOLE.drop(columns="sleep")))
    with pytest.raises(bf.InvalidInput, match="is one of 'anger'"):
        bf.fit(field, KINDS[kind](WHOLE.set_axis(list("abcde"), axis=1)))


@pytest.mark.parametrize("kind", KINDS)
def test_fields_that_learn_the_names(kind, tmp_path):
    """x0, x1, … are names of nobody's: those of the first table are kept, also in a file."""
    field = bf.pairwise(3, [(0, 1), (1, 2)], (0, 1))
    three = WHOLE[["anger", "sleep", "worry"]]
    posterior = bf.fit(field, KINDS[kind](three), correction="none")
    np.testing.assert_array_equal(posterior.mean, bf.fit(field, three.to_numpy(), correction="none").mean)
    posterior.save(tmp_path / "a.bf")
    other = KINDS[kind](HOLED[["worry", "anger", "sleep"]])
    wanted = posterior.impute(HOLED[["anger", "sleep", "worry"]].to_numpy(), 20).probabilities
    for known in (posterior, bf.load(tmp_path / "a.bf")):
        np.testing.assert_array_equal(known.impute(other, 20).probabilities, wanted)
        np.testing.assert_array_equal(known.update(other).mean, known.update(HOLED[three.columns]).mean)
        with pytest.raises(bf.InvalidInput, match="no column 'sleep'"):
            known.impute(KINDS[kind](three.rename(columns={"sleep": "z"})), 20)
    with pytest.raises(bf.InvalidInput, match="different names"):
        posterior.impute(pd.DataFrame(three.to_numpy(), columns=["anger", "anger", "sleep"]), 20)


def test_many_fits_and_groups_go_by_the_first_table():
    field = bf.pairwise(3, [(0, 1), (1, 2)], (0, 1))
    three, other = WHOLE[["anger", "sleep", "worry"]], WHOLE[["worry", "anger", "sleep"]]
    found = bf.fit_many(field, [three, KINDS["polars"](other)], jobs=1)
    np.testing.assert_allclose(found.mean[0], found.mean[1], atol=1e-6)
    groups = np.arange(60) % 2
    compared = [bf.compare_groups(field, t, groups).log_bayes_factor for t in (three, KINDS["polars"](three))]
    np.testing.assert_allclose(*compared, atol=1e-9)
    replicate = [bf.Bootstrap(t, 2)[1] for t in (three, KINDS["pyarrow"](three))]
    np.testing.assert_array_equal(*replicate)


# --- sequences and graphs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ONE_BY_ONE)
@pytest.mark.parametrize("words", [False, True])
def test_sequences_of_tables(kind, words):
    pieces = [NUMBERS.iloc[k : k + 6].reset_index(drop=True) for k in range(0, 60, 6)]
    if words:
        pieces = [p.gt(1).replace({True: "high", False: "low"}).astype(object) for p in pieces]
    labels = [["b" if v else "a" for v in base[k : k + 6, 0]] for k in range(0, 60, 6)]
    crf = bf.BayesianCRF(n_draws=10, correction="none").fit([KINDS[kind](p) for p in pieces], labels)
    wanted = crf.predict_marginals(pieces)
    assert crf.predict_marginals([KINDS[kind](p[SHUFFLED]) for p in pieces]) == wanted
    assert any("sleep" in name for name in crf.posterior_.field.parameter_names)
    with pytest.raises(bf.InvalidInput, match="of sequence 0 has no column 'sleep'"):
        crf.predict([KINDS[kind](p.rename(columns={"sleep": "z"})) for p in pieces])


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_graphs_of_tables(kind):
    edges = np.array([[0, 1], [1, 2], [0, 2]])
    pieces = [NUMBERS.iloc[k : k + 3].reset_index(drop=True) for k in range(0, 60, 3)]
    labels = [base[k : k + 3, 0] for k in range(0, 60, 3)]
    crf = bf.GraphCRF(n_draws=10, correction="none").fit([(KINDS[kind](p), edges) for p in pieces], labels)
    wanted = crf.predict_marginals([(p, edges) for p in pieces])
    assert crf.predict_marginals([(KINDS[kind](p[SHUFFLED]), edges) for p in pieces]) == wanted
    with pytest.raises(bf.InvalidInput, match="no column 'sleep'"):
        crf.predict([(KINDS[kind](p.rename(columns={"sleep": "z"})), edges) for p in pieces])


# --- cells ----------------------------------------------------------------------------------------------------------


def test_cells_are_what_pandas_makes_of_them():
    words = pl.DataFrame(
        {
            "order": pl.Series(["low", "high", None], dtype=pl.Enum(["low", "high"])),
            "word": ["b", None, "a"],
            "yes": [True, None, False],
            "whole": [2**60 + 1, None, 2**60],
            "small": pl.Series([1, 2, None], dtype=pl.Int8),
        }
    )
    table = as_table(words)
    assert list(table["order"].cat.categories) == ["low", "high"]
    assert table["order"].cat.ordered
    assert table["whole"][0] == 2**60 + 1  # which a double cannot say
    assert table["small"].tolist()[:2] == [1.0, 2.0]
    assert table.isna().sum().tolist() == [1] * 5
    assert like("polars", table.drop(columns="order"))["word"].to_list() == ["b", None, "a"]
    network = bf.PottsNetwork(interaction="table", correction="none").fit(words.select("order", "word", "yes"))
    assert network.states_["order"] == ("low", "high")


def test_masked_cells_are_missing():
    field = bf.pairwise(3, [(0, 1), (1, 2)], (0, 1))
    values = WHOLE.to_numpy()[:, :3]
    hidden = np.random.default_rng(0).random(values.shape) < 0.2
    wanted = bf.fit(field, np.where(hidden, np.nan, values)).mean
    np.testing.assert_array_equal(bf.fit(field, np.ma.array(values, mask=hidden)).mean, wanted)
    np.testing.assert_array_equal(bf.fit(field, np.ma.array(values.astype(float), mask=hidden)).mean, wanted)


def test_odd_tables_are_refused():
    with pytest.raises(bf.InvalidInput, match="holds arrays"):
        as_table(np.zeros(3, dtype=[("a", "f8", 2)]))
    with pytest.raises(bf.InvalidInput, match="one dimension, the cases"):
        as_table(xr.Dataset({"a": (("y", "x"), np.zeros((2, 2)))}))
    with pytest.raises(bf.InvalidInput, match="a record for each case"):
        as_table(np.zeros((3, 2), dtype=[("a", "f8")]))
    assert as_table(np.array([(b"ab", 1)], dtype=[("w", "S2"), ("n", int)]))["w"][0] == "ab"


def test_site_probabilities_of_a_table_are_probabilities():
    """Not cast to the whole numbers that its columns hold."""
    lattice, table = ESTIMATORS["LatticeField"]
    named, plain = (bf.LatticeField(**lattice.get_params()) for _ in range(2))
    p = named.fit(table).site_probabilities(table)
    assert list(p.columns) == NAMES
    np.testing.assert_array_equal(p.to_numpy(), plain.fit(table.to_numpy()).site_probabilities(table.to_numpy()))
    assert 0.0 < p.to_numpy().min() < p.to_numpy().max() < 1.0
