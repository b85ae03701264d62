"""bayesfield: Bayesian learning of discrete random fields.

import bayesfield as bf
field = bf.grid(8, 8)
posterior = bf.fit(field, X, prior=bf.Normal(variance=0.25))
posterior.summary()
"""

import ast
import importlib
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"


def _public() -> tuple[list[str], dict[str, str]]:
    """__all__, and the module of every name, as ``__init__.pyi`` has them."""
    names: list[str] = []
    homes: dict[str, str] = {}
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(line, ast.ImportFrom) and line.module:
            homes |= dict.fromkeys((alias.name for alias in line.names), line.module)
        elif isinstance(line, ast.Assign):
            names = ast.literal_eval(line.value)
    return names, homes


__all__, _HOMES = _public()


def __getattr__(name: str) -> Any:
    """A name when it is first asked for: all that stands behind the library takes a second to import."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    from bayesfield.doors import door

    value = globals()[name] = door(getattr(home, name))
    setattr(home, name, value)  # pickles know a function by its home
    _guard_results()
    return value


def _guard_results() -> None:
    """Public classes that were imported on the way: a posterior is used by many who never write bf.Posterior."""
    from bayesfield.doors import door

    for name, home in _HOMES.items():
        if home in sys.modules and isinstance(kind := vars(sys.modules[home]).get(name), type):
            door(kind)


def __dir__() -> list[str]:
    return sorted(__all__)
