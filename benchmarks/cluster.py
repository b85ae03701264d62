"""A chain CRF whose corpus stays on the two workers of a LocalCluster, against the same fit in one process.

The corpus is written to Parquet files, which the workers read. Every fit runs in a process of its own, so that its peak
memory is its own (the workers' not among it). Then the same with a worker killed in the middle.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.timing import Report, Watch, installed

LENGTH, LABELS, INPUTS, A_FILE = 25, 10, 5, 10_000
SAME = 1e-8

CHILD = """
import json, os, signal, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, range(os.cpu_count()))
import numpy as np
import bayesfield as bf

def main():
    folder, how = sys.argv[1:3]
    crf = bf.CRF(LABELS, [f"x{d}" for d in range(INPUTS)])
    files = bf.SequenceFiles(folder + "/*.parquet")
    options = {"prior": bf.Normal(variance=1.0), "method": "lbfgs", "correction": "none", "form": "block"}
    options |= {"tolerance": 1e-10}
    killed = []
    begun = time.perf_counter()
    if how == "alone":
        found = bf.fit_sequences(crf, files, **options)
    else:
        from dask.distributed import Client, LocalCluster
        cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        client = Client(cluster)
        begun = time.perf_counter()

        def kill(iteration):
            if how == "killed" and iteration.number == 3 and not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        found = bf.fit_sequences(crf, files, client=client, watch=kill, **options)
    seconds = time.perf_counter() - begun
    peak = int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 2**20
    print(json.dumps([seconds, peak, len(found.record.iterations), found.mean.tolist(), bool(killed)]))
    if how != "alone":
        client.close()
        cluster.close()

if __name__ == "__main__":
    main()
"""


def run(watch: Watch) -> list[Report]:
    if not installed("distributed"):
        return []
    rows = []
    for count in (2_000, 8_000) if watch.quick else (50_000, 200_000):
        with tempfile.TemporaryDirectory() as folder:
            watch.tell(f"cluster, {count:,} sequences")
            _corpus(Path(folder), count)
            alone = _fit(folder, "alone", watch, count)
            for how in ("alone", "spread", "killed"):
                found = alone if how == "alone" else _fit(folder, how, watch, count)
                gap = float(np.abs(np.array(found[3]) - alone[3]).max())
                name = {"alone": "one process", "spread": "2 workers", "killed": "2 workers, one killed"}[how]
                rows.append((f"{count:,}", name, found[0], found[2], found[1], gap, gap <= SAME))
    columns = ("sequences", "where", "seconds", "iterations", "peak GB of the client", "largest difference", "same")
    return [Report(f"Chain CRF, {LENGTH} positions each, {LABELS} labels, {INPUTS} inputs, L-BFGS", columns, rows)]


def _corpus(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(INPUTS, LABELS))
    size = min(A_FILE, -(-count // 4))
    for k in range(0, count, size):
        positions = min(size, count - k) * LENGTH
        X = rng.normal(size=(positions, INPUTS)).astype(np.float32)
        labels = (X @ weights + rng.gumbel(size=(positions, LABELS))).argmax(axis=1)
        table = pd.DataFrame({f"x{d}": X[:, d] for d in range(INPUTS)})
        table["label"], table["sequence"] = labels, k + np.arange(positions) // LENGTH
        table.to_parquet(folder / f"part{k:07d}.parquet", index=False)


def _fit(folder: str, how: str, watch: Watch, count: int) -> Any:
    watch.tell(f"cluster, {count:,} sequences, {how}")
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    script = Path(folder) / "fit.py"
    script.write_text(f"LABELS, INPUTS = {LABELS}, {INPUTS}\n{CHILD}", encoding="utf-8")
    command = [sys.executable, str(script), folder, how]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=free)
    return json.loads(out.stdout.splitlines()[-1])
