"""Dense fields as users bring them, whose data are no draws of the field: default fits, processor seconds.

Answers with one common cause, graded scales with several, a chamber's votes, a graph as a field; and pseudo-likelihood
where cases are many. Simulated, with seeds; part of ``python -m benchmarks dense``.
"""

import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import bayesfield as bf

COLUMNS = (
    *("data", "variables", "cases N", "parameters F", "processor s", "target s", "engine or method", "correction"),
    "verdict",
)


class Shape(NamedTuple):
    name: str
    target: float | None
    fit: Callable[[], tuple[bf.Posterior, float]]  # with the processor seconds that it took


def rows(shapes: list[Shape], tell: Callable[[str], None]) -> list[tuple]:
    found = []
    for shape in shapes:
        tell(shape.name)
        posterior, seconds = shape.fit()
        record = posterior.record
        method = record.method if record.method == "pseudo_likelihood" else str(record.engine).partition("(")[0]
        verdict = posterior.certificate.verdict if posterior.certificate else "–"
        size = posterior.field.n_variables, record.n_cases, len(posterior.mean)
        found.append((shape.name, *size, seconds, shape.target, method, record.correction.kind, verdict))
        print(found[-1], flush=True)
    return found


def timed(fit: Callable[[], bf.Posterior]) -> tuple[bf.Posterior, float]:
    begun = time.process_time()
    posterior = fit()
    return posterior, time.process_time() - begun


def common_cause(items: int = 40, cases: int = 20_000, rate: float = 1.48) -> tuple[bf.Posterior, float]:
    """0.6 z + 0.8 e beyond 1.48, both normal: 7 % of the answers are yes."""
    rng = np.random.default_rng(0)
    X = (0.6 * rng.normal(size=(cases, 1)) + 0.8 * rng.normal(size=(cases, items)) > rate).astype(int)
    return timed(lambda: bf.IsingNetwork(verbose=False).fit(X).posterior_)


def graded(items: int = 25, cases: int = 2800, answers: int = 6, factors: int = 5) -> tuple[bf.Posterior, float]:
    """As the 25 items of bfi: five correlated causes, five items each, loadings of both signs, six graded answers with
    thresholds of their own, 2 % of the cells without an answer."""
    rng = np.random.default_rng(0)
    cause = rng.multivariate_normal(np.zeros(factors), 0.75 * np.eye(factors) + 0.25, cases)
    loading = rng.uniform(0.4, 0.8, items) * rng.choice([1.0, 1.0, 1.0, -1.0], items)
    y = cause[:, np.arange(items) * factors // items] * loading
    y += rng.normal(size=y.shape) * np.sqrt(1.0 - loading**2)
    cuts = np.sort(rng.normal(rng.normal(0.0, 0.5, (items, 1)), 1.0, (items, answers - 1)), axis=1)
    X = (y[:, :, None] > cuts).sum(axis=2).astype(float)
    X[rng.random(X.shape) < 0.02] = np.nan
    return timed(lambda: bf.OrdinalNetwork(verbose=False).fit(X).posterior_)


def senators(members: int = 40, votes: int = 520, missing: float = 0.005) -> tuple[bf.Posterior, float]:
    """Two parties along one line: yes where a member stands above a vote's threshold, but for noise."""
    rng = np.random.default_rng(0)
    place = np.where(np.arange(members) < members // 2, -1.0, 1.0) + 0.4 * rng.normal(size=members)
    side = rng.choice([-1.0, 1.0], votes)
    X = (
        side[:, None] * (place - rng.normal(0.0, 1.0, (votes, 1))) + rng.logistic(0.0, 0.5, (votes, members)) > 0.0
    ) + 0.0
    X[rng.random(X.shape) < missing] = np.nan
    return timed(lambda: bf.IsingNetwork(verbose=False).fit(X).posterior_)


def graph(nodes: int = 16, ties: int = 20) -> tuple[bf.Posterior, float]:
    """One graph of 16 nodes as 120 edge variables: how many edges, and how many pairs of edges that share a node."""
    edges = list(itertools.combinations(range(nodes), 2))
    joined = [(a, b) for a, b in itertools.combinations(range(len(edges)), 2) if set(edges[a]) & set(edges[b])]
    field = bf.pairwise(len(edges), joined, tied=True)
    x = np.zeros((1, len(edges)), dtype=int)
    x[0, np.random.default_rng(0).choice(len(edges), ties, replace=False)] = 1
    return timed(lambda: bf.fit(field, x))


def conditionals(items: int = 120, cases: int = 20_000) -> tuple[bf.Posterior, float]:
    """By pseudo-likelihood with sandwich widths."""
    rng = np.random.default_rng(0)
    X = (0.5 * rng.normal(size=(cases, 1)) + rng.normal(size=(cases, items)) > 0.7).astype(int)
    field = bf.pairwise(items, itertools.combinations(range(items), 2))
    return timed(lambda: bf.fit(field, X, method="pseudo_likelihood"))


SHAPES = [
    Shape("one common cause, rate 7 %", None, common_cause),
    Shape("graded answers, five causes, 2 % holes", 60.0, graded),
    Shape("votes of 40 members, 0.5 % missing", None, senators),
    Shape("a graph of 16 nodes, two parameters", 2.0, graph),
    Shape("120 items by pseudo-likelihood", None, conditionals),
]
QUICK = [Shape("a graph of 8 nodes, two parameters", None, lambda: graph(8, 8))]
