# SPDX-License-Identifier: Apache-2.0
"""vta/region/patterns.py: what a VTA device takes, and that every no says why and what would change
it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.backend.interface import Refusal, Taken
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.frontend import load
from loadstone.numerics import Rounding
from loadstone.partition.eager import HOST, explain, partition
from loadstone.partition.patterns import operator_pattern
from loadstone.vta.backend import VtaBackend
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.operators import LoweredOperator, lower_operator, rescaled, weighted
from loadstone.vta.region.offload import OffloadedRegion
from loadstone.vta.region.patterns import patterns
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.schedule.choices import LayerChoice, layer_key
from loadstone.vta.stream.operations import TileLoad, TileStore

VTAQ = load_config("vtaq-1x16x16")
Q = g.Quantization(0.5, 3)


def asked(operator: g.Operator, config: HwConfig = VTAQ) -> Taken | Refusal | None:
    """The answer of the device's table."""
    name = {"resize_nearest": "resize", "resize_bilinear": "resize"}.get(
        operator.kind, operator.kind
    )
    return next(pattern for pattern in patterns(config) if pattern.name == name).predicate(operator)


def dense(low: int = -128, dtype: str = "int8") -> g.Dense:
    return g.Dense(
        name="y",
        inputs=(g.Tensor("x", (1, 32), dtype, Q),),
        outputs=(g.Tensor("y", (1, 16), "int8", Q),),
        weights=np.ones((16, 32), np.int8),
        weight_scales=np.full(16, 0.017, np.float32),
        weight_zero_points=np.zeros(16, np.int32),
        bias=np.zeros(16, np.int32),
        low=low,
        high=127,
        rounding=Rounding.DOUBLE,
    )


def test_every_line_of_the_table_names_a_form_that_exists() -> None:
    for pattern in patterns(VTAQ):
        assert operator_pattern(pattern.kind).name == pattern.name


def test_a_dense_layer_is_taken_and_one_of_uint8_is_not() -> None:
    assert isinstance(asked(dense()), Taken)
    refusal = asked(dense(dtype="uint8"))
    assert isinstance(refusal, Refusal)
    assert refusal.why == "tensor x is uint8, and the device computes on int8"


def test_a_device_without_requantization_says_what_it_would_take() -> None:
    assert isinstance(asked(dense(), load_config("vta-pynq")), Taken)
    largest = np.full_like(dense().bias, 2**31 - 1)
    refusal = asked(replace(dense(), bias=largest), load_config("vta-pynq"))
    assert isinstance(refusal, Refusal)
    assert "32 bits" in refusal.why
    assert refusal.remedy


@pytest.mark.parametrize("kind", ["softmax", "argmax", "quantize", "dequantize", "transpose"])
def test_what_no_vta_runs_is_refused_with_a_reason_of_its_own(kind: str) -> None:
    refusal = next(pattern for pattern in patterns(VTAQ) if pattern.name == kind).predicate(dense())
    assert isinstance(refusal, Refusal)
    assert "the device has no" not in refusal.why
    assert refusal.remedy


def test_the_same_operator_in_another_batch_is_asked_as_the_device_runs_it() -> None:
    """A device of batch 4 runs four samples at a time; the graph has one."""
    said = asked(dense(), load_config("vtaq-4x16x16"))
    assert isinstance(said, Taken)
    assert isinstance(said.lowered, LoweredOperator)
    (store,) = (o for o in said.lowered.operations if isinstance(o, TileStore))
    assert store.x_size * store.y_size == 1  # one tile holds the outputs of four samples


def test_what_is_taken_alone_is_taken_whatever_its_clamp() -> None:
    assert isinstance(asked(replace(dense(), low=0)), Taken)


@pytest.mark.parametrize(
    "file",
    ["mlpt_resnet8_int8.tflite", "mlpt_kws_int8.tflite", "tinyengine_mcunet_det_int8.tflite"],
)
def test_networks_leave_only_what_no_vta_runs(shared: Path, file: str) -> None:
    divided = partition(load(shared / "models" / file), [VtaBackend(VTAQ)], file)
    assert {row["kind"] for row in explain(divided) if row["where"] == HOST} <= {
        "softmax",
        "quantize",
        "dequantize",
    }
    assert len(divided.segments) == 1


def test_every_operator_left_on_the_host_says_why(shared: Path) -> None:
    divided = partition(
        load(shared / "models" / "mlpt_resnet8_int8.tflite"),
        [VtaBackend(load_config("vta-pynq"))],
        "resnet8",
    )
    for row in explain(divided):
        assert row["where"] != HOST or (row["why"] and row["remedy"])


def test_a_region_uses_what_the_predicate_lowered() -> None:
    op = dense()
    said = asked(op)
    assert isinstance(said, Taken)
    assert isinstance(said.lowered, LoweredOperator)
    taken, seen = {op: said.lowered}, (op.input, op.output)
    region = OffloadedRegion("r", [op], (), seen, VTAQ, RegionRequest(taken=taken))
    assert region.constants.keys() == lower_operator(op, VTAQ).constants.keys()
    operations = [operation for _, operation in region._operations]
    assert all(a is b for a, b in zip(operations, said.lowered.operations, strict=True))


def test_a_region_with_another_choice_lowers_the_operator_anew() -> None:
    """The predicate followed the cost model."""
    op = dense()
    said, choice = asked(op), LayerChoice(tile=(1, 1, 1, 1, 1, 1), order="channels")
    assert isinstance(said, Taken)
    assert isinstance(said.lowered, LoweredOperator)
    schedules = ScheduleChoices({layer_key(op, VTAQ): choice.to_json()})
    request = RegionRequest(schedules, taken={op: said.lowered})
    region = OffloadedRegion("r", [op], (), (op.input, op.output), VTAQ, request)
    loads = [o for _, o in region._operations if isinstance(o, TileLoad)]
    assert len(loads) > sum(isinstance(o, TileLoad) for o in said.lowered.operations)


@pytest.mark.parametrize(
    ("device", "lowering"),
    [("vta-pynq", (rescaled, "lower")), ("vtaq-4x16x16", (weighted, "_weighted"))],
)
def test_no_layer_is_lowered_twice(
    shared: Path, monkeypatch: pytest.MonkeyPatch, device: str, lowering: tuple[object, str]
) -> None:
    """What a predicate made comes to the region with the assignment, whatever the batch."""
    names: list[str] = []
    plain = getattr(*lowering)

    def counted(op: g.Operator, *arguments: object) -> object:
        names.append(op.name)
        return plain(op, *arguments)

    monkeypatch.setattr(*lowering, counted)
    compile(shared / "models" / "mlpt_ad_int8.tflite", device)
    assert len(names) == len(set(names)) == 10


def test_a_mistake_that_is_no_limit_of_the_device_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken table of instructions is no reason to leave an operator to the host."""

    def broken(*_: object, **__: object) -> LoweredOperator:
        raise ConfigError("the table has no opcode STORE")

    monkeypatch.setattr("loadstone.vta.region.patterns.lower_operator", broken)
    with pytest.raises(ConfigError, match="no opcode STORE"):
        asked(dense())
