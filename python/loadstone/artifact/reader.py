# SPDX-License-Identifier: Apache-2.0
"""The bytes of a file as a compiled model.

In:   bytes from anywhere.
Out:  the content, or an ArtifactError that names the rule of runtime/FORMAT.md that is broken.
Next: format.py checks the content against the rules that need all of it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TypeVar

from loadstone.artifact.content import ArtifactContent, ModelEntry
from loadstone.artifact.file_layout import (
    DEVICE,
    ENTRIES_SINCE,
    ENTRY_BYTES,
    ENTRY_WORDS,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    OLDEST,
    REGION,
    SECTIONS,
    STEP,
    TENSOR,
    VERSION,
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
from loadstone.artifact.program_step import PROGRAM_STEP, program_of
from loadstone.backend.device import ProgramDevice, ProgramStep

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
            version,
            size,
            crc,
            self.samples,
            self.name,
            self.entry_count,
            self.first_steps,
        ) = HEADER.unpack_from(data)
        require(magic == MAGIC, "R1", f"it begins with {magic!r}, not {MAGIC!r}")
        age = "newer" if version > VERSION else "older"
        require(
            OLDEST <= version <= VERSION,
            "R2",
            f"its format, version {version}, is {age} than what this loadstone reads, "
            f"{VERSION}: compile it again",
        )
        require(size == len(data), "R3", f"the header says {size} bytes, the file has {len(data)}")
        require(
            crc == zlib.crc32(memoryview(self.data)[16:]),
            "R4",
            "the checksum does not fit the content: the file is damaged",
        )
        self.has_entries = version == ENTRIES_SINCE or (
            version > ENTRIES_SINCE and self.entry_count > 0
        )
        require(
            self.has_entries or not (self.entry_count or self.first_steps),
            "R13",
            "a reserved word of the header is not 0",
        )
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
        self._texts: dict[int, str] = {}
        self._words_behind = self._code_behind = 0  # where the next step's may begin

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
            kind <= max(RegionKind) and flags <= 3,
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
            dtype <= max(DataType) and layout <= max(ViewLayout) and rank <= MAX_RANK,
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

    def device(self, fields: tuple[int, int, bytes]) -> ProgramDevice:
        """The device of an entry."""
        name, attributes, fingerprint = fields
        return ProgramDevice(self.string(name), fingerprint, self.string(attributes))

    def step(
        self, operator: int, inputs: int, outputs: int, first: int, count: int, name: int
    ) -> ProgramStep | HostStep:
        """The step of an entry."""
        words = self._words(first, count, name)
        if operator != PROGRAM_STEP:
            return self._host_step(operator, inputs, outputs, words, name)
        require(not inputs + outputs, "R18", f"program {self.string(name)!r} names tensors")
        code = self.section["code"]
        program, self._code_behind = program_of(
            self.string(name), words, code, self._code_behind, self.string
        )
        return program

    def _words(self, first: int, count: int, name: int) -> list[int]:
        """Steps share none, so that what is read for each is read once."""
        require(
            first + count <= len(self.words),
            "R18",
            f"step {name}: {count} words at {first} leave the {len(self.words)} there are",
        )
        require(
            first >= self._words_behind,
            "R18",
            f"the words of a step begin at {first}, before the end of another's, "
            f"{self._words_behind}",
        )
        self._words_behind = first + count
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

    def entries(self) -> tuple[ModelEntry, ...]:
        """The table of entries, behind the words of all steps, which were read before."""
        if not self.has_entries:
            return ()
        first = len(self.words) - ENTRY_WORDS * self.entry_count
        require(
            self.entry_count > 0 and first >= self._words_behind,
            "R24",
            f"{self.entry_count} entries do not stand behind the words of the steps",
        )
        records = range(first, len(self.words), ENTRY_WORDS)
        table = [self.words[at : at + ENTRY_WORDS] for at in records]
        require(
            self.first_steps == table[0][1],
            "R24",
            f"the first entry has {table[0][1]} steps, the header says {self.first_steps}",
        )
        return tuple(ModelEntry(self.string(name), *parts) for name, *parts in table)

    def content(self, kind: type[Content]) -> Content:
        """All of the file, as an object of `kind`."""

        def rows(layout: struct.Struct, name: str) -> list[tuple[int, ...]]:
            return list(layout.iter_unpack(self.section[name]))

        inputs, outputs = (
            [w for (w,) in WORD.iter_unpack(self.section[n])] for n in ("inputs", "outputs")
        )
        steps = tuple(self.step(*r) for r in rows(STEP, "steps"))
        return kind(
            name=self.string(self.name),
            devices=tuple(map(self.device, DEVICE.iter_unpack(self.section["devices"]))),
            samples=self.samples,
            regions=tuple(self.region(r) for r in rows(REGION, "regions")),
            tensors=tuple(self.tensor(r) for r in rows(TENSOR, "tensors")),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            steps=steps,
            entries=self.entries(),
        )
