# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors of any instruction table: programs with the memory before and after, and
cycle counts. One .npz each, and index.json.

In:   an accelerator that a plug-in describes; a program and its memory, or an artifact; a folder.
Out:  TableVector objects; the same files. What a hardware team runs through its RTL, and
      `replay_table` through the simulator.
Next: `loadstone vectors` and `loadstone replay`; those of VTA are in vta/simulator/vectors.py.

    code            uint8           the program, instruction behind instruction
    insn_offsets    int64 (N,)      where each of the N instructions begins in `code`
    code_base       int64           bus address of byte 0 of `code`, outside the image
    dram_base       int64           bus address of byte 0 of the image
    dram_in         uint8           the image before the run
    out_regions     int64 (k, 2)    [offset, length] in the image, ascending, disjoint: every byte
                          that an instruction says it writes
    out             uint8           these bytes after the run, concatenated; no other byte changes
    cycles_lat0     int64           cycles of the whole program; -1: not measured
    cycles_lat64    int64           the same with 64 more cycles in front of every transfer
    read_bytes, write_bytes   int64
    regions         int64 (k, 3)    base, bytes, read-only: of each region of the image

Memories of the device hold zeros before the run, and no register is set that has no reset value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.errors import LoadstoneError, LoweringError, SimulationError
from loadstone.files import JsonObject, unpacked_arrays, written_whole
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import decode, instruction_offsets
from loadstone.isa.follow import Content, Placed
from loadstone.isa.machine import TableMachine
from loadstone.isa.program_tokens import prove_code
from loadstone.isa.registers import at_reset, set_registers, with_registers
from loadstone.isa.state import ERRORS, Dram, DramWindow, MachineFault, MachineRun
from loadstone.isa.table import DRAM, InstructionTable, Reach
from loadstone.isa.terms import term_value
from loadstone.simulator.replayed import Replayed, difference
from loadstone.simulator.table_profile import relocated
from loadstone.simulator.vector_files import (
    LATENCIES,
    DramRegion,
    check_spans,
    file_stem,
    gathered,
    listed_files,
    merged,
    sha256_of,
    with_written,
    write_index,
)

__all__ = [
    "FindAccelerator",
    "TableVector",
    "VectorProgram",
    "is_table_folder",
    "load_table_vectors",
    "measure_table",
    "replay_table",
    "save_table_vectors",
    "table_programs",
    "written_spans",
]

_PAGE = 4096
_FIRST = 0x1000
#: From the JSON that names a device in an index, the accelerator.
FindAccelerator = Callable[[JsonObject], Accelerator]


