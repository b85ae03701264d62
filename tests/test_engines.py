"""Every engine on every awkward field, against the naive oracle."""

import itertools

import numpy as np
import pytest
from scipy import stats

import bayesfield as bf
from bayesfield.graph.compiled import compiled
from bayesfield.graph.structure import pair_graph
from bayesfield.kernels.messages import max_product
from bayesfield.kernels.messages import sum_product as messages

from awkward import CASES, FOREST_IDS, FORESTS, IDS
from naive import Naive
from tolerances import ALGEBRA, FIXED_POINT

EXACT = [bf.Enumeration(), bf.Exact(), bf.Exact(tries=1, seed=5), bf.Auto()]
BETHE = [
    bf.Bethe(),
    bf.Bethe(schedule="flooding"),
    bf.Bethe(schedule="residual"),
    bf.Bethe(damping=0.4, tolerance=1e-12),
    bf.Bethe(schedule="flooding", damping=0.3, tolerance=1e-12),
    bf.Bethe(schedule="residual", damping=0.3, tolerance=1e-12),
]


def assert_same(beliefs: bf.Beliefs, oracle: Naive, tolerance: float) -> None:
    scale = max(1.0, abs(oracle.log_z))
    assert beliefs.log_z == pytest.approx(oracle.log_z, abs=tolerance * scale)
    assert len(beliefs.variables) == len(oracle.field.states)
    for got, wanted in zip(beliefs.variables, oracle.variables(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)
    for got, wanted in zip(beliefs.factors, oracle.factors(), strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance)
    np.testing.assert_allclose(beliefs.mean, oracle.mean(), rtol=0, atol=tolerance * 10)


@pytest.mark.parametrize("engine", EXACT, ids=repr)
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_exact_engines(case, engine):
    beliefs = bf.infer(case.field, case.parameters, engine)
    assert beliefs.status.outcome is bf.Outcome.EXACT
    assert_same(beliefs, Naive(case.field, case.parameters), ALGEBRA)


@pytest.mark.parametrize("engine", BETHE, ids=repr)
@pytest.mark.parametrize("case", FORESTS, ids=FOREST_IDS)
def test_bethe_is_exact_on_forests(case, engine):
    beliefs = bf.infer(case.field, case.parameters, engine)
    assert beliefs.status.outcome is bf.Outcome.CONVERGED, beliefs.status
    assert_same(beliefs, Naive(case.field, case.parameters), ALGEBRA)


@pytest.mark.parametrize("case", [c for c in CASES if not c.forest], ids=lambda c: c.name)
def test_schedules_share_their_fixed_point(case):
    first, *others = (bf.infer(case.field, case.parameters, engine) for engine in BETHE)
    assert first.status.converged
    for other in others:
        assert other.status.converged
        np.testing.assert_allclose(other.marginals.tables, first.marginals.tables, rtol=0, atol=FIXED_POINT)
        assert other.log_z == pytest.approx(first.log_z, abs=FIXED_POINT * max(1.0, abs(first.log_z)))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_exact_covariance(case):
    wanted = Naive(case.field, case.parameters).covariance()
    for engine in (bf.Enumeration(), bf.Exact()):
        got = bf.covariance(case.field, case.parameters, engine)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=ALGEBRA * max(1.0, np.abs(wanted).max(initial=0)))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_most_probable_state(case):
    oracle = Naive(case.field, case.parameters)
    engines = [bf.Enumeration(), bf.Exact()] + (BETHE[:3] if case.forest else [])
    for engine in engines:
        state, status = bf.most_probable(case.field, case.parameters, engine)
        assert status.converged
        code = tuple(case.field.encode(state[None, :])[0].tolist()) if case.field.n_variables else ()
        assert oracle.energies[oracle.states.index(code)] == pytest.approx(oracle.best, rel=1e-12)


def test_ties_in_the_most_probable_state_are_broken_consistently():
    """Two equally good states: picking each variable by itself could mix them."""
    field = bf.chain(5)
    parameters = np.array([0.0] * 5 + [1.0] * 4)
    for engine in (bf.Exact(), *BETHE[:3]):
        state, _ = bf.most_probable(field, parameters, engine)
        assert abs(state.sum()) == 5


@pytest.mark.parametrize("case", [c for c in CASES if c.field.n_variables > 1], ids=lambda c: c.name)
def test_evidence(case):
    """Condition on one variable in each state it can take."""
    free = Naive(case.field, case.parameters).variables()
    variable = len(free) - 1
    for state in np.flatnonzero(free[variable] > 1e-6)[:3]:
        oracle = Naive(case.field, case.parameters, {variable: int(state)})
        value = case.field.states[variable][state]
        for engine in [bf.Enumeration(), bf.Exact()] + ([bf.Bethe()] if case.forest else []):
            beliefs = bf.infer(case.field, case.parameters, engine, evidence={variable: value})
            assert_same(beliefs, oracle, ALGEBRA)


@pytest.mark.parametrize("engine", [bf.Enumeration(), bf.Exact(), bf.Bethe(), bf.Bethe(schedule="residual")], ids=repr)
def test_no_possible_state(engine):
    field = bf.RandomField(
        {"a": 2, "b": 2},
        [
            bf.Factor(("a", "b"), log_table=[[0, -np.inf], [-np.inf, 0]]),
            bf.Factor("a", log_table=[0, -np.inf]),
            bf.Factor("b", log_table=[-np.inf, 0]),
        ],
    )
    beliefs = bf.infer(field, engine=engine)
    assert beliefs.log_z == -np.inf
    assert beliefs.status.outcome is bf.Outcome.IMPOSSIBLE
    assert not beliefs.status.converged
    with pytest.raises(bf.InvalidInput, match="probability zero"):
        bf.covariance(field, engine=engine)


