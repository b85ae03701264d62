"""The command line as a user meets it: a process, its output, its exit code, its files."""

import io
import itertools
import json
import queue
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import typer

import bayesfield as bf
from bayesfield import __main__ as entry
from bayesfield.cli import waiting
from bayesfield.cli.app import app
from bayesfield.cli.ending import main
from bayesfield.cli.fields import field_of
from bayesfield.cli.options import Model
from bayesfield.cli.sentences import window_of
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.formats import tables
from bayesfield.formats.conll import read_conll
from bayesfield.formats.crfsuite import inputs_of, vocabulary
from bayesfield.formats.models import uai
from commands import run


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


# The rest calls the command in this process, which is quicker: its own words, whatever happens.


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A fit of three items, one of them with a name that is not ASCII, and a tagger with a window of two."""
    path = tmp_path_factory.mktemp("fitted")
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 3)), columns=["a", "é", "c\x07"])
    table.to_json(path / "cases.json", orient="records")
    field = bf.pairwise(3, [(0, 1), (1, 2)], names=list(table.columns))
    tables.write_posterior(path / "fit", bf.fit(field, table, correction="none"))
    sentence = "the D\ndog N\nsees V\na D\ncat N\n\n"
    (path / "train.conll").write_text(8 * sentence)
    X, y = read_conll(path / "train.conll", features=2)
    known = vocabulary(X)
    crf = bf.CRF(["D", "N", "V"], list(known))
    tagger = bf.fit_sequences(crf, [inputs_of(s, known) for s in X], y, bf.Normal(variance=1.0), correction="none")
    tables.write_posterior(path / "tagger", tagger)
    return path


@pytest.fixture
def call(fitted, monkeypatch, capsys):
    """``call("sample", "fit")``: exit code, stdout, stderr on one line."""
    monkeypatch.chdir(fitted)

    def words(*given):
        monkeypatch.setattr(sys, "argv", ["bayesfield", *map(str, given)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return int(end.value.code or 0), told.out, " ".join(told.err.split())

    return words


def stopped(*_, **__):
    raise KeyboardInterrupt


def test_ctrl_c_while_modules_are_imported(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "bayesfield.cli.ending", SimpleNamespace(main=stopped))
    with pytest.raises(SystemExit) as end:
        entry.main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted; nothing was written\n"


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (("fit", "cases.json", "--model", "ising", "--out", "x"), "bayesfield.formats.tables.read_cases"),
        (("fit", "train.conll", "--model", "crf", "--out", "x"), "bayesfield.cli.fields.labelled_sentences"),
        (("infer", "m.uai", "--task", "PR"), "bayesfield.formats.models.uai.read_model"),
        (("compare", "cases.json", "--model", "ising", "--model", "potts", "--graph", "complete"), "bayesfield.fit"),
        (("sample", "fit"), "bayesfield.cli.saved.new_cases"),
        (("predict", "fit", "cases.json", "--column", "a"), "bayesfield.cli.saved.given_others"),
        (("impute", "fit", "cases.json"), "bayesfield.cli.saved.read_frame"),
        (("check", "fit", "cases.json"), "bayesfield.predictive_check"),
        (("report", "fit", "--out", "x"), "bayesfield.posterior.posterior.Posterior.report"),
        (("convert", "fit", "x.csv"), "bayesfield.load"),
    ],
)
def test_ctrl_c_while_a_command_works(call, fitted, monkeypatch, words, where):
    monkeypatch.setattr(where, stopped)
    code, out, err = call(*words)
    assert (code, out) == (130, "")
    assert "interrupted; nothing was written" in err
    assert not (fitted / "x").exists()


def test_ctrl_c_elsewhere_is_told_too(call, monkeypatch):
    monkeypatch.setattr("bayesfield.cli.saved.refuse_table", stopped)
    assert call("sample", "fit") == (130, "", "interrupted")


def test_a_plain_line_where_stderr_is_no_terminal(monkeypatch):
    lines = queue.Queue()
    monkeypatch.setattr(waiting, "_EVERY", 0.01)
    monkeypatch.setattr(waiting, "note", lines.put)
    with waiting.progress("work") as tell:
        tell(1, 4)
        until(lines, "work: 1 of 4, ")
    with waiting.doing("other …") as say:
        until(lines, "other: ")
        say("more [work] …")
        until(lines, "more [work]: ")


def until(lines, beginning):
    while not lines.get(timeout=60).startswith(beginning):
        pass


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TypeError("odd"), "odd (TypeError). This is a bug of bayesfield: please report it"),
        (MemoryError(), "more memory than there is"),
        (RecursionError(), "nested too deeply"),
        (OSError(28, "No space left on device", "here"), "cannot read or write here: No space left on device"),
    ],
)
def test_no_error_is_a_stack_trace(call, monkeypatch, error, said):
    def fail(*_):
        raise error

    monkeypatch.setattr("bayesfield.cli.saved.new_cases", fail)
    monkeypatch.setattr("bayesfield.cli.ending.leave_stdout", lambda: None)  # here it is the tests' own
    code, _, err = call("sample", "fit")
    assert code == 1
    assert said in err
    assert "Traceback" not in err
    monkeypatch.setenv("BAYESFIELD_TRACE", "1")
    assert "Traceback" in call("sample", "fit")[2]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize(("shell", "said"), [("> /dev/full", "No space left"), (">&-", "stdout is closed")])
def test_a_stdout_that_takes_nothing(fitted, shell, said):
    command = f"{sys.executable} -m bayesfield sample fit --cases 2 {shell}"
    done = subprocess.run(command, shell=True, cwd=fitted, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_stdout_of_ascii(call, monkeypatch):
    shown = []
    for words in ((), ("--json",)):
        written = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii"))
        assert call("sample", "fit", "--cases", 1, *words)[0] == 0
        shown.append(written.getvalue().decode("ascii"))
    assert shown[0].startswith("a,\\xe9,c")
    assert set(json.loads(shown[1])[0]) == {"a", "é", "c\x07"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sample", "fit", "--out", "absent/x.csv"), "there is no folder absent"),
        (("sample", "fit", "--out", "x.txt"), "ends in .csv"),
        (("sample", "fit", "--out", "folder.csv"), "it is a folder"),
        (("predict", "fit", "cases.json", "--column", "a", "--out", "absent/x.csv"), "no folder"),
        (("impute", "fit", "cases.json", "--cells", "x.txt"), "ends in .csv"),
        (("impute", "fit", "cases.json", "--cells", "x.csv", "--out", "x.csv"), "two tables"),
        (("report", "fit", "--out", "absent/x.html"), "no folder"),
        (("infer", "m.uai", "--task", "PR", "--out", "fit"), "it is a folder"),
        (("convert", "fit", "absent/x.csv"), "no folder"),
        (("fit", "cases.json", "--model", "ising", "--out", "cases.json"), "cannot write to cases.json"),
        (("sample", "fit", "--cases", 10**10), "10,000,000,000 cases of 3 variables"),
        (("predict", "fit", "cases.json", "--column", "a", "--draws", 10**12), "draws of 5 parameters"),
    ],
)
def test_refused_before_anything_is_read(call, fitted, monkeypatch, words, said):
    (fitted / "folder.csv").mkdir(exist_ok=True)
    for reader in ("formats.frames.read_frame", "cli.saved.read_frame", "formats.tables.read_cases"):
        monkeypatch.setattr(f"bayesfield.{reader}", stopped)
    code, out, err = call(*words)
    assert (code, out) == (1, "")
    assert said in err


def test_too_many_cases_of_a_network(call, fitted):
    uai.write_model(fitted / "few.uai", bf.pairwise(2, [(0, 1)]), [0.5, 0.0, 1.0])
    code, _, err = call("sample", "few.uai", "--cases", 10**10)
    assert code == 1
    assert "10,000,000,000 cases of 2 variables" in err


def test_a_refused_fit_leaves_no_folder(call, fitted):
    assert call("fit", "absent.csv", "--model", "ising", "--out", "new/folder")[0] == 1
    assert not (fitted / "new").exists()
    (fitted / "kept").mkdir()
    assert call("fit", "absent.csv", "--model", "ising", "--out", "kept/folder")[0] == 1
    assert list((fitted / "kept").iterdir()) == []


def test_the_window_is_that_of_the_fit(call):
    assert "--window" not in call("predict", "tagger", "train.conll")[2]
    code, _, err = call("predict", "tagger", "train.conll", "--window", 1)
    assert code == 0
    assert "fitted with --window 2, and 1 is taken" in err


@pytest.mark.parametrize(("inputs", "window"), [(["word:a"], 0), (["BOS", "word:a"], 1), (["+3:x:b", "-1:x:b"], 3)])
def test_the_window_by_the_names_of_inputs(inputs, window):
    assert window_of(inputs, None) == window


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "t.csv", "--model", "crf", "--out", "x"), "a CRF takes CoNLL columns (word … label"),
        (("predict", "tagger", "t.csv"), "a CRF takes CoNLL columns"),
        (("predict", "tagger", "empty.conll"), "holds no words"),
        (("fit", "empty.conll", "--model", "crf", "--out", "x"), "holds no words"),
        (("fit", "head.csv", "--model", "ising", "--out", "x"), "no values"),
        (("fit", "head.csv", "--model", "potts", "--out", "x"), "no rows"),
        (("fit", "empty.csv", "--model", "potts", "--out", "x"), "empty.csv"),
        (("compare", "head.csv", "--model", "ising", "--model", "potts", "--graph", "complete"), "no values"),
        (("fit", "none.json", "--model", "ising", "--out", "x"), "none.json"),
        (("fit", "lists.json", "--model", "ising", "--out", "x"), "lists.json"),
        (("compare", "lists.json", "--model", "ising", "--model", "potts", "--graph", "complete"), "lists.json"),
        (
            ("convert", "tagger", "x.uai"),
            "is of a CRF and written as .csv, .tsv, .csv.gz, .tsv.gz, .parquet, .json; got 'x.uai'",
        ),
        (("convert", "tagger", "x.graphml"), "is of a CRF"),
    ],
)
def test_what_holds_nothing_to_learn(call, fitted, words, said):
    for name, text in {
        "t.csv": "a,b\n0,1\n1,0\n",
        "head.csv": "a,b\n",
        "empty.csv": "",
        "empty.conll": "",
        "none.json": "[]",
        "lists.json": '[{"a": [1], "b": 0}, {"a": [2], "b": 1}]',
    }.items():
        (fitted / name).write_text(text)
    code, out, err = call(*words)
    assert (code, out) == (1, "")
    assert said in err
    assert "This is a bug" not in err
    assert not (fitted / "x").exists()


def test_columns_that_never_vary_are_named(call, fitted):
    (fitted / "flat.csv").write_text("a,b\n" + "0,1\n1,1\n" * 20)
    words = ("fit", "flat.csv", "--model", "ising", "--correction", "none", "--out", "flat")
    assert "column 'b' never varies" in call(*words)[2]


def test_convert_takes_folders_and_large_letters(call, fitted):
    for target in ("P.CSV", "P.JSON", "P.GRAPHML", "P.UAI"):
        assert call("convert", "fit", target)[0] == 0
    assert call("convert", "train.conll", "T.JSONL")[0] == 0
    assert len((fitted / "T.JSONL").read_text().splitlines()) == 8
    assert list(nx.read_graphml(fitted / "P.GRAPHML")) == ["a", "é", "c\\x07"]


def test_every_example_can_be_typed():
    """Options and arguments as they are now; nothing is run."""
    commands = {}
    for name, command in typer.main.get_command(app).commands.items():
        inner = getattr(command, "commands", {"": command})
        commands |= {f"{name} {verb}".strip(): one for verb, one in inner.items()}
    for name, command in commands.items():
        examples = re.findall(r"Example: bayesfield (.*)", command.help)
        assert examples, name
        for example in examples:
            words = shlex.split(example.split(" > ")[0])
            first = len(name.split())
            assert " ".join(words[:first]) == name
            command.make_context(name, words[first:])


def test_columns_of_parquet_that_are_called_by_numbers():
    cases = pd.DataFrame(np.arange(27).reshape(9, 3) // 4 % 3, columns=[1, 2, 3])
    for model in (Model.potts, Model.ordinal):
        field = field_of(cases, model, "complete")
        assert field.names == ["1", "2", "3"]
        assert field.edges == [(0, 1), (0, 2), (1, 2)]


@pytest.fixture(scope="module")
def apart(fitted):
    """b is 1 whenever a is: nothing bounds their coupling but the prior. Written beside the other files."""
    rows = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    pd.DataFrame(rows, columns=["a", "b"]).to_csv(fitted / "apart.csv", index=False)
    (fitted / "none.csv").write_text("from,to\n")
    return ["apart.csv", "--model", "ising", "--prior-variance", 100]


def test_fit_tells_how_far_to_trust_it(call, apart, fitted):
    code, out, told = call("fit", *apart, "--out", "drawn", "--json")
    assert code == 0
    found = json.loads(out)["certificate"]
    assert found["verdict"] == "good"
    assert f"trust: good: {found['advice']}" in told
    assert found["effective"] > 1000
    assert found["pareto_k"] is None
    assert json.loads((fitted / "drawn" / "fit.json").read_text())["certificate"] == found
    assert isinstance(bf.load(fitted / "drawn" / "posterior.bf").marginals, DrawnMarginals)


def test_a_poor_posterior_has_its_own_exit_code(call, apart, fitted):
    """Plain Laplace, where no Gaussian fits: everything is written, and every command that uses it says so."""
    code, out, told = call("fit", *apart, "--correction", "none", "--out", "rough", "--json")
    assert code == 4
    found = json.loads(out)
    assert found["converged"]
    assert found["certificate"]["verdict"] == "poor"
    assert "trust: poor:" in told
    assert "wrote rough" in told
    for words in (
        ("sample", "rough", "--cases", 10, "--out", "new.csv"),
        ("predict", "rough", "apart.csv", "--column", "a", "--out", "a.csv"),
        ("impute", "rough", "apart.csv", "--out", "filled.csv"),
        ("report", "rough", "--out", "rough.html"),
        ("convert", "rough", "rough.json"),
    ):
        code, _, told = call(*words)
        assert code == 4, words
        assert "trust: poor:" in told
        assert (fitted / words[-1]).stat().st_size > 0
    assert json.loads((fitted / "rough.json").read_text())["certificate"]["verdict"] == "poor"


def test_check_has_the_certificate(call, apart):
    assert call("fit", *apart, "--correction", "draws", "--out", "asked")[0] == 0
    code, out, told = call("check", "asked", "apart.csv", "--json")
    assert code == 0
    assert json.loads(out)["certificate"]["verdict"] == "good"
    assert "trust: good: made of draws" in told


def test_compare_tells_how_far_to_trust_each(call, apart):
    code, out, told = call("compare", *apart, "--graph", "complete", "--graph", "none.csv", "--json")
    assert code == 0, told
    assert {row["model"]: row["certificate"]["verdict"] for row in json.loads(out)} == {
        "ising, complete": "good",
        "ising, none.csv": "good",
    }
    assert "ising, none.csv: trust: good:" in told


def test_a_file_that_nobody_judged_says_so(call, fitted):
    posterior = bf.load(fitted / "fit" / "posterior.bf")
    posterior.record = replace(posterior.record, certificate=None)
    posterior.save(fitted / "unjudged.bf")
    code, _, told = call("sample", "unjudged.bf", "--cases", 2)
    assert code == 0
    assert "trust: not judged by the fit" in told
