"""The tables behind the pictures, against their definitions; and every picture that a posterior draws of itself."""

import itertools

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import bayesfield as bf
from bayesfield import plots

from tolerances import ALGEBRA


@pytest.fixture(scope="module")
def network():
    """Five binary items, all pairs joined, 300 cases."""
    field = bf.pairwise(5, itertools.combinations(range(5), 2), states=(0, 1), names=list("abcde"))
    rng = np.random.default_rng(0)
    X = bf.sample(field, rng.normal(0.0, 0.7, field.n_parameters), 300, rng)
    return bf.fit(field, X)


@pytest.fixture(scope="module")
def lattice():
    field = bf.grid(3, 4)
    return bf.fit(field, bf.sample(field, np.full(field.n_parameters, 0.2), 200, 0), engine=bf.Kikuchi())


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_centrality_is_that_of_every_draw(network):
    found = bf.centrality(network, ["strength", "expected_influence", "closeness", "betweenness"], n_draws=7, rng=3)
    draws = network.sample(7, 3)
    expected = {m: [] for m in ("strength", "expected_influence", "closeness", "betweenness")}
    for point in draws:
        graph = nx.Graph()
        graph.add_nodes_from(range(5))
        for edge, value in zip(itertools.combinations(range(5), 2), point[5:], strict=True):
            graph.add_edge(*edge, value=value, size=abs(value), length=1.0 / abs(value))
        expected["strength"].append([graph.degree(i, weight="size") for i in range(5)])
        expected["expected_influence"].append([graph.degree(i, weight="value") for i in range(5)])
        near = nx.closeness_centrality(graph, distance="length")
        between = nx.betweenness_centrality(graph, weight="length")
        expected["closeness"].append([near[i] for i in range(5)])
        expected["betweenness"].append([between[i] for i in range(5)])
    for measure, values in expected.items():
        own = found[found["measure"] == measure]
        assert list(own["variable"]) == list("abcde")
        np.testing.assert_allclose(own["mean"], np.mean(values, axis=0), rtol=ALGEBRA)
        np.testing.assert_allclose(own["upper"], np.quantile(values, 0.975, axis=0), rtol=ALGEBRA)


def test_centrality_refuses_what_has_none(network):
    with pytest.raises(bf.InvalidInput, match="measures are strength"):
        bf.centrality(network, ["fame"])
    potts = bf.potts(3, [(0, 1), (1, 2)], 3)
    tables = bf.fit(bf.PottsNetwork(interaction="table").fit(_three_states(potts)).field_, _three_states(potts))
    with pytest.raises(bf.InvalidInput, match="several"):
        bf.centrality(tables)


def _three_states(field):
    return bf.sample(field, np.full(field.n_parameters, 0.3), 100, 0)


def test_centrality_of_a_variable_that_stands_alone():
    field = bf.pairwise(3, [(0, 1)], states=(0, 1))
    posterior = bf.fit(field, bf.sample(field, np.array([0.1, 0.2, 0.0, 1.0]), 50, 0))
    found = bf.centrality(posterior, ["strength", "closeness"], n_draws=20)
    alone = found[found["variable"] == field.names[2]]
    assert (alone[["mean", "sd", "lower", "upper"]] == 0.0).all(axis=None)


def test_sensitivity_is_a_fit_under_the_scaled_prior(network):
    table = bf.prior_sensitivity(network, [0.5, 1.0, 4.0])
    X = network.field.decode(network.objective.data.codes)
    for factor, own in table.groupby("factor"):
        direct = bf.fit(network.field, X, bf.Normal(variance=factor)).summary()
        # two searches to 1e-6 sd, and a correction by the same random directions
        np.testing.assert_allclose(own["mean"], direct["mean"], atol=1e-3)
        np.testing.assert_allclose(own["sd"], direct["sd"], rtol=1e-3)
    wide = table[table["factor"] == 4.0]["sd"].to_numpy()
    assert (wide > table[table["factor"] == 0.5]["sd"].to_numpy()).all()


def test_sensitivity_with_a_cauchy_prior_and_without_data(network):
    X = network.field.decode(network.objective.data.codes)
    heavy = bf.fit(network.field, X, bf.Cauchy(scale=1.0))
    table = bf.prior_sensitivity(heavy, [4.0])
    direct = bf.fit(network.field, X, bf.Cauchy(scale=2.0))
    np.testing.assert_allclose(table["mean"], direct.mean, atol=0.05 * direct.sd.max())
    with pytest.raises(bf.InvalidInput, match="with its data"):
        bf.prior_sensitivity(network.without_data())
    with pytest.raises(bf.InvalidInput, match="above zero"):
        bf.prior_sensitivity(network, [0.0])
    with pytest.raises(bf.InvalidInput, match="no posterior under another prior"):
        bf.prior_sensitivity(bf.fit(network.field, X, method="pcd"), [2.0])
    with pytest.raises(bf.InvalidInput, match="fit with one engine"):
        bf.prior_sensitivity(bf.fit(network.field, X, engine="exact", response="bethe"), [2.0])


def test_reliability_counts_every_cell_once(network):
    table = bf.reliability(network, bins=5)
    n_cases = network.record.n_cases
    assert table["cells"].sum() == n_cases * 5 * 2  # cases, items, states
    assert ((table["lower"] <= table["observed"]) & (table["observed"] <= table["upper"])).all()
    # the model is true and the cases its own, so the means agree closely: within 5 standard errors
    error = np.sqrt(table["predicted"] * (1 - table["predicted"]) / table["cells"])
    assert (np.abs(table["predicted"] - table["observed"]) < 5 * error + 0.02).all()


def test_reliability_shows_a_wrong_model(network):
    other = network.field.decode(1 - network.objective.data.codes)
    table = bf.reliability(network, other)
    assert np.abs(table["predicted"] - table["observed"]).max() > 0.2


