# SPDX-License-Identifier: Apache-2.0
"""The programs of an artifact: when they are sound, and what the file keeps of each.

In:   steps that are programs; the devices and regions of their artifact.
Out:  check_program (rules R18, R22 and R23 of runtime/FORMAT.md); a program's record in the words,
      and the program of a record.
Next: writer.py and reader.py; runtime/program.c reads the same words in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadstone.artifact.file_layout import CODE_ALIGN_BYTES, require
from loadstone.artifact.memory_plan import MemoryRegion
from loadstone.backend.device import (
    INSN_BYTES,
    LayerRange,
    ProgramDevice,
    ProgramStep,
    Relocation,
)

__all__ = ["PROGRAM_STEP", "check_program", "program_of", "record_of"]

#: The operator of such a step.
PROGRAM_STEP = 0
_HEAD_WORDS, _RELOCATION_WORDS, _LAYER_WORDS = 6, 5, 3
_MAX_SHIFT = 16
_BESIDE = 1 << 31  # of the word that counts relocations


def check_program(
    step: ProgramStep, devices: Sequence[ProgramDevice], regions: Sequence[MemoryRegion]
) -> None:
    """Raises ArtifactError naming the step and what is wrong."""
    require(
        0 <= step.device < len(devices),
        "R18",
        f"program {step.name!r} is for device {step.device} of {len(devices)}",
    )
    device = devices[step.device]
    require(
        len(step) >= 1 and len(step.instructions) >= 1,
        "R18",
        f"program {step.name!r} of {device.name!r} has no instruction",
    )
    if device.has_configuration:
        require(
            len(step.instructions) == INSN_BYTES * len(step) and not step.relocations,
            "R18",
            f"program {step.name!r} of {device.name!r}: a VTA has {INSN_BYTES} bytes an "
            f"instruction, no relocations; there are {len(step.instructions)} bytes for "
            f"{len(step)}, and {len(step.relocations)}",
        )
    _check_relocations(step, regions)
    last = 0
    for layer in step.layers:
        require(
            last <= layer.first <= layer.first + layer.count <= len(step),
            "R22",
            f"layer {layer.name!r} leaves the {len(step)} instructions of {step.name!r}, or "
            "begins in another",
        )
        last = layer.first + layer.count


def _check_relocations(step: ProgramStep, regions: Sequence[MemoryRegion]) -> None:
    # of plug-ins' programs alone: other artifacts are read without their tables
    from loadstone.isa.table import MAX_INSN_BYTES

    last = 0
    for r in step.relocations:
        place = 8 * r.offset_bytes + r.bit
        inside = place + r.width <= 8 * len(step.instructions) and place >= last
        inside &= 1 <= r.width <= 64 and r.bit + r.width <= 8 * MAX_INSN_BYTES
        require(
            inside and 0 <= r.shift <= _MAX_SHIFT,
            "R23",
            f"program {step.name!r}: a relocation at bit {place} has no place",
        )
        known = r.region < len(regions) and regions[r.region].on_device
        require(
            known and 0 <= r.addend_bytes <= regions[r.region].size_bytes,
            "R23",
            f"program {step.name!r}: a relocation names byte {r.addend_bytes} of region {r.region}",
        )
        last = place + r.width


def record_of(step: ProgramStep, code_offset: int, string: Callable[[str], int]) -> list[int]:
    """The record of a program whose instructions stand at byte `code_offset` of section code.
    string: the offset of a text."""
    counts = [len(step.relocations) | step.beside * _BESIDE, len(step.layers)]
    words = [step.device, code_offset, len(step.instructions), len(step), *counts]
    for r in step.relocations:
        words += [r.offset_bytes, r.bit | r.width << 16, r.shift, r.region, r.addend_bytes]
    for layer in step.layers:
        words += [layer.first, layer.count, string(layer.name)]
    return words


def program_of(
    name: str, words: Sequence[int], code: bytes, behind: int, string: Callable[[int], str]
) -> tuple[ProgramStep, int]:
    """The program of a record, and the end of its instructions in `code`, the section. behind: the
    end of those of the program before. string: the text at an offset. Raises ArtifactError."""
    require(len(words) >= _HEAD_WORDS, "R18", f"program {name!r} has {len(words)} words")
    device, offset, size, instructions, relocations, layers = words[:_HEAD_WORDS]
    beside, relocations = relocations >= _BESIDE, relocations % _BESIDE
    wanted = _HEAD_WORDS + _RELOCATION_WORDS * relocations + _LAYER_WORDS * layers
    require(len(words) == wanted, "R18", f"program {name!r} has {len(words)} words")
    require(
        offset % CODE_ALIGN_BYTES == 0 and behind <= offset <= offset + size <= len(code),
        "R18",
        f"program {name!r}: its {size} bytes at {offset} of the {len(code)} of code leave them, or "
        f"begin at no multiple of {CODE_ALIGN_BYTES} behind {behind}",
    )
    begin = _HEAD_WORDS + _RELOCATION_WORDS * relocations
    places = [words[k : k + 5] for k in range(_HEAD_WORDS, begin, _RELOCATION_WORDS)]
    ranges = [words[k : k + 3] for k in range(begin, wanted, _LAYER_WORDS)]
    step = ProgramStep(
        name,
        code[offset : offset + size],
        tuple(LayerRange(string(text), first, count) for first, count, text in ranges),
        device,
        instructions,
        tuple(Relocation(w[0], w[1] & 0xFFFF, w[1] >> 16, *w[2:]) for w in places),
        beside,
    )
    return step, offset + size
