# SPDX-License-Identifier: Apache-2.0
"""The parts of `loadstone vectors` and `loadstone replay` for accelerators that plug-ins describe.

In:   the words of the command line, a model, text or bytes of an accelerator's instructions.
Out:  its programs; vectors as files, also in the form that $readmemh reads.
Next: vectors.py and replay.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import Registry, described_accelerator
from loadstone.errors import AssemblerError, EncodingError, LoadstoneError
from loadstone.files import JsonObject, read_whole, write_whole
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import At, TableInsn, encode
from loadstone.isa.text import assemble
from loadstone.runtime.accelerators import accelerators_of
from loadstone.simulator.table_vectors import TableVector, VectorProgram, table_programs
from loadstone.simulator.vector_files import file_stem, gathered, hex_text

__all__ = [
    "FIRST",
    "accelerator_of_index",
    "accelerator_of_model",
    "assembled",
    "memory_image",
    "programs_of_model",
    "stream_program",
    "table_bytes",
    "write_hex",
]

Made = TypeVar("Made")

#: The default bus address of the first byte of memory.
FIRST = 0x1000
#: Bytes of the address space that stay free after an image, for a program.
_BEHIND = 1 << 30


def memory_image(text: str | None) -> tuple[NDArray[np.uint8], int]:
    """FILE[@ADDRESS] as bytes, (bytes,), and their bus address."""
    if text is None:
        return np.zeros(0, np.uint8), FIRST
    found = re.fullmatch(r"(.+)@(0x[0-9a-fA-F]+|[0-9]+)", text)
    name, address = found.groups() if found else (text, f"{FIRST:#x}")
    image = np.frombuffer(read_whole(name), np.uint8).copy()
    if len(address) <= 20:  # digits of 2^64
        base = int(address, 16 if address.startswith("0x") else 10)
        if base <= (1 << 64) - _BEHIND - image.size:
            return image, base
    raise LoadstoneError(
        f"--memory {text}: an image of {image.size} bytes must end 1 GiB below 2^64, or sooner"
    )


def accelerator_of_index(plugins: Registry, device: JsonObject, text: str | None) -> Accelerator:
    """The accelerator that --device names, otherwise that of an index. Raises LoadstoneError."""
    if text is None:
        said = device.get("attributes", {})
        pairs = said.items() if isinstance(said, dict) else ()
        text = " ".join([str(device.get("accelerator")), *(f"-{k}={v}" for k, v in pairs)])
    found = described_accelerator(plugins, text)
    if found is None:
        name = text.split(" ")[0]
        raise LoadstoneError(
            f"vectors of accelerator {name!r}, which no plug-in describes: name its folder with "
            "--uma-backends"
        )
    return found


def accelerator_of_model(
    artifact: Artifact, chosen: str | None, plugins: Registry
) -> Accelerator | None:
    """The accelerator whose programs of a model are meant; None for VTA's. Raises LoadstoneError
    where this is ambiguous."""
    names = [artifact.devices[number].name for number in artifact.further]
    own = [artifact.device] * bool(artifact.programs_of(0))
    wanted = chosen.split(" ")[0] if chosen else None
    if wanted in names:
        return next(one for one in accelerators_of(artifact).values() if one.name == wanted)
    if wanted is not None and described_accelerator(plugins, str(chosen)) is not None:
        has = ", ".join([*names, *own])
        raise LoadstoneError(f"model {artifact.name!r} has no program of {wanted}; it has {has}")
    if wanted is not None or not names:
        return None
    if len(names) + len(own) > 1:
        has = ", ".join([*names, *own])
        raise LoadstoneError(
            f"model {artifact.name!r} has programs of several devices ({has}), and a folder of "
            "vectors is for one: choose with --device"
        )
    return next(iter(accelerators_of(artifact).values()))


def programs_of_model(artifact: Artifact, own: Accelerator, seed: int) -> list[VectorProgram]:
    """Each program that a model has for an accelerator."""
    return list(table_programs(artifact, own, seed))


def table_bytes(accelerator: Accelerator, text: str) -> bytes:
    """The instructions of a text. Raises AssemblerError for an address that is not a number,
    because only an artifact defines the places of its regions."""
    insns: Sequence[TableInsn] = assemble(accelerator.table, text)
    for number, insn in enumerate(insns):
        for name, value in insn.fields.items():
            if isinstance(value, At):
                raise AssemblerError(
                    f"instruction {number}, {insn.name}: {name}=@{value.symbol} has no address "
                    "here: give a number"
                )
    return encode(accelerator.table, insns)


def assembled(source: Path, assemble_text: Callable[[str], Made]) -> Made:
    """The instructions in a text file. Raises AssemblerError that names the file."""
    data = read_whole(source)
    try:
        return assemble_text(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        at = f"byte {error.start} is 0x{data[error.start]:02X}"
        raise AssemblerError(f"{source}: is no UTF-8 text: {at}") from None
    except AssemblerError as error:
        raise AssemblerError(f"{source}, {error}") from None


def stream_program(source: Path, accelerator: Accelerator, memory: str | None) -> VectorProgram:
    """A program of text (.txt, .asm) or bytes (.bin)."""
    if source.suffix == ".bin":
        data = read_whole(source)
    else:
        data = assembled(source, lambda text: table_bytes(accelerator, text))
    if not data:
        raise EncodingError(f"{source}: holds no instruction")
    image, base = memory_image(memory)
    return VectorProgram(source.stem, accelerator, np.frombuffer(data, np.uint8), base, image)


def write_hex(folder: Path, vectors: Sequence[TableVector]) -> None:
    """NAME.before.hex: memory and program; NAME.after.hex: the written bytes."""
    for v in vectors:
        p, offsets = v.program, v.out_regions.tolist()
        before = [(p.dram_base, p.dram_in.tobytes()), (p.code_base, p.code.tobytes())]
        after = [
            (p.dram_base + at, gathered(v.dram_out(), np.array([[at, size]])).tobytes())
            for at, size in offsets
        ]
        name = file_stem(p.name)
        write_whole(folder / f"{name}.before.hex", hex_text(before))
        write_whole(folder / f"{name}.after.hex", hex_text(after))
