# SPDX-License-Identifier: Apache-2.0
"""The choices of a layer: each different, the compiler's own first, and each can be lowered."""

from __future__ import annotations

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators import lower_operator
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.region.schedule_space import layer_choices
from loadstone.vta.schedule.choices import LayerChoice
from tests.repeat import more
from tests.vta.schedule.test_choices import dense


@pytest.mark.parametrize("device", ["vtaq-1x16x16", pytest.param("vta-pynq", marks=more)])
def test_choices_of_a_dense_layer(device: str) -> None:
    config = load_config(device)
    choices = layer_choices(dense(), config, from_host=False, most=8)
    assert choices[0] == LayerChoice()
    assert 1 < len(choices) == len(set(choices)) <= 8
    for choice in choices:
        assert lower_operator(dense(), config, request=LayerRequest(choice)).operations


def test_nothing_to_choose_on_floats() -> None:
    config = load_config("vtab-1x16x16")
    assert layer_choices(dense(), config, from_host=False, most=8) == [LayerChoice()]
