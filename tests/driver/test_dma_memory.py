# SPDX-License-Identifier: Apache-2.0
"""DMA memory of every HAL: both addresses at the multiples that lds_hal.h promises, pieces that lie
apart, sizes that do not wrap."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.errors import DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.c.build import MODES, compile_c, includes
from tests.sample_model import copy_model

pytestmark = pytest.mark.rung("3")

CONFIG = load_config("vtaq-1x16x16")
ALIGNMENTS = (64, 4096, 65536)
BYTES = 1 << 20


def address(buffer: Any) -> int:
    return int(ffi.cast("uintptr_t", buffer.cpu))


def check(hal: Any) -> None:
    """Buffers of every alignment, with small ones between, so that no place is right by chance."""
    taken = []
    for align in (*ALIGNMENTS, *ALIGNMENTS):
        for size, wanted in ((1, 1), (align + 3, align)):
            buffer = ffi.new("lds_dma_buffer *")
            assert hal.dma_alloc(hal.ctx, size, wanted, 3, buffer) == 0
            assert int(buffer.bus) % wanted == 0, f"bus {buffer.bus:#x} at {wanted}"
            assert address(buffer) % wanted == 0, f"cpu {address(buffer):#x} at {wanted}"
            ffi.buffer(buffer.cpu, size)[:] = b"x" * size
            taken.append(buffer)
    places = sorted((address(b), address(b) + b.size_bytes) for b in taken)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
    for buffer in taken:
        hal.dma_free(hal.ctx, buffer)


@contextmanager
def simulator_process(folder: Path, *words: str) -> Iterator[str]:
    path = folder / "socket"
    with subprocess.Popen(
        [sys.executable, "-m", "loadstone", "simd", str(path), "--device", CONFIG.name, *words]
    ) as server:
        try:
            while not path.exists() and server.poll() is None:
                time.sleep(0.02)
            yield f"simd:{path}"
        finally:
            server.terminate()


@pytest.mark.parametrize("shadow", [False, True])
@pytest.mark.parametrize("kind", ["sim", "null"])
def test_memory_of_simulated_devices(kind: str, shadow: bool) -> None:
    for _ in range(3):
        with device.open(kind, shadow=shadow) as dev, dev.load(copy_model()):
            check(dev.handle().device.hal)


@pytest.mark.parametrize("pool_bytes", [0, 1, 100, 4096, 1 << 20])
def test_memory_of_small_pools(pool_bytes: int) -> None:
    null = lib().lds_hal_null_create(1, pool_bytes)
    hal, buffer = lib().lds_hal_null_hal(null), ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, pool_bytes + 1, 1, 3, buffer) != 0
    if pool_bytes:
        assert hal.dma_alloc(hal.ctx, pool_bytes, 4096, 3, buffer) == 0
        assert address(buffer) % 4096 == 0
    lib().lds_hal_null_destroy(null)


def test_a_pool_that_cannot_be_is_no_device() -> None:
    fingerprint = ffi.from_buffer(CONFIG.fingerprint())
    for size in ((1 << 64) - 1, (1 << 64) - 65536, 1 << 63):
        assert lib().lds_hal_null_create(1, size) == ffi.NULL
        assert (
            lib().lds_hal_sim_create(ffi.cast("lds_hw_config *", fingerprint), 64, 0, size, 0)
            == ffi.NULL
        )


def test_memory_of_a_simulator_process(tmp_path: Path) -> None:
    with simulator_process(tmp_path) as spec, device.open(spec) as dev, dev.load(copy_model()):
        check(dev.handle().device.hal)


def test_memory_of_a_simulator_process_that_is_too_small_says_both_numbers(tmp_path: Path) -> None:
    with (
        simulator_process(tmp_path, "--size", "64") as spec,
        device.open(spec) as dev,
        pytest.raises(
            DeviceError,
            match=r"DMA memory: \d+ bytes more are needed, but of 64 bytes 64 are in use",
        ),
    ):
        dev.load(copy_model())


@pytest.mark.parametrize("shift", [0, 0x1000, 0x4000, 0xF000])
def test_memory_of_linux_boards(tmp_path: Path, shift: int) -> None:
    """The processor's address follows the bus address, which lies at any page."""
    uio, sysfs, bus = tmp_path / "uio0", tmp_path / "class", 0x3000_0000 + shift
    uio.write_bytes(bytes(4096 + BYTES))
    for k, (start, size) in enumerate([(0x43C00000, 0x1000), (bus, BYTES)]):
        folder = sysfs / f"uio/uio0/maps/map{k}"
        folder.mkdir(parents=True)
        (folder / "addr").write_text(f"0x{start:08x}\n")
        (folder / "size").write_text(f"0x{size:x}\n")
    board = ffi.new("lds_linux *")
    status = lib().lds_linux_open_uio(
        board, str(uio).encode(), 0x1000, ffi.NULL, 0, str(sysfs).encode()
    )
    assert status == 0, ffi.string(board.message)
    check(board.hal)
    lib().lds_linux_close(board)
    memory = tmp_path / "mem"
    memory.write_bytes(bytes(BYTES + 0x10000))
    assert (
        lib().lds_linux_open_devmem(
            board, str(memory).encode(), 0, 0x1000, shift, BYTES, 0x8000_0000
        )
        == 0
    )
    check(board.hal)
    lib().lds_linux_close(board)


