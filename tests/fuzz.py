"""Broken and hostile files: ``python tests/fuzz.py uai|csv|saved|draws|fasta|conll --minutes 10 --seed 0``.

Valid files are changed at random and read in a process of its own, with limits on its time and memory. A reader may
succeed, or raise a BayesfieldError; any other error, a hang or a crash is a finding: it is printed, its file is kept,
and the exit code is 1.
"""

import argparse
import contextlib
import gzip
import hashlib
import io
import json
import multiprocessing
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

SECONDS = 10.0  # of the processor, that one file may take
PATIENCE = 60.0  # seconds by the clock: other work may be in the way
ROOM = 4 << 30  # bytes that reading may take beyond what the process has
SEEDS = Path(__file__).parent / "files" / "fuzz"
LONGEST = 4_000_000  # bytes of a file
READERS = ("uai", "csv", "saved", "draws", "fasta", "conll")

NUMBERS = ["0", "-1", "1", "2", "3", "7", "255", "65536", "2147483648", "9223372036854775807", "9223372036854775808"]
NUMBERS += [
    "1" + "0" * 30,
    "1" + "0" * 5000,
    "1e308",
    "1e999",
    "-1e-320",
    "nan",
    "inf",
    "-inf",
    "0x10",
    "1_000",
    "٣",
    "²",
]
WORDS = [
    "",
    " ",
    "\n",
    "\r",
    "\t",
    "\n\n",
    "\x00",
    "\x00" * 100,
    "\ufeff",
    "\u2028",
    "\x85",
    "é",
    "😀",
    '"',
    "'",
    ",",
    ";",
]
WORDS += [
    ">",
    "#",
    "-",
    ".",
    "_",
    "MARKOV",
    "BAYES",
    "-DOCSTART-",
    "[" * 100_000,
    '{"a":' * 20_000,
    "(" * 500,
    "A" * 70_000,
]
BYTES = [b"\xff", b"\xfe\xff", b"\xc3", b"\xed\xa0\x80", b"\x1f\x8b", b"PK\x05\x06", b"\x00" * 5000]


class Finding(NamedTuple):
    what: str
    number: int
    file: Path


def run(reader: str, folder: Path, seed: int = 0, inputs: int | None = None, seconds: float | None = None):
    """Read changed files until there were so many, or the time is over. Returns how many of each outcome, findings."""
    seeds = seed_files(reader)
    until = time.monotonic() + (seconds or float("inf"))
    tally, findings, number = {"read": 0, "refused": 0}, [], 0
    path = folder / f"input{endings(reader)}"
    child = Child(reader)
    while number < (inputs or float("inf")) and time.monotonic() < until:
        data = changed(reader, seeds, random.Random(f"{reader} {seed} {number}"))[:LONGEST]
        path.write_bytes(data)
        answer = child.ask(path)
        if answer in tally:
            tally[answer] += 1
        else:
            kept = folder / f"{reader}-{seed}-{number}.bad"
            kept.write_bytes(data)
            findings.append(Finding(answer, number, kept))
        number += 1
    child.end()
    return tally, findings


# --- reading, in a process of its own -----------------------------------------------------------------------


class Child:
    """A process that reads files; one that hangs or dies is replaced."""

    def __init__(self, reader: str) -> None:
        self._reader = reader
        self._begin()

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=serve, args=(self._reader, there), daemon=True)
        self._process.start()
        there.close()
        if not self._pipe.poll(120.0) or self._pipe.recv() != "ready":
            raise RuntimeError("the reading process does not start")

    def ask(self, path: Path) -> str:
        self._pipe.send(str(path))
        try:
            if self._pipe.poll(PATIENCE):
                return self._pipe.recv()
            answer = f"hangs for {PATIENCE} s"
        except EOFError:
            self._process.join()
            answer = f"crashed with exit code {self._process.exitcode}"
        self.end()
        self._begin()
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def serve(reader: str, pipe) -> None:
    import bayesfield as bf

    warnings.simplefilter("ignore")
    read = readers()[reader]
    with tempfile.TemporaryDirectory() as folder:  # what is compiled and imported later is no fault of a file
        for k, data in enumerate(seed_files(reader)):
            path = Path(folder) / f"{k}{endings(reader)}"
            path.write_bytes(data)
            with contextlib.suppress(bf.BayesfieldError):  # some only read with other options
                read(path)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, held + ROOM))
    pipe.send("ready")
    while True:
        try:
            path = pipe.recv()
        except EOFError:
            return
        begun = time.process_time()
        try:
            read(path)
            answer = "read"
        except bf.BayesfieldError:
            answer = "refused"
        except BaseException:
            answer = traceback.format_exc(limit=-4)
        took = time.process_time() - begun
        pipe.send(f"takes {took:.0f} s" if took > SECONDS else answer)


