"""The documents do what they say: their Python runs, their output is real, their paths and names exist.

In a page, every ``python`` block runs, in order and in one namespace. A ``text`` block right after a
``python`` block is what that block prints; ``...`` in it stands for anything. ``python tests/test_docs.py``
writes the present output into the pages (except where it holds ``...``): look at the difference before you
commit it.
"""

import ast
import contextlib
import doctest
import inspect
import io
import os
import re
import tempfile
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import pytest

import bayesfield as bf

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
API = ROOT / "docs" / "reference" / "api.md"
EQUATIONS = ROOT / "docs" / "explanation" / "equations.md"

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block of a page: its language, its text, the line it starts on, and the output it promises."""

    language: str
    text: str
    line: int
    output: str | None


def blocks(page: Path) -> list[Block]:
    source = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(source))
    result = []
    for k, match in enumerate(found):
        after = found[k + 1] if k + 1 < len(found) else None
        promised = after is not None and after[1] == "text" and not source[match.end() : after.start()].strip()
        output = after[2] if after is not None and promised else None
        result.append(Block(match[1], match[2], source.count("\n", 0, match.start(2)), output))
    return result


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What a block prints. Line numbers in a traceback are those of the page."""
    code = compile("\n" * block.line + block.text, name_of(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for block in blocks(page):
        if block.language != "python":
            continue
        printed = run(block, page, namespace)
        if block.output is not None:
            same = doctest.OutputChecker().check_output(block.output, printed, options)
            where = f"{name_of(page)}, line {block.line}"
            assert same, f"{where}: the page shows\n{block.output}\nand the code printed\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not target.startswith(("http://", "https://", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), f"{name_of(page)} links to {target}"


def test_pages_are_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[2:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation


# --- the equation map ---------------------------------------------------------------------------------------


def definitions(path: Path) -> set[str]:
    """Functions and classes of a file; methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def map_rows() -> list[tuple[str, list[str]]]:
    """(file, names) of every row of the equation map: the first path of a row, and the code after it."""
    rows = []
    for line in EQUATIONS.read_text(encoding="utf-8").splitlines():
        path = re.search(r"`(src/[\w/]+\.py)`", line)
        if line.startswith("|") and path:
            rows.append((path[1], re.findall(r"`([\w.]+)`", line[path.end() :])))
    return rows


def test_equation_map_is_there():
    assert len(map_rows()) >= 15


@pytest.mark.parametrize(("path", "names"), map_rows())
def test_equation_map_points_at_code(path, names):
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert names, f"the row of {path} names no function"
    missing = [name for name in names if name not in definitions(ROOT / path)]
    assert not missing, f"{path} does not define {missing}"


def test_paths_in_the_pages_exist():
    for page in PAGES:
        for path in re.findall(r"`((?:src|tests|docs|experiments)/[\w./-]+)`", page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{name_of(page)} names {path}"


# --- the reference ------------------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    """The reference by heading: a heading is a public name."""
    parts = re.split(r"^### `(\w+)`.*$", API.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_reference_covers_the_public_names():
    assert sorted(sections()) == sorted(bf.__all__)


@pytest.mark.parametrize("name", sorted(bf.__all__))
def test_reference_names_every_argument(name):
    thing = getattr(bf, name)
    if thing is bf.Outcome:
        wanted = list(bf.Outcome.__members__)
    elif thing is bf.Engine:
        wanted = ["traits", "preview", "price", "infer", "response", "maximise"]
    elif thing is bf.Sampler:
        wanted = ["run", *list(inspect.signature(bf.Sampler.run).parameters)[1:]]
    elif inspect.isfunction(thing) or (inspect.isclass(thing) and not issubclass(thing, BaseException)):
        wanted = list(inspect.signature(thing).parameters)
    else:
        wanted = []
    text = sections()[name]
    assert not [argument for argument in wanted if not re.search(rf"\b{argument}\b", text)]


# --- renewing the output shown in the pages -----------------------------------------------------------------


def renew(page: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    source = page.read_text(encoding="utf-8")
    for block in blocks(page):
        if block.language != "python":
            continue
        printed = "".join(line.rstrip() + "\n" for line in run(block, page, namespace).splitlines())
        if block.output is not None and "..." not in block.output:
            shown = "```python\n" + block.text + "```\n\n```text\n"
            source = source.replace(shown + block.output, shown + printed)
    page.write_text(source, encoding="utf-8")


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())
    for one in PAGES:
        renew(one)
