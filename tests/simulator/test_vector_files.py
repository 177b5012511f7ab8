# SPDX-License-Identifier: Apache-2.0
"""simulator/vector_files.py: spans of bytes, $readmemh's text, the index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import LoadstoneError
from loadstone.simulator.vector_files import (
    file_stem,
    folder_index,
    gathered,
    hex_text,
    listed_files,
    merged,
    with_written,
    write_index,
)


def test_spans_are_merged_gathered_and_put_back() -> None:
    spans = merged([(8, 10), (1, 3), (2, 5), (10, 11)])
    assert spans.tolist() == [[1, 4], [8, 3]]
    image = np.arange(12, dtype=np.uint8)
    out = gathered(image, spans)
    assert out.tolist() == [1, 2, 3, 4, 8, 9, 10]
    np.testing.assert_array_equal(with_written(image * 0, spans, out)[1:5], image[1:5])
    assert merged([]).shape == (0, 2)
    assert gathered(image, merged([])).size == 0


def test_text_for_readmemh() -> None:
    text = hex_text([(0x1000, bytes(range(18))), (0x2000, b"\xff")])
    assert text.splitlines() == [
        "@1000",
        "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f",
        "10 11",
        "@2000",
        "ff",
    ]


def test_the_index_lists_files(tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match=r"neither an index\.json"):
        listed_files(tmp_path)
    (tmp_path / "a.npz").write_bytes(b"")
    assert listed_files(tmp_path) == ({}, {"a.npz": {}})
    write_index(tmp_path, {"accelerator": "npu"}, [{"file": "b.npz", "group": "g"}])
    index, entries = listed_files(tmp_path)
    assert index["device"] == {"accelerator": "npu"}
    assert list(entries) == ["b.npz"]
    assert listed_files(tmp_path / "a.npz")[1] == {"a.npz": {}}
    (tmp_path / "index.json").write_text("[]")
    with pytest.raises(LoadstoneError, match="holds no list"):
        folder_index(tmp_path)


def test_a_program_s_name_is_a_file_s_in_one_folder() -> None:
    assert file_stem("net_00") == "net_00"
    assert file_stem("../../a/b c") == "_.._a_b_c"
    assert file_stem("..") == "program"
    assert len(file_stem("x" * 5000)) == 100
