# SPDX-License-Identifier: Apache-2.0
"""What a device of a family leaves out of its instruction set.

In:   instructions and fields that name the capability they need; the capabilities of one device.
Out:  the instructions of that device, whose fields stay below what needs another; what is left out.
Next: table.py makes a table of them: codec, validators and simulator then refuse the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from loadstone.isa.form import Bits, InstructionForm

__all__ = ["Lack", "capabilities_of", "capability_macros", "forms_having"]

#: What is left out ("mul", "add.saturate"), and the capability that it needs.
Lack = tuple[str, str]


def capabilities_of(forms: Sequence[InstructionForm]) -> Iterator[str]:
    """All that the instructions need."""
    for form in forms:
        yield from (needs for needs in (form.needs, *(f.needs for f in form.fields)) if needs)


def forms_having(
    forms: Sequence[InstructionForm], capabilities: Collection[str]
) -> tuple[tuple[InstructionForm, ...], tuple[Lack, ...]]:
    """The instructions of a device with these capabilities, and what it lacks."""
    kept: list[InstructionForm] = []
    lacks: list[Lack] = []
    for form in forms:
        if form.needs and form.needs not in capabilities:
            lacks.append((form.name, form.needs))
            continue
        narrow = [field for field in form.fields if field.needs and field.needs not in capabilities]
        lacks += [(f"{form.name}.{field.name}", field.needs) for field in narrow]
        fields = [_narrowed(field) if field in narrow else field for field in form.fields]
        kept.append(replace(form, fields=tuple(fields)))
    return tuple(kept), tuple(lacks)


def capability_macros(
    name: str, forms: Sequence[InstructionForm], lacks: Sequence[Lack]
) -> list[str]:
    """For C: NAME_HAS_CAPABILITY is 1 or 0."""
    lacking = {capability for _, capability in lacks}
    return [
        f"#define {name.upper()}_HAS_{capability.upper()} {int(capability not in lacking)}"
        for capability in sorted(lacking.union(capabilities_of(forms)))
    ]


def _narrowed(field: Bits) -> Bits:
    return replace(field, low=max(0, field.lowest), high=field.needs_from - 1, needs="")