def test_samples_are_exact():
    """χ² of 20,000 draws over the joint states of three fields; false alarms one in 10,000 each."""
    chosen = [c for c in CASES if c.name in ("grid", "zeros", "four-variable factor in loops")]
    for k, case in enumerate(chosen):
        oracle = Naive(case.field, case.parameters)
        X = bf.sample(case.field, case.parameters, 20_000, np.random.default_rng(k))
        number = {x: i for i, x in enumerate(oracle.states)}
        seen = np.bincount([number[tuple(x)] for x in case.field.encode(X).tolist()], minlength=len(number))
        assert (seen[oracle.p == 0] == 0).all()
        common = oracle.p * 20_000 >= 5
        wanted = np.append(oracle.p[common], oracle.p[~common].sum()) * 20_000
        got = np.append(seen[common], seen[~common].sum())
        keep = wanted > 0
        assert stats.chisquare(got[keep], wanted[keep]).pvalue > 1e-4


def test_samples_repeat_with_the_seed():
    field, parameters = bf.grid(3, 3), np.linspace(-1, 1, 21)
    first, again = bf.sample(field, parameters, 5, 7), bf.sample(field, parameters, 5, np.random.default_rng(7))
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first)) <= {-1, 1}


def test_auto_says_what_it_chose_and_why():
    dense = bf.pairwise(30, itertools.combinations(range(30), 2))
    for field, word in (bf.grid(4, 4), "exact inference"), (bf.grid(40, 40), "Kikuchi"), (dense, "Bethe"):
        beliefs = bf.infer(field, np.zeros(field.n_parameters), "auto")
        assert f"{word} was chosen" in str(beliefs.status)
        assert beliefs.status.converged
        best, status = bf.most_probable(field, np.full(field.n_parameters, 0.01))
        assert status.converged
        assert len(set(best)) == 1


def test_preview_knows_the_size_of_the_tree():
    """The tree's tables are what was announced."""
    for case in CASES:
        graph = compiled(case.field).graph
        announced = bf.Exact().preview(graph)
        bf.infer(case.field, case.parameters, bf.Exact())
        if "joint states" in announced.detail:
            assert announced.entries == np.prod(graph.arrays.cardinality)
            continue
        tree = graph.plans[("junction tree", bf.Exact())]
        empty_clique = 1 if len(tree.columns) and tree.separator_ptr[-1] == tree.separator_ptr[-2] else 0
        assert abs(int(tree.table_ptr[-1]) - announced.entries) <= empty_clique


def test_a_long_strip_is_exact():
    """Beyond the greedy orders: 5 × 1000, by Cuthill-McKee; against transfer from a chain of the same law."""
    field = bf.grid(1000, 5)
    assert field.n_variables > 4096
    rng = np.random.default_rng(0)
    parameters = 0.3 * rng.normal(size=field.n_parameters)
    beliefs = bf.infer(field, parameters, bf.Exact())
    assert beliefs.log_z == pytest.approx(_strip_log_z(field, parameters, 1000, 5), rel=1e-12)


def _strip_log_z(field, parameters, rows, columns):
    """log Z of a strip by its transfer matrix, row by row."""
    index = {edge: field.n_variables + k for k, edge in enumerate(field.edges)}
    states = np.array(np.meshgrid(*[[-1, 1]] * columns, indexing="ij")).reshape(columns, -1).T
    message = np.zeros(len(states))
    for r in range(rows):
        site = np.arange(r * columns, (r + 1) * columns)
        own = states @ parameters[site]
        for c in range(columns - 1):
            own = own + parameters[index[(site[c], site[c + 1])]] * states[:, c] * states[:, c + 1]
        if r:
            down = np.array([parameters[index[(s - columns, s)]] for s in site])
            table = (states * down) @ states.T
            message = np.logaddexp.reduce(table + message[:, None], axis=0)
        message = message + own
    return np.logaddexp.reduce(message)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_max_product_of_pairs_is_that_of_the_general_kernel(seed, damping):
    """Cardinalities that differ, forbidden pairs, a node without edges; the same messages after every sweep."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 5, 9)
    pairs = np.array([(i, j) for i in range(8) for j in range(i + 1, 8) if rng.random() < 0.4])
    tables = [rng.normal(0, 2, (cards[i], cards[j])) for i, j in pairs]
    for table in tables[:2]:
        table[0, 0] = -np.inf if table.size > 1 else 0.0
    graph = pair_graph(cards, pairs)
    theta = np.concatenate([rng.normal(size=cards.sum()), *(table.ravel() for table in tables)])
    both = []
    for run in (max_product.max_pairs, None):
        inbox, history = np.zeros(graph.arrays.message_ptr[-1]), np.zeros(40)
        if run is not None:
            ended = run(graph.arrays, theta, inbox, damping, 1e-12, history)
        else:
            ended = messages.run_sweeps(graph.arrays, theta, inbox, False, damping, 1e-12, history, True)
        both.append((ended[0], inbox))
    assert both[0][0] == both[1][0]
    np.testing.assert_allclose(both[0][1], both[1][1], atol=1e-9)
