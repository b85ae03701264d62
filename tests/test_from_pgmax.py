"""PGMax: the same potentials give the same beliefs by sum-product and the same state by max-product.

PGMax needs JAX and is in the extra ``peers``, not in ``test``; without it the comparison is skipped. It computes with
single precision.
"""

import itertools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import bayesfield as bf

SINGLE = 1e-5  # beliefs in single precision, after some hundred rounds

CONFIGURATIONS = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
VALUES = np.array([0.1, 0.7, -0.4, 0.3])
EVIDENCE = np.array([[0.0, 0.5], [0.0, -0.3], [0.0, 0.9]])


@pytest.fixture(scope="module")
def pgmax():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jax = pytest.importorskip("jax")
        pytest.importorskip("pgmax")
        from jax.extend import backend

        if not hasattr(jax.lib, "xla_bridge"):  # PGMax 0.6 asks for it; newer versions of JAX moved it
            jax.lib.xla_bridge = SimpleNamespace(get_backend=backend.get_backend)
        from pgmax import factor, fgraph, fgroup, infer, vgroup
    return SimpleNamespace(factor=factor, fgraph=fgraph, fgroup=fgroup, infer=infer, vgroup=vgroup)


def ising(rows, columns, strength, seed):
    """(rows, columns, 2) log-potentials of sites, [((row, column), (row, column))], (E, 2, 2) of neighbours."""
    rng = np.random.default_rng(seed)
    right = [((i, j), (i, j + 1)) for i in range(rows) for j in range(columns - 1)]
    down = [((i, j), (i + 1, j)) for i in range(rows - 1) for j in range(columns)]
    h, J = rng.normal(0, strength, (rows, columns)), rng.normal(0, strength, len(right + down))
    return np.stack([-h, h], axis=-1), right + down, J[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])


def field_of(sites, edges, tables):
    """The same as a field: a fixed factor for every site and every edge."""
    names = {site: f"x{site[0]}{site[1]}" for site in np.ndindex(sites.shape[:2])}
    factors = [bf.Factor(names[site], log_table=sites[site]) for site in names]
    factors += [bf.Factor((names[a], names[b]), log_table=t) for (a, b), t in zip(edges, tables, strict=True)]
    return bf.RandomField(dict.fromkeys(names.values(), 2), factors)


def listed_field():
    """A factor of some configurations: the others are impossible."""
    table = np.full((2, 2, 2), -np.inf)
    table[tuple(CONFIGURATIONS.T)] = VALUES
    names = ("a", "b", "c")
    sites = [bf.Factor(name, log_table=own) for name, own in zip(names, EVIDENCE, strict=True)]
    return bf.RandomField(dict.fromkeys(names, 2), [*sites, bf.Factor(names, log_table=table)])


def beliefs_there(pgmax, graph, variables, evidence, temperature):
    engine = pgmax.infer.build_inferer(graph.bp_state, backend="bp")
    arrays = engine.init(evidence_updates={variables: evidence})
    return engine.get_beliefs(engine.run(arrays, num_iters=400, damping=0.5, temperature=temperature))


def grid_there(pgmax, sites, edges, tables, temperature):
    variables = pgmax.vgroup.NDVarArray(num_states=2, shape=sites.shape[:2])
    graph = pgmax.fgraph.FactorGraph(variable_groups=[variables])
    scopes = [[variables[a], variables[b]] for a, b in edges]
    graph.add_factors(pgmax.fgroup.PairwiseFactorGroup(variables_for_factors=scopes, log_potential_matrix=tables))
    return beliefs_there(pgmax, graph, variables, sites, temperature), variables


def test_sum_product_on_a_loopy_grid(pgmax):
    problem = ising(4, 4, 0.5, seed=0)
    beliefs, variables = grid_there(pgmax, *problem, temperature=1.0)
    there = np.asarray(pgmax.infer.get_marginals(beliefs)[variables]).reshape(-1, 2)
    found = bf.infer(field_of(*problem), engine=bf.Bethe())
    assert found.status.converged
    np.testing.assert_allclose(np.array(found.variables), there, atol=SINGLE)


@pytest.mark.parametrize("seed", range(3))
def test_max_product_finds_the_same_state(pgmax, seed):
    problem = ising(4, 4, 0.6, seed)
    beliefs, variables = grid_there(pgmax, *problem, temperature=0.0)
    there = np.asarray(pgmax.infer.decode_map_states(beliefs)[variables]).ravel()
    state, _ = bf.most_probable(field_of(*problem), engine=bf.Bethe())
    np.testing.assert_array_equal(state, there)


def test_a_factor_of_listed_configurations(pgmax):
    variables = pgmax.vgroup.NDVarArray(num_states=2, shape=(3,))
    graph = pgmax.fgraph.FactorGraph(variable_groups=[variables])
    scope = [variables[k] for k in range(3)]
    graph.add_factors(pgmax.factor.EnumFactor(variables=scope, factor_configs=CONFIGURATIONS, log_potentials=VALUES))
    beliefs = beliefs_there(pgmax, graph, variables, EVIDENCE, temperature=1.0)
    there = np.asarray(pgmax.infer.get_marginals(beliefs)[variables])
    np.testing.assert_allclose(np.array(bf.infer(listed_field()).variables), there, atol=SINGLE)


def test_listed_configurations_by_hand():
    """Always runs: what the comparison with PGMax stands on."""
    weights = {
        tuple(c): np.exp(v + sum(EVIDENCE[k, s] for k, s in enumerate(c)))
        for c, v in zip(CONFIGURATIONS.tolist(), VALUES, strict=True)
    }
    total = sum(weights.values())
    field = listed_field()
    for engine in (bf.Exact(), bf.Bethe()):
        for k, p in enumerate(bf.infer(field, engine=engine).variables):
            one = sum(w for c, w in weights.items() if c[k] == 1)
            assert p[1] == pytest.approx(one / total, abs=1e-10)
    best = max(itertools.product(range(2), repeat=3), key=lambda c: weights.get(c, 0.0))
    assert tuple(bf.most_probable(field)[0]) == best


@pytest.mark.parametrize("seed", range(3))
def test_max_product_on_these_grids_is_right(seed):
    """Always runs: by the exact engine."""
    field = field_of(*ising(4, 4, 0.6, seed))
    exact, found = (bf.most_probable(field, engine=engine)[0] for engine in (bf.Exact(), bf.Bethe()))
    np.testing.assert_array_equal(exact, found)
