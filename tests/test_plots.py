"""Plots draw what they are given."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield import plots
from bayesfield.plots.style import short


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


def test_marginals_of_draws_are_their_histogram():
    """No tail where there are no draws: the coupling of two that never disagree is positive, and so is its curve."""
    cases = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    made = bf.fit(bf.pairwise(2, [(0, 1)], names=["a", "b"]), cases, bf.Normal(variance=1000.0))
    points, weights = made.marginals.points[:, 2], made.marginals.weights
    figure = plots.marginals(made, ["a*b"], bins=30)
    x, density = figure.axes[0].lines[0].get_data()
    assert x.min() >= points.min() > 0.0
    assert len(x) == len(density) == 62
    inside = (points >= x.min()) & (points <= x.max())
    assert np.trapezoid(density, x) == pytest.approx(1.0)
    share = weights[inside & (points < x[20])].sum() / weights[inside].sum()
    assert np.trapezoid(density[:21], x[:21]) == pytest.approx(share, abs=1e-9)
    plt.close("all")


@pytest.fixture(scope="module")
def many():
    """A lattice of 64 sites and 112 couplings, whose fields are surer than its couplings."""
    field = bf.grid(8, 8)
    truth = np.concatenate([np.full(64, 0.8), np.full(112, 0.1)])
    return bf.fit(field, bf.sample(field, truth, 100, 0), engine=bf.Bethe())


def shown(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def test_forest_of_many_shows_the_surest_couplings(many):
    ax = plots.forest(many)
    table = many.summary().iloc[64:]
    assert set(shown(ax)) == set((table["mean"] / table["sd"]).abs().nlargest(40).index)
    assert "40 surest of 112 couplings" in ax.get_title()
    figure = plots.marginals(many)
    assert "12 surest of 112 couplings" in figure.get_suptitle()
    assert all("*" in ax.get_title() for ax in figure.axes)
    plt.close("all")


def test_parameters_are_chosen_by_group_or_text(many):
    ax = plots.forest(many, parameters="thresholds")
    assert not [name for name in shown(ax) if "*" in name]
    assert "40 surest of 64 thresholds" in ax.get_title()
    ax = plots.forest(many, parameters="x[3,3]")
    assert len(shown(ax)) == 5
    assert "all 5 parameters with 'x[3,3]'" in ax.get_title()
    for wrong in ("mood", ["mood"]):
        with pytest.raises(bf.InvalidInput, match=r"no parameter 'mood'.*a list of names, .couplings"):
            plots.marginals(many, wrong)
    alone = bf.fit(bf.pairwise(2, []), [[0, 1], [1, 1]])
    with pytest.raises(bf.InvalidInput, match="no couplings"):
        plots.forest(alone, "couplings")
    assert shown(plots.forest(alone)) == ["x0", "x1"]
    plt.close("all")


def test_long_names_are_shortened_part_by_part():
    assert short("sleep*mood") == "sleep*mood"
    found = short("1 I often feel nervous or on edge*2 I often feel nervous or on edge", 18)
    assert [len(part) <= 18 for part in found.split("*")] == [True, True]
    assert found.startswith("1 I often")
    assert "*2 I often" in found


def test_lattice_has_a_bond_for_each_coupling(posterior):
    ax = plots.lattice(posterior, 3, 4)
    bonds, sites = ax.collections
    np.testing.assert_allclose(bonds.get_array(), posterior.mean[12:])
    np.testing.assert_allclose(sites.get_array(), posterior.mean[:12])
    assert len(bonds.get_segments()) == 17
    plt.close(ax.figure)
    with pytest.raises(bf.InvalidInput, match="5 × 5"):
        plots.lattice(posterior, 5, 5)


def test_lattice_finds_rows_and_columns(posterior):
    for sides in ((), (3,), (None, 4)):
        _, sites = plots.lattice(posterior, *sides).collections
        np.testing.assert_allclose(sites.get_offsets(), [(k % 4, k // 4) for k in range(12)])
    named = bf.fit(bf.pairwise(4, bf.grid_edges(2, 2), (-1, 1)), [[1, 1, 1, -1]])
    with pytest.raises(bf.InvalidInput, match=r"do not tell rows and columns.*plot_lattice\(rows, columns\)"):
        plots.lattice(named)
    assert len(plots.lattice(named, 2, 2).collections) == 2
    tables = bf.fit(bf.potts(4, bf.grid_edges(2, 2), 3), [[0, 1, 2, 0]])
    with pytest.raises(bf.InvalidInput, match="2 × 2 lattice has 4 sites with one parameter each"):
        plots.lattice(tables, 2, 2)
    plt.close("all")


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


def test_many_edges_leave_out_the_inconclusive(edges):
    names = [f"a name that is rather long {k}" for k in range(30)]
    pairs = list(itertools.combinations(names, 2))
    table = pd.DataFrame(pairs, columns=["first", "second"]).assign(mean=0.5, inclusion=0.8, at_10="inconclusive")
    table.loc[:9, ["inclusion", "at_10"]] = [0.99, "included"]
    ax = plots.network(table)
    assert len([line for line in ax.lines if len(line.get_xdata()) == 2]) == 10
    assert "425 inconclusive at a Bayes factor of 10: not drawn" in [t.get_text() for t in ax.get_legend().get_texts()]
    assert len([line for line in plots.network(table, most=1000).lines if len(line.get_xdata()) == 2]) == 435
    ax = plots.edge_evidence(table)
    assert [t.get_text() for t in ax.get_legend().get_texts()][1] == "inconclusive (425, not drawn)"
    assert len([line for line in ax.lines if len(line.get_xdata()) == 2]) == 10
    assert max(len(t.get_text()) for t in ax.texts) <= 18
    ax.figure.canvas.draw()
    circle = 2.0 * ax.get_window_extent().width / np.ptp(ax.get_xlim())
    assert circle > 0.58 * ax.figure.bbox.width
    plt.close("all")


def test_sensitivity_names_every_curve_apart():
    rows = [
        {"factor": f, "parameter": f"p{k}", "mean": 0.01 * k + 0.1 * f, "sd": 0.1, "lower": -0.1, "upper": 0.6}
        for f in (0.5, 1.0, 2.0)
        for k in range(20)
    ]
    ax = plots.sensitivity(pd.DataFrame(rows))
    looks = {(line.get_color(), line.get_linestyle()) for line in ax.lines[:12]}
    assert len(looks) == len(ax.texts) == 12
    ax.figure.canvas.draw()
    heights = [t.get_position()[1] for t in ax.texts]
    assert heights == sorted(heights)
    centres = np.array(heights) * ax.get_window_extent().height
    assert np.diff(centres).min() > 7 / 72 * ax.figure.dpi  # letters of 7 points
    assert "the 12 of 20 parameters that move most" in ax.get_title()
    with pytest.raises(bf.InvalidInput, match="no parameter 'z'"):
        plots.sensitivity(pd.DataFrame(rows), "z")
    assert len(plots.sensitivity(pd.DataFrame(rows), "p1").texts) == 11
    plt.close("all")


def test_inclusion_is_symmetric(edges):
    _, given = plt.subplots()
    ax = plots.inclusion(edges[0], ax=given)
    assert ax is given
    matrix = ax.images[0].get_array()
    assert matrix[0, 1] == matrix[1, 0] == 0.99
    assert np.ma.getmaskarray(np.ma.masked_invalid(matrix)).diagonal().all()
    assert ax.patch.get_hatch()  # and so told from an even chance
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
