"""Figures 6 to 8 and the tables of predictors, at a tiny scale: on the standard library, which every machine has."""

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.diagnostics import calibration_error
from bayesfield.experiments import figures, letters
from bayesfield.experiments.paper import document_comparison, document_prediction, documents, methods
from bayesfield.experiments.paper.predictors import scores, total_variation
from bayesfield.experiments.store import Store
from bayesfield.prediction.tally import Prediction

TINY = methods.Scale(
    "tiny", models=1, sets=1, draws=100, restarts=2, exchange_draws=10, exchange_thin=2, exact_draws=10
)


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """No data sets in sight: the standard library stands in."""
    monkeypatch.delenv("BAYESFIELD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small(monkeypatch, elsewhere):
    monkeypatch.setattr(document_comparison, "SIZES", (2, 3))
    monkeypatch.setattr(document_comparison, "SHOWN", {"fig7": 2, "fig8": 3})
    monkeypatch.setattr(document_comparison, "LINES", 60)
    quick = {name: document_comparison.METHODS[name] for name in ("BL-MP", "LV-CD", "Metropolis", "EP", "exchange")}
    monkeypatch.setattr(document_comparison, "METHODS", quick)
    return quick


def test_posteriors_by_number_of_files(small, tmp_path):
    table = figures.reproduce("fig6", tmp_path / "six", TINY)
    assert set(table["method"]) == {"HMC", *small}
    assert sorted(table["N"].unique()) == [2, 3]
    assert np.isfinite(table["cvm"]).all()
    shown = figures.experiment("fig6").shown(table)
    assert list(shown.columns) == ["N = 2", "N = 3", "seconds"]
    for suffix in ("png", "svg", "csv"):
        assert (tmp_path / "six" / f"fig6.{suffix}").exists()
    assert "standard library" in (tmp_path / "six" / "manifest.json").read_text()


@pytest.mark.parametrize(("figure", "files"), [("fig7", 2), ("fig8", 3)])
def test_marginals_of_a_chain_crf(small, figure, files, tmp_path):
    table = figures.reproduce(figure, tmp_path / figure, TINY)
    chosen = figures.experiment(figure)
    found = chosen.histograms_in(Store(tmp_path / figure))
    assert set(found) == set(small)
    assert set(table["N"]) == {files}
    assert chosen.histograms == ("worst", "best")
    assert len(chosen.parameter_names) == 48


def test_every_predictor_on_lines(elsewhere, tmp_path):
    scale = document_prediction.SplitScale("tiny", splits=2, lines=40, train=4, test=3)
    table = figures.reproduce("faq", tmp_path / "faq", scale)
    assert set(table["method"]) == set(document_prediction.PREDICTORS)
    assert table["error"].between(0, 1).all()
    assert (table["log_loss"] > 0).all()
    assert table.loc[table["method"] == "max margin", "unsettled"].eq(0).all()
    assert table.loc[table["method"] == "marginal", "unsettled"].gt(0).all()
    again = figures.reproduce("faq", tmp_path / "faq", scale)  # nothing left to do: the same table
    pd.testing.assert_frame_equal(table, again)


def test_letters_at_a_tiny_scale(tmp_path, monkeypatch, letter_folder):
    cheap = {name: letters.PREDICTORS[name] for name in ("MAP", "marginal, Laplace", "quadratic", "max margin")}
    monkeypatch.setattr(letters, "PREDICTORS", cheap)
    monkeypatch.setattr(letters, "LETTERS", "abc")
    monkeypatch.setattr(letters, "AGAINST", {k: v for k, v in letters.AGAINST.items() if k != "marginal"})
    scale = letters.LetterScale("tiny", (4,), (3,), (0.5,), test=3, draws=20)
    table = figures.reproduce("ocr", tmp_path / "ocr", scale, data=letter_folder)
    assert set(table["task"]) == {"predictors", "sampled", "fold"}
    sampled = table[table["task"] == "sampled"].set_index("method")
    assert 0 < sampled.loc["NUTS", "distance"] < 0.5  # its two chains
    assert 0 < sampled.loc["marginal, Laplace", "distance"] < 1
    assert (tmp_path / "ocr" / "ocr.png").exists()
    with pytest.raises(bf.InvalidInput, match="there is no folder"):
        figures.reproduce("ocr", tmp_path / "no", scale, data=tmp_path / "nowhere")


@pytest.fixture
def letter_folder(tmp_path):
    """Made-up words in the letters' own format: three letters, whose pixels are their bits and noise."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 24).astype(np.int16)
    labels = rng.integers(0, 3, lengths.sum()).astype(np.uint8)
    pixels = (rng.random((len(labels), 128)) < 0.1).astype(np.uint8)
    pixels[np.arange(len(labels)), labels] = 1
    folder = tmp_path / "data"
    (folder / "ocr_letters").mkdir(parents=True)
    np.savez(
        folder / "ocr_letters" / "ocr_letters.npz",
        pixels_packed=np.packbits(pixels, axis=1),
        labels=labels,
        lengths=lengths,
        folds=(np.arange(24) % 3).astype(np.uint8),
    )
    return folder


def test_letters_are_asked_for_where_they_are_not(elsewhere, tmp_path):
    with pytest.raises(bf.InvalidInput, match="the letters are not here"):
        figures.reproduce("ocr", tmp_path / "ocr")


def test_files_of_the_faq_where_they_are(monkeypatch, tmp_path):
    (tmp_path / "faq").mkdir()
    X = np.eye(24, dtype=np.uint8)
    y = np.array([0, 1, 2, 2, 3, 1] * 4, dtype=np.uint8)
    np.savez(tmp_path / "faq" / "faq_features.npz", X=X, y=y, ptr=np.array([0, 12, 24]))
    files = documents.labelled_files(tmp_path, 5)
    assert documents.source_of(tmp_path) == "FAQ stand-in"
    assert [len(f.labels) for f in files] == [5, 5]
    assert files[0].labels == ["question", "answer", "answer", "question", "question"]
    crf = documents.line_crf(files)
    assert crf.n_parameters == 48
    assert documents.line_sequences(crf, files).positions == 10


def test_scores_of_a_prediction():
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.1, 0.9], [0.5, 0.5]])
    truth = np.array([0, 1, 1, 0])
    none = np.zeros(4)
    found = scores(Prediction(p.argmax(axis=1), p, none, none, none), truth)
    assert found["error"] == 0.25
    assert found["log_loss"] == pytest.approx(-np.log([0.8, 0.4, 0.9, 0.5]).mean())
    assert found["calibration"] == pytest.approx((0.2 + 0.6 + 0.1 + 0.5) / 4)  # every row in a bin of its own
    assert total_variation(p, np.roll(p, 1, axis=1)) == pytest.approx((0.6 + 0.2 + 0.8 + 0.0) / 4)


def test_calibration_error_of_a_calibrated_forecast():
    """200,000 draws in 15 bins: what is left by chance is below 0.005."""
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 200_000)
    truth = (rng.random((200_000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    assert calibration_error(p, truth) < 0.005
    sure = np.eye(3)[p.argmax(axis=1)]
    assert calibration_error(sure, truth) == pytest.approx(np.mean(p.argmax(axis=1) != truth))
    with pytest.raises(bf.InvalidInput, match="give probabilities"):
        calibration_error(p, truth[:5])
