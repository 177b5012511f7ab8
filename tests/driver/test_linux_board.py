# SPDX-License-Identifier: Apache-2.0
"""driver/linux_board.c: Linux boards made of files."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loadstone.errors import DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import HwConfig, load_config
from tests.board.tools import ROOT
from tests.c.build import compile_c, includes
from tests.sample_model import copy_model

pytestmark = pytest.mark.rung("3")


def answer(page: mmap.mmap, config: HwConfig) -> None:
    """A native page that says DONE whatever it is asked."""
    for at, value in {0x00: 0x3153444C, 0x04: 1, 0x08: config.config_hash, 0x14: 3}.items():
        page[at : at + 4] = value.to_bytes(4, "little")


def test_a_board_through_devmem(tmp_path: Path) -> None:
    """A file stands for physical memory: registers at 0, DMA memory at 64 KiB."""
    config = load_config("vtaq-1x16x16")
    path = tmp_path / "mem"
    path.write_bytes(bytes(1 << 20))
    board = ffi.new("lds_linux *")
    status = lib().lds_linux_open_devmem(
        board, str(path).encode(), 0, 0x1000, 1 << 16, (1 << 20) - (1 << 16), 0x2000_0000
    )
    assert status == 0, ffi.string(board.message)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        answer(memory, config)
        dev = device.OpenedDevice("null", "", config)
        dev._handle = device.Handle(ffi.new("lds_device *"), None)
        block = lib().lds_registers_named(b"native")
        assert lib().lds_device_open(dev._handle.device, ffi.addressof(board, "hal"), block, 0) == 0
        with dev.load(copy_model(config)) as session:
            session.execute()
            stream = int.from_bytes(memory[0x30:0x34], "little") - 0x2000_0000
            assert memory[0x10] == 1  # CTRL: START
            assert memory[stream : stream + 16] == copy_model(config).programs[0].instructions[:16]
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
        answer(memory, config)
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


@pytest.mark.parametrize(("map_", "offset"), [("map0", "0x100"), ("map1", "0x40"), ("map0", "x")])
def test_a_map_that_begins_within_a_page_is_refused(map_: str, offset: str, tmp_path: Path) -> None:
    """The mapping begins at the page: registers would be others'."""
    path, maps = tmp_path / "uio0", tmp_path / "class/uio/uio0/maps"
    path.write_bytes(bytes(1 << 20))
    for k, (address, size) in enumerate([(0x43C00000, 0x2000), (0x30000000, (1 << 20) - 4096)]):
        (maps / f"map{k}").mkdir(parents=True)
        for name, text in (("addr", f"{address:#x}"), ("size", f"{size:#x}"), ("offset", "0x0")):
            (maps / f"map{k}/{name}").write_text(f"{text}\n")
    board = ffi.new("lds_linux *")
    names = str(path).encode(), str(tmp_path / "class").encode()
    assert lib().lds_linux_open_uio(board, names[0], 0x1000, ffi.NULL, 0, names[1]) == 0
    lib().lds_linux_close(board)
    (maps / map_ / "offset").write_text(f"{offset}\n")
    assert lib().lds_linux_open_uio(board, names[0], 0x1000, ffi.NULL, 0, names[1]) != 0
    line = ffi.string(board.message).decode()
    assert f"maps/{map_}/offset: " in line, line
    assert offset == "x" or line.endswith(f"{offset}; let reg in the device tree begin at a page")


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
        .startswith(f"{sysfs}/u-dma-buf/udmabuf0/size: no such file")
    )
    describe_buffer(sysfs)
    assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
    with uio.open("r+b") as file, mmap.mmap(file.fileno(), 0) as registers:
        answer(registers, config)
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


def describe_buffer(sysfs: Path, **numbers: str) -> Path:
    """The folder of a u-dma-buf that is not cached, or as `numbers` say."""
    folder = sysfs / "u-dma-buf/udmabuf0"
    folder.mkdir(parents=True, exist_ok=True)
    known = {"phys_addr": "0x0000000030000000", "sync_mode": "2", "dma_coherent": "0"}
    for name, text in ({"size": f"{1 << 20}"} | known | numbers).items():
        (folder / name).write_text(f"{text}\n")
    return folder


