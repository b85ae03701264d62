"""First fits after installation: fresh processes, an empty cache of compiled kernels, processor seconds."""

import json
import os
import subprocess
import sys
import tempfile

from benchmarks.timing import Report, Watch

TARGETS = {"_grid": 8.0, "_network": 8.0, "_labels": 10.0}
WORDS = {"_grid": "Ising grid, 8×8", "_network": "dense network, 10 items", "_labels": "chain CRF"}
_RUN = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import bayesfield as bf
from bayesfield.cli import upkeep
from bayesfield.kernels import jit
from numba.core import event

class Own(event.Listener):
    deep, begun, spent = 0, 0.0, 0.0
    def on_start(self, _):
        self.begun = self.begun if self.deep else time.process_time()
        self.deep += 1
    def on_end(self, _):
        self.deep -= 1
        self.spent += 0.0 if self.deep else time.process_time() - self.begun

own = Own()
with event.install_listener("numba:compile", own):
    getattr(upkeep, sys.argv[1])()
whole = time.process_time()
getattr(upkeep, sys.argv[1])()
print(json.dumps([whole, own.spent, time.process_time() - whole]))
"""


def run(watch: Watch) -> list[Report]:
    rows = []
    for name, target in TARGETS.items():
        watch.tell(f"cold, {WORDS[name]}")
        whole, compiled, again = _measured(name)
        rows.append((WORDS[name], whole, compiled, compiled / whole, again, target, whole <= target))
    columns = ("first fit", "processor s", "of it compiling s", "share", "second fit s", "target s", "met")
    notes = ["Fresh processes with an empty cache; the import is in the first figure", "The second fit is warm"]
    return [Report("First fits after installation", columns, rows, notes)]


def _measured(name: str) -> list[float]:
    with tempfile.TemporaryDirectory() as empty:
        env = {**os.environ, "NUMBA_CACHE_DIR": empty}
        done = subprocess.run([sys.executable, "-c", _RUN, name], env=env, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
