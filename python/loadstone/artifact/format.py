"""Write and read a compiled model: one file, specified byte by byte in runtime/FORMAT.md.

In:   frozen dataclasses: regions and tensors (memory_plan.py), device programs, host steps
      (host_step.py).
Out:  an Artifact; `to_bytes`, `from_bytes`, `save`, `load`.
Next: runtime/model.c reads the same bytes in place; runtime/device.py runs them.

A small model, by hand:

    Artifact(
        name="copy", fingerprint=config.fingerprint(), samples=1,
        regions=(Region("io", RegionKind.ARENA, 128, device_reads=True, device_writes=True),),
        tensors=(Tensor("x", (1, 16), DataType.INT8, 0, 0), Tensor("y", (1, 16), DataType.INT8, 0,
        64)), inputs=(0,), outputs=(1,),
        steps=(DeviceProgram("copy", encode_stream([...], config).tobytes()),),
    )
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.artifact.host_step import OPERATORS, HostOpcode, HostStep
from loadstone.artifact.memory_plan import (
    MAX_RANK,
    MAX_REGIONS,
    BufferView,
    DataType,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.backend.device import INSN_BYTES, DeviceProgram, LayerRange
from loadstone.errors import ArtifactError
from loadstone.files import write_whole

__all__ = [
    "Artifact",
    "BufferView",
    "DataType",
    "DeviceProgram",
    "HostStep",
    "LayerRange",
    "MemoryRegion",
    "RegionKind",
    "ViewLayout",
]

MAGIC = b"LDSM"
VERSION = 1
_HEADER = struct.Struct("<4sIII20sIIIII")
_SECTIONS = (
    "strings",
    "regions",
    "tensors",
    "inputs",
    "outputs",
    "steps",
    "words",
    "instructions",
    "source_map",
    "data",
)
_HEADER_BYTES = _HEADER.size + 8 * len(_SECTIONS)
_REGION = struct.Struct("<8I")
_TENSOR = struct.Struct("<I4BIIfi6I2H3I")
_STEP = struct.Struct("<HBBIII")
_RANGE = struct.Struct("<4I")
_WORD = struct.Struct("<I")
_ENTRY_BYTES = dict(zip(_SECTIONS, (1, 32, 64, 4, 4, 16, 4, INSN_BYTES, 16, 1), strict=True))
_SECTION_ALIGN = 64
_MAX_DATA_ALIGN = 4096
assert _HEADER_BYTES == 136
assert [s.size for s in (_REGION, _TENSOR, _STEP, _RANGE)] == [32, 64, 16, 16]


@dataclass(frozen=True)
class Artifact:
    """A compiled model. inputs and outputs are indices of tensors; `samples` is what one run takes.

    fingerprint: HwConfig.fingerprint(), 20 bytes. Steps run in order.
    """

    name: str
    fingerprint: bytes
    samples: int
    regions: tuple[MemoryRegion, ...]
    tensors: tuple[BufferView, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    steps: tuple[DeviceProgram | HostStep, ...]
    device: str = ""  # HwConfig.name, for people

    @property
    def config_hash(self) -> int:
        """CRC-32 of the fingerprint, as in register CONFIG_HASH."""
        return zlib.crc32(self.fingerprint)

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """The device programs, in order."""
        return tuple(s for s in self.steps if isinstance(s, DeviceProgram))

    def check(self) -> None:
        """Raises ArtifactError naming the first rule of runtime/FORMAT.md that is broken."""
        _require(
            len(self.fingerprint) == 20 and self.fingerprint[0] == 1,
            "R5",
            "the fingerprint is not 20 bytes of version 1",
        )
        _require(1 <= self.samples < 1 << 32, "R6", f"samples={self.samples} is not at least 1")
        _require(
            len(self.regions) <= MAX_REGIONS,
            "R8",
            f"there are {len(self.regions)} regions, more than {MAX_REGIONS}",
        )
        for region in self.regions:
            region.check()
        for tensor in self.tensors:
            tensor.check(self.regions)
        for index in (*self.inputs, *self.outputs):
            _require(
                0 <= index < len(self.tensors),
                "R17",
                f"tensor {index} is an input or output, but there are {len(self.tensors)}",
            )
            tensor = self.tensors[index]
            sound = (
                tensor.layout == ViewLayout.ROW_MAJOR
                and len(tensor.shape) >= 1
                and tensor.shape[0] % self.samples == 0
            )
            _require(
                sound,
                "R17",
                f"input or output {tensor.name!r} is not row-major with a multiple of "
                f"{self.samples} rows",
            )
        for index in self.inputs:
            kind = self.regions[self.tensors[index].region].kind
            _require(
                kind != RegionKind.CONSTANTS,
                "R17",
                f"input {self.tensors[index].name!r} is in constants",
            )
        for step in self.steps:
            if isinstance(step, HostStep):
                step.check(self.tensors, self.regions)
            else:
                _check_program(step)

    def to_bytes(self) -> bytes:
        """The file. Raises ArtifactError when it would not be sound."""
        self.check()
        return _ArtifactWriter(self).file()

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """Reads a file. Raises ArtifactError for one that is not sound."""
        artifact = _ArtifactReader(data).artifact()
        artifact.check()
        return artifact

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        write_whole(path, self.to_bytes())

    @staticmethod
    def load(path: str | Path) -> Artifact:
        """Reads a file; the error names it."""
        try:
            return Artifact.from_bytes(Path(path).read_bytes())
        except OSError as error:
            raise ArtifactError(f"{path}: {error.strerror}") from None
        except ArtifactError as error:
            raise ArtifactError(f"{path}: {error}") from None


def _require(sound: bool, rule: str, text: str) -> None:
    if not sound:
        raise ArtifactError(f"{text} (rule {rule} of runtime/FORMAT.md)")


def _check_program(program: DeviceProgram) -> None:
    size = len(program.instructions)
    sound = size > 0 and size % INSN_BYTES == 0
    _require(
        sound,
        "R18",
        f"device program {program.name!r} has {size} bytes, which is no positive multiple of "
        f"{INSN_BYTES}",
    )
    for layer in program.layers:
        inside = layer.first >= 0 and layer.count >= 0 and layer.first + layer.count <= len(program)
        _require(
            inside,
            "R22",
            f"layer {layer.name!r} leaves the {len(program)} instructions of {program.name!r}",
        )


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


# --- writing --------------------------------------------------------------------------------------
class _ArtifactWriter:
    """Collects sections, then lays them out."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.strings = bytearray(b"\0")
        self.known = {"": 0}
        self.words: list[int] = []
        self.data = bytearray()
        self.instructions = bytearray()
        self.source_map = bytearray()

    def string(self, text: str) -> int:
        if "\0" in text:
            raise ArtifactError(f"name {text!r} holds a zero byte")
        if text not in self.known:
            self.known[text] = len(self.strings)
            self.strings += text.encode() + b"\0"
        return self.known[text]

    def region(self, region: MemoryRegion) -> bytes:
        flags = region.device_reads | region.device_writes << 1
        self.data += (
            bytes(_align(len(self.data), region.align_bytes) - len(self.data))
            if region.data
            else b""
        )
        offset = len(self.data) if region.data else 0
        self.data += region.data
        kind, name = int(region.kind), self.string(region.name)
        return _REGION.pack(
            kind, flags, region.size_bytes, region.align_bytes, offset, len(region.data), name, 0
        )

    def tensor(self, t: BufferView) -> bytes:
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
        return _TENSOR.pack(*head, *dims, t.batch_block, t.channel_block, 0, 0, 0)

    def step(self, step: DeviceProgram | HostStep) -> bytes:
        if isinstance(step, DeviceProgram):
            first, count = len(self.instructions) // INSN_BYTES, len(step)
            self.instructions += step.instructions
            for layer in step.layers:
                self.source_map += _RANGE.pack(
                    first + layer.first, layer.count, self.string(layer.name), 0
                )
            return _STEP.pack(0, 0, 0, first, count, self.string(step.name))
        words = [*step.inputs, *step.outputs, *step.parameters.values()]
        if step.opcode == HostOpcode.EXTERNAL:
            words += [self.string(step.function), self.string(step.attributes)]
        first = len(self.words)
        self.words += [w & 0xFFFFFFFF for w in words]
        return _STEP.pack(
            step.opcode,
            len(step.inputs),
            len(step.outputs),
            first,
            len(words),
            self.string(step.name),
        )

    def file(self) -> bytes:
        a = self.artifact
        name, device = self.string(a.name), self.string(a.device)
        regions = b"".join(map(self.region, a.regions))
        tensors = b"".join(map(self.tensor, a.tensors))
        steps = b"".join(map(self.step, a.steps))
        contents = (
            *(
                bytes(self.strings),
                regions,
                tensors,
                _words(a.inputs),
                _words(a.outputs),
                steps,
                _words(self.words),
            ),
            *(bytes(self.instructions), bytes(self.source_map), bytes(self.data)),
        )
        data_align = min(
            max([_SECTION_ALIGN, *(r.align_bytes for r in a.regions if r.data)]), _MAX_DATA_ALIGN
        )
        aligns = {"instructions": _SECTION_ALIGN, "data": data_align}
        body, table = bytearray(_HEADER_BYTES), bytearray()
        for section, content in zip(_SECTIONS, contents, strict=True):
            body += bytes(_align(len(body), aligns.get(section, 16)) - len(body))
            table += struct.pack("<II", len(body), len(content))
            body += content
        if len(body) >= 1 << 32:
            raise ArtifactError(
                f"model {a.name!r} has {len(body)} bytes: an artifact holds less than 4 GiB"
            )
        head = struct.pack("<20sIIIII", a.fingerprint, a.config_hash, a.samples, name, device, 0)
        body[16:_HEADER_BYTES] = head + table
        struct.pack_into("<4sIII", body, 0, MAGIC, VERSION, len(body), zlib.crc32(body[16:]))
        return bytes(body)


