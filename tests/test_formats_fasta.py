"""FASTA: letters and insertions, what is refused, weights of sequences, scores of contacts; and a real alignment."""

import gzip
import zlib

import numpy as np
import pytest

import bayesfield as bf

from tolerances import ALGEBRA

SMALL = """>one some words
AC-D
>two
AC
XD

>three
acACdd-.D
"""


def file(tmp_path, text):
    path = tmp_path / "small.fasta"
    path.write_text(text)
    return path


def test_letters_insertions_and_unknown_ones(tmp_path):
    with pytest.warns(UserWarning, match=r"10.0% of the letters \(X\) are not of the alphabet"):
        found = bf.read_fasta(file(tmp_path, SMALL))
    assert found.names == ("one some words", "two", "three")
    assert ["".join(row) for row in found.letters()] == ["AC-D", "AC-D", "AC-D"]
    assert found.codes.tolist() == [[0, 1, 20, 2]] * 3


def test_insertions_kept_and_other_alphabets(tmp_path):
    text = file(tmp_path, ">a\nacgt\n>b\nAC.N\n")
    with pytest.warns(UserWarning, match="14.3% of the letters"):
        found = bf.read_fasta(text, alphabet="ACGT-", insertions="keep", unknown="gap")
    assert ["".join(row) for row in found.letters()] == ["ACGT", "AC--"]
    found = bf.read_fasta(file(tmp_path, "# a comment\n>a\n0110\n>b\n0011\n"), alphabet="01")
    assert found.codes.tolist() == [[0, 1, 1, 0], [0, 0, 1, 1]]


def aligned(letters, shares, seed=0, count=60, length=50, gaps=0.1):
    """Random sequences of these letters."""
    rng = np.random.default_rng(seed)
    cells = rng.choice(list(letters), p=shares, size=(count, length))
    return np.where(rng.random(cells.shape) < gaps, "-", cells)


def fasta(cells):
    return "".join(f">s{k}\n{''.join(row)}\n" for k, row in enumerate(cells))


