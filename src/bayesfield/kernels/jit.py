"""The one decorator of every kernel, so that all share the same Numba options."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
T = TypeVar("T")

# Reassociation lets reductions use vector registers. The flags that assume away infinities and NaN are left out:
# a log-potential of minus infinity is a valid table entry.
_FASTMATH = {"reassoc", "contract", "arcp", "nsz"}


def jit(function: Callable[P, T]) -> Callable[P, T]:
    """Compile ``function`` at its first call and keep the machine code on disk."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_FASTMATH)(function)
    return cast(Callable[P, T], compiled)
