"""Run as a program: a command that is killed, or fails, at the k-th call that changes the disk, for each k in turn.

``python killed.py WORK COMMAND MODE FIRST LAST STEP`` prints a line of JSON for each k: how the child ended, and if
what it left is all of the old or all of the new files. Children are forked, so that imports and compilation are paid
for once. MODE: "kill" (SIGKILL before the call, or in the midst of a write), or the name of an errno such as ENOSPC.
"""

import errno
import io
import json
import os
import re
import shutil
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd

import bayesfield as bf
from bayesfield import outputs
from bayesfield.cli import ending
from bayesfield.experiments.figures import reproduce
from bayesfield.experiments.paper import cases
from bayesfield.experiments.paper.methods import Scale

CALLS = ("write", "fsync", "replace", "unlink", "chmod")  # of module os; and "open", where it makes a file
NEVER = 10**9


def made(seed):
    """A small posterior."""
    X = np.random.default_rng(seed).choice([-1, 1], size=(40, 3))
    return bf.fit(bf.chain(3), X, engine="exact", correction="none")


def two_folders(k, out):
    """Files in two folders, one of which goes."""
    (out / "b").mkdir(exist_ok=True)
    with outputs.as_one():
        outputs.write_text(out / "one", f"one {k}")
        outputs.write_text(out / "b" / "two", f"two {k}")
        if k:
            outputs.remove(out / "b" / "three")
        else:
            outputs.write_text(out / "b" / "three", "three 0")


def verb(*words):
    """The command line, in this process: its exit status, and the last line of what it said."""
    sys.argv, said = ["bayesfield", *map(str, words)], io.StringIO()
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            ending.main()
    except SystemExit as end:
        return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


def prepared(work):
    """Commands by name: what each does for the old and for the new state, and the files that it writes."""
    for k in (0, 1):
        X = np.random.default_rng(k).integers(0, 2, size=(40, 3))
        (work / f"cases{k}.csv").write_text("a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in X))
        made(k).save(work / f"saved{k}.bf")
    posteriors = [made(0), made(1)]
    plain = {"posterior.csv", "posterior.npz", "posterior.bf", "fit.json"}
    cases.SIZES, cases.SHOWN = (10,), 10
    scale = Scale("tiny", models=1, sets=1, draws=40, restarts=2, exchange_draws=5, exchange_thin=1)
    methods = (("BL-MP",), ("BL-MP", "BL-BP"))
    return {
        "fit": (lambda k, out: verb("fit", work / f"cases{k}.csv", "--model", "ising", "--out", out), plain),
        "save": (lambda k, out: library(posteriors[k].save, out / "p.bf"), {"p.bf"}),
        "report": (lambda k, out: verb("report", work / f"saved{k}.bf", "--out", out / "r.html"), {"r.html"}),
        "convert": (lambda k, out: verb("convert", work / f"saved{k}.bf", out / "t.csv"), {"t.csv"}),
        "handover": (
            lambda k, out: library(bf.write_handover, out, posteriors[k]),
            {"parameters.csv", "edges.csv", "couplings.csv", "fit.json"},
        ),
        "folders": (lambda k, out: library(two_folders, k, out), {"one", "b/two", "b/three"}),
        "reproduce": (
            lambda k, out: library(reproduce, "fig2", out, scale, methods=methods[k]),
            {"fig2.csv", "fig2.png", "fig2.svg", "manifest.json"},
        ),
    }


def library(call, *args, **options):
    try:
        call(*args, **options)
    except bf.BayesfieldError as error:
        return 1, f"error: {error}"
    return 0, ""


class Fault:
    """Patches module os: the k-th call that changes the disk kills the process, or fails with an errno."""

    def __init__(self, at, mode):
        self.at, self.mode, self.count = at, mode, 0
        self.real = {name: getattr(os, name) for name in (*CALLS, "open")}

    def __enter__(self):
        for name in self.real:
            setattr(os, name, self._patched(name))
        return self

    def __exit__(self, *_):
        for name, call in self.real.items():
            setattr(os, name, call)

    def _patched(self, name):
        def call(*args, **kwargs):
            if name != "open" or args[1] & os.O_CREAT:
                self.count += 1
                if self.count == self.at:
                    self._strike(name, args)
            return self.real[name](*args, **kwargs)

        return call

    def _strike(self, name, args):
        if name == "write" and len(args[1]) > 1:  # half of it comes through
            self.real["write"](args[0], args[1][: len(args[1]) // 2])
        if self.mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.mode)
        raise OSError(number, os.strerror(number))


def contents(out, names):
    """Every file, without what differs between two runs of the same command: seconds, dates."""
    return {name: kept(out / name) if (out / name).exists() else None for name in sorted(names)}


def kept(path):
    if path.suffix == ".bf":
        return bf.load(path).mean.tobytes()
    content = path.read_bytes()
    if path.name == "fit.json":
        return [step["value"] for step in json.loads(content)["steps"]]
    if path.name == "fig2.csv":
        return pd.read_csv(path).drop(columns="seconds").to_csv()
    if path.suffix == ".html":
        return re.sub(rb"[0-9.]+ (s|ms)\b|[0-9]{4}-[0-9]{2}-[0-9]{2}[^<]*", b"", content)
    return re.sub(rb"<dc:date>.*</dc:date>|#?\b[mp][0-9a-f]{10}\b", b"", content)


def attempt(command, out, at, mode):
    """In a child: exit status (None where it was killed), its words, and how many calls there were."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with Fault(at, mode) as fault:
            status, said = command(1, out)
        os.write(write, json.dumps([status, said.strip().splitlines()[-1:], fault.count]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else [None, [], 0]


def main(work, name, mode, first, last, step):
    work = Path(work)
    command, names = prepared(work)[name]
    old, new = work / "old", work / "new"
    old.mkdir()
    for folder, k in ((old, 0), (new, 1)):
        status, said = command(k, folder if k == 0 else copied(old, folder))
        assert status == 0, said
    states = [contents(old, names), contents(new, names)]
    total = attempt(command, copied(old, work / "counted"), NEVER, mode)[2]
    print(json.dumps({"calls": total}), flush=True)
    for at in range(first, min(last, total) + 1, step):
        out = copied(old, work / f"at{at}")
        status, said, _ = attempt(command, out, at, mode)
        for each in names:
            outputs.settle(out / each)  # what every reader of this library does first
        found = contents(out, names)
        whole = [k for k in (0, 1) if found == states[k]]
        again, _ = command(1, out)  # nothing stands in the way of the next command
        left = sorted(p.name for p in out.rglob("*") if p.name.startswith(".bayesfield"))
        ended = again == 0 and contents(out, names) == states[1] and left == []
        print(json.dumps({"at": at, "status": status, "said": said, "whole": whole, "next": ended}), flush=True)
        shutil.rmtree(out)


def copied(folder, to):
    shutil.copytree(folder, to)
    return to


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:7]))
