# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.kill_campaign [--count N] [--seconds S] [--seed K]`: commands that write files,
killed at random instants.

In:   compile, tune, sweep, run and export on a small network, in copies of this process, which has
      imported what they import; one in `FRESH` in a process of its own, imports and all.
Out:  how many were killed, and files that are neither what stood there nor what the command writes;
      a line for each of these, and exit status 1.
Next: tests/commands/test_kill_campaign.py does some; the whole is run by hand.

A file's name leads to old or to new content, never to a part. Stores of searches are databases:
they open, and the command that is given them again ends with the same table.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median

import numpy as np

from loadstone.cli import main as loadstone
from tests.onnx_builder import Graph

__all__ = ["COMMANDS", "campaign"]

_TARGET = "vtaq-1x16x16"
#: Name -> words, and what it writes.
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "compile": (["compile", "net.onnx", "-t", _TARGET, "-o", "out.lds"], ["out.lds"]),
    "run": (["run", "net.lds", "--inputs", "x.npz", "-o", "y.npz"], ["y.npz"]),
    "export": (["export", "net.lds", "--board", "linux", "-o", "app"], ["app"]),
    "tune": (
        ["tune", "net.onnx", "-t", _TARGET, "--trials", "2", "--store", "t.db", "-o", "tuned.json"],
        ["tuned.json", "t.db"],
    ),
    "sweep": (
        [
            *("sweep", "space.yaml", "--models", "net.onnx", "--workers", "1", "--store", "s.db"),
            *("-o", "r.parquet", "--html", "r.html"),
        ],
        ["r.parquet", "r.html", "s.db"],
    ),
}
_STORES = ("t.db", "s.db")
_OLD = b"what stood there before"
#: One in so many is a process of its own; one in so many is begun again and must end as ever.
FRESH, AGAIN = 200, 8
#: Sides of the network's image, and its channels: the files are what is looked at.
SIZE, CHANNELS = 4, 16


def _network() -> bytes:
    """x -> conv 1x1 -> y, in powers of two."""
    rng, graph = np.random.default_rng(0), Graph()
    x = graph.dequantize(graph.input((1, CHANNELS, SIZE, SIZE), np.int8), 0.125, 0)
    weights = rng.integers(-128, 128, (CHANNELS, CHANNELS, 1, 1))
    w = graph.dequantize(graph.constant(weights, np.int8), 2.0**-9, 0)
    y = graph.node("Conv", x, w, kernel_shape=[1, 1])
    return graph.save([(graph.quantize(y, 0.125, 0), np.int8)])


def _prepare(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(_network())
    (folder / "space.yaml").write_text("base: vtaq-1x8x8\ndevice:\n  bus_bits: [64, 128]\n")
    drawn = np.random.default_rng(0).integers(-128, 128, (3, 1, CHANNELS, SIZE, SIZE))
    np.savez(folder / "x.npz", in0=drawn.astype(np.int8))
    assert _forked(["compile", "net.onnx", "-t", _TARGET, "-o", "net.lds"], folder, None) == 0


def _import_all(folder: Path) -> None:
    """What the commands import, as a copy that runs them says: nine tenths of their time. This
    process runs none of them, as it would keep their threads."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before = set(sys.modules)
            for words, _ in COMMANDS.values():
                _run(words, folder)
            os.write(write, " ".join(sys.modules.keys() - before).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as names:
        for name in sorted(names.read().split()):
            with suppress(ImportError):  # what some library looks for, and makes itself
                import_module(name)
    os.waitpid(child, 0)
    gc.collect()
    gc.freeze()  # the copies share what is there


def _run(words: Sequence[str], folder: Path) -> int:
    os.chdir(folder)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    return loadstone(list(words))


def _fresh(words: Sequence[str], folder: Path, seconds: float | None) -> int:
    """As `_forked`, in a process of its own."""
    child = subprocess.Popen(
        [sys.executable, "-m", "loadstone", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if seconds is not None:
        time.sleep(seconds)
        child.kill()
    status = child.wait()
    return -status if status < 0 else status << 8


def _forked(words: Sequence[str], folder: Path, seconds: float | None) -> int:
    """A command in a copy of this process, killed after so long; its status as of waitpid."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _run(words, folder)
        finally:
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _digests(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Of the files that are there, stores apart; hidden ones are nobody's output."""
    found = {}
    for name in names:
        path = folder / name
        inside = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
        for file in inside:
            if file.is_file() and name not in _STORES and not file.name.startswith("."):
                digest = hashlib.sha256(_content(file)).hexdigest()
                found[str(file.relative_to(folder))] = digest
    return found


def _content(file: Path) -> bytes:
    """An archive's arrays: its bytes hold the time."""
    data = file.read_bytes()
    if file.suffix != ".npz" or data == _OLD:
        return data
    with np.load(file) as arrays:
        return b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))


