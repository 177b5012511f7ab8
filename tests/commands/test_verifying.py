# SPDX-License-Identifier: Apache-2.0
"""commands/verifying.py: --verify runs every verifier, says which ran, and what one finds is one
line that asks for a report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.cli import main
from loadstone.errors import LoweringError
from loadstone.passes.log import VERIFY
from loadstone.vta.passes.encode.encode import Encode
from tests.passes.networks import residual_block


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "block.tflite").write_bytes(residual_block())
    words = ["compile", str(tmp_path / "block.tflite"), "-t", "vtaq-tiny", "--verify"]
    return [*words, "-o", str(tmp_path / "block.lds")]


def test_the_summary_names_the_verifiers_that_ran(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VERIFY, "0")
    without = [word for word in words if word != "--verify"]
    assert main(without) == 0
    assert "verified" not in capsys.readouterr().out
    assert main(words) == 0
    assert os.environ[VERIFY] == "1"  # for workers
    (line,) = (s for s in capsys.readouterr().out.splitlines() if s.startswith("  verified "))
    assert "single 1, " in line
    assert line.endswith(
        "skip_pads 1, store_requantize 1, weave 1, store_inp 1, "
        "prefetch 1, allocate 1, encode 1, synchronize 1"
    )


def test_what_a_verifier_finds_is_one_line_and_no_artifact(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise LoweringError("micro-op 3 is nowhere")

    monkeypatch.setattr(Encode, "verify", wrong)
    assert main(words) == 70
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pass encode on vta_0 is wrong: micro-op 3 is nowhere: a mistake of Loadstone's" in said
    assert "please report it" in said
    assert not Path(words[-1]).exists()
