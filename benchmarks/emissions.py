"""Hidden labels with emissions: Potts fields with Gaussian noise against the truth, an image, and Markov chains beside
hmmlearn.

Images are simulated by 400 Swendsen-Wang updates from labels at random, then noise N(gap · label, (1 + label/10)²) is
added. ICM (iterated conditional modes) has the true parameters. Processor seconds are those of a second fit (the first
compiles, on a small image). The chain is of 10⁵ steps and 4 labels; hmmlearn runs EM from the same quantiles until a
step gains less than 10⁻⁶ nats. Widths are compared with 1,000 draws of Hamiltonian Monte Carlo on the exact likelihood.
"""

import json
import os
import time
import warnings
from pathlib import Path

import numpy as np

import bayesfield as bf
from bayesfield.inference.sampling.labels import LabelChain, neighbours
from benchmarks.timing import Cell, Report, Watch

TARGETS = {64: 5.0, 256: 30.0, 512: 120.0}
CASES = {2: (0.7, 1.5), 3: (0.8, 1.5), 4: (0.95, 1.5), 5: (1.0, 2.0), 6: (1.1, 2.0)}  # labels: coupling, gap
SIDES = {64: (2, 3, 4, 5, 6), 256: (2, 3, 4, 5, 6), 512: (2, 6)}
ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BAYESFIELD_DATA", ROOT.parent / "shared" / "data"))
MENTEITH = DATA / "spatial" / "menteith_100x100.txt"
FLAT = bf.Normal(variance=1e8)
STEPS, LABELS = 100_000, 4
DRAWS, LEAPS, LEAP = 1000, 5, 0.32
KEPT = ROOT / "benchmarks" / "results" / "emissions-rows.json"  # of a run that did not end
COLUMNS = (
    *("sites", "labels", "β", "processor s", "target s", "(mean − truth)/sd: β", "means and sds, largest"),
    *("labels right", "ICM, true parameters", "Monte-Carlo error, sd", "verdict"),
)


def run(watch: Watch) -> list[Report]:
    warnings.simplefilter("ignore")
    bf.HiddenLattice(2).fit(image(24, 2, 0.7, 1.5, 0)[1])
    sides = {64: (2, 6)} if watch.quick else SIDES
    reports = [_chain(watch), *([_menteith(watch)] if MENTEITH.exists() else []), _coverage(watch)]
    rows = [_kept(watch, side, K) for side, several in sides.items() for K in several]
    if not watch.quick:
        KEPT.unlink()
    return [Report("Hidden Potts fields with Gaussian noise", COLUMNS, rows), *reports]


def _kept(watch: Watch, side: int, K: int) -> tuple[Cell, ...]:
    """A row, as an earlier run that did not come to its end has measured it, or anew."""
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if f"{side} {K}" not in known:
        known[f"{side} {K}"] = _row(watch, side, K)
        KEPT.write_text(json.dumps(known))
    return tuple(known[f"{side} {K}"])