def endings(reader: str) -> str:
    return ".csv" if reader == "csv" else ".input"


def readers():
    import bayesfield as bf
    from bayesfield.cli.fields import Model, field_of
    from bayesfield.formats import tables
    from bayesfield.formats.models import uai

    def conll(path):
        with contextlib.suppress(bf.BayesfieldError):
            bf.read_conll(path, label=None, separator="\t", comment=None)
        bf.read_conll(path, features=2)

    def fasta(path):
        with contextlib.suppress(bf.BayesfieldError):
            bf.read_fasta(path, insertions="keep", max_bytes=2**26)
        found = bf.read_fasta(path)
        if len(found.names) < 1000:  # of many it takes long, and should
            found.effective()

    def csv(path):
        cases = tables.read_cases(path)
        if cases.shape[1] < 30:
            field_of(cases, Model.potts, "complete")

    def saved(path):
        posterior = bf.load(path)
        posterior.summary()
        posterior.sample(2, 0)

    field = bf.grid(2, 2)

    def draws(path):
        found = bf.load_draws(path, field)
        assert found.flat.shape[1] == field.n_parameters
        assert all(figures.shape == found.values.shape[:2] for figures in found.stats.values())
        assert [chain.normals.normal() < 100 for chain in found.chains]

    def network(path):
        kind = Path(path).read_bytes()[:4].split(b"\n")[0]
        named = {b"PR": uai.read_pr, b"MAR": uai.read_mar, b"MPE": uai.read_mpe}
        if kind in named:
            named[kind](path)
        elif kind[:1].isdigit():
            uai.read_evidence(path)
        else:
            uai.read_model(path)

    return {"uai": network, "csv": csv, "saved": saved, "draws": draws, "fasta": fasta, "conll": conll}


# --- files that are valid -----------------------------------------------------------------------------------


def seed_files(reader: str) -> list[bytes]:
    if reader == "saved":
        return [path.read_bytes() for path in sorted(SEEDS.glob("*.bf"))]
    if reader == "draws":
        return [saved_draws(own) for own in (None, 1.5, [3, 4])]
    return [text.encode() for text in TEXTS[reader]] + (
        [gzip.compress(TEXTS["fasta"][0].encode())] * (reader == "fasta")
    )