def _words(values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


# --- reading --------------------------------------------------------------------------------------
class _ArtifactReader:
    """Takes a file apart; everything is bounds-checked here or in Artifact.check."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)
        _require(
            len(data) >= _HEADER_BYTES,
            "R3",
            f"{len(data)} bytes are fewer than a header's {_HEADER_BYTES}",
        )
        (
            magic,
            version,
            size,
            crc,
            self.fingerprint,
            config_hash,
            self.samples,
            self.name,
            self.device,
            zero,
        ) = _HEADER.unpack_from(data)
        _require(magic == MAGIC, "R1", f"it begins with {magic!r}, not {MAGIC!r}")
        _require(version == VERSION, "R2", f"format version {version} is not {VERSION}")
        _require(size == len(data), "R3", f"the header says {size} bytes, the file has {len(data)}")
        _require(
            crc == zlib.crc32(self.data[16:]),
            "R4",
            "the checksum does not fit the content: the file is damaged",
        )
        _require(
            config_hash == zlib.crc32(self.fingerprint),
            "R5",
            f"config_hash {config_hash:#010x} is not that of the fingerprint",
        )
        _require(zero == 0, "R13", "the reserved word of the header is not 0")
        places = struct.unpack_from(f"<{2 * len(_SECTIONS)}I", data, _HEADER.size)
        self.section = {
            n: self._slice(n, *places[2 * i : 2 * i + 2]) for i, n in enumerate(_SECTIONS)
        }
        strings = self.section["strings"]
        _require(
            bool(strings) and strings[0] == 0 == strings[-1],
            "R9",
            "the strings do not begin and end with a zero byte",
        )
        self.words = [w for (w,) in _WORD.iter_unpack(self.section["words"])]
        self.ranges: list[tuple[int, int, int]] = []

    def _slice(self, name: str, offset: int, size: int) -> bytes:
        inside = offset % 16 == 0 and offset >= _HEADER_BYTES and offset + size <= len(self.data)
        _require(
            inside,
            "R7",
            f"section {name} at {offset} with {size} bytes is not aligned or leaves the file",
        )
        _require(
            size % _ENTRY_BYTES[name] == 0,
            "R8",
            f"section {name} has {size} bytes, no multiple of {_ENTRY_BYTES[name]}",
        )
        return self.data[offset : offset + size]

    def string(self, offset: int) -> str:
        strings = self.section["strings"]
        _require(
            offset < len(strings),
            "R9",
            f"string {offset} leaves the {len(strings)} bytes of strings",
        )
        return strings[offset : strings.index(b"\0", offset)].decode("utf-8", "replace")

    def region(self, fields: tuple[int, ...]) -> MemoryRegion:
        kind, flags, size, align, offset, data_size, name, zero = fields
        data = self.section["data"]
        _require(zero == 0, "R13", "a reserved word of a region is not 0")
        _require(
            kind <= max(RegionKind) and flags <= 3,
            "R10",
            f"region kind {kind} or flags {flags} are unknown",
        )
        _require(
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
        ints = [int(f) if i != 7 else 0 for i, f in enumerate(fields)]
        name, dtype, rank, region, layout, offset, size = ints[:7]
        dims, blocks, reserved = ints[9 : 9 + MAX_RANK], ints[15:17], ints[17:]
        _require(not any(reserved), "R13", "a reserved word of a tensor is not 0")
        _require(
            dtype <= max(DataType) and layout <= max(ViewLayout) and rank <= MAX_RANK,
            "R14",
            f"tensor {name}: type, layout or rank is unknown",
        )
        _require(not any(dims[rank:]), "R16", f"tensor {name} has dims beyond its rank")
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
        _require(
            layout == ViewLayout.ROW_MAJOR or (rank == 4 and min(blocks) >= 1),
            "R16",
            f"blocked tensor {tensor.name!r} has no blocks",
        )
        _require(
            size == tensor.size_bytes,
            "R15",
            f"tensor {tensor.name!r}: {size} bytes, but its shape says {tensor.size_bytes}",
        )
        return tensor

    def step(
        self, operator: int, inputs: int, outputs: int, first: int, count: int, name: int
    ) -> DeviceProgram | HostStep:
        if operator == 0:
            instructions = self.section["instructions"]
            inside = (
                count >= 1
                and INSN_BYTES * (first + count) <= len(instructions)
                and not inputs
                and not outputs
            )
            _require(
                inside,
                "R18",
                f"device program at {first} with {count} instructions leaves the stream, or "
                "names tensors",
            )
            layers = tuple(
                LayerRange(
                    self.string(n), max(f, first) - first, min(f + c, first + count) - max(f, first)
                )
                for f, c, n in self.ranges
                if f < first + count and first < f + c
            )
            return DeviceProgram(
                self.string(name),
                instructions[INSN_BYTES * first : INSN_BYTES * (first + count)],
                layers,
            )
        _require(
            first + count <= len(self.words),
            "R18",
            f"step {name}: {count} words at {first} leave the {len(self.words)} there are",
        )
        _require(
            operator in set(HostOpcode),
            "R19",
            f"step {self.string(name)!r}: operator {operator} is unknown",
        )
        kind = HostOpcode(operator)
        words = self.words[first : first + count]
        tensors, values = words[: inputs + outputs], words[inputs + outputs :]
        names = (
            OPERATORS[kind].parameters
            if kind != HostOpcode.EXTERNAL
            else ("function", "attributes")
        )
        _require(
            count == inputs + outputs + len(names),
            "R19",
            f"step {self.string(name)!r} has {count} words",
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
        total = len(self.section["instructions"]) // INSN_BYTES
        for first, count, name, zero in _RANGE.iter_unpack(self.section["source_map"]):
            _require(zero == 0, "R13", "a reserved word of the source map is not 0")
            _require(
                first + count <= total,
                "R22",
                f"source map: {count} instructions at {first} leave the {total} there are",
            )
            self.string(name)
            self.ranges.append((first, count, name))

    def artifact(self) -> Artifact:
        self.source_map()

        def rows(layout: struct.Struct, name: str) -> list[tuple[int, ...]]:
            return list(layout.iter_unpack(self.section[name]))

        inputs, outputs = (
            [w for (w,) in _WORD.iter_unpack(self.section[n])] for n in ("inputs", "outputs")
        )
        return Artifact(
            name=self.string(self.name),
            fingerprint=self.fingerprint,
            samples=self.samples,
            regions=tuple(self.region(r) for r in rows(_REGION, "regions")),
            tensors=tuple(self.tensor(r) for r in rows(_TENSOR, "tensors")),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            steps=tuple(self.step(*r) for r in rows(_STEP, "steps")),
            device=self.string(self.device),
        )
