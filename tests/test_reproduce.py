"""The paper's experiments as a command: table, figure, manifest; interrupted runs end as uninterrupted ones do."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bayesfield as bf
from bayesfield.cli.app import app
from bayesfield.experiments import figures
from bayesfield.experiments.paper import cases, comparison, document_comparison, grids, methods
from bayesfield.experiments.store import Store

TINY = methods.Scale(
    "tiny", models=2, sets=2, draws=60, restarts=3, exchange_draws=15, exchange_thin=2, exact_draws=15, exact_thin=0.0
)
COLUMNS = ["method", "N", "model", "set", "cvm", "floor", "seconds", "converged", "mpsrf", "draws"]


@pytest.fixture
def small(monkeypatch):
    """Two sizes, and the methods that take no more than a second."""
    monkeypatch.setattr(cases, "SIZES", (10, 30))
    monkeypatch.setattr(cases, "SHOWN", 30)
    quick = {name: grids.METHODS[name] for name in ("BL-MP", "BL-BP", "LV-CD", "MC-BP", "exchange")}
    monkeypatch.setattr(grids, "METHODS", quick)
    return quick


def test_table_figure_and_manifest(small, tmp_path):
    table = figures.reproduce("fig2", tmp_path, TINY)
    written = pd.read_csv(tmp_path / "fig2.csv")
    assert list(written.columns) == COLUMNS
    assert set(table["method"]) == {"HMC", *small}
    sets = table.groupby(["method", "N", "model"]).size().unstack("method")
    assert (sets["exchange"] == 1).all()
    assert (sets.drop(columns="exchange") == 2).all(axis=None)
    assert np.isfinite(table["cvm"]).all()
    assert (table["floor"] > 0).all()
    assert table.loc[table["method"] == "LV-CD", "mpsrf"].notna().all()
    assert table.loc[table["method"] == "BL-MP", "mpsrf"].isna().all()
    assert (tmp_path / "fig2.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "fig2.svg").read_text()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["finished"]
    assert manifest["settings"]["scale"]["draws"] == 60
    assert manifest["packages"]["numpy"] == np.__version__


def test_interrupted_run_ends_in_the_same_table(small, tmp_path, monkeypatch):
    whole = figures.reproduce("fig2", tmp_path / "whole", TINY)
    calls, whole_method = [], small["MC-BP"]

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole_method(*arguments)

    monkeypatch.setitem(small, "MC-BP", interrupted)
    with pytest.raises(KeyboardInterrupt):
        figures.reproduce("fig2", tmp_path / "parts", TINY)
    assert not (tmp_path / "parts" / "fig2.csv").exists()
    assert not json.loads((tmp_path / "parts" / "manifest.json").read_text())["finished"]
    kept = len(list((tmp_path / "parts" / "cells").glob("*.json")))
    assert 5 < kept < 20
    again = figures.reproduce("fig2", tmp_path / "parts", TINY)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), whole.drop(columns="seconds"))


def test_worst_and_best_marginals(small, tmp_path):
    table = figures.reproduce("fig3", tmp_path, TINY)
    assert set(table["N"]) == {30}
    found = figures.experiment("fig3").histograms_in(Store(tmp_path))
    assert set(found) == set(small)
    for arrays in found.values():
        assert arrays["worst_cvm"] >= arrays["best_cvm"]
        widths = np.diff(arrays["worst_edges"])
        assert (arrays["worst_truth"] * widths).sum() == pytest.approx(1.0)
    assert (tmp_path / "fig3.png").exists()


@pytest.mark.parametrize("figure", ["fig4", "fig5"])
def test_edge_strengths(small, figure, tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "STRENGTHS", (0.1, 1.0))
    monkeypatch.setattr(cases, "CASES", 40)
    table = figures.reproduce(figure, tmp_path, TINY)
    assert sorted(table["d"].unique()) == [0.1, 1.0]
    assert "d" in pd.read_csv(tmp_path / f"{figure}.csv").columns


def test_couplings_of_the_paper():
    """U([−(d+ε), −d] ∪ [d, d+ε]): both signs, each as often; magnitudes fill the band, and nothing is outside it."""
    field = bf.grid(5, 5)
    for d, bias in ((0.1 / 4, 0.0), (2 / 4, 1.0)):
        rng = np.random.default_rng(3)
        drawn = np.array([cases.mixed_signs(field, d, bias, rng) for _ in range(200)])
        fields, couplings = drawn[:, :25], drawn[:, 25:]
        assert (fields == bias).all()
        assert ((np.abs(couplings) >= d) & (np.abs(couplings) <= d + 0.1 / 4)).all()
        n, signs = couplings.size, np.sign(couplings)
        assert abs(signs.mean()) < 4 / np.sqrt(n)  # 8,000 draws: false alarm 6e-5
        place = (np.abs(couplings) - d) / (0.1 / 4)
        assert abs(place.mean() - 0.5) < 4 / np.sqrt(12 * n)
        assert abs((signs * place).mean()) < 4 / np.sqrt(3 * n)  # sign and magnitude are independent
        assert np.histogram(place, 4, (0, 1))[0].min() > n / 4 - 4 * np.sqrt(n * 3 / 16)


def test_one_instantiation_of_the_couplings():
    assert {case.model for case in cases.cases("fig4", 5)} == {0}
    assert {case.model for case in cases.cases("fig2", 5)} == set(range(5))
    assert cases.cases("fig3", 5) == [cases.Case("fig3", 5000, 0)]


def test_truth_of_the_cases():
    field, X, prior = cases.Case("fig5", 2.0, 0).make(0)
    assert X.shape == (1000, 25)
    assert X.mean() > 0.2  # fields of 1
    assert (prior.precision(field) == 1.0).all()
    field, X, prior = cases.Case("fig2", 100, 1).make(0)
    assert X.shape == (100, 25)
    assert (prior.precision(field) == 4.0).all()
    other = cases.Case("fig3", 100, 1).make(0)[1]
    np.testing.assert_array_equal(X, other)  # figure 3 shows marginals of figure 2's own problem
    assert (cases.Case("fig2", 100, 2).make(0)[1] != X).any()
    assert (cases.Case("fig2", 100, 1).make(1)[1] != X).any()


def test_a_folder_with_another_run_is_refused(small, tmp_path):
    figures.reproduce("fig3", tmp_path, TINY)
    with pytest.raises(bf.InvalidInput, match="other settings"):
        figures.reproduce("fig3", tmp_path, TINY, seed=1)


@pytest.mark.parametrize(("name", "scale"), [("fig9", "quick"), ("fig2", "huge")])
def test_unknown_names_are_refused(name, scale, tmp_path):
    with pytest.raises(bf.InvalidInput, match="is one of"):
        figures.reproduce(name, tmp_path, scale)


def test_a_method_without_a_posterior_is_a_row(small, tmp_path, monkeypatch):
    def refuse(*arguments):
        return methods.Outcome(None, 0.1, False, note="no posterior")

    monkeypatch.setattr(grids, "METHODS", {"refuses": refuse})
    table = figures.reproduce("fig3", tmp_path, TINY)
    row = table[table["method"] == "refuses"].iloc[0]
    assert np.isnan(row["cvm"])
    assert not row["converged"]


def test_command_line(small, tmp_path, monkeypatch):
    monkeypatch.setattr(grids.GridComparison, "scales", {"quick": TINY})
    done = CliRunner().invoke(app, ["reproduce", "fig2", "--out", str(tmp_path), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "BL-MP" in done.output
    assert (tmp_path / "fig2.csv").exists()


PARALLEL = """
import sys

