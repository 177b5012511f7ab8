# SPDX-License-Identifier: Apache-2.0
"""What was found out stays, by content."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.errors import LoadstoneError
from loadstone.search.store import ResultStore, key_of


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
