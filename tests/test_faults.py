"""Faults: processes that are killed, disks that are full, caches that are broken, memory that is limited.

What was there before is whole, or what is new is; a line says what went wrong; the exit status tells.
"""

import errno
import json
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import bayesfield as bf
from bayesfield import doors, memory, outputs
from bayesfield.fitting import display, pipeline
from bayesfield.formats.frames import names_text, read_frame, write_frame
from bayesfield.kernels import jit

unix = pytest.mark.skipif(sys.platform == "win32", reason="signals, forks and limits are Unix's")
HERE = Path(__file__).parent


# --- killed, or out of room, at every call that changes the disk --------------------------------------------------


def struck(tmp_path, command, mode, first=1, last=10**6, step=1):
    """What killed.py says of each point."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / "killed.py", tmp_path, command, mode, str(first), str(last), str(step)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_points(points, mode):
    for point in points:
        assert point["whole"] in ([0], [1]), point
        assert point["next"], point
        if mode == "kill":
            assert point["status"] is None
        elif point["status"] == 1:
            assert os.strerror(getattr(errno, mode)) in point["said"][0], point
            assert "as it was" not in point["said"][0] or point["whole"] == [0], point


@unix
@pytest.mark.parametrize(
    ("command", "mode", "step"), [("fit", "kill", 4), ("folders", "kill", 2), ("fit", "ENOSPC", 5)]
)
def test_old_or_new_files_whole(tmp_path, command, mode, step):
    count, *points = struck(tmp_path, command, mode, step=step)
    assert len(points) == -(-count["calls"] // step)
    check_points(points, mode)
    assert points[0]["whole"] == [0]
    assert points[-1]["whole"] == [1]


@unix
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "ENOSPC", "EROFS", "EIO"])
@pytest.mark.parametrize("command", ["fit", "save", "report", "convert", "handover", "folders", "reproduce"])
def test_old_or_new_files_whole_at_every_point(tmp_path, command, mode):
    count, *points = struck(tmp_path, command, mode)
    assert len(points) == count["calls"] >= 5
    check_points(points, mode)


@unix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_device_that_is_full(tmp_path):
    with pytest.raises(bf.InvalidInput, match="cannot write /dev/full: No space left"):
        outputs.write_text("/dev/full", "a")


def failing(monkeypatch, number, name):
    def call(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, call)


def test_a_disk_that_may_not_be_written_to(tmp_path, monkeypatch):
    outputs.write_text(tmp_path / "a", "old")
    with monkeypatch.context() as patch:
        failing(patch, errno.EROFS, "replace")
        with pytest.raises(bf.InvalidInput, match="Read-only file system; what was there before is as it was"):
            outputs.write_text(tmp_path / "a", "new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_an_error_within_writes_nothing(tmp_path):
    with pytest.raises(bf.InvalidInput, match="half of a character"), outputs.as_one():
        two_files(tmp_path, "b\ud800")
    assert list(tmp_path.iterdir()) == []
    with outputs.as_one(), outputs.as_one():  # the inner is part of the outer
        outputs.write_text(tmp_path / "a", "first")
        outputs.write_text(tmp_path / "a", "second")
        assert list(tmp_path.iterdir()) == []
    assert (tmp_path / "a").read_text() == "second"


def test_readers_complete_an_interrupted_write(tmp_path, monkeypatch):
    """Where the renames fail the new files count, and the next reader puts them in their places."""
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "_apply", lambda place: (_ for _ in ()).throw(OSError(errno.EIO, "I/O error")))
        with pytest.raises(bf.InvalidInput, match="Nothing is lost"), outputs.as_one():
            two_files(tmp_path, "b")
    assert not (tmp_path / "a.csv").exists()
    assert list(read_frame(tmp_path / "a.csv").columns) == ["x", "y"]
    assert (tmp_path / "b").read_text() == "b"
    assert not list(tmp_path.glob(".bayesfield*"))


def two_files(folder, text):
    csv(folder / "given.csv")
    write_frame(folder / "a.csv", read_frame(folder / "given.csv"))
    (folder / "given.csv").unlink()
    outputs.write_text(folder / "b", text)


def csv(path):
    path.write_text("x,y\n1,2\n")
    return path


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"moves": [[".bayesfield-new-0", "../a"]], "removals": [], "decided_by": null, "others": []}',
        '{"moves": [["a", "b"]], "removals": [], "decided_by": null, "others": []}',
        '{"moves": [], "removals": ["/etc/passwd"], "decided_by": null, "others": []}',
    ],
)
def test_journals_of_others_are_not_followed(tmp_path, content):
    (tmp_path / outputs.JOURNAL).write_text(content)
    with pytest.raises(bf.InvalidInput, match="delete it"):
        read_frame(csv(tmp_path / "a.csv"))


def test_formulas_in_names_are_quoted(tmp_path):
    names = ["=1+1", "+b", "-1:word", "@d", "plain"]
    X = np.random.default_rng(0).choice([0, 1], size=(30, 5))
    posterior = bf.fit(bf.pairwise(5, [(0, 1)], names=names), X)
    bf.write_handover(tmp_path, posterior)
    text = (tmp_path / "parameters.csv").read_text() + (tmp_path / "couplings.csv").read_text()
    cells = [cell for line in text.splitlines() for cell in line.split(",")]
    assert "'=1+1" in cells
    assert "'-1:word" in cells
    assert "plain" in cells
    assert not any(cell in names[:4] for cell in cells)
    assert names_text(posterior.summary()[["mean"]]).splitlines()[1] == repr(float(posterior.mean[0]))  # numbers stay


# --- memory -------------------------------------------------------------------------------------------------------


def groups(root, line, **files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(line)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return memory._of_groups(root)


def test_limits_of_control_groups(tmp_path):
    use = {"memoryDOTcurrent": "700\n", "memoryDOTstat": "anon 1\ninactive_file 300\n"}
    inner = {f"job__step__{name}": text for name, text in use.items()}
    assert groups(tmp_path / "v2", "0::/job/step\n", job__step__memoryDOTmax="1000\n", **inner) == 600
    assert groups(tmp_path / "high", "0::/job/step\n", job__step__memoryDOThigh="900\n", **inner) == 500
    outer = {"job__memoryDOTmax": "500", "job__memoryDOTcurrent": "450"}
    assert groups(tmp_path / "outer", "0::/job/step\n", job__step__memoryDOTmax="max\n", **inner, **outer) == 50
    inside = {"memoryDOTmax": "1000", **use}  # a container sees its group as the top
    assert groups(tmp_path / "container", "0::/docker/abc\n", **inside) == 600
    old = {"memory__memoryDOTlimit_in_bytes": "900", "memory__memoryDOTusage_in_bytes": "100"}
    assert groups(tmp_path / "v1", "4:cpu,memory:/\n0::/\n", **old) == 800
    none = {"memory__memoryDOTlimit_in_bytes": str(2**63 - 4096)}
    assert groups(tmp_path / "none", "4:memory:/\n", **none) == memory._UNLIMITED
    assert groups(tmp_path / "absent", "") == memory._UNLIMITED


def test_a_small_group_refuses_what_the_machine_could_hold(monkeypatch):
    monkeypatch.setattr(memory, "_of_groups", lambda: 2**20)
    with pytest.raises(bf.TooLarge, match=r"0\.000684 GiB may be used here"):
        bf.infer(bf.grid(16, 16), np.zeros(736), engine=bf.Exact())


LIMITED = """
import resource, sys
import numpy as np, bayesfield as bf
from bayesfield import memory
f, X = bf.chain(5), np.random.default_rng(0).choice([-1, 1], size=(50, 5))
posterior = bf.fit(f, X)
size = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (size + 2**28, size + 2**28))
assert memory.available_bytes() <= 2**28
for call in (lambda: posterior.sample(10**8, 0), lambda: bf.sample(f, np.zeros(9), 10**8, 0)):
    try:
        call()
    except bf.TooLarge as error:
        print(error)
