# SPDX-License-Identifier: Apache-2.0
"""analysis/tokens.py: a token that is missing is found where no value shows it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.tokens import races
from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.cli import main
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from tests.analysis.faults import KINDS, faults
from tests.compiled import golden, network
from tests.ordering import tokens_of, without
from tests.sample_model import dense_model

CONFIG = load_config("vtaq-1x16x16")


def without_token(artifact: Artifact, number: int) -> Artifact:
    """The sample's program without one of its tokens."""
    steps = list(artifact.steps)
    place = next(n for n, step in enumerate(steps) if isinstance(step, ProgramStep))
    program = steps[place]
    assert isinstance(program, ProgramStep)
    insns = list(decode_stream(program.instructions, CONFIG))
    tokens = tokens_of(insns)
    assert tokens is not None
    fewer = encode_stream(without(insns, *tokens[number]), CONFIG).tobytes()
    steps[place] = replace(program, instructions=fewer)
    return replace(artifact, steps=tuple(steps))


def test_the_layers_of_two_instructions_that_nothing_orders() -> None:
    artifact = dense_model(CONFIG).artifact
    assert races(artifact) == []
    assert races(replace(artifact, steps=())) == []
    bad = without_token(artifact, 0)
    (program,) = bad.programs
    first = races(bad)[0]
    assert {first.layer, first.other} <= {layer.name for layer in program.layers}
    assert "no token orders them" in first.text


def test_the_command_says_it_though_all_values_are_right(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = "mlpt_ad_int8.tflite"
    artifact = network(shared, file, "vta-pynq").artifact
    fault = next(fault for fault in faults(artifact, 1, KINDS.index("token")))
    fault.artifact.save(tmp_path / "bad.lds")
    np.savez(tmp_path / "x.npz", in0=golden(shared, file, 1)[0][0])
    words = ["compare", f"{tmp_path}/bad.lds", "--inputs", f"{tmp_path}/x.npz"]
    words += ["--against", str(shared / "models" / file)]
    assert main(words) == 1
    said = capsys.readouterr().out
    assert "all equal" in said
    assert "a token is missing in layer" in said
    assert main([*words, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert not any(layer["different"] for layer in found["layers"])
    first = found["races"][0]
    assert fault.layers & {first["layer"], first["other"]}
