"""Priors by templates: which weight belongs to which, and variances by the mean-field bound and by cross-validation."""

import numpy as np
import pytest
from scipy import optimize

import bayesfield as bf
from bayesfield.analysis.validation.template_variances import _part
from bayesfield.correction.mean_field import settle
from bayesfield.learning.objective import GaussianPrior, gaussian
from bayesfield.learning.phases.sequences import sequence_objective
from bayesfield.learning.search.minimise import lbfgs
from bayesfield.model.conditional import CRF, as_sequences, seen_weights, template_name
from bayesfield.types import InvalidInput

WORDS, TAGS = [f"w=v{k}" for k in range(12)], [f"t=v{k}" for k in range(6)]


def _problem(n=80, seed=0, seen=False):
    """Three labels that follow the tag and hardly the word; an input without a template."""
    rng = np.random.default_rng(seed)
    truth = np.concatenate([rng.normal(0.0, 0.2, (12, 3)), rng.normal(0.0, 2.0, (6, 3)), np.zeros((1, 3))])
    X, y = [], []
    for _ in range(n):
        x = np.zeros((5, 19))
        x[np.arange(5), rng.integers(0, 12, 5)] = 1.0
        x[np.arange(5), 12 + rng.integers(0, 6, 5)] = 1.0
        x[:, 18] = 1.0
        X.append(x)
        y.append((x @ truth + rng.gumbel(size=(5, 3))).argmax(axis=1).tolist())
    crf = CRF(3, [*WORDS, *TAGS, "bias"])
    data = as_sequences(crf, X, y)
    return (crf.with_seen(seen_weights(crf, data)) if seen else crf), data


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("w[-1]=the", "w[-1]"),
        ("w[-1]|w[0]=a|b=c", "w[-1]|w[0]"),
        ("word.lower():the", "word.lower()"),
        ("-1:word.lower():the", "-1:word.lower()"),
        ("+1:word.istitle()", "others"),
        ("word[-3:]:ing", "word[-3:]"),
        ("bias", "others"),
        ("__BOS__", "others"),
        ("=x", "others"),
        ("shape:=x", "shape"),
        ("w=[:", "w"),
    ],
)
def test_templates_of_names(name, template):
    assert template_name(name) == template


@pytest.mark.parametrize("seen", [False, True])
def test_every_weight_has_its_template(seen):
    crf, _ = _problem(seen=seen)
    wanted = {"w": "w", "t": "t", "bias": "others", "edge": "transition"}
    found = [wanted[name.partition(":")[0].partition("=")[0]] for name in crf.input_of]
    assert crf.template_of == found
    groups = bf.Templates().learned(crf)
    assert {g.name for g in groups} == {"w", "t", "others", "transition"}
    assert np.array_equal(np.sort(np.concatenate([g.parameters for g in groups])), np.arange(crf.n_parameters))


def test_variances_that_are_given():
    crf, _ = _problem()
    prior = bf.Templates({"w": 0.5, "t": "evidence", "others": 3.0, "transition": 2.0})
    assert [g.name for g in prior.learned(crf)] == ["t"]
    variance = 1.0 / prior.precision(crf)
    of = {name: set(variance[np.array(crf.template_of) == name]) for name in set(crf.template_of)}
    assert of == {"w": {0.5}, "t": {1.0}, "others": {3.0}, "transition": {2.0}}
    assert (1.0 / bf.Templates(0.25).precision(crf) == 0.25).all()
    assert bf.Templates(0.25).learned(crf) == ()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: bf.Templates("cv"), '"evidence"'),
        (lambda: bf.Templates({"w": -1.0}), "above zero"),
        (lambda: bf.Templates(begin=0.0), "above zero"),
        (lambda: bf.Templates({"w": 1.0}).precision(_problem(2)[0]), "templates are"),
        (lambda: bf.Templates().precision(bf.grid(2, 2)), "bf.Normal"),
        (lambda: bf.cross_validated_templates(*_problem(4), folds=1), "two folds"),
    ],
)
def test_refused(make, text):
    with pytest.raises(InvalidInput, match=text):
        make()


