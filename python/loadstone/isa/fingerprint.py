# SPDX-License-Identifier: Apache-2.0
"""What a table's programs mean, as 32 bytes.

In:   what an InstructionTable has.
Out:  its fingerprint. Texts and times are left out; and what a table does not use, so that it keeps
      the fingerprint that it had before there was such a thing.
Next: an artifact contains it (backend/device.py), and a device's CONFIG_HASH is its CRC-32.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from loadstone.isa.form import AddressRegister, InstructionForm, LocalMemory, Register
from loadstone.isa.queues import UnitQueue

__all__ = ["fingerprint_of"]


def fingerprint_of(
    begin: Sequence[object],
    placed: Iterable[tuple[InstructionForm, Mapping[str, int], int]],
    memories: Iterable[LocalMemory],
    address_registers: Iterable[AddressRegister],
    queues: Iterable[UnitQueue],
    registers: Iterable[Register],
) -> bytes:
    """32 bytes. begin: its name, and where its opcodes are. placed: each instruction, the bits
    where its fields begin, its bytes."""
    forms = []
    for form, places, size in placed:
        said = asdict(form)
        for name in ("doc", "unit", "cycles", "per", "needs", "meaning"):
            del said[name]
        _without_texts(said["fields"])
        for reach in said["reaches"]:
            _without(reach, offset=0, index=0, through=None)
        _without(said, keeps=(), never=(), ends=False, sets=(), reads=(), codes=())
        forms.append({**said, "at": places, "size": size})
    local = [asdict(memory) for memory in memories]
    for memory in local:
        _without_texts(memory["fields"])
        _without(memory, fields=())
    kept = [asdict(register) for register in address_registers]
    for register in kept:
        _without(register, regions=False)
    kept += [asdict(queue) for queue in queues]
    kept += [{**asdict(register), "doc": ""} for register in registers]
    whole = [*begin, forms, local, *kept]
    text = json.dumps(whole, sort_keys=True)
    return hashlib.sha256(text.encode()).digest()


def _without(said: dict[str, object], **plain: object) -> None:
    """Leaves out of a fingerprint what a table does not use, so that it keeps the one that it had
    before there was such a thing."""
    for name, value in plain.items():
        if said[name] == value:
            del said[name]


def _without_texts(fields: Iterable[dict[str, object]]) -> None:
    """What needs a capability that is not there has limits."""
    for field in fields:
        for name in ("doc", "needs", "needs_from"):
            del field[name]
