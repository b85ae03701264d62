"""Relevance determination by the bound of independent weights: the gain, what stays, what comes back."""

import numpy as np

import bayesfield as bf
from bayesfield.fitting.priors.relevance import gains
from bayesfield.model.conditional import CRF, as_sequences, seen_weights

RELEVANT = 5
TRUTH = 2.0 * np.array([[1, 0, -1], [-1, 1, 0], [0, -1, 1], [1, -1, 0], [-1, 0, 1]])


def _problem(n=80, seed=0, copies=1, noise=25):
    """Three labels that follow five inputs of 30; copies: of each of the five, that say the same."""
    rng = np.random.default_rng(seed)
    W = np.zeros((RELEVANT + noise, 3))
    W[:RELEVANT] = TRUTH
    X = [(rng.random((6, len(W))) < 0.25).astype(float) for _ in range(n)]
    y = [(x @ W + rng.gumbel(size=(6, 3))).argmax(axis=1).tolist() for x in X]
    X = [np.hstack([np.tile(x[:, :RELEVANT], copies), x[:, RELEVANT:]]) for x in X]
    names = [f"r{k}.{c}" for c in range(copies) for k in range(RELEVANT)] + [f"n{k}" for k in range(noise)]
    crf = CRF(3, names)
    return crf, as_sequences(crf, X, y)


def test_the_gain_is_the_evidence_of_a_group():
    """Of λ ~ N(0, 1/α) and a likelihood exp(bᵀλ − ½ Σ d λ²), by quadrature, over the likelihood at zero."""
    b, d, owner = np.array([1.5, -0.7, 4.0]), np.array([2.0, 0.3, 3.0]), np.array([0, 0, 1])
    x = np.linspace(-12, 12, 4801)
    for log_alpha in (-1.0, 0.5, 3.0):
        alpha = np.exp(log_alpha)
        each = [
            np.log(np.trapezoid(np.exp(bj * x - 0.5 * (dj + alpha) * x**2), x) * np.sqrt(alpha / (2 * np.pi)))
            for bj, dj in zip(b, d, strict=True)
        ]
        found = gains(b, d, owner, np.full(2, log_alpha))
        np.testing.assert_allclose(found.now, [each[0] + each[1], each[2]], atol=1e-8)
        assert (found.best >= found.now - 1e-9).all()
    best = gains(b, d, owner, found.log_alpha)  # a maximum: no step to either side gains more than a thousandth
    np.testing.assert_allclose(best.now, best.best, atol=1e-3)
    for step in (-0.2, 0.2):
        assert (gains(b, d, owner, found.log_alpha + step).now < best.now + 1e-3).all()


def test_what_stays_is_what_counts():
    """Against dense ARD of the same data, with the weights that were seen: the same five inputs stay; of 25 that are
    noise a few may (a share of about 0.03 by their evidence). On 200 other sequences they predict better than all."""
    (crf, data), (_, test) = _problem(), _problem(200, seed=1)
    crf = crf.with_seen(seen_weights(crf, data))
    prior = bf.ARD("inputs")
    dense, ours = (bf.fit_sequences(crf, data, prior=prior, form=form) for form in ("dense", "mean-field"))
    record = ours.record.prior
    assert record.settled
    assert record.kind == "ARD by the variational bound"
    kept = [set(p.record.prior.table.index[~p.record.prior.table["dropped"]]) for p in (dense, ours)]
    relevant = {f"r{k}.0" for k in range(RELEVANT)}
    assert relevant <= kept[1]
    assert len(kept[1] - relevant) <= 3
    assert len(kept[0] ^ kept[1]) <= 3
    gone = np.isin(crf.input_of, record.dropped.index)
    np.testing.assert_allclose(ours.mean[gone], 0.0, atol=1e-3)
    assert (ours.form.sd[gone] < 1e-4).all()
    losses = []
    for posterior in (ours, bf.fit_sequences(crf, data, prior=bf.Normal(variance=1.0), form="mean-field")):
        p = bf.predict_sequences(posterior, test).probabilities
        losses.append(-np.log(p[np.arange(len(p)), test.labels]).mean())
    assert losses[0] < losses[1] - 0.02


def test_copies_do_not_go_together():
    """Six inputs that say the same lose their gain together: some of each five must stay, or come back."""
    crf, data = _problem(copies=6)
    posterior = bf.fit_sequences(crf, data, prior=bf.ARD("inputs"), form="mean-field")
    table = posterior.record.prior.table
    kept = table.index[~table["dropped"]]
    assert {name.partition(".")[0] for name in kept if name.startswith("r")} == {f"r{k}" for k in range(RELEVANT)}


def test_the_estimator_at_size(monkeypatch):
    """With as many weights as take independent ones, prior="ard" drops attributes instead of refusing."""
    from bayesfield.fitting import plan

    monkeypatch.setattr(plan, "DENSE", 10)
    rng = np.random.default_rng(0)
    X = [[[f"w={rng.integers(40)}", f"t={rng.integers(4)}"] for _ in range(5)] for _ in range(60)]
    y = [["ab"[(int(item[1][-1]) + (rng.random() < 0.2)) % 2] for item in x] for x in X]
    crf = bf.BayesianCRF("ard", possible="seen", temperature=1.0, correction="none").fit(X, y)
    assert crf.posterior_.form.form == "mean-field"
    kept = {name for name, variance in crf.variance_.items() if variance > 0.0}
    assert {f"t={k}" for k in range(4)} & kept
    assert sum(name.startswith("w=") for name in kept) < 15
    assert crf.score(X, y) > 0.65
