# SPDX-License-Identifier: Apache-2.0
"""What choices are kept by, and how they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.errors import ConfigError
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.schedule.choices import (
    LayerChoice,
    RegionChoice,
    device_digest,
    layer_choice,
    layer_key,
    region_choice,
    region_key,
)

RQ, PYNQ = load_config("vtaq-1x16x16"), load_config("vta-pynq")


def dense(seed: int = 0, name: str = "y") -> g.Dense:
    rng = np.random.default_rng(seed)
    scale = g.Quantization(0.125, 0)
    return g.Dense(
        name=name,
        inputs=(g.Tensor(f"{name}.x", (1, 32), "int8", scale),),
        outputs=(g.Tensor(name, (1, 16), "int8", scale),),
        weights=rng.integers(-128, 128, (16, 32)).astype(np.int8),
        weight_scales=np.full(16, 0.01, np.float32),
        weight_zero_points=np.zeros(16, np.int32),
        bias=rng.integers(-100, 100, 16).astype(np.int32),
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )


def test_what_decides_cycles_is_in_the_key() -> None:
    assert layer_key(dense(), RQ) == layer_key(dense(name="other"), RQ)
    assert layer_key(dense(), RQ) != layer_key(dense(), PYNQ)
    assert layer_key(dense(), RQ) != layer_key(replace(dense(), rounding=Rounding.SINGLE), RQ)
    # Numbers decide how the GEMM core requantizes; RQ takes any.
    assert layer_key(dense(), RQ) == layer_key(dense(1), RQ)
    assert layer_key(dense(), PYNQ) != layer_key(dense(1), PYNQ)
    # But weights of nine bits are two parts.
    wide = replace(dense(), weight_zero_points=np.full(16, -128, np.int32))
    assert layer_key(dense(), RQ) != layer_key(wide, RQ)


def test_a_device_is_its_timing_too() -> None:
    assert device_digest(RQ) == device_digest(replace(RQ, name="mine", clock_mhz=50))
    assert device_digest(RQ) != device_digest(replace(RQ, bus_bits=128))
    slower = {name: replace(c, value=c.value + 1) for name, c in RQ.timing.items()}
    assert device_digest(RQ) != device_digest(replace(RQ, timing=slower))


def test_regions_are_told_apart_by_how_they_hang_together() -> None:
    first, second = dense(name="a"), dense(name="b")
    joined = replace(second, inputs=(replace(second.input, name="a.x"),))
    assert region_key([first, second], RQ) != region_key([first, joined], RQ)
    renamed = [dense(name="c"), dense(name="d")]
    assert region_key([first, second], RQ) == region_key(renamed, RQ)


def test_choices_are_looked_up_by_layer_and_region() -> None:
    op, choice = dense(), LayerChoice((1, 1, 1, 2, 1, 1), "channels")
    columns = RegionChoice((2, 1), prefetch=4, place="packed")
    records = {layer_key(op, RQ): choice.to_json(), region_key([op], RQ): columns.to_json()}
    assert layer_choice(op, RQ, None) == LayerChoice()
    assert region_choice([op], RQ, None) == RegionChoice()
    given = ScheduleChoices(records)
    assert layer_choice(op, RQ, given) == choice
    assert region_choice([op], RQ, given) == columns
    assert layer_choice(op, PYNQ, given) == LayerChoice()


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"tiles": [1]}, "'tiles' is none of tile, order, fold, joined, form"),
        ({"tile": [1, -1]}, "not a list of whole numbers from 0"),
        ({"tile": 3}, "not a list"),
        ({"order": "rows"}, "order 'rows' is not one of pixels, channels"),
        ({"joined": True}, "not a whole number"),
    ],
)
def test_a_record_of_something_else(record: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LayerChoice.from_json(record, "layer y")


def test_records_come_back() -> None:
    choice = LayerChoice((4, 20, 2), None, (1, 0), 4, "digits")
    assert LayerChoice.from_json(choice.to_json(), "") == choice
    assert LayerChoice().to_json() == {}
