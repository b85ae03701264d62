"""``convert``: the same thing in another tool's format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import pandas as pd
import typer

import bayesfield as bf
from bayesfield.cli.app import app, note, plain
from bayesfield.files import write_text
from bayesfield.formats import json_models, tables, uai
from bayesfield.formats.conll import read_conll
from bayesfield.formats.fasta import read_fasta
from bayesfield.formats.frames import is_table, read_frame, write_frame
from bayesfield.types import InvalidInput

_ALIGNMENTS = (".fasta", ".fa", ".a2m", ".a3m")
_SENTENCES = (".conll", ".conllu", ".iob", ".bio")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="What to read; its ending says what it is.")],
    target: Annotated[Path, typer.Argument(help="What to write; its ending says as what.")],
) -> None:
    """Convert files by their endings.

    Tables (.csv .tsv .parquet .json) into one another; alignments (.fasta, .gz too) into tables, a column for each
    position; sentences (.conll) into .json or .jsonl as crfsuite takes them; a saved posterior (.bf) into a table of
    its parameters (.csv .tsv .parquet), .json with how it was found, .graphml for network tools, or .uai at its mean;
    models (.uai, and .json with variables and factors) into one another.

    Example: bayesfield convert votes-fit/posterior.bf votes.graphml
    """
    for fits, change in _CHANGES:
        if fits(source):
            change(source, target)
            note(f"wrote {target}")
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
    if target.suffix == ".jsonl":
        write_text(target, "".join(json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs))
    elif target.suffix == ".json":
        write_text(target, json.dumps(pairs, ensure_ascii=False, indent=1) + "\n")
    else:
        raise _no_writer(source, target, ".json or .jsonl")


def _posterior(source: Path, target: Path) -> None:
    posterior, ending = bf.load(source), target.suffix.lower()
    if ending == ".json":
        content = tables.fit_summary(posterior) | {"parameters": posterior.summary().reset_index()}
        write_text(target, json.dumps(plain(content), ensure_ascii=False, indent=1) + "\n")
    elif is_table(target):
        write_frame(target, posterior.summary().reset_index())
    elif ending == ".graphml":
        write_text(target, "\n".join(nx.generate_graphml(_flat(bf.to_networkx(posterior)))) + "\n")
    elif ending == ".uai" and isinstance(posterior.field, bf.RandomField):
        uai.write_model(target, posterior.field, posterior.mean)
    else:
        raise _no_writer(source, target, ".csv, .tsv, .parquet, .json, .graphml, or, of a field, .uai")


def _model(source: Path, target: Path) -> None:
    field = uai.read_model(source) if source.suffix.lower() == ".uai" else json_models.read_model(source)
    if target.suffix.lower() == ".json":
        json_models.write_model(target, field)
    elif target.suffix.lower() == ".uai":
        uai.write_model(target, field)
    else:
        raise _no_writer(source, target, ".uai or .json")


def _flat(graph: Any) -> Any:
    """GraphML has numbers and text only."""
    for _, attributes in [*graph.nodes(data=True), *((None, a) for *_, a in graph.edges(data=True))]:
        for name, value in list(attributes.items()):
            attributes[name] = value if isinstance(value, str | int | float) else str(value)
    return graph


def _no_writer(source: Path, target: Path, known: str) -> InvalidInput:
    return InvalidInput(f"{source.name} is written as {known}; got {target.name!r}")


def _ends(*endings: str) -> Callable[[Path], bool]:
    return lambda path: path.name.lower().removesuffix(".gz").endswith(endings)


_CHANGES: tuple[tuple[Callable[[Path], bool], Callable[[Path, Path], None]], ...] = (
    (json_models.is_model, _model),
    (is_table, _table),
    (_ends(*_ALIGNMENTS), _alignment),
    (_ends(*_SENTENCES), _sentences),
    (_ends(".bf"), _posterior),
    (_ends(".uai"), _model),
)
