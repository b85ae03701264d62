"""Renamings of what is hidden: the group, its images, and posteriors whose modes overlap."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.symmetry import symmetries

FIELDS = {
    "machine ±1": (lambda: bf.restricted_boltzmann(4, 2, (-1, 1)), 8),  # two places, two signs each
    "machine 0/1": (lambda: bf.restricted_boltzmann(4, 3), 6),  # a sign would move the fields of the visible ones
    "dense ±1": (lambda: bf.boltzmann(3, 2, (-1, 1)), 8),
    "one is joined elsewhere": (lambda: bf.boltzmann(3, 2, (-1, 1), edges=[(0, 3), (1, 3), (1, 4), (2, 4), (0, 4)]), 4),
    "three states": (lambda: bf.restricted_boltzmann(2, 2, 3), None),
}


def group(field, prior=None):
    size = field.n_parameters
    own = (np.zeros(size), np.ones(size)) if prior is None else prior
    return symmetries(compiled(field), field.hidden, *own)


@pytest.mark.parametrize("name", FIELDS)
def test_images_have_the_same_observed_probabilities(name):
    make, count = FIELDS[name]
    field = make()
    found = group(field)
    if count is not None:
        assert len(found) == count
    if found is None:
        return
    parameters = np.random.default_rng(0).normal(size=field.n_parameters)
    X = np.random.default_rng(1).choice(field.states[0], (30, field.n_variables - len(field.hidden)))
    images = found.images(parameters)
    np.testing.assert_array_equal(images[0], parameters)
    values = [bf.fit(field, X, engine=bf.Exact(), start=x, correction="none", starts=1).record for x in ()]
    assert values == []
    objective = bf.fit(field, X[:1], engine=bf.Exact(), correction="none", starts=1, max_iterations=500).objective
    points = np.array([objective.at(x).value for x in images])
    np.testing.assert_allclose(points, points[0], rtol=1e-10)


def test_priors_break_symmetries():
    field = bf.restricted_boltzmann(4, 2, (-1, 1))
    size = field.n_parameters
    location = np.zeros(size)
    location[4] = 0.3  # the field of h0
    assert group(field, (location, np.ones(size))) is None or len(group(field, (location, np.ones(size)))) == 2
    assert len(group(field, (np.zeros(size), np.ones(size)))) == 8


def test_nearest_image():
    field = bf.restricted_boltzmann(4, 2, (-1, 1))
    found, rng = group(field), np.random.default_rng(0)
    centre, points = rng.normal(size=field.n_parameters), rng.normal(size=(3, 5, field.n_parameters))
    folded = found.nearest(points, centre, np.ones(field.n_parameters))
    for point, near in zip(points.reshape(15, -1), folded.reshape(15, -1), strict=True):
        distances = np.sum((found.images(point) - centre) ** 2, axis=1)
        assert np.sum((near - centre) ** 2) == pytest.approx(distances.min())
