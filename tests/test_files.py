"""Files in general: whole or not at all, tables that would be misread, draws that were changed."""

import io
import json
import os
import stat
import sys
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.files import npy_array, read_text
from bayesfield.formats import tables
from bayesfield.formats.frames import read_frame, write_frame
from bayesfield.formats.models import json_models
from bayesfield.outputs import write_bytes, write_text

import fuzz

unix = pytest.mark.skipif(sys.platform == "win32", reason="modes, links and pipes are Unix's")


def file(tmp_path, text, name="t.csv"):
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return tmp_path / name


# --- writing ------------------------------------------------------------------------------------------------


@unix
def test_modes_are_the_umask_s_and_the_file_s(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "new", b"1")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_bytes(tmp_path / "new", b"2")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604
    assert [p.name for p in tmp_path.iterdir()] == ["new"]


@unix
def test_links_stay(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    for content in (b"made", b"replaced"):
        write_bytes(tmp_path / "link", content)
        assert (tmp_path / "far" / "file").read_bytes() == content
        assert (tmp_path / "link").is_symlink()
    assert len(list((tmp_path / "far").iterdir())) == 1


@unix
def test_pipes_and_devices_are_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_bytes(tmp_path / "pipe", b"through")
    reader.join()
    assert got == [b"through"]
    assert (tmp_path / "pipe").is_fifo()
    write_bytes("/dev/null", b"gone")
    assert not os.path.isfile("/dev/null")


def test_what_cannot_be_written(tmp_path):
    for path in (tmp_path, tmp_path / "absent" / "f"):
        with pytest.raises(bf.InvalidInput, match="cannot write"):
            write_bytes(path, b"")
    with pytest.raises(bf.InvalidInput, match="half of a character"):
        write_text(tmp_path / "f", "a\ud800")
    assert list(tmp_path.iterdir()) == []
    write_bytes(tmp_path / ("n" * 255), b"a name as long as may be")


def test_a_mark_before_the_text(tmp_path):
    assert read_text(file(tmp_path, b"\xef\xbb\xbfa")) == "a"


# --- tables -------------------------------------------------------------------------------------------------

NAN = float("nan")
READ = {
    "missing": (
        "a,b\n1,None\nNA,n/a\n<NA>,\nnan,null\n",
        ["a", "b"],
        [[1, "None"], [NAN, "n/a"], [NAN, NAN], [NAN, "null"]],
    ),
    "blanks after commas": ('a, b\n1, NA\n2, "x, y"\n', ["a", "b"], [[1, NAN], [2, "x, y"]]),
    "semicolons": ('"x, y";b\n1;2\n', ["x, y", "b"], [[1, 2]]),
    "tabs": ("a\tb\n1\t\n", ["a", "b"], [[1, NAN]]),
    "blank lines": ("\n \na,b\n1,2\n\n  \n3,4\n\n", ["a", "b"], [[1, 2], [3, 4]]),
    "one column": ("\na\n1\n\n2\n\n\n", ["a"], [[1], [NAN], [2]]),
    "one column, as pandas writes it": ('a\nx\n""\n', ["a"], [["x"], [NAN]]),
    "a mark": ("\ufeffa,b\n1,2\n", ["a", "b"], [[1, 2]]),
    "a cell of two lines": ('a,b\n"x\ny",2\n', ["a", "b"], [["x\ny", 2]]),
    "Windows": ("a,b\r\n1,2\r\n\r\n3,4\r\n", ["a", "b"], [[1, 2], [3, 4]]),
}


@pytest.mark.parametrize("name", READ)
def test_tables_are_read(tmp_path, name):
    text, columns, values = READ[name]
    path = file(tmp_path, text)
    for found in (read_frame(path), bf.CaseFiles(path).all(columns)):
        assert list(found.columns) == columns
        plain = [[None if pd.isna(v) else v for v in row] for row in found.astype(object).to_numpy().tolist()]
        assert plain == [[None if pd.isna(v) else v for v in row] for row in values]


REFUSED = {
    "long rows": ("a,b\n1,2\n3,4,5\n", "line 3: the header names 2 columns, and this row has 3"),
    "short rows": ("a,b,c\n1,2\n", "line 2: the header names 3 columns, and this row has 2"),
    "a row after one of two lines": ('a,b\n"x\ny",2\n1\n', "line 4"),
    "a comment above": ("# mine\na,b\n1,2\n", "comment above the header"),
    "row names": (",a,b\n1,2,3\n", "row.names = FALSE"),
    "commas at line ends": ("a,b,\n1,2,\n", "column 3 of 3 has no name"),
    "twins": ("a,a\n1,2\n", "'a' stands there twice"),
    "NUL": ("a,b\n1,\x002\n", "line 2: it holds NUL"),
    "nothing": ("\n\n", "is empty"),
    "an open quote": ('a,b\n"' + "x" * 200_000, "a quote may have been left open"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tables_are_refused(tmp_path, name):
    text, complaint = REFUSED[name]
    path = file(tmp_path, text)
    by_name = [] if "no name" in complaint or "row.names" in complaint else [lambda p: bf.CaseFiles(p).all(["a"])]
    for read in (read_frame, *by_name):
        with pytest.raises(bf.InvalidInput, match=complaint) as caught:
            read(path)
        assert str(caught.value).count("t.csv") == 1


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("t.json", "[]", "no columns"),
        ("t.json", "[{}]", "no columns"),
        ("t.json", '{"a": 1}', "is no JSON table: it needs a list of records"),
        ("t.json", '[{"a": [1]}]', "column 'a' has cells of the kind list"),
        ("t.json", '[{"a": {"b": 1}}]', "column 'a' has cells of the kind dict"),
        ("t.json", f'[{{"a": {10**30}}}]', "more than 64 bits"),
        ("t.csv", f"a,b\n{10**30},1\n2,2\n", "column 'a' holds whole numbers of more than 64 bits"),
        ("t.parquet", "PAR1", "is no Parquet table"),
    ],
)
def test_cells_are_numbers_words_or_dates(tmp_path, name, text, complaint):
    with pytest.raises(bf.InvalidInput, match=complaint) as caught:
        read_frame(file(tmp_path, text, name))
    assert str(caught.value).startswith(str(tmp_path))


def test_an_index_with_a_name_is_a_column(tmp_path):
    table = pd.DataFrame({"b": [1, 2]}, index=pd.Index(["p", "q"], name="a"))
    table.to_parquet(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet")["a"].tolist() == ["p", "q"]
    assert bf.CaseFiles(tmp_path / "t.parquet").all(["b", "a"])["a"].tolist() == ["p", "q"]
    pd.DataFrame({"a": [b"x"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(bf.InvalidInput, match="of the kind bytes"):
        read_frame(tmp_path / "t.parquet")


def test_files_of_cases(tmp_path):
    (tmp_path / "t[1].tsv").write_text("a\tb\n1\t2\n")
    assert bf.CaseFiles(str(tmp_path / "t[1].tsv")).all(["b"]).to_numpy().tolist() == [[2]]
    assert bf.CaseFiles(file(tmp_path, ",a,b\n1,2,3\n")).all(["b", "a"]).to_numpy().tolist() == [[3, 2]]
    for given in (tmp_path, str(tmp_path)):
        with pytest.raises(bf.InvalidInput, match=r"is a folder; name the files in it, .*/\*\.csv"):
            bf.CaseFiles(given).all(["a"])
    with pytest.raises(bf.InvalidInput, match="not text"):
        bf.CaseFiles(file(tmp_path, b"\xff\xfea")).all(["a"])


def test_json_keeps_digits_and_dates(tmp_path):
    when = pd.to_datetime(["2020-01-02", None, "2021-03-04"])
    table = pd.DataFrame({"x": [0.1 + 0.2, NAN, 1 / 3], "when": when, "s": ["é", None, "z"], "n": [1, 2, 3]})
    write_frame(tmp_path / "t.json", table)
    found = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))
    assert found[0] == {"x": 0.1 + 0.2, "when": "2020-01-02T00:00:00", "s": "é", "n": 1}
    assert found[1] == {"x": None, "when": None, "s": None, "n": 2}


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
def test_tables_that_cannot_be_written(tmp_path, ending):
    bad = [pd.DataFrame({"a": ["\ud800"]}, dtype=object)]
    if ending == ".parquet":
        bad += [pd.DataFrame({"a": [1, "x"]}, dtype=object), pd.DataFrame({"a": [2**70]}, dtype=object)]
    for table in bad:
        with pytest.raises(bf.InvalidInput, match="cannot write"):
            write_frame(tmp_path / f"t{ending}", table)
    assert list(tmp_path.iterdir()) == []


# --- graphs, and the folder of a fit ------------------------------------------------------------------------

EDGES = {
    "plain": ("a,b\nb,c\n", [(0, 1), (1, 2)]),
    "a header and numbers": ("Source,Target\n0,1\n", [(0, 1)]),
    "quoted, a mark, semicolons": ('\ufefffrom;to\n"x, y";a\n', [(3, 0)]),
    "tabs and a weight": ("a\tb\t0.5\n", [(0, 1)]),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_read(tmp_path, name):
    text, wanted = EDGES[name]
    assert tables.edges_named(str(file(tmp_path, text)), ["a", "b", "c", "x, y"]) == wanted


@pytest.mark.parametrize("text", ["aa,bb\na,b\n", "a,b\nfrom,to\n", "a\n", "a,b\n\n0,x\n"])
def test_edges_are_refused(tmp_path, text):
    with pytest.raises(bf.InvalidInput, match=f"line {3 if '0' in text else 2 if 'from' in text else 1}:"):
        tables.edges_named(str(file(tmp_path, text)), ["a", "b"])


def test_numbers_as_names(tmp_path):
    path = str(file(tmp_path, "1,2\n"))
    assert tables.edges_named(path, ["2", "1"]) == [(1, 0)]
    with pytest.raises(bf.InvalidInput, match="line 1"):
        tables.edges_named(path, ["7", "1"])
    pd.DataFrame([[1, 2, 3]]).to_parquet(tmp_path / "t.parquet")
    assert [str(c) for c in tables.read_cases(tmp_path / "t.parquet", ["0"]).columns] == ["1", "2"]


def test_a_complete_graph_of_very_many_columns():
    with pytest.raises(bf.TooLarge, match="file of edges"):
        tables.edges_named("complete", [""] * 10_000_000)


@pytest.mark.parametrize(
    "cells", [[[1], [2]], [1, "x"], [2**63 - 1, 2**63 - 2], [2**63, 1], [{1: 2}, None]], ids=lambda c: str(c)[:12]
)
def test_values_that_are_no_states(cells):
    with pytest.raises(bf.InvalidInput, match="recode"):
        tables.ising_field(pd.DataFrame({"a": cells, "b": cells}), "complete")


def test_a_fit_that_is_not_saved_leaves_no_older_one(tmp_path):
    field = bf.chain(3)
    X = bf.sample(field, np.zeros(field.n_parameters), 30, 0)
    assert tables.write_posterior(tmp_path, bf.fit(field, X)) == []
    assert (tmp_path / "posterior.bf").exists()
    by_products = bf.fit(field, X, engine=bf.Exact(), form="matrix-free", correction="none")
    assert "no posterior.bf" in tables.write_posterior(tmp_path, by_products)[0]
    assert not (tmp_path / "posterior.bf").exists()


def test_folders_are_looked_at_first(tmp_path):
    assert tables.open_folder(tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(bf.InvalidInput, match="a file is in its place"):
            tables.open_folder(path)


def test_numbers_of_four_hundred_digits(tmp_path):
    model = {"variables": {"a": [0, 1]}, "factors": [{"variables": ["a"], "table": [1, 10**400]}]}
    with pytest.raises(bf.InvalidInput, match="beyond 1e308"):
        json_models.read_model(file(tmp_path, json.dumps(model), "m.json"))


# --- draws --------------------------------------------------------------------------------------------------


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def changed(tmp_path, **entries):
    """Saved draws with other entries; header: a function that changes it."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(fuzz.saved_draws(1.5))) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            data, key = old.read(name), name.removesuffix(".npy")
            if key == "header" and key in entries:
                header = json.loads(str(npy_array(data)))
                entries[key](header)
                data = npy(np.array(json.dumps(header)))
            new.writestr(name, data if key == "header" or key not in entries else entries[key])
    return file(tmp_path, out.getvalue(), "draws.npz")


def test_draws_by_columns_and_rows(tmp_path):
    values = np.asfortranarray(np.random.default_rng(0).normal(size=(2, 5, 8)))
    found = bf.load_draws(changed(tmp_path, values=npy(values)), bf.grid(2, 2))
    np.testing.assert_array_equal(found.values, values)
    assert float(found.chains[0].memory) == 1.5


@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ({"values": npy(np.zeros((2, 5, 7)))}, r"values are no finite numbers of shape \(2, 5, 8\)"),
        ({"values": npy(np.full((2, 5, 8), NAN))}, "no finite numbers"),
        ({"values": npy(np.zeros(8))}, "changed|no finite"),
        ({"values": npy(np.zeros((1, 5, 8)))}, "number for each draw"),
        ({"position:1": npy(np.zeros(3))}, "positions"),
        ({"stat:energy": npy(np.zeros(5))}, "'energy' needs a number for each draw"),
        ({"values": fuzz.claimed((10**12,), fuzz.random.Random(0))}, "another size"),
        ({"header": lambda h: h.update(thin="2")}, "how the draws were made"),
        ({"header": lambda h: h.update(thin=1.5)}, "count steps"),
        ({"header": lambda h: h.update(seconds=-1)}, "how the draws were made"),
        ({"header": lambda h: h["chains"].pop()}, "record for each chain"),
        ({"header": lambda h: h["chains"][0].update(normals={})}, "was changed"),
        ({"header": lambda h: h.clear()}, "was changed"),
        ({"header": lambda h: h.update(parameters=[])}, "other parameters"),
    ],
)
def test_draws_that_were_changed(tmp_path, entries, complaint):
    with pytest.raises(bf.InvalidInput, match=complaint):
        bf.load_draws(changed(tmp_path, **entries), bf.grid(2, 2))


def test_draws_that_are_no_file_or_too_large(tmp_path, monkeypatch):
    for path in (tmp_path, tmp_path / "absent", file(tmp_path, "hello"), file(tmp_path, fuzz.saved_draws(None)[:-30])):
        with pytest.raises(bf.InvalidInput):
            bf.load_draws(path, bf.grid(2, 2))
    monkeypatch.setattr("bayesfield.memory.usable_bytes", lambda: 1000)
    with pytest.raises(bf.InvalidInput, match="more than may be used"):
        bf.load_draws(file(tmp_path, fuzz.saved_draws(None)), bf.grid(2, 2))


def test_a_semicolon_where_a_name_holds_a_comma(tmp_path):
    (tmp_path / "excel.csv").write_text("a (x,y);b\n1;2\n2;3\n")
    assert list(read_frame(tmp_path / "excel.csv").columns) == ["a (x,y)", "b"]


def test_addresses_are_reached_by_fsspec(tmp_path):
    pytest.importorskip("fsspec")
    (tmp_path / "cases.csv").write_text("a,b\n1,0\n0,1\n")
    found = bf.CaseFiles(f"file://{tmp_path}/cases.csv").all(["b", "a"])
    assert found.to_numpy().tolist() == [[0, 1], [1, 0]]
