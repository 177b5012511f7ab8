# SPDX-License-Identifier: Apache-2.0
"""The micro-op scratchpad as a cache: what an instruction finds in it, and which bursts fill it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.backend.device import TimingConstant
from loadstone.backend.region import Address
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.insn import Gemm, Load
from loadstone.vta.isa.instruction_columns import InstructionColumns, PendingInstruction
from loadstone.vta.isa.spec import UOP_BYTES, Memory
from loadstone.vta.passes.encode.micro_op_cache import MicroOpLists, with_micro_ops
from tests.repeat import times


def drawn(rng: np.random.Generator, sizes: tuple[int, int]) -> MicroOpLists:
    """Of instructions whose lists are used again now and then, not always soon."""
    lists = [
        rng.integers(0, 1000, (int(rng.integers(*sizes)), 3)).astype(np.int64) for _ in range(60)
    ]
    return of([lists[which] for which in rng.integers(0, len(lists), 150)])


def of(lists: Sequence[NDArray[np.int64]]) -> MicroOpLists:
    """One instruction for each."""
    number: dict[bytes, int] = {}
    which = [number.setdefault(uops.tobytes(), len(number)) for uops in lists]
    shapes = [np.frombuffer(held, np.int64).reshape(-1, 3) - 1 for held in number]
    numbers = np.arange(len(shapes))
    return MicroOpLists(
        np.arange(len(lists)), which, shapes, numbers, np.ones((len(shapes), 3), np.int64)
    )


def placed(
    lists: MicroOpLists, config: HwConfig, offset: int
) -> tuple[list[PendingInstruction], NDArray[np.int64]]:
    """As encode.py has it; checked: every instruction finds its list."""
    sizes = lists.sizes().tolist()
    items = InstructionColumns.of(
        [
            PendingInstruction(Gemm(reset=1, uop_end=sizes[which], iter_out=1, iter_in=1), "layer")
            for which in lists.which
        ]
    )
    instructions, table = with_micro_ops(items, lists, Address(1, offset), config)
    scratchpad = np.full((config.depth(Memory.UOP), 3), -1)
    wanted = iter(lists.which)
    for pending in instructions:
        insn = pending.insn
        if isinstance(insn, Load):
            first = insn.dram_base - offset // UOP_BYTES
            assert 0 <= first < first + insn.x_size <= len(table)
            assert insn.sram_base + insn.x_size <= len(scratchpad)
            scratchpad[insn.sram_base :][: insn.x_size] = table[first : first + insn.x_size]
        else:
            assert isinstance(insn, Gemm)
            found = scratchpad[insn.uop_bgn : insn.uop_end]
            np.testing.assert_array_equal(found, lists.micro_ops([next(wanted)]))
    assert next(wanted, None) is None
    return list(instructions), table


def beats_of_bursts(insn: Load, config: HwConfig, boundary_bytes: int, longest: int) -> list[int]:
    """Of one LOAD, as docs/timing.md says it."""
    beat = config.bus_bits // 8
    at = insn.dram_base * UOP_BYTES // beat * beat
    end = -(-(insn.dram_base + insn.x_size) * UOP_BYTES // beat) * beat
    found = []
    while at < end:
        last = min(end, (at // boundary_bytes + 1) * boundary_bytes, at + longest * beat)
        found.append((last - at) // beat)
        at = last
    return found


@pytest.mark.parametrize("sizes", [(1, 4), (1, 200)])
@pytest.mark.parametrize("device", ["vta-pynq", "vta-de10nano", "vta-zcu104", "of 16 beats"])
def test_no_load_for_vta_leaves_a_burst_of_one_beat(device: str, sizes: tuple[int, int]) -> None:
    """Wherever the region begins: at a multiple of 256 bytes."""
    config = load_config(device if device != "of 16 beats" else "vta-pynq")
    if device == "of 16 beats":  # which end wherever they began, not at multiples of their length
        sixteen = {"burst_max_beats": TimingConstant(16, "a test")}
        config = replace(config, timing={**config.timing, **sixteen})
    longest = config.timing["burst_max_beats"].value
    own = config.timing["burst_boundary_bytes"].value
    for seed in range(times(10, 200)):
        rng = np.random.default_rng(seed)
        items, offset = drawn(rng, sizes), 64 * int(rng.integers(0, 40))
        loads = [p.insn for p in placed(items, config, offset)[0] if isinstance(p.insn, Load)]
        for boundary in {min(256, own), own}:
            bursts = [beats_of_bursts(load, config, boundary, longest) for load in loads]
            assert min(map(min, bursts)) > 1


def test_a_device_of_ones_own_loads_what_it_needs_and_no_more() -> None:
    config = load_config("vtaq-1x16x16")
    items = drawn(np.random.default_rng(0), (1, 4))
    instructions, table = placed(items, config, 64)
    assert len(table) == items.sizes().sum()
    loads = [p.insn for p in instructions if isinstance(p.insn, Load)]
    assert sum(load.x_size for load in loads) == len(table)


def test_what_was_driven_out_comes_back_without_its_neighbours() -> None:
    """Every tenth list of a table that the scratchpad cannot hold is wanted again."""
    config = load_config("vta-pynq")
    count = 2 * config.depth(Memory.UOP)
    lists = [np.array([[number, 0, 0]], np.int64) for number in range(count)]
    items = of([*lists, *lists[::10]])
    instructions, _ = placed(items, config, 64)
    loads = [p.insn for p in instructions if isinstance(p.insn, Load)]
    beyond = sum(load.x_size for load in loads) - len(items.which)
    assert beyond <= 4 * len(loads)  # neighbours in a beat
