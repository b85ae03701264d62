"""Lattices by ``bf.LatticeField``: masks, holes, offsets, covariates, kinds and sizes, against exact inference.

Tolerances: ALGEBRA where two ways must agree by rounding; streaming chains are asked for an error of 0.03 posterior sd,
and must come to 0.2 sd of exact modes and 10 % of exact widths (five errors; seeds are fixed).
"""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.inference.sampling import streams
from bayesfield.inference.sampling.streamed import Streamed
from bayesfield.model.lattices import lattice, offsets_of

ALGEBRA = 1e-10
FULL = np.ones((9, 8), dtype=bool)


def log_p(field, parameters, codes):
    """log p of a case up to a constant, from the tables of the compiled field."""
    c = compiled(field)
    theta = c.design.potentials(np.asarray(parameters, dtype=float))
    return sum(bf.Exact().infer(c.graph, theta + bonus).log_z for bonus in [_clamp(c, codes)])


def _clamp(c, codes):
    g = c.graph.arrays
    bonus = np.zeros(c.graph.n_entries)
    for i, x in enumerate(codes):
        bonus[g.node_ptr[i] : g.node_ptr[i + 1]] = np.where(np.arange(g.cardinality[i]) == x, 0.0, -1e4)
    return bonus


def simulated(field, parameters, seed=0):
    return bf.sample(field, parameters, 1, rng=seed, engine=bf.Exact())[0]


# --- the model ------------------------------------------------------------------------------------------------------


def test_the_plain_lattice_is_the_grid():
    ours, theirs = lattice([FULL], (-1, 1)), bf.grid(9, 8, tied=True)
    assert list(ours.parameter_names) == list(theirs.parameter_names)
    assert ours.edges == theirs.edges
    assert list(ours.names) == list(theirs.names)


@pytest.mark.parametrize("kind", ["ising", "potts", "ordinal"])
def test_energies_by_hand(kind):
    """Two rows of three, one site left out, diagonals, a covariate: log p against sums over sites and pairs."""
    mask = np.array([[True, True, False], [True, True, True]])
    states = (0, 1) if kind == "ising" else (0, 1, 2)
    z = np.arange(6.0).reshape(2, 3) / 5
    field = lattice([mask], states, kind, neighbours=8, tied="directions", covariates=[z])
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=field.n_parameters)
    named = dict(zip(field.parameter_names, parameters, strict=True))
    both = [rng.integers(len(states), size=(2, 3)) for _ in range(2)]

    def energy(x):
        s, total = 2 * x - 1 if kind == "ising" else x, 0.0
        for r, c in np.argwhere(mask):
            if kind == "ising":
                total += s[r, c] * (named["x"] + z[r, c] * named["z0*x"])
            elif x[r, c]:
                total += named[f"x={x[r, c]}"]
                total += z[r, c] * (named[f"z0*x={x[r, c]}"] if kind == "potts" else x[r, c] * named["z0*x"])
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                a, b = r + down, c + right
                if a < 2 and 0 <= b < 3 and mask[a, b]:
                    if kind == "potts":
                        total += named[f"x==x({down},{right})"] * (x[r, c] == x[a, b])
                    else:
                        total += named[f"x*x({down},{right})"] * s[r, c] * s[a, b]
        return total

    ours = [log_p(field, parameters, x[mask]) for x in both]
    assert abs((ours[1] - ours[0]) - (energy(both[1]) - energy(both[0]))) < 1e-8


def test_offsets():
    assert offsets_of(4) == ((0, 1), (1, 0))
    assert offsets_of([(0, -1), (0, 1), (2, -1)]) == ((0, 1), (2, -1))
    for wrong in (5, [(0, 0)], [], [(1, 2, 3)], ["ab"]):
        with pytest.raises(bf.InvalidInput):
            offsets_of(wrong)


# --- fits against exact ones ----------------------------------------------------------------------------------------


def both_fits(images, exact_too=None, covariates=None, **options):
    """By streaming chains and by exact inference, both without corrections."""
    streamed = bf.LatticeField(engine=Streamed(error=0.03), correction="none", **options)
    exact = bf.LatticeField(engine="exact", correction="none", **options)
    found = [one.fit(images, covariates=covariates).posterior_ for one in (streamed, exact)]
    assert (np.abs(found[0].mode - found[1].mode) < 0.2 * found[1].sd).all()
    assert (np.abs(found[0].sd / found[1].sd - 1) < 0.1).all()
    return found


def image(seed=0, rows=12, columns=12, parameters=(0.1, 0.3)):
    return simulated(bf.grid(rows, columns, tied=True), parameters, seed).reshape(rows, columns)


def test_holes_in_one_image():
    x = image().astype(float)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    x[4:7, 4:7] = np.nan
    both_fits(x[None])


