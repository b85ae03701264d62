"""The command line as a user meets it: a process, its output, its exit code, its files."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.formats import uai


def run(*words, cwd):
    command = [sys.executable, "-m", "bayesfield.cli", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small network, evidence, and a table of cases."""
    path = tmp_path_factory.mktemp("cli")
    field = bf.grid(3, 3)
    parameters = 0.5 * np.random.default_rng(0).normal(size=21)
    uai.write_model(path / "grid.uai", field, parameters)
    uai.write_evidence(path / "grid.evid", {0: 1, 4: 0})
    names = [f"item{i}" for i in range(4)]
    cases = bf.sample(bf.pairwise(4, [(0, 1), (1, 2), (2, 3)]), np.array([0.1, -0.2, 0.3, 0, 1, -1, 0.5]), 300, 1)
    table = pd.DataFrame(cases, columns=names)
    table.insert(0, "group", "a")
    table.to_csv(path / "cases.csv", index=False)
    (path / "edges.csv").write_text("from,to\nitem0,item1\nitem1,item2\n2,3\n")
    return path


def test_version_and_help(folder):
    assert run("--version", cwd=folder).stdout.strip() == f"bayesfield {bf.__version__}"
    shown = run("--help", cwd=folder).stdout
    assert "infer" in shown
    assert "fit" in shown
    assert "Example" in run("fit", "--help", cwd=folder).stdout


def test_infer_pr(folder):
    done = run("infer", "grid.uai", "--task", "PR", "--method", "exact", cwd=folder)
    field = uai.read_model(folder / "grid.uai")
    assert done.returncode == 0
    head, value = done.stdout.split()
    assert head == "PR"
    assert float(value) == pytest.approx(bf.infer(field, engine=bf.Enumeration()).log_z / np.log(10), rel=1e-10)
    assert "exact" in done.stderr


def test_infer_mar_with_evidence_to_a_file(folder, tmp_path):
    out = tmp_path / "grid.MAR"
    words = ["infer", "grid.uai", "--evidence", "grid.evid", "--task", "MAR", "--method", "auto", "--out", out]
    done = run(*words, cwd=folder)
    assert done.returncode == 0
    assert done.stdout == ""
    wanted = bf.infer(uai.read_model(folder / "grid.uai"), engine=bf.Enumeration(), evidence={0: 1, 4: 0})
    for got, p in zip(uai.read_mar(out), wanted.variables, strict=True):
        np.testing.assert_allclose(got, p, atol=1e-9)


def test_infer_mpe(folder, tmp_path):
    done = run("infer", "grid.uai", "--evidence", "grid.evid", "--task", "MPE", "--out", tmp_path / "m", cwd=folder)
    assert done.returncode == 0
    states = uai.read_mpe(tmp_path / "m")
    assert states[0] == 1
    assert states[4] == 0


def test_infer_bethe_is_near(folder):
    values = [
        float(run("infer", "grid.uai", "--task", "PR", "--method", m, cwd=folder).stdout.split()[1])
        for m in ("bethe", "kikuchi", "exact")
    ]
    assert 0 < abs(values[0] - values[2]) < 0.1
    assert abs(values[1] - values[2]) < abs(values[0] - values[2])


def test_fit_writes_the_posterior(folder, tmp_path):
    out = tmp_path / "fit"
    options = ["--model", "ising", "--graph", "edges.csv", "--drop", "group", "--prior-variance", "0.5"]
    done = run("fit", "cases.csv", *options, "--engine", "exact", "--response", "bethe", "--out", out, cwd=folder)
    assert done.returncode == 0, done.stderr
    cases = pd.read_csv(folder / "cases.csv").drop(columns="group")
    field = bf.pairwise(4, [(0, 1), (1, 2), (2, 3)], names=list(cases.columns))
    wanted = bf.fit(field, cases, bf.Normal(variance=0.5), bf.Exact(), bf.Bethe())
    got = pd.read_csv(out / "posterior.csv", index_col="parameter")
    assert list(got.index) == field.parameter_names
    np.testing.assert_allclose(got["mean"], wanted.mean, atol=1e-9)
    np.testing.assert_allclose(got["sd"], wanted.sd, atol=1e-9)
    packed = np.load(out / "posterior.npz")
    np.testing.assert_allclose(packed["covariance"], wanted.covariance(), atol=1e-9)
    record = json.loads((out / "fit.json").read_text())
    assert record["converged"] is True
    assert record["n_cases"] == 300
    assert record["engine"] == "Exact()"
    assert "item0*item1" in done.stdout


