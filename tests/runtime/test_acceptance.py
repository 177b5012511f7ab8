# SPDX-License-Identifier: Apache-2.0
"""runtime/acceptance.py: what the runtime would refuse is refused when it is compiled."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.artifact.format import Artifact, HostStep, ProgramStep
from loadstone.artifact.host_step import EXTERNAL_RELAX
from loadstone.compiler import compile
from loadstone.errors import UnsupportedError
from loadstone.relax.compat import constant, relax, tvm
from loadstone.relax.saved import save_function
from loadstone.runtime.acceptance import check_accepted
from loadstone.vta.device.hw_config import load_config
from tests.relax.test_c_printer import module
from tests.runtime.test_step_source import artifact
from tests.sample_model import dense_model


def with_step(model: Artifact, **changes: object) -> Artifact:
    (step,) = model.steps
    assert isinstance(step, HostStep)
    return dataclasses.replace(model, steps=(dataclasses.replace(step, **changes),))


def test_what_is_sound_is_accepted() -> None:
    check_accepted(artifact())
    check_accepted(dense_model(load_config("vtaq-1x16x16")).artifact)


def test_an_operator_that_cannot_be_built_is_refused_by_its_step() -> None:
    (step,) = artifact().steps
    assert isinstance(step, HostStep)
    said = json.loads(step.attributes)
    said["tensors"][1][0][1] = [1, 7]
    spoiled = with_step(artifact(), attributes=json.dumps(said))
    with pytest.raises(
        UnsupportedError, match=r'^step \(node "y"\): the runtime would refuse it: '
    ):
        check_accepted(spoiled)


def test_an_operator_that_cannot_be_computed_is_refused_by_its_step() -> None:
    """The description is sound, and the rule has no such number."""
    (step,) = artifact().steps
    assert isinstance(step, HostStep)
    said = json.loads(step.attributes)
    said["fields"]["rounding"] = 99
    spoiled = with_step(artifact(), attributes=json.dumps(said))
    with pytest.raises(UnsupportedError, match="the runtime would refuse it"):
        check_accepted(spoiled)


def test_a_function_of_other_shapes_is_refused_by_its_step() -> None:
    function = module(lambda a, b: relax.op.add(a, b), ((1, 5), "int8"), ((1, 5), "int8"))
    relaxed = with_step(artifact(), function=EXTERNAL_RELAX, attributes=save_function(function))
    with pytest.raises(
        UnsupportedError, match=r"an operand has shape \[1, 6\], one sample \[1, 5\]"
    ):
        check_accepted(relaxed)


def test_a_program_that_the_validator_refuses_is_refused() -> None:
    model = dense_model(load_config("vtaq-1x16x16")).artifact
    steps = tuple(
        dataclasses.replace(step, instructions=step.instructions[:-16] + step.instructions[:16])
        if isinstance(step, ProgramStep)
        else step
        for step in model.steps
    )
    with pytest.raises(UnsupportedError, match=r"the validator's status is -26 at instruction 11"):
        check_accepted(dataclasses.replace(model, steps=steps))


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq", "vtab-1x16x16"])
def test_a_pad_that_crops_runs(target: str) -> None:
    """It compiled, and its step was refused when it ran."""
    scale, zero_point = constant(np.float32(0.5)), constant(np.int32(3))

    def cropped(x: relax.Expr) -> relax.Expr:
        real = relax.op.dequantize(x, scale, zero_point, axis=0)
        pad = relax.op.nn.pad(real, [0, 0, -1, 2, 1, -2, 0, 0], pad_value=1.0)
        return relax.op.quantize(pad, scale, zero_point, axis=0)

    main = module(cropped, ((1, 4, 5, 3), "int8"))["main"]
    made = compile(tvm.IRModule({"main": main}), target)
    x = np.random.default_rng(0).integers(-128, 128, (2, 1, 4, 5, 3)).astype(np.int8)
    wanted = np.pad(x[:, :, 1:, :-2], [(0, 0), (0, 0), (0, 2), (1, 0), (0, 0)], constant_values=5)
    np.testing.assert_array_equal(made.run(x)[0], wanted)
