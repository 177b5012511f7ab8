# SPDX-License-Identifier: Apache-2.0
"""Units of work on processes: the same result whoever works, whoever dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from loadstone.errors import DeviceError, LoadstoneError
from loadstone.search.workers import open_pool, workers_of

pytest.importorskip("distributed", reason="Dask is not installed (the extra `search`)")


def square(unit: int) -> tuple[int, int]:
    return unit * unit, os.getpid()


def lengths(unit: int, text: str, other: bytes) -> int:
    return unit + len(text) + len(other)


def fail(unit: int) -> int:
    if unit == 1:
        raise DeviceError("unit 1 is broken")
    return unit


def die_once(unit: Path) -> int:
    """Ends its worker the first time."""
    if not unit.exists():
        unit.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return len(unit.name)


def leave_a_trace(unit: tuple[Path, int]) -> int:
    """A file for each time that it is done; the fiftieth unit ends its worker, once."""
    folder, number = unit
    time.sleep(0.02)
    traces = list(folder.glob(f"{number}.*"))
    (folder / f"{number}.{len(traces)}").touch()
    if number == 50 and not traces:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_processes_that_do_not_start_are_one_line(tmp_path: Path) -> None:
    """Python starts a worker by importing the script anew: what is not below `if __name__` runs."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from loadstone.errors import DeviceError\n"
        "from loadstone.search.workers import open_pool\n"
        "if __name__ != '__main__':\n"
        "    sys.exit('as who imports it may')\n"
        "try:\n"
        "    with open_pool(2):\n"
        "        print('started')\n"
        "except DeviceError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.startswith("--workers 2: the processes did not start ("), done.stderr
    assert done.stdout.count("\n") == 1


def test_one_worker_is_this_process() -> None:
    seen: list[tuple[int, int]] = []
    with open_pool(1) as pool:
        results = pool.map(square, [3, 4], lambda index, result: seen.append((index, result[0])))
    assert results == [(9, os.getpid()), (16, os.getpid())]
    assert seen == [(0, 9), (1, 16)]


def test_processes_give_what_this_one_gives(tmp_path: Path) -> None:
    """One cluster for all that is asked of it, since each takes seconds to start: order, shared
    values, workers that die, units that fail, Ctrl-C while units run, and work after each."""
    with open_pool(2) as pool:
        told: dict[int, tuple[int, int]] = {}
        results = pool.map(square, range(7), told.__setitem__)
        assert [result for result, _ in results] == [k * k for k in range(7)]
        assert told == dict(enumerate(results))
        assert os.getpid() not in {pid for _, pid in results}

        assert pool.map(lengths, [1, 2], shared=("abc", b"de")) == [6, 7]

        names = [tmp_path / ("x" * k) for k in range(1, 3)]
        assert pool.map(die_once, names) == [1, 2]
        assert all(name.exists() for name in names)

        folder = tmp_path / "traces"
        folder.mkdir()
        assert pool.map(leave_a_trace, [(folder, n) for n in range(60)]) == list(range(60))
        # not those that the dead worker had given: with a death every few seconds it never ended
        assert 61 <= len(list(folder.iterdir())) <= 61 + 6

        with pytest.raises(DeviceError, match=r"^unit 1 is broken$"):
            pool.map(fail, range(4))

        def interrupt(index: int, result: None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            pool.map(time.sleep, [0.0, *[600.0] * 7], on_result=interrupt)
        assert pool.map(square, []) == []


def test_an_address_without_a_scheduler_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadstone.search.workers._CONNECT_SECONDS", 1)
    with (
        pytest.raises(DeviceError, match="workers tcp://127.0.0.1:9: no Dask scheduler"),
        open_pool("tcp://127.0.0.1:9"),
    ):
        pass


@pytest.mark.parametrize("text", ["0", "-1", "two", "1025", "", "tcp:/x", "²"])
def test_who_works_is_a_number_or_an_address(text: str) -> None:
    with pytest.raises(DeviceError, match="neither a number of processes"):
        workers_of(text)


def test_addresses_and_numbers() -> None:
    assert workers_of("tcp://host:8786") == "tcp://host:8786"
    assert workers_of("12") == 12


class Job:
    """What a batch system's library gives: like a future, but it calls nobody when it ends."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.looks, self.cancelled = work, 0, False

    def done(self) -> bool:
        self.looks += 1
        return self.looks > 2

    def result(self) -> Any:
        assert not self.cancelled
        return self.work()

    def cancel(self) -> bool:
        self.cancelled = True
        return True


class BatchSystem:
    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Job:
        self.jobs.append(Job(partial(function, *arguments)))
        return self.jobs[-1]


def die(unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return unit


def test_an_executor_gives_what_this_process_gives() -> None:
    """Order, shared values, a unit that fails, and work after it; it stays open."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        with open_pool(executor) as pool:
            told: dict[int, tuple[int, int]] = {}
            results = pool.map(square, range(7), told.__setitem__)
            assert [result for result, _ in results] == [k * k for k in range(7)]
            assert told == dict(enumerate(results))
            assert os.getpid() not in {pid for _, pid in results}
            assert pool.map(lengths, [1, 2], shared=("abc", b"de")) == [6, 7]
            with pytest.raises(DeviceError, match=r"^unit 1 is broken$"):
                pool.map(fail, range(4))
            assert pool.map(square, []) == []
        assert executor.submit(fail, 3).result() == 3


def test_an_executor_whose_worker_dies_is_one_line() -> None:
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor,
        open_pool(executor) as pool,
        pytest.raises(LoadstoneError, match=r"^the executor has ended .* \(BrokenProcessPool\)"),
    ):
        pool.map(die, [1, 2])


def test_jobs_of_a_batch_system_are_asked_for() -> None:
    system = BatchSystem()
    with open_pool(cast("Executor", system)) as pool:
        assert pool.map(lengths, [1, 2, 3], shared=("ab", b"")) == [3, 4, 5]
        assert [job.looks for job in system.jobs] == [3, 3, 3]
        with pytest.raises(DeviceError, match=r"^unit 1 is broken$"):
            pool.map(fail, range(4))
    assert [job.cancelled for job in system.jobs[3:]] == [False, False, True, True]
