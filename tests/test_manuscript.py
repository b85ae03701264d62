"""What goes into papers says what the posterior says, and can be read by what it is for."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

import bayesfield as bf
from bayesfield.formats.manuscript import _number


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(0)
    X = pd.DataFrame((rng.random((200, 3)) < 0.5).astype(int), columns=["x_1", "50% & more", "a|b"])
    return bf.IsingNetwork(correction="none").fit(X).posterior_


def test_latex(posterior):
    text = bf.to_latex(posterior, caption="All of it", label="tab:all")
    summary = posterior.summary()
    rows = re.findall(r"^(?!\\)(.*) & (.*) & (.*) & (.*) & (.*) \\\\$", text, flags=re.M)[1:]
    assert len(rows) == len(summary)
    for row, (name, known) in zip(rows, summary.iterrows(), strict=True):
        assert row[0].replace("\\", "") == name
        assert float(row[1].replace("$-$", "-")) == pytest.approx(known["mean"], abs=0.00501)
        ends = [float(end) for end in row[3].replace("$-$", "-").strip("[]").split(",")]
        assert ends == pytest.approx([known["lower"], known["upper"]], abs=0.00501)
        assert not row[4].startswith("0")
    assert r"x\_1" in text
    assert r"50\% \& more" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_markdown_and_word_have_the_same_cells(posterior):
    for what in (posterior, posterior.edges(), posterior.summary()):
        lines = bf.to_markdown(what).splitlines()
        marked = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in (lines[0], *lines[2:])]
        cells = [[re.sub(r"\\(.)", r"\1", re.sub(r"^\*|\*$", "", cell)) for cell in row] for row in marked]
        page = bf.to_word(what, caption="A & B")
        tree = ET.fromstring(page.replace('<meta charset="utf-8">', ""))
        assert [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")] == cells


def test_numbers():
    assert [_number(v, 2) for v in (-0.001, -1.239, 0.0, np.nan, np.inf)] == ["0.00", "−1.24", "0.00", "–", "∞"]
    table = pd.DataFrame({"first": ["a"] * 3, "inclusion": [0.0001, 0.9999, 0.5]})
    assert [line.split("|")[2].strip() for line in bf.to_markdown(table).splitlines()[2:]] == [
        "\\< .01",
        "\\> .99",
        ".50",
    ]
    with pytest.raises(bf.InvalidInput, match="give a posterior or a DataFrame"):
        bf.to_latex([1, 2])


def test_methods_follow_the_record(posterior):
    text = posterior.methods_text()
    assert f"bayesfield {bf.__version__}" in text
    assert "3 discrete variables" in text
    assert "200 cases" in text
    assert "variance 1" in text
    assert "no further correction" in text
    assert "NOT CONVERGED" not in text
    assert posterior.certificate is not None
    X = np.random.default_rng(0).integers(0, 2, (60, 4))
    with pytest.warns(bf.FitWarning):
        short = bf.fit(bf.pairwise(4, [(0, 1), (2, 3)], (0, 1)), X, bf.Normal(variance=0.3), "bethe", max_iterations=1)
    assert "belief propagation" in short.methods_text()
    assert "variance 0.3" in short.methods_text()
    assert "NOT CONVERGED" in short.methods_text()


@pytest.mark.parametrize(("width", "mm"), [("single", 85), ("double", 174), (100, 100)])
def test_figures_have_the_size_asked_for(posterior, tmp_path, width, mm):
    axes = posterior.plot_network()
    before = axes.get_figure().get_size_inches().tolist()
    bf.save_figure(axes, tmp_path / "a.svg", width)
    points = float(re.search(r'width="([\d.]+)pt"', (tmp_path / "a.svg").read_text())[1])
    assert points / 72 * 25.4 == pytest.approx(mm, abs=0.1)
    assert "<text" in (tmp_path / "a.svg").read_text()
    assert axes.get_figure().get_size_inches().tolist() == before
    bf.save_figure(axes, tmp_path / "a.pdf", width, height=50)
    box = re.search(rb"MediaBox \[ 0 0 ([\d.]+) ([\d.]+)", (tmp_path / "a.pdf").read_bytes())
    assert [float(box[1]) / 72 * 25.4, float(box[2]) / 72 * 25.4] == pytest.approx([mm, 50], abs=0.2)
    with pytest.raises(bf.InvalidInput, match="file ends in"):
        bf.save_figure(axes, tmp_path / "a.doc")
    plt.close("all")
