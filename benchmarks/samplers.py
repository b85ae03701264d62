"""Sampling: an exact gradient, NUTS on the posterior of a 5×5 grid, Gibbs sweeps of a large lattice.

The peers sample the same density, written in JAX by transfer matrices (columns of the grid have 32 states), with their
own defaults. They are timed after warm-up and compilation; ours with its fit and warm-up included.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import bayesfield as bf
from bayesfield import diagnostics
from bayesfield.inference.sampling import gibbs_chains as chains
from bayesfield.learning.objective import Objective
from bayesfield.learning.phases.cases import field_objective
from benchmarks import problems
from benchmarks.timing import Report, Watch, best, installed

SIDE, CASES, PRIOR = 5, 1000, 0.25
GRADIENT_US, RATIO, UPDATES = 60.0, 3.0, 50.0  # targets: µs; times the better peer; million a second


def run(watch: Watch) -> list[Report]:
    return [_gradient(watch), _nuts(watch), _gibbs(watch)]


def _problem() -> tuple[bf.RandomField, np.ndarray, Objective]:
    field, rng = bf.grid(SIDE, SIDE), np.random.default_rng(0)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), CASES, rng)
    return field, X, field_objective(field, X, bf.Normal(variance=PRIOR), bf.Exact())


def _gradient(watch: Watch) -> Report:
    watch.tell("samplers, exact gradient")
    field, _, objective = _problem()
    here = np.full(field.n_parameters, 0.1)
    micro = 1e6 * best(partial(objective.at, here), watch.seconds)
    row = ("value and gradient, 5×5 grid", micro, GRADIENT_US, micro <= GRADIENT_US)
    return Report("Exact gradient of the log posterior", ("what", "µs", "target µs", "met"), [row])


def _nuts(watch: Watch) -> Report:
    watch.tell("samplers, NUTS")
    field, X, objective = _problem()
    draws, prior = 1000 if watch.quick else 5000, bf.Normal(variance=PRIOR)
    bf.sample_posterior(field, X, prior, bf.NUTS(), n_draws=10, chains=1)
    begun = time.perf_counter()
    found = bf.sample_posterior(field, X, prior, bf.NUTS(), n_draws=draws, chains=1)
    seconds = time.perf_counter() - begun
    truth = found.flat.mean(axis=0), found.flat.std(axis=0)
    ours = _rate(found.values, seconds)
    rows: list[tuple] = [("bayesfield, NUTS by nutpie", seconds, *ours, 1.0, None)]
    for name, peer in (("numpyro", _numpyro), ("blackjax", _blackjax)) if watch.peers else ():
        if not installed(name):
            continue
        watch.tell(f"samplers, NUTS, {name}")
        values, seconds = peer(objective, 300 if watch.quick else 1000)
        off = np.abs((values.mean(axis=(0, 1)) - truth[0]) / truth[1]).max()
        assert off < 0.5, f"{name} samples another density"  # 65 means with some hundred effective draws each
        rate = _rate(values, seconds)
        rows.append((f"{name}, same density in JAX", seconds, *rate, ours[1] / rate[1], ours[1] >= RATIO * rate[1]))
    columns = ("sampler", "seconds", "smallest bulk ESS", "ESS a second", "ours over theirs", f"at least {RATIO:.0f}")
    return Report(f"NUTS on the posterior of a 5×5 grid, N = {CASES}", columns, rows)


def _rate(values: np.ndarray, seconds: float) -> tuple[float, float]:
    size = float(diagnostics.bulk_size(values).min())
    return size, size / seconds


def _density(objective: Objective) -> Callable:
    """log posterior of λ (fields, then couplings in the order of the grid's edges) in JAX."""
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    jax.config.update("jax_enable_x64", True)
    spins = 1.0 - 2.0 * ((np.arange(2**SIDE)[:, None] >> np.arange(SIDE)) & 1)  # (32, 5)
    edges = np.array(bf.grid_edges(SIDE, SIDE))
    across = edges[:, 1] - edges[:, 0] == 1
    inside = [np.flatnonzero(across & (edges[:, 0] // SIDE == r)) for r in range(SIDE)]
    between = [np.flatnonzero(~across & (edges[:, 0] // SIDE == r)) for r in range(SIDE - 1)]
    n, statistic = SIDE * SIDE, jnp.asarray(objective.statistic)
    pairs = jnp.asarray(spins[:, :-1] * spins[:, 1:])

    def log_posterior(parameters):
        h, J = parameters[:n].reshape(SIDE, SIDE), parameters[n:]
        row = [jnp.asarray(spins) @ h[r] + pairs @ J[inside[r]] for r in range(SIDE)]
        message = row[0]
        for r in range(1, SIDE):
            link = jnp.asarray(spins) * J[between[r - 1]] @ jnp.asarray(spins).T
            message = logsumexp(message[:, None] + link, axis=0) + row[r]
        likelihood = parameters @ statistic - objective.weight * logsumexp(message)
        return likelihood - 0.5 / PRIOR * parameters @ parameters

    here = np.random.default_rng(1).normal(0.0, 0.3, len(objective.statistic))
    np.testing.assert_allclose(-objective.at(here).value, log_posterior(here), rtol=1e-9)
    return log_posterior


def _numpyro(objective: Objective, draws: int) -> tuple[np.ndarray, float]:
    import jax
    from numpyro import infer

    density = _density(objective)
    sampler = infer.MCMC(
        infer.NUTS(potential_fn=lambda z: -density(z)), num_warmup=500, num_samples=draws, progress_bar=False
    )
    sampler.warmup(jax.random.key(0), init_params=np.zeros(len(objective.statistic)))
    sampler.run(jax.random.key(1))  # compiles
    sampler.post_warmup_state = sampler.last_state
    begun = time.perf_counter()
    sampler.run(jax.random.key(2))
    values = np.asarray(sampler.get_samples(group_by_chain=True))
    return values, time.perf_counter() - begun


def _blackjax(objective: Objective, draws: int) -> tuple[np.ndarray, float]:
    import blackjax
    import jax

    density = _density(objective)
    warmup = blackjax.window_adaptation(blackjax.nuts, density)
    (state, tuned), _ = warmup.run(jax.random.key(0), np.zeros(len(objective.statistic)), num_steps=500)
    step = blackjax.nuts(density, **tuned).step

    @jax.jit
    def many(key, state):
        def one(state, key):
            state, _ = step(key, state)
            return state, state.position

        return jax.lax.scan(one, state, jax.random.split(key, draws))

    state, _ = jax.block_until_ready(many(jax.random.key(1), state))
    begun = time.perf_counter()
    _, values = jax.block_until_ready(many(jax.random.key(2), state))
    return np.asarray(values)[None], time.perf_counter() - begun


def _gibbs(watch: Watch) -> Report:
    side, sweeps, rows = 200 if watch.quick else 1000, 50, []
    problem = problems.grid(side, side, 0.2)
    states, seeds = chains.fresh(problem.graph.arrays, 1, 0)
    watch.tell(f"samplers, Gibbs, {side}×{side}")
    sweep = partial(chains.run, problem.graph, problem.theta[None], states, seeds, sweeps, count=False)
    rate = 1e-6 * sweeps * side**2 / best(sweep, watch.seconds)
    rows.append((f"one chain, ±1 lattice {side}×{side}", rate, UPDATES, rate >= UPDATES))
    small = problems.grid(SIDE, SIDE)
    states, seeds = chains.fresh(small.graph.arrays, 4096, 0)
    sweep = partial(chains.run, small.graph, small.theta[None], states, seeds, sweeps, count=False)
    rows.append(("4,096 chains, 5×5", 1e-6 * sweeps * SIDE**2 * 4096 / best(sweep, watch.seconds), None, None))
    columns = ("Gibbs sweeps", "million updates a second", "target", "met")
    return Report("Gibbs sweeps, one core", columns, rows)
