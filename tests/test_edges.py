"""Edges: Bayes factors, verdicts, joint statements, and the search over structures against all of them."""

import itertools

import numpy as np
import pytest
from scipy import special, stats

import bayesfield as bf
from bayesfield.correction.cumulants import log_density
from bayesfield.posterior.edges import edges_of, log_density_at_zero

PRIOR = bf.Normal(variance=1.0)
PAIRS = list(itertools.combinations(range(4), 2))


def network(n_cases=150, seed=0, field=None):
    field = field or bf.pairwise(4, PAIRS)
    rng = np.random.default_rng(seed)
    truth = np.zeros(field.n_parameters)
    nodes = np.array(list(field.groups)) == "nodes"
    truth[nodes] = rng.normal(size=nodes.sum()) - 0.5
    truth[~nodes] = np.where(rng.random((~nodes).sum()) < 0.5, 1.2 * rng.normal(size=(~nodes).sum()), 0.0)
    return field, bf.sample(field, truth, n_cases, rng)


def test_savage_and_dickey_against_two_evidences():
    """The log Bayes factor of an edge is the difference of the two models' own log evidences: within 0.15 nats."""
    field, X = network()
    posterior = bf.fit(field, X, PRIOR, "exact")
    table = posterior.edges()
    whole = posterior.evidence(n_draws=2000).value
    for k, pair in enumerate(PAIRS):
        without = bf.pairwise(4, [p for p in PAIRS if p != pair])
        wanted = whole - bf.fit(without, X, PRIOR, "exact").evidence(n_draws=2000).value
        if abs(wanted) < 4.0:  # beyond, tails decide, and no verdict does
            assert abs(table["log_bayes_factor"][k] - wanted) < 0.15
        assert np.sign(table["log_bayes_factor"][k]) == np.sign(wanted) or abs(wanted) < 0.15


def test_table_of_edges():
    field, X = network()
    posterior = bf.fit(field, X, PRIOR, "exact")
    table = posterior.edges(probability=0.2)
    assert list(zip(table["first"], table["second"], strict=True)) == [(f"x{i}", f"x{j}") for i, j in PAIRS]
    np.testing.assert_allclose(special.logit(table["inclusion"]), table["log_bayes_factor"] + np.log(0.25))
    factor = table["log_bayes_factor"].to_numpy()
    for threshold in (10, 3):
        said = table[f"at_{threshold}"].to_numpy()
        assert ((said == "included") == (factor >= np.log(threshold))).all()
        assert ((said == "excluded") == (factor <= -np.log(threshold))).all()
    np.testing.assert_allclose(table["mean"], posterior.mean[4:])


def test_edges_of_several_parameters():
    """A table of four parameters: the prior's density at zero over the Gaussian posterior's, written out."""
    field, X = network(field=bf.potts(3, [(0, 1), (1, 2)], 3, interaction="table"))
    posterior = bf.fit(field, X, bf.Normal(variance=0.5), "exact", correction="none")
    own = [e.parameters for e in edges_of(field)]
    assert [len(k) for k in own] == [4, 4]
    for k, said in zip(own, posterior.edges()["log_bayes_factor"], strict=True):
        covariance = posterior.covariance()[np.ix_(k, k)]
        after = stats.multivariate_normal(posterior.mean[k], covariance).logpdf(np.zeros(4))
        assert abs(said - (4 * stats.norm(0, np.sqrt(0.5)).logpdf(0.0) - after)) < 1e-8
        assert abs(log_density_at_zero(posterior.mean[k], covariance) - after) < 1e-10


def test_density_of_a_leaning_marginal():
    """It integrates to one, within 2 %."""
    x = np.linspace(-12, 30, 400_001)
    for skewness in (0.0, 0.4, -0.4, 1.5):
        p = np.exp(log_density(np.sign(skewness or 1) * x, np.full(len(x), skewness)))
        p = np.where(np.sign(skewness or 1) * x * np.sign(skewness or 1) < -6.0 / max(abs(skewness), 0.3), 0.0, p)
        inside = np.trapezoid(p, x)
        assert abs(inside - 1.0) < 2e-2


def all_structures(posterior, odds, field):
    """Inclusion by every structure's Gaussian evidence, and structure probabilities, written out."""
    own = [e.parameters for e in edges_of(field)]
    covariance, value, rows = posterior.covariance(), [], list(itertools.product((0, 1), repeat=len(own)))
    for row in rows:
        out = [k for there, k in zip(row, own, strict=True) if not there]
        total = odds(sum(row))
        if out:
            k = np.concatenate(out)
            after = stats.multivariate_normal(posterior.mean[k], covariance[np.ix_(k, k)], allow_singular=False)
            total += after.logpdf(np.zeros(len(k))) - stats.norm(0, 1).logpdf(0.0) * len(k)
        value.append(total)
    weight = special.softmax(value)
    return weight @ np.array(rows), dict(zip(rows, weight, strict=True))


