"""Drivers: the register sequences that they write, Linux boards made of files, and faults of the
simulated device."""

from __future__ import annotations

import dataclasses
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.artifact.memory_plan import MAX_ALIGN_BYTES
from loadstone.errors import DeviceError, DeviceHungError
from loadstone.runtime import device
from loadstone.runtime.native import ffi, lib
from loadstone.vta.hw_config import HwConfig, load_config
from loadstone.vta.isa.registers import BLOCKS
from loadstone.vta.isa.spec import MAX_REGIONS
from tests.sample_model import copy_model, dense_model

pytestmark = pytest.mark.rung("3")

POOL_BUS = 0x1000_0000


def offset(block: str, name: str) -> int:
    return next(r.offset for r in BLOCKS[block] if r.name == name)


class Recorder:
    """A HAL that writes down every register access; `answers` gives what is read."""

    def __init__(
        self, config: HwConfig, answers: Callable[[int], int], bus: int = POOL_BUS
    ) -> None:
        lib()
        self.log: list[tuple[str, int, int]] = []
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
            "now_ns": ffi.callback("uint64_t(void *)", lambda _: 0),
        }
        for name, callback in self.callbacks.items():
            setattr(self.hal, name, callback)
        self.config = config

    def read32(self, _ctx: Any, at: int) -> int:
        value = self.answers(at)
        self.log.append(("read", at, value))
        return value

    def write32(self, _ctx: Any, at: int, value: int) -> None:
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
    recorder = Recorder(config, lambda at: 2 if at == offset("chisel", "CONTROL") else 0)
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
    assert recorder.log[8:] == [("read", 0x00, 2), ("read", 0x04, 0)]  # done; cycles
    assert stream % 16 == 0
    assert POOL_BUS <= stream < POOL_BUS + (1 << 20)


def test_the_hls_blocks_are_started_as_their_isa_says() -> None:
    config = load_config("vta-pynq")
    recorder = Recorder(config, lambda at: int(at == 0x2018))
    model = dense_model(config).artifact
    recorder.run(model)
    stream = next(value for at, value in recorder.writes() if at == 0x18)
    bases = [(at, 0) for at in (0x1010, 0x1018, 0x2020, 0x2028, 0x3010)]
    start = [(0x0000, 1), (0x1000, 0x81), (0x2000, 0x81), (0x3000, 0x81)]
    assert recorder.writes() == [(0x10, len(model.programs[0])), (0x18, stream), *bases, *start]
    assert recorder.log[len(recorder.writes()) :] == [("read", 0x2018, 1)]


def test_the_native_page_is_started_with_every_region() -> None:
    config = load_config("vtaq-1x16x16")
    answers = {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}
    recorder = Recorder(config, lambda at: answers.get(at, 0))
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
    recorder = Recorder(config, lambda at: 2 if at == 0 else 0, bus=POOL_BUS + bus_offset)
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
    recorder = Recorder(load_config("vta-pynq"), lambda _: 1, bus=1 << 32)
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
    recorder = Recorder(config, lambda _: 1, bus=(1 << 32) - regions)
    with pytest.raises(DeviceError, match="beyond what the device can address"):
        recorder.run(model)
    Recorder(config, lambda _: 1, bus=(1 << 32) - regions - 65536).run(model)


def test_an_error_of_a_later_device_is_said_by_its_number() -> None:
    """A register page that reports ERROR 77, which this version does not know."""
    config = load_config("vtaq-1x16x16")
    answers = {
        name: offset("native", name) for name in ("ID", "VERSION", "CONFIG_HASH", "STATUS", "ERROR")
    }
    values = {
        "ID": 0x3153444C,
        "VERSION": 1,
        "CONFIG_HASH": config.config_hash,
        "STATUS": 4,
        "ERROR": 77,
    }
    board = Recorder(config, lambda at: next((values[n] for n, o in answers.items() if o == at), 0))
    with pytest.raises(DeviceError, match="error 77, which this version does not know"):
        board.run(copy_model(config))


# --- Linux boards made of files -------------------------------------------------------------------
def test_a_board_through_devmem(tmp_path: Path) -> None:
    """A file stands for physical memory: registers at 0, DMA memory at 64 KiB."""
    config = load_config("vta-pynq")
    path = tmp_path / "mem"
    path.write_bytes(bytes(1 << 20))
    board = ffi.new("lds_linux *")
    status = lib().lds_linux_open_devmem(
        board, str(path).encode(), 0, 0x4000, 1 << 16, (1 << 20) - (1 << 16), 0x2000_0000
    )
    assert status == 0, ffi.string(board.message)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0x2018] = 1  # COMPUTE_DONE
        dev = device.OpenedDevice("null", "", config)
        dev._handle = device.Handle(ffi.new("lds_device *"), None)
        block = lib().lds_registers_named(b"vta-hls")
        assert lib().lds_device_open(dev._handle.device, ffi.addressof(board, "hal"), block, 0) == 0
        with dev.load(dense_model(config).artifact) as session:
            session.execute()
            stream = int.from_bytes(memory[0x18:0x1C], "little") - 0x2000_0000
            assert memory[0x0000] == 1
            assert memory[0x1000] == 0x81
            assert memory[stream : stream + 16] != bytes(16)
    lib().lds_linux_close(board)


