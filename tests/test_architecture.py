"""The house rules that a machine can check beside import-linter's: sizes, one jit alias, no stray compilation."""

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import bayesfield as bf

SOURCE = Path(bf.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def bodies(path):
    """Lines of every function's body, docstring left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield node.name, node.end_lineno - body[0].lineno + 1


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_sizes(path):
    assert len(path.read_text().splitlines()) <= 600
    limit = 80 if "kernels" in path.parts else 60
    assert {name: n for name, n in bodies(path) if n > limit} == {}


def test_most_files_and_functions_are_short():
    lengths = [len(p.read_text().splitlines()) for p in FILES]
    functions = sorted(n for p in FILES for _, n in bodies(p))
    assert statistics.median(lengths) <= 200
    assert functions[int(0.9 * len(functions))] <= 30


def test_every_module_says_what_it_is():
    assert [p.name for p in FILES if not ast.get_docstring(ast.parse(p.read_text()))] == []


def test_kernels_share_one_decorator():
    for path in (SOURCE / "kernels").rglob("*.py"):
        if path.name not in ("jit.py", "__init__.py"):
            text = path.read_text()
            assert "import numba" not in text
            undecorated = [
                n.name
                for n in ast.parse(text).body
                if isinstance(n, ast.FunctionDef) and [ast.unparse(d) for d in n.decorator_list] != ["jit"]
            ]
            assert undecorated == [], path


def test_public_names_have_docstrings():
    for name in bf.__all__:
        assert getattr(bf, name).__doc__, name


def test_import_brings_nothing_along():
    """``import bayesfield`` is quick because what stands behind it comes when it is asked for."""
    heavy = ("numpy", "scipy", "pandas", "numba", "sklearn", "matplotlib")
    code = f"import sys, bayesfield; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_public_name_has_a_home():
    assert sorted(set(bf.__all__)) == sorted(bf.__all__)
    assert set(bf.__all__) == set(bf._HOMES)
    assert all(hasattr(bf, name) for name in bf.__all__)
    assert set(bf.__all__) <= set(dir(bf))
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        bf.fitt  # noqa: B018
