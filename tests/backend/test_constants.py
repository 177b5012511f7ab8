# SPDX-License-Identifier: Apache-2.0
"""Fields and constants of a plug-in's program that are refused when it is compiled, in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.backend.constants import check_constants, check_numbers
from loadstone.cli import main
from loadstone.errors import LoweringError
from loadstone.isa.codec import At, TableInsn
from tests.conftest import ROOT
from tests.isa.tables import NPU
from tests.search.small_network import small_network

COPY = [TableInsn("copy", {"address": At("w"), "stride": 16, "rows": 4})]
EMIT = "region.emit(operator, *code.instructions)"
FOURTH = "code.instructions[3].fields"
NAME = "systolic-by-hand"
PADS = "np.full(dim, zero_point, np.int8)"
LANES = "lanes = np.zeros((3, o), np.int32)"


def test_a_constant_is_of_the_type_of_its_memory() -> None:
    for kind in (np.int8, np.uint8):
        check_constants(NPU, COPY, {"w": np.zeros(64, kind)})
    check_constants(NPU, [TableInsn("store", {"address": At("w"), "rows": 4})], {"w": np.zeros(9)})
    said = "copy.address: constant 'w' is of int64, and pad, into which it is read, holds int8"
    with pytest.raises(LoweringError, match=said):
        check_constants(NPU, COPY, {"w": np.zeros(64, np.int64)})
    with pytest.raises(LoweringError, match=r"its -300 is not in \[-128, 127\]\): give it as int8"):
        check_constants(NPU, COPY, {"w": np.array([5, -300])})


@pytest.mark.parametrize("value", [np.zeros(4, object), "text", np.array(["a"])])
def test_what_is_no_number_is_no_constant(value: object) -> None:
    with pytest.raises(LoweringError, match="constant 'w' is of type .*, not of numbers"):
        check_numbers("w", value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            EMIT,
            f"code.instructions[3].fields['rows'] = 1 << 21; {EMIT}",
            "mvin.rows=2097152 is not",
        ),
        (
            EMIT,
            f"code.instructions[3].fields['cols'] = 1; {EMIT}",
            "mvin has no field 'cols'; it has",
        ),
        (PADS, "np.full(dim, 300)", "its 300 is not in [-128, 127]): give it as int8"),
        (LANES, "lanes = np.zeros((3, o))", "holds int32: give it as int32"),
    ],
)
def test_the_command_names_it(
    old: str, new: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand = ROOT / "tests/backend/by_hand/systolic_by_hand.py"
    text = by_hand.read_text(encoding="utf-8").replace("Path(__file__)", f"Path({str(by_hand)!r})")
    assert old in text
    (tmp_path / "mine.py").write_text(text.replace(old, new), encoding="utf-8")
    (tmp_path / "s.onnx").write_bytes(small_network())
    words = ["compile", str(tmp_path / "s.onnx"), "-o", str(tmp_path / "s.lds")]
    assert main([*words, "--uma-backends", str(tmp_path / "mine.py"), "-t", NAME]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
