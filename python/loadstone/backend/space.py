# SPDX-License-Identifier: Apache-2.0
"""What a plug-in lets `loadstone tune` choose of an operator's schedule, and what it was told.

In:   a back end whose `space` names values, an operator, the request of a compile.
Out:  the digest of all that decides how good a choice is; the key of an operator's record; the
      choice itself.
Next: interface.py is what a plug-in's author sees of it; search/tune_space.py tries choices.

A choice is kept by device and operator without names and numbers: layers of one shape share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from loadstone.backend.request import CompileRequest
from loadstone.errors import ConfigError

if TYPE_CHECKING:
    from loadstone.graph import Operator
    from loadstone.isa.accelerator import Accelerator

__all__ = ["space_choice", "space_digest", "space_key"]


class OffersSpace(Protocol):
    """What is asked of a back end (interface.py)."""

    name: ClassVar[str]
    request: CompileRequest
    accelerator: Accelerator | None

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """Of this configuration."""

    def space(self, operator: Operator) -> Mapping[str, Sequence[int | str]]:
        """By name, values."""


_NAMES = ("name", "inputs", "outputs")


def space_digest(backend: OffersSpace) -> str:
    """16 hex digits: of the back end's name and attributes, and of its accelerator's instructions,
    port and queue."""
    made = backend.accelerator
    said: Sequence[object] = (backend.name, sorted(backend.attributes.items()))
    if made is not None:
        said = (*said, made.table.fingerprint, made.port, made.queue)
    return sha256(repr(said).encode()).hexdigest()[:16]


def space_key(backend: OffersSpace, operator: Operator) -> str:
    """16 hex digits, of back end and operator."""
    values = []
    for field in fields(operator):
        value = getattr(operator, field.name)
        if isinstance(value, np.ndarray):
            value = (value.shape, str(value.dtype))
        if field.name not in _NAMES:
            values.append((field.name, value))
    tensors = [(t.shape, str(t.dtype)) for t in (*operator.inputs, *operator.outputs)]
    said = (space_digest(backend), operator.kind, values, tensors)
    return sha256(repr(said).encode()).hexdigest()[:16]


def space_choice(backend: OffersSpace, operator: Operator) -> Mapping[str, int | str]:
    """What the request has for the operator; empty for nothing. Raises ConfigError for a choice
    that is not in the operator's space."""
    schedules = backend.request.schedules
    record = {} if schedules is None else schedules.record(space_key(backend, operator))
    space = backend.space(operator) if record else {}
    for name, value in record.items():
        if value not in space.get(name, ()):
            allowed = ", ".join(map(str, space.get(name, ()))) or "no value"
            raise ConfigError(
                f"{backend.name}: {operator.name}: {name}={value!r} was chosen, and its space has "
                f"{allowed}: tune again"
            )
    return record
