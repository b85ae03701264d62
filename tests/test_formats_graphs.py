"""networkx, xarray and the folder for R: what is handed over is what the posterior says."""

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import bayesfield as bf

from tolerances import ALGEBRA


@pytest.fixture(scope="module")
def posterior():
    field = bf.pairwise(4, [(0, 1), (1, 2), (2, 3), (0, 3)], names=["a", "b", "c", "d"])
    return bf.fit(field, bf.sample(field, np.full(8, 0.4), 300, 0))


# --- networkx -----------------------------------------------------------------------------------------------


def test_a_posterior_as_a_graph(posterior):
    graph = bf.to_networkx(posterior)
    assert list(graph) == ["a", "b", "c", "d"]
    assert graph.nodes["b"] == {"states": (0, 1), "mean": posterior.mean[1], "sd": posterior.sd[1]}
    table = posterior.edges().set_index(["first", "second"])
    assert sorted(graph.edges) == sorted(table.index)
    for name in ("mean", "sd", "inclusion", "log_bayes_factor", "p_positive"):
        assert graph.edges["a", "d"][name] == table.loc[("a", "d"), name]
    assert bf.to_networkx(posterior, probability=0.1).edges["a", "d"]["inclusion"] < graph.edges["a", "d"]["inclusion"]


def test_a_field_as_a_graph():
    graph = bf.to_networkx(bf.restricted_boltzmann(2, 1))
    assert graph.nodes["h0"] == {"states": (0, 1), "hidden": True}
    assert sorted(graph.edges) == [("v0", "h0"), ("v1", "h0")]
    assert set(bf.to_networkx(bf.grid(2, 2, tied=True)).edges["x[0,0]", "x[0,1]"]) == set()


def test_several_parameters_of_a_node_and_tied_edges():
    field = bf.potts(3, [(0, 1), (1, 2)], ["u", "v", "w"])
    graph = bf.to_networkx(bf.fit(field, bf.sample(field, np.zeros(field.n_parameters), 60, 0)))
    assert set(graph.nodes["x0"]["mean"]) == {"x0=v", "x0=w"}
    tied = bf.grid(2, 2, tied=True)
    graph = bf.to_networkx(bf.fit(tied, bf.sample(tied, [0.1, 0.2], 60, 0)))
    assert graph.edges["x[0,0]", "x[0,1]"] == {}


def test_graphs_as_fields():
    graph = nx.cycle_graph(4)
    graph.add_node("alone")
    field = bf.from_networkx(graph)
    assert field.names == ["0", "1", "2", "3", "alone"]
    assert field.edges == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert bf.from_networkx(nx.DiGraph([("b", "a"), ("a", "b")]), states=(-1, 1)).n_parameters == 3
    assert bf.from_networkx(graph, states=3).parameter_names[:2] == ["0=1", "0=2"]
    again = bf.from_networkx(bf.to_networkx(field))
    assert again.names == field.names
    assert again.edges == field.edges


def test_graphs_that_are_refused():
    with pytest.raises(bf.InvalidInput, match="joins a variable to itself"):
        bf.from_networkx(nx.Graph([("a", "a")]))
    with pytest.raises(bf.InvalidInput, match="'1' is given twice"):
        bf.from_networkx(nx.Graph([(1, "1")]))
    with pytest.raises(bf.InvalidInput, match="RandomField"):
        bf.to_networkx(bf.CRF(2, 1))


# --- xarray -------------------------------------------------------------------------------------------------


def test_a_posterior_by_name(posterior, tmp_path):
    pytest.importorskip("xarray")
    found = bf.to_xarray(posterior, n=50)
    summary = posterior.summary()
    for name in ("mean", "sd", "lower", "upper", "p_positive"):
        np.testing.assert_allclose(found[name].sel(parameter="a*b"), summary.loc["a*b", name], atol=ALGEBRA)
    np.testing.assert_allclose(found["covariance"], posterior.covariance(), atol=ALGEBRA)
    np.testing.assert_allclose(found["draws"], posterior.sample(50, 0), atol=ALGEBRA)
    assert found.attrs["cases"] == 300
    assert found.attrs["engine"] == posterior.record.engine
    assert "draws" not in bf.to_xarray(posterior, n=0)
    with pytest.raises(bf.InvalidInput, match="not be negative"):
        bf.to_xarray(posterior, n=-1)


