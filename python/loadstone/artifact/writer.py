# SPDX-License-Identifier: Apache-2.0
"""A compiled model as the bytes of its file.

In:   a sound ArtifactContent.
Out:  the file of runtime/FORMAT.md.
Next: format.py saves it; runtime/model.c reads the same bytes in place.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from loadstone.artifact.content import ArtifactContent
from loadstone.artifact.file_layout import (
    CODE_ALIGN_BYTES,
    DEVICE,
    ENTRIES_SINCE,
    HEADER_BYTES,
    MAGIC,
    MAX_DATA_ALIGN,
    OLDEST,
    REGION,
    SECTION_ALIGN,
    SECTIONS,
    STEP,
    TENSOR,
    align,
)
from loadstone.artifact.host_step import HostOpcode, HostStep
from loadstone.artifact.memory_plan import MAX_RANK, BufferView, MemoryRegion, ViewLayout
from loadstone.artifact.program_step import PROGRAM_STEP, record_of
from loadstone.backend.device import ProgramDevice, ProgramStep
from loadstone.errors import ArtifactError

__all__ = ["ArtifactWriter"]

#: The first versions with operators on rows, and with rows of a blocked tensor.
_ROWS_SINCE, _BLOCKED_ROWS_SINCE = 6, 8


class ArtifactWriter:
    """Collects sections, then lays them out."""

    def __init__(self, artifact: ArtifactContent) -> None:
        self.artifact = artifact
        self.strings = bytearray(b"\0")
        self.known = {"": 0}
        self.words: list[int] = []
        self.data: list[bytes] = []  # pieces: a model's weights are copied once
        self.data_bytes = 0
        self.code = bytearray()

    def string(self, text: str) -> int:
        """Offset of a text in the strings; each is kept once."""
        if "\0" in text:
            raise ArtifactError(f"name {text!r} holds a zero byte")
        if text not in self.known:
            self.known[text] = len(self.strings)
            self.strings += text.encode() + b"\0"
        return self.known[text]

    def region(self, region: MemoryRegion) -> bytes:
        """Entry of a region; its data goes to section data."""
        flags = region.device_reads | region.device_writes << 1
        offset = align(self.data_bytes, region.align_bytes) if region.data else 0
        if region.data:
            self.data += [bytes(offset - self.data_bytes), region.data]
            self.data_bytes = offset + len(region.data)
        kind, name = int(region.kind), self.string(region.name)
        return REGION.pack(
            kind, flags, region.size_bytes, region.align_bytes, offset, len(region.data), name, 0
        )

    def tensor(self, t: BufferView) -> bytes:
        """Entry of a tensor."""
        dims = (*t.shape, *(0,) * (MAX_RANK - len(t.shape)))
        head = (
            self.string(t.name),
            t.dtype,
            len(t.shape),
            t.region,
            t.layout,
            t.offset_bytes,
            t.size_bytes,
            t.scale,
            t.zero_point,
        )
        return TENSOR.pack(*head, *dims, t.batch_block, t.channel_block, 0, 0, 0)

    def device(self, device: ProgramDevice) -> bytes:
        """Entry of a device."""
        texts = self.string(device.name), self.string(device.attributes)
        return DEVICE.pack(*texts, device.fingerprint)

    def step(self, step: ProgramStep | HostStep) -> bytes:
        """Entry of a step; its code and words go to their sections."""
        if isinstance(step, ProgramStep):
            self.code += bytes(align(len(self.code), CODE_ALIGN_BYTES) - len(self.code))
            first, record = len(self.words), record_of(step, len(self.code), self.string)
            self.words += record
            self.code += step.instructions
            return STEP.pack(PROGRAM_STEP, 0, 0, first, len(record), self.string(step.name))
        words = [*step.inputs, *step.outputs, *step.parameters.values()]
        if step.opcode == HostOpcode.EXTERNAL:
            words += [self.string(step.function), self.string(step.attributes)]
        first = len(self.words)
        self.words += [w & 0xFFFFFFFF for w in words]
        return STEP.pack(
            step.opcode,
            len(step.inputs),
            len(step.outputs),
            first,
            len(words),
            self.string(step.name),
        )

    def file(self) -> bytes:
        """The whole file."""
        a = self.artifact
        name = self.string(a.name)
        regions = b"".join(map(self.region, a.regions))
        tensors = b"".join(map(self.tensor, a.tensors))
        steps = b"".join(map(self.step, a.steps))
        for entry in a.entries:
            self.words += [self.string(entry.name), entry.steps, entry.inputs, entry.outputs]
        devices = b"".join(map(self.device, a.devices))
        contents = [
            [bytes(self.strings)],
            [regions],
            [tensors],
            [_words(a.inputs)],
            [_words(a.outputs)],
            [steps],
            [_words(self.words)],
            [devices],
            [bytes(self.code)],
        ]
        data_align = min(
            max([SECTION_ALIGN, *(r.align_bytes for r in a.regions if r.data)]), MAX_DATA_ALIGN
        )
        aligns = {"code": SECTION_ALIGN, "data": data_align}
        pieces, table, size = list[bytes](), bytearray(), HEADER_BYTES
        for section, content in zip(SECTIONS, [*contents, self.data], strict=True):
            begin = align(size, aligns.get(section, 16))
            length = sum(map(len, content))
            table += struct.pack("<II", begin, length)
            pieces += [bytes(begin - size), *content]
            size = begin + length
        if size >= 1 << 32:
            raise ArtifactError(
                f"model {a.name!r} has {size} bytes: an artifact holds less than 4 GiB"
            )
        first_steps = a.entries[0].steps if a.entries else 0
        head = struct.pack("<4I", a.samples, name, len(a.entries), first_steps) + table
        crc = 0
        for piece in (head, *pieces):
            crc = zlib.crc32(piece, crc)
        return b"".join([struct.pack("<4sIII", MAGIC, _version(a), size, crc), head, *pieces])


def _version(artifact: ArtifactContent) -> int:
    """The oldest that has what the file holds: older runtimes read it, too."""
    hosts = [step for step in artifact.steps if isinstance(step, HostStep)]
    if any(
        step.opcode == HostOpcode.GATHER
        and artifact.tensors[step.inputs[0]].layout == ViewLayout.BLOCKED
        for step in hosts
    ):
        return _BLOCKED_ROWS_SINCE
    if artifact.entries:
        return ENTRIES_SINCE
    rows = range(HostOpcode.RMS_NORM, HostOpcode.GATE + 1)
    return _ROWS_SINCE if any(step.opcode in rows for step in hosts) else OLDEST


def _words(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)
