"""Ordinal items, and one distribution in the parameters of several fields."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesfield as bf
from bayesfield.correction.marginals import DrawnMarginals

from naive import Naive
from tolerances import ALGEBRA

LOOP = [(0, 1), (1, 2), (0, 2)]
MIXED = [(0, 1, 2, 3), (1, 3), (-1.0, 0.0, 2.5)]


def pairs(n):
    return [(i, j) for j in range(n) for i in range(j)]


def probabilities(energies):
    weights = [math.exp(e) for e in energies]
    return np.array(weights) / math.fsum(weights)


# --- the field --------------------------------------------------------------------------------------------------


def test_energy_is_thresholds_and_slopes_of_score_products():
    field = bf.ordinal(3, LOOP, (1, 2, 4))
    assert field.parameter_names == ["x0=2", "x0=4", "x1=2", "x1=4", "x2=2", "x2=4", "x0*x1", "x0*x2", "x1*x2"]
    assert list(field.groups) == ["nodes"] * 6 + ["edges"] * 3
    assert len(field.blocks) == 2
    parameters = np.random.default_rng(0).normal(size=9)
    mu = [{1: 0.0, 2: parameters[2 * i], 4: parameters[2 * i + 1]} for i in range(3)]
    sigma = {(0, 1): parameters[6], (0, 2): parameters[7], (1, 2): parameters[8]}
    cases = list(itertools.product((1, 2, 4), repeat=3))
    energies = [sum(mu[i][x[i]] for i in range(3)) + sum(s * x[i] * x[j] for (i, j), s in sigma.items()) for x in cases]
    np.testing.assert_allclose(field.features(np.array(cases)) @ parameters, energies, atol=ALGEBRA)
    np.testing.assert_allclose(Naive(field, parameters).p, probabilities(energies), atol=ALGEBRA)
    assert bf.infer(field, parameters).log_z == pytest.approx(Naive(field, parameters).log_z, abs=ALGEBRA)


def test_items_may_differ_in_their_states():
    field = bf.ordinal(3, LOOP, MIXED, names=["a", "b", "c"])
    assert field.parameter_names == ["a=1", "a=2", "a=3", "b=3", "c=0.0", "c=2.5", "a*b", "a*c", "b*c"]
    assert [list(s) for s in field.states] == [list(s) for s in MIXED]
    parameters = np.random.default_rng(1).normal(0.0, 0.4, 9)
    mu = [
        dict(zip(MIXED[0], [0, *parameters[:3]], strict=True)),
        {1: 0.0, 3: parameters[3]},
        dict(zip(MIXED[2], [0, *parameters[4:6]], strict=True)),
    ]
    cases = list(itertools.product(*MIXED))
    energies = [
        mu[0][a] + mu[1][b] + mu[2][c] + parameters[6] * a * b + parameters[7] * a * c + parameters[8] * b * c
        for a, b, c in cases
    ]
    np.testing.assert_allclose(Naive(field, parameters).p, probabilities(energies), atol=ALGEBRA)
    assert bf.infer(field, parameters).log_z == pytest.approx(Naive(field, parameters).log_z, abs=ALGEBRA)


def test_blume_capel_items_have_two_parameters():
    field = bf.ordinal(3, LOOP, range(5), blume_capel=2)
    assert field.parameter_names == ["x0", "x0²", "x1", "x1²", "x2", "x2²", "x0*x1", "x0*x2", "x1*x2"]
    x = np.array([[0, 3, 4]])
    np.testing.assert_array_equal(field.features(x), [[0, 4, 3, 1, 4, 4, 0, 0, 12]])


def test_blume_capel_and_free_items_stand_side_by_side():
    field = bf.ordinal(3, LOOP, [(0, 1), (0, 1, 2), (0, 1, 2)], blume_capel=[None, None, 1.0])
    assert field.parameter_names[:5] == ["x0=1", "x1=1", "x1=2", "x2", "x2²"]
    np.testing.assert_array_equal(field.features([[1, 2, 2]])[0], [1, 0, 1, 2, 1, 2, 2, 4])


def test_labels_that_are_no_numbers_count_by_position():
    field = bf.ordinal(2, [(0, 1)], ("never", "sometimes", "often"))
    assert field.parameter_names == ["x0=sometimes", "x0=often", "x1=sometimes", "x1=often", "x0*x1"]
    np.testing.assert_array_equal(field.features([["often", "sometimes"]]), [[0, 1, 1, 0, 2]])


def test_tied_parameters_sum_their_features():
    tied, untied = bf.ordinal(3, LOOP, 3, tied=True), bf.ordinal(3, LOOP, 3)
    assert tied.parameter_names == ["x=1", "x=2", "x*x'"]
    X = np.random.default_rng(0).integers(0, 3, size=(9, 3))
    f = untied.features(X)
    wanted = np.stack([f[:, 0:6:2].sum(1), f[:, 1:6:2].sum(1), f[:, 6:].sum(1)], axis=1)
    np.testing.assert_array_equal(tied.features(X), wanted)
    assert bf.ordinal(2, [], 3, tied=True).parameter_names == ["x=1", "x=2"]


def test_association_doubles_the_product():
    field = bf.ordinal(2, [(0, 1)], 3, interaction="association")
    assert field.parameter_names[-1] == "2*x0*x1"
    np.testing.assert_array_equal(field.features([[2, 1]]), [[0, 1, 1, 0, 4]])


def test_without_items_or_edges():
    assert bf.ordinal(0, [], 3).n_parameters == 0
    assert bf.ordinal(0, [], 3, tied=True).n_parameters == 0
    assert bf.ordinal(2, [], 3).parameter_names == ["x0=1", "x0=2", "x1=1", "x1=2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"states": 1}, "at least 2 states"),
        ({"states": None}, "labels in order"),
        ({"states": 3, "blume_capel": 1j}, "finite score"),
        ({"states": [(0, 1), (0, 1), (4,)]}, "'x2' has 1"),
        ({"states": [(0, 1), (0, 1)]}, "one list for each of the 3 items"),
        ({"states": (0, 1, float("nan"))}, "finite"),
        ({"states": [(0, 1), (0, 1), (0, float("inf"))]}, "'x2' must be finite"),
        ({"states": [(0, 1), (0, 0), (0, 1)]}, "item 1 must differ"),
        ({"states": (0, 1), "blume_capel": 0.0}, "at least 3 states"),
        ({"states": 3, "blume_capel": float("nan")}, "finite score"),
        ({"states": 3, "blume_capel": "middle"}, "finite score"),
        ({"states": 3, "blume_capel": [1.0, None]}, "one for each of the 3 items"),
        ({"states": [(0, 1), (0, 1), (0, 2)], "tied": True}, "untie"),
        ({"states": 3, "interaction": "equal"}, "association"),
        ({"states": 3, "names": ["a"]}, "one name for each"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, message):
    with pytest.raises(bf.InvalidInput, match=message):
        bf.ordinal(3, LOOP, **arguments)


def test_fit_recovers_the_parameters():
    """21 errors over their posterior sd: a root mean square of 1.7 or more once in 10⁵ runs."""
    field = bf.ordinal(6, [*pairs(4), (3, 4), (4, 5)], [(0, 1, 2)] * 3 + [(0, 1, 2, 3)] * 2 + [(0, 2)])
    rng = np.random.default_rng(3)
    truth = np.where(np.array(list(field.groups)) == "nodes", rng.normal(0, 0.5, field.n_parameters), 0.3)
    X = bf.sample(field, truth, 3000, rng)
    posterior = bf.fit(field, X, bf.Normal(variance=10.0))
    assert posterior.record.engine == "Exact()"
    z = (posterior.mean - truth) / posterior.sd
    assert np.sqrt(np.mean(z**2)) < 1.7


# --- recoding ---------------------------------------------------------------------------------------------------


def same_distribution(old, new, parameters):
    np.testing.assert_allclose(
        Naive(new, bf.recoding(old, new) @ parameters).p, Naive(old, parameters).p, rtol=ALGEBRA, atol=ALGEBRA
    )


CASES = {
    "0/1 to -1/+1": (bf.pairwise(4, pairs(4), (0, 1)), bf.pairwise(4, pairs(4), (-1, 1))),
    "-1/+1 to 0/1": (bf.grid(2, 2), bf.pairwise(4, bf.grid_edges(2, 2), (0, 1))),
    "tied, all of one degree": (bf.pairwise(3, LOOP, tied=True), bf.pairwise(3, LOOP, (-1, 1), tied=True)),
    "tied to free": (bf.chain(4, (0, 1), tied=True), bf.chain(4)),
    "slopes to associations": (bf.ordinal(3, LOOP, 4), bf.ordinal(3, LOOP, 4, interaction="association")),
    "scores from 1 to scores from 0": (bf.ordinal(3, LOOP, (1, 2, 3)), bf.ordinal(3, LOOP, 3)),
    "different states": (
        bf.ordinal(3, LOOP, MIXED),
        bf.ordinal(3, LOOP, [(5, 4, 3, 2), ("no", "yes"), (0, 2, 7)], interaction="association"),
    ),
    "Blume-Capel, centred": (
        bf.ordinal(3, LOOP, (1, 2, 3, 4, 5), blume_capel=3),
        bf.ordinal(3, LOOP, (-2, -1, 0, 1, 2), blume_capel=0, interaction="association"),
    ),
    "Blume-Capel to thresholds": (bf.ordinal(3, LOOP, 4, blume_capel=2.0), bf.ordinal(3, LOOP, 4)),
    "binary items to a pairwise field": (bf.ordinal(3, LOOP, (0, 1)), bf.pairwise(3, LOOP, (-1, 1))),
    "binary Potts to a pairwise field": (bf.potts(4, pairs(4), 2), bf.pairwise(4, pairs(4), (-1, 1))),
    "more edges": (bf.pairwise(4, bf.grid_edges(2, 2)), bf.pairwise(4, pairs(4), (-1, 1))),
}


@pytest.mark.parametrize("name", CASES)
def test_recoding_keeps_every_probability(name):
    old, new = CASES[name]
    T = bf.recoding(old, new)
    assert T.shape == (new.n_parameters, old.n_parameters)
    for seed in range(3):
        same_distribution(old, new, np.random.default_rng(seed).normal(0.0, 0.7, old.n_parameters))


@given(
    scores=st.lists(st.tuples(st.floats(0.2, 3.0), st.floats(-4.0, 4.0)), min_size=3, max_size=3),
    kinds=st.lists(st.sampled_from([(0, 1), (1, 2, 3), (0, 1, 3, 4)]), min_size=3, max_size=3),
    seed=st.integers(0, 100),
)
def test_recoding_under_any_linear_change_of_scores(scores, kinds, seed):
    """Slopes are divided by the product of the two units; thresholds take up the shifts."""
    new_states = [tuple(a * s + b for s in kind) for kind, (a, b) in zip(kinds, scores, strict=True)]
    old, new = bf.ordinal(3, LOOP, kinds), bf.ordinal(3, LOOP, new_states)
    parameters = np.random.default_rng(seed).normal(size=old.n_parameters)
    same_distribution(old, new, parameters)
    units = [scores[i][0] * scores[j][0] for i, j in old.edges]
    slopes = (bf.recoding(old, new) @ parameters)[-3:]
    np.testing.assert_allclose(slopes, parameters[-3:] / units, rtol=1e-9, atol=1e-9)


def test_binary_codings_by_their_formula():
    """x = (1 + y)/2: λ'_ij = λ_ij/4 and λ'_i = λ_i/2 + Σ_j λ_ij/4."""
    edges = [(0, 1), (0, 2)]
    T = bf.recoding(bf.pairwise(3, edges), bf.pairwise(3, edges, (-1, 1)))
    half, quarter = 0.5, 0.25
    wanted = [
        [half, 0, 0, quarter, quarter],
        [0, half, 0, quarter, 0],
        [0, 0, half, 0, quarter],
        [0, 0, 0, quarter, 0],
        [0, 0, 0, 0, quarter],
    ]
    np.testing.assert_allclose(T, wanted, atol=ALGEBRA)
    back = bf.recoding(bf.pairwise(3, edges, (-1, 1)), bf.pairwise(3, edges))
    np.testing.assert_allclose(back @ T, np.eye(5), atol=ALGEBRA)


def test_recoding_refuses_what_has_no_counterpart():
    binary = bf.pairwise(3, LOOP)
    for new, message in [
        (bf.pairwise(3, LOOP[:2]), "'x0\\*x2'"),
        (bf.pairwise(3, LOOP, 3), "as many states each"),
        (bf.pairwise(2, [(0, 1)]), "as many states each"),
        (bf.RandomField({"a": 2, "b": 2, "c": 2}, [bf.Factor("a", log_table=[0.0, 1.0])]), "log_table"),
    ]:
        with pytest.raises(bf.InvalidInput, match=message):
            bf.recoding(binary, new)
    with pytest.raises(bf.InvalidInput, match="without ties"):
        bf.recoding(bf.chain(3, (0, 1), tied=True), bf.chain(3, tied=True))
    with pytest.raises(bf.InvalidInput, match="x0=1"):
        bf.recoding(bf.ordinal(2, [(0, 1)], 4), bf.ordinal(2, [(0, 1)], 4, blume_capel=1.0))
    with pytest.raises(bf.InvalidInput, match="x0\\*x1"):  # the scores of the last state are no linear change
        bf.recoding(bf.ordinal(2, [(0, 1)], (0, 1, 2)), bf.ordinal(2, [(0, 1)], (0, 1, 5)))


def fitted(field, n=400, **options):
    rng = np.random.default_rng(5)
    X = bf.sample(field, rng.normal(0.0, 0.5, field.n_parameters), n, rng)
    return bf.fit(field, X, **options), X


@pytest.mark.parametrize("correction", ["none", "variational"])
def test_a_recoded_posterior_is_the_posterior_of_the_recoded_fit(correction):
    """Fitting in the other coding, with the prior that goes over, ends at the same numbers."""
    old, new = bf.pairwise(4, pairs(4)), bf.pairwise(4, pairs(4), (-1, 1))
    posterior, X = fitted(old, correction=correction)
    T = bf.recoding(old, new)
    there = bf.recoded(posterior, new)
    np.testing.assert_allclose(there.mean, T @ posterior.mean, atol=ALGEBRA)
    np.testing.assert_allclose(there.covariance(), T @ posterior.covariance() @ T.T, atol=ALGEBRA)
    direct = bf.fit(new, 2 * X - 1, bf.Normal(covariance=T @ T.T), correction=correction)
    within = 1e-5 if correction == "none" else 0.1  # sd; a correction has draws of its own
    assert np.abs((direct.mode - there.mode) / direct.sd).max() < 1e-5
    assert np.abs((direct.mean - there.mean) / direct.sd).max() < within
    np.testing.assert_allclose(there.sd, direct.sd, rtol=within)
    np.testing.assert_allclose(there.skewness, direct.skewness, atol=1e-6 if correction == "none" else 0.05)
    assert list(there.summary().index) == new.parameter_names


def test_a_recoded_posterior_made_of_draws_has_the_draws_recoded():
    """T of every draw, with its weight: nothing is drawn anew."""
    old, new = bf.pairwise(2, [(0, 1)]), bf.pairwise(2, [(0, 1)], (-1, 1))
    posterior = bf.fit(old, [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15, bf.Normal(variance=100.0))
    T = bf.recoding(old, new)
    there = bf.recoded(posterior, new)
    assert isinstance(there.marginals, DrawnMarginals)
    np.testing.assert_array_equal(there.marginals.weights, posterior.marginals.weights)
    np.testing.assert_allclose(there.marginals.points, posterior.marginals.points @ T.T, atol=ALGEBRA)
    np.testing.assert_allclose(there.sample(50, 0), posterior.sample(50, 0) @ T.T, atol=ALGEBRA)
    np.testing.assert_allclose(there.mean, there.marginals.mean, atol=1e-9)
    np.testing.assert_allclose(there.covariance(), there.marginals.covariance, rtol=1e-6)
    back = bf.recoded(there, old)
    np.testing.assert_allclose(back.summary(), posterior.summary(), atol=1e-7)
    np.testing.assert_allclose(back.skewness, posterior.skewness, atol=1e-7)


def test_a_posterior_there_and_back_is_itself():
    old, new = bf.ordinal(3, LOOP, 3), bf.ordinal(3, LOOP, (-1, 0, 1), interaction="association")
    posterior, X = fitted(old)
    back = bf.recoded(bf.recoded(posterior, new), old)
    np.testing.assert_allclose(back.mean, posterior.mean, atol=1e-9)
    np.testing.assert_allclose(back.precision, posterior.precision, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(back.skewness, posterior.skewness, atol=1e-6)
    assert back.objective.log_likelihood(back.objective.at(back.mode)) == pytest.approx(
        posterior.record.log_likelihood, abs=1e-6
    )
    np.testing.assert_array_equal(old.encode(X), new.encode(X - 1))


def test_a_recoded_posterior_can_be_checked_and_imputes():
    old, new = bf.ordinal(3, LOOP, 3), bf.ordinal(3, LOOP, (1, 2, 3), names=["a", "b", "c"])
    rng = np.random.default_rng(2)
    X = bf.sample(old, rng.normal(0.0, 0.4, old.n_parameters), 300, rng).astype(float)
    X[rng.random(X.shape) < 0.1] = np.nan
    there = bf.recoded(bf.fit(old, X, correction="none"), new)
    assert there.check().passed
    assert there.check().names == new.parameter_names
    assert there.impute(X + 1, n_draws=5, completions=1).completions.shape == (1, 300, 3)


def test_the_prior_is_recoded_too():
    """On the new scale λ′ = Tλ has the variance that the old prior gives it; edges are judged alike."""
    old, new = bf.ordinal(3, LOOP, 3), bf.ordinal(3, LOOP, 3, interaction="association")
    rng = np.random.default_rng(3)
    posterior = bf.fit(old, bf.sample(old, rng.normal(0.0, 0.4, old.n_parameters), 200, rng), bf.Normal(variance=2.0))
    there = bf.recoded(posterior, new)
    edges = np.array(list(old.groups)) == "edges"
    np.testing.assert_allclose(1.0 / there.prior.precision(new), np.where(edges, 0.5, 2.0))
    np.testing.assert_allclose(there.edges()["log_bayes_factor"], posterior.edges()["log_bayes_factor"], atol=0.02)
    assert abs(there.evidence(n_draws=0).value - posterior.evidence(n_draws=0).value) < 1e-6
    with pytest.raises(bf.InvalidInput, match="the new field is"):
        bf.recoded(posterior, 3)


def test_a_posterior_of_fewer_parameters_has_no_density():
    posterior, _ = fitted(bf.ordinal(3, LOOP, 4, blume_capel=2.0), correction="none")
    with pytest.raises(bf.InvalidInput, match="do not determine one another"):
        bf.recoded(posterior, bf.ordinal(3, LOOP, 4))


# --- real data --------------------------------------------------------------------------------------------------


def questionnaire(data, name, columns=None):
    """Items, and the field of all their pairs; every item has the states that somebody chose."""
    items = pd.read_csv(data / "questionnaires" / f"{name}.csv").drop(columns="language", errors="ignore")
    items = items if columns is None else items.iloc[:, :columns]
    states = [sorted({int(x) for x in items[c].dropna()}) for c in items]
    return items, bf.ordinal(items.shape[1], pairs(items.shape[1]), states, names=list(items.columns))


WIDE = bf.Normal(variance={"nodes": 25.0, "edges": 1.0})


def test_items_of_a_questionnaire(data):
    items, field = questionnaire(data, "boredom", 4)
    posterior = bf.fit(field, items, WIDE)
    assert posterior.record.engine == "Exact()"
    assert posterior.check().passed
    again = bf.ordinal(4, pairs(4), 7, names=field.names, interaction="association")
    there = bf.recoded(posterior, again)
    edges = np.array(list(field.groups)) == "edges"
    np.testing.assert_allclose(there.mean[edges], posterior.mean[edges] / 2, rtol=1e-8)
    np.testing.assert_allclose(there.sd[edges], posterior.sd[edges] / 2, rtol=1e-6)
    X = field.encode(items)
    before, after = (f.features(f.decode(X)) @ p.mean for f, p in ((field, posterior), (again, there)))
    assert np.ptp(before - after) < 1e-8


@pytest.mark.slow
def test_all_items_about_boredom(data):
    """5.8 million joint states: an exact fit takes a minute or more, so that sampling is chosen; they agree."""
    items, field = questionnaire(data, "boredom")
    posterior = bf.fit(field, items, WIDE, engine="exact", method="newton", correction="none")
    sampled = bf.fit(field, items, WIDE, correction="none")
    assert sampled.record.engine.startswith("Sampled(")
    assert "an exact fit would take" in str(sampled.record)
    assert sampled.record.check.passed
    assert np.abs((sampled.mean - posterior.mean) / posterior.sd).max() < 0.3
    np.testing.assert_allclose(sampled.sd, posterior.sd, rtol=0.1)


@pytest.mark.slow
def test_symptoms_after_an_earthquake(data):
    """17 items with holes, all pairs: Bethe fails its check, and sampling passes it."""
    items, field = questionnaire(data, "wenchuan_ptsd")
    posterior = bf.fit(field, items, WIDE, correction="none")
    assert posterior.record.engine.startswith("Sampled(")
    assert posterior.record.check.passed
    strong = posterior.summary().p_positive
    assert min(strong["avoidth*avoidact"], strong["intrusion*dreams"], strong["upset*physior"]) > 0.999
