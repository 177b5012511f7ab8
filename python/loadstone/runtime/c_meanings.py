# SPDX-License-Identifier: Apache-2.0
"""Meanings of instructions in a plug-in's C: compiled by the host's compiler, called from Python.

In:   an InstructionTable; a C file that includes NAME_meaning.h (isa/c_meaning.py) and defines
      NAME_mean_FORM for some instructions or all.
Out:  a meaning for each of these, for Accelerator(meaning=...); the file is compiled at the first
      call.
Next: isa/machine.py calls them instead of functions in NumPy.

    Accelerator(name, table, {**MEANING, **c_meanings(table, Path(__file__).with_suffix(".c"))})
"""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loadstone.errors import ConfigError, DeviceError
from loadstone.files import read_whole
from loadstone.isa.accelerator import Accelerator, Meaning
from loadstone.isa.c_machine import has_c_machine, machine_source
from loadstone.isa.c_meaning import function_name, meaning_header
from loadstone.isa.state import MachineState, outside
from loadstone.isa.table import Bits, InstructionForm, InstructionTable
from loadstone.runtime.c_machine import CClock, Seen, struct
from loadstone.runtime.c_step import built_library

__all__ = ["c_meanings"]

_LARGEST = (1 << 64) - 1


def c_meanings(table: InstructionTable, file: Path) -> dict[str, Meaning]:
    """By instruction, the meanings that a C file defines. Raises ConfigError for one that defines
    none."""
    try:
        text = read_whole(file).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"meanings of {table.name}: {file}: {error.strerror}") from None
    forms = [f for f in table.forms if re.search(rf"\b{function_name(table, f)}\b", text)]
    if not forms:
        wanted = function_name(table, table.forms[0])
        raise ConfigError(
            f"meanings of {table.name}: {file} defines none: a function is called like {wanted}"
        )
    library = _Library(table, file, [form.name for form in forms])
    return {form.name: _CMeaning(library, form) for form in forms}


@dataclass(frozen=True)
class _CMeaning:
    """One instruction's. library: a program whose meanings are all of one runs in C whole."""

    library: _Library
    form: InstructionForm

    def __call__(self, state: MachineState, i: Mapping[str, int]) -> None:
        self.library.call(self.form, state, i)


class _Library:
    """The compiled file. One state of a machine at a time is kept as C sees it. meant: the
    instructions whose meaning it has."""

    def __init__(self, table: InstructionTable, file: Path, meant: Sequence[str]) -> None:
        self.table, self.file, self.meant = table, file, meant
        self._last: tuple[MachineState, Seen, Seen] | None = None
        self._window = struct(
            bus=ctypes.c_uint64,
            size_bytes=ctypes.c_uint64,
            writable=ctypes.c_uint64,
            data=ctypes.c_void_p,
        )
        numbers = ("window_count", "read_bytes", "write_bytes", "fault", "fault_address")
        names = [memory.name for memory in table.memories]
        names += [one.name for one in table.address_registers]
        self._state = struct(
            windows=ctypes.c_void_p,
            **dict.fromkeys(numbers, ctypes.c_uint64),
            **dict.fromkeys(names, ctypes.c_void_p),
        )
        self._fields = {form.name: _fields(table.seen_by[form.name]) for form in table.forms}

    @cached_property
    def loaded(self) -> ctypes.CDLL:
        """It and the machine. Raises DeviceError with the compiler's first complaint."""
        name = self.table.name
        with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
            header = Path(folder, f"{name}_meaning.h")
            header.write_text(meaning_header(self.table), encoding="utf-8")
            sources = [str(self.file)]
            if has_c_machine(self.table):
                machine = Path(folder, f"{name}_machine.c")
                machine.write_text(machine_source(self.table, self.meant), encoding="utf-8")
                sources.append(str(machine))
            return built_library(
                sources,
                ["-Wall", "-Wextra", f"-I{folder}", f"-I{self.file.parent}"],
                lambda why: DeviceError(f"meanings of {name}: {self.file}: {why}"),
            )

    @cached_property
    def functions(self) -> Mapping[str, Seen]:
        """By instruction."""
        functions = {}
        for form in self.table.forms:
            function = getattr(self.loaded, function_name(self.table, form), None)
            if function is not None:
                function.restype, function.argtypes = None, [ctypes.c_void_p] * 2
                functions[form.name] = function
        return functions

    def call(self, form: InstructionForm, state: MachineState, i: Mapping[str, int]) -> None:
        """One instruction. Raises MachineFault."""
        function = self.functions.get(form.name)
        if function is None:
            wanted = function_name(self.table, form)
            raise DeviceError(f"meanings of {self.table.name}: {self.file} defines no {wanted}")
        seen, registers = self._seen(state)
        for name, held in state.kept.items():
            registers[name][:] = [min(address, _LARGEST) for address in held]
        seen.read_bytes = seen.write_bytes = seen.fault = 0
        seen_by = self.table.seen_by[form.name]
        fields = self._fields[form.name](*(i[bits.name] for bits in seen_by))
        function(ctypes.byref(seen), ctypes.byref(fields))
        state.dram.read_bytes += seen.read_bytes
        state.dram.write_bytes += seen.write_bytes
        if seen.fault:
            raise outside(form.name, seen.fault_address)

    def clock(self, accelerator: Accelerator, state: MachineState) -> CClock | None:
        """Executes a whole program in C; None where that is left to Python."""
        meant = {form.name for form in self.table.forms if form.name in accelerator.meaning}
        if accelerator.table is not self.table or not has_c_machine(self.table):
            return None
        if meant != self.functions.keys():
            return None
        run = getattr(self.loaded, f"{self.table.name}_run")
        pointer, number = ctypes.c_void_p, ctypes.c_uint64
        run.restype = number
        run.argtypes = [pointer, pointer, pointer, ctypes.c_char_p, number, pointer, number]
        return CClock(accelerator, state, run, *self._seen(state))

    def _seen(self, state: MachineState) -> tuple[Seen, Seen]:
        """A machine's state as C sees it, and its address registers."""
        if self._last is None or self._last[0] is not state:
            windows = (self._window * max(len(state.dram.windows), 1))()
            for entry, window in zip(windows, state.dram.windows, strict=False):
                entry.bus, entry.size_bytes = window.bus, len(window.data)
                entry.writable, entry.data = window.writable, window.data.ctypes.data
            seen = self._state()
            seen.windows = ctypes.addressof(windows)
            members = {"window_count": len(state.dram.windows)}
            members |= {name: memory.ctypes.data for name, memory in state.memory.items()}
            for name, value in members.items():
                setattr(seen, name, value)
            registers = {name: (ctypes.c_uint64 * len(held))() for name, held in state.kept.items()}
            for name, array in registers.items():
                setattr(seen, name, ctypes.addressof(array))
            registers[""] = windows  # lives as long
            self._last = state, seen, registers
        return self._last[1:]


def _fields(seen_by: Sequence[Bits]) -> Seen:
    kinds = {b.name: ctypes.c_int64 if b.signed else ctypes.c_uint64 for b in seen_by}
    return struct(**(kinds or {"none": ctypes.c_uint64}))
