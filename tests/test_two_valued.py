"""Covariances by counting bits are those by sums of products."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.response.sampled import SampleResponse, within_covariance
from bayesfield.response.two_valued import two_valued

from awkward import CASES
from tolerances import ALGEBRA

FIELDS = {
    "spins": bf.grid(3, 4),
    "items": bf.pairwise(5, [(0, 1), (1, 2), (0, 4), (3, 4)], states=(0, 1)),
    "potts": bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3),
    "complete": bf.pairwise(9, list(itertools.combinations(range(9), 2)), states=(0, 1)),
    "tables": bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3, interaction="table"),
}


def drawn(field, snapshots=3, chains=70, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, field.cardinalities, size=(snapshots, chains, field.n_variables)).astype(np.int32)


@pytest.mark.parametrize("batches", [1, 3, 7, 70])  # parts of 3 to 210 samples: none of them a whole number of words
@pytest.mark.parametrize("name", FIELDS)
def test_bits_against_products(name, batches):
    field = FIELDS[name]
    known, states = compiled(field), drawn(field)
    assert two_valued(known.graph, known.design) is not None
    found = within_covariance(known.graph, known.design, states, batches)
    wanted = SampleResponse(known.graph, known.design, states, batches, pooled=False).covariance()
    np.testing.assert_allclose(found, wanted, atol=ALGEBRA)


@pytest.mark.parametrize("case", [c for c in CASES if c.field.n_parameters], ids=lambda c: c.name)
def test_any_field_has_an_answer(case):
    """Also features of many values, and sums over tables, which go by products."""
    known, states = compiled(case.field), drawn(case.field)
    found = within_covariance(known.graph, known.design, states, 5)
    wanted = SampleResponse(known.graph, known.design, states, 5, pooled=False).covariance()
    np.testing.assert_allclose(found, wanted, rtol=ALGEBRA, atol=ALGEBRA)


def test_what_is_not_of_two_values():
    for field in (bf.grid(3, 3, tied=True), bf.ordinal(3, [(0, 1), (1, 2)], 4)):
        known = compiled(field)
        assert two_valued(known.graph, known.design) is None


def test_products_share_their_counts():
    """Of a complete graph only; one that lacks an edge, or spins, whose products are no bits' conjunctions, are not."""
    every = list(itertools.combinations(range(9), 2))
    for field, shared in (
        (FIELDS["complete"], True),
        (bf.pairwise(9, every[:-1], states=(0, 1)), False),
        (bf.pairwise(9, every, states=(-1, 1)), False),
    ):
        known = two_valued(compiled(field).graph, compiled(field).design)
        assert known is not None
        assert (known.products is not None) == shared
