"""UAI files: there and back, both forms of evidence, and files that are broken."""

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.formats.models import uai

from awkward import CASES

SMALL = """MARKOV
3
2 2 3
2
2 0 1
3 0 1 2

4
 4.000 2.400
 1.000 0.000

12
 2.2500 3.2500 3.7500
 0.0000 0.0000 10.0000
 1.8750 4.0000 3.3330
 2.0000 2.0000 3.4000
"""


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.uai"
    path.write_text(SMALL)
    return path


def test_reading(small):
    field = uai.read_model(small)
    assert field.cardinalities.tolist() == [2, 2, 3]
    z = 4 * (2.25 + 3.25 + 3.75) + 2.4 * 10 + 1 * (1.875 + 4 + 3.333)
    assert bf.infer(field, engine=bf.Exact()).log_z == pytest.approx(np.log(z))


def test_last_variable_runs_fastest(small):
    beliefs = bf.infer(uai.read_model(small), engine=bf.Exact(), evidence={0: 0, 1: 1})
    np.testing.assert_allclose(beliefs["x2"], [0, 0, 1])


@pytest.mark.parametrize("case", [c for c in CASES if np.abs(c.parameters).max(initial=0) < 10], ids=lambda c: c.name)
def test_writing_and_reading_back(case, tmp_path):
    path = tmp_path / "model.uai"
    uai.write_model(path, case.field, case.parameters)
    again = bf.infer(uai.read_model(path), engine=bf.Exact())
    wanted = bf.infer(case.field, case.parameters, bf.Exact())
    assert again.log_z == pytest.approx(wanted.log_z, abs=1e-11)
    for got, p in zip(again.variables, wanted.variables, strict=True):
        np.testing.assert_allclose(got, p, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", {}),
        ("", {}),
        ("2 1 0 2 2", {1: 0, 2: 2}),
        ("1 1 0", {1: 0}),
        ("1\n2 1 0 2 2\n", {1: 0, 2: 2}),
        ("1\n0\n", {}),
    ],
)
def test_evidence_in_both_forms(tmp_path, text, wanted):
    path = tmp_path / "e.evid"
    path.write_text(text)
    assert uai.read_evidence(path) == wanted
    uai.write_evidence(path, wanted)
    assert uai.read_evidence(path) == wanted


def test_results_there_and_back(small, tmp_path):
    field = uai.read_model(small)
    beliefs = bf.infer(field, engine=bf.Exact())
    (tmp_path / "PR").write_text(uai.pr_text(beliefs.log_z))
    (tmp_path / "MAR").write_text(uai.mar_text(beliefs))
    (tmp_path / "MPE").write_text(uai.mpe_text(np.array([0, 1, 2])))
    assert uai.read_pr(tmp_path / "PR") == pytest.approx(beliefs.log_z / np.log(10), rel=1e-11)
    for got, wanted in zip(uai.read_mar(tmp_path / "MAR"), beliefs.variables, strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-9)
    assert uai.read_mpe(tmp_path / "MPE").tolist() == [0, 1, 2]


