"""The command in a process for each call, forked from one that has imported everything: importing takes longer than
most commands. What a process is told apart by is its own: arguments, folder, environment, output, exit code."""

import atexit
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_SECONDS = 300  # after which a command is killed


def run(*words, cwd):
    """`bayesfield words…` in a folder: its output and exit code, as ``subprocess.run`` has them."""
    command = [sys.executable, "-m", "bayesfield.cli", *map(str, words)]
    if not hasattr(os, "fork"):
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_SECONDS, check=False)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        asked = {"words": command[3:], "cwd": str(cwd), "out": str(out), "err": str(err), "env": dict(os.environ)}
        server = _server()
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(command, code, out.read_text("utf-8"), err.read_text("utf-8"))


@cache
def _server():
    server = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def _serve():
    import bayesfield as bf
    import bayesfield.cli.ending

    for name in dir(bf):
        getattr(bf, name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _become(**json.loads(line))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)


def _become(words, cwd, out, err, env):
    """The command itself; never returns."""
    signal.alarm(_SECONDS)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    for target, descriptor in ((os.devnull, 0), (out, 1), (err, 2)):
        os.dup2(os.open(target, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.path[0] = cwd
    sys.argv = ["bayesfield", *words]
    runpy.run_module("bayesfield.cli", run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    _serve()
