# SPDX-License-Identifier: Apache-2.0
"""A segment of VTA: the memory that it needs, and its program.

In:   graph operators in execution order, all of which patterns.py accepted.
Out:  an OffloadedRegion (backend/region.py's LoweredRegion): layouts of its tensors, aliases,
      constants; `build` makes the program.
Next: artifact/deploy.py plans the memory and asks for the program.

Tensors between operators stay blocked. Some operators cost nothing, because they only change
addresses:

    reshape that keeps channels and pixels         the output is the input's memory
    concatenation of whole channel blocks          each input *is* a part of the output:   | a a a |
                           b b |
    slice of whole channel blocks                  the output is a part of the input
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.artifact.memory_plan import DEVICE_ALIGN_BYTES
from loadstone.backend.device import LayerRange, ProgramStep
from loadstone.backend.region import Address, DeviceLayout, LoweredRegion
from loadstone.errors import LoweringError, VerificationError
from loadstone.graph.network import described
from loadstone.numerics import Array
from loadstone.passes.log import PassLog, PassRun
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import LoweredOperator, im2col_input, lower_operator
from loadstone.vta.operators.kernels import Constants
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from loadstone.vta.passes.pipeline import build_program
from loadstone.vta.passes.program import UOP_TENSOR, LayerOperation, VtaProgram
from loadstone.vta.region.fold_pixels import fold_columns, verify_columns
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.stream.operations import Operation, TileLoad
from loadstone.vta.stream.table import StreamColumns, columns_of, joined
from loadstone.vta.stream.text import operation_lines

__all__ = ["OffloadedRegion", "find_aliases", "is_free"]


def blocked(tensor: g.Tensor, config: HwConfig) -> Blocked:
    """The layout of an activation on the device."""
    return Blocked(tensor.shape, config.batch, config.block)


def layout_type(config: HwConfig) -> str:
    """What an activation consists of on the device."""
    return "bfloat16" if config.is_float else "int8"


class OffloadedRegion(LoweredRegion):
    """Lowered at construction; placed and encoded by `build`. Raises LoweringError."""

    def __init__(
        self,
        name: str,
        operators: Sequence[g.Operator],
        from_host: Sequence[g.Tensor],
        seen: Sequence[g.Tensor],
        config: HwConfig,
        request: RegionRequest | None = None,
    ) -> None:
        """from_host: inputs that the host can pack in any layout. seen: all inputs and outputs,
        which others know by their shape. request: None asks for nothing in particular."""
        # inside: the operators as they are lowered. host, seen: names of these tensors.
        self.name = name
        self.operators = tuple(operators)
        self.config = config
        host = self.host = frozenset(tensor.name for tensor in from_host)
        self.seen = frozenset(tensor.name for tensor in seen)
        request = self.request = request or RegionRequest()
        self._folding = PassLog(name, texts=True)
        inside = self._folding.run(
            "fold_columns",
            lambda chain: fold_columns(chain, self.seen, host, config, request),
            self.operators,
            verify=partial(verify_columns, self.seen),
            show=lambda made: "\n".join(map(described, made)),
        )
        self._programs = PassLog(name)
        self.choice = request.of_region(operators, config)
        self.inside = tuple(inside)
        self.aliases = find_aliases(inside, config)
        self.constants: dict[str, tuple[Array, int]] = {}
        self._lowered: dict[str, LoweredOperator | None] = {}  # None: addresses do it
        self._placed: Mapping[str, Address] | None = None
        self.tokens: Mapping[str, int] = {}
        self._layouts: dict[str, tuple[DeviceLayout, int, int]] = {}
        self._operations: list[LayerOperation] = []
        self._columns: list[StreamColumns] = []  # one behind the other those of all operations
        for position, operator in enumerate(inside):
            self._lower(operator, position, host)

    @property
    def runs(self) -> Sequence[PassRun]:
        """Of the passes on its operators, then of those on its program, whose texts take running
        them again: a program of a large network does not stay in memory for that."""
        every = ((name, lowered) for name, lowered in self._lowered.items() if lowered is not None)
        kernels = [run for name, lowered in every for run in lowered.runs(name)]
        operations = [
            PassRun("operations", name, bool(made and made.is_verified), text)
            for name, made in self._lowered.items()
            for text in (partial(_operations_text, name, made),)
        ]
        programs = [
            replace(run, text=partial(self._text_behind, number))
            for number, run in enumerate(self._programs.runs)
        ]
        return [*self._folding.runs, *kernels, *operations, *programs]

    @cached_property
    def _texts(self) -> list[str]:
        """Behind each pass of the program; where one failed, behind those before it."""
        assert self._placed is not None
        log = PassLog(self.name, texts=True)
        with suppress(LoweringError, VerificationError):
            build_program(self._unbuilt(self._placed), log)
        return [run.text() for run in log.runs if run.text is not None]

    def _text_behind(self, number: int) -> str:
        return self._texts[number]

    @property
    def remarks(self) -> Mapping[str, str]:
        """By operator, how it is done where that is no matter of course."""
        lowered = {name: entry for name, entry in self._lowered.items() if entry is not None}
        return _Remarks({name: entry.remark for name, entry in lowered.items() if entry.remark})

    @property
    def layouts(self) -> Sequence[tuple[DeviceLayout, int, int]]:
        """Every layout and the first and last operator that touches it."""
        return list(self._layouts.values())

    def build(self, addresses: Mapping[str, Address], uops: Address) -> tuple[ProgramStep, bytes]:
        """The program and its micro-op table."""
        self._placed = {**addresses, UOP_TENSOR: uops}
        self._programs = PassLog(self.name)
        program = build_program(self._unbuilt(self._placed), self._programs)
        self.tokens = program.tokens
        layers = tuple(
            LayerRange(layer, first, count) for first, count, layer in program.source_map()
        )
        return ProgramStep(
            self.name, program.instruction_bytes().tobytes(), layers
        ), program.uop_words().tobytes()

    def _unbuilt(self, places: Mapping[str, Address]) -> VtaProgram:
        """What the passes begin with."""
        return VtaProgram(
            self.config,
            places,
            self._operations,
            columns=joined(self._columns),
            choice=self.choice,
            zero_tiles=_zero_tiles(
                lowered.constants for lowered in self._lowered.values() if lowered is not None
            ),
        )

    def _lower(self, operator: g.Operator, position: int, host: Set[str]) -> None:
        request = self.request.of_layer(operator, self.config)
        folded = (
            im2col_input(operator, self.config, request)
            if operator.inputs and operator.input.name in host
            else None
        )
        for tensor in (*operator.inputs, *operator.outputs):
            if folded is not None and tensor is operator.input:
                dtype = layout_type(self.config)
                self._use(_im2col_layout(tensor, folded, operator, dtype), position)
            else:
                self._use(_blocked_layout(tensor, self.config), position)
        if is_done_by_addresses(operator, self.aliases):
            self._lowered[operator.name] = None
            return
        # The predicate lowered it alone, with an input that nobody folds.
        lowered = self.request.lowered(operator, request) if folded is None else None
        lowered = lowered or lower_operator(operator, self.config, folded, request)
        operations = lowered.operations
        if folded is not None:
            renamed = f"{operator.input.name} for {operator.name}"
            operations = [_rename(o, operator.input.name, renamed) for o in operations]
        self._columns.append(columns_of(operations) if folded is not None else lowered.columns)
        self._operations += [(operator.name, operation) for operation in operations]
        for name, (memory, tiles) in lowered.constants.items():
            self.constants[name] = (
                np.ascontiguousarray(tiles),
                self.config.tile_bytes(Memory(memory)),
            )
        for name, size_tiles in lowered.scratch.items():
            self._use(_scratch_layout(name, size_tiles, operator, self.config), position)
        self._lowered[operator.name] = lowered

    def _use(self, layout: DeviceLayout, position: int) -> None:
        first = self._layouts[layout.name][1] if layout.name in self._layouts else position
        self._layouts[layout.name] = (layout, first, position)


def _zero_tiles(constants: Iterable[Constants]) -> dict[str, NDArray[np.bool_]]:
    """Of the weights that have them, which tiles hold nothing but zeros."""
    found = {}
    for name, (memory, tiles) in chain.from_iterable(own.items() for own in constants):
        zeros = np.logical_not(np.any(tiles, axis=tuple(range(1, tiles.ndim))))
        if memory is Memory.WGT and zeros.any():
            found[name] = np.asarray(zeros, np.bool_)
    return found


def _operations_text(name: str, lowered: LoweredOperator | None) -> str:
    """What became of one operator."""
    if lowered is None:
        return "# nothing to do: its tensors share memory\n"
    lines = operation_lines((name, operation) for operation in lowered.operations)
    return "\n".join(lines) + "\n"


def _blocked_layout(tensor: g.Tensor, config: HwConfig) -> DeviceLayout:
    n, c = tensor.shape[0], tensor.shape[-1] if len(tensor.shape) > 1 else 1
    height, width = (
        tensor.shape[1:3] if len(tensor.shape) == 4 else (1, blocked(tensor, config).pixels)
    )
    shape = (n, height, width, c)
    return DeviceLayout(
        tensor.name, tensor, shape, config.batch, config.block, dtype=layout_type(config)
    )


def _scratch_layout(
    name: str, size_tiles: int, operator: g.Operator, config: HwConfig
) -> DeviceLayout:
    shape = (config.batch, 1, size_tiles, config.block)
    return DeviceLayout(
        name,
        operator.output,
        shape,
        config.batch,
        config.block,
        scratch=True,
        dtype=layout_type(config),
    )


def _im2col_layout(
    tensor: g.Tensor, folded: Im2colLayout, operator: g.Operator, dtype: str
) -> DeviceLayout:
    n, height, width, c = folded.blocked.shape
    kernel, strides, pads = folded.kernel, folded.strides, folded.padding
    name = f"{tensor.name} for {operator.name}"
    return DeviceLayout(
        name,
        tensor,
        (n, height, width, c),
        folded.batch,
        folded.block,
        kernel,
        strides,
        pads,
        folded.pad_value,
        dtype=dtype,
    )


def _rename(operation: Operation, old: str, new: str) -> Operation:
    if isinstance(operation, TileLoad) and operation.dram.tensor == old:
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


class _Remarks(Mapping[str, str]):
    """Made when somebody reads them: they compare a layer with others that it might be."""

    def __init__(self, made: Mapping[str, Callable[[], str]]) -> None:
        self._made = made

    def __getitem__(self, name: str) -> str:
        return self._made[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
