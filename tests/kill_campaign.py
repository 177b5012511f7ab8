# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.kill_campaign [--count N] [--seconds S] [--seed K]`: commands that write files,
killed at random instants.

In:   compile, tune, sweep, run and export on a small network, in copies of this process.
Out:  how many were killed, and files that are neither what stood there nor what the command writes;
      a line for each of these, and exit status 1.
Next: tests/commands/test_kill_campaign.py does some; the whole is run by hand.

A file's name leads to old or to new content, never to a part. Stores of searches are databases:
they open, and the command that is given them again ends with the same table.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from loadstone.cli import main as loadstone
from tests.search.small_network import SIZE, small_network

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


def _prepare(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(small_network())
    (folder / "space.yaml").write_text("base: vtaq-1x8x8\ndevice:\n  bus_bits: [64, 128]\n")
    drawn = np.random.default_rng(0).integers(-128, 128, (3, 1, 16, SIZE, SIZE))
    np.savez(folder / "x.npz", in0=drawn.astype(np.int8))
    assert _forked(["compile", "net.onnx", "-t", _TARGET, "-o", "net.lds"], folder, None) == 0


def _forked(words: Sequence[str], folder: Path, seconds: float | None) -> int:
    """A command in a copy of this process, killed after so long; its status as of waitpid."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(folder)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            status = loadstone(list(words))
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


def campaign(
    count: int, folder: Path, seed: int = 0, seconds: float = float("inf")
) -> tuple[Counter[str], list[str]]:
    """Kills `count` commands, or as many as fit in the time: how many of each, and what was
    broken."""
    _prepare(folder)
    whole, takes = {}, {}
    for name, (words, outputs) in COMMANDS.items():
        begin = time.monotonic()
        status = _forked(words, folder, None)
        takes[name] = time.monotonic() - begin
        assert status == 0, (name, status)
        whole[name] = _digests(folder, outputs)
        assert whole[name], name
        _clear(folder, outputs)
    drawn, counts, broken = random.Random(seed), Counter[str](), []
    old, end = hashlib.sha256(_OLD).hexdigest(), time.monotonic() + seconds
    for number in range(count):
        if time.monotonic() > end:
            break
        name = drawn.choice(list(COMMANDS))
        words, outputs = COMMANDS[name]
        files = [o for o in outputs if o not in _STORES and o != "app"]
        if number % 2:
            for output in files:
                (folder / output).write_bytes(_OLD)
        status = _forked(words, folder, drawn.uniform(0, takes[name]))
        counts[f"{name} killed" if status == signal.SIGKILL else f"{name} done"] += 1
        for file, digest in _digests(folder, outputs).items():
            if digest not in (whole[name].get(file), old):
                broken.append(f"{number} {name}: {file}")
        broken += [said for o in outputs if o in _STORES and (said := _broken_store(folder / o))]
        if number % 8 == 0:  # goes on where it stopped, with the same files
            status = _forked(words, folder, None)
            if status or _digests(folder, outputs) != whole[name]:
                broken.append(f"{number} {name}: run again, status {status}, it writes other files")
            left = [p.name for p in folder.rglob(".*.part")]
            if left and name != "export":
                broken.append(f"{number} {name}: {left[0]} is left")
        _clear(folder, outputs)
        for part in folder.glob(".*.part"):
            part.unlink()
    return counts, broken


def main() -> int:
    """A line of figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_campaign", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    from loadstone import compiler  # noqa: F401  # in memory before the copies are made

    with tempfile.TemporaryDirectory() as folder:
        counts, broken = campaign(args.count, Path(folder), args.seed, args.seconds)
    killed = sum(n for what, n in counts.items() if what.endswith("killed"))
    print(f"{killed} killed, {len(broken)} broken files: {dict(sorted(counts.items()))}")
    print("\n".join(broken[:20]))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
