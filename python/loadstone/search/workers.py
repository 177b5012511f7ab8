# SPDX-License-Identifier: Apache-2.0
"""Many units of work, each of seconds, on the processes of this machine or of a Dask cluster.

In:   a function, units that can be pickled, and the workers: a number of processes, the address of
      a Dask scheduler, or an executor of the caller's.
Out:  the results in the units' order, the same for any number of workers; each is also reported
      when it arrives.
Next: search/sweep.py and search/samples.py make the units.

The scheduler, its queue and its protocol are dask.distributed's. This file adds what Loadstone
needs: a unit whose worker died is done again, data that all units share is sent once, the first
error ends all, and Ctrl-C leaves nothing behind.
"""

from __future__ import annotations

import logging
import queue
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

from loadstone.errors import DeviceError, LoadstoneError

__all__ = ["MAX_WORKERS", "Pool", "open_pool", "workers_of"]

#: The largest number of processes; more need a cluster.
MAX_WORKERS = 1024
#: A unit during which this number of workers died is considered the cause.
_DEATHS = 20
#: The interval in which the number of workers is checked.
_LOOK_SECONDS = 2.0
#: The same of an executor's units, doubled while none is done.
_FIRST_LOOK_SECONDS = 0.01
_CONNECT_SECONDS = 20
_SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "ucx://")
#: Ctrl-C in a terminal reaches all its processes; workers are stopped by the main process.
_PRELOAD = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"

Unit = TypeVar("Unit")
Result = TypeVar("Result")


class Pool(Protocol):
    """The workers; open_pool creates one. It can process several batches of units one after the
    other."""

    def map(
        self,
        function: Callable[..., Result],
        units: Sequence[Any],
        on_result: Callable[[int, Result], None] | None = None,
        shared: Sequence[Any] = (),
    ) -> list[Result]:
        """function(unit, *shared) of every unit, in the units' order. The function must be in a
        module, because workers import it by name.

        on_result: called in this process with a unit's index and its result, as results arrive.
        shared: data for all units, sent to each worker once.
        Raises the exception of the first unit that fails; no further unit is then started.
        """


def workers_of(text: str) -> int | str:
    """The value of `--workers`: a number of processes, or a scheduler's address. Raises
    DeviceError."""
    if text.startswith(_SCHEMES):
        return text
    if not text.isdecimal() or not 1 <= int(text) <= MAX_WORKERS:
        raise DeviceError(
            f"--workers {text!r} is neither a number of processes in [1, {MAX_WORKERS}] nor the "
            "address of a Dask scheduler such as tcp://HOST:8786"
        )
    return int(text)


