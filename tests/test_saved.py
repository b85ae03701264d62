"""Saved posteriors: the same after reading, for every form; files that were cut, changed or made up are refused."""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.correction.marginals import DrawnMarginals
from bayesfield.formats.posteriors import saved

FILES = Path(__file__).parent / "files"


def lattice(engine="auto", **options):
    field = bf.grid(3, 3)
    X = bf.sample(field, np.random.default_rng(0).normal(0.0, 0.4, field.n_parameters), 80, 0)
    return bf.fit(field, X, engine=engine, **options)


def chain():
    rng = np.random.default_rng(1)
    crf = bf.CRF(["a", "b"], ["x", "y"], symmetric=True)
    return bf.fit_sequences(crf, [rng.normal(size=(6, 2)) for _ in range(8)], [["a", "b", "a", "a", "b", "a"]] * 8)


def blocks():
    rng = np.random.default_rng(1)
    crf = bf.CRF(3, ["x", "y"], edge_inputs=["u"])
    X, Z = [rng.normal(size=(6, 2)) for _ in range(8)], [rng.normal(size=(5, 1)) for _ in range(8)]
    return bf.fit_sequences(crf, X, [rng.integers(3, size=6) for _ in range(8)], Z=Z, form="block")


def named():
    field = bf.potts(3, [(0, 1), (1, 2)], [["no", "yes"], [1, 2, 3], [True, False]], interaction="table")
    X = bf.sample(field, np.zeros(field.n_parameters), 60, 0)
    return bf.fit(field, X, bf.Normal(variance="evidence"))


def never_apart(**options):
    """b is 1 whenever a is: nothing bounds the coupling but a wide prior, and no Gaussian fits."""
    cases = [[0, 0]] * 15 + [[0, 1]] * 10 + [[1, 1]] * 15
    return bf.fit(bf.pairwise(2, [(0, 1)], names=["a", "b"]), cases, bf.Normal(variance=100.0), **options)


LEVELS = np.repeat([0.0, 4.0], 30) + np.random.default_rng(0).normal(size=60)

MADE = {
    "exact": lattice,
    "kikuchi, checked": lambda: lattice(bf.Auto(max_entries=1)),
    "sparse": lambda: lattice(bf.Bethe(), form="sparse"),
    "sampled": lambda: lattice(bf.Sampled(chains=64, sweeps=20, burn_in=20)),
    "hidden": lambda: bf.fit(
        bf.restricted_boltzmann(3, 1), np.random.default_rng(0).integers(2, size=(40, 3)), starts=2
    ),
    "ard": lambda: lattice(prior=bf.ARD()),
    "cauchy": lambda: lattice(prior=bf.Cauchy(0.5), correction="none"),
    "evidence, own states": named,
    "chain CRF": chain,
    "blocks": blocks,
    "latent": lambda: bf.fit_sequences(
        bf.CRF(["a", "b"], 1, latent=2), [np.ones((4, 1))] * 3, [list("abba")] * 3, starts=2
    ),
    "draws with weights": never_apart,
    "draws of chains": lambda: with_equal_weights(never_apart()),
    "hidden chain": lambda: bf.fit_hidden(
        bf.hidden_field("chain", 2, [bf.GaussianEmission(True), bf.StudentEmission(), bf.CategoricalEmission()]),
        np.column_stack([LEVELS, LEVELS, LEVELS > 2]),
    ),
    "hidden image": lambda: bf.fit_hidden(bf.hidden_field((5, 12), 2, bf.PoissonEmission()), np.round(LEVELS**2)),
    "given": lambda: bf.laplace(bf.grid(3, 3), np.zeros(21), engine=bf.Bethe()),
}


def figures(certificate):
    return None if certificate is None else asdict(certificate)


def with_equal_weights(posterior):
    """As chains leave them: another way to draw from them."""
    points = posterior.marginals.points[:5000]
    made = DrawnMarginals(points, np.full(len(points), 1.0 / len(points)))
    precision = np.linalg.inv(made.covariance)
    return bf.Posterior(posterior.field, made.mean, precision, posterior.record, skewness=made.skewness, marginals=made)