def test_a_board_through_uio(tmp_path: Path) -> None:
    """Map 0 is the first page of a file, map 1 begins at the second; the interrupt cannot be had
    from a file."""
    config = load_config("vtaq-1x16x16")
    path, maps = tmp_path / "uio0", tmp_path / "class/uio/uio0/maps"
    path.write_bytes(bytes(1 << 20))
    for k, (address, size) in enumerate([(0x43C00000, 0x1000), (0x30000000, (1 << 20) - 4096)]):
        (maps / f"map{k}").mkdir(parents=True)
        (maps / f"map{k}/addr").write_text(f"0x{address:08x}\n")
        (maps / f"map{k}/size").write_text(f"0x{size:x}\n")
    board = ffi.new("lds_linux *")
    names = str(path).encode(), str(tmp_path / "class").encode()
    assert lib().lds_linux_open_uio(board, names[0], 0x4000, ffi.NULL, 0, names[1]) != 0
    assert ffi.string(board.message).endswith(
        b"map 0 has 0x1000 bytes, the register block 0x4000: widen reg in the device tree"
    )
    status = lib().lds_linux_open_uio(board, names[0], 0x1000, ffi.NULL, 0, names[1])
    assert status == 0, ffi.string(board.message)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for at, value in {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}.items():
            memory[at : at + 4] = value.to_bytes(4, "little")
        dev = device.OpenedDevice("null", "", config)
        dev._handle = device.Handle(ffi.new("lds_device *"), None)
        block = lib().lds_registers_named(b"native")
        assert lib().lds_device_open(dev._handle.device, ffi.addressof(board, "hal"), block, 0) == 0
        with dev.load(copy_model(config)) as session:
            session.execute()
            stream = int.from_bytes(memory[0x30:0x34], "little")
            assert memory[0x10] == 1  # CTRL: START
            assert (
                memory[4096 + stream - 0x30000000 :][:16]
                == copy_model(config).programs[0].instructions[:16]
            )
    lib().lds_linux_close(board)


def test_a_board_with_u_dma_buf(tmp_path: Path) -> None:
    """Registers from UIO's only map, DMA memory from a device of its own; without its sysfs folder
    the line names it."""
    config, sysfs = load_config("vtaq-1x16x16"), tmp_path / "class"
    uio, buffer = tmp_path / "uio0", tmp_path / "udmabuf0"
    uio.write_bytes(bytes(4096))
    buffer.write_bytes(bytes(1 << 20))
    (sysfs / "uio/uio0/maps/map0").mkdir(parents=True)
    (sysfs / "uio/uio0/maps/map0/size").write_text("0x1000\n")
    board = ffi.new("lds_linux *")
    arguments = str(uio).encode(), 0x1000, str(buffer).encode(), 0x1000_0000, str(sysfs).encode()
    assert lib().lds_linux_open_uio(board, *arguments) != 0
    assert (
        ffi.string(board.message)
        .decode()
        .startswith(f"{buffer}: sysfs shows no size and phys_addr")
    )
    (sysfs / "u-dma-buf/udmabuf0").mkdir(parents=True)
    (sysfs / "u-dma-buf/udmabuf0/size").write_text(f"{1 << 20}\n")
    (sysfs / "u-dma-buf/udmabuf0/phys_addr").write_text("0x0000000030000000\n")
    assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
    with uio.open("r+b") as file, mmap.mmap(file.fileno(), 0) as registers:
        for at, value in {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}.items():
            registers[at : at + 4] = value.to_bytes(4, "little")
        dev = device.OpenedDevice("null", "", config)
        dev._handle = device.Handle(ffi.new("lds_device *"), None)
        assert (
            lib().lds_device_open(
                dev._handle.device,
                ffi.addressof(board, "hal"),
                lib().lds_registers_named(b"native"),
                0,
            )
            == 0
        )
        with dev.load(copy_model(config)) as session:
            session.execute()
            stream = int.from_bytes(registers[0x30:0x34], "little") - 0x4000_0000
        assert buffer.read_bytes()[stream:][:16] == copy_model(config).programs[0].instructions[:16]
    lib().lds_linux_close(board)


def test_a_board_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with (
        device.open("uio:/dev/uio99") as dev,
        pytest.raises(DeviceError, match=r"^/dev/uio99: cannot open: No such file"),
    ):
        dev.load(copy_model())
    (tmp_path / "uio0").write_bytes(bytes(4096))
    with (
        device.open(f"uio:{tmp_path}/uio0") as dev,
        pytest.raises(DeviceError, match="sysfs shows no maps/map0"),
    ):
        dev.load(copy_model())
    with (
        device.open("devmem:here") as dev,
        pytest.raises(DeviceError, match="is not devmem:ADDRESS"),
    ):
        dev.load(copy_model())