"""


@unix
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much a process holds")
def test_ulimit():
    done = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all("GiB" in line and "fewer" in line for line in lines)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bf.potts(2, [(0, 1)], 2000, interaction="table"),
        lambda: bf.Variable("a", 10**12),
        lambda: bf.grid(10**6, 10**6),
        lambda: bf.sample(bf.chain(5), np.zeros(9), 10**12, 0),
        lambda: bf.sample(bf.chain(5), np.zeros(9), 10**12, 0, engine=bf.Sampled()),
        lambda: bf.CRF(300, 2, symmetric=True).edge_tables,
    ],
)
def test_what_cannot_be_held_is_too_large(call):
    with pytest.raises(bf.TooLarge, match=r"[GTPE]iB.*([Tt]ake|[Gg]ive|[Pp]ut) "):
        call()


def test_large_models_that_fit_are_made():
    assert bf.CRF(5000, 10).n_parameters == 25_050_000
    assert bf.pairwise(10**6, []).n_parameters == 10**6
    crf, rng = bf.CRF(100, 2), np.random.default_rng(0)
    X, y = [rng.normal(size=(3, 2))], [[0, 1, 99]]
    posterior = bf.fit_sequences(crf, X, y, form="matrix-free", correction="none")
    assert "edge_tables" not in vars(crf)  # K⁴ entries
    assert posterior.mean.shape == (10_200,)


def test_fits_of_hours_say_so(monkeypatch):
    """The plan of 2,000 items, all pairs, is ten hours of Newton's steps: a word comes before the work."""
    X = np.random.default_rng(0).choice([-1, 1], size=(30, 3))
    monkeypatch.setattr(display, "PATIENCE", 0.0)
    monkeypatch.setattr(pipeline, "LONG", 0.0)
    with pytest.warns(UserWarning, match=r"hours. Fewer edges.*time_limit= ends it"):
        bf.fit(bf.chain(3), X)
    bf.fit(bf.chain(3), X, time_limit=60.0)  # whoever gave one knows


