"""bgms: its log pseudo-posterior, written down here by itself, has the mode that ``bf.fit`` finds.

R and bgms are not needed. The formula is that of bgms's source (``bgm_logp_and_grad.cpp``): for every person v and
item i with rest score r_vi = c Σ_j σ_ij s(x_vj),

    log p(x_vi | rest) = μ_i(x_vi) + s(x_vi) r_vi − log Σ_k exp(μ_i(k) + s(k) r_vi),

c = 1 up to version 0.1.6.3 and c = 2 from 0.2.0 on; σ_ij ~ Cauchy(0, scale); every main parameter μ has
α μ − (α + β) log(1 + exp(μ)), the beta-prime prior, or here, to match, −μ² / (2 variance).
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

import bayesfield as bf

MODE = 1e-4  # parameters; the reference optimiser stops at gradients of about 1e-5
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("BAYESFIELD_DATA", SHARED)) / "questionnaires"
WIDE = 15.0  # variance of thresholds: nearest to the beta-prime prior where thresholds are −5 to −10


def pairs(n):
    return [(i, j) for j in range(n) for i in range(j)]


def thresholds(scores):
    """Main features of an ordinal item: an indicator of each category but the first."""
    return np.eye(len(scores))[:, 1:]


def blume_capel(scores):
    return np.stack([scores, scores**2], axis=1)


def published(values, codes, scores, features, factor, scale, main):
    """−log pseudo-posterior of bgms, and its gradient. main: a variance, or (α, β) of the beta-prime prior."""
    n, m = codes.shape[1], features.shape[1]
    mu, w = values[: n * m], values[n * m :]
    first, second = np.array(pairs(n)).T
    sigma = np.zeros((n, n))
    sigma[first, second] = sigma[second, first] = w
    s = scores[codes]
    total, slope, by_item = 0.0, np.zeros((n, n)), []
    for i in range(n):
        energy = features @ mu[i * m : (i + 1) * m] + factor * np.outer(s @ sigma[i], scores)
        log_p = log_softmax(energy, axis=1)
        total += log_p[np.arange(len(codes)), codes[:, i]].sum()
        residual = np.eye(len(scores))[codes[:, i]] - np.exp(log_p)
        by_item.append(residual.sum(axis=0) @ features)
        slope[i] = factor * (residual @ scores) @ s
    gradient = np.concatenate([np.concatenate(by_item), slope[first, second] + slope[second, first]])
    total -= np.log1p((w / scale) ** 2).sum()
    gradient[n * m :] -= 2 * w / (scale**2 + w**2)
    if isinstance(main, tuple):
        alpha, beta = main
        total += (alpha * mu - (alpha + beta) * np.logaddexp(0.0, mu)).sum()
        gradient[: n * m] += alpha - (alpha + beta) * expit(mu)
    else:
        total -= (mu**2).sum() / (2 * main)
        gradient[: n * m] -= mu / main
    return -total, -gradient


def published_mode(codes, scores, features, factor, scale, main):
    size = codes.shape[1] * features.shape[1] + len(pairs(codes.shape[1]))
    arguments = (codes, scores, features, factor, scale, main)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-6, "maxcor": 60}
    return minimize(published, np.zeros(size), arguments, jac=True, method="L-BFGS-B", options=options).x


def by_pairs(field, parameters):
    """Parameters of a field on all pairs in the order of ``published``."""
    edges = [(int(i), int(j)) for i, j in field.edges]
    slopes = dict(zip(edges, parameters[-len(edges) :], strict=True))
    return np.concatenate([parameters[: -len(edges)], [slopes[pair] for pair in pairs(field.n_variables)]])


def fitted(field, X, scale, variance, **options):
    prior = bf.Cauchy(scale, groups=("edges",), others=bf.Normal(variance=variance))
    return bf.fit(field, X, prior, method="pseudo_likelihood", correction="none", **options)


def simulated(cases=400):
    field = bf.ordinal(4, pairs(4), 3)
    truth = np.concatenate([np.tile([0.4, -0.5], 4), [0.6, 0.0, 0.4, -0.3, 0.0, 0.5]])
    return bf.sample(field, truth, cases, rng=0)


def table(name, columns):
    path = DATA / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    answers = pd.read_csv(path)[columns].dropna().astype(int)
    assert len(answers) > 300
    return (answers - answers.min()).to_numpy()


WENCHUAN = ("wenchuan_ptsd", ["intrusion", "dreams", "flash", "upset", "physior"])
BOREDOM = ("boredom", ["loose_ends", "entertain", "repetitive", "stimulation"])


@pytest.mark.parametrize("source", [None, WENCHUAN, BOREDOM], ids=["simulated", "Wenchuan", "Boredom"])
@pytest.mark.parametrize(
    ("interaction", "factor", "scale"),
    [("product", 1.0, 2.5), ("association", 2.0, 1.0)],  # bgms 0.1.6, bgms 0.2: its default scales
)
def test_the_mode_of_the_pseudo_posterior(source, interaction, factor, scale):
    codes = simulated() if source is None else table(*source)
    n, K = codes.shape[1], int(codes.max()) + 1
    field = bf.ordinal(n, pairs(n), K, interaction=interaction)
    found = fitted(field, codes, scale, WIDE)
    scores = np.arange(float(K))
    wanted = published_mode(codes, scores, thresholds(scores), factor, scale, WIDE)
    np.testing.assert_allclose(by_pairs(field, found.mode), wanted, atol=MODE)


def test_blume_capel_items_of_version_0_1_6_3_have_centred_scores():
    codes = simulated()
    scores = np.array([-1.0, 0.0, 1.0])  # baseline category 1
    field = bf.ordinal(4, pairs(4), (-1, 0, 1), blume_capel=0.0)
    found = fitted(field, codes - 1, 2.5, 10.0)
    wanted = published_mode(codes, scores, blume_capel(scores), 1.0, 2.5, 10.0)
    np.testing.assert_allclose(by_pairs(field, found.mode), wanted, atol=MODE)


def test_versions_differ_in_the_scale_only():
    """A Cauchy of scale 2.5 on products is one of 1.25 on associations; the default of 0.2, 1, is a little narrower."""
    X = simulated()
    old, new = (bf.ordinal(4, pairs(4), 3, interaction=kind) for kind in ("product", "association"))
    before, after = fitted(old, X, 2.5, WIDE), fitted(new, X, 1.25, WIDE)
    np.testing.assert_allclose(bf.recoding(old, new) @ before.mode, after.mode, atol=1e-6)
    np.testing.assert_allclose(before.mode[-6:], 2 * after.mode[-6:], atol=1e-6)


@pytest.mark.parametrize(("source", "largest"), [(None, 0.05), (WENCHUAN, 0.1)], ids=["simulated", "Wenchuan"])
def test_what_the_prior_of_thresholds_matters(source, largest):
    """Beta-prime(½, ½), which bgms has, against Normal(variance=15): slopes, in posterior standard deviations."""
    codes = simulated() if source is None else table(*source)
    n, K = codes.shape[1], int(codes.max()) + 1
    scores = np.arange(float(K))
    field = bf.ordinal(n, pairs(n), K)
    prior = bf.Cauchy(2.5, groups=("edges",), others=bf.Normal(variance=WIDE))
    sd = by_pairs(field, bf.fit(field, codes, prior, correction="none").sd)
    theirs = published_mode(codes, scores, thresholds(scores), 1.0, 2.5, (0.5, 0.5))
    ours = by_pairs(field, fitted(field, codes, 2.5, WIDE).mode)
    off = np.abs(theirs - ours) / sd
    assert off[-len(pairs(n)) :].max() < largest


def test_the_pseudo_posterior_is_too_narrow():
    """Its curvature, which is what bgms's chains see, against that of the likelihood."""
    X = simulated(2000)
    field = bf.ordinal(4, pairs(4), 3)
    prior = bf.Cauchy(2.5, groups=("edges",), others=bf.Normal(variance=WIDE))
    full = bf.fit(field, X, prior, correction="none")
    theirs = bf.fit(field, X, prior, method=bf.PseudoLikelihood(covariance="naive"), correction="none")
    ratio = theirs.sd[-6:] / full.sd[-6:]
    assert ratio.max() < 0.85
    assert np.abs((theirs.mode - full.mode) / full.sd)[-6:].max() < 0.5


def test_inclusion_bayes_factors_are_posterior_odds_over_prior_odds():
    field = bf.ordinal(4, pairs(4), 3)
    prior = bf.Cauchy(2.5, groups=("edges",), others=bf.Normal(variance=WIDE))
    posterior = bf.fit(field, simulated(), prior)
    for graph_prior in (bf.BernoulliEdges(0.2), bf.BernoulliEdges(0.5)):
        found = bf.search_structure(posterior, graph_prior).table
        p, prior_odds = found["inclusion"], graph_prior.probability / (1 - graph_prior.probability)
        wanted = np.log(p / (1 - p) / prior_odds)
        finite = (p > 1e-9) & (p < 1 - 1e-9)
        np.testing.assert_allclose(found["log_bayes_factor"][finite], wanted[finite], atol=1e-6)
