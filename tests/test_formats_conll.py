"""CoNLL columns: sentences, labels, what is passed over, what is refused, and there and back."""

import pytest

import bayesfield as bf

PLAIN = """-DOCSTART- -X- O

EU NNP B-ORG
rejects VBZ O
# NN O

2-1 CD O
"""

CONLL_U = """# sent_id = 1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
2.1\tya\tya\tADV\t_\t_\t_\t_\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tNueva York\tNueva York\tPROPN\t_\t_\t1\tobl\t_\t_

"""


def file(tmp_path, text):
    path = tmp_path / "corpus.conll"
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_and_labels(tmp_path):
    X, y = bf.read_conll(file(tmp_path, PLAIN))
    assert y == [["B-ORG", "O", "O"], ["O"]]
    assert X[0][0] == {"word": "EU", "column1": "NNP"}
    assert X[0][2]["word"] == "#", "within a sentence # is a word"
    assert X[1][0]["word"] == "2-1", "a score is no range where the first column does not count"


def test_names_and_place_of_the_label(tmp_path):
    X, y = bf.read_conll(file(tmp_path, PLAIN), columns=["word", "pos", "name"], label="pos")
    assert y[0] == ["NNP", "VBZ", "NN"]
    assert X[0][1] == {"word": "rejects", "name": "O"}
    X, y = bf.read_conll(file(tmp_path, PLAIN), label=None)
    assert y == []
    assert len(X[0][0]) == 3


def test_ranges_and_empty_nodes_are_passed_over(tmp_path):
    X, y = bf.read_conll(file(tmp_path, CONLL_U), label="upos")
    assert y == [["VERB", "PRON", "ADP", "DET", "PROPN"]]
    assert X[0][0] == {"form": "vamos", "lemma": "ir", "feats": "Mood=Imp", "head": "0", "deprel": "root"}
    assert X[0][4]["form"] == "Nueva York"


def test_a_hash_may_begin_a_sentence_of_tabs(tmp_path):
    _, y = bf.read_conll(file(tmp_path, "a\tx\n\n# a comment\n#\ty\nb\tz\n"))
    assert y == [["x"], ["y", "z"]]
    _, y = bf.read_conll(file(tmp_path, "# x\na y\n"), comment=None)
    assert y == [["x", "y"]]


def test_a_hash_may_begin_a_sentence_of_blanks(tmp_path):
    X, y = bf.read_conll(file(tmp_path, "a NN x\n\n# NN y\nb NN z\n\n# text = a b\n#x NN y\n"))
    assert y == [["x"], ["y", "z"]]
    assert X[1][0]["word"] == "#"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_line_ends_blanks_and_marks(tmp_path, end):
    text = "\ufeff" + end.join(["a  x ", "", "", "b\u00a0c\u2028d  y"])
    (tmp_path / "f").write_bytes(text.encode())
    X, y = bf.read_conll(tmp_path / "f")
    assert y == [["x"], ["y"]]
    assert X[0][0]["word"] == "a"
    assert X[1][0]["word"] == "b\u00a0c\u2028d"


def test_words_nearby(tmp_path):
    X, _ = bf.read_conll(file(tmp_path, PLAIN), columns=["w", "pos", "y"], features=1)
    assert X[0][0] == {"w": "EU", "pos": "NNP", "+1:w": "rejects", "+1:pos": "VBZ", "BOS": True}
    assert X[0][1]["-1:w"] == "EU"
    assert X[1][0] == {"w": "2-1", "pos": "CD", "BOS": True, "EOS": True}
    X, _ = bf.read_conll(file(tmp_path, PLAIN), features=lambda s, t: [s[t]["word"].lower()])
    assert X[0][0] == ["eu"]


def test_a_field_learns_from_it(tmp_path):
    X, y = bf.read_conll(file(tmp_path, "a A\nb B\n\nb B\na A\n\n" * 5), features=1)
    assert bf.BayesianCRF().fit(X, y).predict([[{"word": "a"}, {"word": "b"}]]) == [["A", "B"]]


def test_there_and_back(tmp_path):
    path = file(tmp_path, PLAIN)
    X, y = bf.read_conll(path, columns=["word", "pos", "name"])
    bf.write_conll(tmp_path / "again", X, y)
    assert bf.read_conll(tmp_path / "again", columns=["word", "pos", "name"]) == (X, y)
    bf.write_conll(tmp_path / "words", X, columns=["word"])
    assert bf.read_conll(tmp_path / "words", label=None)[0] == [[{"word": i["word"]} for i in s] for s in X]


def test_an_empty_file(tmp_path):
    assert bf.read_conll(file(tmp_path, "\n\n")) == ([], [])


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("a b c\nd e\n", {}, "line 2: every word needs the same columns; the first has 3 and this has 2"),
        ("a\tb\nc d\n", {}, "line 2"),
        ("a b\n", {"columns": ["w"]}, "has 2 columns; got names for 1"),
        ("a b\n", {"columns": ["w", "w"]}, "a name of its own"),
        ("a b\n", {"label": 2}, "the label should be number 2"),
        ("a b\n", {"label": "pos"}, "no column 'pos'"),
        ("a b\n", {"features": -1}, "number of words"),
        ("a\nb\n\na\n", {}, "has one column: .* label=None"),
    ],
)
def test_what_is_refused(tmp_path, text, options, complaint):
    with pytest.raises(bf.InvalidInput, match=complaint):
        bf.read_conll(file(tmp_path, text), **options)


@pytest.mark.parametrize(
    ("X", "y", "complaint"),
    [
        ([[{"w": "a\tb"}]], [["x"]], "sentence 0, word 0"),
        ([[{"w": ""}]], [["x"]], "cannot stand in a column"),
        ([[{"w": "a"}]], [["x", "y"]], "as many labels as words"),
        ([[]], [[]], "nothing to write"),
    ],
)
def test_what_is_not_written(tmp_path, X, y, complaint):
    with pytest.raises(bf.InvalidInput, match=complaint):
        bf.write_conll(tmp_path / "f", X, y)
    assert not list(tmp_path.iterdir())
