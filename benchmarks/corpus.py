"""A synthetic chunking corpus of the size and habits of CoNLL-2000, for machines without real text.

8,936 sentences of about 24 tokens: 211,727 in all. Chunks of eleven types follow one another by a Markov chain; a chunk
draws tags from its type's own pattern, and a tag its words from a Zipf law of its own, so that many word types
occur once. Never kinder than text: words belong to several tags, tags are wrong at times as a tagger's are, patterns of
types overlap, and annotators' boundaries waver. Features are those of crfsuite's chunking example: words and tags
within two positions, their pairs and triples. F1 of a crfsuite model at full size: 92.5 (CoNLL-2000: 93.6).

With BAYESFIELD_TEXT=chunks or BAYESFIELD_TEXT=entities it is real newswire instead (benchmarks.real_data), to learn
from its "train" and to test by its "valid".
"""

import os
from typing import NamedTuple

import numpy as np

from benchmarks import real_data

SENTENCES, TEST = 8_936, 2_012
TYPES = ("NP", "VP", "PP", "ADVP", "SBAR", "ADJP", "PRT", "CONJP", "INTJ", "LST", "UCP")
_SHARE = np.array([0.42, 0.20, 0.19, 0.055, 0.03, 0.03, 0.01, 0.002, 0.0006, 0.0003, 0.0002])
_LENGTH = np.array([2.1, 1.5, 1.02, 1.15, 1.03, 1.3, 1.0, 1.8, 1.2, 1.0, 2.0])  # mean tokens of a chunk
_OUTSIDE = 0.13  # share of tokens outside all chunks
_TAGS = 44
_OPEN = 12  # tags whose words are without end: nouns, verbs, adjectives, numbers
_TAG_ERROR, _WAVER, _BORROWED = 0.02, 0.005, 0.05
_ASTRAY, _AGAIN = 0.05, 0.1  # tags of any kind; chunks that follow one of their own type


class Corpus(NamedTuple):
    """Sentences: for each its words, tags and labels. entities: whether these are names, known by spelling, too."""

    words: list[list[str]]
    tags: list[list[str]]
    labels: list[list[str]]
    entities: bool = False

    def features(self) -> list[list[list[str]]]:
        """The attributes of every token."""
        of_one = _spelled if self.entities else _attributes
        return [of_one(w, t) for w, t in zip(self.words, self.tags, strict=True)]


def corpus(sentences: int, seed: int = 0, language: int = 0) -> Corpus:
    """language: of the tables that all sentences of a domain share. seed: of the sentences; 2 is the test's."""
    if os.environ.get("BAYESFIELD_TEXT"):
        return _newswire(sentences, seed, os.environ["BAYESFIELD_TEXT"])
    tables, rng = _Language(np.random.default_rng([language, 7])), np.random.default_rng([language, seed, 11])
    lengths = np.maximum(rng.gamma(3.4, 23.98 / 3.4, size=sentences).astype(int), 2)
    made = [tables.sentence(int(n), rng) for n in lengths]
    return Corpus([m[0] for m in made], [m[1] for m in made], [m[2] for m in made])


def _newswire(sentences: int, seed: int, labels: str) -> Corpus:
    """Drawn without replacement; all of them where there are no more."""
    every = real_data.sentences("valid" if seed == 2 else "train")
    some = [every[k] for k in np.random.default_rng(seed).permutation(len(every))[:sentences]]
    column = real_data.TEXTS[labels]
    words, tags, found = ([[token[c] for token in own] for own in some] for c in (0, 1, column))
    return Corpus(words, tags, found, labels == "entities")


class _Language:
    """What a domain's sentences are drawn from."""

    def __init__(self, rng: np.random.Generator) -> None:
        kinds = len(TYPES) + 1  # the last: outside
        base = np.append(_SHARE / _SHARE.sum() * (1 - _OUTSIDE), _OUTSIDE)
        follow = np.array([rng.dirichlet(20.0 * base + 6e-2) for _ in range(kinds)])
        follow[:-1, :-1][np.eye(kinds - 1, dtype=bool)] *= _AGAIN
        self.follow = follow / follow.sum(axis=1, keepdims=True)
        self.pattern = _patterns(rng, kinds)
        sizes = np.where(np.arange(_TAGS) < _OPEN, 6000, rng.integers(6, 300, _TAGS))
        self.first = np.concatenate([[0], np.cumsum(sizes)])
        self.law = [np.cumsum(_zipf(int(n), 1.45)) for n in sizes]
        self.endings = [f"{chr(97 + k % 26)}{chr(97 + k // 26)}" for k in range(60)]

    def sentence(self, length: int, rng: np.random.Generator) -> tuple[list[str], list[str], list[str]]:
        words, tags, labels = [], [], []
        kind = len(TYPES)
        while len(words) < length:
            kind = _draw(np.cumsum(self.follow[kind]), rng)
            inside = kind < len(TYPES)
            count = 1 + (rng.poisson(_LENGTH[kind] - 1.0) if inside else 0)
            for k in range(min(count, length - len(words))):
                tag = _draw(np.cumsum(self.pattern[kind, min(k, 1)]), rng)
                word = self.word(tag, rng)
                shown = int(rng.integers(_TAGS)) if rng.random() < _TAG_ERROR else tag
                label = f"{'B' if k == 0 else 'I'}-{TYPES[kind]}" if inside else "O"
                if rng.random() < _WAVER:
                    label = "O" if inside else "B-NP"
                words.append(word)
                tags.append(f"T{shown}")
                labels.append("I-PP" if label == "I-PRT" else label)  # particles are single tokens: 22 labels
        return words, tags, _consistent(labels)

    def word(self, tag: int, rng: np.random.Generator) -> str:
        """A word of the tag; at times one that looks the same as another tag's."""
        owner = int(rng.integers(_OPEN)) if rng.random() < _BORROWED else tag
        rank = _draw(self.law[owner], rng)
        return f"w{self.first[owner] + rank}{self.endings[(owner * 7 + rank % 5) % 60]}"


