"""Answers that nobody here made: UAI 2014 competition, libDAI's regression test."""

import csv

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.formats.models import uai

from libdai import read_fg

CHECKED = [
    "Alchemy_11", "DBN_11", "Grids_12", "Pedigree_12", "Promedus_13", "Promedus_15", "Promedus_22", "Promedus_29",
    "Promedus_31", "Promedus_33", "Promedus_35", "Segmentation_11", "Segmentation_12", "grid10x10.f10",
]  # fmt: skip
BEYOND = ["CSP_11", "Grids_11", "Grids_13", "ObjectDetection_11", "Pedigree_11", "Promedus_11", "Segmentation_13"]
HALF_A_DIGIT = 0.5000001  # of the last one printed


def solved(folder, name, engine):
    field = uai.read_model(folder / f"{name}.uai")
    return bf.infer(field, engine=engine, evidence=uai.read_evidence(folder / f"{name}.uai.evid"))


def last_digit(text):
    """The weight of the last digit of a printed number."""
    return 10.0 ** -(len(text.split(".")[1]) if "." in text else 0)


@pytest.mark.parametrize("name", CHECKED + BEYOND)
def test_uai_2014(data, name):
    folder = data / "uai2014"
    beliefs = solved(folder, name, bf.Exact())
    printed = (folder / f"{name}.uai.PR").read_text().split()[1]
    assert uai.read_pr(folder / f"{name}.uai.PR") == float(printed)
    assert beliefs.log_z / np.log(10) == pytest.approx(float(printed), abs=HALF_A_DIGIT * last_digit(printed))
    marginals = folder / f"{name}.uai.MAR"
    if marginals.exists():
        for got, wanted in zip(beliefs.variables, uai.read_mar(marginals), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)


def test_all_checked_networks_are_in_the_list(data):
    with (data / "uai2014" / "index.csv").open() as file:
        marked = {r["name"] for r in csv.DictReader(file) if r["checked_equal_by_elimination"] == "True"}
    assert marked == set(CHECKED)


@pytest.mark.parametrize("name", ["Grids_11", "Grids_12", "Grids_13", "DBN_13", "Pedigree_11", "Pedigree_12", "CSP_11"])
def test_bethe_settles_on_hard_networks(data, name):
    """Low temperature, frustration, zeros: message passing alone settles on few of these."""
    status = solved(data / "uai2014", name, bf.Bethe()).status
    assert status.converged, status


def libdai_rows(data, *methods):
    with (data / "libdai_tests" / "testfast_expected.csv").open() as file:
        rows = {r["method"]: r for r in csv.DictReader(file) if r["section"] == "marginal"}
    return [rows[m] for m in methods]


def marginals_agree(beliefs, row):
    """To the four significant digits that libDAI prints."""
    for i in range(16):
        printed = float(row[f"p_x{i}_1"])
        assert beliefs[f"x{i}"][1] == pytest.approx(printed, abs=0.51 * 10.0 ** (np.floor(np.log10(printed)) - 3))


@pytest.mark.parametrize("engine", [bf.Exact(), bf.Enumeration()], ids=repr)
def test_libdai_exact(data, engine):
    beliefs = bf.infer(read_fg(data / "libdai_tests" / "testfast.fg"), engine=engine)
    assert beliefs.log_z == pytest.approx(14.328233281, abs=1e-9)
    for row in libdai_rows(data, "EXACT", "JTREE_MINFILL_HUGIN", "JTREE_MINFILL_SHSH"):
        marginals_agree(beliefs, row)


BP_ROWS = ["BP", "BP_SEQFIX", "BP_SEQMAX", "BP_PARALL", "BP_SEQFIX_LOG", "BP_PARALL_LOG"]


@pytest.mark.parametrize("schedule", ["sequential", "flooding", "residual"])
def test_libdai_bp(data, schedule):
    """Marginals, and every error against exact that libDAI prints, to its digits."""
    field = read_fg(data / "libdai_tests" / "testfast.fg")
    beliefs, exact = bf.infer(field, engine=bf.Bethe(schedule=schedule)), bf.infer(field, engine=bf.Exact())
    variable = [np.abs(b - e).max() for b, e in zip(beliefs.variables, exact.variables, strict=True)]
    factor = [np.abs(b - e).sum() / 2 for b, e in zip(beliefs.factors, exact.factors, strict=True)]
    for row in libdai_rows(data, *BP_ROWS):
        marginals_agree(beliefs, row)
        assert beliefs.log_z - exact.log_z == pytest.approx(float(row["logz_err"]), rel=6e-4)
        assert max(variable) == pytest.approx(float(row["max_var_err"]), rel=6e-4)
        assert np.mean(variable) == pytest.approx(float(row["avg_var_err"]), rel=6e-4)
        assert max(factor) == pytest.approx(float(row["max_fac_err"]), rel=6e-4)


EXACT_LOG_Z = {
    "alarm": -0.00019992, "hoi1": 5.530780894, "hoi2": 5.251400910, "hoi3": 6.613744453, "hoi4": 4.808265197,
    "twofactors": 3.132263222, "zeroes1": 2.197224577, "maxprodbug2": -2.980456888, "maxprodbug3": -10.417454846,
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT_LOG_Z)
def test_libdai_other_graphs(data, name):
    field = read_fg(data / "libdai_tests" / f"{name}.fg")
    assert bf.infer(field, engine=bf.Exact()).log_z == pytest.approx(EXACT_LOG_Z[name], abs=1e-8)
    assert bf.infer(field, engine=bf.Bethe()).status.converged
