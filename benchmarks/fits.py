"""Whole fits, from data to posterior with all widths: of small fields once compiled, and of a large one.

The small ones on one core, the large one on all, in a process of its own. N = 1000, prior variance 0.25.
"""

import json
import os
import subprocess
import sys

import numpy as np

import bayesfield as bf
from benchmarks.timing import Report, Watch, best

SMALL = {  # arguments of the fit, and seconds to reach
    "5×5 lattice, Bethe": ({"engine": "bethe"}, 0.01),
    "5×5 lattice, Kikuchi, mean corrected to second order": ({"engine": "kikuchi", "correction": "mean"}, 0.1),
    "5×5 lattice, exact, variational": ({"engine": "exact"}, None),
}
LARGE, LARGE_TARGET = 300, 20.0

CHILD = """
import json, os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))
import numpy as np
import bayesfield as bf

def fitted(side):
    field = bf.grid(side, side)
    parameters = 0.25 * np.random.default_rng(0).normal(size=field.n_parameters)
    X = bf.sample(field, parameters, 1000, 0, engine=bf.Sampled(chains=1000, sweeps=20))
    begun = time.perf_counter()
    posterior = bf.fit(field, X, bf.Normal(variance=0.25), bf.Bethe(tolerance=1e-8))
    posterior.sd
    return field.n_parameters, time.perf_counter() - begun, str(posterior.record.status)

fitted(60)  # compiles what is not cached
print(json.dumps(fitted(int(sys.argv[1]))))
"""


def run(watch: Watch) -> list[Report]:
    field = bf.grid(5, 5)
    parameters = 0.5 * np.random.default_rng(0).normal(size=field.n_parameters)
    X, prior = bf.sample(field, parameters, 1000, 0), bf.Normal(variance=0.25)
    rows = []
    for name, (options, target) in SMALL.items():
        watch.tell(f"fits, {name}")
        taken = best(lambda options=options: bf.fit(field, X, prior, **options).sd, watch.seconds)
        rows.append((name, field.n_parameters, taken, target, taken <= target if target else None))
    side = 100 if watch.quick else LARGE
    watch.tell(f"fits, {side}×{side}")
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", CHILD, str(side)]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=free)
    size, taken, _ = json.loads(out.stdout.splitlines()[-1])
    target = LARGE_TARGET if side == LARGE else None
    rows.append((f"{side}×{side} lattice, Bethe, all cores", size, taken, target, taken <= target if target else None))
    columns = ("fit", "parameters", "seconds", "target", "met")
    return [Report("MAP and posterior with all widths", columns, rows)]
