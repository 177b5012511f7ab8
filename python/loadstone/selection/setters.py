# SPDX-License-Identifier: Apache-2.0
"""Which instructions set registers to what another instruction must find there.

In:   a table; the registers that a meaning names, with a number or a place for each.
Out:  instructions that set them, and what their fields say.
Next: choose.py puts them in front; match_instructions.py leaves out what is set already.

An instruction that sets no other register comes first in the choice, then one that sets more of
those that are wanted: `config_stride` for a stride alone, `config_st` for it and a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from loadstone.isa.form import InstructionForm
from loadstone.isa.table import InstructionTable

__all__ = ["RegisterSetting", "Said", "Setters"]

#: A number; or a place: an operand's slot, and how far behind the slot's own place.
Said: TypeAlias = "int | tuple[int, int]"


class RegisterSetting(NamedTuple):
    """An instruction, and by field what it says."""

    form: InstructionForm
    fields: Mapping[str, Said]


class Setters:
    """Those of a table: instructions that do nothing but set registers, each to a field or a
    number, whatever else is true."""

    def __init__(self, table: InstructionTable) -> None:
        self._forms = [form for form in table.forms if _only_sets(form)]
        self._known: dict[object, list[InstructionForm] | None] = {}

    def of(self, wanted: Mapping[str, Said]) -> list[RegisterSetting] | None:
        """In an order in which all registers hold what is wanted at the end; None where no
        instructions set one of them so. A register that is not wanted may hold something else
        behind them."""
        key = tuple((name, v if isinstance(v, int) else None) for name, v in wanted.items())
        if key not in self._known:
            self._known[key] = self._plan(wanted)
        plan = self._known[key]
        return (
            None
            if plan is None
            else [RegisterSetting(form, _fields(form, wanted)) for form in plan]
        )

    def _plan(self, wanted: Mapping[str, Said]) -> list[InstructionForm] | None:
        found: list[InstructionForm] = []
        left = set(wanted)
        while left:
            ways = [
                (registers <= set(wanted), len(left & registers), form)
                for form in self._forms
                if (registers := _set_by(form, wanted)) is not None and left & registers
            ]
            if not ways:
                return None
            found.append(max(ways, key=lambda way: way[:2])[2])
            left -= {one.register for one in found[-1].sets}
        return found


def _only_sets(form: InstructionForm) -> bool:
    """Whether an instruction does nothing but set registers, each to a field or a number."""
    does = form.reaches or form.meaning or form.keeps or form.ends
    names = {bits.name for bits in form.fields}
    for one in form.sets:
        if one.when != 1 or not (isinstance(one.value, int) or one.value in names):
            return False
    return bool(form.sets) and not does


def _set_by(form: InstructionForm, wanted: Mapping[str, Said]) -> set[str] | None:
    """The registers that a form sets; None where one of them could not hold what is wanted."""
    said: dict[str, Said] = {}
    for one in form.sets:
        if one.register not in wanted:
            continue
        value = wanted[one.register]
        if isinstance(one.value, int) and one.value != value:
            return None
        if said.setdefault(str(one.value), value) != value:
            return None
    return {one.register for one in form.sets}


def _fields(form: InstructionForm, wanted: Mapping[str, Said]) -> dict[str, Said]:
    """What its fields say: the least that they may where nothing is wanted."""
    said: dict[str, Said] = {bits.name: max(0, bits.lowest) for bits in form.fields}
    for one in form.sets:
        if isinstance(one.value, str) and one.register in wanted:
            said[one.value] = wanted[one.register]
    return said
