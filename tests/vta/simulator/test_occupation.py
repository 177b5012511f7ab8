# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/occupation.py: pieces of memory that live; two alive at once share no byte."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from loadstone.artifact.format import LayerRange
from loadstone.vta.device.hw_config import config_of, load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Finish, Load
from loadstone.vta.isa.spec import Memory
from loadstone.vta.simulator.occupation import Lived, arena_occupation, scratchpad_occupation
from loadstone.vta.simulator.profile import profile
from tests.compiled import network
from tests.sample_model import copy_model, stored_twice_model
from tests.simulated import GROUPED

CONFIG = load_config("vtaq-1x16x16")


def overlap(a: Lived, b: Lived) -> bool:
    places = a.first < b.end and b.first < a.end
    return places and a.begin < b.last and b.begin < a.last


def test_the_arena_is_that_of_the_plan(shared: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    (entry,) = profile(compiled.artifact, CONFIG)
    pieces = arena_occupation(entry, CONFIG, compiled.artifact)
    views = {view.name.removesuffix(" on device"): view for view in compiled.artifact.tensors}
    for piece in pieces:
        view = views[piece.layer]
        start, end = view.offset_bytes, view.offset_bytes + view.size_bytes
        assert start <= piece.first < piece.end <= end
        assert piece.begin < piece.last <= entry.result.cycles
    assert len(pieces) == 15
    busiest = max(
        sum(p.end - p.first for p in pieces if p.begin <= other.begin <= p.last) for other in pieces
    )
    assert busiest <= compiled.deployment.arena.size_bytes


def test_what_scratchpads_hold_lies_in_them(shared: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    (entry,) = profile(compiled.artifact, CONFIG)
    pieces = scratchpad_occupation(entry, CONFIG, compiled.artifact)
    for memory in (Memory.INP, Memory.WGT, Memory.ACC, Memory.UOP):
        found = [piece for piece in pieces if piece.memory == memory.name.lower()]
        assert found
        assert max(piece.end for piece in found) <= CONFIG.depth(memory)
        # an input is read before the next is brought to its place: tokens see to it
        if memory is Memory.INP:
            assert not any(overlap(a, b) for a, b in combinations(found, 2))
    times = np.array([(piece.begin, piece.last) for piece in pieces])
    assert (times[:, 0] <= times[:, 1]).all()


def test_what_a_store_leaves_in_inp_lives_there() -> None:
    model = stored_twice_model()
    config = config_of(model.fingerprint)
    (entry,) = profile(model, config)
    pieces = scratchpad_occupation(entry, config, model)
    found = [(p.layer, p.first, p.end) for p in pieces if p.memory == "inp"]
    assert found == [("kept", 5, 6)]
    assert [p.layer for p in arena_occupation(entry, config, model)] == ["copy"]


def test_a_group_of_weights_keeps_all_its_bytes_alive() -> None:
    """Bytes 8 to 79 of the arena, the last of them in the fifth piece of 16."""
    config = GROUPED[-1]
    model = copy_model(config)
    (program,) = model.programs
    uops, acc, alu, store, _ = decode_stream(program.instructions, config)
    group = config.tile_bytes(Memory.WGT_4BIT)
    tile = (8 + group) // config.tile_bytes(Memory.OUT) - 1
    insns = [
        uops,
        acc,
        alu,
        store.changed(dram_base=tile),
        alu.changed(pop_next=1, push_prev=1, push_next=0),
        Load(memory_id=Memory.WGT_4BIT, region=2, dram_base=1, y_size=1, x_size=1, pop_next=1,
             push_next=1),
        Finish(pop_prev=1),
    ]  # fmt: skip
    layers = (LayerRange("copy", 0, len(insns)),)
    changed = replace(program, instructions=encode_stream(insns, config).tobytes(), layers=layers)
    regions = (*model.regions[:2], replace(model.regions[2], size_bytes=128, device_reads=True))
    model = replace(model, steps=(changed,), regions=regions)
    (entry,) = profile(model, config)
    (piece,) = arena_occupation(entry, config, model)
    load = next(event for event in entry.events if event.insn == 5)
    assert (group, piece.first, piece.end, piece.last) == (72, 64, 80, load.end)