BROKEN = {
    "empty": ("", "ends where the network's type"),
    "another kind": ("GRAPH\n" + SMALL, "MARKOV or BAYES"),
    "cut in a table": (SMALL[:-20], "ends inside the table of function 1"),
    "cut in the preamble": (SMALL[:25], "words left|ends where"),
    "words for numbers": (SMALL.replace("2.400", "two"), "numbers only"),
    "negative": (SMALL.replace("2.400", "-2.4"), "not below zero"),
    "a number of Python's": (SMALL.replace("2.400", "2_4"), "numbers only"),
    "nan": (SMALL.replace("2.400", "nan"), "finite"),
    "wrong size": (SMALL.replace("\n4\n", "\n5\n"), "needs 4 entries; it states 5"),
    "unknown variable": (SMALL.replace("2 0 1\n", "2 0 7\n"), "names variable 7"),
    "variable twice": (SMALL.replace("2 0 1\n", "2 1 1\n"), "twice"),
    "no states": (SMALL.replace("2 2 3\n2\n", "2 0 3\n2\n"), "cardinality of variable 1"),
    "huge count": (SMALL.replace("MARKOV\n3", "MARKOV\n30000000000"), "announces 30000000000 variables"),
    "too long": (SMALL + "1.0", "1 words too many"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_in_plain_words(tmp_path, name):
    text, complaint = BROKEN[name]
    path = tmp_path / "broken.uai"
    path.write_text(text)
    with pytest.raises(bf.InvalidInput, match=complaint):
        uai.read_model(path)


def test_a_mark_before_the_text_does_no_harm(tmp_path):
    (tmp_path / "m.uai").write_text("\ufeff" + SMALL, encoding="utf-8")
    assert uai.read_model(tmp_path / "m.uai").n_variables == 3


def test_variables_of_no_function(tmp_path):
    """100,000,000 states that no table speaks of took 55 s and 10 GB."""
    (tmp_path / "m.uai").write_text("MARKOV\n1\n100000000\n0\n")
    with pytest.raises(bf.InvalidInput, match="100,000,000 states, and the file 4 words"):
        uai.read_model(tmp_path / "m.uai")
    (tmp_path / "m.uai").write_text("MARKOV\n1\n1000\n0\n")
    assert uai.read_model(tmp_path / "m.uai").cardinalities.tolist() == [1000]


RESULTS = {
    "PR": (uai.read_pr, "-1.5", -1.5),
    "PR, impossible": (uai.read_pr, "-inf", -np.inf),
    "PR of 1": (uai.read_pr, "1", 1.0),
    "MAR": (uai.read_mar, "2 2 0.5 0.5 1 1", [[0.5, 0.5], [1.0]]),
    "MAR of one": (uai.read_mar, "1 3 0.5 0.25 0.25", [[0.5, 0.25, 0.25]]),
    "MAR of one state": (uai.read_mar, "1 1 1", [[1.0]]),
    "MPE": (uai.read_mpe, "3 0 1 2", [0, 1, 2]),
    "MPE of one": (uai.read_mpe, "1 1", [1]),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("before", ["", "1\n"], ids=["newer", "older"])
def test_results_in_both_forms(tmp_path, name, before):
    read, text, wanted = RESULTS[name]
    (tmp_path / "r").write_text(f"{name.split(',')[0].split()[0]}\n{before}{text}\n")
    found = read(tmp_path / "r")
    assert [p.tolist() for p in found] == wanted if "MAR" in name else np.array_equal(found, wanted)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("PR\nnan\n", "finite number or -inf"),
        ("PR\ninf\n", "finite number or -inf"),
        ("PR\n1 2 3\n", "goes on after its last number: 1 words"),
        ("PR\n2 3\n", "goes on after its last number"),
        ("PR\n1_0\n", "numbers only"),
        ("PR\n", "ends inside log10 Z"),
        ("MAR\n1 2 0.5 nan\n", "variable 0 must hold finite"),
        ("MAR\n1 2 1.5 -0.5\n", "not below zero"),
        ("MAR\n1 2 0.5 0.5 0.5\n", "number of states"),
        ("MAR\n2 2 0.5 0.5 1 1 7\n", "1 words too many"),
        ("MPE\n2 0 1 1\n", "1 words too many"),
        ("MPE\n2 0 1_0\n", "whole number"),
        ("MPE\n2 0 ٣\n", "whole number"),
    ],
)
def test_broken_results(tmp_path, text, complaint):
    (tmp_path / "r").write_text(text, encoding="utf-8")
    read = {"PR": uai.read_pr, "MAR": uai.read_mar, "MPE": uai.read_mpe}[text.split()[0]]
    with pytest.raises(bf.InvalidInput, match=complaint):
        read(tmp_path / "r")


@pytest.mark.parametrize("text", ["3 0 1", "x", "2 0 1 0 1", "1 2"])
def test_broken_evidence(tmp_path, text):
    path = tmp_path / "e.evid"
    path.write_text(text)
    with pytest.raises(bf.InvalidInput, match=r"e\.evid"):
        uai.read_evidence(path)


def test_bytes_are_not_text(tmp_path):
    path = tmp_path / "bytes.uai"
    path.write_bytes(b"\xff\xfe\x00MARKOV")
    with pytest.raises(bf.InvalidInput, match="not text"):
        uai.read_model(path)


def test_writing_is_all_or_nothing(tmp_path):
    with pytest.raises(bf.InvalidInput, match="cannot write"):
        uai.write_model(tmp_path / "absent" / "m.uai", bf.chain(2), np.zeros(3))
    with pytest.raises(bf.InvalidInput, match="above 700"):
        uai.write_model(tmp_path / "m.uai", bf.chain(2), np.array([900.0, 0, 0]))
    assert list(tmp_path.iterdir()) == []
