"""A run of operators that VTA takes together: what it needs in memory, and its program.

In:   graph operators in execution order, all of which patterns.py accepted.
Out:  an OffloadedRegion (backend/region.py's LoweredRegion): forms of its tensors, aliases,
      constants; `build` makes the program.
Next: artifact/deploy.py plans the memory and asks for the program.

Tensors between operators stay blocked. Two kinds of operators cost nothing, because addresses do
their work:

    reshape that keeps channels and pixels         the output is the input's memory
    concatenation of whole channel blocks          each input *is* a part of the output:   | a a a |
                           b b |
    slice of whole channel blocks                  the output is a part of the input
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.artifact.format import DeviceProgram, Layer
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES
from loadstone.backend.region import Form, Place
from loadstone.vta.columns import fold_columns
from loadstone.vta.fold import UOP_TENSOR
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.layout import Blocked, Folded
from loadstone.vta.operators import LoweredOperator, folded_input, lower_operator
from loadstone.vta.program import build_program
from loadstone.vta.stream import Load, Operation

__all__ = ["OffloadedRegion", "find_aliases", "is_free"]


def blocked(tensor: g.Tensor, config: HwConfig) -> Blocked:
    """The layout of an activation on the device."""
    return Blocked(tensor.shape, config.batch, config.block)


class OffloadedRegion:
    """Lowered at construction; placed and encoded by `build`. Raises LoweringError."""

    def __init__(
        self,
        name: str,
        operators: Sequence[g.Operator],
        from_host: Sequence[g.Tensor],
        seen: Sequence[g.Tensor],
        config: HwConfig,
    ) -> None:
        """from_host: inputs that the host can pack in any form. seen: all inputs and outputs, which
        others know by their shape."""
        self.name = name
        self.operators = tuple(operators)
        self.config = config
        host = {tensor.name for tensor in from_host}
        inside = fold_columns(operators, {tensor.name for tensor in seen}, host, config)
        self.aliases = find_aliases(inside, config)
        self.constants: dict[str, tuple[NDArray[Any], int]] = {}
        self._lowered: dict[str, LoweredOperator] = {}
        self.tokens: Mapping[str, int] = {}
        self._forms: dict[str, tuple[Form, int, int]] = {}
        self._operations: list[tuple[str, Operation]] = []
        for position, operator in enumerate(inside):
            self._lower(operator, position, host)

    @property
    def stages(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """(title, text) of the lowering's stages, by operator, for dumps: printed when asked
        for."""
        return {name: lowered.stages for name, lowered in self._lowered.items()}

    @property
    def forms(self) -> Sequence[tuple[Form, int, int]]:
        """Every form and the first and last operator that touches it."""
        return list(self._forms.values())

    def build(self, places: Mapping[str, Place], uops: Place) -> tuple[DeviceProgram, bytes]:
        """The program and its micro-op table."""
        program = build_program(self._operations, {**places, UOP_TENSOR: uops}, self.config)
        self.tokens = program.tokens
        layers = tuple(Layer(layer, first, count) for first, count, layer in program.source_map)
        return DeviceProgram(
            self.name, program.instructions.tobytes(), layers
        ), program.uops.tobytes()

    def _lower(self, operator: g.Operator, position: int, host: set[str]) -> None:
        folded = (
            folded_input(operator, self.config)
            if operator.inputs and operator.input.name in host
            else None
        )
        for tensor in (*operator.inputs, *operator.outputs):
            if folded is not None and tensor is operator.input:
                self._use(_folded_form(tensor, folded, operator), position)
            else:
                self._use(_blocked_form(tensor, self.config), position)
        if is_done_by_addresses(operator, self.aliases):
            return
        lowered = lower_operator(operator, self.config, folded)
        renamed = f"{operator.input.name} for {operator.name}" if folded is not None else None
        for operation in lowered.operations:
            self._operations.append(
                (
                    operator.name,
                    operation
                    if renamed is None
                    else _rename(operation, operator.input.name, renamed),
                )
            )
        for name, (memory, tiles) in lowered.constants.items():
            self.constants[name] = (
                np.ascontiguousarray(tiles),
                self.config.tile_bytes(Memory(memory)),
            )
        self._lowered[operator.name] = lowered

    def _use(self, form: Form, position: int) -> None:
        first = self._forms[form.name][1] if form.name in self._forms else position
        self._forms[form.name] = (form, first, position)


def _blocked_form(tensor: g.Tensor, config: HwConfig) -> Form:
    n, c = tensor.shape[0], tensor.shape[-1] if len(tensor.shape) > 1 else 1
    height, width = (
        tensor.shape[1:3] if len(tensor.shape) == 4 else (1, blocked(tensor, config).pixels)
    )
    return Form(tensor.name, tensor, (n, height, width, c), config.batch, config.block)


def _folded_form(tensor: g.Tensor, folded: Folded, operator: g.Operator) -> Form:
    n, height, width, c = folded.blocked.shape
    kernel, strides, pads = folded.kernel, folded.strides, folded.padding
    name = f"{tensor.name} for {operator.name}"
    return Form(
        name,
        tensor,
        (n, height, width, c),
        folded.batch,
        folded.block,
        kernel,
        strides,
        pads,
        folded.pad_value,
    )


def _rename(operation: Operation, old: str, new: str) -> Operation:
    if isinstance(operation, Load) and operation.dram.tensor == old:
        return replace(operation, dram=replace(operation.dram, tensor=new))
    return operation


# --- operators that addresses do ------------------------------------------------------------------
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
            names = [t.name for t in operator.inputs]
            free = all(
                n in written and n not in aliases and n not in wholes for n in names
            ) and len(set(names)) == len(names)
            if parts is not None and free:
                aliases.update(
                    {
                        n: (operator.output.name, offset)
                        for n, offset in zip(names, parts, strict=True)
                    }
                )
        wholes.update(whole for whole, _ in aliases.values())
    return aliases


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
