"""Entities as wholes: the spans that predicted labels mark, each with its probability, averaged over the posterior.

A span (first, end, type) is there where conlleval and seqeval see it. BIO: its first label is B-type, or I-type after a
label of another type; the others are I-type, and what follows is not. IOBES (and BILOU): S-type, or B-type, I-type …,
E-type. Both are sums of probabilities of labels along runs of positions, which two passes give exactly: the product of
the tokens' marginals, which knows nothing of how labels go together, is not needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bayesfield.inference.trees.chain import ChainMarginals, path_shares
from bayesfield.learning.phases.chain import ChainPhase
from bayesfield.model.conditional import CRF, Sequences, as_sequences
from bayesfield.prediction.chain import marginals_of_draws, predict_sequences
from bayesfield.prediction.tally import checked
from bayesfield.types import FloatArray, IntArray, InvalidInput

if TYPE_CHECKING:
    from bayesfield.posterior.posterior import Posterior

_ENDS = {"L": "E", "U": "S"}  # BILOU's letters for IOBES's


class Span(NamedTuple):
    """Positions first … end − 1 of a sequence, its type, and the probability that it is there as a whole."""

    first: int
    end: int
    label: str
    probability: float


class _Path(NamedTuple):
    """sign · p(labels from position first on): a term of the probability of span number ``span``."""

    span: int
    sign: float
    first: int
    labels: list[int]


def predict_spans(
    posterior: Posterior,
    X: Sequence[Any] | Sequences,
    predictor: str = "marginal",
    n_draws: int = 100,
    rng: np.random.Generator | int | None = 0,
) -> list[list[Span]]:
    """For each sequence the spans of its predicted labels. X, predictor, n_draws: as in ``bf.predict_sequences``;
    probabilities are averaged over as many draws, or those of the mode with "map"."""
    posterior = checked(posterior, predictor, n_draws)
    crf: Any = posterior.field
    data = X if isinstance(X, Sequences) else as_sequences(crf, X)
    labels = predict_sequences(posterior, data, predictor, n_draws, rng).labels
    return spans_of_labels(posterior, data, labels, 0 if predictor == "map" else n_draws, rng)


def spans_of_labels(
    posterior: Posterior,
    data: Sequences,
    labels: IntArray,
    n_draws: int,
    rng: np.random.Generator | int | None = 0,
) -> list[list[Span]]:
    """The spans that these labels (P,) mark, with their probabilities; n_draws: 0 for those of the mode."""
    crf: Any = posterior.field
    tags = _tags(crf)
    of = {tag: k for k, tag in enumerate(tags)}
    if len(crf.visible) < len(crf.labels):
        raise InvalidInput("spans are for chains of visible labels")
    found = [_marked([tags[k] for k in labels[a:b]], _whole(tags)) for a, b in _bounds(data)]
    places = [(int(a), int(b), span) for (a, b), own in zip(_bounds(data), found, strict=True) for span in own]
    paths = [path for n, (a, b, span) in enumerate(places) for path in _paths(of, n, a, b, span)]
    phase = ChainPhase(crf, data)
    total, count = np.zeros(len(places)), 0
    for marginals in marginals_of_draws(phase, posterior, n_draws, rng):
        total += _probabilities(phase, marginals, paths, len(places))
        count += 1
    shares = iter((total / max(count, 1)).tolist())
    return [[Span(first, end, kind, next(shares)) for first, end, kind in own] for own in found]


def _probabilities(phase: ChainPhase, marginals: ChainMarginals, paths: list[_Path], count: int) -> FloatArray:
    each = path_shares(phase.chains, marginals, [p.first for p in paths], [p.labels for p in paths])
    total = np.zeros(count)
    np.add.at(total, [p.span for p in paths], np.array([p.sign for p in paths]) * each)
    return np.clip(total, 0.0, 1.0)


def _tags(crf: CRF) -> list[tuple[str, str]]:
    """Letter and type of every label: ("B", "NP"); ("O", "") outside."""
    tags = []
    for label in crf.visible:
        letter, _, kind = str(label).partition("-")
        tags.append((_ENDS.get(letter, letter), kind) if kind else ("O", ""))
    if all(letter == "O" for letter, _ in tags) or not {letter for letter, _ in tags} <= set("BIOES"):
        raise InvalidInput(f"spans need labels as B-type, I-type (and E-, S-type) and O; got {list(crf.visible)[:8]}")
    return tags


def _marked(tags: list[tuple[str, str]], whole: bool) -> list[tuple[int, int, str]]:
    """The spans in the labels of one sequence. whole: by IOBES, where B-type needs its E-type."""
    spans, begin, kind = [], 0, ""
    for t, (letter, own) in enumerate([*tags, ("O", "")]):
        if kind and not (letter in "IE" and own == kind):
            if not whole:
                spans.append((begin, t, kind))
            kind = ""
        if not kind and letter in ("BS" if whole else "BI"):
            begin, kind = t, own
        if kind and letter in "ES":
            if (letter == "S") == (begin == t):
                spans.append((begin, t + 1, kind))
            kind = ""
    return spans


def _whole(tags: list[tuple[str, str]]) -> bool:
    return any(letter in "ES" for letter, _ in tags)


def _paths(
    of: dict[tuple[str, str], int], number: int, begin: int, end: int, span: tuple[int, int, str]
) -> list[_Path]:
    """The terms of one span's probability in the sequence begin … end. of: the number of every label."""
    (first, last, kind), length = span, span[1] - span[0]
    B, I, E, S = (of.get((letter, kind), -1) for letter in "BIES")  # noqa: E741
    if _whole(list(of)):
        inside = [S] if length == 1 else [B, *[I] * (length - 2), E]
        return [] if -1 in inside else [_Path(number, 1.0, begin + first, inside)]
    rest, terms = [I] * (length - 1), []
    starts = [(1.0, begin + first, [B, *rest]), (1.0, begin + first, [I, *rest])]
    if first > 0:  # an I-type that goes on with its own type begins nothing
        starts += [(-1.0, begin + first - 1, [before, I, *rest]) for before in (B, I)]
    for sign, at, labels in starts:
        terms.append(_Path(number, sign, at, labels))
        if begin + last < end:
            terms.append(_Path(number, -sign, at, [*labels, I]))
    return [term for term in terms if -1 not in term.labels]


def _bounds(data: Sequences) -> list[tuple[int, int]]:
    return list(zip(data.ptr[:-1].tolist(), data.ptr[1:].tolist(), strict=True))
