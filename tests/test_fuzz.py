"""Broken and hostile files, a few of each: read, or refused in plain words; ``python tests/fuzz.py`` makes more."""

import hashlib
import json
import multiprocessing
import random
import sys
import zipfile

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.formats import tables
from bayesfield.formats.models import uai
from bayesfield.formats.posteriors import saved
from bayesfield.graph.compiled import compiled

import fuzz

INPUTS = 300


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's")
@pytest.mark.parametrize("reader", fuzz.READERS)
@pytest.mark.filterwarnings("ignore")
def test_nothing_but_reading_or_refusing(reader, tmp_path):
    tally, findings = fuzz.run(reader, tmp_path, inputs=INPUTS)
    assert [f.what for f in findings] == []
    assert sum(tally.values()) == INPUTS
    assert tally["read"] > 10
    assert not multiprocessing.active_children()


# --- files that once were read otherwise --------------------------------------------------------------------

WIDE = "MARKOV\n70\n" + "1 " * 70 + "\n1\n70 " + " ".join(map(str, range(70))) + "\n1\n2.0\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("MARKOV\n1\n" + "9" * 5000 + "\n0\n", "whole number"),
        ("MARKOV\n1\n100000000000000\n0\n", "100,000,000,000,000 states"),
        (WIDE, "has 70 variables"),
    ],
    ids=["a number of many digits", "a variable of many states", "a function of many variables"],
)
def test_networks(tmp_path, text, complaint):
    (tmp_path / "m.uai").write_text(text)
    with pytest.raises(bf.BayesfieldError, match=complaint):
        uai.read_model(tmp_path / "m.uai")


def test_a_million_columns_of_one_name(tmp_path):
    (tmp_path / "wide.csv").write_text(".0," * 1_000_000)
    with pytest.raises(bf.InvalidInput, match=r"'\.0' stands there twice"):
        tables.read_cases(tmp_path / "wide.csv")


def forged(tmp_path, change):
    """A saved posterior with a changed header and arrays, checksums made to fit."""
    with zipfile.ZipFile(fuzz.SEEDS / "sparse.bf") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(entries["header.json"])
    change(header, entries)
    (tmp_path / "forged.bf").write_bytes(fuzz.archived(header, entries, Fixed()))
    return tmp_path / "forged.bf"


class Fixed(random.Random):
    """Chance that never falls on a further change."""

    def random(self):
        return 0.99


def content(header, name):
    return next(value for key, value in header["content"]["map"] if key == name)


def claim(header, entries):
    data = fuzz.claimed((10**12,), random.Random(0))
    entries["arrays/0.npy"] = data
    header["arrays"][0] |= {"shape": [10**12], "type": "<f8", "sha256": hashlib.sha256(data).hexdigest()}


def labels(header, entries):
    content(header, "field").update(kind="CRF", has={"labels": 10**12, "inputs": ["a"]})


def latent(header, entries):
    content(header, "field").update(kind="CRF", has={"labels": ["a"], "inputs": ["a"], "latent": 10**6})


def sampler(header, entries):
    recipe = dict(content(header, "precision")["map"])
    recipe["engine"].update(kind="Sampled", has={"chains": 10**12})


@pytest.mark.parametrize(
    ("change", "complaint"),
    [(claim, "another|changed"), (labels, "not whole"), (latent, "labels"), (sampler, "again")],
)
def test_saved_posteriors_that_ask_for_too_much(tmp_path, change, complaint):
    with pytest.raises(bf.InvalidInput, match=complaint):
        bf.load(forged(tmp_path, change))


def test_a_saved_engine_is_held_to_a_budget(tmp_path):
    def patience(header, entries):
        recipe = dict(content(header, "precision")["map"])
        recipe["engine"]["has"].update(max_sweeps=10**15, max_direct=10**15)

    posterior = bf.load(forged(tmp_path, patience))
    assert posterior.form.origin.engine.max_sweeps == 100_000
    np.testing.assert_allclose(posterior.sd, bf.load(fuzz.SEEDS / "sparse.bf").sd)


@pytest.mark.parametrize(("side", "sweeps", "direct"), [(3, 100_000, 100_000), (60, 8445, 2000), (200, 2000, 2000)])
def test_the_budget_shrinks_with_the_graph(side, sweeps, direct):
    """3e8 messages, and a tenth of it in direct minimisation, but 2,000 sweeps for all."""
    graph = compiled(bf.grid(side, side)).graph
    engine = saved._bounded(bf.Bethe(max_sweeps=10**15, max_direct=10**15), graph)
    assert (engine.max_sweeps, engine.max_direct) == (sweeps, direct)
    usual = saved._bounded(bf.Bethe(max_direct=100), graph)
    assert usual == bf.Bethe(max_direct=100)


def test_a_saved_engine_that_does_not_settle_within_it(tmp_path, monkeypatch):
    def by_messages_alone(header, entries):
        recipe = dict(content(header, "precision")["map"])
        recipe["engine"]["has"].update(max_direct=0)

    path = forged(tmp_path, by_messages_alone)
    bf.load(path)
    monkeypatch.setattr(saved, "_UPDATES", 1)
    monkeypatch.setattr(saved, "_PATIENCE", 1)
    with pytest.raises(bf.InvalidInput, match="not made again within 1 sweeps"):
        bf.load(path)
