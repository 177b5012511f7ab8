# SPDX-License-Identifier: Apache-2.0
"""simulator/replayed.py: limits on cycles, and those that a test bench has counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.cli import main
from loadstone.errors import LoadstoneError
from loadstone.simulator.replayed import measured_elsewhere
from loadstone.vta.simulator.vectors import (
    load_vectors,
    save_vectors,
)


def test_limits_on_cycles_decide_the_exit_status(shared: Path, tmp_path: Path) -> None:
    (conv,) = load_vectors([shared / "vta_rtl/conv_conv3x3_v1.npz"])
    save_vectors(tmp_path, [replace(conv, cycles={0: 10060, 64: 36882})])  # 0.05 % off
    assert main(["replay", str(tmp_path), "--max-error", "0.1"]) == 0
    assert main(["replay", str(tmp_path), "--max-error", "0.01"]) == 1
    assert main(["replay", str(tmp_path), "--max-median", "0.01"]) == 1


def test_cycles_of_a_test_bench_take_the_place_of_the_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared: Path
) -> None:
    (vector,) = load_vectors([shared / "vta_rtl/conv_conv1x1_v1.npz"])
    cycles = vector.cycles[0]
    measured = tmp_path / "rtl.txt"
    measured.write_text(f"{vector.name} {2 * cycles}\n")
    words = ["replay", str(shared / "vta_rtl/conv_conv1x1_v1.npz"), "--measured", str(measured)]
    assert main([*words, "--max-error", "50"]) == 0
    assert main([*words, "--max-error", "49"]) == 1
    assert "(not measured)" in capsys.readouterr().out  # at 64 more
    measured.write_text("another 5\n")
    assert main(words) == 2
    assert "no vector is called 'another'" in capsys.readouterr().err


def test_lines_of_a_test_bench() -> None:
    assert measured_elsewhere(" a b  5\n\nc 6 70\n", "f") == {"a b": {0: 5}, "c": {0: 6, 64: 70}}
    for text, said in (
        ("\na", "line 2: is not NAME"),
        ("a -1", "line 1"),
        ("a 1\na 2", "a stands twice"),
    ):
        with pytest.raises(LoadstoneError, match=said):
            measured_elsewhere(text, "f")
