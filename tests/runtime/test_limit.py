# SPDX-License-Identifier: Apache-2.0
"""runtime/limit.c: a device hangs after what its program can take, and not before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.errors import DeviceHungError
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish, Insn, Load
from loadstone.vta.isa.registers import STATES
from loadstone.vta.isa.spec import Memory
from tests.driver.test_registers import Recorder, offset
from tests.programs import Program, random_program
from tests.repeat import times
from tests.sample_model import copy_model, dense_model, endless_model
from tests.simulated import GROUPED, simulate


def at_most(artifact: Artifact, instructions: bytes) -> int:
    """Of a program of this artifact's device."""
    data = artifact.to_bytes()
    model = ffi.new("lds_model *")
    assert lib().lds_model_open(model, ffi.from_buffer(data), len(data)) == 0
    found = lib().lds_cycles_at_most(
        model, 0, ffi.from_buffer(instructions), len(instructions) // 16
    )
    return int(found)


@pytest.mark.parametrize("name", [n for n in device_names() if not load_config(n).is_float])
def test_no_program_takes_more(name: str) -> None:
    config = load_config(name)
    artifact = dense_model(config).artifact
    for seed in range(times(5, 100)):
        program = random_program(config, np.random.default_rng(seed))
        cycles = simulate(program)[2].cycles
        assert cycles <= at_most(artifact, program.insns.tobytes()) <= 40 * cycles + 100_000


@pytest.mark.parametrize("base", GROUPED, ids=lambda config: config.name)
def test_groups_of_weights_take_no_more(base: HwConfig) -> None:
    """On a bus of 4 bytes nearly all cycles are the bytes of groups, of which dram_base counts a
    ninth."""
    config = replace(base, bus_bits=32)
    groups = config.depth(Memory.WGT) // config.filled_tiles(Memory.WGT_4BIT)
    load = Load(memory_id=Memory.WGT_4BIT, y_size=1, x_size=groups, x_stride=groups)
    program: list[Insn] = [*[load] * 40, load.changed(push_next=1), Finish(pop_prev=1)]
    memory = np.zeros(groups * config.tile_bytes(Memory.WGT_4BIT), np.uint8)
    made = Program(config, program, encode_stream(program, config), memory)
    cycles = simulate(made)[2].cycles
    limit = at_most(dense_model(config).artifact, made.insns.tobytes())
    assert 4 * cycles <= limit <= 40 * cycles


class Works(Recorder):
    """A device with the native page that works for ever once it is started; each look at the clock
    takes `step` seconds."""

    seconds, step = 0.0, 0.0

    def now(self, _ctx: object) -> int:
        self.seconds += self.step
        return int(self.seconds * 1e9)

    def read32(self, ctx: object, at: int) -> int:
        if at == offset("native", "STATUS"):
            return STATES["RUNNING" if self.written.get(offset("native", "CTRL")) else "IDLE"]
        return super().read32(ctx, at)


@pytest.mark.parametrize("make", [copy_model, endless_model])
def test_a_device_hangs_after_what_its_program_can_take(
    make: Callable[[HwConfig], Artifact],
) -> None:
    config = load_config("vtaq-1x16x16")
    artifact = make(config)
    cycles = at_most(artifact, artifact.programs[0].instructions)
    known = {"ID": 0x3153444C, "VERSION": 1, "CONFIG_HASH": config.config_hash}
    board = Works(config, {offset("native", name): value for name, value in known.items()})
    clock = ffi.callback("uint64_t(void *)", board.now)
    board.hal.now_ns = clock
    limit = 5 + 16 * cycles / (config.clock_mhz * 1e6)
    assert (limit > 1000) == (make is endless_model)
    board.step = limit / 20
    with pytest.raises(DeviceHungError):
        board.run(artifact)
    assert limit <= board.seconds <= 2 * limit