def files_of_a_board(tmp_path: Path) -> tuple[bytes, int, bytes, int, bytes]:
    """Arguments of lds_linux_open_uio with a u-dma-buf."""
    sysfs = tmp_path / "class"
    (tmp_path / "uio0").write_bytes(bytes(4096))
    (tmp_path / "udmabuf0").write_bytes(bytes(1 << 20))
    (sysfs / "uio/uio0/maps/map0").mkdir(parents=True)
    (sysfs / "uio/uio0/maps/map0/size").write_text("0x1000\n")
    paths = [str(path).encode() for path in (tmp_path / "uio0", tmp_path / "udmabuf0", sysfs)]
    return paths[0], 0x1000, paths[1], 0, paths[2]


@pytest.mark.parametrize("name", ["size", "phys_addr", "sync_mode", "dma_coherent"])
def test_a_number_that_u_dma_buf_does_not_say_is_an_error(tmp_path: Path, name: str) -> None:
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    folder = describe_buffer(tmp_path / "class")
    for text in ("none\n", "", "\n", "0x\n", "-1\n", "12 34\n", "0x30z\n", "9" * 30, None):
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
        assert lib().lds_linux_open_uio(board, *arguments) != 0, text
        line = ffi.string(board.message).decode()
        assert line == f"{folder / name}: no such file, or no number in it"


@pytest.mark.parametrize(("name", "most"), [("sync_mode", 7), ("dma_coherent", 1)])
def test_a_number_that_u_dma_buf_cannot_have_is_an_error(
    tmp_path: Path, name: str, most: int
) -> None:
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    folder = describe_buffer(tmp_path / "class", **{name: f"{most + 1}"})
    assert lib().lds_linux_open_uio(board, *arguments) != 0
    assert ffi.string(board.message).decode() == (
        f"{folder / name}: {most + 1} is more than {most}, the most that it can be"
    )


@pytest.mark.parametrize(
    ("mode", "coherent", "synced"),
    [(m, c, m in (0, 4) and c == 0) for m in range(8) for c in (0, 1)],
)
def test_cached_memory_is_synchronised(
    tmp_path: Path, mode: int, coherent: int, synced: bool
) -> None:
    """u-dma-buf's modes: 0 and 4 are cached although it is opened with O_SYNC."""
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    folder = describe_buffer(tmp_path / "class", sync_mode=str(mode), dma_coherent=str(coherent))
    files = ("sync_offset", "sync_size", "sync_direction", "sync_for_device", "sync_for_cpu")
    for name in files:
        (folder / name).write_text("")
    assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
    hal, buffer = board.hal, ffi.new("lds_dma_buffer *")
    assert (hal.dma_sync != ffi.NULL) == synced
    if synced:
        for _ in range(2):  # the second does not begin at 0
            assert hal.dma_alloc(hal.ctx, 4096, 64, 3, buffer) == 0
        for direction, owner in ((1, "sync_for_device"), (2, "sync_for_cpu")):
            assert hal.dma_sync(hal.ctx, buffer, 128, 64, direction) == 0
            assert [(folder / name).read_text() for name in files[:3]] == [
                str(4096 + 128),
                "64",
                str(direction),
            ]
            assert (folder / owner).read_text() == "1"
            (folder / owner).write_text("")
        (folder / "sync_for_cpu").unlink()
        assert hal.dma_sync(hal.ctx, buffer, 0, 64, 2) != 0
    lib().lds_linux_close(board)


@pytest.mark.parametrize(
    ("uio", "memory", "said"),
    [
        ("/dev/uio0", "/dev/dma_heap/linux,cma", "memory of a dma-heap has no address"),
        ("/dev/uio0", "/dev/dma_heap/system", "use a u-dma-buf (/dev/udmabuf0)"),
        ("/dev/vfio/12", None, "VFIO is not supported; bind the device to uio_pdrv_genirq"),
        ("/dev/vfio/12", "/dev/udmabuf0", "VFIO is not supported"),
        ("/dev/uio0", "/dev/vfio/vfio", "VFIO is not supported"),
        ("/dev/iommu", None, "VFIO is not supported"),
    ],
)
def test_interfaces_that_are_not_driven_are_refused_by_name(
    uio: str, memory: str | None, said: str
) -> None:
    """Before anything is opened, with what to take instead."""
    spec = f"uio:{uio},{memory}" if memory else f"uio:{uio}"
    with device.open(spec) as dev, pytest.raises(DeviceError) as refused:
        dev.load(copy_model())
    wrong = memory if memory and not uio.startswith("/dev/vfio") else uio
    assert str(refused.value).startswith(f"{wrong}: ")
    assert said in str(refused.value)


