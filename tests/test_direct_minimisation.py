"""Where message passing does not settle: the free energy is minimised directly, and the status says so."""

import itertools

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.inference.messages.newton import newton
from bayesfield.kernels.messages import sum_product as messages

from tolerances import FIXED_POINT


def frustrated(n, scale, seed):
    field = bf.pairwise(n, itertools.combinations(range(n), 2), states=(-1, 1))
    return field, scale * np.random.default_rng(seed).normal(size=field.n_parameters)


def fixed_point_residual(field, parameters, beliefs):
    """Largest move of a belief by one more round of message passing, from the messages that made it."""
    known = compiled(field)
    theta = known.design.potentials(parameters)
    inbox = beliefs.marginals.state.copy()
    messages.run_sweeps(known.graph.arrays, theta, inbox, True, 0.0, 0.0, np.zeros(1), False)
    moved = np.empty(known.graph.n_entries)
    cavity, _ = messages.cavities(known.graph.arrays, theta, inbox)
    messages.beliefs(known.graph.arrays, theta, inbox, cavity, moved)
    return np.abs(moved - beliefs.marginals.tables).max()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "scale"), [(12, 1.0), (18, 0.5), (18, 2.0)])
def test_frustrated_fields_converge(n, scale, seed):
    field, parameters = frustrated(n, scale, seed)
    beliefs = bf.infer(field, parameters, bf.Bethe())
    assert beliefs.status.converged, beliefs.status
    assert fixed_point_residual(field, parameters, beliefs) < FIXED_POINT
    if beliefs.status.outcome is bf.Outcome.MINIMISED:
        assert "minimising the free energy" in str(beliefs.status)


def test_some_of_them_need_it():
    outcomes = {bf.infer(*frustrated(18, 0.5, seed), bf.Bethe()).status.outcome for seed in range(3)}
    assert bf.Outcome.MINIMISED in outcomes


def test_without_a_budget_it_says_so():
    field, parameters = frustrated(18, 0.5, 0)
    status = bf.infer(field, parameters, bf.Bethe(max_direct=0)).status
    assert status.outcome is bf.Outcome.NOT_CONVERGED
    assert not status.converged
    assert "raise the budget" in str(status)


@pytest.mark.parametrize("seed", range(3))
def test_descent_finds_the_fixed_point_that_messages_find(seed):
    """Where both converge, and the field is weak enough to have one minimum, they agree."""
    field = bf.grid(4, 4)
    parameters = 0.4 * np.random.default_rng(seed).normal(size=field.n_parameters)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    wanted = bf.infer(field, parameters, bf.Bethe(tolerance=1e-12))
    inbox = np.zeros(known.graph.arrays.message_ptr[-1])
    _, residual = messages.double_loop(known.graph.arrays, theta, inbox, 1e-12, 3, np.zeros(20_000))
    assert residual <= 1e-12
    tables = np.empty(known.graph.n_entries)
    cavity, _ = messages.cavities(known.graph.arrays, theta, inbox)
    log_z = messages.beliefs(known.graph.arrays, theta, inbox, cavity, tables)
    np.testing.assert_allclose(tables, wanted.marginals.tables, rtol=0, atol=FIXED_POINT)
    assert log_z == pytest.approx(wanted.log_z, abs=FIXED_POINT)


def free_energy(field, parameters, tables):
    """The Bethe free energy of beliefs, from its definition."""
    g = compiled(field).graph.arrays
    theta = compiled(field).design.potentials(parameters)
    entropy = -np.where(tables > 0, tables * np.log(np.maximum(tables, 1e-300)), 0.0)
    degree = np.repeat(np.diff(g.slot_ptr), g.cardinality)
    n_node = g.node_ptr[-1]
    return -theta @ tables - entropy[n_node:].sum() - ((1 - degree) * entropy[:n_node]).sum()


def test_log_z_is_the_negative_free_energy():
    for seed in range(3):
        field, parameters = frustrated(8, 0.7, seed)
        beliefs = bf.infer(field, parameters, bf.Bethe(tolerance=1e-12))
        assert beliefs.log_z == pytest.approx(
            -free_energy(field, parameters, beliefs.marginals.tables), abs=FIXED_POINT
        )


def test_newton_is_quadratic_near_a_fixed_point():
    field, parameters = frustrated(12, 1.0, 0)
    known = compiled(field)
    theta = known.design.potentials(parameters)
    inbox = bf.Bethe().infer(known.graph, theta).state.copy()
    finite = np.isfinite(inbox) & (inbox < 0)
    inbox[finite] += 1e-4 * np.random.default_rng(0).normal(size=finite.sum())
    assert newton(known.graph, theta, inbox, 1e-11) <= 1e-11


def test_hard_constraints_in_loops():
    """Parity checks on a ring of variables with fields: zeros, loops and strong evidence at once."""
    rng = np.random.default_rng(3)
    zero = np.where(np.indices((2, 2, 2)).sum(0) % 2 == 1, -np.inf, 0.0)
    names = [f"b{i}" for i in range(9)]
    checks = [bf.Factor((names[i], names[(i + 1) % 9], names[(i + 4) % 9]), log_table=zero) for i in range(0, 9, 2)]
    fields = [bf.Factor(name, {name: [0.0, 1.0]}) for name in names]
    field = bf.RandomField(dict.fromkeys(names, 2), checks + fields)
    parameters = 2.0 * rng.normal(size=9)
    beliefs = bf.infer(field, parameters, bf.Bethe())
    assert beliefs.status.converged, beliefs.status
    assert fixed_point_residual(field, parameters, beliefs) < FIXED_POINT
