"""The house rules that a machine can check beside import-linter's: sizes, one jit alias, no stray compilation."""

import ast
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

import bayesfield as bf
from benchmarks import walk

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


def test_rooms_are_not_crowded():
    rooms = {}
    for path in FILES:
        if path.name != "__init__.py":
            rooms.setdefault(str(path.parent.relative_to(SOURCE)), []).append(path.name)
    assert {room: len(files) for room, files in rooms.items() if len(files) > 14} == {}


def test_chains_of_imports_are_short():
    """A module that is read is at most twenty modules away from one that imports nothing."""
    graph = grimp.build_graph("bayesfield", exclude_type_checking_imports=True)

    @cache
    def longest(module):
        return (
            *max((longest(m) for m in graph.find_modules_directly_imported_by(module)), key=len, default=()),
            module,
        )

    deepest = max((longest(m) for m in graph.modules), key=len)
    assert len(deepest) <= 20, deepest


TYPE_TESTS = {
    ("fitting/preview.py", "Engine"): "preview(field, engine) is refused with a hint: X was forgotten",
    ("formats/posteriors/saved.py", "Bethe | Kikuchi"): "engines read from files are bounded by what they may ask for",
    ("formats/posteriors/saved.py", "Kikuchi"): "the same, for the length of its loops",
    ("inference/by_name.py", "Engine"): "an engine is given as a name or as an object",
    ("inference/queries.py", "Sampled"): "bf.sample hands its chains' seed over to the caller's generator",
}


def test_few_places_ask_which_engine_or_objective():
    """Engines and phases say what they are by traits; who asks for their types otherwise has a reason."""
    kinds = {"Engine", "Exact", "Bethe", "Kikuchi", "Sampled", "Auto", "Enumeration", "Objective", "Phase"}
    kinds |= {"GraphPhase", "ChainPhase", "CompositePhase"}
    asked = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                if names & kinds:
                    wanted = [name for name in ast.unparse(node.args[1]).split(" | ") if name in kinds]
                    asked.add((str(path.relative_to(SOURCE)), " | ".join(wanted)))
    assert asked == set(TYPE_TESTS)
    assert len(TYPE_TESTS) <= 5


@pytest.mark.parametrize("route", [walk.field_fit, walk.sequence_fit])
def test_the_way_of_a_fit_is_short(route):
    """What a newcomer steps through (benchmarks/walk.py), in a warm call."""
    call = route()
    call()
    way = walk.walk(call)
    assert way.visits
    measured = {name: getattr(way, name) for name in walk.LIMITS}
    assert {name: n for name, n in measured.items() if n > walk.LIMITS[name]} == {}
