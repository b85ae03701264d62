"""Plots draw what they are given."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield import plots


@pytest.fixture(scope="module")
def posterior():
    field = bf.grid(3, 4)
    return bf.fit(field, bf.sample(field, np.full(field.n_parameters, 0.2), 200, 0))


def test_forest_shows_every_interval(posterior):
    ax = plots.forest(posterior)
    assert [t.get_text() for t in ax.get_yticklabels()] == posterior.field.parameter_names
    np.testing.assert_allclose(ax.collections[1].get_offsets()[:, 0], posterior.mean)
    segments = ax.collections[0].get_segments()
    np.testing.assert_allclose([s[0, 0] for s in segments], posterior.summary()["lower"])
    plt.close(ax.figure)


def test_forest_takes_axes_and_names(posterior):
    _, ax = plt.subplots()
    assert plots.forest(posterior, parameters=["x[0,0]"], ax=ax) is ax
    assert len(ax.get_yticks()) == 1
    plt.close(ax.figure)


def test_forest_of_many_shows_the_surest():
    field = bf.grid(8, 8)
    posterior = bf.fit(field, bf.sample(field, np.full(field.n_parameters, 0.1), 100, 0), engine=bf.Bethe())
    ax = plots.forest(posterior)
    shown = {t.get_text() for t in ax.get_yticklabels()}
    surest = (posterior.summary()["mean"] / posterior.sd).abs().nlargest(40).index
    assert shown == set(surest)
    plt.close(ax.figure)


def test_lattice_has_a_bond_for_each_coupling(posterior):
    ax = plots.lattice(posterior, 3, 4)
    bonds, sites = ax.collections
    np.testing.assert_allclose(bonds.get_array(), posterior.mean[12:])
    np.testing.assert_allclose(sites.get_array(), posterior.mean[:12])
    assert len(bonds.get_segments()) == 17
    plt.close(ax.figure)
    with pytest.raises(bf.InvalidInput, match="5 × 5"):
        plots.lattice(posterior, 5, 5)


def test_convergence_shows_every_step(posterior):
    ax = plots.convergence(posterior.record)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [i.gradient for i in posterior.record.iterations])
    assert len(ax.lines) == 2
    plt.close(ax.figure)


def test_score_curves_show_means_and_mark_what_did_not_converge():
    rows = [
        {"method": name, "N": n, "model": model, "cvm": factor * n + model, "converged": name != "b" or n < 100}
        for name, factor in (("HMC", 1), ("a", 2), ("b", 3))
        for n in (10, 100, 1000)
        for model in (0, 2)
    ]
    figure = plots.score_curves(pd.DataFrame(rows), "N", "cases", "HMC", ["a"])
    ax = figure.axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["b"].get_ydata(), [31, 301, 3001])
    assert lines["a"].get_linestyle() == "--"
    assert ax.get_xscale() == "log"
    points = [c for c in ax.collections if len(c.get_offsets()) == 3]
    hollow = [(c.get_facecolor()[:, :3] == 1.0).all(axis=1) for c in points]
    assert [list(h) for h in hollow] == [[False] * 3, [False, True, True]]
    plots.close(figure)


def test_marginal_histograms_name_the_parameters():
    part = {"edges": np.linspace(0, 1, 4), "method": np.ones(3), "truth": np.ones(3), "parameter": 1, "cvm": 2.5}
    shown = {"m": {f"{kind}_{name}": value for kind in ("worst", "best") for name, value in part.items()}}
    figure = plots.marginal_histograms(shown, ["x", "y"])
    assert "worst: y, CVM 2.5" in figure.axes[0].get_title()
    assert plots.rendered(figure, "png").startswith(b"\x89PNG")
    plots.close(figure)


@pytest.fixture(scope="module")
def edges():
    """Three edges of clear verdicts, and their structures."""
    table = pd.DataFrame(
        {
            "first": ["a", "a", "b"],
            "second": ["b", "c", "c"],
            "mean": [1.0, -0.5, 0.1],
            "inclusion": [0.99, 0.7, 0.05],
            "at_10": ["included", "inconclusive", "excluded"],
            "at_3": ["included", "inconclusive", "excluded"],
        }
    )
    structures = pd.DataFrame({"share": [0.6, 0.3, 0.1], "a–b": [1, 1, 0], "a–c": [1, 0, 0], "b–c": [0, 0, 0]})
    return table, structures


def test_network_shows_edges_that_are_there(edges):
    ax = plots.network(edges[0])
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert len(drawn) == 2
    assert drawn[0].get_linewidth() > drawn[1].get_linewidth()
    assert drawn[0].get_color() != drawn[1].get_color()
    assert {t.get_text() for t in ax.texts} == {"a", "b", "c"}
    assert len([line for line in plots.network(edges[0], threshold=0.999).lines if len(line.get_xdata()) == 2]) == 0
    plt.close("all")


def test_edge_evidence_counts_verdicts(edges):
    ax = plots.edge_evidence(edges[0], threshold=3)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["included (1)", "inconclusive (1)", "excluded (1)"]
    plt.close("all")


def test_inclusion_is_symmetric(edges):
    _, given = plt.subplots()
    ax = plots.inclusion(edges[0], ax=given)
    assert ax is given
    matrix = ax.images[0].get_array()
    assert matrix[0, 1] == matrix[1, 0] == 0.99
    assert np.ma.getmaskarray(np.ma.masked_invalid(matrix)).diagonal().all()
    plt.close("all")


def test_structure_sizes_sum_to_one(edges):
    ax = plots.structure_sizes(edges[1])
    heights = {round(p.get_x() + p.get_width() / 2): p.get_height() for p in ax.patches}
    assert heights == pytest.approx({0: 0.1, 1: 0.3, 2: 0.6})
    plt.close("all")


def test_pictures_of_edges_say_what_they_need(edges):
    with pytest.raises(bf.InvalidInput, match="'log_bayes_factor' is missing"):
        plots.network(edges[0].drop(columns="mean"))
    with pytest.raises(bf.InvalidInput, match="'at_5' is missing"):
        plots.edge_evidence(edges[0], threshold=5)
    with pytest.raises(bf.InvalidInput, match="'share' is missing"):
        plots.structure_sizes(edges[0])
    plots.network(edges[0].assign(mean=0.0, first=[1, 1, 2], second=[2, 3, 3]))  # no effect, names that are numbers
    plt.close("all")
