# SPDX-License-Identifier: Apache-2.0
"""Operators of a region that cost nothing, because they only change addresses.

In:   operators in execution order.
Out:  which of their tensors are parts of others, and whether an operator has nothing left to do.
Next: region/offload.py gives these tensors one memory.

    reshape that keeps channels and pixels         the output is the input's memory
    concatenation of whole channel blocks          each input *is* a part of the output:   | a a a |
                           b b |
    slice of whole channel blocks                  the output is a part of the input
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone import graph as g
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators.layout import Blocked

__all__ = ["blocked", "find_aliases", "is_done_by_addresses", "is_free"]


def blocked(tensor: g.Tensor, config: HwConfig) -> Blocked:
    """The layout of an activation on the device."""
    return Blocked(tensor.shape, config.batch, config.block)


def is_free(operator: g.Operator, config: HwConfig) -> bool:
    """Whether addresses alone can do the operator, given that its inputs are made on the device."""
    if isinstance(operator, g.Reshape):
        return _same_tiles(operator.input, operator.output, config)
    if isinstance(operator, g.Slice):
        return _slice_offset(operator, config) is not None
    return isinstance(operator, g.Concatenate) and _parts(operator, config) is not None


def is_done_by_addresses(operator: g.Operator, aliases: Mapping[str, tuple[str, int]]) -> bool:
    """Whether the region's aliases leave the operator nothing to do."""
    if isinstance(operator, g.Concatenate):
        return all(aliases.get(t.name, ("", 0))[0] == operator.output.name for t in operator.inputs)
    return (
        operator.output.name in aliases and aliases[operator.output.name][0] == operator.input.name
    )


def find_aliases(operators: Sequence[g.Operator], config: HwConfig) -> dict[str, tuple[str, int]]:
    """Name of a tensor -> (the tensor that it is a part of, offset in bytes)."""
    aliases: dict[str, tuple[str, int]] = {}
    written = {t.name for o in operators for t in o.outputs}
    wholes: set[str] = set()
    for operator in operators:
        if isinstance(operator, g.Reshape) and _same_tiles(operator.input, operator.output, config):
            aliases[operator.output.name] = (operator.input.name, 0)
        elif isinstance(operator, g.Slice):
            offset = _slice_offset(operator, config)
            if offset is not None:
                aliases[operator.output.name] = (operator.input.name, offset)
        elif isinstance(operator, g.Concatenate):
            parts = _parts(operator, config)
            if parts is not None and _can_be_parts(operator, written - aliases.keys() - wholes):
                aliases.update(
                    (part.name, (operator.output.name, offset))
                    for part, offset in zip(operator.inputs, parts, strict=True)
                )
        wholes.update(whole for whole, _ in aliases.values())
    return aliases


def _can_be_parts(operator: g.Concatenate, movable: set[str]) -> bool:
    """Whether each input is made here and is in no other place yet, also not twice in this one."""
    names = [tensor.name for tensor in operator.inputs]
    return len(set(names)) == len(names) and movable.issuperset(names)


def _same_tiles(a: g.Tensor, b: g.Tensor, config: HwConfig) -> bool:
    """One shape in tiles, and one quantization: nothing moves."""
    if (
        a.dtype != b.dtype
        or a.quantization != b.quantization
        or len(a.shape) < 2
        or len(b.shape) < 2
    ):
        return False
    return (
        a.shape[0] == b.shape[0]
        and a.shape[-1] == b.shape[-1]
        and blocked(a, config).pixels == blocked(b, config).pixels
    )


def _slice_offset(operator: g.Slice, config: HwConfig) -> int | None:
    """Bytes from the input's start to a slice of whole channel blocks; None for any other slice."""
    shape, out = operator.input.shape, operator.output.shape
    if (
        shape[0] != config.batch
        or shape[:-1] != out[:-1]
        or set(operator.strides) != {1}
        or operator.begin[-1] % config.block
    ):
        return None
    offset = (
        operator.begin[-1]
        // config.block
        * blocked(operator.input, config).pixels
        * config.tile_bytes(Memory.INP)
    )
    return offset if offset % DEVICE_ALIGN_BYTES == 0 else None


def _parts(operator: g.Concatenate, config: HwConfig) -> list[int] | None:
    """Offsets of the inputs in the output, in bytes, where all are whole channel blocks; else
    None."""
    shape = operator.output.shape
    if (
        operator.axis != len(shape) - 1
        or shape[0] != config.batch
        or not operator.is_copy
        or (operator.low, operator.high) != (-128, 127)
    ):
        return None
    if any(t.shape[-1] % config.block for t in operator.inputs[:-1]):
        return None
    plane = blocked(operator.output, config).pixels * config.tile_bytes(Memory.INP)
    offsets, block = [], 0
    for tensor in operator.inputs:
        offsets.append(block * plane)
        block += -(-tensor.shape[-1] // config.block)
    return offsets if all(offset % DEVICE_ALIGN_BYTES == 0 for offset in offsets) else None