@contextmanager
def open_pool(workers: int | str | Executor, label: str = "") -> Iterator[Pool]:
    """The workers. 1: this process, without Dask; another number: processes of this machine; a
    text: a scheduler's address; an executor (concurrent.futures, or one that is like it, such as
    submitit's for Slurm): that, which stays open.

    label: of the progress bar on stderr; there is none where stderr is not a terminal, or for "".
    Raises DeviceError when no scheduler answers.
    """
    show = label if sys.stderr.isatty() else ""
    if workers == 1:
        yield _Here(show)
        return
    if not isinstance(workers, int | str):
        yield _Executed(workers, show)
        return
    from distributed import Client, LocalCluster  # of the extra `search`

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if isinstance(workers, int):
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="loadstone-", ignore_cleanup_errors=True)
            )
            cluster = _started(
                LocalCluster,
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                memory_limit=0,  # a worker that waits for memory would wait for ever
                local_directory=folder,
                preload=[_PRELOAD],
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
            client = stack.enter_context(Client(cluster, set_as_default=False))
        else:
            cluster = None
            client = stack.enter_context(_connected(Client, workers))
        yield _Cluster(client, cluster, show)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences Dask's own log about events that are handled here: workers that died, lost
    connections."""
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    import dask

    with dask.config.set(
        {
            "distributed.logging.distributed": "critical",
            "distributed.scheduler.allowed-failures": _DEATHS,
            "distributed.scheduler.worker-saturation": 1.0,
            "distributed.deploy.lost-worker-timeout": "1s",
        }
    ):
        try:
            yield
        finally:
            logger.setLevel(level)


def _started(cluster: Callable[..., Any], n_workers: int, **options: object) -> Any:
    try:
        return cluster(n_workers=n_workers, **options)
    except (RuntimeError, OSError) as error:
        raise DeviceError(
            f"--workers {n_workers}: the processes did not start ({error}); a script of your own "
            "begins its work below `if __name__ == '__main__':`"
        ) from None


def _connected(client: Callable[..., Any], address: str) -> Any:
    try:
        return client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:  # a TimeoutError is an OSError
        raise DeviceError(
            f"--workers {address}: no Dask scheduler answers there ({type(error).__name__}); start "
            "one with `dask scheduler`, and workers with `dask worker`"
        ) from None


class _Bar:
    """A progress bar on stderr, or nothing."""

    def __init__(self, label: str, total: int) -> None:
        self.bar = None
        if label:
            from tqdm import tqdm

            self.bar = tqdm(total=total, desc=label, leave=False)

    def step(self) -> None:
        if self.bar is not None:
            self.bar.update()

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


class _Here:
    """This process, one unit after the other."""

    def __init__(self, label: str) -> None:
        self.label = label

    def map(
        self,
        function: Callable[..., Result],
        units: Sequence[Any],
        on_result: Callable[[int, Result], None] | None = None,
        shared: Sequence[Any] = (),
    ) -> list[Result]:
        results = []
        with _Bar(self.label, len(units)) as bar:
            for index, unit in enumerate(units):
                results.append(function(unit, *shared))
                if on_result is not None:
                    on_result(index, results[-1])
                bar.step()
        return results


class _Executed:
    """An executor. What units share goes with each of them."""

    def __init__(self, executor: Executor, label: str) -> None:
        self.executor = executor
        self.label = label

    def map(
        self,
        function: Callable[..., Result],
        units: Sequence[object],
        on_result: Callable[[int, Result], None] | None = None,
        shared: Sequence[object] = (),
    ) -> list[Result]:
        futures: dict[int, Future[Result]] = {}
        results: dict[int, Result] = {}
        try:
            for index, unit in enumerate(units):
                futures[index] = self.executor.submit(function, unit, *shared)
            with _Bar(self.label, len(units)) as bar:
                for index in _arriving(futures):
                    results[index] = futures.pop(index).result()
                    if on_result is not None:
                        on_result(index, results[index])
                    bar.step()
        except (BrokenExecutor, CancelledError) as error:
            raise LoadstoneError(
                f"the executor has ended in the middle of the work ({type(error).__name__}): what "
                "was done is kept; start it again, and then the same work"
            ) from None
        finally:  # Ctrl-C, or a unit that failed: those that wait are not begun
            for future in futures.values():
                future.cancel()
        return [results[index] for index in range(len(units))]


def _arriving(futures: Mapping[int, Future[Result]]) -> Iterator[int]:
    """The units that are done, in the order in which that is seen. Asked for, not waited for: jobs
    of a batch system are like futures, but call nobody when they end."""
    wait = _FIRST_LOOK_SECONDS
    while futures:
        done = [index for index, future in futures.items() if future.done()]
        yield from done
        wait = _FIRST_LOOK_SECONDS if done else min(2 * wait, _LOOK_SECONDS)
        if futures:
            time.sleep(wait)


class _Cluster:
    """Dask's workers. cluster: the one of this machine, whose processes are ours; None:
    another's."""

    def __init__(self, client: Any, cluster: Any, label: str) -> None:
        self.client = client
        self.cluster = cluster
        self.label = label
        self.processes = len(cluster.workers) if cluster is not None else 0

    def map(
        self,
        function: Callable[..., Result],
        units: Sequence[Any],
        on_result: Callable[[int, Result], None] | None = None,
        shared: Sequence[Any] = (),
    ) -> list[Result]:
        # What is shared is the result of a task, not data put somewhere: when the worker that has
        # it dies, it is made again.
        common = [self.client.submit(_given, value, pure=False) for value in shared]
        finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        futures = {
            index: self.client.submit(function, unit, *common, pure=False, priority=-index)
            for index, unit in enumerate(units)
        }
        try:
            for index in futures:
                futures[index].add_done_callback(lambda _, index=index: finished.put(index))
            with _Bar(self.label, len(units)) as bar:
                results = dict(self._taken(futures, finished, on_result, bar))
        finally:  # Ctrl-C, or a unit that failed: nobody goes on with the others
            self.client.cancel([*futures.values(), *common], force=True)
        return [results[index] for index in range(len(units))]

    def _taken(
        self,
        futures: dict[int, Any],
        finished: queue.SimpleQueue[int],
        on_result: Callable[[int, Any], None] | None,
        bar: _Bar,
    ) -> Iterator[tuple[int, Any]]:
        """Takes futures away as their results come: what nobody holds, Dask forgets. Held, it were
        computed again when the worker that did it dies, before anything else."""
        while futures:
            try:
                index = finished.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._replace_the_dead()
                continue
            result = self._result(futures[index])
            del futures[index]
            if on_result is not None:
                on_result(index, result)
            bar.step()
            yield index, result

    def _result(self, future: Any) -> Any:
        from distributed import CancelledError, KilledWorker

        try:
            return future.result()
        except KilledWorker:
            raise LoadstoneError(
                f"a unit of work ended {_DEATHS + 1} workers, each in the middle of it: they may "
                "lack memory; use fewer of them"
            ) from None
        except CancelledError:
            raise LoadstoneError(
                "the Dask scheduler has left in the middle of the work: what was done is kept; "
                "start it again, and then the same command"
            ) from None

    def _replace_the_dead(self) -> None:
        """Dask restarts a process that dies while it works; one that dies while it starts is
        gone, and is asked for again."""
        if self.cluster is None:
            return
        if len(self.cluster.workers) < self.processes:
            self.cluster.scale(self.processes)


def _given(value: Any) -> Any:
    return value