def saved_draws(own) -> bytes:
    """Draws that no sampler made. own: what a chain remembers."""
    import numpy as np

    import bayesfield as bf
    from bayesfield.samplers.contract import Chain

    rng = np.random.default_rng(0)
    values = rng.normal(size=(2, 5, 8))
    generators = [np.random.default_rng(k) for k in range(4)]
    own = None if own is None else np.array(own)
    chains = [Chain(values[k, -1], *generators[2 * k : 2 * k + 2], 0.5, own) for k in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.npz"
        bf.Draws(bf.grid(2, 2), values, {"energy": values[..., 0]}, chains, "Metropolis", 10, 2, 0.5).save(path)
        return path.read_bytes()


TEXTS = {
    "uai": [
        "MARKOV\n3\n2 2 3\n2\n2 0 1\n3 0 1 2\n\n4\n 4.0 2.4\n 1.0 0.0\n\n12\n" + " 2.25 3.25 3.75 0.0 10.0 1.5" * 2,
        "BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n 0.4 0.6\n\n4\n 0.1 0.9 0.5 0.5\n",
        "MARKOV\n1\n1\n2\n0\n1 0\n1\n2.0\n1\n3.5\n",
        "PR\n1.25\n",
        "MAR\n2 2 0.5 0.5 3 0.2 0.3 0.5\n",
        "MPE\n3 0 1 2\n",
        "1\n2 0 1 1 0\n",
    ],
    "csv": [
        "a,b,c\n0,1,0\n1,,1\n0,0,1\n",
        '"x, y","z"\n"no","yes"\n"yes",""\n',
        "v1,v2\n-1,1\n1.0,-1\n",
        "when,what\n2020-01-01,True\n2021-01-01,False\n",
    ],
    "fasta": [
        ">one some words\nAC-D\n>two\nAC\nXD\n\n>three\nacACdd-.D\n",
        ">s\n" + "ACDEFGHIKLMNPQRSTVWY-" * 3 + "\n>t\n" + "YWVTSRQPNMLKIHGFEDCA-" * 3 + "\n",
        "#A3M#\n; old\n>q\nAAAA\n",
    ],
    "conll": [
        "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n# NN O\n\n2-1 CD O\n",
        "# sent_id = 1\n1-2\tab" + "\t_" * 8 + "\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n1.1\tc" + "\t_" * 8 + "\n",
        "a\tx\n\nb\ty\n",
    ],
}


# --- files that are not -------------------------------------------------------------------------------------


def changed(reader: str, seeds: list[bytes], rng: random.Random) -> bytes:
    data = rng.choice(seeds)
    if reader == "saved":
        return changed_archive(data, seeds, rng)
    if reader == "draws":
        return changed_draws(data, seeds, rng)
    if data[:2] == b"\x1f\x8b" and rng.random() < 0.5:
        return gzip.compress(mutated(gzip.decompress(data), seeds, rng))
    return mutated(data, seeds, rng)


def mutated(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    """One to four changes of the bytes."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        data = rng.choice(CHANGES)(data, seeds, rng)
    return data


def flip(data, seeds, rng):
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 20])):
        if out:
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(data, seeds, rng):
    a, b = place(data, rng), place(data, rng)
    return rng.choice([data[:a], data[a:], data[: min(a, b)] + data[max(a, b) :]])


def splice(data, seeds, rng):
    other = rng.choice(seeds)
    return data[: place(data, rng)] + other[place(other, rng) :]


def double(data, seeds, rng):
    a, b = sorted((place(data, rng), place(data, rng)))
    return data[:b] + data[a:b] * rng.choice([1, 1, 2, 10, 300]) + data[b:]


def put(data, seeds, rng):
    word = rng.choice([w.encode() for w in WORDS] + [n.encode() for n in NUMBERS] + BYTES)
    a = place(data, rng)
    return data[:a] + word + data[a:]


def renumber(data, seeds, rng):
    found = list(re.finditer(rb"[0-9][0-9.e+-]*", data))
    if not found:
        return data
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(NUMBERS).encode() + data[one.end() :]


def swap_lines(data, seeds, rng):
    lines = data.split(b"\n")
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def place(data, rng):
    return rng.randrange(len(data) + 1)


CHANGES = (flip, cut, splice, double, put, renumber, renumber, swap_lines)


# --- archives: changes inside, with the checksums made to fit -----------------------------------------------


def changed_archive(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return mutated(data, seeds, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(entries["header.json"])
    for _ in range(rng.choice([1, 1, 2, 5])):
        if rng.random() < 0.3 and header["arrays"]:
            change_array(header, entries, rng)
        else:
            header = changed_value(header, rng, ("content",) if rng.random() < 0.9 else ())
            if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
                break
    return archived(header, entries, rng)


def archived(header, entries: dict[str, bytes], rng: random.Random) -> bytes:
    from bayesfield.formats.posteriors import saved

    text = json.dumps(header).encode()
    if rng.random() < 0.1:
        text = mutated(text, [text], rng)
    elif isinstance(header, dict) and "content" in header:
        try:
            header["sha256"] = saved._digest(header["content"])
            text = json.dumps(header, allow_nan=rng.random() < 0.5).encode()
        except ValueError:
            pass
    return zipped(entries | {"header.json": text}, rng)


def zipped(entries: dict[str, bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.03:
        entries.pop(rng.choice(list(entries)))
    out = io.BytesIO()
    kind = rng.choice(
        [zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2]
    )
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return out.getvalue()


def changed_draws(data: bytes, seeds: list[bytes], rng: random.Random) -> bytes:
    import numpy as np

    warnings.simplefilter("ignore")  # of what is made of strange numbers
    if rng.random() < 0.15:
        return mutated(data, seeds, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(str(np.load(io.BytesIO(entries["header.npy"]))))
    for _ in range(rng.choice([1, 1, 2, 5])):
        if rng.random() < 0.5:
            name = rng.choice(list(entries))
            entries[name] = changed_array(entries[name], rng)
        elif isinstance(header, dict):
            header = changed_value(header, rng, ())
            out = io.BytesIO()
            np.save(out, np.array(json.dumps(header)))
            entries["header.npy"] = out.getvalue()
    return zipped(entries, rng)


def change_array(header, entries: dict[str, bytes], rng: random.Random) -> None:
    import numpy as np

    warnings.simplefilter("ignore")  # of what is made of strange numbers
    number = rng.randrange(len(header["arrays"]))
    name = f"arrays/{number}.npy"
    if name not in entries or not isinstance(header["arrays"][number], dict):
        return
    data = entries[name] = changed_array(entries[name], rng)
    told = header["arrays"][number]
    told["sha256"] = hashlib.sha256(data).hexdigest()
    try:
        found = np.lib.format.read_array(io.BytesIO(data[:10_000_000]), allow_pickle=False)
        told["type"], told["shape"] = found.dtype.str, list(found.shape)
    except Exception:
        told["shape"] = [10**9]


def changed_array(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return mutated(data, [data], rng)
    if rng.random() < 0.2:
        return claimed(rng.choice([(10**9,), (10**6, 10**6), (2**62,), (2**33, 2**33), (0, 10**12), (-1,)]), rng)
    return other_array(data, rng)


def claimed(shape, rng: random.Random) -> bytes:
    """An array that says it is larger than its bytes."""
    text = repr({"descr": rng.choice(["<f8", "<i8", "|b1"]), "fortran_order": False, "shape": shape}).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + b"\x00" * 64


def other_array(data: bytes, rng: random.Random) -> bytes:
    """Other numbers, or another shape or type."""
    import numpy as np

    try:
        array = np.lib.format.read_array(io.BytesIO(data), allow_pickle=False).copy()
    except Exception:
        return data
    flat = array.reshape(-1)
    change = rng.randrange(6)
    if change <= 2 and flat.size:
        values = [0, 1, -1, 2, 5, 100, 2**31, 2**62, -(2**63)]
        values += [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-320] * (array.dtype.kind == "f")
        for _ in range(rng.choice([1, 1, 5])):
            with contextlib.suppress(OverflowError, ValueError):
                flat[rng.randrange(flat.size)] = rng.choice(values)
        array = flat.reshape(array.shape)
    elif change == 3:
        none = array[:0] if array.ndim else flat[:0]
        array = rng.choice([flat, array.T, array[None], none, array[..., None], flat[: flat.size // 2]])
    elif change == 4:
        with np.errstate(all="ignore"), contextlib.suppress(ValueError):
            array = array.astype(rng.choice(["f4", "i1", "u8", ">f8", "?", "f2", "i4"]))
    else:
        array = np.concatenate([flat, flat])
    out = io.BytesIO()
    np.lib.format.write_array(out, np.ascontiguousarray(array), allow_pickle=False)
    return out.getvalue()


def changed_value(header, rng: random.Random, start):
    """The header with one value, somewhere inside, replaced, doubled, dropped or exchanged."""
    nodes = list(walk(header, ()))
    inner = [n for n in nodes if n[: len(start)] == start and n]
    where = rng.choice(inner or nodes)
    if not where:
        return header
    parent = at(header, where[:-1])
    change = rng.randrange(6)
    if change == 0:
        del parent[where[-1]]
    elif change == 1:
        parent[where[-1]] = json.loads(json.dumps(at(header, rng.choice(nodes))))
    elif change == 2 and isinstance(parent, list):
        parent.insert(where[-1], json.loads(json.dumps(parent[where[-1]])))
    elif change == 3 and isinstance(parent, dict):
        parent[rng.choice(["kind", "array", "tuple", "map", "table", "has", "__class__", "x"])] = parent[where[-1]]
    else:
        parent[where[-1]] = strange(parent[where[-1]], rng)
    return header


def strange(value, rng: random.Random):
    numbers = [0, 1, -1, 2, 3, 2**31, 2**63, 10**9, 10**12, 10**400, 0.5, -0.5, 1e300, float("nan"), float("inf")]
    texts = [
        "",
        "x",
        "nan",
        "\x00",
        "\ud800",
        "é" * 50,
        "Exact",
        "Bethe",
        "RandomField",
        "CRF",
        "FactorBlock",
        "dense",
        "sparse",
    ]
    texts += ["block", "Kikuchi", "Sampled", "Auto", "Enumeration", "__import__", "OPTIMUM", "A" * 100_000]
    others = [
        None,
        True,
        [],
        {},
        [[]],
        [0] * 1000,
        {"array": 0},
        {"array": 1},
        {"tuple": []},
        {"map": [[1, 2]]},
        {"number": "nan"},
    ]
    if isinstance(value, int | float) and rng.random() < 0.7:
        return rng.choice(numbers)
    if isinstance(value, str) and rng.random() < 0.7:
        return rng.choice(texts)
    if isinstance(value, list) and value and rng.random() < 0.3:
        return value * rng.choice([2, 50])
    if rng.random() < 0.05:
        return nested(rng.choice([50, 300]))
    return rng.choice([*numbers, *texts, *others])


def nested(depth: int):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def walk(value, path):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from walk(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("reader", choices=READERS)
    ask.add_argument("--minutes", type=float, default=10.0)
    ask.add_argument("--inputs", type=int, default=None)
    ask.add_argument("--seed", type=int, default=0)
    ask.add_argument("--folder", type=Path, default=None, help="where files that fail are kept")
    given = ask.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    tally, findings = run(given.reader, folder, given.seed, given.inputs, 60.0 * given.minutes)
    for found in findings:
        print(f"--- seed {given.seed}, input {found.number}, kept as {found.file}\n{found.what}")
    print(f"{given.reader}: {tally}, {len(findings)} findings; files in {folder}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