class _Bound:
    """The bound of independent weights by brute force: a thousand antithetic draws, the same at every m and s."""

    def __init__(self, crf, data, seed=0):
        self.objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf))
        half = np.random.default_rng(seed).standard_normal((500, crf.n_parameters))
        self.noise = np.concatenate([half, -half])

    def best(self, variance):
        """−bound at its best m and s, and these."""
        F = self.noise.shape[1]

        def value(x):
            m, s = x[:F], np.exp(x[F:])
            points = self.objective.at_many(m + s * self.noise)
            drawn = m + s * self.noise  # the objective has a prior of variance 1, which is taken off
            likelihood = points.values.mean() - 0.5 * np.mean(np.sum(drawn**2, axis=1))
            slope = points.gradients - drawn
            bound = likelihood + 0.5 * np.sum((m**2 + s**2) / variance - np.log(s**2 / variance) - 1.0)
            of_s = np.mean(slope * self.noise, axis=0) * s + s**2 / variance - 1.0
            return bound, np.concatenate([slope.mean(axis=0) + m / variance, of_s])

        start = np.concatenate([np.zeros(F), np.full(F, -0.5)])
        found = optimize.minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 300, "ftol": 1e-13})
        m, s = found.x[:F], np.exp(found.x[F:])
        return found.fun, m, s


def _tiny():
    """Chains of two positions, two labels; each input occurs once in a sequence, so that curvatures are sums of those
    of positions."""
    rng = np.random.default_rng(3)
    X = [np.eye(2) for _ in range(30)]
    y = [[int(rng.random() < 0.8), int(rng.random() < 0.3)] for _ in X]
    crf = CRF(2, ["a=1", "a=2"])
    return crf, as_sequences(crf, X, y)


def test_the_update_is_the_slope_of_the_bound():
    """∂bound/∂log v = ½ Σ [(m² + s²)/v − 1] at the best m and s, against differences of the best bound."""
    bound = _Bound(*_tiny())
    for v in (0.3, 2.0):
        (low, *_), (_, m, s), (high, *_) = (bound.best(v * np.exp(d)) for d in (-0.02, 0.0, 0.02))
        assert -(high - low) / 0.04 == pytest.approx(0.5 * np.sum((m**2 + s**2) / v - 1.0), abs=0.01)


def test_the_variance_with_the_largest_bound():
    """Against brute force over v. Ours has noise of its own (32 pairs) and stops within 1e-3 nats a determined weight;
    a tenth of log v is 3e-3 nats here."""
    crf, data = _tiny()
    bound = _Bound(crf, data)
    found = optimize.minimize_scalar(
        lambda x: bound.best(np.exp(x))[0], bounds=(-3, 3), method="bounded", options={"xatol": 0.05}
    )
    posterior = bf.fit_sequences(crf, data, prior=bf.Normal(variance="evidence"), form="mean-field")
    record = posterior.record.prior
    assert record.settled
    assert record.kind == "maximum variational bound"
    chosen = float(record.table["variance"].iloc[0])
    assert bound.best(chosen)[0] - found.fun < 0.02
    assert np.log(chosen) == pytest.approx(found.x, abs=0.35)


def test_equal_inputs_are_counted_each():
    """What the bound gets wrong: an input and its copies are determined together, once; it counts them each, so that
    its variance is smaller than that of the dense evidence."""
    crf, data = _problem(30)
    doubled = CRF(3, [*(f"{n}~{k}" for k in range(3) for n in crf.inputs)])
    X = [np.tile(data.inputs.toarray()[a:b], 3) for a, b in zip(data.ptr[:-1], data.ptr[1:], strict=True)]
    y = [data.labels[a:b].tolist() for a, b in zip(data.ptr[:-1], data.ptr[1:], strict=True)]
    prior = bf.Normal(variance="evidence")
    exact, ours = (
        float(
            bf.fit_sequences(doubled, X, y, prior=prior, form=form, correction="none")
            .record.prior.table["variance"]
            .iloc[0]
        )
        for form in ("dense", "mean-field")
    )
    assert ours < exact