def test_holes_by_chains(monkeypatch):
    """The same where what is hidden is too large for exact inference: chains of its own."""
    x = image().astype(float)
    x[3:9, 2:9] = np.nan
    field = bf.grid(12, 12, tied=True)
    from bayesfield.fitting.fields import read_field
    from bayesfield.fitting.planning.request import request
    from bayesfield.learning.search.tied import surfaced, tied_start

    objective = read_field(field, x.reshape(1, -1), request()).with_engine(Streamed(error=0.03))
    free, hidden = objective.phases
    chained = type(objective)(
        objective.prior, (free, type(hidden)(hidden.graph, hidden.design, bf.Bethe(), hidden.weight, True)),
        objective.statistic, objective.constant, objective.data,
    )  # fmt: skip
    made = surfaced(chained, tied_start(objective))
    exact = bf.fit(field, x.reshape(1, -1), engine="exact", correction="none")
    point = made.at(exact.mode)
    away = np.linalg.solve(made.curvature(point), point.gradient) / exact.sd
    assert np.abs(away).max() < 0.25
    assert np.abs(np.sqrt(np.diag(np.linalg.inv(made.curvature(point)))) / exact.sd - 1).max() < 0.15


def test_a_mask_is_not_a_hole():
    x = image(2)
    mask = np.ones((12, 12), dtype=bool)
    mask[:5, :6] = False
    streamed, exact = both_fits(x[None], mask=mask)
    assert streamed.field.n_variables == mask.sum()
    other = x.copy()
    other[~mask] = 7  # whatever stands there
    np.testing.assert_allclose(
        bf.LatticeField(mask=mask, engine="exact", correction="none").fit(other[None]).posterior_.mode, exact.mode
    )
    holed = np.where(mask, x, np.nan)
    as_holes = bf.LatticeField(engine="exact", correction="none").fit(holed[None]).posterior_
    assert np.abs(as_holes.mode - exact.mode).max() > 1e-3
    drawn = bf.LatticeField(mask=mask, correction="none").fit(x[None]).sample(2)
    assert drawn.shape == (2, 12, 12)
    assert (np.isnan(drawn) == ~mask).all()


def test_directions_and_covariates():
    z = np.round(np.linspace(-1, 1, 12), 1)[:, None] + np.zeros((12, 12))
    field = lattice([np.ones((12, 12), dtype=bool)], (0, 1), tied="directions", covariates=[z])
    x = simulated(field, [0.1, 0.4, 0.4, 0.1]).reshape(12, 12)
    streamed, _ = both_fits(x[None], covariates=z, tied="directions")
    assert list(streamed.field.parameter_names) == ["x", "z0*x", "x*x(0,1)", "x*x(1,0)"]
    assert streamed.mode[2] > streamed.mode[3]


@pytest.mark.parametrize("kind", ["potts", "ordinal"])
def test_several_states(kind):
    field = lattice([np.ones((7, 16), dtype=bool)], (0, 1, 2), kind)
    parameters = [0.2, -0.1, 0.5] if kind == "potts" else [-0.3, -0.6, 0.3]
    x = simulated(field, parameters).reshape(7, 16)
    streamed, _ = both_fits(x[None], kind=kind)
    assert streamed.field.n_parameters == 3


def test_images_of_several_sizes():
    """One field of two images: the exact fit is that of both objectives together."""
    x = [image(3, 12, 12), image(4, 8, 14)]
    streamed, exact = both_fits(x)
    fitted = bf.LatticeField(engine="exact", correction="none").fit(x)
    assert [a.shape for a in fitted.site_probabilities(x)] == [(12, 12), (8, 14)]
    assert [[a.shape for a in one] for one in fitted.sample(2)] == [[(12, 12), (8, 14)]] * 2
    same = bf.LatticeField(engine="exact", correction="none").fit([x[1][None][0], x[0]]).posterior_
    np.testing.assert_allclose(same.mode, exact.mode, atol=1e-6)
    assert streamed.field.n_variables == 144 + 112


@pytest.mark.slow
def test_endives():
    """14 × 179 plants, against exact inference: −0.3748 ± 0.0490 and 0.2014 ± 0.0218 (docs/tutorials/image.md)."""
    import os
    from pathlib import Path

    path = Path(os.environ.get("BAYESFIELD_DATA", "../shared/data")) / "spatial" / "endive_14x179.txt"
    if not path.exists():
        pytest.skip("the data are not here")
    x = np.array([[int(plant) for plant in row] for row in path.read_text().split()])
    posterior = bf.LatticeField(correction="none").fit(x[None]).posterior_
    assert posterior.record.engine == "Streamed()"
    assert (np.abs(posterior.mode - [-0.3748, 0.2014]) < 0.25 * np.array([0.0490, 0.0218])).all()
    np.testing.assert_allclose(posterior.sd, [0.0490, 0.0218], rtol=0.1)