def test_reliability_leaves_holes_out(network):
    X = network.field.decode(network.objective.data.codes[:20]).astype(object)
    X[:, 0] = None
    assert bf.reliability(network, X)["cells"].sum() == 20 * 4 * 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("forest", {}),
        ("marginals", {"parameters": ["a", "a*b"]}),
        ("network", {"threshold": 0.1}),
        ("edge_evidence", {"threshold": 3}),
        ("inclusion", {}),
        ("centrality", {"n_draws": 20}),
        ("sensitivity", {"factors": [0.5, 1.0]}),
        ("calibration", {}),
        ("convergence", {}),
        ("predictive", {"n_draws": 40}),
    ],
)
def test_a_posterior_draws_itself(network, name, options):
    drawn = getattr(network, f"plot_{name}")(**options)
    assert isinstance(drawn, Axes | Figure)
    assert plots.rendered(getattr(drawn, "figure", drawn), "svg").startswith(b"<?xml")


def test_axes_in_axes_out(network, lattice):
    for method in ("forest", "network", "edge_evidence", "sensitivity", "calibration", "convergence"):
        _, axes = plt.subplots()
        assert getattr(network, f"plot_{method}")(ax=axes) is axes
    _, axes = plt.subplots()
    assert lattice.plot_lattice(3, 4, ax=axes) is axes


def inside(figure):
    """How far what is drawn leaves the figure, in pixels."""
    figure.canvas.draw()
    box, page = figure.get_tightbbox().transformed(figure.dpi_scale_trans), figure.bbox
    return max(-box.x0, -box.y0, box.x1 - page.width, box.y1 - page.height)


@pytest.mark.parametrize(
    "name", ["forest", "marginals", "network", "edge_evidence", "inclusion", "sensitivity", "calibration"]
)
def test_nothing_is_cut_off(network, name):
    options = {"factors": [0.5, 1.0]} if name == "sensitivity" else {}
    drawn = getattr(network, f"plot_{name}")(**options)
    assert inside(getattr(drawn, "figure", drawn)) < 1.0


def test_every_panel_says_what_it_shows(network):
    for axes in network.plot_centrality(["strength", "betweenness"], n_draws=20).axes:
        assert axes.get_xlabel()
    figure = network.plot_predictive(n_draws=40)
    assert all(axes.texts[-1].get_text() or axes.texts[0].get_text() for axes in figure.axes if axes.get_visible())


def test_tied_parameters_have_no_map():
    tied = bf.fit(bf.grid(2, 3, tied=True), [[1, 1, 1, -1, 1, -1]])
    for name in ("lattice", "network", "edge_evidence", "inclusion"):
        with pytest.raises(bf.InvalidInput, match="the parameters are tied: fit with tied=False"):
            getattr(tied, f"plot_{name}")()


def test_a_lattice_knows_its_sides(lattice):
    assert isinstance(lattice.plot_lattice(), Axes)


def test_marginals_have_the_posteriors_density(network):
    figure = network.plot_marginals(["a"])
    x, density = figure.axes[0].lines[0].get_data()
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.01)
    mean = np.trapezoid(x * density, x)
    assert mean == pytest.approx(network.mean[0], abs=0.05 * network.sd[0])


def test_messages_of_generalized_belief_propagation(lattice, network):
    drawn = lattice.plot_messages()
    np.testing.assert_allclose(drawn.lines[0].get_ydata(), np.maximum(lattice.record.inference.history, 1e-16))
    with pytest.raises(bf.InvalidInput, match="no messages"):
        network.plot_messages()


def test_pictures_name_what_is_not_there(network):
    with pytest.raises(bf.InvalidInput, match="no parameter 'z'"):
        network.plot_forest(["z"])
    with pytest.raises(bf.InvalidInput, match="no parameter 'z'"):
        network.plot_marginals(["z"])
    with pytest.raises(bf.InvalidInput, match="no parameter 'z'"):
        network.plot_sensitivity(["z"], factors=[1.0])


def test_edges_of_a_saved_posterior_are_the_same(network, tmp_path):
    network.save(tmp_path / "p.bf")
    pd.testing.assert_frame_equal(bf.load(tmp_path / "p.bf").edges(), network.edges())


def test_a_network_of_tables_is_drawn_without_signs():
    X = _three_states(bf.potts(3, [(0, 1), (1, 2)], 3))
    drawn = bf.PottsNetwork(interaction="table").fit(X).posterior_.plot_network(threshold=0.0)
    assert drawn.get_legend() is None
    assert len(drawn.lines) == 3 + 3  # variables, and all pairs of them


def test_a_loaded_posterior_with_its_data_is_as_good_as_the_first(network, tmp_path):
    network.save(tmp_path / "p.bf")
    X = network.field.decode(network.objective.data.codes)
    again = bf.load(tmp_path / "p.bf").with_data(X)
    assert again.log_evidence == pytest.approx(network.log_evidence, abs=1e-6)
    assert again.check().passed
    table = bf.prior_sensitivity(again, [2.0])
    np.testing.assert_allclose(table["mean"], bf.prior_sensitivity(network, [2.0])["mean"], atol=1e-6)
    with pytest.raises(bf.InvalidInput, match="fitted on 300 cases"):
        bf.load(tmp_path / "p.bf").with_data(X[:10])


def test_an_estimator_in_place_of_its_posterior_is_told_so(network):
    X = network.field.decode(network.objective.data.codes)
    estimator = bf.IsingNetwork().fit(X)
    for ask in (bf.centrality, bf.prior_sensitivity, bf.reliability):
        with pytest.raises(bf.InvalidInput, match="posterior_"):
            ask(estimator)