# --- faults of the simulated device ---------------------------------------------------------------
X = np.arange(-24, 24, dtype=np.int8).reshape(3, 1, 16)
HANGS = ["LDS_FAULT_HANG", "LDS_FAULT_HANG_RESET", "LDS_FAULT_HANG_HW_RESET"]


def order(dev: device.OpenedDevice, fault: str, argument: int = 0, after: int = 0) -> None:
    lib().lds_simdev_fault(
        lib().lds_hal_sim_device(dev.sim), getattr(lib(), fault), after, argument
    )


@pytest.mark.parametrize("fault", HANGS)
@pytest.mark.parametrize("shadow", [False, True])
def test_a_hang_is_an_error_and_the_next_run_works(fault: str, shadow: bool) -> None:
    with (
        device.open("sim", shadow=shadow) as dev,
        dev.load(copy_model(), hang_seconds=0.05) as session,
    ):
        order(dev, fault, argument=2, after=1)
        session.run([X[:1]])
        with pytest.raises(
            DeviceHungError,
            match=r"step 'copy', instruction 2 \(layer 'copy'\): the device hung and was reset",
        ):
            session.run([X[1:2]])
        assert np.array_equal(session.run([X])[0], X)


def test_a_dead_device_is_said_to_be_dead_again_and_again() -> None:
    with device.open("sim") as dev, dev.load(copy_model(), hang_seconds=0.02) as session:
        order(dev, "LDS_FAULT_DEAD")
        for _ in range(2):
            with pytest.raises(DeviceHungError, match="does not answer a reset"):
                session.run([X])


def test_a_lost_interrupt_costs_time_only() -> None:
    with device.open("sim") as dev, dev.load(copy_model(), hang_seconds=0.2) as session:
        order(dev, "LDS_FAULT_LOST_IRQ")
        assert np.array_equal(session.run([X])[0], X)


def test_a_bus_error_names_step_instruction_and_layer() -> None:
    with device.open("sim") as dev, dev.load(copy_model()) as session:
        order(dev, "LDS_FAULT_BUS_ERROR", argument=3)
        with pytest.raises(
            DeviceError,
            match=r"step 'copy', instruction 3 \(layer 'copy'\): BUS, the bus answered with "
            r"an error",
        ):
            session.run([X])
        assert np.array_equal(session.run([X])[0], X)


def pool_of(dev: device.OpenedDevice) -> np.ndarray:
    """The first 64 KiB of the simulated device's memory; the first byte is at bus address
    POOL_BUS."""
    hal = lib().lds_hal_sim_hal(dev.sim)
    buffer = ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 64, 64, 1, buffer) == 0
    start = int(ffi.cast("uintptr_t", buffer.cpu)) - (int(buffer.bus) - POOL_BUS)
    hal.dma_free(hal.ctx, buffer)
    return np.frombuffer(ffi.buffer(ffi.cast("char *", start), 1 << 16), np.uint8)


def test_a_flipped_bit_in_the_input_is_one_wrong_element() -> None:
    with device.open("sim") as dev, dev.load(copy_model()) as session:
        session.inputs[0][...] = X[1]
        at = pool_of(dev).tobytes().index(X[1].tobytes())
        order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * (POOL_BUS + at + 5) + 6)
        session.inputs[0][...] = X[0]
        session.execute()
        wanted = X[0].copy()
        wanted[0, 5] ^= 64
        assert np.array_equal(session.outputs[0], wanted)


def test_flipped_bits_in_the_stream_are_an_error_or_the_device_stays_in_its_regions() -> None:
    """The device checks its own bounds: what was validated may change in memory, but not reach
    beyond the regions."""
    model = copy_model()
    outcomes = set()
    with device.open("sim") as dev, dev.load(model, hang_seconds=0.05) as session:
        stream = POOL_BUS + pool_of(dev).tobytes().index(model.programs[0].instructions)
        for bit in range(8 * len(model.programs[0].instructions)):
            order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * stream + bit)
            try:
                session.run([X[:1]])
                outcomes.add("ran")
            except DeviceError as error:
                outcomes.add("hung" if isinstance(error, DeviceHungError) else "error")
            order(dev, "LDS_FAULT_BIT_FLIP", argument=8 * stream + bit)
            try:
                session.run([X[:1]])
            except DeviceError as error:
                raise AssertionError(f"bit {bit}: {error}") from None
    assert {"ran", "error"} <= outcomes


def test_closing_while_the_device_runs_stops_it_first() -> None:
    with device.open("sim") as dev:
        session = dev.load(copy_model(), hang_seconds=5.0)
        order(dev, "LDS_FAULT_HANG")
        session.start()
        assert not session.wait(0.01)
        session.close()
        with dev.load(copy_model()) as again:
            assert np.array_equal(again.run([X])[0], X)