def test_a_posterior_made_of_draws_by_name(tmp_path):
    """Its moments are those of the draws; what netCDF keeps says how far it may be trusted."""
    pytest.importorskip("xarray")
    cases = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    made = bf.fit(bf.pairwise(2, [(0, 1)]), cases, bf.Normal(variance=100.0))
    found = bf.to_xarray(made, n=50)
    np.testing.assert_allclose(found["covariance"], made.marginals.covariance, rtol=1e-6)
    np.testing.assert_allclose(found["skewness"], made.marginals.skewness, atol=ALGEBRA)
    assert {tuple(row) for row in found["draws"].to_numpy()} <= {tuple(row) for row in made.marginals.points}
    assert found.attrs["made_by"].startswith("posterior made of draws")
    assert (found.attrs["certificate"], found.attrs["advice"]) == ("good", made.certificate.advice)


def test_a_covariance_that_does_not_fit_is_left_out(posterior, monkeypatch):
    pytest.importorskip("xarray")
    monkeypatch.setattr("bayesfield.memory.available_bytes", lambda: 1000)
    monkeypatch.setattr("bayesfield.memory._TRIFLE", 0)
    monkeypatch.setattr("bayesfield.response.base._SURE", 0)
    found = bf.to_xarray(posterior, n=2)
    assert "covariance" not in found
    assert found["draws"].shape == (2, 8)


def test_draws_by_chain(posterior):
    pytest.importorskip("xarray")
    X = bf.sample(posterior.field, np.full(8, 0.4), 300, 0)
    draws = bf.sample_posterior(posterior.field, X, sampler=bf.Metropolis(), n_draws=40, warmup=20, chains=2)
    found = bf.to_xarray(draws)
    assert found["draws"].dims == ("chain", "draw", "parameter")
    np.testing.assert_allclose(found["mean"], draws.flat.mean(axis=0), atol=ALGEBRA)
    np.testing.assert_allclose(found["covariance"], np.cov(draws.flat.T), atol=ALGEBRA)


# --- R ------------------------------------------------------------------------------------------------------


def test_the_folder_for_r(posterior, tmp_path):
    bf.write_handover(tmp_path / "out", posterior)
    parameters = pd.read_csv(tmp_path / "out" / "parameters.csv")
    assert list(parameters)[:4] == ["parameter", "group", "mean", "sd"]
    np.testing.assert_allclose(parameters["mean"], posterior.mean, rtol=1e-12)
    couplings = pd.read_csv(tmp_path / "out" / "couplings.csv", index_col=0)
    assert list(couplings) == list(couplings.index) == posterior.field.names
    assert couplings.loc["a", "d"] == pytest.approx(posterior.summary().loc["a*d", "mean"])
    assert (couplings.to_numpy() == couplings.to_numpy().T).all()
    assert couplings.loc["a", "c"] == 0.0
    assert len(pd.read_csv(tmp_path / "out" / "edges.csv")) == 4
    assert json.loads((tmp_path / "out" / "fit.json").read_text())["n_cases"] == 300


def test_edges_of_several_parameters_have_no_matrix(tmp_path):
    field = bf.potts(3, [(0, 1), (1, 2)], 3, interaction="table")
    bf.write_handover(tmp_path, bf.fit(field, bf.sample(field, np.zeros(field.n_parameters), 80, 0)))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "fit.json", "parameters.csv"]


def test_a_file_in_the_way(posterior, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(bf.InvalidInput, match="cannot write to"):
        bf.write_handover(tmp_path / "out", posterior)
