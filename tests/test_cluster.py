"""Fits whose data stay on Dask's workers: the numbers of a fit in one process, also when a worker dies."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

import bayesfield as bf
from bayesfield.parallel import Cluster

distributed = pytest.importorskip("distributed")

SAME = 1e-9


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def sequences(count, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 8), 3)) for _ in range(count)]
    weights = rng.normal(size=(3, 3))
    y = [(x @ weights + rng.gumbel(size=(len(x), 3))).argmax(axis=1).tolist() for x in X]
    y = [[None if rng.random() < missing else label for label in own] for own in y]
    return X, y


def same_posterior(found, wanted, same=SAME):
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=0, atol=same)
    np.testing.assert_allclose(found.sd, wanted.sd, rtol=same)
    assert found.record.log_likelihood == pytest.approx(wanted.record.log_likelihood, abs=1e-7)
    assert found.record.n_cases == wanted.record.n_cases


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("method", ["newton", "lbfgs"])
def test_sequences(client, method, missing):
    X, y = sequences(60, missing=missing)
    crf = bf.CRF(3, 3)
    options = {"method": method, "correction": "none", "tolerance": 1e-10}
    wanted = bf.fit_sequences(crf, X, y, **options)
    # L-BFGS ends where a step no longer shows in the value, which is at 1e-8 of the optimum or so
    same = SAME if method == "newton" else 1e-7
    same_posterior(bf.fit_sequences(crf, X, y, client=client, **options), wanted, same)


@pytest.mark.parametrize("form", ["matrix-free", "block"])
def test_other_forms_of_the_precision(client, form):
    X, y = sequences(40)
    crf = bf.CRF(3, 3)
    wanted = bf.fit_sequences(crf, X, y, form=form, correction="none", tolerance=1e-10)
    found = bf.fit_sequences(crf, X, y, form=form, correction="none", tolerance=1e-10, client=client)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=SAME)
    np.testing.assert_allclose(found.sd, wanted.sd, rtol=1e-6)


def test_corrections_and_cases(client):
    X, y = sequences(40)
    crf = bf.CRF(3, 3)
    wanted = bf.fit_sequences(crf, X, y, correction="mean", tolerance=1e-10)
    found = bf.fit_sequences(crf, X, y, correction="mean", tolerance=1e-10, client=client)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-7)
    points = found.sample(3, 0)
    ours, theirs = (p.objective.data.pointwise(p.objective, points) for p in (found, wanted))
    np.testing.assert_allclose(ours.values[:, ours.which], theirs.values[:, theirs.which], atol=SAME)


def labelled_graphs(count, missing=0.0):
    """Triangles with a tail of any length."""
    X, y = sequences(count, seed=2, missing=missing)
    edges = [[(t, t + 1) for t in range(len(x) - 1)] + ([(0, 2)] if len(x) > 2 else []) for x in X]
    return [(x, np.array(own, dtype=int).reshape(-1, 2)) for x, own in zip(X, edges, strict=True)], y


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("engine", ["exact", "bethe"])
def test_graphs(client, engine, missing):
    X, y = labelled_graphs(30, missing)
    crf = bf.CRF(3, 3)
    options = {"engine": engine, "method": "newton", "correction": "none", "tolerance": 1e-10}
    wanted = bf.fit_graphs(crf, X, y, **options)
    same_posterior(bf.fit_graphs(crf, X, y, client=client, **options), wanted)


@pytest.mark.parametrize("kind", ["sequences", "graphs"])
def test_mean_field(client, kind):
    """Independent weights, their temperature and predictions, with edge inputs where there are graphs."""
    X, y = labelled_graphs(24) if kind == "graphs" else sequences(24)
    edges = None
    if kind == "graphs":
        rng, edges = np.random.default_rng(5), ["near", "far"]
        X = [(x, pairs, rng.normal(size=(len(pairs), 2))) for x, pairs in X]
    crf, fit = bf.CRF(3, 3, edges), bf.fit_graphs if kind == "graphs" else bf.fit_sequences
    wanted = fit(crf, X, y, form="mean-field")
    found = fit(crf, X, y, form="mean-field", client=client)
    assert found.form.form == wanted.form.form == "mean-field"
    # the draws are of whole weights on the workers, and of each sequence's potentials here: as far as noise goes
    apart = np.abs(found.mean - wanted.mean) / wanted.sd
    assert np.sqrt(np.mean(apart**2)) < (1e-6 if kind == "graphs" else 0.25)
    np.testing.assert_allclose(found.sd, wanted.sd, rtol=1e-5 if kind == "graphs" else 0.1)
    one, other = (bf.predict(p.at_temperature(0.5), X).probabilities for p in (found, wanted))
    np.testing.assert_allclose(one, other, atol=1e-4 if kind == "graphs" else 0.08)


def table_of(X, y):
    rows = [
        {"sequence": k, "label": label, **{f"input{d}": v for d, v in enumerate(x)}}
        for k, (own, labels) in enumerate(zip(X, y, strict=True))
        for x, label in zip(own, labels, strict=True)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_sequences_in_files(client, kind, tmp_path):
    X, y = sequences(50)
    y = [[f"L{label}" for label in own] for own in y]
    crf = bf.CRF(["L0", "L1", "L2"], [f"input{d}" for d in range(3)])
    table = table_of(X, y)
    for k, part in table.groupby(table["sequence"] // 13):
        getattr(part, f"to_{kind}")(tmp_path / f"part{k}.{kind}", index=False)
    files = bf.SequenceFiles(str(tmp_path / f"*.{kind}"))
    assert len(files) == 4
    wanted = bf.fit_sequences(crf, X, y, correction="none", tolerance=1e-10)
    same_posterior(bf.fit_sequences(crf, files, correction="none", tolerance=1e-10, client=client), wanted)
    same_posterior(bf.fit_sequences(crf, files, correction="none", tolerance=1e-10), wanted)


def test_inputs_by_name(tmp_path):
    rows = [("a", "x", "red big=2.5"), ("a", "y", "blue"), ("b", "x", None), ("b", None, "red strange")]
    path = tmp_path / "words.csv"
    pd.DataFrame(rows, columns=["sentence", "tag", "words"]).to_csv(path, index=False)
    crf = bf.CRF(["x", "y"], ["red", "blue", "big"])
    data = bf.SequenceFiles([str(path)], sequence="sentence", label="tag", features="words").all(crf)
    np.testing.assert_array_equal(data.ptr, [0, 2, 4])
    np.testing.assert_array_equal(data.inputs.toarray(), [[1, 0, 2.5], [0, 1, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(data.labels, [0, 1, 0, -1])
    np.testing.assert_array_equal(data.allowed, [[1, 0], [0, 1], [1, 0], [1, 1]])


BAD_FILES = {
    "no file": (lambda d: bf.SequenceFiles(str(d / "*.parquet")), "no file"),
    "torn": (lambda d: bf.SequenceFiles([str(d / "torn.csv")]).all(bf.CRF(2, ["u"])), "stand together"),
    "column": (lambda d: bf.SequenceFiles([str(d / "torn.csv")]).all(bf.CRF(2, ["v"])), "columns"),
    "word": (lambda d: bf.SequenceFiles([str(d / "word.csv")], features="w").all(bf.CRF(2, ["u"])), "name=number"),
    "cases": (lambda d: bf.CaseFiles([str(d / "gone.csv")]).all(["a"]), "no file"),
    "twice": (lambda d: bf.fit_sequences(bf.CRF(2, 1), bf.SequenceFiles([str(d / "torn.csv")]), []), "hold the labels"),
    "client": (lambda d: bf.fit(bf.grid(2, 2), np.ones((3, 4)), client="tcp://here"), "dask.distributed.Client"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files(name, tmp_path):
    pd.DataFrame({"sequence": [0, 1, 0], "label": [0, 1, 1], "u": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "torn.csv")
    pd.DataFrame({"sequence": [0], "label": [0], "w": ["u=much"]}).to_csv(tmp_path / "word.csv")
    call, message = BAD_FILES[name]
    with pytest.raises(bf.InvalidInput, match=message):
        call(tmp_path)


def cases(count=300, holes=0.0):
    rng = np.random.default_rng(3)
    field = bf.grid(3, 3)
    X = bf.sample(field, 0.5 * rng.normal(size=field.n_parameters), count, 0).astype(float)
    X[rng.random(X.shape) < holes] = np.nan
    return field, X


@pytest.mark.parametrize("holes", [0.0, 0.1])
@pytest.mark.parametrize("engine", ["exact", "bethe"])
def test_fields(client, engine, holes):
    field, X = cases(holes=holes)
    wanted = bf.fit(field, X, engine=engine, correction="none", tolerance=1e-10)
    found = bf.fit(field, X, engine=engine, correction="none", tolerance=1e-10, client=client)
    same_posterior(found, wanted)
    points = found.sample(2, 0)
    ours, theirs = (p.objective.data.pointwise(p.objective, points) for p in (found, wanted))
    np.testing.assert_allclose(np.sort(ours.values[:, ours.which]), np.sort(theirs.values[:, theirs.which]), atol=SAME)


@pytest.mark.parametrize("holes", [0.0, 0.1])
def test_fields_in_files(client, holes, tmp_path):
    field, X = cases(holes=holes)
    for k, part in enumerate(np.array_split(X, 3)):
        pd.DataFrame(part, columns=field.names).to_parquet(tmp_path / f"{k}.parquet")
    files = bf.CaseFiles(str(tmp_path / "*.parquet"))
    wanted = bf.fit(field, X, correction="none", tolerance=1e-10)
    same_posterior(bf.fit(field, files, correction="none", tolerance=1e-10, client=client), wanted)
    same_posterior(bf.fit(field, files, correction="none", tolerance=1e-10), wanted)


def test_a_check_does_not_take_some_cases_for_all(client):
    field, X = cases(holes=0.1)
    found = bf.fit(field, X, engine="exact", correction="none", client=client)
    with pytest.raises(bf.InvalidInput, match="stayed on a cluster's workers"):
        bf.predictive_check(found)


def test_hidden_variables(client):
    field = bf.restricted_boltzmann(4, 1)
    X = np.random.default_rng(0).integers(0, 2, size=(80, 4))
    options = {"correction": "none", "tolerance": 1e-9, "starts": 2, "rng": 1}
    wanted = bf.fit(field, X, **options)
    found = bf.fit(field, X, client=client, **options)
    np.testing.assert_allclose(found.mean, wanted.mean, atol=1e-6)


def test_a_worker_that_dies_in_the_middle():
    """The same bits as without the loss: what it kept is made again, and sums go by shard and not by worker."""
    X, y = sequences(60)
    crf = bf.CRF(3, 3)
    options = {"method": "newton", "correction": "none"}
    killed = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        wanted = bf.fit_sequences(crf, X, y, client=client, **options)

        def kill(iteration):
            if not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        found = bf.fit_sequences(crf, X, y, client=client, watch=kill, **options)
    assert killed
    np.testing.assert_array_equal(found.mean, wanted.mean)
    np.testing.assert_array_equal(found.sd, wanted.sd)


def test_only_a_client_will_do():
    with pytest.raises(bf.InvalidInput, match="got int"):
        Cluster(3)


def test_many_fits(client):
    field, X = cases()
    alone = bf.fit_many(field, bf.Bootstrap(X, 6), engine="exact", correction="none", jobs=1)
    spread = bf.fit_many(field, bf.Bootstrap(X, 6), engine="exact", correction="none", client=client)
    np.testing.assert_allclose(spread.mean, alone.mean, atol=SAME)


@pytest.mark.parametrize(
    "sampler", [bf.Metropolis(), bf.Langevin(), bf.Exchange(), bf.Moller(), bf.NUTS()], ids=lambda s: type(s).__name__
)
def test_chains(client, sampler):
    field, X = cases()
    options = {"n_draws": 20, "chains": 3, "warmup": 30, "rng": 4}
    alone = bf.sample_posterior(field, X, bf.Normal(variance=0.5), sampler, **options)
    spread = bf.sample_posterior(field, X, bf.Normal(variance=0.5), sampler, client=client, **options)
    np.testing.assert_allclose(spread.values, alone.values, atol=1e-8)


def test_estimator(client):
    X, y = sequences(30)
    y = [[str(label) for label in own] for own in y]
    alone = bf.BayesianCRF(correction="none").fit(X, y)
    address = client.scheduler.address
    spread = bf.BayesianCRF(correction="none", client=address).fit(X, y)
    np.testing.assert_allclose(spread.posterior_.mean, alone.posterior_.mean, atol=1e-7)
    assert spread.predict(X) == alone.predict(X)
    graphs, labels = labelled_graphs(12)
    alone, spread = (bf.BayesianCRF(correction="none", client=c).fit(graphs, labels) for c in (None, client))
    np.testing.assert_allclose(spread.posterior_.mean, alone.posterior_.mean, atol=1e-7)
    assert spread.predict(graphs) == alone.predict(graphs)


def test_no_scheduler_there():
    X, y = sequences(3)
    with pytest.raises(bf.InvalidInput, match="no scheduler at"):
        bf.BayesianCRF(client="nowhere").fit(X, y)
