# SPDX-License-Identifier: Apache-2.0
"""vta/region/request.py: what is asked of a region, and what of each of its layers."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.ir_pass.pipeline import Passes
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import lower_operator
from loadstone.vta.operators.request import PLAIN, LayerRequest
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.schedule.choices import LayerChoice, RegionChoice, layer_key, region_key
from tests.vta.region.test_patterns import dense

CONFIG = load_config("vtaq-1x16x16")


def test_nothing_in_particular() -> None:
    op, request = dense(), RegionRequest()
    assert request.of_layer(op, CONFIG) == PLAIN
    assert request.of_region([op], CONFIG) == RegionChoice()
    assert request.lowered(op, PLAIN) is None


def test_a_layer_is_asked_as_its_region_is() -> None:
    op, choice, columns = dense(), LayerChoice(joined=2), RegionChoice(prefetch=3)
    records = {layer_key(op, CONFIG): choice.to_json(), region_key([op], CONFIG): columns.to_json()}
    passes = Passes(copies=(lambda module: module,))
    request = RegionRequest(ScheduleChoices(records), near=True, passes=passes)
    assert request.of_layer(op, CONFIG) == LayerRequest(choice, near=True, passes=passes)
    assert request.of_region([op], CONFIG) == columns


def test_what_a_predicate_lowered_is_for_its_operator_and_the_cost_models_choices() -> None:
    op = dense()
    lowered = lower_operator(op, CONFIG)
    request = RegionRequest(taken={op: lowered})
    assert request.lowered(op, PLAIN) is lowered
    assert request.lowered(dense(), PLAIN) is None
    assert request.lowered(op, LayerRequest(LayerChoice(joined=2))) is None
