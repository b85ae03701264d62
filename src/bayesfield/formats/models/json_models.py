"""A field at given parameters as JSON: names, states, and tables of potentials.

{"variables": {"rain": ["no", "yes"], …}, "factors": [{"variables": ["rain", "wet"], "table": [[…], …]}, …]}
"""

import json
from pathlib import Path
from typing import Any

from bayesfield.files import read_text
from bayesfield.graph.potentials import potentials_of
from bayesfield.model.field import Factor, RandomField, Variable
from bayesfield.outputs import write_text
from bayesfield.types import InvalidInput


def is_model(path: str | Path) -> bool:
    """Whether a JSON file holds a model, and not a table of cases."""
    return Path(path).suffix.lower() == ".json" and _is_model(_content(path))


def read_model(path: str | Path) -> RandomField:
    """A field without parameters: every factor has a fixed table."""
    content = _content(path)
    if not _is_model(content):
        raise InvalidInput(f"{path} is no model in JSON: it needs variables and factors")
    try:
        variables = [Variable(str(name), list(states)) for name, states in content["variables"].items()]
        factors = [Factor.from_potential(tuple(f["variables"]), f["table"]) for f in content["factors"]]
        return RandomField(variables, factors)
    except InvalidInput as error:
        raise InvalidInput(f"{path} is no model in JSON: {error}") from None
    except OverflowError:
        raise InvalidInput(f"{path} is no model in JSON: a table holds a number beyond 1e308") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path} is no model in JSON: {type(error).__name__}, {error}") from None


def write_model(path: str | Path, field: RandomField, parameters: Any = ()) -> None:
    names = field.names
    content = {
        "variables": {name: [_plain(s) for s in states] for name, states in zip(names, field.states, strict=True)},
        "factors": [
            {"variables": [names[i] for i in scope], "table": table.tolist()}
            for scope, table in potentials_of(field, parameters)
        ],
    }
    write_text(path, json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n")


def _content(path: str | Path) -> Any:
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is no JSON: {error}") from None


def _is_model(content: Any) -> bool:
    return isinstance(content, dict) and {"variables", "factors"} <= set(content)


def _plain(state: Any) -> Any:
    """JSON knows numbers, text and truth; of everything else, its text."""
    value = state.item() if hasattr(state, "item") else state
    return value if isinstance(value, str | int | float | bool) else str(value)
