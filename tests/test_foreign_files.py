"""Tables of other programs: what they hold is what is read, with the values' own names."""

import sys

import numpy as np
import pandas as pd
import pyreadstat
import pytest
import rdata
from typer.testing import CliRunner

import bayesfield as bf
from bayesfield.cli import app
from bayesfield.formats.frames import missing_cells, read_frame, write_frame

rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"sleep": rng.integers(1, 4, 50), "worry": rng.integers(0, 2, 50), "mood": rng.integers(1, 6, 50)})
LABELS = {"sleep": {1: "bad", 2: "so so", 3: "good"}, "mood": {1: "low", 5: "high"}}


def plain(table):
    return table.astype(object).to_numpy().tolist()


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.tsv.gz", "a.TSV"])
def test_packed_tables(tmp_path, name):
    write_frame(tmp_path / name, TABLE)
    assert plain(read_frame(tmp_path / name)) == plain(TABLE)


def test_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a;b;c\n1,5;x,y;1\n;z;2\n-2;x,y;3\n")
    table = read_frame(path)
    np.testing.assert_array_equal(table["a"], [1.5, np.nan, -2.0])
    assert table["b"].tolist() == ["x,y", "z", "x,y"]
    path.write_text('a,b\n"1,5",1\n"2,5",0\n')  # where commas set cells apart, nobody knows
    assert read_frame(path)["a"].tolist() == ["1,5", "2,5"]


def test_excel(tmp_path):
    TABLE.to_excel(tmp_path / "a.xlsx", index=False)
    assert plain(read_frame(tmp_path / "a.xlsx")) == plain(TABLE)
    TABLE.to_excel(tmp_path / "a.xlsx")  # with row names
    with pytest.raises(bf.InvalidInput, match=r"column 0 \(from 0\) of the first sheet has no name"):
        read_frame(tmp_path / "a.xlsx")


@pytest.mark.parametrize("ending", [".sav", ".zsav", ".dta"])
def test_labels_of_values_are_kept(tmp_path, ending):
    path = str(tmp_path / f"a{ending}")
    values = TABLE.astype(float)
    values.loc[0, "sleep"] = np.nan
    if ending == ".dta":
        pyreadstat.write_dta(values, path, variable_value_labels=LABELS)
    else:
        named = {**LABELS, "sleep": {**LABELS["sleep"], 9: "no answer"}}
        values.loc[1, "sleep"] = 9.0
        pyreadstat.write_sav(
            values, path, variable_value_labels=named, missing_ranges={"sleep": [9]}, compress=ending == ".zsav"
        )
    table = read_frame(path)
    holes = 1 if ending == ".dta" else 2
    assert table["sleep"].isna().tolist() == [True] * holes + [False] * (50 - holes)
    assert list(table["sleep"].cat.categories) == ["bad", "so so", "good"]
    assert table["sleep"].cat.ordered
    assert table["sleep"].tolist()[holes:] == [LABELS["sleep"][v] for v in TABLE["sleep"][holes:]]
    assert table["mood"].tolist() == TABLE["mood"].tolist()  # two of five have a label: numbers
    assert bf.OrdinalNetwork(correction="none").fit(table).states_["sleep"] == ("bad", "so so", "good")


@pytest.mark.parametrize("ending", [".rds", ".rda"])
def test_files_of_r(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    table = TABLE.assign(sleep=pd.Categorical(TABLE["sleep"].map(LABELS["sleep"]), ["bad", "so so", "good"]))
    if ending == ".rds":
        rdata.write_rds(path, table)
    else:
        rdata.write_rda(path, {"answers": table})
    found = read_frame(path)
    assert list(found.columns) == list(table.columns)
    assert list(found["sleep"].cat.categories) == ["bad", "so so", "good"]
    assert plain(found) == plain(table)
    rdata.write_rda(tmp_path / "b.rda", {"one": TABLE, "two": TABLE})
    with pytest.raises(bf.InvalidInput, match="holds 2 data frames: one, two"):
        read_frame(tmp_path / "b.rda")


@pytest.mark.parametrize(("ending", "module"), [(".xlsx", "openpyxl"), (".sav", "pyreadstat"), (".rds", "rdata")])
def test_what_is_not_installed_is_named(tmp_path, monkeypatch, ending, module):
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"some")
    with pytest.raises(bf.InvalidInput, match=r"is no .* table that can be read|holds no data frame"):
        read_frame(path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(bf.InvalidInput, match=rf"need.*{module}.*pip install bayesfield\[files\]"):
        read_frame(path)
    with pytest.raises(bf.InvalidInput, match="No such file"):
        read_frame(tmp_path / f"none{ending}")


def test_missing_cells_are_counted():
    table = pd.DataFrame({"a": [1, 2, -9], "b": ["yes", "?", "no"], "c": [1.0, np.nan, 3.0], "d": [0, 50, 99]})
    said = missing_cells(table)
    assert said[0] == "1 of 12 cells (8.3%) are missing"
    assert [line.split("'")[1] for line in said[1:]] == ["a"] * ("-9" in said[1]) + ["b"]
    assert missing_cells(TABLE) == []


def test_the_command_says_what_is_missing(tmp_path):
    TABLE[["worry"]].assign(x=TABLE["worry"].where(TABLE.index > 4)).to_csv(tmp_path / "a.csv.gz", index=False)
    given = ["fit", str(tmp_path / "a.csv.gz"), "--model", "ising", "--out", str(tmp_path / "out")]
    ran = CliRunner().invoke(app, given)
    assert "5 of 100 cells (5.0%) are missing" in ran.stderr
    assert ran.exit_code in (0, 3, 4)
