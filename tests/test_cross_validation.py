"""The prior variance by cross-validation: its losses against fits by hand, and what it chooses."""

import numpy as np
import pytest

import bayesfield as bf


def labelled(count, noise, seed=0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(T, 3)) for T in rng.integers(1, 6, count)]
    y = [["ab"[int(v)] for v in x[:, 0] + noise * rng.normal(size=len(x)) > 0] for x in X]
    return bf.CRF("ab", 3), X, y


def test_losses_are_those_of_modes_fitted_without_the_fold():
    """Leaving one sequence out at a time: the folds need not be guessed."""
    crf, X, y = labelled(6, 0.5)
    found = bf.cross_validated_variance(crf, X, y, candidates=[2.0, 0.1], folds=6)
    assert found.candidates == (0.1, 2.0)
    for variance, loss in zip(found.candidates, found.log_loss, strict=True):
        total = 0.0
        for k in range(6):
            rest = [j for j in range(6) if j != k]
            prior = bf.Normal(variance=variance)
            fitted = bf.fit_sequences(crf, [X[j] for j in rest], [y[j] for j in rest], prior, correction="none")
            p = bf.predict_sequences(fitted, [X[k]], "map").probabilities
            total -= np.log(p[np.arange(len(p)), ["ab".index(label) for label in y[k]]]).sum()
        assert loss == pytest.approx(total / sum(map(len, X)), abs=1e-3)
    assert found.variance == found.candidates[int(np.argmin(found.log_loss))]


def test_clear_labels_want_wide_priors_and_noise_wants_narrow_ones():
    crf, X, y = labelled(40, 0.0)
    assert bf.cross_validated_variance(crf, X, y).variance >= 3.0
    crf, X, y = labelled(40, 50.0)
    assert bf.cross_validated_variance(crf, X, y).variance <= 0.1


@pytest.mark.parametrize(
    ("options", "text"),
    [({"folds": 1}, "two folds"), ({"candidates": [0.0]}, "above zero"), ({"candidates": []}, "above")],
)
def test_bad_requests_are_refused(options, text):
    with pytest.raises(bf.InvalidInput, match=text):
        bf.cross_validated_variance(*labelled(4, 0.5), **options)
