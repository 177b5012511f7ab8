# SPDX-License-Identifier: Apache-2.0
"""ir_pass/pipeline.py: an operator's passes, each between the texts that it is given and makes,
which are in tests/golden/lowering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from loadstone import graph as g
from loadstone.ir_pass.pipeline import Passes, with_copies
from loadstone.numerics import Rounding
from loadstone.passes.log import PassLog, PassRun
from loadstone.relax.compat import parsed_tir, tvm
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.operators import lower_operator
from loadstone.vta.operators.request import LayerRequest
from tests import lowered as lo

GOLDEN = Path(__file__).parents[1] / "golden" / "lowering"
STAGES = ("computation", "schedule", "insert_dma_copy")


def convolution(channels: int, groups: int, strides: int, size: tuple[int, int]) -> g.Conv2D:
    """3x3 on 16x16 pixels, padded by one, 32 output channels."""
    import numpy as np

    return g.Conv2D(
        name="conv",
        inputs=(lo.tensor("x", (1, 16, 16, channels), zero_point=-5),),
        outputs=(lo.tensor("y", (1, *size, 32), zero_point=3),),
        weights=np.ones((32, 3, 3, channels // groups), np.int8),
        weight_scales=np.full(32, 0.003, np.float32),
        weight_zero_points=np.zeros(32, np.int32),
        bias=np.zeros(32, np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
        strides=(strides, strides),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        groups=groups,
    )


def addition() -> g.Add:
    a, b, y = (
        lo.tensor(name, (1, 7, 5, 20), scale, 4)
        for name, scale in (("a", 0.031), ("b", 0.047), ("y", 0.052))
    )
    return g.Add(
        name="add", inputs=(a, b), outputs=(y,), low=-128, high=127, rounding=Rounding.DOUBLE
    )


CASES: dict[str, tuple[Callable[[], g.Operator], str]] = {
    "convolution": (lambda: convolution(32, 1, 1, (16, 16)), "vtaq-1x16x16"),
    "depthwise": (lambda: convolution(32, 32, 2, (8, 8)), "vtaq-4x16x16"),
    "addition": (addition, "vtaq-1x16x16"),
}


def same(module: object) -> object:
    """A pass that leaves what it is given."""
    return module


#: So that the operator goes through TensorIR.
SAME = Passes(tensor_ir=(same,))


def text_behind(name: str, runs: Sequence[PassRun]) -> str:
    (run,) = (run for run in runs if run.name == name)
    assert run.text is not None
    return run.text()


def compare_golden(name: str, text: str, update: bool) -> None:
    """Holds `text` against a file of tests/golden/lowering, or writes it."""
    path = GOLDEN / name
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), (
        f"{path.name} changed: read the difference, then run pytest with --update-golden"
    )


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", CASES)
def test_the_text_of_a_stage_is_the_golden_one(case: str, stage: str, update_golden: bool) -> None:
    make, device = CASES[case]
    config = load_config(device)
    op = make()
    if config.batch > 1:
        op = lo.for_samples(op, config.batch)
    runs = lower_operator(op, config, request=LayerRequest(passes=SAME)).runs(op.name)
    text = text_behind(stage, runs)
    if stage == "insert_dma_copy":
        assert text == text_behind("insert_dma_copy", lower_operator(op, config).runs(op.name))
    compare_golden(f"{case}.{stage}.txt", text, update_golden)


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
def test_blocks_as_text_in_loops_and_nests_as_text_out(device: str, update_golden: bool) -> None:
    """TensorIR that TVM parses; what is made of it is the same for both devices."""
    module = tvm.IRModule({"main": parsed_tir((GOLDEN / "blocks.schedule.txt").read_text())})
    log = PassLog(texts=True)
    with_copies(module, memory_table(load_config(device)), log=log)
    for stage in ("loops", "nests", "insert_dma_copy"):
        compare_golden(f"blocks.{stage}.txt", text_behind(stage, log.runs), update_golden)
