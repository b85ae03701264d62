"""What other tools met when they were handed something of ours, or gave us something of theirs."""

import json

import networkx as nx
import numpy as np
import pytest

import bayesfield as bf
from bayesfield.formats import tables
from bayesfield.formats.arviz import _as_arviz
from bayesfield.formats.crfsuite import attributes


def posterior_of(field):
    return bf.fit(field, bf.sample(field, np.full(field.n_parameters, 0.2), 60, 0), correction="none")


def test_names_win_over_places():
    field = bf.from_networkx(nx.Graph([(2, 1), (1, 0)]))
    assert field.names == ["2", "1", "0"]
    here = np.array([0.3, -0.2, 0.1, 0.5, -0.4])
    by_number, by_name = (bf.infer(field, here, evidence={key: 1}) for key in (2, "2"))
    np.testing.assert_array_equal(by_number["1"], by_name["1"])
    np.testing.assert_array_equal(by_number[2], [0.0, 1.0])


def test_divergences_are_a_mask():
    assert _as_arviz("diverging", np.array([[0.0, 1.0]])).dtype == bool
    assert _as_arviz("energy", np.array([[0.0, 1.0]])).dtype == float


@pytest.mark.parametrize("value", [np.array([0.25, -1.5]), [{"y": 1.0}]], ids=["numbers", "a dict"])
def test_collections_hold_names(value):
    with pytest.raises(bf.InvalidInput, match="which holds names"):
        list(attributes({"vec": value}))


def test_a_hand_over_leaves_nothing_of_an_earlier_one(tmp_path):
    bf.write_handover(tmp_path, posterior_of(bf.pairwise(3, [(0, 1), (1, 2)])))
    assert (tmp_path / "couplings.csv").exists()
    bf.write_handover(tmp_path, posterior_of(bf.grid(2, 2, tied=True)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.json", "parameters.csv"]


def test_a_hand_over_tells_how_far_to_trust_it(tmp_path):
    """An object of numbers and text, without NaN, which JSON does not have; judged now where the fit did not."""
    bf.write_handover(tmp_path, posterior_of(bf.chain(3)))
    found = json.loads((tmp_path / "fit.json").read_text(), parse_constant=pytest.fail)["certificate"]
    assert found["verdict"] in ("good", "fair", "poor")
    assert found["advice"]
    assert found["n_draws"] > 0
    assert found["mixing"] is None


def test_the_folder_of_a_fit_has_its_draws(tmp_path):
    made = bf.fit(bf.pairwise(1, []), [[0]] * 10, bf.Normal(variance=100.0))
    tables.write_posterior(tmp_path, made)
    with np.load(tmp_path / "posterior.npz") as arrays:
        np.testing.assert_allclose(arrays["weights"] @ arrays["draws"], made.mean)
        assert list(arrays["parameters"]) == made.field.parameter_names
    tables.write_posterior(tmp_path, posterior_of(bf.chain(3)))
    with np.load(tmp_path / "posterior.npz") as arrays:
        assert "draws" not in arrays


def test_a_posterior_without_data_says_how_to_give_them_back():
    with pytest.raises(bf.InvalidInput, match=r"with_data\(X\)"):
        posterior_of(bf.chain(3)).without_data().check()