class Pool:
    """A pool over a piece of a NumPy array."""

    def __init__(self, cpu_shift: int, bus: int, size: int) -> None:
        self.memory = np.zeros(size + 2 * 65536, np.uint8)
        start = self.memory.ctypes.data
        self.begin = start + -start % 65536 + cpu_shift
        self.pool = ffi.new("lds_pool *")
        self.blocks = ffi.new("lds_pool_block[64]")
        self.pool.cpu, self.pool.bus, self.pool.size_bytes = (
            ffi.cast("uint8_t *", self.begin),
            bus,
            size,
        )
        self.pool.blocks, self.pool.capacity = self.blocks, 64

    def alloc(self, size: int, align: int) -> Any:
        """The buffer, or None."""
        out = ffi.new("lds_dma_buffer *")
        return out if lib().lds_pool_alloc(self.pool, size, align, 3, out) == 0 else None


def test_a_pool_whose_addresses_cannot_both_be_aligned_says_so() -> None:
    """They differ by 64: every alignment up to that can be had, and a page cannot."""
    pool = Pool(64, 0x1000_0000, 1 << 16)
    for align in (1, 16, 64):
        found = pool.alloc(100, align)
        assert found.bus % align == address(found) % align == 0
    assert pool.alloc(100, 128) is None
    assert pool.alloc(100, 4096) is None


def test_sizes_and_alignments_that_cannot_be_are_refused() -> None:
    for bus in (0, 64, 0x1000_0000, (1 << 64) - (1 << 16)):
        pool = Pool(bus % 65536, bus, 1 << 16)
        for align in (0, 3, 65, (1 << 64) - 1):
            assert pool.alloc(1, align) is None
        for size in ((1 << 64) - 1, (1 << 64) - 64, (1 << 64) - (1 << 16), 1 << 63, (1 << 16) + 1):
            assert pool.alloc(size, 64) is None
        assert pool.alloc(1 << 16, 64) is not None
        for align in (1, 64, 1 << 16, 1 << 63):
            assert pool.alloc(1, align) is None


def test_buffers_of_any_order_lie_apart_inside_the_pool() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        shift = int(random.integers(1 << 10)) * 64
        pool, taken = Pool(shift, 0x4000_0000 + shift, 1 << 18), list[Any]()
        for _ in range(400):
            if taken and random.random() < 0.45:
                lib().lds_pool_free(pool.pool, taken.pop(int(random.integers(len(taken)))))
                continue
            align = 1 << int(random.integers(17))
            if (found := pool.alloc(int(random.integers(1, 20000)), align)) is not None:
                assert found.bus % align == address(found) % align == 0
                taken.append(found)
        places = sorted(
            (address(b) - pool.begin, address(b) - pool.begin + b.size_bytes) for b in taken
        )
        assert all(0 <= begin < end <= 1 << 18 for begin, end in places)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(places))
        for buffer in taken:
            lib().lds_pool_free(pool.pool, buffer)
        assert pool.pool.used == 0


@pytest.mark.parametrize("bits", MODES)
def test_memory_without_an_operating_system(bits: int, root: Path, tmp_path: Path) -> None:
    sources = [
        root / "tests/c/dma_memory.c",
        root / "driver/hal_baremetal.c",
        root / "driver/pool.c",
    ]
    program = compile_c(bits, tmp_path / "program", sources, includes(root))
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
