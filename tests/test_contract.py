"""One pipeline: the same chain data through all three doors give the same posterior, status and warnings.

As sequences (bf.fit_sequences), as graphs (bf.fit_graphs), and as one field with the CRF's design, seen once (bf.fit).
"""

import warnings

import numpy as np
import pytest

import bayesfield as bf

SAME = 1e-6  # posterior sd; the passes differ in rounding only, which is some 1e-12
LABELS = ("a", "b")
VARIANCES = (0.1, 1.0, 30.0, 1e4)
CORRECTIONS = ("none", "mean", "variational", "auto")


def chains(kind, seed=3):
    """A small CRF and labelled chains: complete, some labels open (one of them a set of all), or latent states."""
    rng = np.random.default_rng(seed)
    crf = bf.CRF(LABELS, 2, latent=2 if kind == "latent" else 1)
    lengths = (3, 2, 4, 2) if kind == "latent" else (4, 3, 5, 2, 4, 3)
    X = [rng.normal(size=(t, 2)) for t in lengths]
    y = [[LABELS[int(v)] for v in x[:, 0] + 0.8 * rng.normal(size=len(x)) > 0] for x in X]
    if kind == "open":
        y[0][1], y[2][3], y[4][0] = None, {"a", "b"}, None
    return crf, X, y


def as_graphs(X):
    return [(x, np.array([(t, t + 1) for t in range(len(x) - 1)]).reshape(-1, 2)) for x in X]


def as_field(crf, X, y):
    """One field over all positions with tied parameters, and its one case. Latent states are hidden variables, each
    tied to a visible one by a table of zeros and −∞."""
    names, K, latent = crf.parameter_names, len(crf.labels), len(crf.labels) > len(crf.visible)
    W = [[names[d * K + k] for k in range(K)] for d in range(len(crf.inputs))]
    V = [[names[crf.n_state + i * K + j] for j in range(K)] for i in range(K)]
    hidden, shown, factors, cells = [], [], [], []
    for s, (x, labels) in enumerate(zip(X, y, strict=True)):
        here = [f"z{s}.{t}" for t in range(len(x))]
        for t, (row, label) in enumerate(zip(x, labels, strict=True)):
            is_open = label is None or isinstance(label, set)
            hidden.append(bf.Variable(here[t], K if latent else LABELS, hidden=latent or is_open))
            features = {W[d][k]: row[d] * np.eye(K)[k] for d in range(len(row)) for k in range(K)}
            factors.append(bf.Factor(here[t], features))
            cells.append(None if is_open else label)
            if latent:
                shown.append(bf.Variable(f"y{s}.{t}", LABELS))
                owned = np.where(crf.owner[:, None] == np.arange(len(LABELS)), 0.0, -np.inf)
                factors.append(bf.Factor((here[t], shown[-1].name), log_table=owned))
        for t in range(len(x) - 1):
            pairs = {V[i][j]: np.outer(np.eye(K)[i], np.eye(K)[j]) for i in range(K) for j in range(K)}
            factors.append(bf.Factor((here[t], here[t + 1]), pairs))
    field = bf.RandomField([*hidden, *shown], factors)
    assert list(field.parameter_names) == list(names)
    width = len(hidden)
    case = [None] * width + cells if latent else cells
    return field, np.array([case], dtype=object)


def through(door, kind, variance, correction):
    """The posterior, and the kinds of the warnings that came with it."""
    crf, X, y = chains(kind)
    options = {"prior": bf.Normal(variance=variance), "correction": correction}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if door == "sequences":
            posterior = bf.fit_sequences(crf, X, y, **options)
        elif door == "graphs":
            posterior = bf.fit_graphs(crf, as_graphs(X), y, **options)
        else:
            posterior = bf.fit(*as_field(crf, X, y), **options)
    return posterior, [(w.category, str(w.message).partition("\n")[0]) for w in caught]


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("variance", VARIANCES)
@pytest.mark.parametrize("kind", ["complete", "open", "latent"])
def test_three_doors_one_posterior(kind, variance, correction):
    first, warned = through("sequences", kind, variance, correction)
    for door in ("graphs", "field"):
        other, others = through(door, kind, variance, correction)
        for name in ("mode", "mean"):
            gap = (getattr(other, name) - getattr(first, name)) / first.sd
            assert np.abs(gap).max() < SAME, (door, name)
        assert np.abs(np.log(other.sd / first.sd)).max() < SAME, door
        assert np.abs(other.skewness - first.skewness).max() < SAME * max(1.0, np.abs(first.skewness).max()), door
        assert other.record.status.outcome is first.record.status.outcome
        assert other.record.inference.outcome is first.record.inference.outcome
        own, theirs = first.record.correction, other.record.correction
        assert (theirs.kind, theirs.settled) == (own.kind, own.settled), door
        assert theirs.steps == own.steps or not own.settled, door  # when to give up may hang on rounding
        assert [w[0] for w in others] == [w[0] for w in warned], door
        assert other.record.plan.corrections == first.record.plan.corrections


