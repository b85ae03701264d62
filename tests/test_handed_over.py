"""What other tools met when they were handed something of ours, or gave us something of theirs."""

import networkx as nx
import numpy as np
import pytest

import bayesfield as bf
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


def test_a_posterior_without_data_says_how_to_give_them_back():
    with pytest.raises(bf.InvalidInput, match=r"with_data\(X\)"):
        posterior_of(bf.chain(3)).without_data().check()
