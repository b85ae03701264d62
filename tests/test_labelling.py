"""``bayesfield label``: propose, take, update, on files in a temporary folder; and what is refused."""

import json
import sys

import numpy as np
import pytest

import bayesfield as bf
from bayesfield.cli.ending import main
from bayesfield.formats.conll import read_conll
from bayesfield.formats.crfsuite import inputs_of, vocabulary
from bayesfield.formats.sentences import labelled_text, read_sentences

TRAIN = "the DT D\ndog NN N\nsees VB V\na DT D\ncat NN N\n\na DT D\ncat NN N\nruns VB V\n\n"
POOL = (
    "# first\nthe DT\ncat NN\nsees VB\n\n-DOCSTART- x\n\na DT\nbird NN\nsings VB\nloud JJ\n\nthe DT\ndog NN\nruns VB\n"
)


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """``call("label", "take", …)`` in a folder with a training file and a pool: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "pool.conll").write_text(POOL)

    def words(*given):
        monkeypatch.setattr(sys, "argv", ["bayesfield", *map(str, given)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return int(end.value.code or 0), told.out, " ".join(told.err.split())

    return words


def _propose(call, *more, model="train.conll"):
    return call("label", "propose", model, "pool.conll", "--out", "batch.conll", "--count", 2, *more)


def test_the_loop(call, tmp_path):
    """A posterior, a proposal that a person corrects, both files, and the posterior that goes on."""
    assert call("fit", "train.conll", "--model", "crf", "--out", "tagger")[0] == 0
    code, out, _ = _propose(call, "--json", "--strategy", "unsettled", model="tagger")
    assert code == 0
    rows = json.loads(out)
    posterior = bf.load(tmp_path / "tagger" / "posterior.bf")
    known = {name: k for k, name in enumerate(posterior.field.inputs)}
    X = [inputs_of(s, known) for s in read_conll("pool.conll", label=None, columns=["word", "column1"], features=1)[0]]
    assert [row["sentence"] - 1 for row in rows] == bf.query(posterior, X, 2, "unsettled").tolist()
    batch = (tmp_path / "batch.conll").read_text()
    assert batch.count("least sure") == 2
    assert [len(y) for y in read_conll("batch.conll")[1]] == [len(row["words"]) for row in rows]
    labels = [[word["label"] for word in row["words"]] for row in rows]
    assert read_conll("batch.conll")[1] == labels

    (tmp_path / "batch.conll").write_text(batch.replace("bird\tNN\tN", "bird\tNN\tX"))
    code, out, told = call("label", "take", "batch.conll", "--pool", "pool.conll", "--train", "train.conll", "--json")
    assert (code, json.loads(out)) == (0, {"taken": 2, "left": 1, "new labels": ["X"]})
    assert "labels that are new in train.conll: X" in told
    assert (tmp_path / "train.conll").read_text().startswith(TRAIN.rstrip("\n") + "\n\n")
    assert "bird NN X\n" in (tmp_path / "train.conll").read_text()  # columns set apart as in the file itself
    left = read_sentences(tmp_path / "pool.conll", False)
    assert [s.rows[0] for s in left] == [[["the", "DT"], ["a", "DT"], ["the", "DT"]][k] for k in _others(rows)]

    code, out, told = call("label", "update", "tagger", "batch.conll", "--out", "tagger-2", "--json")
    assert code == 0
    assert "its prior is the posterior of 2 cases before" in told
    assert json.loads(out)["n_cases"] == 4
    new = bf.load(tmp_path / "tagger-2" / "posterior.bf")
    assert new.field.visible == ("D", "N", "V", "X")
    assert "word:bird" in new.field.inputs
    assert new.mean[new.field.parameter_names.index("word:bird:X")] > 0.05
    assert _propose(call, model="tagger-2")[0] == 0
    assert call("predict", "tagger-2", "train.conll", "--out", "labels.csv")[0] == 0


def _others(rows):
    return [k for k in range(3) if k + 1 not in {row["sentence"] for row in rows}]


def test_json(call, tmp_path):
    """Items as python-crfsuite takes them; a posterior that was saved from Python."""
    X = [[{"w": w, "long": len(w) > 3} for w in s.split()] for s in ("the dog sees a cat", "a cat runs")]
    y = [["D", "N", "V", "D", "N"], ["D", "N", "V"]]
    known = vocabulary(X)
    crf = bf.CRF(["D", "N", "V"], list(known))
    bf.fit_sequences(crf, [inputs_of(s, known) for s in X], y).save(tmp_path / "p.bf")
    pool = [[{"w": "the"}, {"w": "bird", "long": True}], [["w:a"], ["w:dog", "BOS"]], [{"w": "runs"}]]
    (tmp_path / "pool.json").write_text(json.dumps(pool))
    files = ("--pool", "pool.json", "--train", "train.json")
    assert (
        call("label", "propose", "p.bf", "pool.json", "--out", "b.json", "--count", 2, "--strategy", "entropy")[0] == 0
    )
    batch = json.loads((tmp_path / "b.json").read_text())
    assert all(one["items"] in pool and len(one["labels"]) == len(one["items"]) for one in batch)
    assert call("label", "take", "b.json", *files)[0] == 0
    assert json.loads((tmp_path / "train.json").read_text()) == batch
    assert len(json.loads((tmp_path / "pool.json").read_text())) == 1
    assert call("label", "update", "p.bf", "b.json", "--out", "next")[0] == 0
    assert bf.load(tmp_path / "next" / "posterior.bf").record.n_cases == 4
    assert call("label", "propose", "train.json", "pool.json", "--out", "b.json")[0] == 0
    (tmp_path / "b.json").write_text('[{"items": [{"w": "runs"}]}]')
    assert "it needs labels" in call("label", "take", "b.json", *files)[2]


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("sings\tVB", "sang\tVB", "is not in pool.conll: its words or columns were changed"),
        ("loud\tJJ\tD", "loud\tJJ\t_", "word 4 has no label"),
        ("sings\tVB\tV\n", "sings\tVB\n", "every word needs the same columns"),
        (None, "", "holds no sentence"),
    ],
)
def test_a_batch_that_does_not_fit_leaves_all_as_it_is(call, tmp_path, before, after, complaint):
    _propose(call)
    batch = (tmp_path / "batch.conll").read_text()
    assert before is None or before in batch
    (tmp_path / "batch.conll").write_text(after if before is None else batch.replace(before, after))
    code, out, told = call("label", "take", "batch.conll", "--pool", "pool.conll", "--train", "train.conll")
    assert (code, out) == (1, "")
    assert complaint in told
    assert (tmp_path / "pool.conll").read_text() == POOL
    assert (tmp_path / "train.conll").read_text() == TRAIN


def test_taken_twice(call):
    _propose(call)
    files = ("--pool", "pool.conll", "--train", "new.conll")
    assert call("label", "take", "batch.conll", *files)[0] == 0
    assert "it was taken before" in call("label", "take", "batch.conll", *files)[2]


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("propose", "nothing", "pool.conll", "--out", "b.conll"), 1, "nothing"),
        (("propose", "train.conll", "pool.conll", "--out", "b.json"), 1, "are of two kinds"),
        (("propose", "train.conll", "pool.csv", "--out", "b.csv"), 1, "ends like a table"),
        (("propose", "train.conll", "pool.conll", "--out", "no/b.conll"), 1, "there is no folder no"),
        (("propose", "train.conll", "pool.conll", "--out", "b.conll", "--strategy", "bald"), 2, "bald"),
        (("propose", "train.conll", "empty.conll", "--out", "b.conll"), 1, "holds no sentence"),
        (("propose", "field.bf", "pool.conll", "--out", "b.conll"), 1, "is of a field of cases"),
        (("take", "train.conll", "--pool", "pool.conll", "--train", "train.conll"), 1, "are three files"),
        (("update", "field.bf", "train.conll", "--out", "o"), 1, "is of a field of cases"),
        (("update", "blocks.bf", "train.conll", "--out", "o"), 1, "a block precision"),
    ],
)
def test_what_is_refused(call, tmp_path, words, code, complaint):
    (tmp_path / "empty.conll").write_text("\n")
    bf.fit(bf.grid(1, 2), np.array([[1, -1]])).save(tmp_path / "field.bf")
    blocks = bf.fit_sequences(
        bf.CRF(["D", "N"], ["w"]), [np.ones((2, 1))], [["D", "N"]], form="block", correction="none"
    )
    blocks.save(tmp_path / "blocks.bf")
    got, _, told = call("label", *words)
    assert got == code
    assert complaint in told
    assert not (tmp_path / "o").exists()


def test_written_sentences_are_read_again(tmp_path):
    """Words that begin like a comment, blanks set apart, CoNLL-U's ranges."""
    (tmp_path / "p.conll").write_text("# SYM\nthe DT\n\n1 one\n")
    pool = read_sentences(tmp_path / "p.conll", False)
    assert [len(s.rows) for s in pool] == [1, 1]
    with_labels = [s._replace(labels=["X"] * len(s.rows)) for s in pool]
    (tmp_path / "q.conll").write_text(labelled_text(tmp_path / "q.conll", with_labels, ["a note", "# another"]))
    again = read_sentences(tmp_path / "q.conll", True)
    assert [s.key for s in again] == [s.key for s in pool]
    assert [s.labels for s in again] == [["X"], ["X"]]