@pytest.mark.parametrize("kind", ["identity", "DMA", "DMA-FQ", "blocked", ""])
def test_a_device_behind_an_iommu_that_translates_is_refused(tmp_path: Path, kind: str) -> None:
    """Physical addresses would lead nowhere."""
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    describe_buffer(tmp_path / "class")
    group = tmp_path / "class/uio/uio0/device/iommu_group"
    group.mkdir(parents=True)
    (group / "type").write_text(f"{kind}\n")
    status = lib().lds_linux_open_uio(board, *arguments)
    assert (status == 0) == (kind == "identity")
    if status:
        assert (
            ffi.string(board.message)
            .decode()
            .endswith(
                f": its IOMMU translates addresses (iommu_group/type is {kind!r}); boot with "
                "iommu.passthrough=1"
            )
        )
    lib().lds_linux_close(board)


def test_a_pool_that_is_too_small_says_both_numbers(tmp_path: Path) -> None:
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    describe_buffer(tmp_path / "class")
    assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
    hal, buffer = board.hal, ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 4096, 64, 3, buffer) == 0
    assert hal.dma_alloc(hal.ctx, 1 << 20, 64, 3, buffer) != 0
    assert ffi.string(board.message).decode() == (
        "DMA memory: 1048576 bytes more are needed, but of 1048576 bytes 4096 are in use"
    )
    lib().lds_linux_close(board)


def test_a_pool_without_buffers_or_without_places_says_so(tmp_path: Path) -> None:
    """Not that bytes are missing, of which there are enough."""
    board, arguments = ffi.new("lds_linux *"), files_of_a_board(tmp_path)
    describe_buffer(tmp_path / "class", phys_addr="0x30000040")
    assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
    hal, buffer = board.hal, ffi.new("lds_dma_buffer *")
    assert hal.dma_alloc(hal.ctx, 64, 4096, 3, buffer) != 0
    line = ffi.string(board.message).decode()
    assert line.startswith("DMA memory: a buffer at a multiple of 4096 is needed, but "), line
    blocks = lib().LDS_LINUX_BLOCKS
    for _ in range(blocks):
        assert hal.dma_alloc(hal.ctx, 64, 64, 3, buffer) == 0
    assert hal.dma_alloc(hal.ctx, 64, 64, 3, buffer) != 0
    line = ffi.string(board.message).decode()
    assert line == f"DMA memory: one more buffer is needed, but all {blocks} are in use"
    lib().lds_linux_close(board)


#: As root sees it on a ZCU102: no-map memory is "reserved" of its own; memory that is plugged in
#: later is below another line.
IOMEM = """\
00000000-0bffffff : System RAM
  00010000-00ffffff : Kernel code
0c000000-0dffffff : reserved
0e000000-0fffffff : System RAM
100000000-17fffffff : Persistent Memory
  120000000-12fffffff : System RAM (kmem)
a0000000-a0003fff : loadstone@a0000000
"""
USED = "(System RAM); reserve it with no-map in the device tree that boots"
UNSEEN = "does not show whether Linux uses it; run as root, or use a u-dma-buf"


@pytest.mark.parametrize(
    ("of", "begin", "size", "said"),
    [
        ("memory", 0xC000000, 0x2000000, "yes"),
        ("memory", 0xBFFFFFF, 0x2000000, f"Linux uses 0 to 0xbffffff {USED}"),
        ("memory", 0xC000000, 0x2000001, f"Linux uses 0xe000000 to 0xfffffff {USED}"),
        ("memory", 0x1000, 1, f"Linux uses 0 to 0xbffffff {USED}"),
        ("memory", 0xC000000, (1 << 64) - 1, f"Linux uses 0xe000000 to 0xfffffff {USED}"),
        ("memory", 0x12000_0000, 64, f"Linux uses 0x120000000 to 0x12fffffff {USED}"),
        ("memory", 0x13000_0000, 64, "yes"),
        ("registers", 0xA0000000, 0x4000, "yes"),
        ("registers", 0xE000000, 0x4000, "(System RAM); the device is elsewhere"),
    ],
)
def test_addresses_that_linux_uses_are_refused(
    of: str, begin: int, size: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "iomem").write_text(IOMEM)
    assert reserved(tmp_path / "iomem", of, begin, size).endswith(said)


