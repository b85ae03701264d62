"""``bf.preview`` against the fits that it speaks of: seconds and memory, each fit in a process of its own."""

import json
import subprocess
import sys
from typing import Any

from benchmarks.timing import Report, Watch

WITHIN = 2.0

LATTICE = "bf.grid({0}, {0}, states=(-1, 1))"
DENSE = "bf.pairwise({0}, [(i, j) for j in range({0}) for i in range(j)], states=(-1, 1))"
POTTS = "bf.potts({0} ** 2, bf.grid_edges({0}, {0}), 4, interaction='table')"

CASES = {  # field, sd of the parameters that the data come from, arguments of the fit
    "lattice 5×5, Bethe": (LATTICE.format(5), 0.4, "engine=bf.Bethe()"),
    "lattice 5×5, Kikuchi, variational": (LATTICE.format(5), 0.4, "engine=bf.Kikuchi()"),
    "lattice 8×8, exact, variational": (LATTICE.format(8), 0.3, "engine=bf.Exact()"),
    "lattice 12×12, exact, mean": (LATTICE.format(12), 0.3, "engine=bf.Exact(), correction='mean'"),
    "dense, 12 variables": (DENSE.format(12), 0.2, ""),
    "dense, 17 variables": (DENSE.format(17), 0.15, ""),
    "dense, 17 variables, L-BFGS": (DENSE.format(17), 0.15, "method='lbfgs', correction='none'"),
    "dense, 17 variables, sampled": (DENSE.format(17), 0.15, "engine=bf.Sampled()"),
    "lattice 20×20, chosen": (LATTICE.format(20), 0.3, ""),
    "lattice 30×30, Kikuchi, mean": (LATTICE.format(30), 0.3, "engine=bf.Kikuchi(), correction='mean'"),
    "Potts 30×30, Bethe": (POTTS.format(30), 0.3, "engine=bf.Bethe()"),
    "lattice 100×100, Bethe, mean": (LATTICE.format(100), 0.3, "engine=bf.Bethe(), correction='mean'"),
    "lattice 100×100, chosen": (LATTICE.format(100), 0.3, ""),
    "lattice 300×300, Bethe": (LATTICE.format(300), 0.3, "engine=bf.Bethe()"),
    "lattice 1000×1000, Bethe": (LATTICE.format(1000), 0.3, "engine=bf.Bethe()"),
}
SMALL = ("lattice 5×5, Bethe", "dense, 12 variables", "lattice 100×100, Bethe, mean")

CHILD = """
import json, os, resource, time, warnings
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))
import numpy as np
import bayesfield as bf

warnings.simplefilter("ignore")
field = {field}
rng = np.random.default_rng(0)
n = 1000 if field.n_variables < 5e5 else 100
parameters = rng.normal(0.0, {spread}, field.n_parameters)
quick = bf.Sampled(chains=n, sweeps=1, burn_in=30, snapshots=1) if field.n_variables > 150 else "auto"
X = bf.sample(field, parameters, n, rng=0, engine=quick)
if field.n_variables > 50_000:
    X = X.astype(np.int8)
prior = bf.Normal(variance=0.25)
held = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = held()
begun = time.perf_counter()
cost = bf.preview(field, X, prior, {options})
asked = time.perf_counter() - begun
begun = time.perf_counter()
posterior = bf.fit(field, X, prior, {options})
posterior.sd
taken = time.perf_counter() - begun
peak = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) * 1024 - before
print(json.dumps([asked, cost.seconds, taken, cost.bytes, peak, cost.detail]))
"""


def run(watch: Watch) -> list[Report]:
    rows = []
    for name in SMALL if watch.quick else CASES:
        watch.tell(f"preview, {name}")
        asked, said, taken, announced, peak, _ = _measured(*CASES[name])
        times, sizes = said / taken, announced / peak
        good = all(1.0 / WITHIN <= ratio <= WITHIN for ratio in (times, sizes))
        rows.append((name, asked, said, taken, times, announced / 1e9, peak / 1e9, sizes, good))
    columns = ("fit", "preview s", "said s", "taken s", "said/taken", "said GB", "peak GB", "said/peak", "within 2×")
    return [Report("What a fit was said to take, and what it took", columns, rows)]


def _measured(field: str, spread: float, options: str) -> Any:
    script = CHILD.format(field=field, spread=spread, options=options)
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(out.stdout.splitlines()[-1])
