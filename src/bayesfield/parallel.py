"""How many hands: a map over threads for kernels that release the interpreter, and spawning of generators."""

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Item = TypeVar("Item")
Result = TypeVar("Result")


_limit: int | None = None


def limit(threads: int) -> None:
    """At most so many threads from here on: for processes that run side by side."""
    global _limit
    _limit = threads


def cores() -> int:
    return min(_limit or _available(), _available())


def _available() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_map(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """call(item) for all items, on as many threads as there are cores; results in order."""
    if len(items) <= 1 or cores() == 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(min(cores(), len(items))) as pool:
        return list(pool.map(call, items))


@contextmanager
def hands() -> Iterator[Callable[[Callable[[Item], Result], Sequence[Item]], list[Result]]]:
    """A thread_map whose threads stay for many calls."""
    if cores() == 1:
        yield lambda call, items: [call(item) for item in items]
        return
    with ThreadPoolExecutor(cores()) as pool:
        yield lambda call, items: list(pool.map(call, items)) if len(items) > 1 else [call(item) for item in items]


def shares(first: int, last: int, always: int | None = None, least: int = 4096) -> list[tuple[int, int]]:
    """A range in equal parts, one for each core (or ``always`` so many), none much smaller than ``least``."""
    count = max(1, min(always or cores(), (last - first) // least))
    return spans([first + (last - first) * k // count for k in range(count + 1)])


def blas_map(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """thread_map for kernels that call BLAS, whose own threads would be in the way of these."""
    if len(items) <= 1 or cores() == 1:
        return [call(item) for item in items]
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        return thread_map(call, items)


def spans(ends: Sequence[int]) -> list[tuple[int, int]]:
    """(0, 3), (3, 7), … from 0, 3, 7, …"""
    return [(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def chain_seeds(seed: int, chains: int) -> NDArray[np.uint64]:
    """(chains, 2) words of state, one generator for each chain; the same for any number of threads."""
    words = np.random.SeedSequence(seed).generate_state(2 * chains, dtype=np.uint64)
    return words.reshape(chains, 2) | np.uint64(1)
