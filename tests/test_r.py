"""The R package: what it returns are Python's numbers. Skipped where there is no R with jsonlite."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.formats.tables import ising_field

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
library(bayesfield, lib.loc = "{library}")
x <- read.csv("{data}", check.names = FALSE)
fit <- bgm(x{more})
print(fit)
write.csv(summary(fit), "summary.csv", row.names = FALSE)
write.csv(bgm_edges(fit), "edges.csv", row.names = FALSE)
write.csv(bgm_structure(fit), "structure.csv", row.names = FALSE)
write.csv(extract_pairwise_interactions(fit), "couplings.csv")
stopifnot(identical(names(coef(fit)), summary(fit)$parameter))
pdf("plot.pdf")
there <- plot(fit)
dev.off()
cat("drawn", nrow(there), "\\n")
"""


def _reason():
    if shutil.which("Rscript") is None:
        return "no R on this machine"
    asked = ["Rscript", "-e", "quit(status = !requireNamespace('jsonlite', quietly = TRUE))"]
    return None if subprocess.run(asked, capture_output=True).returncode == 0 else "R has no package jsonlite"


needs_r = pytest.mark.skipif(_reason() is not None, reason=str(_reason()))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    build = ["R", "CMD", "INSTALL", "--no-docs", f"--library={folder}", str(ROOT / "r")]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def run_r(library, folder, data, more=""):
    script = folder / "run.R"
    script.write_text(SCRIPT.format(library=library, data=data, more=more))
    env = {**os.environ, "BAYESFIELD_COMMAND": f"{sys.executable} -m bayesfield", "LC_ALL": "C.UTF-8"}
    return subprocess.run(["Rscript", str(script)], cwd=folder, env=env, capture_output=True, text=True)


def data_of(kind):
    rng = np.random.default_rng(4)
    if kind == "binary":
        common = rng.random((300, 1))
        X = pd.DataFrame(
            (rng.random((300, 4)) < 0.2 + 0.6 * common).astype(int), columns=["sleep", "mood", "ü b", "x-1"]
        )
        return X.astype("Int64").mask(rng.random(X.shape) < 0.02)
    truth = bf.ordinal(4, [(0, 1), (1, 2), (2, 3)], states=[0, 1, 2], names=["a", "b", "c", "d"])
    return pd.DataFrame(bf.sample(truth, np.r_[np.zeros(8), 0.5, 0.5, 0.5], 300, rng=0), columns=truth.names)


@needs_r
@pytest.mark.parametrize("kind", ["binary", pytest.param("ordinal", marks=pytest.mark.slow)])
def test_r_has_the_numbers_of_python(library, tmp_path, kind):
    X = data_of(kind)
    X.to_csv(tmp_path / "data.csv", index=False)
    done = run_r(library, tmp_path, tmp_path / "data.csv")
    assert done.returncode == 0, done.stderr
    assert f"Posterior of {8 + 2 if kind == 'binary' else 14} parameters of 4 items" in done.stdout
    assert "trust: good" in done.stdout
    frame = X.astype(float)
    ordinal = kind == "ordinal"
    posterior = bf.OrdinalNetwork().fit(frame).posterior_ if ordinal else bf.fit(ising_field(frame, "complete"), frame)
    summary = pd.read_csv(tmp_path / "summary.csv", index_col="parameter")
    pd.testing.assert_frame_equal(summary, posterior.summary(), atol=1e-8, rtol=1e-8, check_names=False)
    edges = pd.read_csv(tmp_path / "edges.csv", keep_default_na=False)
    pd.testing.assert_frame_equal(edges, posterior.edges(), atol=1e-8, rtol=1e-8)
    structure = pd.read_csv(tmp_path / "structure.csv")
    wanted = bf.search_structure(posterior, bf.BernoulliEdges(0.5), rng=0).table
    np.testing.assert_allclose(structure["inclusion"], wanted["inclusion"], atol=1e-8)
    couplings = pd.read_csv(tmp_path / "couplings.csv", index_col=0)
    assert couplings.loc[edges["first"][0], edges["second"][0]] == pytest.approx(edges["mean"][0])
    np.testing.assert_array_equal(couplings, couplings.T)
    assert f"drawn {int((edges['inclusion'] > 0.5).sum())}" in done.stdout
    assert (tmp_path / "plot.pdf").stat().st_size > 1000


@needs_r
def test_what_is_refused_is_said_in_r(library, tmp_path):
    pd.DataFrame({"a": [1, 0], "b": ["x", "y"]}).to_csv(tmp_path / "data.csv", index=False)
    done = run_r(library, tmp_path, tmp_path / "data.csv")
    assert done.returncode != 0
    assert "mix kinds of values" in done.stderr
    assert "Traceback" not in done.stderr
