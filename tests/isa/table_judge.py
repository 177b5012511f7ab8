# SPDX-License-Identifier: Apache-2.0
"""The C validator's word on a program of any table.

In:   a table, the regions of a model, code with its relocations.
Out:  the name of a status of runtime/include/loadstone.h, and the instruction; None where it may
      run.
Next: test_program_check.py, tests/vta/device/test_instruction_table.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.backend.device import NO_DEVICE, ProgramDevice, ProgramStep, Relocation
from loadstone.isa.codec import At, TableInsn
from loadstone.isa.table import InstructionTable
from loadstone.library.native import ffi, lib
from loadstone.runtime.table_in_c import table_in_c
from tests.vta.validator.validate import STATUS

__all__ = ["TableJudge", "relocations_of"]

_NAMES = {status: name for name, status in STATUS.items()}


class TableJudge:
    """lds_program_validate of one table and one set of regions."""

    def __init__(self, table: InstructionTable, regions: Sequence[MemoryRegion]) -> None:
        self._table, self._regions = table, regions
        self._keep: list[object] = []
        self._accelerator = ffi.new("lds_accelerator *")
        self._accelerator.table = table_in_c(table, self._keep)
        size = lib().lds_program_scratch_bytes(self._accelerator)
        self._scratch = ffi.new("uint32_t[]", size // 4 + 1)
        self._constants = ffi.new("uint8_t *[8]")
        for number, region in enumerate(regions):
            if region.kind == RegionKind.CONSTANTS:
                data = ffi.from_buffer(bytes(region.data).ljust(region.size_bytes, b"\0") + b"\0")
                self._keep.append(data)
                self._constants[number] = ffi.cast("uint8_t *", data)

    def verdict(
        self, code: bytes, count: int, relocations: Sequence[Relocation] = ()
    ) -> tuple[str, int] | None:
        """count: of the instructions."""
        data = self._artifact(code, count, relocations).to_bytes()
        model, fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
        held = ffi.from_buffer(data)
        assert lib().lds_model_open(model, held, len(data)) == 0
        assert lib().lds_relocations_check(model) == 0
        status = lib().lds_program_validate(
            model,
            0,
            self._accelerator,
            code,
            self._constants,
            self._scratch,
            ffi.sizeof(self._scratch),
            fault,
        )
        return None if status == 0 else (_NAMES[status], fault.instruction)

    def _artifact(self, code: bytes, count: int, relocations: Sequence[Relocation]) -> Artifact:
        regions = tuple(self._regions)
        writable = next(k for k, region in enumerate(regions) if region.device_writes)
        tensors = (BufferView("x", (1, 1), DataType.INT8, writable, 0),)
        other = ProgramDevice(self._table.name, self._table.fingerprint)
        devices = (ProgramDevice.of(NO_DEVICE), other)
        step = ProgramStep("run", code, (), 1, count, tuple(relocations))
        return Artifact("m", devices, 1, regions, tensors, (0,), (0,), (step,))


def relocations_of(
    table: InstructionTable, insns: Sequence[TableInsn], places: Mapping[str, tuple[int, int]]
) -> list[Relocation]:
    """Of addresses by name. places: region and offset of each."""
    found, at = [], 0
    for insn in insns:
        for field in table.by_name[insn.name].fields:
            value = insn.fields.get(field.name)
            if isinstance(value, At):
                region, first = places[value.symbol]
                bit = table.places[insn.name][field.name]
                where = at, bit, field.width, field.shift
                found.append(Relocation(*where, region, first + value.offset_bytes))
        at += table.sizes[insn.name]
    return found
