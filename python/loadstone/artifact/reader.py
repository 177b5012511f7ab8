# SPDX-License-Identifier: Apache-2.0
"""The bytes of a file as a compiled model.

In:   bytes from anywhere.
Out:  the content, or an ArtifactError that names the rule of runtime/FORMAT.md that is broken.
Next: format.py checks the content against the rules that need all of it.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import TypeVar

from loadstone.artifact.content import ArtifactContent
from loadstone.artifact.file_layout import (
    ENTRY_BYTES,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    OLDEST,
    RANGE,
    REGION,
    SECTIONS,
    STEP,
    TENSOR,
    VERSION,
    WITH_PROGRAMS,
    WITH_TYPES,
    WORD,
    require,
)
from loadstone.artifact.host_step import OPERATORS, HostOpcode, HostStep
from loadstone.artifact.memory_plan import (
    MAX_RANK,
    BufferView,
    DataType,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.program_step import PROGRAM_STEP, ProgramStep
from loadstone.backend.device import INSN_BYTES, DeviceProgram, LayerRange

__all__ = ["ArtifactReader"]

Content = TypeVar("Content", bound=ArtifactContent)


class ArtifactReader:
    """Takes a file apart; everything is bounds-checked here or in ArtifactContent.check."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)
        require(
            len(data) >= HEADER_BYTES,
            "R3",
            f"{len(data)} bytes are fewer than a header's {HEADER_BYTES}",
        )
        (
            magic,
            self.version,
            size,
            crc,
            self.fingerprint,
            config_hash,
            self.samples,
            self.name,
            self.device,
            zero,
        ) = HEADER.unpack_from(data)
        require(magic == MAGIC, "R1", f"it begins with {magic!r}, not {MAGIC!r}")
        age = "newer" if self.version > VERSION else "older"
        require(
            OLDEST <= self.version <= VERSION,
            "R2",
            f"its format, version {self.version}, is {age} than what this loadstone reads, "
            f"{OLDEST} to {VERSION}: compile it again",
        )
        self.kinds = max(RegionKind) if self.version >= WITH_PROGRAMS else RegionKind.HOST
        self.types = max(DataType) if self.version >= WITH_TYPES else DataType.BFLOAT16
        require(size == len(data), "R3", f"the header says {size} bytes, the file has {len(data)}")
        require(
            crc == zlib.crc32(self.data[16:]),
            "R4",
            "the checksum does not fit the content: the file is damaged",
        )
        require(
            config_hash == zlib.crc32(self.fingerprint),
            "R5",
            f"config_hash {config_hash:#010x} is not that of the fingerprint",
        )
        require(zero == 0, "R13", "the reserved word of the header is not 0")
        places = struct.unpack_from(f"<{2 * len(SECTIONS)}I", data, HEADER.size)
        self.section = {
            n: self._slice(n, *places[2 * i : 2 * i + 2]) for i, n in enumerate(SECTIONS)
        }
        strings = self.section["strings"]
        require(
            bool(strings) and strings[0] == 0 == strings[-1],
            "R9",
            "the strings do not begin and end with a zero byte",
        )
        self.words = [w for (w,) in WORD.iter_unpack(self.section["words"])]
        self.ranges: list[tuple[int, int, int]] = []
        self.ends: list[int] = []  # of the ranges
        self._texts: dict[int, str] = {}
        self._behind = {"words": 0, "instructions": 0}  # where the next step's may begin

    def _slice(self, name: str, offset: int, size: int) -> bytes:
        inside = offset % 16 == 0 and offset >= HEADER_BYTES and offset + size <= len(self.data)
        require(
            inside,
            "R7",
            f"section {name} at {offset} with {size} bytes is not aligned or leaves the file",
        )
        require(
            size % ENTRY_BYTES[name] == 0,
            "R8",
            f"section {name} has {size} bytes, no multiple of {ENTRY_BYTES[name]}",
        )
        return self.data[offset : offset + size]

    def string(self, offset: int) -> str:
        """The text at an offset of the strings; each is looked for once."""
        if offset not in self._texts:
            strings = self.section["strings"]
            require(
                offset < len(strings),
                "R9",
                f"string {offset} leaves the {len(strings)} bytes of strings",
            )
            begins = offset == 0 or strings[offset - 1] == 0
            require(begins, "R9", f"string {offset} begins within another")
            text = strings[offset : strings.index(b"\0", offset)]
            self._texts[offset] = text.decode("utf-8", "replace")
        return self._texts[offset]

    def region(self, fields: tuple[int, ...]) -> MemoryRegion:
        """The region of an entry."""
        kind, flags, size, align, offset, data_size, name, zero = fields
        data = self.section["data"]
        require(zero == 0, "R13", "a reserved word of a region is not 0")
        require(
            kind <= self.kinds and flags <= 3,
            "R10",
            f"region kind {kind} or flags {flags} are unknown",
        )
        require(
            offset + data_size <= len(data),
            "R12",
            f"{data_size} bytes at {offset} leave the {len(data)} bytes of data",
        )
        content = data[offset : offset + data_size]
        return MemoryRegion(
            self.string(name),
            RegionKind(kind),
            size,
            align,
            bool(flags & 1),
            bool(flags & 2),
            content,
        )

    def tensor(self, fields: Sequence[float]) -> BufferView:
        """The tensor of an entry."""
        ints = [int(f) if i != 7 else 0 for i, f in enumerate(fields)]
        name, dtype, rank, region, layout, offset, size = ints[:7]
        dims, blocks, reserved = ints[9 : 9 + MAX_RANK], ints[15:17], ints[17:]
        require(not any(reserved), "R13", "a reserved word of a tensor is not 0")
        require(
            dtype <= self.types and layout <= max(ViewLayout) and rank <= MAX_RANK,
            "R14",
            f"tensor {name}: type, layout or rank is unknown",
        )
        require(not any(dims[rank:]), "R16", f"tensor {name} has dims beyond its rank")
        kind, order = DataType(dtype), ViewLayout(layout)
        tensor = BufferView(
            self.string(name),
            tuple(dims[:rank]),
            kind,
            region,
            offset,
            float(fields[7]),
            ints[8],
            order,
            *blocks,
        )
        require(
            layout == ViewLayout.ROW_MAJOR or (rank == 4 and min(blocks) >= 1),
            "R16",
            f"blocked tensor {tensor.name!r} has no blocks",
        )
        require(
            size == tensor.size_bytes,
            "R15",
            f"tensor {tensor.name!r}: {size} bytes, but its shape says {tensor.size_bytes}",
        )
        return tensor

    def step(
        self, operator: int, inputs: int, outputs: int, first: int, count: int, name: int
    ) -> DeviceProgram | ProgramStep | HostStep:
        """The step of an entry."""
        if operator == 0:
            return self._device_program(first, count, name, inputs + outputs)
        if operator == PROGRAM_STEP:
            plain = self.version >= WITH_PROGRAMS and not inputs + outputs
            require(plain, "R23", "a program of another device in version 1, or with tensors")
            words = self._words(first, count, name)
            return ProgramStep.of(self.string(name), words, self.string)
        return self._host_step(operator, inputs, outputs, self._words(first, count, name), name)

    def _device_program(self, first: int, count: int, name: int, tensors: int) -> DeviceProgram:
        instructions = self.section["instructions"]
        inside = count >= 1 and INSN_BYTES * (first + count) <= len(instructions) and not tensors
        require(
            inside,
            "R18",
            f"device program at {first} with {count} instructions leaves the stream, or "
            "names tensors",
        )
        self._take("instructions", first, count)
        # a slice: what stands before it is not walked over
        begin = bisect_right(self.ends, first)
        end = bisect_left(self.ranges, first + count, key=itemgetter(0))
        layers = tuple(
            LayerRange(
                self.string(n), max(f, first) - first, min(f + c, first + count) - max(f, first)
            )
            for f, c, n in self.ranges[begin:end]
            if c
        )
        return DeviceProgram(
            self.string(name),
            instructions[INSN_BYTES * first : INSN_BYTES * (first + count)],
            layers,
        )

    def _take(self, what: str, first: int, count: int) -> None:
        """Steps share nothing, so that what is read for each is read once."""
        behind = self._behind[what]
        require(
            first >= behind,
            "R18",
            f"{what} of a step begin at {first}, before the end of another's, {behind}",
        )
        self._behind[what] = first + count

    def _words(self, first: int, count: int, name: int) -> list[int]:
        require(
            first + count <= len(self.words),
            "R18",
            f"step {name}: {count} words at {first} leave the {len(self.words)} there are",
        )
        self._take("words", first, count)
        return self.words[first : first + count]

    def _host_step(
        self, operator: int, inputs: int, outputs: int, words: list[int], name: int
    ) -> HostStep:
        require(
            operator in set(HostOpcode),
            "R19",
            f"step {self.string(name)!r}: operator {operator} is unknown",
        )
        kind = HostOpcode(operator)
        tensors, values = words[: inputs + outputs], words[inputs + outputs :]
        names = (
            OPERATORS[kind].parameters
            if kind != HostOpcode.EXTERNAL
            else ("function", "attributes")
        )
        require(
            len(words) == inputs + outputs + len(names),
            "R19",
            f"step {self.string(name)!r} has {len(words)} words",
        )
        texts = [self.string(v) for v in values] if kind == HostOpcode.EXTERNAL else ["", ""]
        parameters = (
            {}
            if kind == HostOpcode.EXTERNAL
            else {n: v - (v >> 31 << 32) for n, v in zip(names, values, strict=True)}
        )
        return HostStep(
            self.string(name),
            kind,
            tuple(tensors[:inputs]),
            tuple(tensors[inputs:]),
            parameters,
            *texts,
        )

    def source_map(self) -> None:
        """Reads the layers' ranges, which `step` gives to their programs."""
        total = len(self.section["instructions"]) // INSN_BYTES
        for first, count, name, zero in RANGE.iter_unpack(self.section["source_map"]):
            require(zero == 0, "R13", "a reserved word of the source map is not 0")
            require(
                first + count <= total,
                "R22",
                f"source map: {count} instructions at {first} leave the {total} there are",
            )
            self.string(name)
            behind = self.ends[-1] if self.ends else 0
            require(
                first >= behind, "R22", f"source map: {first} is in the range before, to {behind}"
            )
            self.ranges.append((first, count, name))
            self.ends.append(first + count)

    def content(self, kind: type[Content]) -> Content:
        """All of the file, as an object of `kind`."""
        self.source_map()

        def rows(layout: struct.Struct, name: str) -> list[tuple[int, ...]]:
            return list(layout.iter_unpack(self.section[name]))

        inputs, outputs = (
            [w for (w,) in WORD.iter_unpack(self.section[n])] for n in ("inputs", "outputs")
        )
        return kind(
            name=self.string(self.name),
            fingerprint=self.fingerprint,
            samples=self.samples,
            regions=tuple(self.region(r) for r in rows(REGION, "regions")),
            tensors=tuple(self.tensor(r) for r in rows(TENSOR, "tensors")),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            steps=tuple(self.step(*r) for r in rows(STEP, "steps")),
            device=self.string(self.device),
        )
