# SPDX-License-Identifier: Apache-2.0
"""driver/regs_*.c: what the drivers write into each register page, recorded behind a HAL of
our own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.artifact.memory_plan import MAX_ALIGN_BYTES
from loadstone.errors import DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.registers import BLOCKS
from loadstone.vta.isa.spec import MAX_REGIONS
from tests.sample_model import copy_model, dense_model

pytestmark = pytest.mark.rung("3")


POOL_BUS = 0x1000_0000
#: VTA's HLS blocks when a program is done: fetch idle, compute restarting, DONE written, and 1.
HLS_DONE = {0x0000: 4, 0x2000: 0x81, 0x201C: 1, 0x2018: 1}


def offset(block: str, name: str) -> int:
    return next(r.offset for r in BLOCKS[block] if r.name == name)


class Recorder:
    """A HAL that writes down every register access. `answers`: what registers read; the others read
    as they were written."""

    def __init__(self, config: HwConfig, answers: Mapping[int, int], bus: int = POOL_BUS) -> None:
        lib()
        self.log: list[tuple[str, int, int]] = []
        self.written: dict[int, int] = {}
        self.seconds = 0
        self.answers = answers
        spare = np.zeros((1 << 20) + MAX_ALIGN_BYTES, np.uint8)
        self.memory = spare[(bus - spare.ctypes.data) % MAX_ALIGN_BYTES :][
            : 1 << 20
        ]  # aligned as the bus address is
        self.pool = ffi.new("lds_pool *")
        self.blocks = ffi.new("lds_pool_block[16]")
        self.pool.cpu, self.pool.bus = ffi.cast("uint8_t *", self.memory.ctypes.data), bus
        self.pool.size_bytes, self.pool.blocks, self.pool.capacity = (
            self.memory.size,
            self.blocks,
            16,
        )
        self.hal = ffi.new("lds_hal *")
        self.hal.abi_version = 1
        self.callbacks = {
            "read32": ffi.callback("uint32_t(void *, uint32_t)", self.read32),
            "write32": ffi.callback("void(void *, uint32_t, uint32_t)", self.write32),
            "dma_alloc": ffi.callback(
                "int(void *, size_t, size_t, uint32_t, lds_dma_buffer *)",
                lambda _, s, a, f, o: lib().lds_pool_alloc(self.pool, s, a, f, o),
            ),
            "dma_free": ffi.callback(
                "void(void *, lds_dma_buffer *)", lambda _, b: lib().lds_pool_free(self.pool, b)
            ),
            "now_ns": ffi.callback("uint64_t(void *)", self.now_ns),
        }
        for name, callback in self.callbacks.items():
            setattr(self.hal, name, callback)
        self.config = config

    def now_ns(self, _ctx: Any) -> int:
        """A second passes from one look to the next."""
        self.seconds += 1
        return self.seconds * 10**9

    def read32(self, _ctx: Any, at: int) -> int:
        value = self.answers.get(at, self.written.get(at, 0))
        self.log.append(("read", at, value))
        return value

    def write32(self, _ctx: Any, at: int, value: int) -> None:
        self.written[at] = value
        self.log.append(("write", at, value))

    def run(self, model: Artifact) -> None:
        """Opens a session on this HAL and runs it once, with the accesses of the run alone in the
        log."""
        dev = device.OpenedDevice("null", "", self.config)
        dev._handle = device.Handle(ffi.new("lds_device *"), None)
        block = lib().lds_registers_named(self.config.registers.encode())
        assert (
            lib().lds_device_open(dev._handle.device, self.hal, block, self.config.config_hash) == 0
        )
        with dev.load(model) as session:
            self.log.clear()
            session.execute()
            self.stream_bus = POOL_BUS

    def writes(self) -> list[tuple[int, int]]:
        return [(at, value) for kind, at, value in self.log if kind == "write"]


def test_the_chisel_shell_is_started_as_its_isa_says() -> None:
    config = load_config("vta-de10nano")
    recorder = Recorder(config, {offset("chisel", "CONTROL"): 2})
    model = dense_model(config).artifact
    recorder.run(model)
    (program,) = model.programs
    stream = next(value for at, value in recorder.writes() if at == 0x0C)
    assert recorder.writes() == [
        (0x08, len(program)),
        (0x0C, stream),
        (0x10, 0),
        (0x14, 0),
        (0x18, 0),
        (0x1C, 0),
        (0x20, 0),
        (0x00, 1),
    ]
    there = [("read", 0x00, 2), ("read", 0x0C, stream)]  # done, by a device and no empty bus
    assert recorder.log[0] == there[0]  # it works for nobody
    assert recorder.log[10:] == [*there, ("read", 0x04, 0)]  # cycles
    assert stream % 16 == 0
    assert POOL_BUS <= stream < POOL_BUS + (1 << 20)


def test_the_hls_blocks_are_started_as_their_isa_says() -> None:
    config = load_config("vta-pynq")
    recorder = Recorder(config, HLS_DONE)
    model = dense_model(config).artifact
    recorder.run(model)
    stream = next(value for at, value in recorder.writes() if at == 0x18)
    bases = [(at, 0) for at in (0x1010, 0x1018, 0x2020, 0x2028, 0x3010)]
    start = [(0x1000, 0x81), (0x2000, 0x81), (0x3000, 0x81), (0x0000, 1)]
    assert recorder.writes() == [(0x10, len(model.programs[0])), (0x18, stream), *bases, *start]
    looks = [("read", at, HLS_DONE[at]) for at in (0x0000, 0x2000, 0x201C, 0x2018)]
    assert recorder.log[:4] == looks  # it works for nobody
    cleared, started = recorder.log[-6:-4]
    assert (cleared, started) == (("read", 0x201C, 1), ("write", 0x0000, 1))
    assert recorder.log[-4:] == looks  # the valid bit before DONE


def test_the_native_page_is_started_with_every_region() -> None:
    config = load_config("vtaq-1x16x16")
    answers = {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}
    recorder = Recorder(config, answers)
    model = dense_model(config).artifact
    recorder.run(model)
    writes = recorder.writes()
    regions: list[tuple[int, int]] = []
    for r in range(MAX_REGIONS):
        region = model.regions[r] if r < len(model.regions) and model.regions[r].on_device else None
        base = next(value for at, value in writes if at == 0x40 + 8 * r)
        assert (base != 0) == (region is not None)
        size = region.size_bytes if region else 0
        writable = region is not None and region.device_writes
        regions += [
            (0x40 + 8 * r, base),
            (0x44 + 8 * r, 0),
            (0x80 + 8 * r, size),
            (0x84 + 8 * r, 0 if writable else 0x80000000),
        ]
    stream = next(value for at, value in writes if at == 0x30)
    assert writes == [
        *regions,
        (0x30, stream),
        (0x34, 0),
        (0x38, len(model.programs[0])),
        (0x18, 3),
        (0x1C, 3),
        (0x10, 1),
        (0x18, 3),
    ]


@pytest.mark.parametrize("bus_offset", [0, 0x80000000])
def test_addresses_in_the_stream_are_the_devices(bus_offset: int) -> None:
    """DE10-Nano: the bus address is the CPU's physical address + 0x80000000, in the stream and in
    the register."""
    config = load_config("vta-de10nano")
    recorder = Recorder(config, {0: 2}, bus=POOL_BUS + bus_offset)
    model = dense_model(config).artifact
    recorder.run(model)
    stream = next(value for at, value in recorder.writes() if at == 0x0C)
    from loadstone.vta.isa.codec import Load, Store, decode_stream
    from loadstone.vta.isa.spec import Memory

    begin = stream - POOL_BUS - bus_offset
    insns = list(
        decode_stream(
            recorder.memory[begin : begin + len(model.programs[0].instructions)].copy(), config
        )
    )
    accesses = [i for i in insns if isinstance(i, Load | Store)]
    assert accesses
    for insn in accesses:
        address = insn.dram_base * config.tile_bytes(Memory(insn.memory_id))
        assert insn.region == 0
        assert POOL_BUS + bus_offset <= address < POOL_BUS + bus_offset + (1 << 20)


def test_memory_beyond_32_bits_is_refused_by_vtas_register_pages() -> None:
    recorder = Recorder(load_config("vta-pynq"), HLS_DONE, bus=1 << 32)
    with pytest.raises(DeviceError, match="beyond what the device can address"):
        recorder.run(dense_model(load_config("vta-pynq")).artifact)


def test_a_stream_beyond_32_bits_is_refused_by_vtas_register_pages() -> None:
    """Its regions lie below 4 GiB, the instructions behind them do not."""
    config = load_config("vta-pynq")
    model = dense_model(config).artifact
    pages = [-(-r.size_bytes // 4096) * 4096 for r in model.regions]
    filled = [
        dataclasses.replace(r, size_bytes=p, data=r.data.ljust(p, b"\0") if r.data else b"")
        for r, p in zip(model.regions, pages, strict=True)
    ]
    model = dataclasses.replace(model, regions=tuple(filled))
    regions = sum(r.size_bytes for r in filled if r.on_device)
    recorder = Recorder(config, HLS_DONE, bus=(1 << 32) - regions)
    with pytest.raises(DeviceError, match="beyond what the device can address"):
        recorder.run(model)
    Recorder(config, HLS_DONE, bus=(1 << 32) - regions - 65536).run(model)


def test_an_error_of_a_later_device_is_said_by_its_number() -> None:
    """A register page that reports ERROR 77, which this version does not know."""
    config = load_config("vtaq-1x16x16")
    values = {
        "ID": 0x3153444C,
        "VERSION": 1,
        "CONFIG_HASH": config.config_hash,
        "STATUS": 4,
        "ERROR": 77,
    }
    board = Recorder(config, {offset("native", name): value for name, value in values.items()})
    with pytest.raises(DeviceError, match="error 77, which this version does not know"):
        board.run(copy_model(config))


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0, 0xDEADBEEF, 1, 2, 3, 4, 0x81, 0xDEADBEE1])
@pytest.mark.parametrize("name", ["vta-pynq", "vta-de10nano", "vtaq-1x16x16"])
def test_an_empty_bus_is_absent_on_every_page(name: str, value: int) -> None:
    """No register keeps what is written, all read the same, though it were what a device reads
    that works, or is done."""

    class Empty(Recorder):
        def read32(self, _ctx: Any, at: int) -> int:
            return value

    config = load_config(name)
    with pytest.raises(DeviceError, match="no device answers"):
        Empty(config, {}).run(dense_model(config).artifact)


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0, 0xDEADBEEF, 1, 2, 3, 4, 0x81, 0xDEADBEE1])
@pytest.mark.parametrize("name", ["vta-pynq", "vta-de10nano", "vtaq-1x16x16"])
def test_a_device_that_vanishes_in_a_run_is_absent(name: str, value: int) -> None:
    class Vanishes(Recorder):
        def read32(self, _ctx: Any, at: int) -> int:
            if any(kind == "start" for kind, _, _ in self.log):
                return value
            return super().read32(_ctx, at)

        def write32(self, _ctx: Any, at: int, written: int) -> None:
            super().write32(_ctx, at, written)
            if (at, written) == start:
                self.log.append(("start", at, written))

    config = load_config(name)
    start = (0x10, 1) if config.registers == "native" else (0x00, 1)
    native = {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}
    answers = {"native": native, "vta-hls": HLS_DONE, "vta-chisel": {}}[config.registers]
    with pytest.raises(DeviceError, match="no device answers"):
        Vanishes(config, answers).run(dense_model(config).artifact)