# --- chains ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hasten", [False, True])
def test_turns_and_clusters_have_exact_moments(hasten):
    """4 × 4 beyond the critical point. Means to 4.5 standard errors of 64 chains (once in 20,000 seeds), of states and
    of their means over turning; the negatives' features by recounting."""
    field = bf.grid(4, 4, (-1, 1), tied=True)
    c = compiled(field)
    at = np.array([0.02, 0.6])
    theta = c.design.potentials(at)
    exact = c.design.expectations(bf.Exact().infer(c.graph, theta).tables)
    chains = streams.streams(c.graph, c.design, None, 1)
    if hasten:
        assert chains.hasten()
    points = np.tile(at, (64, 1))
    chains.run(points, 200, 8)
    series = chains.run(points, 4000, 8)
    for one in (series.states, series.means):
        each = one.mean(axis=0)
        assert (np.abs(each.mean(axis=0) - exact) < 4.5 * each.std(axis=0, ddof=1) / 8).all()
    np.testing.assert_allclose(series.negatives, series.states * [-1, 1], atol=ALGEBRA)
    assert series.means[..., 0].var() < 0.5 * series.states[..., 0].var()


# --- the estimator --------------------------------------------------------------------------------------------------


def test_probabilities_of_sites():
    """Against the logistic function of neighbours' sums, at the posterior's draws: within the draws' spread."""
    x = image(5)
    fitted = bf.LatticeField(engine="exact", correction="none").fit(x[None])
    p = fitted.site_probabilities(x[None])[0]
    around = np.zeros((12, 12))
    around[1:] += x[:-1]
    around[:-1] += x[1:]
    around[:, 1:] += x[:, :-1]
    around[:, :-1] += x[:, 1:]
    h, K = fitted.posterior_.mean
    assert np.abs(p - 1 / (1 + np.exp(-2 * (h + K * around)))).max() < 0.03
    holed = x.astype(float)
    holed[0, 0] = np.nan
    assert np.isfinite(fitted.site_probabilities(holed[None])).all()
    potts = bf.LatticeField(kind="potts", engine="exact", correction="none").fit(np.arange(24).reshape(1, 4, 6) % 3)
    assert potts.site_probabilities(np.arange(24).reshape(1, 4, 6) % 3).shape == (1, 4, 6, 3)


def test_a_picture():
    import matplotlib as mpl

    mpl.use("Agg")
    x = image(6)
    mask = np.ones((12, 12), dtype=bool)
    mask[0, :3] = False
    figure = bf.LatticeField(mask=mask, engine="exact", correction="none").fit(x[None]).plot(x[None], simulated=2)
    assert [axes.get_title() for axes in figure.axes[:4]] == [
        "image", "p(site = 1 | rest)", "simulated 1", "simulated 2",
    ]  # fmt: skip


WRONG = {
    "grey levels": (lambda: bf.LatticeField().fit(np.arange(900).reshape(1, 30, 30) % 60), "few states, up to 16.*60"),
    "mask": (lambda: bf.LatticeField(mask=np.ones((2, 2))).fit(np.eye(4)[None]), "mask is an array of True"),
    "empty": (lambda: bf.LatticeField(mask=np.zeros((4, 4), bool)).fit(np.eye(4)[None]), "leaves no site"),
    "covariates": (lambda: bf.LatticeField().fit(np.eye(4)[None], covariates=np.ones((3, 4))), "like the image"),
    "ties": (lambda: bf.LatticeField(tied="both").fit(np.eye(4)[None]), "tied is True, False"),
    "kind": (lambda: bf.LatticeField(kind="other").fit(np.eye(4)[None]), "kind is"),
    "another size": (
        lambda: bf.LatticeField(engine="exact").fit([np.eye(4), np.eye(3)]).predict([np.eye(4), np.eye(4)]),
        "the field is of images",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refusals(name):
    call, words = WRONG[name]
    with pytest.raises(bf.InvalidInput, match=words):
        call()


def test_beyond_the_critical_point():
    """K = 0.5 at 40²: the fit is on the data's side, holds the truth within 4 sd, and speaks of the critical region."""
    field = bf.grid(40, 40, tied=True)
    c = compiled(field)
    chains = streams.streams(c.graph, c.design, None, 3)
    chains.hasten()
    chains.run(np.tile([0.0, 0.5], (64, 1)), 400, 8)
    x = np.where((chains.words >> np.uint64(5)) & np.uint64(1), 1, -1).reshape(40, 40)
    with pytest.warns(bf.FitWarning, match="critical point"):
        posterior = bf.LatticeField().fit(x[None]).posterior_
    assert abs(posterior.mean[1] - 0.5) < 4 * posterior.sd[1]
    assert posterior.mean[0] * x.sum() > 0
