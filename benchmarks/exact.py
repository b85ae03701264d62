"""Exact inference on L×L binary grids: all single and edge marginals and log Z, model and plan already built.

Ours is ``Exact().infer(graph, theta)``. The peers are asked for the marginals only, each in the way that keeps what it
derived from the structure: pyAgrum its join tree (the unary tables come as soft evidence, new ones for every run), mbi
its compiled program, pgmpy its junction tree. All in double precision on one core.
"""

from collections.abc import Callable
from functools import partial
from itertools import cycle

import numpy as np

import bayesfield as bf
from benchmarks.problems import Problem, grid
from benchmarks.timing import Report, Watch, best, installed, ratio, require_same

TARGET_MS = {5: 0.05, 8: 0.4, 10: 1.7, 12: 8.0, 15: 100.0, 18: 1500.0}  # libDAI: 1.7, 10.5, 161 from 10 on
PGMPY_LARGEST = 12  # the next takes minutes
SAME = 1e-9


def run(watch: Watch) -> list[Report]:
    rows = []
    for size in list(TARGET_MS)[: 2 if watch.quick else None]:
        watch.tell(f"exact inference, {size}×{size}")
        problem, engine = grid(size, size), bf.Exact()
        ours = 1e3 * best(partial(engine.infer, problem.graph, problem.theta), watch.seconds)
        row = [f"{size}×{size}", ours]
        for peer in PEERS if watch.peers else ():
            watch.tell(f"exact inference, {size}×{size}: {peer.__name__}")
            seconds = peer(problem, watch)
            theirs = None if seconds is None else 1e3 * seconds
            row += [theirs, ratio(theirs, ours)]
        rows.append((*row, TARGET_MS[size], ours <= TARGET_MS[size]))
    names = [f"{p.__name__}{unit}" for p in PEERS if watch.peers for unit in (" ms", " ÷ ours")]
    return [Report("Exact inference, one core", ("grid", "ours ms", *names, "target ms", "met"), rows)]


def pyagrum(problem: Problem, watch: Watch) -> float | None:
    if not installed("pyagrum"):
        return None
    import pyagrum as gum

    gum.setNumberOfThreads(1)
    names = problem.names
    model = gum.MarkovRandomField()
    for name in names:
        model.add(gum.LabelizedVariable(name, "", problem.unary.shape[1]))
    scopes = [(names[i], names[j]) for i, j in problem.edges]
    for (i, j), table in zip(scopes, np.exp(problem.pair), strict=True):
        factor = gum.Tensor().add(model.variable(j)).add(model.variable(i))  # the last one varies slowest
        factor[:] = table
        model.addFactor(factor)
    evidence = [np.exp(problem.unary - problem.unary.max()), np.exp(-problem.unary - problem.unary.max())]
    likelihoods = [[row.tolist() for row in e] for e in evidence]
    engine = gum.ShaferShenoyMRFInference(model)
    for scope in scopes:
        engine.addJointTarget(set(scope))
    for name, likelihood in zip(names, likelihoods[0], strict=True):
        engine.addEvidence(name, likelihood)

    def answer(turn: int) -> list[object]:
        for name, likelihood in zip(names, likelihoods[turn], strict=True):
            engine.chgEvidence(name, likelihood)
        engine.makeInference()
        return [engine.posterior(n) for n in names] + [engine.jointPosterior(set(s)) for s in scopes]

    wanted = [(n,) for n in names] + scopes
    found = [t.reorganize(list(w[::-1])).toarray() for t, w in zip(answer(0), wanted, strict=True)]
    _check("pyAgrum", problem, found)
    turns = cycle((1, 0))
    return best(lambda: answer(next(turns)), watch.seconds, warm_up=False)


def mbi(problem: Problem, watch: Watch) -> float | None:
    if not installed("mbi"):
        return None
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi as peer
    from mbi import marginal_oracles

    names = problem.names
    domain = peer.Domain(names, [problem.unary.shape[1]] * len(names))
    cliques = [(n,) for n in names] + [(names[i], names[j]) for i, j in problem.edges]
    tables = [*problem.unary, *problem.pair]
    factors = {c: peer.Factor(domain.project(c), jax.numpy.array(t)) for c, t in zip(cliques, tables, strict=True)}
    potentials = peer.CliqueVector(domain, cliques, factors)
    oracle = marginal_oracles.default_oracle(cliques, domain, has_constraints=False)

    def answer() -> object:
        return jax.block_until_ready(oracle(potentials))

    found = answer()
    _check("mbi", problem, [np.asarray(found[c].transpose(c).values) for c in cliques])
    return best(answer, watch.seconds, warm_up=False)


def pgmpy(problem: Problem, watch: Watch) -> float | None:
    if not installed("pgmpy") or len(problem.unary) > PGMPY_LARGEST**2:
        return None
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.inference import BeliefPropagation
    from pgmpy.models import DiscreteMarkovNetwork

    # numbers for names: with text its cliques vary from run to run and reach twice as many variables
    scopes = [(i,) for i in range(len(problem.unary))] + [tuple(edge) for edge in problem.edges.tolist()]
    tables = [np.exp(t) for t in (*problem.unary, *problem.pair)]
    model = DiscreteMarkovNetwork(scopes[len(problem.unary) :])
    model.add_factors(*(DiscreteFactor(s, t.shape, t) for s, t in zip(scopes, tables, strict=True)))
    tree = model.to_junction_tree()
    homes = [next(c for c in tree.nodes() if set(s) <= set(c)) for s in scopes]

    def answer() -> list[np.ndarray]:
        engine = BeliefPropagation(tree)
        engine.calibrate()
        beliefs = engine.get_clique_beliefs()
        return [_marginal(beliefs[home], scope) for home, scope in zip(homes, scopes, strict=True)]

    _check("pgmpy", problem, answer())
    return best(answer, watch.seconds, warm_up=False)


def _marginal(belief: object, scope: tuple[int, ...]) -> np.ndarray:
    part = belief.marginalize(set(belief.variables) - set(scope), inplace=False)
    table = part.values if tuple(part.variables) == scope else part.values.T
    return table / table.sum()


def _check(peer: str, problem: Problem, found: list[np.ndarray]) -> None:
    ours = bf.Exact().infer(problem.graph, problem.theta).tables
    require_same(peer, ours, np.concatenate([t.ravel() for t in found]), SAME)


PEERS: tuple[Callable[[Problem, Watch], float | None], ...] = (pyagrum, mbi, pgmpy)
