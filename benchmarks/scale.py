"""Posteriors of lattices from ten thousand to nine million sites, on all cores; and their sparse factor against peers.

Every size runs in a process of its own, so that its peak memory is its own. What is timed: ``bf.laplace`` (the field's
arrays, belief propagation to 1e-8, linear response, the factor) and ``posterior.sd`` (the selected inverse), then one
draw. Couplings and fields of sd 0.25, prior variance 0.25, N = 1000.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from bayesfield.memory import available_bytes
from bayesfield.response.factors.cholesky import Cholesky
from bayesfield.response.factors.pattern import analyse
from benchmarks.problems import laplacian
from benchmarks.timing import Report, Watch, best, exponents, fitted_exponent, installed, ratio

SIDES = (100, 200, 500, 1000, 2000, 3000)
BYTES = 2300  # a site, measured at 3000×3000
FACTOR_SIDES = (100, 300, 1000)

CHILD = """
import json, os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))
import numpy as np
import bayesfield as bf
def once(side):
    field = bf.grid(side, side)
    parameters = 0.25 * np.random.default_rng(0).normal(size=field.n_parameters)
    begun = time.perf_counter()
    posterior = bf.laplace(field, parameters, 1000, bf.Normal(variance=0.25), bf.Bethe(tolerance=1e-8), form="sparse")
    made = time.perf_counter()
    mean = float(posterior.sd.mean())
    wide = time.perf_counter()
    if side > 2000:  # a draw needs Ω's factor beside that of S
        return field.n_parameters, made - begun, wide - made, None, mean
    posterior.sample(1, 0)
    first = time.perf_counter()
    posterior.sample(1, 1)
    return field.n_parameters, made - begun, wide - made, time.perf_counter() - first, mean
once(240)  # compiles what is not cached
found = once(int(sys.argv[1]))
# of this program alone: ru_maxrss would count what its parent held
peak = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1])
print(json.dumps([*found, peak / 2**20]))
"""


def run(watch: Watch) -> list[Report]:
    return [_posteriors(watch), *(_factors(watch, side) for side in FACTOR_SIDES[: 1 if watch.quick else 3])]


def _posteriors(watch: Watch) -> Report:
    rows, sites, seconds = [], [], []
    for side in SIDES[:3] if watch.quick else SIDES:
        if BYTES * side**2 > 0.9 * available_bytes():
            rows.append((f"{side}×{side}", None, None, None, None, None, None))
            continue
        watch.tell(f"scale, {side}×{side}")
        F, made, wide, draw, _, peak = _in_a_process(side)
        sites.append(side**2)
        seconds.append(made + wide)
        rows.append((f"{side}×{side}", F, made, wide, made + wide, draw, peak))
    powers: list[Any] = exponents(sites, seconds) + [None] * (len(rows) - len(sites))
    columns = ("lattice", "parameters", "precision s", "all sds s", "both s", "one draw s", "peak GB", "exponent")
    note = f"both s ∝ sites^{fitted_exponent(sites, seconds):.2f} over all rows (least squares of the logs)"
    title = "Posterior of a ±1 lattice with its own field and couplings, Bethe, all cores"
    return Report(title, columns, [(*row, p) for row, p in zip(rows, powers, strict=True)], (note,))


def _in_a_process(side: int) -> list[float]:
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", CHILD, str(side)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=free)
    found: list[float] = json.loads(out.stdout.splitlines()[-1])
    return found


def _factors(watch: Watch, side: int) -> Report:
    """One core. The order of elimination is part of the time of all; ours is analysed once for a pattern."""
    watch.tell(f"scale, sparse factors, {side}×{side}")
    rows, columns, data = laplacian(side)
    n = side * side
    pattern = analyse(rows, columns, n)
    order = best(lambda: analyse(rows, columns, n), watch.seconds / 3)
    numeric = best(lambda: Cholesky(pattern, data), watch.seconds / 3)
    factor = Cholesky(pattern, data)
    inverse = best(factor.inverse_entries, watch.seconds / 3)
    ours = order + numeric
    table: list[tuple[Any, ...]] = [("bayesfield", order, numeric, ours, 1.0, inverse)]
    peers: list[tuple[str, str, Callable[..., float]]] = [("SuperLU (SciPy)", "scipy", _superlu)]
    peers += [("CHOLMOD (cvxopt)", "cvxopt", _cholmod)]
    for name, module, peer in peers:
        taken = peer(rows, columns, data, n, factor, watch) if installed(module) else None
        table.append((name, None, None, taken, ratio(taken, ours), None))
    names = ("factor", "order s", "values s", "both s", "peer / ours", "selected inverse s")
    return Report(f"Sparse Cholesky factor of a {side}×{side} lattice's matrix, one core", names, table)


def _superlu(rows: Any, columns: Any, data: Any, n: int, factor: Cholesky, watch: Watch) -> float:
    from scipy.sparse.linalg import splu

    A = _full(rows, columns, data, n)
    symmetric = {"SymmetricMode": True}
    make = lambda: splu(A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)  # noqa: E731
    _same(factor, make().solve(np.ones(n)))
    return best(make, watch.seconds / 3)


def _cholmod(rows: Any, columns: Any, data: Any, n: int, factor: Cholesky, watch: Watch) -> float:
    import cvxopt
    import cvxopt.cholmod

    low, high = np.minimum(rows, columns), np.maximum(rows, columns)
    A = cvxopt.spmatrix(data, high, low, (n, n))

    def make() -> Any:
        found = cvxopt.cholmod.symbolic(A)
        cvxopt.cholmod.numeric(A, found)
        return found

    right = cvxopt.matrix(1.0, (n, 1))
    cvxopt.cholmod.solve(make(), right)
    _same(factor, np.array(right).ravel())
    return best(make, watch.seconds / 3)


def _full(rows: Any, columns: Any, data: Any, n: int) -> Any:
    from scipy import sparse

    off = rows != columns
    at = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
    return sparse.csc_array((np.concatenate([data, data[off]]), at), shape=(n, n))


def _same(factor: Cholesky, theirs: np.ndarray) -> None:
    if not np.allclose(factor.solve(np.ones(len(theirs))), theirs, rtol=1e-8):
        raise RuntimeError("the peer's factor solves another system")
