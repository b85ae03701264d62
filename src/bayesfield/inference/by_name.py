"""Engines by name: ``engine="kikuchi"`` is ``engine=bf.Kikuchi()``."""

from typing import Any

from bayesfield.inference.auto import Auto
from bayesfield.inference.contract import Engine
from bayesfield.inference.enumeration import Enumeration
from bayesfield.inference.messages.belief_propagation import Bethe
from bayesfield.inference.messages.kikuchi import Kikuchi
from bayesfield.inference.sampling.sampled import Sampled
from bayesfield.inference.trees.junction_tree import Exact
from bayesfield.types import InvalidInput

_ENGINES: dict[str, Any] = {
    "auto": Auto(),
    "exact": Exact(),
    "bethe": Bethe(),
    "kikuchi": Kikuchi(),
    "sampled": Sampled(),
    "enumeration": Enumeration(),
}
_TYPES = frozenset(type(engine) for engine in _ENGINES.values())  # looking through a protocol takes 8 µs


def as_engine(engine: Any) -> Engine:
    """An engine from itself or from its name. Refuses everything else."""
    if isinstance(engine, str) and engine.lower() in _ENGINES:
        named: Engine = _ENGINES[engine.lower()]
        return named
    if type(engine) in _TYPES or (isinstance(engine, Engine) and not isinstance(engine, type)):
        checked: Engine = engine
        return checked
    names = ", ".join(f'"{name}"' for name in _ENGINES)
    raise InvalidInput(f"an engine is an object such as bf.Exact() or bf.Bethe(), or one of {names}; got {engine!r}")
