# SPDX-License-Identifier: Apache-2.0
"""What the tests of the validator share: a small program to change, and both validators' word on
it.

In:   sample_model.py; ../shared/vta_rtl.
Out:  artifacts with changed programs; (status, instruction) on which C and Python agree.
Next: tests/vta/validator/test_validate.py, tests/vta/validator/test_validate_mutants.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact, MemoryRegion, ProgramStep, RegionKind
from loadstone.backend.device import ProgramDevice
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import Insn, decode_stream, encode_stream
from loadstone.vta.isa.spec import INSTRUCTIONS, Capability, Memory, Opcode, layout
from tests.programs import Program as RandomProgram
from tests.sample_model import dense_model
from tests.vta.validator.validate import STATUS, validate

CONFIG = load_config("vtaq-1x16x16")
Program = list[Insn]


def with_program(model: Artifact, instructions: bytes) -> Artifact:
    """The model with another program in place of its own."""
    steps = tuple(
        ProgramStep(s.name, instructions) if isinstance(s, ProgramStep) else s for s in model.steps
    )
    return dataclasses.replace(model, steps=steps)


def both(model: Artifact) -> tuple[int, int]:
    """(status, instruction) of the C validator, after checking that the Python one agrees."""
    status, _, instruction = device.validate(model)
    refusal = validate(model)
    python = (refusal.status, refusal.instruction) if refusal else (0, 0)
    assert (status, instruction if status else 0) == python, (
        f"C says {status} at {instruction}, Python {refusal}"
    )
    return python


def changed(change: Callable[[Program], object], model: Artifact | None = None) -> tuple[str, int]:
    """Status and instruction after a change to the program of the matrix product."""
    model = model or dense_model(CONFIG).artifact
    program = list(decode_stream(model.programs[0].instructions, CONFIG))
    change(program)
    status, instruction = both(with_program(model, encode_stream(program, CONFIG).tobytes()))
    return {code: name for name, code in STATUS.items()}.get(status, "OK"), instruction


def replace(at: int, **fields: int) -> Callable[[Program], None]:
    def change(program: Program) -> None:
        program[at] = dataclasses.replace(program[at], **fields)  # type: ignore[type-var]

    return change


#: Instructions of dense_model.
(
    LOAD_INP,
    LOAD_WGT,
    LOAD_UOP,
    RESET,
    GEMM,
    LOAD_ACC,
    CONFIG_ZP,
    CONFIG_MIN,
    CONFIG_MAX,
    RQ,
    STORE,
    FINISH,
) = range(12)


def poke(raw: bytearray, at: int, opcode: Opcode, field: str, value: int) -> None:
    """Sets a field without asking whether the value is known."""
    spec = next(i for i in INSTRUCTIONS if i.opcode == opcode)
    place = layout(spec.fields, CONFIG.widths)[field]
    word = int.from_bytes(raw[16 * at : 16 * at + 16], "little")
    mask = (1 << place.width) - 1 << place.start
    raw[16 * at : 16 * at + 16] = (word & ~mask | value << place.start & mask).to_bytes(
        16, "little"
    )


def vector_model(path: Path, capabilities: Capability) -> Artifact:
    """A vector measured on VTA's RTL as an artifact: micro-ops from a constant copy of the image,
    all else from the image."""
    config = dataclasses.replace(load_config("vta-pynq"), capabilities=capabilities)
    with np.load(path) as file:
        image = bytes(int(file["dram_base"])) + file["dram_in"].tobytes()
        stream = decode_stream(file["insns"].reshape(-1), config)
    loads = stream.columns[Opcode.LOAD]
    loads["region"][:] = (loads["memory_id"] == Memory.UOP) & (loads["x_size"] > 0)
    image = image.ljust(-(-len(image) // 64) * 64, b"\0")
    return Artifact(
        name=path.stem,
        devices=(ProgramDevice.of(config),),
        samples=1,
        regions=_image_and_micro_ops(image),
        tensors=(),
        inputs=(),
        outputs=(),
        steps=(ProgramStep(path.stem, encode_stream(stream, config).tobytes()),),
    )


def random_model(program: RandomProgram) -> Artifact:
    """A random program of a device with regions as an artifact: micro-ops from a constant copy of
    its memory, all else from region 0."""
    image = program.memory.tobytes()
    image = image.ljust(-(-len(image) // 64) * 64, b"\0")
    stream = decode_stream(program.insns, program.config)
    loads = stream.columns[Opcode.LOAD]
    loads["region"][:] = (loads["memory_id"] == Memory.UOP) & (loads["x_size"] > 0)
    code = encode_stream(stream, program.config).tobytes()
    return Artifact(
        name="random",
        devices=(ProgramDevice.of(program.config),),
        samples=1,
        regions=_image_and_micro_ops(image),
        tensors=(),
        inputs=(),
        outputs=(),
        steps=(ProgramStep("random", code),),
    )


def _image_and_micro_ops(image: bytes) -> tuple[MemoryRegion, MemoryRegion]:
    return (
        MemoryRegion(
            "image", RegionKind.ARENA, len(image), 4096, device_reads=True, device_writes=True
        ),
        MemoryRegion(
            "micro-ops", RegionKind.CONSTANTS, len(image), 4096, device_reads=True, data=image
        ),
    )
