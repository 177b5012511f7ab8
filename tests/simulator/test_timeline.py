# SPDX-License-Identifier: Apache-2.0
"""timeline.py: the page says what the simulator counted, for a model made by hand."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from loadstone.simulator.profile import Profile, profile
from loadstone.simulator.timeline import page
from loadstone.vta.hw_config import load_config
from tests.sample_model import dense_model


def sample() -> Profile:
    config = load_config("vtaq-1x16x16")
    return profile(dense_model(config).artifact, config)[0]


def test_layers_cover_the_program() -> None:
    times = sample()
    layers = times.layers()
    assert layers
    assert max(layer.last_cycle for layer in layers) <= times.result.cycles
    for stage, cycles in times.result.busy_cycles.items():
        assert sum(layer.busy_cycles[stage] for layer in layers) <= cycles


def test_the_page_is_well_formed_and_names_every_layer() -> None:
    times = sample()
    text = page("a <b>title</b>", ["cycles: 1 & 2"], [times])
    svg = re.search(r"<svg.*?</svg>", text, re.DOTALL)
    assert svg is not None
    ElementTree.fromstring(svg.group(0))
    assert "a &lt;b&gt;title" in text
    for layer in times.layers():
        assert layer.name in text