def test_every_door_turns_memory_errors():
    class Room:
        def method(self):
            raise MemoryError("Unable to allocate 9 GiB")

    Room.__module__ = "bayesfield.test"
    with pytest.raises(bf.TooLarge, match=r"Room.method needs more memory than there is: unable to allocate 9 GiB"):
        doors.door(Room)().method()
    for name in bf.__all__:
        value = getattr(bf, name)
        if isinstance(value, types.FunctionType):
            assert hasattr(value, doors._DONE), name


# --- Numba's cache ------------------------------------------------------------------------------------------------

ANSWER = """
import warnings
warnings.simplefilter("always")
import numpy as np
%s
from bayesfield.kernels.jit import jit
from bayesfield.kernels.tables import sparse_product
out = np.zeros(2)
sparse_product(np.array([0, 1, 2]), np.array([0, 1]), np.ones(2), np.array([3.0, 4.0]), out)
print(out.sum())
"""
NO_PLACE = """
import tempfile
from numba.core import caching
def fails(self):
    raise OSError(30, "Read-only file system")
caching._CacheLocator.ensure_cache_path = fails
"""
FULL = """
from numba.core import caching
def fails(self, path):
    raise OSError(28, "No space left on device")
caching.IndexDataCacheFile._open_for_write = fails
"""


