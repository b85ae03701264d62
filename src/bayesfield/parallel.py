"""How many hands: a map over threads for kernels that release the interpreter, Dask's workers, seeds of chains."""

import itertools
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesfield.types import InvalidInput

Item = TypeVar("Item")
Result = TypeVar("Result")


_HANDED = 8  # parts that each core takes of many items
_TICK = 0.5  # seconds between two looks at what is finished
TINY, _SMALL = 32, 2500  # rows of a matrix between which one thread is best
_limit: int | None = None
_turn, _inside = threading.Lock(), 0
_limited: Any = None


def limit(threads: int) -> None:
    """At most so many threads from here on: for processes that run side by side."""
    global _limit
    _limit = threads


def cores() -> int:
    return min(_limit or _available(), _available())


def _available() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_map(call: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """call(item) for all items, on as many threads as there are cores; results in order.

    A thread takes several of many items at a time: each that it is handed costs some 30 µs.
    """
    if len(items) <= 1 or cores() == 1:
        return [call(item) for item in items]
    parts = _HANDED * cores()
    edges = [len(items) * k // parts for k in range(parts + 1)]
    some = [items[a:b] for a, b in itertools.pairwise(edges) if b > a]
    with ThreadPoolExecutor(min(cores(), len(items))) as pool:
        return [found for part in pool.map(lambda own: [call(item) for item in own], some) for found in part]


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
    with single_blas():
        return thread_map(call, items)


@contextmanager
def single_blas() -> Iterator[None]:
    """One thread of BLAS meanwhile, whatever the sizes."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def one_blas_thread(size: int) -> Iterator[None]:
    """For matrices of up to some thousand rows: BLAS's threads gain little there, and beside other work they wait for
    one another (factors of 340 × 340 took a second each on a busy machine, and 1 ms by one thread; of 820 × 820 half a
    second and 10 ms)."""
    global _inside, _limited
    if not TINY < size <= _SMALL or cores() == 1:
        yield
        return
    with _turn:  # threads of the user's own: the first sets the limit, the last lifts it
        if not _inside:
            _limited = _blas().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _turn:
            _inside -= 1
            if not _inside:
                _limited.restore_original_limits()


@cache
def _blas() -> Any:
    import scipy.linalg  # noqa: F401 - only libraries that are loaded are found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that begin within do not hear Ctrl-C, which this one answers for all: else they end in stack traces."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock the signal as it begins
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def process_map(
    call: Callable[[Item], Result], items: Sequence[Item], jobs: int, watch: Callable[[int], None] | None = None
) -> list[Result]:
    """call(item) for all items, on processes of their own where jobs > 1; results in order.

    watch: called with the number of items finished, when it changes and every half second. Ctrl-C, or an error in one,
    ends them all at once.
    """
    tell = watch or (lambda done: None)
    if jobs <= 1 or len(items) <= 1:
        results: list[Result] = []
        with _regularly(lambda: tell(len(results))):
            for item in items:
                results.append(call(item))
                tell(len(results))
        return results
    context = multiprocessing.get_context("spawn")  # threads and forks do not go together
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(max(1, cores() // jobs),))
    try:
        with _deaf():
            futures = [pool.submit(call, item) for item in items]
        pending = set(futures)
        while pending:
            done, pending = wait(pending, timeout=_TICK, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            tell(len(items) - len(pending))
    except BaseException:
        for process in list((pool._processes or {}).values()):  # what runs now is not finished, and so not kept
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in futures]


@contextmanager
def _regularly(call: Callable[[], None]) -> Iterator[None]:
    """call() twice a second meanwhile, from a thread of its own."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(_TICK):
            call()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _begin(threads: int) -> None:
    """In every process: keep to its threads, and end with the one that started it, however that ends."""
    limit(threads)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


class Cluster:
    """The workers of a Dask client. What they keep is made by calls that can be made again if a worker is lost.

    So data goes along with the call that keeps it (and stays with the scheduler), or is read there by that call.
    """

    def __init__(self, client: Any) -> None:
        if not all(hasattr(client, name) for name in ("submit", "gather", "nthreads")):
            raise InvalidInput(f"client is a dask.distributed.Client; got {type(client).__name__}")
        self._client = client

    @property
    def threads(self) -> int:
        """Of all workers; at least one."""
        return max(1, sum(int(count) for count in self._client.nthreads().values()))

    def keep(self, make: Callable[..., Any], items: Sequence[Any], *common: Any) -> list[Any]:
        """make(item, *common) for every item, on some worker, where the result stays. Returns what stands for it."""
        return [self._submit(make, item, *common) for item in items]

    def each(self, call: Callable[..., Result], kept: Sequence[Any], *arguments: Any) -> list[Result]:
        """call(what is kept, *arguments), on the workers that keep it; results in order. Arguments are sent once."""
        sent = [self._submit(_itself, a) if isinstance(a, np.ndarray) else a for a in arguments]
        results: list[Result] = self._client.gather([self._submit(call, one, *sent) for one in kept])
        return results

    def map(
        self, call: Callable[[Item], Result], items: Sequence[Item], watch: Callable[[int], None] | None = None
    ) -> list[Result]:
        """call(item) for all items; results in order. watch: called with the number of items finished."""
        from distributed import as_completed

        futures = [self._submit(call, item) for item in items]
        for done, _ in enumerate(as_completed(futures), 1):
            if watch is not None:
                watch(done)
        results: list[Result] = self._client.gather(futures)
        return results

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Any:
        with warnings.catch_warnings():  # data in a call is what we want: it can be sent again
            warnings.filterwarnings("ignore", message="Sending large graph")
            return self._client.submit(_on_worker, call, *arguments, pure=False)


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """A client as it is, and None as None; an address as a client that is connected to it meanwhile."""
    if not isinstance(client, str):
        yield client
        return
    try:
        from distributed import Client
    except ImportError:
        raise InvalidInput('clusters need dask.distributed: pip install "bayesfield[cluster]"') from None
    try:
        made = Client(client, timeout="10s")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"there is no scheduler at {client!r}: {error}") from None
    with made:
        yield made


def _on_worker(call: Callable[..., Any], *arguments: Any) -> Any:
    """A call that takes as many threads as its worker may."""
    from distributed import get_worker

    limit(get_worker().state.nthreads)
    return call(*arguments)


def _itself(value: Any) -> Any:
    return value


def spans(ends: Sequence[int]) -> list[tuple[int, int]]:
    """(0, 3), (3, 7), … from 0, 3, 7, …"""
    return [(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def chain_seeds(seed: int, chains: int) -> NDArray[np.uint64]:
    """(chains, 2) words of state, one generator for each chain; the same for any number of threads."""
    words = np.random.SeedSequence(seed).generate_state(2 * chains, dtype=np.uint64)
    return words.reshape(chains, 2) | np.uint64(1)