@pytest.mark.parametrize("form", ["dense", "mean-field"])
def test_templates_that_matter_have_larger_variances(form):
    crf, data = _problem(120)
    posterior = bf.fit_sequences(crf, data, prior=bf.Templates(), form=form, correction="none")
    variance = posterior.record.prior.table["variance"]
    assert variance["t"] > 10.0 * variance["w"]
    assert posterior.record.prior.settled
    of_tags = np.array(crf.template_of) == "t"
    np.testing.assert_allclose(1.0 / posterior.prior.precision(crf)[of_tags], variance["t"], rtol=1e-3)


def test_gradient_of_cross_validated_templates(monkeypatch):
    from bayesfield.analysis.validation import slopes

    monkeypatch.setattr(slopes, "_TOLERANCE", 1e-8)
    monkeypatch.setattr(slopes, "_RESIDUAL", 1e-9)
    crf, data = _problem(30, seen=True)
    names, owner = np.unique(crf.template_of, return_inverse=True)
    part = _part(crf, owner, data, np.arange(len(data)) % 3 == 0)
    here = np.array([0.5, -0.3, 0.8, -1.0])
    _, slope = part.loss(here)
    for k in range(len(names)):
        step = 1e-3 * np.eye(4)[k]
        difference = (part.loss(here + step)[0] - part.loss(here - step)[0]) / 2e-3
        assert slope[k] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_cross_validated_templates_are_no_worse_than_one_variance():
    crf, data = _problem(30)
    found = bf.cross_validated_templates(crf, data)
    assert found.log_loss < found.before
    assert found.variances["t"] > found.variances["w"]
    fitted = bf.fit_sequences(crf, data, prior=bf.Templates(found.variances), correction="none")
    assert set(found.variances) == {"w", "t", "others", "transition"}
    assert fitted.record.status.converged


def test_saved_with_variances_that_were_given(tmp_path):
    crf, data = _problem(10)
    prior = bf.Templates({"w": 0.5, "t": 2.0, "others": 3.0, "transition": 2.0})
    bf.fit_sequences(crf, data, prior=prior).save(tmp_path / "tagger.bf")
    again = bf.load(tmp_path / "tagger.bf")
    np.testing.assert_array_equal(again.prior.precision(crf), prior.precision(crf))


def test_narrow_priors_do_not_slow_the_search(monkeypatch):
    """Variances from 1e-4 to 9: L-BFGS begins from a diagonal that knows them."""
    crf, data = _problem(100)
    prior = bf.Templates({"w": 1e-4, "t": 9.0, "others": 1.0, "transition": 4.0})
    counts = []
    for stiffness in (GaussianPrior.stiffness, np.ones(crf.n_parameters)):
        monkeypatch.setattr(GaussianPrior, "stiffness", stiffness)
        objective = sequence_objective(crf, data, gaussian(prior, crf))
        counts.append(lbfgs(objective, np.zeros(crf.n_parameters), 1e-6, 500).status.iterations)
    assert counts[0] < 0.7 * counts[1]


def test_mean_field_from_a_start_that_is_right_stays():
    crf, data = _problem(30)
    objective = sequence_objective(crf, data, gaussian(bf.Normal(variance=1.0), crf))
    first = settle(objective, np.zeros(crf.n_parameters), np.ones(crf.n_parameters), 1, rounds=15, steps=60)
    again = settle(objective, first.mean, first.curvature, 1)
    np.testing.assert_allclose(again.mean, first.mean, atol=0.02 * (first.curvature**-0.5).max())
