"""The library's doors: every public name is handed out here, and no MemoryError leaves as such.

NumPy's, SciPy's and Numba's say what could not be allocated, if anything, and not what to do about it. Most jobs are
refused before (``memory.require``); for those that nobody foresaw, this is the one place that turns the error into
``TooLarge``. Public functions are wrapped; of public classes, the methods and properties that the library defines.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property, wraps
from typing import Any

from bayesfield.memory import too_large
from bayesfield.types import TooLarge

_DONE = "__bayesfield_door__"


def door(value: Any) -> Any:
    """The same function, or class, from which no MemoryError comes."""
    if inspect.isfunction(value) and value.__module__.startswith("bayesfield"):
        return _guarded(value, f"bf.{value.__name__}")
    if inspect.isclass(value):
        for base in value.__mro__:
            if base.__module__.startswith("bayesfield") and not issubclass(base, BaseException):
                _guard_class(base)
    return value


def _guarded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    if hasattr(function, _DONE) or inspect.isgeneratorfunction(function):
        return function

    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TooLarge:
            raise
        except MemoryError as error:
            raise too_large(error, name) from error

    setattr(guarded, _DONE, True)
    return guarded


def _guard_class(kind: type) -> None:
    if _DONE in vars(kind):
        return
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        words = kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"
        if inspect.isfunction(member):
            setattr(kind, name, _guarded(member, words))
        elif isinstance(member, property) and member.fget is not None:
            setattr(kind, name, property(_guarded(member.fget, words), member.fset, member.fdel, member.__doc__))
        elif isinstance(member, cached_property):
            member.func = _guarded(member.func, words)
    setattr(kind, _DONE, True)