def answered(cache, before=""):
    """The sum that a kernel finds in a new process, and the warnings of it."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", ANSWER % before], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout), [line for line in done.stderr.splitlines() if "CacheWarning" in line]


def test_broken_caches_cost_time_and_no_answer(tmp_path):
    assert answered(tmp_path) == (7.0, [])
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert {p.suffix for p in files} == {".bfi", ".bfc"}
    whole = {p: p.read_bytes() for p in files}
    for damage in (lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:]):
        for path, content in whole.items():
            path.write_bytes(damage(content))
            value, said = answered(tmp_path)
            assert value == 7.0
            assert len(said) == 1
            assert "cut short or changed" in said[0]
    assert answered(tmp_path) == (7.0, [])  # mended


@pytest.mark.parametrize(("before", "words"), [(NO_PLACE, "no folder to keep it in"), (FULL, "No space left")])
def test_caches_that_cannot_be_kept(tmp_path, before, words):
    value, said = answered(tmp_path, before)
    assert value == 7.0
    assert len(said) == 1
    assert words in said[0]
    assert "NUMBA_CACHE_DIR" in said[0]


def test_a_cache_that_cannot_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(jit, "_said", set())
    file = jit._File(str(tmp_path), "name", "stamp")
    (tmp_path / "name.bfi").mkdir()
    with pytest.raises(OSError, match="directory"):
        file.load("key")


# --- numbers ------------------------------------------------------------------------------------------------------

MASKS = [-np.inf, -50.0, -1e3, -1e6, -1e9, 50.0, 1e3, 1e6, 1e9]
ENGINES = [bf.Exact(), bf.Bethe(), bf.Kikuchi(), bf.Sampled(chains=400, burn_in=50, sweeps=50), bf.Auto()]


def ring(value, tree=False):
    """Four variables, on a ring or a line; one state of one, and one pair of states, with this log-potential."""
    table = np.array([[0.3, -0.2], [0.1, 0.5]])
    pairs = [("a", "b"), ("b", "c"), ("c", "d")] + ([] if tree else [("a", "d")])
    factors = [bf.Factor(pair, log_table=table) for pair in pairs]
    factors.append(bf.Factor(("a", "b"), log_table=[[0, value], [0, 0]]))
    return bf.RandomField(dict.fromkeys("abcd", 2), [*factors, bf.Factor("c", log_table=[0.2, value])])


def by_hand(field):
    """log Z and P(a = 1) from all 16 joint states, by logarithms of sums from the largest term."""
    x = np.indices((2,) * 4).reshape(4, -1).T
    energy = np.zeros(len(x))
    for factor in field.factors:
        scope = ["abcd".index(name) for name in factor.variables]
        energy += np.asarray(factor.log_table)[tuple(x[:, scope].T)]
    weight = np.exp(energy - energy.max())
    return energy.max() + np.log(weight.sum()), weight[x[:, 0] == 1].sum() / weight.sum()


@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("value", MASKS)
def test_masks_mean_what_they_say(engine, value):
    """Bethe's messages are exact on the line, and on the ring where the mask cuts it; 400 × 50 states have a standard
    error below 0.01, and 0.06 has a false-alarm rate below 1e-8."""
    field = ring(value, tree=isinstance(engine, bf.Bethe))
    log_z, p = by_hand(field)
    found = bf.infer(field, engine=engine)
    assert found["a"][1] == pytest.approx(p, abs=0.06 if isinstance(engine, bf.Sampled) else 1e-6)
    if not isinstance(engine, bf.Sampled):
        assert found.log_z == pytest.approx(log_z, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("value", [-1e300, -1e30, -1e16, 1e16, 1e30, 1e300])
def test_huge_log_potentials_are_refused(value):
    with pytest.raises(bf.InvalidInput, match=r"Write −inf"):
        ring(value)
    with pytest.raises(bf.InvalidInput, match=r"put −inf"):
        bf.infer(bf.chain(3), [value, 0, 0, 0, 0])
    with pytest.raises(bf.InvalidInput, match="Write −inf"):
        bf.infer(bf.pairwise(2, [(0, 1)], states=(0, 9e4)), [0, 0, 1e9])
    with pytest.raises(bf.InvalidInput, match="recode"):
        bf.pairwise(2, [(0, 1)], states=(0, abs(value)))
    crf = bf.CRF(2, 1)
    with pytest.raises(bf.InvalidInput, match="scale them"):
        bf.as_sequences(crf, [[[value], [1.0]]])
    with pytest.raises(bf.InvalidInput, match="within"):
        bf.CRF(2, 1, edge_tables=[[[value, 0], [0, 1]]])


def test_chains_with_large_weights():
    """A chain CRF at weights up to 1e6 against all labellings."""
    crf = bf.CRF(2, 1)
    data = bf.as_sequences(crf, [[[1.0], [-1.0], [0.5]]], [[0, 1, 0]])
    from bayesfield.learning.phases.chain import ChainPhase

    for scale in (1.0, 1e3, 1e6):
        weights = scale * np.array([0.3, -0.2, 1.0, -0.5, 0.25, 0.1])
        W, V = weights[:2], weights[2:].reshape(2, 2)
        x = np.indices((2,) * 3).reshape(3, -1).T
        energy = sum(v * W[x[:, t]] for t, v in enumerate((1.0, -1.0, 0.5))) + V[x[:, 0], x[:, 1]] + V[x[:, 1], x[:, 2]]
        log_z = energy.max() + np.log(np.exp(energy - energy.max()).sum())
        assert ChainPhase(crf, data).at(weights).log_z == pytest.approx(log_z, rel=1e-10)


@pytest.mark.parametrize("variance", [5e-324, 1e-310, 1e-200, 1e-13])
def test_priors_too_narrow(variance):
    for make in (
        lambda: bf.Normal(variance=variance),
        lambda: bf.Normal(variance={"nodes": 1.0, "edges": variance}),
        lambda: bf.ARD(variance=variance),
        lambda: bf.fit(bf.chain(2), [[-1, 1]], bf.Normal(covariance=np.diag([1.0, 1.0, variance]))),
    ):
        with pytest.raises(bf.InvalidInput, match="wider prior"):
            make()


@pytest.mark.parametrize("variance", [1e13, 1e300])
def test_priors_too_wide(variance):
    with pytest.raises(bf.InvalidInput, match="narrower prior"):
        bf.Normal(variance=variance)
    with pytest.raises(bf.InvalidInput, match="scale of a Cauchy"):
        bf.Cauchy(scale=variance)
    with pytest.raises(bf.InvalidInput, match="prior mean"):
        bf.Normal(variance=1.0, mean=variance)


@pytest.mark.parametrize("variance", [1e-6, 1e-3, 1.0, 1e4, 1e8])
def test_priors_within_bounds(variance):
    X = np.random.default_rng(0).choice([-1, 1], size=(50, 3))
    posterior = bf.fit(bf.chain(3), X, bf.Normal(variance=variance), correction="none")
    assert posterior.record.status.converged
    assert np.isfinite(posterior.sd).all()
    assert (posterior.sd <= np.sqrt(variance) * (1 + 1e-9)).all()
