# SPDX-License-Identifier: Apache-2.0
"""A program of another device than VTA in an artifact, and when it is sound.

In:   code as a tensor of bytes, what of it are addresses, whose program it is.
Out:  ProgramStep, which checks itself (rule R23 of runtime/FORMAT.md) and has the words of its
      record.
Next: writer.py and reader.py; runtime/program.c reads the same words in place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loadstone.artifact.file_layout import require
from loadstone.artifact.memory_plan import BufferView, DataType, MemoryRegion, RegionKind
from loadstone.backend.device import (
    FINGERPRINT_BYTES,
    INSN_BYTES,
    LayerRange,
    ProgramDevice,
    Relocation,
)

__all__ = ["PROGRAM_STEP", "ProgramStep"]

#: The operator of such a step.
PROGRAM_STEP = 254
_HEAD_WORDS, _RELOCATION_WORDS, _LAYER_WORDS = 14, 5, 3
_MAX_SHIFT = 16
CODE_ALIGN_BYTES = 64
_BESIDE = 1 << 31  # of the word that counts relocations


@dataclass(frozen=True)
class ProgramStep:
    """One program of `device`. attributes: how that is configured, as JSON. code: index of the
    tensor that holds the instructions, in a region that no device sees. layers: its source map.
    beside: it may start while the programs directly before it work."""

    name: str
    device: str
    attributes: str
    fingerprint: bytes
    code: int
    instructions: int
    relocations: tuple[Relocation, ...] = ()
    layers: tuple[LayerRange, ...] = ()
    beside: bool = False

    def __len__(self) -> int:
        return self.instructions

    @property
    def program_device(self) -> ProgramDevice:
        """Whose it is."""
        return ProgramDevice(self.device, self.attributes, self.fingerprint)

    @property
    def is_vta(self) -> bool:
        """Whether its device is a further VTA."""
        return self.program_device.is_vta

    def check(self, tensors: Sequence[BufferView], regions: Sequence[MemoryRegion]) -> None:
        """Raises ArtifactError naming the step and what is wrong."""
        # of plug-ins' programs alone: other artifacts are read without their tables
        from loadstone.isa.table import MAX_INSN_BYTES

        def sound(is_so: bool, text: str) -> None:
            require(is_so, "R23", f"program {self.name!r} of {self.device!r}: {text}")

        sound(len(self.fingerprint) == FINGERPRINT_BYTES, "its fingerprint has not 32 bytes")
        sound(self.instructions >= 1, "it has no instruction")
        sound(self.code < len(tensors), f"tensor {self.code} is beyond the {len(tensors)}")
        code = tensors[self.code]
        region = regions[code.region]
        plain = code.dtype == DataType.UINT8 and len(code.shape) == 1
        hidden = region.kind == RegionKind.CONSTANTS and not region.on_device
        sound(plain and hidden, "its code is no tensor of bytes in constants of the host alone")
        aligned = code.offset_bytes % CODE_ALIGN_BYTES == 0
        sound(aligned, f"its code begins at no multiple of {CODE_ALIGN_BYTES} bytes")
        if self.is_vta:
            sound(self.fingerprint[0] == 1, "its fingerprint is not of version 1")
            whole = INSN_BYTES * self.instructions == code.size_bytes
            sound(whole and not self.relocations, "a VTA has 16 bytes an instruction, no addresses")
        last = 0
        for r in self.relocations:
            place = 8 * r.offset_bytes + r.bit
            inside = place + r.width <= 8 * code.size_bytes and place >= last
            inside &= 1 <= r.width <= 64 and r.bit + r.width <= 8 * MAX_INSN_BYTES
            sound(
                inside and 0 <= r.shift <= _MAX_SHIFT, f"a relocation at bit {place} has no place"
            )
            known = r.region < len(regions) and regions[r.region].on_device
            sound(
                known and 0 <= r.addend_bytes <= regions[r.region].size_bytes,
                f"a relocation names byte {r.addend_bytes} of region {r.region}",
            )
            last = place + r.width
        last = 0
        for layer in self.layers:
            sound(
                last <= layer.first <= layer.first + layer.count <= self.instructions,
                f"layer {layer.name!r} leaves the {self.instructions} instructions, or begins in "
                "another",
            )
            last = layer.first + layer.count

    def words(self, string: Callable[[str], int]) -> list[int]:
        """The record. string: the offset of a text."""
        head = [string(self.device), string(self.attributes)]
        head += struct.unpack("<8I", self.fingerprint)
        counts = [len(self.relocations) | self.beside * _BESIDE, len(self.layers)]
        words = [*head, self.code, self.instructions, *counts]
        for r in self.relocations:
            words += [r.offset_bytes, r.bit | r.width << 16, r.shift, r.region, r.addend_bytes]
        for layer in self.layers:
            words += [layer.first, layer.count, string(layer.name)]
        return words

    @staticmethod
    def of(name: str, words: Sequence[int], string: Callable[[int], str]) -> ProgramStep:
        """From a record. string: the text at an offset. Raises ArtifactError."""
        require(len(words) >= _HEAD_WORDS, "R23", f"program {name!r} has {len(words)} words")
        code, instructions, relocations, layers = words[10:_HEAD_WORDS]
        beside, relocations = relocations >= _BESIDE, relocations % _BESIDE
        wanted = _HEAD_WORDS + _RELOCATION_WORDS * relocations + _LAYER_WORDS * layers
        require(len(words) == wanted, "R23", f"program {name!r} has {len(words)} words")
        begin = _HEAD_WORDS + _RELOCATION_WORDS * relocations
        places = [words[k : k + 5] for k in range(_HEAD_WORDS, begin, _RELOCATION_WORDS)]
        ranges = [words[k : k + 3] for k in range(begin, wanted, _LAYER_WORDS)]
        return ProgramStep(
            name,
            string(words[0]),
            string(words[1]),
            struct.pack("<8I", *words[2:10]),
            code,
            instructions,
            tuple(Relocation(w[0], w[1] & 0xFFFF, w[1] >> 16, *w[2:]) for w in places),
            tuple(LayerRange(string(text), first, count) for first, count, text in ranges),
            beside,
        )