PROTEINS = np.array(
    [8.3, 1.4, 5.5, 6.7, 3.9, 7.1, 2.3, 5.9, 5.8, 9.7, 2.4, 4.1, 4.7, 3.9, 5.5, 6.6, 5.3, 6.9, 1.1, 2.9]
)
PROTEINS /= PROTEINS.sum()  # shares of amino acids in Swiss-Prot
KINDS = {
    "protein": (aligned("ACDEFGHIKLMNPQRSTVWY", PROTEINS), "ACDEFGHIKLMNPQRSTVWY-"),
    "DNA": (aligned("ACGT", [0.3, 0.2, 0.2, 0.3]), "ACGT-"),
    "RNA": (aligned("ACGU", [0.25, 0.21, 0.25, 0.29]), "ACGU-"),  # as RF00167
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("low", [False, True])
def test_the_alphabet_is_found(tmp_path, kind, low):
    cells, alphabet = KINDS[kind]
    text = fasta(cells).lower() if low else fasta(cells)
    found = bf.read_fasta(file(tmp_path, text), insertions="keep" if low else "drop")
    assert found.alphabet == alphabet
    np.testing.assert_array_equal(found.letters(), cells)


def test_t_and_u_are_one_letter(tmp_path):
    cells = KINDS["RNA"][0]
    mixed = np.where((np.arange(len(cells)) % 3 == 0)[:, None] & (cells == "U"), "T", cells)
    np.testing.assert_array_equal(bf.read_fasta(file(tmp_path, fasta(mixed))).letters(), cells)


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_letters_are_said_or_refused(tmp_path, kind):
    cells, alphabet = KINDS[kind]
    rng = np.random.default_rng(1)
    for letters in ("X", "N" if kind != "protein" else "B", "XBZJO"):
        spoilt = np.where(rng.random(cells.shape) < 0.3, rng.choice(list(letters), size=cells.shape), cells)
        path = file(tmp_path, fasta(spoilt))
        with pytest.raises(bf.InvalidInput, match=r"of the letters .*alphabet"):
            bf.read_fasta(path)
        with pytest.raises(bf.InvalidInput, match="which is not of the alphabet"):
            bf.read_fasta(path, alphabet=alphabet, unknown="refuse")
        with pytest.warns(UserWarning, match="of the letters .* and are read as gaps"):
            bf.read_fasta(path, alphabet=alphabet, unknown="gap")
    seldom = np.where(rng.random(cells.shape) < 0.03, "X", cells)
    with pytest.warns(UserWarning, match="of the letters .* and are read as gaps"):
        assert bf.read_fasta(file(tmp_path, fasta(seldom))).alphabet == alphabet


def test_letters_of_two_kinds_are_refused(tmp_path):
    for share in (0.1, 0.5, 0.9):
        some = int(60 * share)
        cells = np.concatenate([KINDS["RNA"][0][:some], KINDS["protein"][0][some:]])
        with pytest.raises(bf.InvalidInput, match=r"mixes proteins and nucleic acids|too many for a protein"):
            bf.read_fasta(file(tmp_path, fasta(cells)))
    anything = aligned("ABCDEFGHIJKLMNOPQRSTUVWXYZ", [1 / 26] * 26)
    half = np.where(np.random.default_rng(2).random(anything.shape) < 0.3, anything, KINDS["RNA"][0])
    with pytest.raises(bf.InvalidInput, match=r"too many for a protein|mixes"):
        bf.read_fasta(file(tmp_path, fasta(half)))


def test_packed_files(tmp_path):
    path = tmp_path / "small.gz"
    path.write_bytes(gzip.compress(SMALL.encode()))
    with pytest.warns(UserWarning, match="read as gaps"):
        assert len(bf.read_fasta(path).names) == 3
    path.write_bytes(gzip.compress(SMALL.encode())[:-12])
    with pytest.raises(bf.InvalidInput, match="cut short"):
        bf.read_fasta(path)


def test_a_bomb_is_not_unpacked(tmp_path):
    packer = zlib.compressobj(9, wbits=31)
    chunk = b"A" * 2**20
    path = tmp_path / "bomb.gz"
    path.write_bytes(b"".join([packer.compress(b">a\n"), *(packer.compress(chunk) for _ in range(64)), packer.flush()]))
    with pytest.raises(bf.InvalidInput, match="more than 1,000,000 bytes once unpacked"):
        bf.read_fasta(path, max_bytes=10**6)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_marks_and_what_stands_above(tmp_path, end):
    text = "\ufeff" + end.join(["", "# a comment", "; another", ">one > two", "AC", "", "D-", ">", "ACD-"])
    (tmp_path / "f").write_bytes(text.encode())
    found = bf.read_fasta(tmp_path / "f")
    assert found.names == ("one > two", "")
    assert ["".join(row) for row in found.letters()] == ["ACD-", "ACD-"]


BROKEN = {
    "empty among others": (">a\nACD\n>b\n>c\nACD\n", {}, "line 3: sequence 'b' has 0 columns and the first one 3"),
    "a line above": ("# fine\n\nACD\n>a\nACD\n", {}, "line 3: a FASTA file begins with '>name'; found b'ACD'"),
    "a sign, later": (">a\nACD\n\n>b*\nA\nC!\n", {}, "line 4: sequence 'b\\*' holds '!'"),
    "ragged": (">a\nACD\n>b\nAC\n", {}, "line 3: sequence 'b' has 2 columns and the first one 3"),
    "no name": ("ACD\n", {}, "line 1: a FASTA file begins with"),
    "empty": ("", {}, "no sequences"),
    "only names": (">a\n>b\n", {}, "no sequences"),
    "a sign": (">a\nAC*\n", {}, "holds '\\*', which is no letter"),
    "unknown": (">a\nACX\n", {"unknown": "refuse"}, "holds 'X', which is not of the alphabet"),
    "unknown without a gap": (">a\nACX\n", {"alphabet": "ACG"}, "holds 'X'"),
    "an alphabet twice": (">a\nA\n", {"alphabet": "AA"}, "different ASCII letters"),
    "another word": (">a\nA\n", {"insertions": "maybe"}, "'drop', 'keep'; got 'maybe'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_in_plain_words(tmp_path, name):
    text, options, complaint = BROKEN[name]
    with pytest.raises(bf.InvalidInput, match=complaint):
        bf.read_fasta(file(tmp_path, text), **options)


@pytest.mark.parametrize("identity", [0.3, 0.8, 1.0])
def test_weights_by_plain_counting(identity):
    codes = np.random.default_rng(0).integers(3, size=(60, 10)).astype(np.int8)
    codes[50:] = codes[0]
    made = bf.Alignment(tuple(map(str, range(60))), codes, "AC-")
    same = (codes[:, None] == codes[None]).mean(axis=2)
    np.testing.assert_allclose(made.weights(identity), 1.0 / (same >= identity - 1e-12).sum(axis=1), atol=ALGEBRA)
    assert made.effective(identity) == pytest.approx(made.weights(identity).sum())
    with pytest.raises(bf.InvalidInput, match="share of the columns"):
        made.weights(0.0)


def test_weights_in_a_fit():
    """Copies of a sequence, each with its share, count as one."""
    codes = np.unique(np.random.default_rng(1).integers(3, size=(40, 4)), axis=0).astype(np.int8)
    twice = np.concatenate([codes, codes])
    family = bf.Alignment(tuple(map(str, range(len(twice)))), twice, "AC-")
    field = bf.potts(4, [(0, 1), (1, 2), (2, 3)], 3)
    weighted = bf.fit(field, family.codes, weights=family.weights(1.0))
    np.testing.assert_allclose(weighted.mode, bf.fit(field, codes).mode, atol=1e-6)


# --- scores of contacts -------------------------------------------------------------------------------------


def plain_scores(J, gap):
    """Pair by pair, as the papers write it."""
    L, q = len(J), J.shape[2]
    F = np.zeros((L, L))
    kept = [a for a in range(q) if a != gap]
    for i in range(L):
        for j in range(i + 1, L):
            T = J[i, j]
            Z = [[T[a, b] - T[:, b].mean() - T[a].mean() + T.mean() for b in kept] for a in kept]
            F[i, j] = F[j, i] = np.sqrt(np.square(Z).sum())
    mean = F.sum(axis=1) / (L - 1)
    return F - np.outer(mean, mean) / (F.sum() / (L * (L - 1)))


def test_scores_of_an_array():
    J = np.random.default_rng(0).normal(size=(5, 5, 3, 3))
    table = bf.contact_scores(J, gap=2)
    wanted = plain_scores(J, 2)[table["first"], table["second"]]
    np.testing.assert_allclose(table["score"], wanted, atol=ALGEBRA)
    assert table["score"].is_monotonic_decreasing
    assert len(bf.contact_scores(J)) == 10


def test_scores_of_a_posterior_find_the_edges():
    field = bf.potts(5, [(i, j) for j in range(5) for i in range(j)], list("AC-"), interaction="table")
    truth = bf.potts(5, [(0, 1), (2, 4)], list("AC-"))
    X = bf.sample(truth, np.r_[np.zeros(10), 1.5, 1.5], 400, 0)
    posterior = bf.fit(field, X)
    table = bf.contact_scores(posterior, n_draws=50)
    assert {tuple(row) for row in table[["first", "second"]].to_numpy()[:2]} == {("x0", "x1"), ("x2", "x4")}
    assert (table["sd"] > 0).all()
    assert table["score"][1] - 2 * table["sd"][1] > table["score"][2]
    ranked = bf.contact_scores(posterior, n_draws=50, best=2)
    assert ranked["p_best"].sum() == pytest.approx(2.0)
    assert (ranked["p_best"][:2] > 0.9).all()
    far = bf.contact_scores(posterior, n_draws=50, best=1, apart=2)
    assert set(zip(far["first"], far["second"], strict=True)) == {
        (f"x{i}", f"x{j}") for j in range(5) for i in range(j - 1)
    }
    assert far["p_best"].sum() == pytest.approx(1.0)
    J = np.zeros((5, 5, 3, 3))
    edge = posterior.mean[10:].reshape(-1, 2, 2)
    for e, (i, j) in enumerate(field.edges):
        J[i, j, 1:, 1:] = edge[e]
    wanted = bf.contact_scores(J, gap=2)
    np.testing.assert_allclose(table["score"], wanted["score"], atol=ALGEBRA)


def test_scores_where_there_are_none():
    with pytest.raises(bf.InvalidInput, match="L, L, q, q"):
        bf.contact_scores(np.zeros((3, 3)))
    with pytest.raises(bf.InvalidInput, match="got str"):
        bf.contact_scores("AC")
    assert (bf.contact_scores(np.zeros((3, 3, 2, 2)))["score"] == 0).all()


# --- a real family ------------------------------------------------------------------------------------------


def mean_field_couplings(codes, weights, q, pseudocount=0.5):
    """J = −C⁻¹ of the weighted frequencies (Morcos et al. 2011)."""
    N, L = codes.shape
    one = np.eye(q)[codes].reshape(N, -1)
    share = weights / weights.sum()
    f = (1 - pseudocount) * (share @ one) + pseudocount / q
    pair = (1 - pseudocount) * (one * share[:, None]).T @ one + pseudocount / q**2
    for i in range(L):
        own = slice(i * q, i * q + q)
        pair[own, own] = np.diag(f[own])
    kept = np.flatnonzero(np.arange(L * q) % q < q - 1)
    J = np.zeros((L * q, L * q))
    J[np.ix_(kept, kept)] = -np.linalg.inv((pair - np.outer(f, f))[np.ix_(kept, kept)])
    return J.reshape(L, q, L, q).transpose(0, 2, 1, 3)


def test_a_real_family(data):
    """The Kunitz domain: 13,600 sequences count for 4,364 (Trinquier et al. 2021); its best pairs do touch."""
    found = bf.read_fasta(data / "protein" / "PF00014_mgap6.fasta.gz")
    assert found.codes.shape == (13_600, 53)
    weights = found.weights()
    assert round(weights.sum()) == 4364
    table = bf.contact_scores(mean_field_couplings(found.codes, weights, 21), gap=20)
    rows = np.loadtxt(data / "protein" / "PF00014_struct.dat.gz")
    distance = {(int(i) - 1, int(j) - 1): far for i, j, _, far in rows}
    best = [(i, j) for i, j in zip(table["first"], table["second"], strict=True) if j - i > 4][:30]
    assert np.mean([distance[pair] < 8.0 for pair in best]) >= 0.95
