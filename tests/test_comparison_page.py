"""The paper's comparison says what the commands wrote: its tables are made anew from their files; the data's reader."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.experiments.paper import documents, faq
from bayesfield.experiments.paper.lines import LabelledFile

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def pages():
    place = importlib.util.spec_from_file_location("pages", ROOT / "experiments" / "pages.py")
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


def test_every_table_is_what_its_files_say(pages):
    """Also the verdicts: each is decided by the numbers beside it. After a run: python experiments/pages.py."""
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- table (\S+) -->", page)) == set(pages.TABLES)
    assert pages.filled(page) == page


def test_a_changed_cell_changes_the_page(pages, tmp_path, monkeypatch):
    """The comparison can fail: another score in one cell gives another table and another verdict."""
    scores = {("HMC", 0.1): 40.0, ("LV-CD", 0.1): 150.0, ("BL-BP", 0.1): 44.0, ("LV-CD", 1.5): 900.0}
    common = {"model": 0, "set": 0, "converged": True, "seconds": 1.0, "draws": 10}
    rows = [{"method": m, "d": d, "cvm": v, **common} for (m, d), v in [*scores.items(), (("BL-BP", 1.5), 0.0)]]
    for k, better in enumerate((1e5, 10.0)):
        rows[-1]["cvm"] = better
        folder = tmp_path / f"run{k}" / "fig4" / "cells"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(pages.json.dumps({"made_by": "x", "rows": rows}))
        monkeypatch.setattr(pages, "CELLS", tmp_path / f"run{k}")
        assert pages._robust()[0] == ("agrees" if k == 0 else "**does not**")
    assert "| LV-CD | 150 |" in pages.score_table(tmp_path / "run0" / "fig4", "d", (0.1,))
    assert "100,000" in pages.score_table(tmp_path / "run0" / "fig4", "d", (1.5,))


LINES = """<head>Archive-name: acorn/faq/part2
<head>
<question>2.6) What configuration of serial cable should I use?
<answer>
<answer>   Here follows a diagram of the necessary connections
<answer>      programs to work properly.  They are as far as I know agreed upon by
<answer>http://example.org/a|b [12]
<tail>--- end
"""


def test_files_in_the_format_of_the_original(tmp_path):
    folder = tmp_path / "faq" / "original" / "acorn"
    folder.mkdir(parents=True)
    (folder / "part2").write_text(LINES)
    (folder / "part3").write_text(LINES.replace("2.6)", "7.1)"))
    assert documents.source_of(tmp_path) == "FAQ, the original"
    first, second = documents.labelled_files(tmp_path, 3)
    assert isinstance(first, LabelledFile)
    assert (first.name, second.name) == ("part2", "part3")
    assert first.labels == ["question", "answer", "answer"]  # heads and tails are gone, then the file is cut
    assert first.features.shape == (3, 24)
    crf = documents.line_crf([first, second])
    assert crf.n_parameters == 48


def test_features_of_lines_by_hand():
    """What each of the lines above has, of 24."""
    labels = re.findall(r"(?m)^<(\w+)>", LINES)
    features = faq.line_features([line.partition(">")[2] for line in LINES.splitlines()])
    assert len(faq.FEATURES) == 24
    assert len(features) == len(labels) == 8
    have = [{name for name, value in zip(faq.FEATURES, row, strict=True) if value} for row in features]
    basic = {"contains-alphanum", "contains-non-space"}
    assert have[0] == basic | {"contains-number", "first-alpha-is-capitalized", "shorter-than-30"}
    assert have[1] == {"blank", "shorter-than-30"}
    assert have[2] == basic | {
        "begins-with-number", "begins-with-ordinal", "begins-with-question-word", "contains-number",
        "contains-question-mark", "contains-question-word", "ends-with-question-mark", "first-alpha-is-capitalized",
        "prev-is-blank",
    }  # fmt: skip
    assert have[3] == {"blank", "shorter-than-30", "prev-begins-with-ordinal"}
    assert have[4] == basic | {"indented", "indented-1-to-4", "first-alpha-is-capitalized", "prev-is-blank"}
    assert have[5] == basic | {"indented", "indented-5-to-10"}
    assert have[6] == basic | {
        "contains-http", "contains-pipe", "contains-number", "contains-bracketed-number", "shorter-than-30",
    }  # fmt: skip
    assert have[7] == basic | {"begins-with-punctuation", "shorter-than-30"}


def test_a_line_without_a_label_is_refused(tmp_path):
    path = tmp_path / "one"
    path.write_text("<question>Why?\nno label\n")
    with pytest.raises(bf.InvalidInput, match="line 2: a line begins with one of <head>"):
        faq.read_file(path)
    with pytest.raises(bf.InvalidInput, match="is empty"):
        faq.read_original(tmp_path / "nothing")


def test_pairs_have_the_features_of_their_first_line_in_the_figures():
    """As in the paper; the prediction experiment has those of the second."""
    files = [LabelledFile("a", np.eye(24)[:3], ["question", "answer", "answer"])]
    crf = documents.line_crf(files)
    for of_pair, first in (("first", 0), ("second", 1)):
        data = documents.line_sequences(crf, files, of_pair)
        np.testing.assert_array_equal(data.edge_rows[data.which[:2]], np.eye(24)[first : first + 2])
