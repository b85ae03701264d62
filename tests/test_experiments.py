"""The demo runs as `make demo` runs it."""

import subprocess
import sys
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]


def test_digits(tmp_path):
    command = [sys.executable, str(ROOT / "experiments" / "digits.py"), "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert len(pd.read_csv(tmp_path / "posterior.csv")) == 176
    for name in ("forest", "lattice", "convergence"):
        assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert "posterior of the field" in done.stdout