def _patterns(rng: np.random.Generator, kinds: int) -> np.ndarray:
    """Probabilities of the tags of a first and of a later token, (kinds, 2, tags): mostly of a few tags that two or
    three patterns share, else of any."""
    owners = rng.permutation(np.arange(_TAGS * 2) % (2 * kinds)).reshape(_TAGS, 2)
    result = np.empty((2 * kinds, _TAGS))
    for slot in range(2 * kinds):
        own = np.flatnonzero((owners[:, 0] == slot) | ((owners[:, 1] == slot) & (np.arange(_TAGS) % 3 == 0)))
        result[slot] = _ASTRAY * rng.dirichlet(np.full(_TAGS, 0.3))
        result[slot, own] += (1.0 - _ASTRAY) * rng.dirichlet(np.full(len(own), 0.7))
    return result.reshape(kinds, 2, _TAGS)


def _consistent(labels: list[str]) -> list[str]:
    """An inside label that does not continue its own chunk begins one."""
    before = "O"
    result = []
    for label in labels:
        if label.startswith("I-") and before[2:] != label[2:]:
            label = f"B-{label[2:]}"
        result.append(label)
        before = label
    return result


def _attributes(words: list[str], tags: list[str]) -> list[list[str]]:
    """crfsuite's chunking template: 12 of single tokens, 2 pairs of words, 4 pairs and 3 triples of tags."""
    n = len(words)
    result = []
    for t in range(n):
        own = []
        for d in range(-2, 3):
            if 0 <= t + d < n:
                own.append(f"w[{d}]={words[t + d]}")
                own.append(f"pos[{d}]={tags[t + d]}")
        for d in (-1, 0):
            if t + d >= 0 and t + d + 1 < n:
                own.append(f"w[{d}]|w[{d + 1}]={words[t + d]}|{words[t + d + 1]}")
        for d in range(-2, 2):
            if t + d >= 0 and t + d + 1 < n:
                own.append(f"pos[{d}]|pos[{d + 1}]={tags[t + d]}|{tags[t + d + 1]}")
        for d in range(-2, 1):
            if t + d >= 0 and t + d + 2 < n:
                own.append(f"pos[{d}]|pos[{d + 1}]|pos[{d + 2}]=" + "|".join(tags[t + d : t + d + 3]))
        if t == 0:
            own.append("__BOS__")
        if t == n - 1:
            own.append("__EOS__")
        result.append(own)
    return result


def _spelled(words: list[str], tags: list[str]) -> list[list[str]]:
    """sklearn-crfsuite's tutorial of named entities: how a word and its neighbours are spelled, and their tags."""
    result = []
    for t, word in enumerate(words):
        own = [f"word[-3:]={word[-3:]}", f"word[-2:]={word[-2:]}"]
        for d in (-1, 0, 1):
            if 0 <= t + d < len(words):
                other, tag = words[t + d], tags[t + d]
                own += [f"{d}:lower={other.lower()}", f"{d}:tag={tag}", f"{d}:tag[:2]={tag[:2]}"]
                case = (
                    "upper" if other.isupper() else "title" if other.istitle() else "digit" if other.isdigit() else ""
                )
                own += [f"{d}:case={case}"] if case else []
            else:
                own.append("__BOS__" if d < 0 else "__EOS__")
        result.append(own)
    return result


def spans_of(labels: list[str]) -> set[tuple[int, int, str]]:
    """The chunks (first, end, type) of BIO labels."""
    found, begin, kind = set(), 0, ""
    for t, label in enumerate([*labels, "O"]):
        if kind and (label[:2] != "I-" or label[2:] != kind):
            found.add((begin, t, kind))
            kind = ""
        if label != "O" and not kind:
            begin, kind = t, label[2:]
    return found


def f1(wanted: list[list[str]], predicted: list[list[str]]) -> float:
    """F1 of chunks, in per cent, as conlleval's."""
    right = total = guessed = 0
    for a, b in zip(wanted, predicted, strict=True):
        gold, guess = spans_of(a), spans_of(b)
        right, total, guessed = right + len(gold & guess), total + len(gold), guessed + len(guess)
    return 200.0 * right / max(total + guessed, 1)


def _zipf(count: int, exponent: float) -> np.ndarray:
    weight = 1.0 / (np.arange(count) + 2.0) ** exponent
    return weight / weight.sum()


def _draw(cumulated: np.ndarray, rng: np.random.Generator) -> int:
    return int(min(np.searchsorted(cumulated, rng.random()), len(cumulated) - 1))
