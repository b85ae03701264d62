"""Build the wheel and the sdist, install one into a new environment, and run the tests against what is installed.

    python experiments/wheel.py [--python python3.12] [--lowest] [--sdist] [--tests tests/test_model.py ...]

--lowest: with the oldest versions that pyproject.toml allows. The tests run outside the
repository's folder on the path: ``bayesfield`` is what was installed, which is checked first.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ("tests/test_model.py", "tests/test_tables.py", "tests/test_manuscript.py")


def main() -> None:
    asked = _arguments()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        built = _built(work, asked.sdist)
        python = _environment(work, asked.python)
        bounds = ["-c", str(_lowest(work))] if asked.lowest else []
        _run([python, "-m", "pip", "install", "--quiet", *bounds, f"{built}[test]"])
        tests = work / "tests"
        shutil.copytree(ROOT / "tests", tests)
        shutil.copytree(ROOT / "benchmarks", work / "benchmarks", ignore=shutil.ignore_patterns("results"))
        shutil.copy(ROOT / "pyproject.toml", work)
        home = _run([python, "-c", "import bayesfield; print(bayesfield.__file__)"], work)
        if str(ROOT) in home or "site-packages" not in home:
            sys.exit(f"the tests would run against {home}, and not the installed wheel")
        print(f"{built.name} in {home.strip()}", flush=True)
        _run([python, "-m", "bayesfield", "doctor"], work)
        done = subprocess.run([python, "-m", "pytest", "-n", "0", *asked.tests], cwd=work, env=_clean())
        sys.exit(done.returncode)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--lowest", action="store_true")
    parser.add_argument("--sdist", action="store_true")
    parser.add_argument("--tests", nargs="*", default=list(TESTS))
    return parser.parse_args()


def _built(work: Path, sdist: bool) -> Path:
    """What is installed; --sdist needs the package build."""
    target = str(work / "dist")
    if sdist:
        _run([sys.executable, "-m", "build", "--sdist", "--outdir", target, str(ROOT)])
    else:
        _run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", target, str(ROOT)])
    return next((work / "dist").glob("*.tar.gz" if sdist else "*.whl"))


def _environment(work: Path, python: str) -> str:
    _run([python, "-m", "venv", str(work / "venv")])
    return str(work / "venv" / "bin" / "python")


def _lowest(work: Path) -> Path:
    """Constraints: the lower bound of each of the library's own dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [re.sub(r">=([\d.]+).*", r"==\1.*", each) for each in project["dependencies"]]
    path = work / "lowest.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _run(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=_clean(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}


if __name__ == "__main__":
    main()