def image(side: int, K: int, beta: float, gap: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and what is observed, (side, side) each."""
    rng, n = np.random.default_rng(seed), side * side
    chain = LabelChain(neighbours(n, bf.grid_edges(side, side)), K, rng.integers(0, K, n), seed)
    chain.free(beta, 400)
    z = chain.z.astype(int).reshape(side, side)
    return z, gap * z + (1.0 + 0.1 * z) * rng.normal(size=z.shape)


def _row(watch: Watch, side: int, K: int) -> tuple[Cell, ...]:
    beta, gap = CASES[K]
    watch.tell(f"{side} × {side}, {K} labels")
    z, y = image(side, K, beta, gap, 100 * side + K)
    begun = time.process_time()
    lattice = bf.HiddenLattice(K, verbose=False).fit(y)
    seconds = time.process_time() - begun
    away = _away(lattice.posterior_, K, beta, gap)
    right, beside = (lattice.predict(y) == z).mean(), (_icm(y, K, beta, gap) == z).mean()
    error = lattice.posterior_.record.correction.error
    widest = float(np.abs(away[1:]).max())
    row = (
        f"{side}²", K, beta, seconds, TARGETS[side], float(away[0]), widest, f"{100 * right:.2f} %",
        f"{100 * beside:.2f} %", error, lattice.posterior_.certificate.verdict,
    )  # fmt: skip
    print(row, flush=True)
    return row


def _away(posterior: bf.Posterior, K: int, beta: float, gap: float) -> np.ndarray:
    truth = np.concatenate([[beta], gap * np.arange(K), np.log(1.0 + 0.1 * np.arange(K))])
    return (posterior.mean - truth) / posterior.sd


def _icm(y: np.ndarray, K: int, beta: float, gap: float) -> np.ndarray:
    """From each site's own best label, both colours of a chessboard in turn."""
    mean, sd = gap * np.arange(K), 1.0 + 0.1 * np.arange(K)
    own = -0.5 * ((y[..., None] - mean) / sd) ** 2 - np.log(sd)
    z, parity = own.argmax(axis=-1), np.add.outer(*map(np.arange, y.shape)) % 2
    for turn in range(40):
        padded = np.pad(z, 1, constant_values=-1)
        near = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
        votes = np.sum([one[..., None] == np.arange(K) for one in near], axis=0)
        z = np.where(parity == turn % 2, (own + beta * votes).argmax(axis=-1), z)
    return z


def _coverage(watch: Watch) -> Report:
    held, aside = [], []
    for seed in range(4 if watch.quick else 20):
        watch.tell(f"coverage, image {seed}")
        _, y = image(48, 3, *CASES[3], 5000 + seed)
        posterior = bf.HiddenLattice(3, verbose=False).fit(y).posterior_
        away = _away(posterior, 3, *CASES[3])
        held.append(np.abs(away) < 1.645)
        aside.append(away)
    names = posterior.field.parameter_names
    share, spread = 100 * np.mean(held, axis=0), np.std(aside, axis=0)
    rows = [(name, f"{s:.0f} %", float(d)) for name, s, d in zip(names, share, spread, strict=True)]
    print(rows, flush=True)
    title = f"Coverage, 48 × 48, 3 labels, {len(held)} images"
    return Report(title, ("parameter", "90 % intervals hold the truth", "sd of (mean − truth)/sd"), rows)


def _menteith(watch: Watch) -> Report:
    watch.tell("Menteith")
    y = np.loadtxt(MENTEITH)
    begun = time.process_time()
    lattice = bf.HiddenLattice(6, verbose=False).fit(y)
    seconds = time.process_time() - begun
    lattice.plot(y).savefig(Path(__file__).parent / "results" / "menteith.png", dpi=100)
    posterior, doubt = lattice.posterior_, lattice.doubt(y)
    rows = [
        ("processor s (target 15)", seconds),
        ("β, mean", float(posterior.mean[0])),
        ("β, sd", float(posterior.sd[0])),
        ("sites in doubt by more than 0.2", f"{100 * (doubt > 0.2).mean():.1f} %"),
        ("verdict", posterior.certificate.verdict),
        *[(f"mean of label {k}", f"{posterior.mean[1 + k]:.2f} ± {posterior.sd[1 + k]:.2f}") for k in range(6)],
    ]
    print(rows, flush=True)
    return Report("Lake of Menteith, 100 × 100, 6 labels", ("", ""), rows)


def chain(steps: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    moves = np.full((LABELS, LABELS), 0.1 / 3)
    np.fill_diagonal(moves, 0.9)
    ends, u, z = moves.cumsum(axis=1), rng.random(steps), np.zeros(steps, dtype=int)
    for t in range(1, steps):
        z[t] = np.searchsorted(ends[z[t - 1]], u[t])
    mean, sd = np.array([-2.0, -0.5, 1.0, 3.0]), np.array([0.7, 0.6, 0.8, 0.9])
    return mean[z] + sd[z] * rng.normal(size=steps)


def _chain(watch: Watch) -> Report:
    steps = 5000 if watch.quick else STEPS
    y, field = chain(steps), bf.hidden_field("chain", LABELS)
    bf.fit_hidden(field, y[:500], correction="mean")
    rows: list[tuple[Cell, ...]] = []
    watch.tell("hidden Markov chain")
    for name, options in (("with the correction", {}), ("the mode and its widths", {"correction": "none"})):
        begun = time.process_time()
        posterior = bf.fit_hidden(field, y, **options)
        rows.append((f"bayesfield, {name}: processor s", time.process_time() - begun))
    flat = bf.fit_hidden(field, y, FLAT, correction="none")
    rows += _peer(y, flat)
    draws = _hmc(posterior, 200 if watch.quick else DRAWS)
    ratio = posterior.sd / draws.std(axis=0)
    rows.append(("sds over those of HMC: least", float(ratio.min())))
    rows.append(("most", float(ratio.max())))
    shift = (posterior.mean - draws.mean(axis=0)) / draws.std(axis=0)
    rows.append(("largest (mean − HMC's)/sd", float(np.abs(shift).max())))
    print(rows, flush=True)
    return Report(f"Hidden Markov chain, {steps:,} steps, {LABELS} labels", ("", ""), rows)


def _peer(y: np.ndarray, flat: bf.Posterior) -> list[tuple[Cell, ...]]:
    try:
        from hmmlearn.hmm import GaussianHMM
    except ImportError:
        return [("hmmlearn", "not installed")]
    rows: list[tuple[Cell, ...]] = []
    for implementation in ("log", "scaling"):
        peer = GaussianHMM(
            LABELS, "diag", n_iter=500, tol=1e-6, init_params="", params="tmc", implementation=implementation,
            covars_prior=0.0, covars_weight=0.0, means_weight=0.0, min_covar=0.0,
        )  # fmt: skip
        peer.startprob_, peer.transmat_ = np.full(LABELS, 0.25), np.full((LABELS, LABELS), 0.1) + 0.6 * np.eye(LABELS)
        peer.means_ = np.quantile(y, (np.arange(LABELS) + 0.5) / LABELS)[:, None]
        peer.covars_ = np.full((LABELS, 1), y.var() / 16)
        begun = time.process_time()
        peer.fit(y[:, None])
        rows.append((f"hmmlearn, implementation={implementation!r}: processor s", time.process_time() - begun))
    rows.append(
        ("log-likelihood less hmmlearn's, flat prior", float(flat.record.log_likelihood - peer.score(y[:, None])))
    )
    means = flat.field.emitted.means(flat.field.split(flat.mode)[1])
    rows.append(("largest difference of a mean", float(np.abs(means - peer.means_).max())))
    return rows


def _hmc(posterior: bf.Posterior, count: int) -> np.ndarray:
    """Draws in coordinates in which the Gaussian is standard: five leaps turn it by a quarter, so that draws are nearly
    independent."""
    rng, objective = np.random.default_rng(1), posterior.objective
    root = np.linalg.cholesky(np.linalg.inv(posterior.form.matrix()))

    def at(x: np.ndarray) -> tuple[float, np.ndarray]:
        point = objective.at(posterior.mode + root @ x)
        return point.value, root.T @ point.gradient

    x = np.zeros(len(posterior.mean))
    (value, slope), kept = at(x), []
    for _ in range(count):
        p = rng.standard_normal(len(x))
        energy, new, now, pull = value + 0.5 * p @ p, x, value, slope
        for _ in range(LEAPS):
            p = p - 0.5 * LEAP * pull
            new = new + LEAP * p
            now, pull = at(new)
            p = p - 0.5 * LEAP * pull
        if np.log(rng.random()) < energy - now - 0.5 * p @ p:
            x, value, slope = new, now, pull
        kept.append(posterior.mode + root @ x)
    return np.array(kept)