def _broken_store(path: Path) -> str:
    if not path.is_file() or not path.stat().st_size:
        return ""
    try:
        with closing(sqlite3.connect(path)) as database:
            said = database.execute("PRAGMA integrity_check").fetchone()[0]
    except sqlite3.Error as error:
        said = str(error)
    return "" if said == "ok" else f"{path.name}: {said}"


def _clear(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        for file in folder.glob(f"{name}*"):
            file.unlink()


class _Takes:
    """How long a command takes, by the last few that ended: other work on a machine comes and
    goes."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=5)

    def timed(self, run: Callable[[], int]) -> int:
        """`run()`, to its end."""
        begin = time.monotonic()
        status = run()
        self._seconds.append(time.monotonic() - begin)
        return status

    def instant(self, drawn: random.Random) -> float:
        """Any, from the command's begin to its end."""
        return drawn.uniform(0, median(self._seconds))


def campaign(
    count: int, folder: Path, seed: int = 0, seconds: float = float("inf")
) -> tuple[Counter[str], list[str]]:
    """Kills `count` commands, or as many as fit in the time: how many of each, and what was
    broken."""
    _prepare(folder)
    _import_all(folder)
    whole, takes = {}, {}
    for name, (words, outputs) in COMMANDS.items():
        _clear(folder, outputs)
        takes[name] = _Takes()
        status = takes[name].timed(partial(_forked, words, folder, None))
        assert status == 0, (name, status)
        whole[name] = _digests(folder, outputs)
        assert whole[name], name
        _clear(folder, outputs)
    drawn, counts, broken = random.Random(seed), Counter[str](), []
    end = time.monotonic() + seconds
    slow = _Takes()  # a process of its own, whatever it does, mostly imports
    for number in range(count):
        if time.monotonic() > end:
            break
        name = drawn.choice(list(COMMANDS))
        words, outputs = COMMANDS[name]
        if number % 2:
            for output in outputs:
                if output not in _STORES and output != "app":
                    (folder / output).write_bytes(_OLD)
        fresh = number % FRESH == FRESH - 1
        if fresh:
            assert slow.timed(partial(_fresh, words, folder, None)) == 0
            _clear(folder, outputs)
        run, lasts = (_fresh, slow) if fresh else (_forked, takes[name])
        status = run(words, folder, lasts.instant(drawn))
        counts[f"{name} killed" if status == signal.SIGKILL else f"{name} done"] += 1
        said = _broken(folder, name, whole[name])
        if number % AGAIN == 0:
            said += _broken_again(folder, name, whole[name], takes[name])
        broken += [f"{number} {name}: {what}" for what in said]
        _clear(folder, outputs)
        for part in folder.glob(".*.part"):
            part.unlink()
    return counts, broken


def _broken(folder: Path, name: str, whole: dict[str, str]) -> list[str]:
    """What a kill left that is neither old nor new."""
    outputs, old = COMMANDS[name][1], hashlib.sha256(_OLD).hexdigest()
    found = _digests(folder, outputs).items()
    said = [file for file, digest in found if digest not in (whole.get(file), old)]
    return said + [said for o in outputs if o in _STORES and (said := _broken_store(folder / o))]


def _broken_again(folder: Path, name: str, whole: dict[str, str], takes: _Takes) -> list[str]:
    """It goes on where it stopped, with the same files."""
    words, outputs = COMMANDS[name]
    status, said = takes.timed(partial(_forked, words, folder, None)), []
    if status or _digests(folder, outputs) != whole:
        said.append(f"run again, status {status}, it writes other files")
    left = [p.name for p in folder.rglob(".*.part")]
    if left and name != "export":
        said.append(f"{left[0]} is left")
    return said


def main() -> int:
    """A line of figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_campaign", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, broken = campaign(args.count, Path(folder), args.seed, args.seconds)
    killed = sum(n for what, n in counts.items() if what.endswith("killed"))
    print(f"{killed} killed, {len(broken)} broken files: {dict(sorted(counts.items()))}")
    print("\n".join(broken[:20]))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
