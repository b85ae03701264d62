"""pyAgrum: its networks as fields, fields as its networks, and the same marginals both ways."""

import warnings

import numpy as np
import pytest

import bayesfield as bf

from awkward import CASES
from tolerances import ALGEBRA

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # loading its extension modules with warnings as errors ends in a crash
    gum = pytest.importorskip("pyagrum")
    gum.MarkovRandomField()


def assert_same(field, parameters, engine):
    engine.makeInference()
    beliefs = bf.infer(field, parameters, bf.Exact())
    for name, p in zip(field.names, beliefs.variables, strict=True):
        np.testing.assert_allclose(p, engine.posterior(name).toarray().ravel(), atol=ALGEBRA)


@pytest.mark.parametrize("seed", range(3))
def test_bayesian_networks(seed):
    gum.initRandom(seed + 1)
    network = gum.fastBN("a->b[3]<-c{low|mid|high}->d[0,2];b->e{.5|1|2}<-d;f")
    field = bf.from_pyagrum(network)
    assert field.states[field.number("c")] == ("low", "mid", "high")
    assert field.states[field.number("d")] == (0, 1, 2)
    assert field.states[field.number("e")] == (0.5, 1.0, 2.0)
    assert_same(field, (), gum.LazyPropagation(network))


def test_markov_networks():
    gum.initRandom(1)
    network = gum.MarkovRandomField.fromBN(gum.fastBN("a->b[3]->c;c->d[4];d->e<-a;f"))
    assert_same(bf.from_pyagrum(network), (), gum.ShaferShenoyMRFInference(network))


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.field.n_variables and np.abs(c.parameters).max(initial=0) < 10], ids=lambda c: c.name
)
def test_there_and_back(case):
    network = bf.to_pyagrum(case.field, case.parameters)
    again = bf.from_pyagrum(network)
    assert again.names == case.field.names
    wanted = bf.infer(case.field, case.parameters, bf.Exact())
    assert bf.infer(again, engine=bf.Exact()).log_z == pytest.approx(wanted.log_z, abs=ALGEBRA)
    assert_same(case.field, case.parameters, gum.ShaferShenoyMRFInference(network))


@pytest.mark.parametrize("states", [(0, 1), (-1, 1), (0.5, 2.5), ("no", "yes"), (1, 0), (True, False), ("a b", "c")])
def test_states_keep_their_names(states):
    again = bf.from_pyagrum(bf.to_pyagrum(bf.pairwise(2, [(0, 1)], states), np.zeros(3)))
    numbers = states in ((0, 1), (-1, 1), (0.5, 2.5))
    assert again.states[0] == (states if numbers else tuple(str(s) for s in states))


def test_a_posterior_at_its_mean():
    field = bf.chain(4)
    posterior = bf.fit(field, bf.sample(field, np.full(7, 0.3), 100, 0))
    assert_same(field, posterior.mean, gum.ShaferShenoyMRFInference(bf.to_pyagrum(posterior)))


def test_what_is_refused():
    with pytest.raises(bf.InvalidInput, match="MarkovRandomField or BayesNet; got a str"):
        bf.from_pyagrum("a->b")
    with pytest.raises(bf.InvalidInput, match="give their values"):
        bf.to_pyagrum(bf.chain(2))
    with pytest.raises(bf.InvalidInput, match="differ as text"):
        bf.to_pyagrum(bf.pairwise(2, [(0, 1)], ["1", 1]), np.zeros(3))