from bayesfield.experiments import figures
from bayesfield.experiments.paper import methods

TINY = methods.Scale("tiny", models=1, sets=2, draws=60, restarts=3, exchange_draws=15, exchange_thin=2)
if __name__ == "__main__":
    figures.reproduce("fig2", sys.argv[1], TINY, jobs=int(sys.argv[2]), methods=("BL-MP", "MC-BP", "Sampled"))
"""


def test_killed_in_parallel_and_resumed(tmp_path):
    """Two processes, stopped in the middle; gone on with by one: the same numbers as in one go, cell by cell."""
    script = tmp_path / "run.py"
    script.write_text(PARALLEL)

    def command(folder, jobs):
        return [sys.executable, str(script), str(tmp_path / folder), str(jobs)]

    subprocess.run(command("whole", 2), check=True, timeout=600)
    process = subprocess.Popen(command("parts", 2), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while len(list(tmp_path.glob("parts/cells/*.json"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.kill()
    process.wait(timeout=60)
    assert not (tmp_path / "parts" / "fig2.csv").exists()
    cut = next((tmp_path / "parts" / "cells").glob("*.json"))
    cut.write_text(cut.read_text()[:40])  # as a disk that was full would leave it
    subprocess.run(command("parts", 1), check=True, timeout=600)
    whole, parts = (pd.read_csv(tmp_path / name / "fig2.csv").drop(columns="seconds") for name in ("whole", "parts"))
    assert len(whole) == 4 * 4 * 2
    pd.testing.assert_frame_equal(parts, whole)


@pytest.mark.slow
def test_interrupted_at_the_command_line(tmp_path):
    """The real command, stopped by Ctrl-C: a plain message, and cells stay."""
    command = [sys.executable, "-m", "bayesfield.cli", "reproduce", "fig3", "--out", str(tmp_path), "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while len(list(tmp_path.glob("cells/*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "goes on" in errors
    assert "Traceback" not in errors
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "fig3.csv").exists()


def test_some_methods_now_and_others_later(small, tmp_path):
    first = figures.reproduce("fig3", tmp_path, TINY, methods=("LV-CD",))
    assert set(first["method"]) == {"HMC", "LV-CD"}
    rest = figures.reproduce("fig3", tmp_path, TINY)
    assert set(rest["method"]) == {"HMC", *small}
    pd.testing.assert_frame_equal(
        rest[rest["method"] == "LV-CD"].reset_index(drop=True),
        first[first["method"] == "LV-CD"].reset_index(drop=True),
    )
    alone = figures.reproduce("fig3", tmp_path / "alone", TINY, methods=("MC-BP",))  # seeds go by method, not place
    np.testing.assert_array_equal(
        alone.loc[alone["method"] == "MC-BP", "cvm"], rest.loc[rest["method"] == "MC-BP", "cvm"]
    )
    with pytest.raises(bf.InvalidInput, match="compares BL-MP"):
        figures.reproduce("fig3", tmp_path, TINY, methods=("BL-XX",))
    with pytest.raises(bf.InvalidInput, match="no choice"):
        figures.reproduce("faq", tmp_path / "faq", methods=("MAP",))


def test_tables_of_several_versions_say_so(small, tmp_path, monkeypatch):
    one = figures.reproduce("fig3", tmp_path, TINY, methods=("BL-MP",))
    assert len(one.attrs["made_by"]) == 1
    monkeypatch.setattr("bayesfield.experiments.store.made_by", lambda: "another")
    monkeypatch.setattr(grids.GridComparison, "scales", {"quick": TINY})
    done = CliRunner().invoke(
        app, ["reproduce", "fig3", "--out", str(tmp_path), "--method", "BL-MP", "--method", "BL-BP"]
    )
    assert done.exit_code == 0, done.output
    assert "other versions of the code" in done.output
    makers = json.loads((tmp_path / "manifest.json").read_text())["cells_made_by"]
    assert makers["another"] == 1
    assert sum(makers.values()) == 3


def test_notes_say_which_correction_was_made(tmp_path, monkeypatch):
    monkeypatch.setattr(cases, "SHOWN", 30)
    table = figures.reproduce("fig3", tmp_path, TINY, methods=("Sampled", "BL-MP"))
    assert "variational" in table.loc[table["method"] == "Sampled", "note"].iloc[0]
    assert "correction none" in table.loc[table["method"] == "BL-MP", "note"].iloc[0]


def test_progress_within_a_task(small, tmp_path):
    """fig3 has one task, and so one process: parts are counted as they come, not when all are there."""
    seen = []
    figures.reproduce("fig3", tmp_path, TINY, watch=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 6)
    assert seen[-1] == (6, 6)
    assert len(set(seen)) > 2


@pytest.fixture
def tiny(small, tmp_path, monkeypatch):
    """All figures at a scale of seconds, on lines of the standard library."""
    monkeypatch.delenv("BAYESFIELD_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    plain = {name: small[name] for name in ("BL-MP", "exchange")}
    monkeypatch.setattr(grids, "METHODS", plain)
    monkeypatch.setattr(document_comparison, "METHODS", {"BL-MP": document_comparison.METHODS["BL-MP"]})
    monkeypatch.setattr(cases, "STRENGTHS", (0.1, 1.0))
    monkeypatch.setattr(cases, "CASES", 40)
    monkeypatch.setattr(document_comparison, "SIZES", (2, 3))
    monkeypatch.setattr(document_comparison, "SHOWN", {"fig7": 2, "fig8": 3})
    monkeypatch.setattr(document_comparison, "LINES", 40)
    for scales in (grids.GridComparison.scales, document_comparison.DocumentComparison.scales):
        monkeypatch.setitem(scales, "quick", replace(TINY, models=1, sets=1))
    return plain


def test_all_figures_by_one_command(tiny, tmp_path):
    """Figures that show another's cells take them; run again, nothing is left to do; costs are those of the tables."""
    seen = []
    costs = figures.reproduce_all(tmp_path / "all", watch=lambda *told: seen.append(told))
    assert list(costs["figure"]) == ["fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8"]
    assert (costs["versions"] == 1).all()
    for name, files in (("fig3", 1), ("fig7", 1), ("fig8", 1), ("fig4", 2)):
        folder = tmp_path / "all" / name
        methods_there = 2 if name in ("fig7", "fig8") else 3
        assert len(list((folder / "cells").glob("*.json"))) == files * methods_there
        assert (folder / f"{name}.png").exists()
    for shared, source in (("fig3", "fig2"), ("fig7", "fig6")):
        for path in (tmp_path / "all" / shared / "cells").glob("*.json"):
            assert path.read_text() == (tmp_path / "all" / source / "cells" / path.name).read_text()
    one = figures.reproduce("fig4", tmp_path / "all" / "fig4")
    spent = one.drop_duplicates(["method", "d", "model"])["seconds"].sum() / 3600
    assert costs.set_index("figure").loc["fig4", "hours"] == pytest.approx(spent)
    assert costs.set_index("figure").loc["fig3", "hours"] == 0.0
    assert seen[-1] == ("fig8", 2, 2)
    again = figures.reproduce_all(tmp_path / "all")
    pd.testing.assert_frame_equal(again, costs)
    done = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path / "all"), "--jobs", "1"])
    assert done.exit_code == 0, done.output
    assert "hours of the processor" in done.output
    refused = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path / "all"), "--method", "BL-MP"])
    assert refused.exit_code != 0
    assert "every method" in str(refused.exception)
    assert not list((tmp_path / "all").rglob("unfinished/*.npz"))


def test_references_are_kept_while_methods_are_missing(small, tmp_path, monkeypatch):
    """Methods one by one: the reference is sampled once, and its draws go when the last one is there."""
    calls, whole = [], comparison.reference

    def counted(*arguments):
        calls.append(arguments)
        return whole(*arguments)

    figures.reproduce("fig3", tmp_path / "whole", TINY)
    monkeypatch.setattr(comparison, "reference", counted)
    names = list(small)
    for k, name in enumerate(names):
        figures.reproduce("fig3", tmp_path / "parts", TINY, methods=(name,))
        assert len(list((tmp_path / "parts" / "unfinished").glob("*.npz"))) == (k < len(names) - 1)
    assert len([c for c in calls if c[1] is TINY]) == 1
    one, other = (pd.read_csv(tmp_path / name / "fig3.csv").drop(columns="seconds") for name in ("whole", "parts"))
    merged = figures.reproduce("fig3", tmp_path / "parts", TINY).drop(columns=["seconds", "note"])
    assert len(other) < len(one) == len(merged)
    pd.testing.assert_frame_equal(
        merged.sort_values(["method", "set"]).reset_index(drop=True),
        one.sort_values(["method", "set"]).reset_index(drop=True),
        check_dtype=False,
    )