@pytest.mark.parametrize("kind", ["complete", "open"])
def test_evidence_and_ard_agree(kind):
    """What is asked of a posterior, and a prior that the data choose, do not depend on the door either."""
    crf, X, y = chains(kind)
    groups = dict(zip(crf.parameter_names, crf.input_of, strict=True))  # labels of one input mirror one another
    prior = bf.ARD(groups=groups, threshold=3.0)
    found = [
        bf.fit_sequences(crf, X, y, prior, correction="none"),
        bf.fit_graphs(crf, as_graphs(X), y, prior, correction="none"),
        bf.fit(*as_field(crf, X, y), prior, correction="none"),
    ]
    for other in found[1:]:
        assert list(other.record.prior.table["dropped"]) == list(found[0].record.prior.table["dropped"])
        assert np.abs(other.mode - found[0].mode).max() < 1e-4 * found[0].sd.max()
        assert abs(other.evidence(n_draws=0).value - found[0].evidence(n_draws=0).value) < 1e-5


@pytest.mark.parametrize("method", ["pseudo_likelihood", "cd", "iterative_scaling", "pseudo_moments"])
def test_learners_through_all_doors(method):
    """Learners see one case of the same field, whatever the door."""
    crf, X, y = chains("complete")
    options = {"method": method, "prior": bf.Normal(variance=1.0), "correction": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bf.FitWarning)  # one case: contrastive divergence has few steps that count
        found = [
            bf.fit_sequences(crf, X, y, **options),
            bf.fit_graphs(crf, as_graphs(X), y, **options),
            bf.fit(*as_field(crf, X, y), **options),
        ]
    for other in found[1:]:
        assert np.abs(other.mode - found[0].mode).max() < 1e-5
        assert np.abs(np.log(other.sd / found[0].sd)).max() < 1e-5


def test_weights_through_all_doors():
    """A sequence that counts twice is the same as one that is given twice; whole weights and others."""
    crf, X, y = chains("open")
    weights = np.array([2.0, 1.0, 1.0, 0.0, 2.0, 1.0])
    rows = np.repeat(np.arange(len(X)), weights.astype(int))
    prior = bf.Normal(variance=1.0)
    repeated = bf.fit_sequences(crf, [X[k] for k in rows], [y[k] for k in rows], prior)
    for weighted in (
        bf.fit_sequences(crf, X, y, prior, weights=weights),
        bf.fit_graphs(crf, as_graphs(X), y, prior, weights=weights),
    ):
        assert np.abs((weighted.mode - repeated.mode) / repeated.sd).max() < SAME
        assert np.abs((weighted.mean - repeated.mean) / repeated.sd).max() < SAME
        assert np.abs(np.log(weighted.sd / repeated.sd)).max() < SAME
    field = bf.grid(2, 2)
    cases = np.array([[1, 1, -1, None], [1, -1, -1, 1], [-1, None, 1, 1]], dtype=object)
    twice = bf.fit(field, cases[[0, 0, 1, 2, 2, 2]], prior)
    once = bf.fit(field, cases, prior, weights=[2.0, 1.0, 3.0])
    assert np.abs((once.mean - twice.mean) / twice.sd).max() < SAME


def test_every_door_is_watched_during_the_correction():
    crf, X, y = chains("complete")
    for call in (
        lambda watch: bf.fit_sequences(crf, X, y, correction="variational", watch=watch),
        lambda watch: bf.fit_graphs(crf, as_graphs(X), y, correction="variational", watch=watch),
        lambda watch: bf.fit(*as_field(crf, X, y), correction="variational", watch=watch),
    ):
        steps = []
        posterior = call(steps.append)
        of_correction = [step for step in steps if np.isnan(step.value)]
        assert len(of_correction) == posterior.record.correction.steps
        assert len(steps) > len(of_correction)


def test_what_truly_cannot_be_is_refused_with_a_reason():
    crf, X, y = chains("complete")
    _, _, open_labels = chains("open")
    refused = {
        "inference on sequences is exact": lambda: bf.fit_sequences(crf, X, y, engine="bethe"),
        "needs complete cases": lambda: bf.fit_sequences(crf, X, open_labels, method="pseudo_likelihood"),
        "expectation propagation is for sequences": lambda: bf.fit_graphs(crf, as_graphs(X), y, method="ep"),
        "with all labels known": lambda: bf.fit_sequences(crf, X, open_labels, method="ep"),
        "ends beside it": lambda: bf.fit_graphs(crf, as_graphs(X), y, method="cd", correction="mean"),
        "needs all of the precision": lambda: bf.fit_sequences(crf, X, y, form="block", correction="mean"),
        "sampling takes one graph": lambda: bf.fit_graphs(
            crf, as_graphs(X), y, engine="sampled", weights=np.arange(1.0, 1.0 + len(X))
        ),
        "with weights method is": lambda: bf.fit(bf.chain(2), [[1, 1]], method="cd", weights=[2.0]),
    }
    for words, call in refused.items():
        with pytest.raises(bf.InvalidInput, match=words):
            call()
