"""``convert``: the same thing in another tool's format."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import pandas as pd
import typer

import bayesfield as bf
from bayesfield.cli import trust
from bayesfield.cli.app import app, note, plain
from bayesfield.cli.targets import refuse_file
from bayesfield.cli.waiting import doing
from bayesfield.formats import tables
from bayesfield.formats.conll import read_conll
from bayesfield.formats.fasta import read_fasta
from bayesfield.formats.frames import WRITTEN, is_table, names_text, read_frame, write_frame
from bayesfield.formats.models import json_models, uai
from bayesfield.outputs import write_text
from bayesfield.types import InvalidInput

_ALIGNMENTS = (".fasta", ".fa", ".a2m", ".a3m", ".fasta.gz", ".fa.gz", ".a2m.gz", ".a3m.gz")
_SENTENCES = (".conll", ".conllu", ".iob", ".bio")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML has not


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="What to read; its ending says what it is.")],
    target: Annotated[Path, typer.Argument(help="What to write; its ending says as what.")],
) -> None:
    """Convert files by their endings.

    Tables (.csv .tsv .parquet .json) into one another; alignments (.fasta, .gz too) into tables, a column for each
    position; sentences (.conll) into .json or .jsonl as crfsuite takes them; a saved posterior (.bf, or the folder
    of a fit) into a table of its parameters (.csv .tsv .parquet), .json with how it was found, and, of a field,
    .graphml for network tools or .uai at its mean; models (.uai, and .json with variables and factors) into one
    another.

    Example: bayesfield convert votes-fit/posterior.bf votes.graphml
    """
    source = source / "posterior.bf" if source.is_dir() else source
    refuse_file(target)
    for fits, change, endings in _CHANGES:
        if fits(source):
            if target.suffix.lower() not in endings:
                raise _no_writer(source, target, endings)
            with doing("converting …"):
                posterior = change(source, target)
            note(f"wrote {target}")
            if posterior is not None:
                trust.conclude(posterior)
            return
    raise InvalidInput(f"there is no reader for {source.name!r}; bayesfield convert --help tells what can be read")


def _table(source: Path, target: Path) -> None:
    write_frame(target, read_frame(source))


def _alignment(source: Path, target: Path) -> None:
    found = read_fasta(source)
    table = pd.DataFrame(found.letters(), columns=[f"p{k + 1}" for k in range(found.codes.shape[1])])
    table.insert(0, "name", list(found.names))
    write_frame(target, table)


def _sentences(source: Path, target: Path) -> None:
    X, y = read_conll(source)
    pairs = [{"items": items, "labels": labels} for items, labels in zip(X, y, strict=True)]
    if target.suffix.lower() == ".jsonl":
        write_text(target, "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs))
    else:
        write_text(target, json.dumps(pairs, ensure_ascii=False, indent=1) + "\n")


def _posterior(source: Path, target: Path) -> bf.Posterior:
    posterior, ending = bf.load(source), target.suffix.lower()
    if ending == ".json":
        content = tables.fit_summary(posterior) | {"parameters": posterior.summary().reset_index()}
        write_text(target, json.dumps(plain(content), ensure_ascii=False, indent=1) + "\n")
    elif ending in (".csv", ".tsv"):
        write_text(target, names_text(posterior.summary(), index=True, separator="\t" if ending == ".tsv" else ","))
    elif is_table(target, WRITTEN):
        write_frame(target, posterior.summary().reset_index())
    elif not isinstance(posterior.field, bf.RandomField):
        raise _no_writer(source, target, WRITTEN, "is of a CRF and ")
    elif ending == ".graphml":
        write_text(target, "\n".join(nx.generate_graphml(_flat(bf.to_networkx(posterior)))) + "\n")
    else:
        uai.write_model(target, posterior.field, posterior.mean)
    return posterior


def _model(source: Path, target: Path) -> None:
    field = uai.read_model(source) if source.suffix.lower() == ".uai" else json_models.read_model(source)
    if target.suffix.lower() == ".json":
        json_models.write_model(target, field)
    else:
        uai.write_model(target, field)


def _flat(graph: Any) -> Any:
    """GraphML has numbers and text only, and of text what XML allows."""
    for _, attributes in [*graph.nodes(data=True), *((None, a) for *_, a in graph.edges(data=True))]:
        for name, value in list(attributes.items()):
            attributes[name] = value if isinstance(value, int | float) else _allowed(str(value))
    return nx.relabel_nodes(graph, {node: _allowed(str(node)) for node in graph})


def _allowed(text: str) -> str:
    """Text without what XML forbids: a bell becomes \\x07, and two names stay two."""
    return _FORBIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _no_writer(source: Path, target: Path, known: Sequence[str], kind: str = "is ") -> InvalidInput:
    return InvalidInput(f"{source.name} {kind}written as {', '.join(known)}; got {target.name!r}")


def _ends(*endings: str) -> Callable[[Path], bool]:
    return lambda path: path.name.lower().endswith(endings)


_CHANGES: tuple[tuple[Callable[[Path], bool], Callable[[Path, Path], bf.Posterior | None], tuple[str, ...]], ...] = (
    (json_models.is_model, _model, (".uai", ".json")),
    (is_table, _table, WRITTEN),
    (_ends(*_ALIGNMENTS), _alignment, WRITTEN),
    (_ends(*_SENTENCES), _sentences, (".json", ".jsonl")),
    (_ends(".bf"), _posterior, (*WRITTEN, ".graphml", ".uai")),
    (_ends(".uai"), _model, (".uai", ".json")),
)
