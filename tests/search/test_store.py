# SPDX-License-Identifier: Apache-2.0
"""What was found out stays, by content."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import LoadstoneError
from loadstone.search.assumptions import Counts
from loadstone.search.evaluate import is_result
from loadstone.search.store import ResultStore, key_of
from tests.repeat import times


def test_results_outlive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with ResultStore(path) as store:
        assert store.get("a") is None
        store.put("a", {"cycles": 3, "us": 0.1})
        store.put("a", {"cycles": 4, "us": 0.1})
        with ResultStore(path) as other:  # as soon as it is known
            assert other.get("a") == {"cycles": 4, "us": 0.1}
    with ResultStore(path) as store:
        assert store.get("a") == {"cycles": 4, "us": 0.1}


def test_keys_are_of_content() -> None:
    assert key_of({"a": 1, "b": 2}, "x") == key_of({"b": 2, "a": 1}, "x")
    assert len({key_of({"a": 1}), key_of({"a": 2}), key_of({"a": "1"}), key_of({"a": 1}, 0)}) == 4


def test_another_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("no database " * 100)
    with pytest.raises(LoadstoneError, match="cannot be kept as a store of results"):
        ResultStore(path)
    with pytest.raises(LoadstoneError, match="cannot be kept as a store of results"):
        ResultStore(tmp_path / "absent" / "r.sqlite")


def damaged(path: Path, seed: int) -> None:
    """Flipped bytes, an end that is missing, a page of zeros, or rows that a hand has changed."""
    random, data = np.random.default_rng(seed), bytearray(path.read_bytes())
    for name in (f"{path}-journal", f"{path}-wal"):
        Path(name).unlink(missing_ok=True)
    if seed % 4 == 0:
        for at in random.integers(0, len(data), int(random.choice([1, 5, 50]))):
            data[at] = int(random.integers(256))
    elif seed % 4 == 1:
        del data[int(random.integers(len(data))) :]
    elif seed % 4 == 2:
        at = int(random.integers(100, len(data) - 3000))
        data[at : at + 3000] = bytes(3000)
    path.write_bytes(data)
    if seed % 4 == 3:
        with closing(sqlite3.connect(path)) as database, database:
            value = [b"{}", "[1]", "not json", None, 7, "\ud800".encode("utf-8", "surrogatepass")]
            database.execute("UPDATE results SET value = ?", (value[seed // 4 % len(value)],))


def test_a_damaged_store_is_one_line_and_a_damaged_row_is_none(tmp_path: Path) -> None:
    """Never a traceback, and never another value than was kept."""
    whole, told, missing = tmp_path / "r.sqlite", 0, 0
    kept = {key_of(k): {"cycles": k, "why": "x" * 200} for k in range(60)}
    with ResultStore(whole) as store:
        for key, value in kept.items():
            store.put(key, value)
    path = tmp_path / "d.sqlite"
    for seed in range(times(80, 2000)):
        shutil.copyfile(whole, path)
        damaged(path, seed)
        said = ""
        try:
            with ResultStore(path) as store:
                for key, value in kept.items():
                    found = store.get(key)
                    assert found in (None, value)
                    missing += found is None
                store.put("new", {"cycles": 1})
        except LoadstoneError as error:
            said = str(error)
        assert "\n" not in said
        assert not said or "delete it, and what it held is computed again" in said
        told += bool(said)
    assert told > 10
    assert missing > 100


def test_rows_of_the_right_checksum_and_a_wrong_shape_are_none_of_a_sweep() -> None:
    """Whoever writes a store can seal it, too."""
    good = {"feasible": False, "why": "too large"}
    assert is_result(good)
    for bad in ({}, {"feasible": 1, "why": ""}, {"feasible": True, "why": ""}, {"why": "x"}):
        assert not is_result(bad)
    counts = dict.fromkeys((entry.name for entry in fields(Counts)), 1)
    names = ("samples_per_run", "cycles", "macs", "instructions", "constants_bytes", "arena_bytes")
    numbers = dict.fromkeys((*names, "operators", "operators_on_host", "host_ns"), 1)
    layers = [["conv", 1, 1, 1, 1, "compute"]]
    whole = {"feasible": True, "why": "", **numbers, "counts": counts, "layers": layers}
    assert is_result({**whole, "accuracy": None})
    for name, value in (
        *((name, odd) for name in numbers for odd in (True, "7", -1, 1.5, 1 << 63)),
        ("cycles", 0),
        ("counts", {}),
        ("counts", {**counts, "more": 1}),
        ("layers", [[1]]),
        ("layers", [[[], 1, 1, 1, 1, ""]]),
        ("accuracy", "high"),
    ):
        assert not is_result({**whole, name: value}), (name, value)