@pytest.mark.filterwarnings("ignore::bayesfield.FitWarning")
@pytest.mark.parametrize("name", MADE)
def test_the_same_after_reading(name, tmp_path):
    posterior = MADE[name]()
    posterior.save(tmp_path / "p.bf")
    other = bf.load(tmp_path / "p.bf")
    for which in ("mean", "mode", "sd", "skewness"):
        np.testing.assert_allclose(getattr(other, which), getattr(posterior, which), rtol=1e-10, atol=1e-12)
    assert str(other.record) == str(posterior.record)
    assert repr(other.prior) == repr(posterior.prior)
    assert other.form.form == posterior.form.form
    assert type(other.marginals) is type(posterior.marginals)
    np.testing.assert_equal(figures(other.record.certificate), figures(posterior.record.certificate))
    np.testing.assert_allclose(other.summary(0.8), posterior.summary(0.8), rtol=1e-8, atol=1e-12)
    assert other.field.parameter_names == posterior.field.parameter_names
    np.testing.assert_allclose(other.sample(3, 0), posterior.sample(3, 0), rtol=1e-8)
    posterior.save(tmp_path / "q.bf")
    assert (tmp_path / "p.bf").read_bytes() == (tmp_path / "q.bf").read_bytes()


def test_draws_are_saved_as_they_are(tmp_path):
    posterior = never_apart()
    posterior.save(tmp_path / "p.bf")
    other = bf.load(tmp_path / "p.bf")
    assert isinstance(other.marginals, DrawnMarginals)
    np.testing.assert_array_equal(other.marginals.points, posterior.marginals.points)
    np.testing.assert_array_equal(other.marginals.weights, posterior.marginals.weights)
    np.testing.assert_array_equal(other.sample(100, 3), posterior.sample(100, 3))
    pd.testing.assert_frame_equal(other.summary(), posterior.summary())
    with pytest.warns(bf.FitWarning, match=r"Bayes factors of a\*b are rough: hardly any draw"):
        edges = posterior.without_data().edges()
    with pytest.warns(bf.FitWarning, match="hardly any draw"):
        pd.testing.assert_frame_equal(other.edges(), edges)
    np.testing.assert_equal(figures(other.certificate), figures(posterior.certificate))
    other.save(tmp_path / "q.bf")
    assert (tmp_path / "p.bf").read_bytes() == (tmp_path / "q.bf").read_bytes()


def test_a_certificate_that_was_asked_for_is_saved(tmp_path):
    """A fit without a correction is judged when somebody asks, and saving asks for nothing."""
    posterior = lattice(correction="none")
    posterior.save(tmp_path / "p.bf")
    assert bf.load(tmp_path / "p.bf").record.certificate is None
    judged = posterior.certificate
    posterior.save(tmp_path / "p.bf")
    np.testing.assert_equal(figures(bf.load(tmp_path / "p.bf").certificate), figures(judged))
    assert judged.n_draws > 0


def test_a_read_posterior_answers(tmp_path):
    posterior = named()
    posterior.save(tmp_path / "p.bf")
    other = bf.load(tmp_path / "p.bf")
    holed = np.array([["yes", None, True]], dtype=object)
    np.testing.assert_allclose(other.impute(holed).probabilities, posterior.impute(holed).probabilities)
    assert other.field.states == posterior.field.states
    with pytest.raises(bf.InvalidInput, match="without its data"):
        other.check()


def test_products_with_data_are_not_saved(tmp_path):
    with pytest.raises(bf.InvalidInput, match="keep draws"):
        lattice(bf.Exact(), form="matrix-free", correction="none").save(tmp_path / "p.bf")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", sorted(FILES.glob("posterior-*.bf")), ids=lambda p: p.name)
def test_old_files_are_read(path):
    """A file for each version of the format, written when it was new, with the numbers that it held then."""
    told = json.loads(path.with_suffix(".json").read_text())
    posterior = bf.load(path)
    np.testing.assert_allclose(posterior.mean, told["mean"], rtol=1e-12)
    np.testing.assert_allclose(posterior.sd, told["sd"], rtol=1e-10)
    assert posterior.field.parameter_names == told["names"]
    for column in {"lower", "upper", "p_positive"} & set(told):
        np.testing.assert_allclose(posterior.summary()[column], told[column], rtol=1e-10)
    assert posterior.record.certificate is None or posterior.certificate.verdict == told["verdict"]


