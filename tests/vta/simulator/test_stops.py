# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/stops.py: a program without its later stores keeps its tokens, and stays sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.runtime.device import validate
from loadstone.vta.device.hw_config import config_of
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Store
from loadstone.vta.simulator.stops import layer_stores, without_stores
from tests.compiled import network
from tests.repeat import more
from tests.sample_model import stored_twice_model


@pytest.mark.parametrize("name", ["vtaq-1x16x16", pytest.param("vta-pynq", marks=more)])
def test_later_stores_move_nothing(shared: Path, name: str) -> None:
    artifact = network(shared, "mlpt_ad_int8.tflite", name).artifact
    (program,) = artifact.programs
    config = config_of(artifact.fingerprint)
    layers = layer_stores(program, config)
    assert [entry.last for entry in layers] == sorted(entry.last for entry in layers)
    middle = layers[len(layers) // 2]
    stopped = without_stores(program, middle.last, config)
    before = decode_stream(program.instructions, config)
    after = decode_stream(stopped.instructions, config)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, Store) and number > middle.last:
            assert isinstance(new, Store)
            assert new.is_noop
            flags = ("pop_prev", "pop_next", "push_prev", "push_next")
            assert [getattr(new, f) for f in flags] == [getattr(old, f) for f in flags]
        else:
            assert new == old
    steps = tuple(stopped if step is program else step for step in artifact.steps)
    assert validate(replace(artifact, steps=steps))[0] == 0


def test_stores_to_inp_stay() -> None:
    """Nobody can read them from DRAM, and what comes behind may."""
    artifact = stored_twice_model()
    (program,) = artifact.programs
    config = config_of(artifact.fingerprint)
    assert [(entry.layer, entry.last) for entry in layer_stores(program, config)] == [("copy", 4)]
    stopped = list(decode_stream(without_stores(program, 0, config).instructions, config))
    assert [insn.is_noop for insn in stopped if isinstance(insn, Store)] == [False, True]