@pytest.mark.parametrize("kind", ["bernoulli", "beta-binomial"])
@pytest.mark.parametrize("states", [2, 3])
def test_search_against_all_structures(kind, states):
    """The chains' inclusion probabilities within five of their errors (plus 0.003) of the enumerated ones."""
    edges = PAIRS if states == 2 else PAIRS[:4]
    several = bf.potts(4, edges, 3, interaction="table")
    field, X = network(field=bf.pairwise(4, edges) if states == 2 else several)
    posterior = bf.fit(field, X, PRIOR, "exact", correction="none")
    E = len(edges)
    if kind == "bernoulli":
        prior, odds = bf.BernoulliEdges(0.3), lambda k: k * special.logit(0.3)
    else:
        prior, odds = bf.BetaBinomialEdges(1.0, 2.0), lambda k: special.betaln(1.0 + k, 2.0 + E - k)
    wanted, probability = all_structures(posterior, odds, field)
    found = bf.search_structure(posterior, prior, sweeps=3000)
    error = 5 * found.table["error"].to_numpy() + 3e-3
    np.testing.assert_array_less(np.abs(found.table["inclusion"] - wanted), error)
    top = found.structures.iloc[0]
    assert abs(probability[tuple(int(v) for v in top.iloc[1:])] - top["share"]) < 0.03
    assert found.structures["share"].sum() <= 1.0 + 1e-12
    if states == 2:
        assert {"mean", "sd", "p_positive"} <= set(found.table)
    np.testing.assert_array_equal(
        bf.search_structure(posterior, prior, sweeps=3000).table["inclusion"], found.table["inclusion"]
    )


def test_averages_over_structures():
    """Effects are averaged with zero where the edge is out: against all structures, each with its own mean."""
    field, X = network()
    posterior = bf.fit(field, X, PRIOR, "exact", correction="none")
    _, probability = all_structures(posterior, lambda k: 0.0, field)
    P, m = posterior.precision, posterior.mean
    mean = np.zeros(len(m))
    for row, weight in probability.items():
        inside = np.concatenate([np.ones(4, dtype=bool), np.array(row, dtype=bool)])
        mean[inside] += weight * np.linalg.solve(P[np.ix_(inside, inside)], (P @ m)[inside])
    found = bf.search_structure(posterior, sweeps=3000)
    np.testing.assert_allclose(found.table["mean"], mean[4:], atol=0.02)


def test_check_with_another_prior_mean():
    """What is left out is zero, whatever the prior's mean; a single structure has a discrepancy, too."""
    field, X = network(n_cases=80)
    posterior = bf.fit(field, X, bf.Normal(variance=0.5, mean=0.6), "exact")
    assert bf.search_structure(posterior, sweeps=200, check=10).discrepancy < 1.0
    assert 0.0 < bf.search_structure(posterior, sweeps=200, check=1).discrepancy < 2.0
    with pytest.raises(bf.InvalidInput, match="Gaussian prior"):
        bf.search_structure(bf.fit(field, X, bf.Cauchy(), "exact"), sweeps=50, check=2)


def test_dropped_edges_are_not_judged_again():
    field, X = network(n_cases=200)
    posterior = bf.fit(field, X, bf.ARD(groups=[None] * 4 + field.parameter_names[4:]), "exact", correction="none")
    assert posterior.record.prior.table["dropped"].any()
    for call in (posterior.edges, lambda: bf.search_structure(posterior)):
        with pytest.raises(bf.InvalidInput, match="ARD has dropped"):
            call()


def test_far_from_a_gaussian_is_said():
    """Two items that always agree, under a wide prior: no Gaussian holds that, and the table says so."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (60, 4))
    X[:, 1], X[:, 2] = X[:, 0], 1
    with pytest.warns(bf.FitWarning, match="far from a Gaussian"):
        posterior = bf.fit(bf.pairwise(4, PAIRS), X, bf.Normal(variance=100.0), "exact", correction="variational")
    assert "far from a Gaussian" in posterior.record.correction.reason
    with pytest.warns(bf.FitWarning, match="Bayes factors are rough"):
        posterior.edges()


def test_joint_statements_of_a_sparse_posterior():
    field, rng = bf.grid(6, 6), np.random.default_rng(1)
    X = bf.sample(field, 0.3 * rng.normal(size=field.n_parameters), 300, rng)
    sparse, dense = (bf.fit(field, X, PRIOR, "bethe", correction="none", form=form) for form in ("sparse", "dense"))
    assert sparse.form.form == "sparse"
    assert sparse.sure_signs().names == dense.sure_signs().names
    np.testing.assert_allclose(*(p.summary(joint=True)["upper"] for p in (sparse, dense)), rtol=1e-6)


def test_check_solves_structures_for_themselves():
    field, X = network(n_cases=400)
    found = bf.search_structure(bf.fit(field, X, PRIOR, "exact"), sweeps=500, check=15)
    assert found.checked >= 10
    assert found.discrepancy < 0.5
    assert "evidence off by" in str(found)
    assert set(found.median_structure) <= {(f"x{i}", f"x{j}") for i, j in PAIRS}
    with pytest.raises(bf.InvalidInput, match="knows log Z"):
        bf.search_structure(bf.fit(field, X, PRIOR, method="pseudo_likelihood"), sweeps=50, check=5)


def test_other_posteriors_can_be_searched():
    """The pseudo-likelihood's and a sampled one: the same verdicts where the data are clear."""
    field, X = network(n_cases=1500)
    wanted = bf.search_structure(bf.fit(field, X, PRIOR, "exact"), sweeps=500).table["inclusion"]
    for options in (
        {"method": "pseudo_likelihood"},
        {"engine": "sampled"},
        {"prior": bf.Cauchy(1.0, groups=("edges",))},
    ):
        found = bf.search_structure(bf.fit(field, X, **({"prior": PRIOR} | options)), sweeps=500).table["inclusion"]
        clear = (wanted < 0.1) | (wanted > 0.9)
        assert clear.any()
        np.testing.assert_allclose(found[clear], wanted[clear], atol=0.15)