def test_every_version_has_a_file():
    assert [p.name for p in sorted(FILES.glob("posterior-*.bf"))] == [
        f"posterior-{v}.bf" for v in range(1, saved.VERSION + 1)
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "p.bf"
    lattice().save(path)
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_cut_files_are_refused(whole, share, tmp_path):
    (tmp_path / "cut.bf").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(bf.InvalidInput, match="cannot read"):
        bf.load(tmp_path / "cut.bf")


def test_changed_bytes_are_refused_or_make_no_difference(whole, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "changed.bf"
    path.write_bytes(whole)
    known = bf.load(path)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        try:
            other = bf.load(path)
        except bf.InvalidInput:
            refused += 1
        else:
            np.testing.assert_array_equal(other.mean, known.mean)
            np.testing.assert_array_equal(other.precision, known.precision)
    assert refused > 250  # the rest is in what zip does not need: times, attributes


def rewritten(whole, change):
    """The archive with its header changed, checksums made to fit."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "header.json":
                header = json.loads(data)
                change(header)
                header["sha256"] = saved._digest(header["content"])
                data = json.dumps(header).encode()
            new.writestr(name, data)
    return out.getvalue()


def entry(header, name):
    return next(value for key, value in header["content"]["map"] if key == name)


FORGED = {
    "another format": (lambda h: h.update(format="pickle"), "no saved posterior"),
    "a newer version": (lambda h: h.update(version=99), "reads up to"),
    "an unknown kind": (lambda h: entry(h, "record").update(kind="Popen"), "a value that is none"),
    "code as a kind": (lambda h: entry(h, "prior").update(kind="__import__"), "a value that is none"),
    "an argument too many": (lambda h: entry(h, "prior")["has"].update(command="ls"), "a value that is none"),
    "a field for a record": (lambda h: entry(h, "record").update(entry(h, "field")), "not whole"),
    "an array that is not there": (lambda h: entry(h, "mean").update(array=99), "not there"),
    "a mean of another length": (lambda h: entry(h, "mean").update(array=0), "another number"),
    "a table for a precision": (lambda h: entry(h, "precision")["map"][0].__setitem__(1, "odd"), "not known"),
    "a deep nest": (lambda h: entry(h, "prior").update(has={"mean": nested(60)}), "too deeply"),
    "an array of another shape": (lambda h: h["arrays"][0].update(shape=[1]), "not what the header says"),
}


def drawn(header, name):
    """The number of an array of the draws."""
    return entry(header, "marginals")["has"][name]


FORGED_DRAWS = {
    "no draws": (lambda h: entry(h, "marginals").update(entry(h, "prior")), "its marginals are none"),
    "draws of another size": (lambda h: drawn(h, "points").update(entry(h, "mean")), "its draws is no array"),
    "weights of another number": (lambda h: drawn(h, "weights").update(entry(h, "mean")), "its draws is no array"),
    "weights for draws": (lambda h: drawn(h, "points").update(drawn(h, "weights")), "its draws is no array"),
    "draws for weights": (lambda h: drawn(h, "weights").update(drawn(h, "points")), "weights of draws is no array"),
    "words for draws": (lambda h: entry(h, "marginals")["has"].update(points="many"), "points of DrawnMarginals"),
    "a verdict that is a number": (
        lambda h: entry(h, "record")["has"]["certificate"]["has"].update(verdict=3),
        "verdict of Certificate",
    ),
}


def nested(depth):
    return [nested(depth - 1)] if depth else 0


@pytest.mark.parametrize("name", FORGED)
def test_forged_files_are_refused(whole, name, tmp_path):
    change, text = FORGED[name]
    (tmp_path / "forged.bf").write_bytes(rewritten(whole, change))
    with pytest.raises(bf.InvalidInput, match=text):
        bf.load(tmp_path / "forged.bf")


@pytest.mark.parametrize("name", FORGED_DRAWS)
def test_forged_draws_are_refused(name, tmp_path):
    change, text = FORGED_DRAWS[name]
    (tmp_path / "forged.bf").write_bytes(rewritten((FILES / "posterior-2.bf").read_bytes(), change))
    with pytest.raises(bf.InvalidInput, match=text):
        bf.load(tmp_path / "forged.bf")


@pytest.mark.parametrize(
    ("points", "weights", "text"),
    [
        (np.eye(3), np.full(3, 0.4), "no probabilities"),
        (np.eye(3), np.array([1.5, -0.25, -0.25]), "no probabilities"),
        (np.eye(3)[:1], np.ones(1), "no probabilities of at least two"),
        (np.ones((4, 3)), np.full(4, 0.25), "do not vary"),
        (np.eye(3) * 1e200, np.full(3, 1 / 3), "beyond all bounds"),
        (np.array([[0.0, 1.0, np.nan], [1.0, 0.0, 1.0]]), np.full(2, 0.5), "not finite"),
    ],
)
def test_draws_that_are_none_are_refused(points, weights, text, tmp_path):
    posterior = bf.load(FILES / "posterior-2.bf")
    posterior._marginals = DrawnMarginals(points, weights)
    posterior.save(tmp_path / "p.bf")
    with pytest.raises(bf.InvalidInput, match=text):
        bf.load(tmp_path / "p.bf")


def test_objects_in_arrays_are_refused(whole, tmp_path):
    """An array of Python objects is a pickle, which could run anything."""
    evil = io.BytesIO()
    np.save(evil, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, evil.getvalue() if name == "arrays/0.npy" else old.read(name))
    (tmp_path / "evil.bf").write_bytes(out.getvalue())
    with pytest.raises(bf.InvalidInput, match="checksum of array 0"):
        bf.load(tmp_path / "evil.bf")


def test_a_bomb_is_not_unpacked(whole, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesfield.memory.usable_bytes", lambda: 1000)
    (tmp_path / "large.bf").write_bytes(whole)
    with pytest.raises(bf.InvalidInput, match="more than may be used"):
        bf.load(tmp_path / "large.bf")


def test_an_entry_larger_than_listed_is_not_unpacked(whole, tmp_path, monkeypatch):
    """Zeros by the hundred MiB take a thousandth of it in a file."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, bytes(10**7) if name == "arrays/0.npy" else old.read(name))
    (tmp_path / "large.bf").write_bytes(out.getvalue())
    monkeypatch.setattr(saved, "npy_array", None)
    with pytest.raises(bf.InvalidInput, match="array 0 is not what the header says"):
        bf.load(tmp_path / "large.bf")


def test_many_entries(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "_ENTRIES", 2)
    (tmp_path / "many.bf").write_bytes(whole)
    with pytest.raises(bf.InvalidInput, match="entries, and up to 2 are read"):
        bf.load(tmp_path / "many.bf")


def test_what_is_no_file_at_all(tmp_path):
    with pytest.raises(bf.InvalidInput, match="no such file"):
        bf.load(tmp_path / "nothing.bf")
    (tmp_path / "text.bf").write_text("hello")
    with pytest.raises(bf.InvalidInput, match="no saved posterior"):
        bf.load(tmp_path / "text.bf")
    with pytest.raises(bf.InvalidInput, match="cannot read"):
        bf.load(tmp_path)


def test_profiles_are_saved_as_they_are(tmp_path):
    field = bf.pairwise(2, [(0, 1)], names=["a", "b"])
    posterior = bf.fit(field, [[0, 0]] * 6 + [[1, 1]] * 5 + [[0, 1]], bf.Normal(variance=9.0), correction="profile")
    posterior.save(tmp_path / "p.bf")
    other = bf.load(tmp_path / "p.bf")
    np.testing.assert_array_equal(other.sample(100, 3), posterior.sample(100, 3))
    pd.testing.assert_frame_equal(other.summary(), posterior.summary())
    assert other.record.correction.kind == "profile"


def test_a_hidden_field_that_is_not_whole(tmp_path):
    """Files that say of a hidden field what cannot be: the content is changed and signed again."""
    MADE["hidden chain"]().save(tmp_path / "p.bf")
    with zipfile.ZipFile(tmp_path / "p.bf") as archive:
        header = json.loads(archive.read("header.json"))
        rest = {name: archive.read(name) for name in archive.namelist() if name != "header.json"}
    changes = [('"labels": 2', '"labels": 3'), ('"states": 2', '"states": null'), ('"labels": 2', '"labels": 90000000')]
    for before, after in changes:
        text = json.dumps(header["content"], ensure_ascii=False, sort_keys=True)
        assert before in text
        count = -1 if after.endswith("0") else 1
        content = json.loads(text.replace(before, after, count))
        plain = json.dumps(content, ensure_ascii=False, sort_keys=True, allow_nan=False)
        changed = {**header, "content": content, "sha256": hashlib.sha256(plain.encode()).hexdigest()}
        with zipfile.ZipFile(tmp_path / "q.bf", "w") as archive:
            archive.writestr("header.json", json.dumps(changed))
            for name, data in rest.items():
                archive.writestr(name, data)
        with pytest.raises(bf.InvalidInput, match=r"cannot read .*q\.bf"):
            bf.load(tmp_path / "q.bf")
