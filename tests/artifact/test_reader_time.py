# SPDX-License-Identifier: Apache-2.0
"""Reading, opening and validating a file takes time in proportion to its size, whatever is in it.

Files of many entries of one kind, sound ones, and hostile ones whose entries share what others
have, to 16 MiB (`make test-all`). What a KiB takes has a limit, and may not grow with the file:
measured against a small file of the same kind.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from loadstone.artifact import host_step
from loadstone.artifact.file_layout import DEVICE, HEADER, HEADER_BYTES, STEP, TENSOR
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import HostOpcode
from loadstone.backend.device import NO_DEVICE, ProgramDevice, ProgramStep
from loadstone.errors import ArtifactError, DeviceError, LoadstoneError
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Alu, Finish, Load
from loadstone.vta.isa.spec import AluOp, Memory
from tests.artifact.test_program_step import program_model
from tests.c.test_readers import c_accepts, sealed
from tests.repeat import times
from tests.sample_model import copy_model

KIB = 1024
MIB = KIB * KIB
SMALL = 32 * KIB
CONFIG = load_config("vtaq-1x16x16")

#: Indices of sections.
STRINGS, REGIONS, TENSORS, INPUTS, OUTPUTS, STEPS, WORDS, DEVICES, CODE, DATA = range(10)


def sections(data: bytes) -> list[bytes]:
    places = struct.unpack_from("<20I", data, HEADER.size)
    return [data[a : a + n] for a, n in zip(places[::2], places[1::2], strict=True)]


def with_sections(model: Artifact, **changed: bytes) -> bytes:
    """The model's file with other sections: whatever they are, its sums are right."""
    data = model.to_bytes()
    parts, out, table = sections(data), bytearray(data[:HEADER_BYTES]), []
    for name, content in changed.items():
        parts[globals()[name]] = content
    for part in parts:
        out += bytes(-len(out) % 64)
        table += [len(out), len(part)]
        out += part
    struct.pack_into("<20I", out, HEADER.size, *table)
    struct.pack_into("<I", out, 8, len(out))
    return sealed(out)


def _finish() -> bytes:
    return encode_stream([Finish()], CONFIG).tobytes()


def recorded(records: list[list[int]], kind: int = 0) -> dict[str, bytes]:
    """Steps of one record each, and their words."""
    steps, words = [], list[int]()
    for record in records:
        steps.append(STEP.pack(kind, 0, 0, len(words), len(record), 0))
        words += record
    return {"STEPS": b"".join(steps), "WORDS": struct.pack(f"<{len(words)}I", *words)}


def programs(size: int) -> bytes:
    """Programs of one instruction, each with a layer of its own."""
    count = size // 116
    records = [[0, 64 * k, 16, 1, 0, 1, 0, 1, 0] for k in range(count)]
    return with_sections(copy_model(), CODE=_finish().ljust(64, b"\0") * count, **recorded(records))


def layers(size: int) -> bytes:
    """A program of one instruction, and of layers without any."""
    count = size // 12
    record = [0, 0, 16, 1, 0, count, *[0, 0, 0] * count]
    return with_sections(copy_model(), CODE=_finish(), **recorded([record]))


