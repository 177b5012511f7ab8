# SPDX-License-Identifier: Apache-2.0
"""runtime/step_signature.py: names do not matter, everything that a step's time depends on does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.artifact.format import BufferView, DataType, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.runtime.step_signature import digest, step_signature

TENSORS = tuple(
    BufferView(f"t{k}", (1, columns), DataType.INT8, 0, 64 * k)
    for k, columns in enumerate((16, 16, 16, 32))
)
STEP = HostStep("first", HostOpcode.EXTERNAL, (0,), (1,), {}, "f", '{"n": 1}')


def test_steps_that_differ_in_names_and_places_are_equal() -> None:
    other = replace(STEP, name="second", inputs=(1,), outputs=(2,))
    assert step_signature(STEP, TENSORS) == step_signature(other, TENSORS)


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": (3,)},
        {"outputs": (3,)},
        {"inputs": (0, 1)},
        {"function": "g"},
        {"attributes": '{"n": 2}'},
        {"parameters": {"axis": 1}},
        {"opcode": HostOpcode.COPY, "function": ""},
    ],
)
def test_steps_that_differ_otherwise_are_not(change: dict[str, object]) -> None:
    assert step_signature(STEP, TENSORS) != step_signature(replace(STEP, **change), TENSORS)


def test_a_digest_tells_apart_where_a_part_ends() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    assert digest("ab") == digest(b"ab")