@pytest.mark.parametrize(("graph", "parameters"), [("complete", 4 + 6), ("grid:2x2", 4 + 4)])
def test_fit_on_other_graphs(folder, tmp_path, graph, parameters):
    words = ["fit", "cases.csv", "--model", "potts", "--graph", graph, "--drop", "group", "--out", tmp_path / "o"]
    assert run(*words, cwd=folder).returncode == 0
    assert len(pd.read_csv(tmp_path / "o" / "posterior.csv")) == parameters


def test_fit_by_sampling(folder, tmp_path):
    options = ["--model", "ising", "--graph", "complete", "--drop", "group", "--out", tmp_path / "o"]
    done = run("fit", "cases.csv", *options, "--engine", "sampled", "--correction", "mean", cwd=folder)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "o" / "fit.json").read_text())
    assert record["engine"].startswith("Sampled")
    assert record["log_likelihood"] is None
    assert record["correction"]["kind"] == "mean"
    assert np.load(tmp_path / "o" / "posterior.npz")["skewness"].any()


@pytest.mark.parametrize("method", ["pseudo_likelihood", "iterative_scaling"])
def test_fit_by_another_learner(folder, tmp_path, method):
    options = ["--model", "ising", "--graph", "complete", "--drop", "group", "--out", tmp_path / "o"]
    done = run("fit", "cases.csv", *options, "--method", method, cwd=folder)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "o" / "fit.json").read_text())
    assert record["method"] == method
    assert record["converged"] is True
    cases = pd.read_csv(folder / "cases.csv").drop(columns="group")
    field = bf.pairwise(4, itertools.combinations(range(4), 2), names=list(cases.columns))
    got = pd.read_csv(tmp_path / "o" / "posterior.csv", index_col="parameter")
    np.testing.assert_allclose(got["mean"], bf.fit(field, cases, method=method).mean, atol=1e-9)


REFUSALS = {
    "log Z by sampling": (["infer", "grid.uai", "--task", "PR", "--method", "sampled"], "no log Z"),
    "no model": (["infer", "absent.uai", "--task", "PR"], "cannot read absent.uai"),
    "no evidence file": (["infer", "grid.uai", "--evidence", "absent", "--task", "PR"], "cannot read absent"),
    "model is a table": (["infer", "cases.csv", "--task", "PR"], "MARKOV or BAYES"),
    "out is nowhere": (["infer", "grid.uai", "--task", "PR", "--out", "absent/x"], "cannot write"),
    "text column": (["fit", "cases.csv", "--model", "ising", "--graph", "complete", "--out", "o"], "mix kinds"),
    "unknown drop": (
        ["fit", "cases.csv", "--model", "ising", "--graph", "complete", "--drop", "z", "--out", "o"],
        "no column 'z'",
    ),
    "wrong grid": (
        ["fit", "cases.csv", "--model", "ising", "--graph", "grid:3x3", "--drop", "group", "--out", "o"],
        "9 variables; the data have 4",
    ),
    "grid misspelt": (
        ["fit", "cases.csv", "--model", "ising", "--graph", "grid:3", "--drop", "group", "--out", "o"],
        "grid:ROWSxCOLUMNS",
    ),
    "no edges file": (
        ["fit", "cases.csv", "--model", "ising", "--graph", "absent.csv", "--drop", "group", "--out", "o"],
        "cannot read absent.csv",
    ),
    "negative variance": (
        ["fit", "cases.csv", "--model", "ising", "--graph", "complete", "--prior-variance", "-1", "--out", "o"],
        "above zero",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_plain_and_write_nothing(folder, name):
    words, complaint = REFUSALS[name]
    before = sorted(p.name for p in folder.iterdir())
    done = run(*words, cwd=folder)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == before


def test_wrong_usage_is_exit_2(folder):
    done = run("infer", "grid.uai", "--task", "SUM", cwd=folder)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_misspelt_first_edge_is_no_header(folder, tmp_path):
    edges = tmp_path / "e.csv"
    edges.write_text("item0,itm1\nitem1,item2\n")
    done = run("fit", "cases.csv", "--model", "ising", "--graph", edges, "--drop", "group", "--out", "o", cwd=folder)
    assert done.returncode == 1
    assert "line 1" in done.stderr


def test_columns_without_values_are_named(folder, tmp_path):
    (tmp_path / "holes.csv").write_text("a,b\n,0\n,1\n")
    words = ["fit", tmp_path / "holes.csv", "--model", "ising", "--graph", "complete", "--out", "o"]
    done = run(*words, cwd=folder)
    assert done.returncode == 1
    assert "no case observes 'a'" in done.stderr.replace("\n", " ")