def devices(size: int) -> bytes:
    """Devices without programs."""
    one = sections(copy_model().to_bytes())[DEVICES]
    return with_sections(copy_model(), DEVICES=one * (size // len(one)))


def micro_ops(size: int) -> bytes:
    """Loads of the whole scratchpad, and operations that read all of it."""
    model, depth = copy_model(), CONFIG.uop_depth
    uops = replace(model.regions[0], size_bytes=4 * depth, data=bytes(4 * depth))
    model = replace(model, regions=(uops, *model.regions[1:]))
    load = Load(memory_id=Memory.UOP, y_size=1, x_size=depth)
    loop = Alu(uop_end=depth, iter_out=1, iter_in=1, alu_op=AluOp.ADD, use_imm=1)
    pair = encode_stream([load, loop], CONFIG).tobytes()
    count = size // 32
    return with_sections(
        model,
        CODE=pair * count + _finish(),
        **recorded([[0, 0, 32 * count + 16, 2 * count + 1, 0, 0]]),
    )


def fills(size: int) -> bytes:
    """Steps of the host."""
    model, count = copy_model(), size // 24
    region = MemoryRegion("host", RegionKind.HOST, 16, 1)
    tensor = BufferView("h", (16,), DataType.INT8, len(model.regions), 0)
    model = replace(
        model, regions=(*model.regions, region), tensors=(*model.tensors, tensor), steps=()
    )
    steps = [STEP.pack(HostOpcode.FILL, 0, 1, 2 * k, 2, 0) for k in range(count)]
    words = struct.pack("<II", len(model.tensors) - 1, 1) * count
    return with_sections(model, STEPS=b"".join(steps), WORDS=words)


def operands(size: int) -> bytes:
    """External steps of as many operands as there can be."""
    model = copy_model()
    region = MemoryRegion("host", RegionKind.HOST, 16, 1)
    tensor = BufferView("h", (16,), DataType.INT8, len(model.regions), 0)
    many = (len(model.tensors),) * 255
    step = host_step.external("e", many, many, "tests.none")
    tensors, regions = (*model.tensors, tensor), (*model.regions, region)
    model = replace(model, regions=regions, tensors=tensors, steps=(step,))
    words = sections(model.to_bytes())[WORDS]
    count, each = size // (len(words) + 16), len(words) // 4
    steps = [STEP.pack(HostOpcode.EXTERNAL, 255, 255, each * k, each, 0) for k in range(count)]
    return with_sections(model, STEPS=b"".join(steps), WORDS=words * count)


def further_programs(size: int) -> bytes:
    """Programs of another device, each with code, relocations and a layer of its own."""
    model = program_model()
    first = sections(model.to_bytes())[WORDS]
    record = list(struct.unpack(f"<{len(first) // 4}I", first))
    code = model.programs[0].instructions.ljust(64, b"\0")
    count = size // (len(code) + len(first) + STEP.size)
    records = [[1, 64 * k, *record[2:]] for k in range(count)]
    return with_sections(model, CODE=code * count, **recorded(records))


def further_vtas(size: int, same: bool = True) -> bytes:
    """Programs of one further VTA, which run; or each of another one."""
    count = size // (64 + 40 if same else 64 + 40 + DEVICE.size)
    fingerprint = load_config("vtaq-tiny").fingerprint()
    names = ["vtaq-tiny"] if same else [f"vta {k}" for k in range(count)]
    found = [ProgramDevice.of(NO_DEVICE), *(ProgramDevice(n, fingerprint) for n in names)]
    steps = (ProgramStep("p", _finish(), (), 1 if same else 1 + k) for k in range(count))
    return Artifact("m", tuple(found), 1, (), (), (), (), tuple(steps)).to_bytes()


def ports(size: int) -> bytes:
    return with_sections(copy_model(), OUTPUTS=struct.pack("<I", 1) * (size // 4))


def texts(size: int) -> bytes:
    """Names, each of its own, of tensors."""
    model, count = copy_model(), size // (TENSOR.size + 8)
    data = sections(model.to_bytes())
    names = b"\0" + b"".join(b"%07d\0" % k for k in range(count))
    one = data[TENSORS][: TENSOR.size]
    tensors = b"".join(struct.pack("<I", 1 + 8 * k) + one[4:] for k in range(count))
    return with_sections(
        replace(model, name="", devices=(replace(model.devices[0], name="", attributes=""),)),
        STRINGS=names,
        TENSORS=tensors,
        REGIONS=_nameless(data[REGIONS], 24, 32),
        STEPS=_nameless(data[STEPS], 12, 16),
        WORDS=_nameless(data[WORDS], 32, 36),
    )


def _nameless(entries: bytes, at: int, each: int) -> bytes:
    return b"".join(
        entries[k : k + at] + bytes(4) + entries[k + at + 4 : k + each]
        for k in range(0, len(entries), each)
    )


# --- what shares ----------------------------------------------------------------------------------
def shared_records(size: int) -> bytes:
    """Half of the file steps, half one record of layers that all of them have."""
    count = size // 24
    record = [1, 0, 28, 3, 0, count, *[0, 1, 0] * count]
    steps = STEP.pack(0, 0, 0, 0, len(record), 0) * (size // 32)
    return with_sections(program_model(), **{**recorded([record]), "STEPS": steps})


def shared_code(size: int) -> bytes:
    """Each program has all of the code."""
    count, half = size // 2 // 40, size // 2 // 64 * 64
    records = [[0, 0, half, half // 16, 0, 0]] * count
    return with_sections(copy_model(), CODE=_finish() * (half // 16), **recorded(records))


def shared_layers(size: int) -> bytes:
    """Each layer has all of the instructions."""
    count = size // 12
    record = [1, 0, 28, 3, 0, count, *[0, 3, 0] * count]
    return with_sections(program_model(), **recorded([record]))


def shared_texts(size: int) -> bytes:
    """Every name is the rest of one that is half of the file."""
    count = size // 2 // TENSOR.size
    model = copy_model()
    one = sections(model.to_bytes())[TENSORS][: TENSOR.size]
    strings = b"\0" + b"a" * (size // 2) + b"\0"
    tensors = b"".join(struct.pack("<I", 1 + k) + one[4:] for k in range(count))
    return with_sections(model, STRINGS=strings, TENSORS=tensors)


SOUND = [programs, layers, micro_ops, fills, operands, further_programs]
SOUND += [further_vtas, devices, ports, texts]
SHARING = [shared_records, shared_code, shared_layers, shared_texts]


def python_reads(data: bytes) -> bool:
    try:
        Artifact.from_bytes(data)
    except ArtifactError:
        return False
    return True


def validated(data: bytes) -> None:
    """Read and validated by C alone."""
    with suppress(LoadstoneError):
        device.validate(data)


def opened(data: bytes) -> None:
    """Read by Python, opened and validated by C, and run; what says no, says it."""
    with suppress(LoadstoneError), device.open() as dev, dev.load(data) as session:
        session.execute()


def seconds(work: Callable[[bytes], object], data: bytes) -> float:
    """Of the processor, for one reading."""
    begin = time.process_time()
    work(data)
    return time.process_time() - begin


@pytest.mark.parametrize("make", [*SOUND, *SHARING])
def test_both_readers_say_the_same(make: Callable[[int], bytes]) -> None:
    data = make(16 * KIB)
    assert python_reads(data) == c_accepts(data) == (make in SOUND)


#: How a file is read -> sizes, and microseconds that a KiB of it may take: five times what the
#: slowest takes (micro-ops, ports) on a machine of 2026. Python makes an object of each entry, also
#: of a few bytes.
LIMITS: dict[Callable[[bytes], object], tuple[tuple[int, ...], float]] = {
    validated: ((SMALL, 512 * KIB, times(2, 16) * MIB), 250),
    opened: ((SMALL, times(1, 16) * MIB), 10_000),
}
#: Of a measurement that is not the file's.
SLACK_SECONDS = 0.0002
#: Rounds where a limit is not kept, each of three readings of the small file and one of the others:
#: a machine that does other work slows some of them, growth slows all.
ROUNDS = 10


@pytest.mark.parametrize("make", [*SOUND, *SHARING])
@pytest.mark.parametrize("work", LIMITS)
def test_a_kib_takes_no_more_in_a_large_file(
    make: Callable[[int], bytes],
    work: Callable[[bytes], object],
    figure: Callable[[str], None],
) -> None:
    sizes, most = LIMITS[work]
    files = {size: make(size) for size in sizes}
    work(files[SMALL])  # imports
    slack = SLACK_SECONDS * 1e6 / SMALL * KIB
    took = dict.fromkeys(sizes, math.inf)

    def kept() -> bool:
        return max(took.values()) < most and took[sizes[-1]] < 4 * (took[SMALL] + slack)

    for _ in range(ROUNDS):
        for size in (SMALL, SMALL, *sizes):
            data = files[size]
            took[size] = min(took[size], seconds(work, data) * 1e6 / len(data) * KIB)
        if kept():
            break
    if work is validated:
        figure(
            f"microseconds a KiB, {make.__name__}: "
            + ", ".join(f"{micro:.1f} of {size // KIB} KiB" for size, micro in took.items())
        )
    assert kept(), f"microseconds a KiB, at most {most}: {took}"


def test_as_many_devices_as_the_file_likes_are_refused() -> None:
    """Each would be simulated: a thread and scratchpads for 72 bytes."""
    with device.open() as dev, pytest.raises(DeviceError, match="more than 16"):
        dev.load(further_vtas(16 * KIB, same=False))
