"""The commands beyond fit and infer, as a user meets them: a process, its output, its exit code, its files."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.formats.models import json_models, uai
from commands import run

COMMANDS = (
    *("fit", "infer", "sample", "predict", "impute", "compare", "check", "report", "edges"),
    *("convert", "reproduce", "bench", "calibrate", "doctor", "warmup"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of four items, its fit, the same with holes, and sentences with a tagger of them."""
    path = tmp_path_factory.mktemp("commands")
    field = bf.pairwise(4, [(0, 1), (1, 2), (2, 3), (0, 3)], names=list("abcd"))
    cases = bf.sample(field, np.array([0.1, -0.2, 0.3, 0, 1, -1, 0.5, 0.2]), 300, 1)
    table = pd.DataFrame(cases, columns=list("abcd"))
    table.to_csv(path / "cases.csv", index=False)
    table.to_parquet(path / "cases.parquet")
    holed = table.astype("Int64")
    holed.iloc[::7, 2] = pd.NA
    holed.to_csv(path / "holed.csv", index=False)
    (path / "edges.csv").write_text("a,b\nb,c\nc,d\n")
    words = {"the": "D", "a": "D", "dog": "N", "cat": "N", "barks": "V", "sleeps": "V"}
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(30):
        kinds = (["the", "a"], ["dog", "cat"], ["barks", "sleeps"])
        lines += [f"{w} {words[w]}" for w in (str(rng.choice(kind)) for kind in kinds)] + [""]
    (path / "train.conll").write_text("\n".join(lines))
    assert run("fit", "cases.csv", "--model", "ising", "--out", "fit", cwd=path).returncode == 0
    done = run("fit", "train.conll", "--model", "crf", "--out", "tagger", cwd=path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(folder, command):
    shown = run(command, "--help", cwd=folder).stdout
    assert f"Example: bayesfield {command}" in " ".join(shown.split())


def test_help_lists_all_commands_and_exit_codes(folder):
    shown = run("--help", cwd=folder).stdout
    assert all(command in shown for command in COMMANDS)
    assert "Exit codes" in shown


def test_fit_writes_what_load_reads(folder):
    posterior = bf.load(folder / "fit" / "posterior.bf")
    table = pd.read_csv(folder / "fit" / "posterior.csv", index_col=0)
    np.testing.assert_allclose(posterior.summary()["mean"], table["mean"])


def test_fit_of_parquet_is_that_of_csv(folder, tmp_path):
    done = run("fit", "cases.parquet", "--model", "ising", "--out", tmp_path, "--json", cwd=folder)
    told = json.loads(done.stdout)
    assert told["converged"]
    assert told["n_cases"] == 300
    a, b = (pd.read_csv(p / "posterior.csv") for p in (tmp_path, folder / "fit"))
    pd.testing.assert_frame_equal(a, b)


def test_fit_of_ordinal_items(folder, tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.integers(1, 4, (100, 3)), columns=list("xyz")).to_csv(tmp_path / "o.csv", index=False)
    done = run("fit", "o.csv", "--model", "ordinal", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert bf.load(tmp_path / "o" / "posterior.bf").field.n_parameters == 3 * 2 + 3


def test_sample_from_a_posterior(folder, tmp_path):
    out = tmp_path / "new.csv"
    assert run("sample", "fit", "--cases", 4000, "--seed", 3, "--out", out, cwd=folder).returncode == 0
    drawn, given = pd.read_csv(out), pd.read_csv(folder / "cases.csv")
    assert list(drawn.columns) == list("abcd")
    # means of 4,000 and of 300 cases: within 5 standard errors (false alarms 1e-6), and the posterior's own spread
    assert (np.abs(drawn.mean() - given.mean()) < 5 * np.sqrt(1 / 4000 + 2 / 300)).all()
    again = run("sample", "fit", "--cases", 4000, "--seed", 3, cwd=folder).stdout
    assert again == out.read_text()


def test_sample_from_a_network(folder, tmp_path):
    uai.write_model(tmp_path / "m.uai", bf.pairwise(2, [(0, 1)], states=(0, 1)), [0.0, 0.0, 3.0])
    done = run("sample", "m.uai", "--cases", 50, "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)
    assert len(rows) == 50
    assert set(rows[0]) == {"x0", "x1"}


def test_predict_a_column(folder):
    done = run("predict", "fit", "cases.csv", "--column", "b", "--json", cwd=folder)
    rows = pd.DataFrame(json.loads(done.stdout))
    np.testing.assert_allclose(rows["P(0)"] + rows["P(1)"], 1.0)
    posterior, X = bf.load(folder / "fit" / "posterior.bf"), pd.read_csv(folder / "cases.csv").astype(object)
    X["b"] = None
    expected = posterior.impute(X, 100, 0, 0).probabilities
    np.testing.assert_allclose(rows[["P(0)", "P(1)"]], expected, rtol=1e-10)


def test_predict_needs_a_column_it_knows(folder):
    done = run("predict", "fit", "cases.csv", "--column", "z", cwd=folder)
    assert done.returncode == 1
    assert "--column is one of" in done.stderr


def test_predict_labels_of_sentences(folder, tmp_path):
    out = tmp_path / "labels.csv"
    done = run("predict", "tagger", "train.conll", "--out", out, cwd=folder)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(out)
    assert (table["label"] == table["predicted"]).all()
    assert "100.0% of 90 labels" in done.stderr
    (tmp_path / "new.conll").write_text("the\ndog\n\na\n")
    done = run("predict", folder / "tagger", "new.conll", "--no-labelled", "--json", cwd=tmp_path)
    assert [row["predicted"] for row in json.loads(done.stdout)][:2] == ["D", "N"]


def test_predict_entities_of_sentences(folder, tmp_path):
    rng = np.random.default_rng(2)
    lines = []
    for _ in range(30):
        lines += ["in O", "New B-place", "York I-place", "with O", f"{rng.choice(['Ann', 'Bob'])} B-name", ""]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    assert run("fit", "train.conll", "--model", "crf", "--out", "tagger", cwd=tmp_path).returncode == 0
    (tmp_path / "test.conll").write_text("\n".join([*lines[:6], *lines[:5], ""]))
    out = tmp_path / "entities.csv"
    for decode in ((), ("--decode", "f1")):
        done = run("predict", "tagger", "test.conll", "--spans", *decode, "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        table = pd.read_csv(out)
        columns = ["sentence", "first", "end", "label", "probability", "words", "right"]
        assert table.columns.tolist() == columns
        assert table["words"].tolist() == 2 * ["New York", lines[4].split()[0]]
        assert table["right"].all()
        assert table["probability"].between(0.5, 1.0).all()
        assert "F1 100.0%" in done.stderr
    (tmp_path / "new.conll").write_text("in\nNew\nYork\nwith\nBob\n")
    done = run("predict", "tagger", "new.conll", "--spans", "--no-labelled", "--json", cwd=tmp_path)
    assert [(row["first"], row["end"], row["label"]) for row in json.loads(done.stdout)][:1] == [(1, 3, "place")]
    for arguments, words in (
        (("predict", "tagger", "test.conll", "--decode", "f1"), "--spans, too"),
        (("predict", folder / "fit", folder / "cases.csv", "--spans"), "--spans is for CRFs"),
        (("predict", folder / "tagger", folder / "train.conll", "--spans"), "B-type"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert (done.returncode, words in " ".join(done.stderr.split())) == (1, True), done.stderr


def test_impute_fills_every_hole(folder, tmp_path):
    out, cells = tmp_path / "filled.csv", tmp_path / "cells.json"
    done = run("impute", "fit", "holed.csv", "--out", out, "--cells", cells, cwd=folder)
    assert done.returncode == 0, done.stderr
    filled, holed = pd.read_csv(out), pd.read_csv(folder / "holed.csv")
    assert not filled.isna().any(axis=None)
    known = holed.notna().to_numpy()
    assert (filled.to_numpy()[known] == holed.to_numpy()[known]).all()
    assert len(json.loads(cells.read_text())) == int(holed.isna().sum().sum())


def test_compare_prefers_the_graph_that_made_the_data(folder):
    words = ("--model", "ising", "--graph", "edges.csv", "--graph", "complete", "--json")
    rows = json.loads(run("compare", "cases.csv", *words, cwd=folder).stdout)
    assert {"log_evidence", "probability"} <= set(rows[0])
    assert sum(row["probability"] for row in rows) == pytest.approx(1.0)


def test_check_takes_the_data_of_the_fit_only(folder, tmp_path):
    told = json.loads(run("check", "fit", "cases.csv", "--json", cwd=folder).stdout)
    assert told["passed"]
    pd.read_csv(folder / "cases.csv").head(50).to_csv(tmp_path / "few.csv", index=False)
    done = run("check", folder / "fit", "few.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert "fitted on 300 cases" in done.stderr


def test_check_for_people(folder):
    shown = run("check", "fit", "cases.csv", cwd=folder).stdout
    assert "the mode is within" in shown
    assert "replicated data sets" in shown


def test_report_with_and_without_data(folder, tmp_path):
    for words in ((), ("--data", folder / "cases.csv")):
        out = tmp_path / "page.html"
        done = run("report", folder / "fit", "--out", out, "--title", "Four items", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Four items" in out.read_text()


def test_convert_tables_there_and_back(folder, tmp_path):
    previous = folder / "cases.csv"
    for ending in (".parquet", ".json", ".tsv", ".csv"):
        target = tmp_path / f"table{ending}"
        assert run("convert", previous, target, cwd=tmp_path).returncode == 0
        previous = target
    assert previous.read_text() == (folder / "cases.csv").read_text()


def test_convert_a_posterior(folder, tmp_path):
    saved = folder / "fit" / "posterior.bf"
    for ending in (".csv", ".parquet", ".json", ".graphml", ".uai"):
        assert run("convert", saved, tmp_path / f"p{ending}", cwd=tmp_path).returncode == 0
    posterior = bf.load(saved)
    np.testing.assert_allclose(pd.read_parquet(tmp_path / "p.parquet")["mean"], posterior.mean)
    assert len(json.loads((tmp_path / "p.json").read_text())["parameters"]) == posterior.field.n_parameters
    exact = bf.infer(posterior.field, posterior.mean).log_z
    assert bf.infer(uai.read_model(tmp_path / "p.uai")).log_z == pytest.approx(exact, rel=1e-10)
    assert "<graphml" in (tmp_path / "p.graphml").read_text()


def test_convert_models_there_and_back(tmp_path):
    field = bf.potts(3, [(0, 1), (1, 2)], ["x", "y", "z"], names=["a", "b", "c"])
    json_models.write_model(tmp_path / "m.json", field, 0.3 * np.arange(field.n_parameters))
    assert run("convert", "m.json", "m.uai", cwd=tmp_path).returncode == 0
    assert run("convert", "m.uai", "back.json", cwd=tmp_path).returncode == 0
    a, b = (json_models.read_model(tmp_path / name) for name in ("m.json", "back.json"))
    assert a.states[0] == ("x", "y", "z")
    assert bf.infer(a).log_z == pytest.approx(bf.infer(b).log_z, rel=1e-12)


def test_convert_alignments_and_sentences(folder, tmp_path):
    (tmp_path / "s.fasta").write_text(">one\nAC-\n>two\nACD\n")
    assert run("convert", "s.fasta", "s.csv", cwd=tmp_path).returncode == 0
    assert (tmp_path / "s.csv").read_text().splitlines()[1] == "one,A,C,-"
    assert run("convert", folder / "train.conll", "t.jsonl", cwd=tmp_path).returncode == 0
    first = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[0])
    assert first["labels"] == ["D", "N", "V"]


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("fit/posterior.bf", "p.xyz", "is written as"),
        ("cases.csv", "cases.xyz", "is written as .csv"),
        ("cases.xyz", "cases.csv", "no reader"),
        ("absent.csv", "cases.json", "cannot read"),
        ("train.conll", "t.csv", "is written as .json, .jsonl"),
    ],
)
def test_convert_says_what_it_cannot_do(folder, tmp_path, source, target, said):
    done = run("convert", source, tmp_path / target, cwd=folder)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_json_of_inference(folder, tmp_path):
    uai.write_model(tmp_path / "m.uai", bf.pairwise(2, [(0, 1)]), [0.5, 0.0, 1.0])
    told = json.loads(run("infer", "m.uai", "--task", "MAR", "--json", cwd=tmp_path).stdout)
    assert told["converged"]
    assert sum(told["marginals"][0]) == pytest.approx(1.0)


def test_calibrate_and_go_on(tmp_path):
    words = ("calibrate", "--problem", "chain-exact", "--simulations", "6", "--jobs", "1", "--json")
    rows = json.loads(run(*words, "--out", tmp_path / "one", cwd=tmp_path).stdout)
    assert rows[0]["problem"] == "chain-exact"
    assert (tmp_path / "one" / "calibration.png").stat().st_size > 1000
    table = pd.read_csv(tmp_path / "one" / "calibration.csv")
    assert len(table) == 6
    ranks = table[[c for c in table.columns if c.startswith("rank_")]]
    np.testing.assert_allclose(ranks.sum(axis=1), 1.0)
    next((tmp_path / "one" / "cells").glob("*-0005-*")).unlink()
    assert run(*words, "--out", tmp_path / "one", cwd=tmp_path).returncode == 0
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "one" / "calibration.csv").drop(columns="seconds"), table.drop(columns="seconds")
    )


def test_calibrate_names_its_problems(tmp_path):
    done = run("calibrate", "--problem", "moon", "--out", tmp_path / "c", cwd=tmp_path)
    assert done.returncode == 1
    assert "grid-kikuchi" in done.stderr


def test_interrupted_work_leaves_no_half_file(folder, tmp_path):
    """Ctrl-C while a study runs: a plain word, exit code 130, and the cells that are whole."""
    words = ["calibrate", "--out", str(tmp_path / "c"), "--jobs", "1", "--problem", "chain-exact"]
    command = [sys.executable, "-m", "bayesfield.cli", *words, "--simulations", "100000"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs do not hear it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heard)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "c" / "cells").glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "the same command goes on" in said
    for cell in (tmp_path / "c" / "cells").glob("*.json"):
        json.loads(cell.read_text())


def test_the_shell_completes_commands():
    script = Path(sys.executable).parent / "bayesfield"
    asked = {"_BAYESFIELD_COMPLETE": "complete_bash", "COMP_WORDS": "bayesfield re", "COMP_CWORD": "1"}
    done = subprocess.run([script], env=os.environ | asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["report", "reproduce"]


def test_a_large_fit_is_written_without_what_does_not_fit(tmp_path):
    field = bf.grid(60, 60)
    X = bf.sample(field, np.full(field.n_parameters, 0.1), 50, 0, engine=bf.Sampled())
    pd.DataFrame(X, columns=[f"p{i}" for i in range(3600)]).to_csv(tmp_path / "large.csv", index=False)
    words = ("--graph", "grid:60x60", "--engine", "bethe", "--correction", "none", "--prior-variance", "0.05")
    done = run("fit", "large.csv", "--model", "ising", *words, "--out", "large", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "has no covariance" in done.stderr
    assert len(pd.read_csv(tmp_path / "large" / "posterior.csv")) == field.n_parameters
    assert bf.load(tmp_path / "large" / "posterior.bf").sd.shape == (field.n_parameters,)


def test_columns_of_different_states_keep_them(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 2, 80), "b": rng.integers(1, 4, 80), "c": rng.integers(1, 4, 80)})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert run("fit", "t.csv", "--model", "potts", "--out", "p", cwd=tmp_path).returncode == 0
    rows = pd.DataFrame(json.loads(run("sample", "p", "--cases", 200, "--json", cwd=tmp_path).stdout))
    assert set(rows["a"]) == {0, 1}
    assert set(rows["b"]) <= {1, 2, 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("fit", "id.csv", "--model", "potts", "--out", "x"), "'id' has 120 different values"),
        (("fit", "id.csv", "--model", "ising", "--out", "x"), "column 'id' alone 120"),
        (("fit", "text.csv", "--model", "ordinal", "--out", "x"), "holds text"),
        (("compare", "two.csv", "--model", "ising", "--graph", "complete"), "nothing to compare"),
        (("infer", "m.uai", "--task", "MPE", "--method", "sampled"), "no best state"),
    ],
)
def test_what_people_try_first_is_answered(tmp_path, words, said):
    rng = np.random.default_rng(0)
    two = pd.DataFrame(rng.integers(0, 2, (120, 3)), columns=list("abc"))
    two.to_csv(tmp_path / "two.csv", index=False)
    two.assign(id=np.arange(120)).to_csv(tmp_path / "id.csv", index=False)
    two.assign(d=np.where(two["a"], "often", "never")).to_csv(tmp_path / "text.csv", index=False)
    uai.write_model(tmp_path / "m.uai", bf.pairwise(2, [(0, 1)]), [0.5, 0.0, 1.0])
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "x").exists()


def test_a_column_named_like_a_parameter(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (60, 3)), columns=["a", "b", "a*b"])
    table.to_csv(tmp_path / "t.csv", index=False)
    done = run("fit", "t.csv", "--model", "ising", "--out", "x", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.count("a*b") >= 2