@pytest.mark.parametrize(
    "text", [None, "", "no ranges\n", "00000000-00000000 : System RAM\n  00000000-00000000 : x\n"]
)
def test_what_cannot_be_seen_is_refused(text: str | None, tmp_path: Path) -> None:
    """No such file, or one that shows zeros to all but root."""
    if text is not None:
        (tmp_path / "iomem").write_text(text)
    assert reserved(tmp_path / "iomem", "memory", 0xC000000, 64).endswith(UNSEEN)


def reserved(iomem: Path, of: str, begin: int, size: int) -> str:
    """What driver/linux_board.c says of addresses."""
    sources = [ROOT / "tests/c/iomem.c", ROOT / "driver/linux_board.c", ROOT / "driver/pool.c"]
    program = compile_c(64, iomem.parent / "program", sources, includes())
    words = [program, iomem, of, hex(begin), hex(size)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_a_lock_that_a_child_keeps_says_whose_child(tmp_path: Path) -> None:
    """The process that opened the board is gone; what it has forked has the lock still."""
    arguments = files_of_a_board(tmp_path)
    describe_buffer(tmp_path / "class")
    holder = (
        "import os, sys, time; from loadstone.library.native import ffi, lib\n"
        "board = ffi.new('lds_linux *')\n"
        f"assert lib().lds_linux_open_uio(board, *{arguments!r}) == 0\n"
        "child = os.fork()\n"
        "if child:\n"
        "    os.write(1, b'%d\\n' % child)\n"
        "sys.stdin.read(1)\n"
    )
    words = [sys.executable, "-c", holder]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        child = int(other.stdout.readline())
        other.kill()
        other.wait()
        board = ffi.new("lds_linux *")
        assert lib().lds_linux_open_uio(board, *arguments) != 0
        line = ffi.string(board.message).decode()
        assert line.endswith(
            f": in use by a child of process {other.pid}, which is gone; `fuser -v "
            f"{tmp_path}/uio0` names it"
        ), line
        os.kill(child, signal.SIGKILL)
    wait_until = time.monotonic() + 10
    while lib().lds_linux_open_uio(board, *arguments) != 0:
        assert time.monotonic() < wait_until, ffi.string(board.message)
    lib().lds_linux_close(board)


def test_what_is_open_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    """A second process hears whose the board is; a killed one leaves no lock."""
    arguments = files_of_a_board(tmp_path)
    describe_buffer(tmp_path / "class")
    holder = (
        "import sys; from loadstone.library.native import ffi, lib\n"
        "board = ffi.new('lds_linux *')\n"
        f"assert lib().lds_linux_open_uio(board, *{arguments!r}) == 0\n"
        "print('open', flush=True); sys.stdin.read()\n"
    )
    board = ffi.new("lds_linux *")
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        assert lib().lds_linux_open_uio(board, *arguments) != 0
        line = ffi.string(board.message).decode()
        assert line.startswith(f"{tmp_path}/uio0: in use by process {other.pid} ("), line
        mem = (arguments[2], 0, 4096, 4096, 4096, 0)  # u-dma-buf's file, opened as /dev/mem
        assert lib().lds_linux_open_devmem(board, *mem) != 0
        assert f"in use by process {other.pid}" in ffi.string(board.message).decode()
        other.kill()
        other.wait()
    for _ in range(2):
        assert lib().lds_linux_open_uio(board, *arguments) == 0, ffi.string(board.message)
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
        pytest.raises(DeviceError, match=r"uio0/maps/map0/size: no such file, or no number in it"),
    ):
        dev.load(copy_model())
    for spec in ("uio:", "uio:/dev/uio0,", "uio:,/dev/udmabuf0"):
        with device.open(spec) as dev, pytest.raises(DeviceError, match=f"{spec} is not uio:PATH"):
            dev.load(copy_model())
    with (
        device.open("devmem:0x1c000000+0x4000000") as dev,
        pytest.raises(DeviceError, match="has no register_base, so the address"),
    ):
        dev.load(copy_model())
    with (
        device.open("devmem:here") as dev,
        pytest.raises(DeviceError, match="is not devmem:ADDRESS"),
    ):
        dev.load(copy_model())
