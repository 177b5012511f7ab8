# SPDX-License-Identifier: Apache-2.0
"""Queues of tokens between the units of a device, as a table names them.

In:   queues, and the instructions whose fields give and take tokens.
Out:  UnitQueue; what is wrong with a set of queues.
Next: table.py holds them; program_tokens.py sets the fields, token_clock.py obeys them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from loadstone.isa.form import Bits, InstructionForm

__all__ = ["UnitQueue", "chained", "queue_mistake", "token_fields", "units_of"]


@dataclass(frozen=True)
class UnitQueue:
    """Tokens from unit `pusher` to unit `popper`. push: the field by which an instruction of the
    pusher gives one when it is done; pop: the field by which one of the popper waits for one. Both
    are one bit, and every instruction of these units has it. most: tokens that it holds, two
    or more: who must make room in a queue of one may need room for that in the queue back."""

    pusher: str
    popper: str
    push: str
    pop: str
    most: int = 255


def chained(*units: str, most: int = 255) -> tuple[UnitQueue, ...]:
    """Queues both ways between neighbours, with VTA's names for the fields."""
    pairs = list(pairwise(units))
    forth = [UnitQueue(a, b, "push_next", "pop_prev", most) for a, b in pairs]
    return (*forth, *(UnitQueue(b, a, "push_prev", "pop_next", most) for a, b in pairs))


def token_fields(queues: Sequence[UnitQueue]) -> tuple[Bits, ...]:
    """A field of one bit for every name that queues have, for instructions that all have them."""
    names = [name for queue in queues for name in (queue.push, queue.pop)]
    return tuple(Bits(name, 1) for name in dict.fromkeys(names))


def units_of(forms: Sequence[InstructionForm]) -> tuple[str, ...]:
    """The units of a device, in the order of its instructions."""
    return tuple(dict.fromkeys(unit for form in forms for unit in form.units))


def queue_mistake(
    queues: Sequence[UnitQueue], noops: Sequence[str], forms: Sequence[InstructionForm]
) -> tuple[str, str] | None:
    """(what, what it is not) of the first thing that is wrong; None where all is well."""
    seen: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    for queue in queues:
        mistake = _ends_mistake(queue, used, forms)
        where = f"queue {queue.pusher} -> {queue.popper}"
        if mistake is not None:
            return f"{where}: {mistake[0]}", mistake[1]
        if queue.pusher == queue.popper or (queue.pusher, queue.popper) in seen:
            return where, "between two units, once"
        seen.add((queue.pusher, queue.popper))
        if not 2 <= queue.most <= 1 << 16:
            return f"{where}: most {queue.most}", "2 to 65536"
    by_name = {form.name: form for form in forms}
    for name in noops:
        if name not in by_name:
            return f"noop {name}", f"one of {', '.join(by_name)}"
        if by_name[name].reaches or by_name[name].keeps:
            return f"noop {name}", "an instruction that touches nothing"
        if len(by_name[name].units) > 1:
            return f"noop {name}", "an instruction of one unit"
    return None


def _ends_mistake(
    queue: UnitQueue, used: set[tuple[str, str]], forms: Sequence[InstructionForm]
) -> tuple[str, str] | None:
    """Of its units and fields; `used`, of the queues before it, gets them."""
    units = units_of(forms)
    for unit, name in ((queue.pusher, queue.push), (queue.popper, queue.pop)):
        if unit not in units:
            return f"unit {unit}", f"one of {', '.join(units)}"
        lacking = next((f.name for f in forms if unit in f.units and not _has(f, name)), None)
        if lacking is not None:
            return f"field {name} of {lacking}", f"a field of one bit, as all of unit {unit} need"
        if (unit, name) in used:
            return f"field {name} of unit {unit}", "of one queue alone"
        used.add((unit, name))
    return None


def _has(form: InstructionForm, name: str) -> bool:
    return any(
        bits.name == name and bits.width == 1 and not bits.signed and not bits.address
        for bits in form.fields
    )
