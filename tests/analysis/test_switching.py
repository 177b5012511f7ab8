# SPDX-License-Identifier: Apache-2.0
"""switching.py: the longest program of an artifact, and where commands say it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.analysis.switching import Switching, switching
from loadstone.cli import main
from loadstone.compiler import compile
from tests.runtime.test_schedule import CONFIG, CYCLES, MODEL, in_parts


def test_the_longest_program_is_named() -> None:
    found = switching(in_parts(3), CONFIG)
    assert found == Switching(3, "part 0", CYCLES)
    assert f"{CYCLES:,} cycles at most" in str(found)
    host = replace(MODEL, steps=tuple(s for s in MODEL.steps if s not in MODEL.programs))
    assert switching(host, CONFIG) == Switching(0, "", 0)
    assert str(switching(host, CONFIG)) == "no program of a device"


def test_a_network_that_is_cut_has_a_shorter_longest_program(shared: Path) -> None:
    file = shared / "models/mlpt_kws_int8.tflite"
    whole, cut = (
        switching(compile(file, CONFIG.name, switch_cycles=cycles).artifact, CONFIG)
        for cycles in (None, 20_000)
    )
    assert whole.programs == 1
    assert cut.programs > 1
    assert cut.longest_cycles <= 20_000 < whole.longest_cycles


def test_inspect_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    in_parts(3).save("three.lds")
    assert main(["inspect", "three.lds", "--switches", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["switching"]
    assert said == {"programs": 3, "longest": "part 0", "longest_cycles": CYCLES}
    assert main(["inspect", "three.lds", "--switches"]) == 0
    assert capsys.readouterr().out.endswith(
        f"switches\n  3 program(s); {CYCLES:,} cycles at most in which no other network can go on "
        "(part 0)\n"
    )
    assert main(["inspect", "three.lds", "--json"]) == 0
    assert "switching" not in json.loads(capsys.readouterr().out)