@dataclass(frozen=True, eq=False)
class VectorProgram:
    """A program and the memory that it begins with. code, dram_in: uint8 (bytes,); dram_in stands
    from bus address dram_base on."""

    name: str
    accelerator: Accelerator
    code: NDArray[np.uint8]
    dram_base: int
    dram_in: NDArray[np.uint8]
    regions: Sequence[DramRegion] = ()
    group: str = ""
    description: str = ""

    @property
    def code_base(self) -> int:
        """The first page behind the image."""
        return -(-(self.dram_base + self.dram_in.size) // _PAGE) * _PAGE

    def run(self, image: NDArray[np.uint8], latency: int) -> MachineRun:
        """On a machine with `image` (bytes,) as its memory, which a run changes. Raises
        SimulationError where the machine stops."""
        accelerator, code = self.accelerator, self.code.copy()
        if accelerator.port is not None:
            slow = accelerator.port.latency_cycles + latency
            accelerator = replace(accelerator, port=replace(accelerator.port, latency_cycles=slow))
        whole = DramRegion(self.dram_base, image.size)
        windows = [DramWindow(self.code_base, code, writable=False)]
        for region in self.regions or (whole,):
            at = region.base - self.dram_base
            data = image[at : at + region.size_bytes]
            windows.append(DramWindow(region.base, data, not region.read_only))
        count = len(instruction_offsets(accelerator.table, code.tobytes()))
        machine = TableMachine(accelerator, Dram(windows))
        try:
            return machine.run(self.code_base, count, code.tobytes())
        except MachineFault as fault:
            where = f"{self.name}, instruction {fault.instruction}"
            raise SimulationError(f"{where}: {ERRORS[fault.error]} ({fault})") from None


@dataclass(frozen=True, eq=False)
class TableVector:
    """A program, what it does to memory, and how long it takes: cycles by latency, -1 where not
    measured."""

    program: VectorProgram
    out_regions: NDArray[np.int64]
    out: NDArray[np.uint8]
    cycles: dict[int, int]
    moved: tuple[int, int]  # bytes read and written

    def dram_out(self) -> NDArray[np.uint8]:
        """The whole image after the run: (bytes of the image,)."""
        return with_written(self.program.dram_in, self.out_regions, self.out)


# --- what a program does --------------------------------------------------------------------------
def _begins(reach: Reach, fields: Mapping[str, int], first: int) -> NDArray[np.int64]:
    """Where each turn of the loops begins: (turns,)."""
    begins = np.array([first], np.int64)
    for count, stride in reach.loops:
        steps = np.arange(term_value(count, fields), dtype=np.int64) * term_value(stride, fields)
        begins = np.unique(begins[:, None] + steps)
    return begins


def written_spans(table: InstructionTable, code: bytes) -> NDArray[np.int64]:
    """[address, length] of the DRAM that a program says it writes, ascending and disjoint:
    (spans, 2). Raises EncodingError, and LoweringError for a register that is not set."""
    kept = {one.name: [0] * one.count for one in table.address_registers}
    held = at_reset(table)
    spans: list[tuple[int, int]] = []
    for insn in decode(table, code):
        form = table.by_name[insn.name]
        said = {bits.name: int(insn.fields[bits.name]) << bits.shift for bits in form.fields}  # type: ignore[arg-type]
        fields = with_registers(table, form, said, held)
        for reach in form.reaches:
            if reach.memory == DRAM and reach.writes:
                first, end = reach.places(fields, kept)
                size = term_value(reach.extent, fields)
                if first < end:
                    begins = _begins(reach, fields, first)
                    spans += merged((at, at + size) for at in begins.tolist()).tolist()
        for keep in form.keeps:
            kept[keep.register][term_value(keep.index, fields)] = fields[keep.field]
        held = set_registers(table, form, fields, held)
    return merged((first, first + length) for first, length in spans)


def measure_table(program: VectorProgram) -> TableVector:
    """What the simulator makes of a program, at both latencies. Raises SimulationError where it
    stops, or where an instruction writes what its reaches do not say."""
    cycles: dict[int, int] = {}
    runs: list[MachineRun] = []
    image = program.dram_in
    for latency in LATENCIES:
        image = program.dram_in.copy()
        runs.append(program.run(image, latency))
        cycles[latency] = runs[-1].cycles
    spans = written_spans(program.accelerator.table, program.code.tobytes())
    spans[:, 0] -= program.dram_base
    out = gathered(image, spans)
    beyond = np.flatnonzero(with_written(program.dram_in, spans, out) != image)
    if beyond.size:
        raise SimulationError(
            f"{program.name}: memory at {program.dram_base + int(beyond[0]):#x} changes, and no "
            f"instruction of {program.accelerator.table.name} says that it writes there: give the "
            "one that does a Reach that says so"
        )
    return TableVector(program, spans, out, cycles, (runs[0].read_bytes, runs[0].write_bytes))


def _unwritten(program: VectorProgram) -> Content:
    """What memory holds where no instruction writes."""
    spans = written_spans(program.accelerator.table, program.code.tobytes())
    begins, ends = spans[:, 0], spans.sum(axis=1)

    def content(place: Placed, size: int) -> bytes | None:
        first = int(place[1])
        if np.any((begins < first + size) & (ends > first)):
            return None
        at = first - program.dram_base
        inside = at >= 0 and at + size <= program.dram_in.size
        return program.dram_in[at : at + size].tobytes() if inside else None

    return content


def _race(program: VectorProgram) -> str:
    """Two instructions that no token orders and that touch the same, in words; "" without."""
    if not program.accelerator.table.queues:
        return ""
    try:
        prove_code(program.accelerator.table, program.code.tobytes(), _unwritten(program))
    except LoweringError as error:
        return str(error)
    return ""


def replay_table(vector: TableVector, *, races: bool = False) -> Replayed:
    """Runs a vector at both latencies, and compares. races: finds what no token orders, too."""
    program, expected = vector.program, vector.dram_out()
    cycles: dict[int, int] = {}
    exact, message = True, ""
    for latency in LATENCIES:
        image = program.dram_in.copy()
        try:
            cycles[latency] = program.run(image, latency).cycles
        except SimulationError as error:
            exact, message, cycles[latency] = False, str(error), 0
            continue
        if not np.array_equal(image, expected):
            exact, message = False, difference(program.dram_base, image, expected)
    measured = {latency: count for latency, count in vector.cycles.items() if count >= 0}
    found = _race(program) if races else ""
    said = message or found
    return Replayed(program.name, program.group, exact, cycles, measured, int(bool(found)), said)


# --- programs of artifacts ------------------------------------------------------------------------
def table_programs(
    artifact: Artifact, accelerator: Accelerator, seed: int = 0
) -> Iterator[VectorProgram]:
    """Each program of an artifact for this accelerator: constants as they are, the rest of memory
    random bytes, addresses filled in."""
    rng = np.random.default_rng(seed)
    regions, bases, at = [], [], _FIRST
    seen = [region for region in artifact.regions if region.on_device]
    for region in artifact.regions:
        bases.append(at)
        if region.on_device:
            align = max(_PAGE, region.align_bytes)
            bases[-1] = at = -(-at // align) * align
            regions.append(DramRegion(at, region.size_bytes, not region.device_writes))
            at += region.size_bytes
    image = rng.integers(0, 256, at - _FIRST, np.uint8)
    for region, place in zip(seen, regions, strict=True):
        image[place.base - _FIRST :][: len(region.data)] = np.frombuffer(region.data, np.uint8)
    others = [step for step in artifact.programs if step.device]
    for number, step in enumerate(others):
        if artifact.device_of(step).name == accelerator.name:
            code = np.frombuffer(relocated(step.instructions, step.relocations, bases), np.uint8)
            name = f"{artifact.name}_{accelerator.name}_{number:02d}"
            where = _FIRST, image, tuple(regions), artifact.name, step.name
            yield VectorProgram(name, accelerator, code, *where)


# --- files ----------------------------------------------------------------------------------------
def is_table_folder(path: Path) -> bool:
    """Whether the index beside a vector, or in a folder, names an accelerator of a plug-in."""
    index, _ = listed_files(path)
    device = index.get("device", {})
    return isinstance(device, dict) and "accelerator" in device


def load_table_vectors(path: Path, find: FindAccelerator) -> list[TableVector]:
    """Vectors of a file or folder. Raises LoadstoneError naming the file that cannot be read."""
    index, entries = listed_files(path)
    folder = path if path.is_dir() else path.parent
    device = index.get("device", {})
    accelerator = find(device)
    said = device.get("fingerprint", accelerator.table.fingerprint.hex())
    if said != accelerator.table.fingerprint.hex():
        raise LoadstoneError(
            f"{folder}: was written for other instructions of {accelerator.name} than the plug-in "
            "describes today: write the vectors again"
        )
    return [_load(folder / name, entry, accelerator) for name, entry in entries.items()]


def _load(path: Path, entry: JsonObject, accelerator: Accelerator) -> TableVector:
    try:
        data = unpacked_arrays(path, str(path), LoadstoneError)
        regions = tuple(
            DramRegion(base, size, bool(read_only))
            for base, size, read_only in data.get("regions", np.zeros((0, 3))).tolist()
        )
        program = VectorProgram(
            str(entry.get("name", path.stem)),
            accelerator,
            np.ascontiguousarray(data["code"], np.uint8),
            int(data["dram_base"]),
            np.ascontiguousarray(data["dram_in"], np.uint8),
            regions,
            str(entry.get("group", "")),
            str(entry.get("description", "")),
        )
        spans = data["out_regions"].astype(np.int64).reshape(-1, 2)
        out = np.ascontiguousarray(data["out"], np.uint8)
        image_bytes = program.dram_in.size
        check_spans(program.dram_base, image_bytes, spans.tolist(), out.size)
        inside = [(r.base - program.dram_base, r.size_bytes) for r in regions]
        check_spans(program.dram_base, image_bytes, inside, sum(size for _, size in inside))
        return TableVector(
            program,
            spans,
            out,
            {latency: int(data.get(f"cycles_lat{latency}", -1)) for latency in LATENCIES},
            (int(data.get("read_bytes", -1)), int(data.get("write_bytes", -1))),
        )
    except KeyError as error:
        raise LoadstoneError(
            f"{path}: has no array {error.args[0].split(' ')[0]!r}; a vector of {accelerator.name} "
            "needs code, dram_base, dram_in, out_regions, out"
        ) from None
    except (OSError, ValueError) as error:
        raise LoadstoneError(f"{path}: is no vector: {error}") from None


def save_table_vectors(folder: Path, vectors: Sequence[TableVector]) -> list[int]:
    """Writes NAME.npz for each, and index.json; all are for one accelerator. Gives the number of
    instructions of each."""
    folder.mkdir(parents=True, exist_ok=True)
    programs = []
    for v in vectors:
        p, path = v.program, folder / f"{file_stem(v.program.name)}.npz"
        offsets = instruction_offsets(p.accelerator.table, p.code.tobytes())
        cycles = {f"cycles_lat{latency}": v.cycles.get(latency, -1) for latency in LATENCIES}
        moved = dict(zip(("read_bytes", "write_bytes"), v.moved, strict=True))
        regions = [(r.base, r.size_bytes, int(r.read_only)) for r in p.regions]
        arrays: dict[str, Any] = {
            "code": p.code,
            "insn_offsets": offsets,
            "code_base": np.int64(p.code_base),
            "dram_base": np.int64(p.dram_base),
            "dram_in": p.dram_in,
            "out_regions": v.out_regions,
            "out": v.out,
            "regions": np.array(regions, np.int64).reshape(-1, 3),
            **{name: np.int64(value) for name, value in (cycles | moved).items()},
        }
        with written_whole(path) as file:
            np.savez_compressed(file, **arrays)
        said = {"name": p.name, "group": p.group, "description": p.description}
        place = {"code_base": p.code_base, "insn_count": len(offsets)}
        counts = {"file": path.name, **place, **cycles, **moved}
        programs.append({**said, **counts, "sha256": sha256_of(path)})
    device = {}
    if vectors:
        own = vectors[0].program.accelerator
        device = {"accelerator": own.name, "attributes": dict(own.attributes)}
        device["fingerprint"] = own.table.fingerprint.hex()
    write_index(folder, device, programs)
    return [int(str(program["insn_count"])) for program in programs]
