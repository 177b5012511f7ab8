# SPDX-License-Identifier: Apache-2.0
"""Strict mode: it stops at everything that real VTA hardware computes otherwise, and at nothing
else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs import BASE
from tests.simulated import run_text

_UOP = "load uop[0] = dram[1024 + x] for x<4\n"
_ALU = "alu acc[u+1j]"
_NINE = "i<1 j<9 u in 0..1"
_ACC = "load acc[0] = dram[64 + x] for x<16\n"


@pytest.mark.parametrize(
    ("bad", "good", "message"),
    [
        (
            f"{_UOP}{_ALU} += 3 for {_NINE} with src_in=2\n",
            f"{_UOP}{_ALU} += 3 for {_NINE} with src_in=1\n",
            "must equal dst's",
        ),
        (
            f"{_UOP}{_ALU} >>= 16 for {_NINE} with src_in=1\n",
            f"{_UOP}{_ALU} >>= 15 for {_NINE} with src_in=1\n",
            "outside [-16, 15]",
        ),
        (
            f"{_UOP}alu acc[u] += 3 for {_NINE}\n",
            f"{_UOP}{_ALU} += 3 for {_NINE} with src_in=1\n",
            "within the next two ALU steps",
        ),
        (
            f"{_UOP}{_ALU} += acc[u] for {_NINE}\n",
            f"{_UOP}{_ALU} += acc[u+9j] for {_NINE}\n",
            "within the next two ALU steps",
        ),
        (
            "load wgt[0] = dram[16 + x] for x<1 pad left 1\n",
            "load wgt[0] = dram[16 + x] for x<1\n",
            "padding of WGT",
        ),
        ("load uop[0] = dram[1024 + 2y + x] for y<2 x<1\n", _UOP, "one-dimensional"),
        (
            _UOP + "gemm acc[u] = 0 for i<0 j<1 u in 0..1\n",
            _UOP + "gemm acc[u] = 0 for i<1 j<1 u in 0..1\n",
            "loop count of 0",
        ),
        ("nop compute with dram_base=3\n", "nop compute\n", "no-op"),
        (
            "load inp[0] = dram[256 + x] for x<2048\n",
            "load inp[0] = dram[256 + x] for x<2047\n",
            "LOAD INP of 2048 tiles",
        ),
        (
            "nop load push(compute)\n",
            "nop load push(compute)\npop(load) nop compute\n",
            "leaves a token",
        ),
        (
            f"load uop[0] = dram[1024 + x] for x<2\n{_ACC}",
            f"load uop[0] = dram[1024 + x] for x<3\n{_ACC}",
            "LOAD UOP has a burst of a single beat with another read behind it",
        ),
        (
            "load uop[0] = dram[1535 + x] for x<5\n",
            "load uop[0] = dram[1532 + x] for x<4\n",
            "a single beat",
        ),
        (
            f"load uop[0] = dram[1500 + x] for x<38\n{_ACC}",
            f"load uop[0] = dram[1500 + x] for x<40\n{_ACC}",
            "a single beat",
        ),
        ("finish\nnop compute\n", "nop compute\n", "FINISH is not the last"),
        ("pop(compute) nop load\n", "nop load\n", "has instructions left"),
    ],
)
def test_strict_mode_stops_at_what_real_hardware_does_otherwise(
    bad: str, good: str, message: str
) -> None:
    result = run_text(bad + "finish", strict=True)
    assert result.status == "UNSAFE", result
    assert message in result.message
    assert run_text(bad + "finish").status == "NONE", (
        "without strict mode it is a program like any other"
    )
    assert run_text(good + "finish", strict=True).status == "NONE", run_text(
        good + "finish", strict=True
    ).message


def test_a_store_of_a_tile_that_compute_did_not_touch_is_unsafe() -> None:
    alu = "alu acc[u] += 1 for i<1 j<1 u in 0..1"
    store = "pop(compute) store dram[300 + x] = out[0] for x<1 push(compute)\npop(store) finish"
    assert run_text(f"{_UOP}{_ACC}{alu} push(store)\n{store}", strict=True).status == "NONE"
    loaded_after = run_text(f"{_UOP}{alu}\n{_ACC.strip()} push(store)\n{store}", strict=True)
    assert loaded_after.status == "UNSAFE"
    assert "ACC tile 0 was not written by a GEMM" in loaded_after.message
    reset_after = run_text(
        f"{_UOP}{alu}\ngemm acc[u] = 0 for i<1 j<1 u in 0..1 push(store)\n{store}", strict=True
    )
    assert reset_after.status == "UNSAFE"


def test_tensor_shifts_by_negative_lanes_are_unsafe() -> None:
    memory = np.zeros(1 << 16, np.uint8)
    memory[64 * 64 - BASE + 64 :][:64].view("<i4")[5] = -1
    text = f"{_UOP}{_ACC}alu acc[u] >>= acc[u+1i] for i<1 j<1 u in 0..1 with src_in=1\nfinish"
    assert run_text(text, strict=True, memory=memory).status == "NONE"
    memory[0:4] = np.array([1 << 11], "<u4").view(np.uint8)  # src = 1
    result = run_text(text, strict=True, memory=memory)
    assert result.status == "UNSAFE"
    assert "tensor SHR by -1 in ACC tile 1" in result.message