def test_signs_and_bands_that_hold_at_once():
    """Against fresh draws: the stated probability within 0.02 (4 standard errors of 4,000 draws on either side)."""
    field, X = network()
    posterior = bf.fit(field, X, PRIOR, "exact")
    said = posterior.sure_signs(0.9)
    assert said.probability >= 0.9
    at = [field.parameter_names.index(name) for name in said.names]
    draws = posterior.sample(4000, 9)
    right = (np.sign(draws[:, at]) == np.array(said.signs)).all(axis=1).mean()
    assert abs(right - said.probability) < 0.02
    wide, narrow = posterior.summary(0.9, joint=True), posterior.summary(0.9)
    assert (wide["upper"] > narrow["upper"]).all()
    inside = ((draws > wide["lower"].to_numpy()) & (draws < wide["upper"].to_numpy())).all(axis=1).mean()
    assert abs(inside - 0.9) < 0.02
    none = posterior.sure_signs(0.999999, n_draws=2000)
    assert none.probability >= 0.999999


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda p: p.edges(probability=1.0), "between 0 and 1"),
        (lambda p: p.sure_signs(level=2.0), "between 0 and 1"),
        (lambda p: bf.search_structure(p, sweeps=1), "at least 10 sweeps"),
        (lambda p: bf.BernoulliEdges(0.0), "between 0 and 1"),
        (lambda p: bf.BetaBinomialEdges(0.0, 1.0), "above zero"),
        (lambda p: bf.fit(bf.grid(2, 2), [[1, 1, 1, -1]], bf.Normal(covariance=np.eye(8))).edges(), "covariance"),
        (lambda p: bf.search_structure(bf.fit(bf.grid(2, 2, tied=True), [[1, 1, 1, -1]])), "share parameters"),
        (lambda p: bf.fit(bf.grid(2, 2, tied=True), [[1, 1, 1, -1]]).edges(), "share parameters"),
        (lambda p: bf.search_structure(p, 0.5), "graph_prior is bf.BernoulliEdges"),
        (lambda p: bf.search_structure(p.field), "takes a posterior"),
        (lambda p: bf.search_structure(p, chains=2.5), "whole numbers"),
        (lambda p: bf.BetaBinomialEdges(np.inf, 1.0), "finite and above zero"),
        (lambda p: p.sure_signs(n_draws=0), "above zero"),
        (lambda p: bf.fit(bf.pairwise(2, []), [[0, 1]]).edges(), "no factor over two variables"),
        (lambda p: bf.fit_sequences(bf.CRF(2, 1), [[[1.0]]], [[0]]).edges(), "those of a bf.RandomField"),
    ],
)
def test_bad_input(call, reason):
    field, X = network(30)
    with pytest.raises(bf.InvalidInput, match=reason):
        call(bf.fit(field, X, PRIOR, "exact", correction="none"))


def test_draws_with_none_beyond_zero():
    """The density at zero is profiled: the Bayes factor is that of the evidences; without data it is said to be rough.
    Where draws lie about zero, they have it."""
    field, prior = bf.pairwise(2, [(0, 1)], names=["a", "b"]), bf.Normal(variance=100.0)
    never = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    posterior, alone = bf.fit(field, never, prior, correction="draws"), bf.pairwise(2, [], names=["a", "b"])
    wanted = posterior.evidence().value - bf.fit(alone, never, prior).evidence().value
    assert abs(posterior.edges()["log_bayes_factor"].iloc[0] - wanted) < 0.2
    with pytest.warns(bf.FitWarning, match=r"Bayes factors of a\*b are rough: hardly any draw lies beyond zero"):
        posterior.without_data().edges()
    both = [[0, 0]] * 10 + [[0, 1]] * 10 + [[1, 1]] * 10 + [[1, 0]] * 8
    drawn, gaussian = (bf.fit(field, both, prior, correction=c).edges() for c in ("draws", "auto"))
    np.testing.assert_allclose(drawn["log_bayes_factor"], gaussian["log_bayes_factor"], atol=0.1)
