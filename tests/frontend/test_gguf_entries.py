# SPDX-License-Identifier: Apache-2.0
"""gguf_entries.py: `next` and `chunk`, and who says how many rows."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.errors import ConfigError
from loadstone.frontend.gguf_entries import entry_readings
from loadstone.frontend.reading import WHOLE, Reading

WINDOW = Reading(shapes={"window": (8,)})


@pytest.mark.parametrize(
    ("reading", "rows", "wanted"),
    [
        (WHOLE, None, {"next": 1, "chunk": 16}),
        (WHOLE, 32, {"next": 1, "chunk": 32}),
        (WINDOW, None, {"next": 1, "chunk": 8}),
        (WINDOW, 4, {"next": 1, "chunk": 4}),
    ],
)
def test_each_entry_has_its_rows(reading: Reading, rows: int | None, wanted: Any) -> None:
    found = entry_readings("a/m.GGUF", reading, rows)
    assert {name: own.shapes["tokens"] for name, own in found.items()} == {
        name: (count,) for name, count in wanted.items()
    }
    for own in found.values():
        assert {**own.shapes, "tokens": ()} == {**reading.shapes, "tokens": ()}


@pytest.mark.parametrize(
    ("model", "reading", "rows"),
    [
        ("m.gguf", WHOLE, 1),
        ("m.gguf", Reading(shapes={"tokens": (4,)}), None),
        ("m.gguf", Reading(shapes={"window": (1,)}), None),
        ("m.onnx", WHOLE, None),
        (object(), WHOLE, None),
        (object(), WHOLE, 1),
    ],
)
def test_others_have_one_entry_without_a_name(model: Any, reading: Reading, rows: Any) -> None:
    assert entry_readings(model, reading, rows) == {"": reading}


@pytest.mark.parametrize(
    ("model", "reading", "rows", "said"),
    [
        ("m.gguf", WHOLE, 0, "at least 1"),
        ("m.onnx", WHOLE, 16, "is for a .gguf file"),
        ("m.gguf", Reading(shapes={"tokens": (4,)}), 16, "rows=16 and tokens=4 are both said"),
    ],
)
def test_what_cannot_be_is_one_line(model: Any, reading: Reading, rows: int, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        entry_readings(model, reading, rows)
    assert "\n" not in str(caught.value)
