# SPDX-License-Identifier: Apache-2.0
"""A segment of VTA: the memory that it needs, and its program.

In:   graph operators in execution order, all of which patterns.py accepted.
Out:  an OffloadedRegion (backend/region.py's LoweredRegion): layouts of its tensors, aliases,
      constants; `build` makes the program.
Next: artifact/deploy.py plans the memory and asks for the program.

Tensors between operators stay blocked. What only changes addresses costs nothing
(region/addresses.py). Where the device must be able to turn to another network within some cycles,
the region becomes several programs (region/pieces.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain as chained
from itertools import groupby, product
from operator import itemgetter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.device import LayerRange, ProgramStep
from loadstone.backend.region import Address, DeviceLayout, LoweredRegion
from loadstone.errors import LoweringError, VerificationError
from loadstone.graph.network import described
from loadstone.passes.log import PassLog, PassRun
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.operators import LoweredOperator, im2col_input, lower_operator
from loadstone.vta.operators.kernels import Constants
from loadstone.vta.operators.layout import Im2colLayout
from loadstone.vta.passes.pipeline import PASSES, build_program
from loadstone.vta.passes.program import UOP_TENSOR, LayerOperation, VtaProgram
from loadstone.vta.region.addresses import blocked, find_aliases, is_done_by_addresses
from loadstone.vta.region.chains import LayerChain, chains_of
from loadstone.vta.region.fold_pixels import fold_columns, verify_columns
from loadstone.vta.region.folded_input import folded_name, on_folded
from loadstone.vta.region.held_constants import HeldConstants
from loadstone.vta.region.pieces import cut
from loadstone.vta.region.request import RegionRequest
from loadstone.vta.region.turns import alone, constants_of, cycles_of, in_turns
from loadstone.vta.region.verify_pieces import verify_pieces
from loadstone.vta.schedule.choices import NO_LAYER_CHOICE
from loadstone.vta.stream.table import StreamColumns, columns_of, joined
from loadstone.vta.stream.text import operation_lines

__all__ = ["OffloadedRegion"]


def layout_type(config: HwConfig) -> str:
    """What an activation consists of on the device."""
    return "bfloat16" if config.is_float else "int8"


class OffloadedRegion(LoweredRegion):
    """Lowered at construction; placed and encoded by `build`. Raises LoweringError.

    takes_turns: whether layers may take turns (chains.py)."""

    takes_turns: ClassVar[bool] = True

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
        self._programs: list[tuple[VtaProgram, PassLog]] = []
        self.choice = request.of_region(operators, config)
        self.inside = tuple(inside)
        self.aliases = find_aliases(inside, config)
        self._held = HeldConstants(config)
        self._lowered: dict[str, LoweredOperator | None] = {}  # None: addresses do it
        self.tokens: Mapping[str, int] = {}
        self._layouts: dict[str, tuple[DeviceLayout, int, int]] = {}
        self._operations: list[LayerOperation] = []
        self._columns: list[StreamColumns] = []  # one behind the other those of all operations
        for position, operator in enumerate(inside):
            self._lower(operator, position)
        self._turns: dict[str, list[LayerOperation]] = {}  # by the first layer of a chain
        self._chains: list[tuple[str, ...]] = []
        if self.takes_turns and config.has(Capability.STORE_INP):
            self._try_turns()
        self.constants = self._held.arrays

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
            replace(run, text=partial(self._text_behind, piece, number))
            for number in range(len(PASSES))
            for piece, (_, log) in enumerate(self._programs)
            for run in log.runs[number : number + 1]
        ]
        return [*self._folding.runs, *kernels, *operations, *programs]

    @cached_property
    def _texts(self) -> list[list[str]]:
        """Of each program behind each pass; where one failed, behind those before it."""
        found = []
        for unbuilt, _ in self._programs:
            log = PassLog(self.name, texts=True)
            with suppress(LoweringError, VerificationError):
                build_program(unbuilt, log)
            found.append([run.text() for run in log.runs if run.text is not None])
        return found

    def _text_behind(self, piece: int, number: int) -> str:
        return self._texts[piece][number]

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
        """The program of all of it, and its micro-op table."""
        self._programs.clear()
        return self._built(self.name, self._whole({**addresses, UOP_TENSOR: uops}))

    def programs(
        self, addresses: Mapping[str, Address], uops: Callable[[], Address]
    ) -> Iterator[tuple[ProgramStep, bytes]]:
        """One, or with `piece_cycles` as many as it takes."""
        if self.piece_cycles is None:
            yield self.build(addresses, uops())
            return
        self._programs.clear()
        pieces = cut(self._operations, self.config, addresses, self.piece_cycles, self._held.packed)
        verify_pieces(self._operations, pieces, self.config, addresses)
        for number, piece in enumerate(pieces, 1):
            places = {**addresses, UOP_TENSOR: uops()}
            whole = self._whole(places)
            whole = replace(whole, operations=piece, columns=None, inside=frozenset(), chains=())
            yield self._built(f"{self.name}.{number}", whole)

    def _built(self, name: str, unbuilt: VtaProgram) -> tuple[ProgramStep, bytes]:
        """Behind all passes."""
        log = PassLog(self.name)
        self._programs.append((unbuilt, log))
        program = build_program(unbuilt, log)
        of_all = dict(self.tokens)
        for queue, count in program.tokens.items():
            of_all[queue] = max(count, of_all.get(queue, 0))
        self.tokens = of_all
        layers = tuple(
            LayerRange(layer, first, count) for first, count, layer in program.source_map()
        )
        return ProgramStep(
            name, program.instruction_bytes().tobytes(), layers
        ), program.uop_words().tobytes()

    def _whole(self, places: Mapping[str, Address]) -> VtaProgram:
        """What the passes begin with."""
        return VtaProgram(
            self.config,
            places,
            self._in_turns(),
            columns=None if self._chains else joined(self._columns),
            choice=self.choice,
            packed=self._held.packed,
            zero_tiles=_zero_tiles(
                lowered.constants for lowered in self._lowered.values() if lowered is not None
            ),
            inside=self._inside(),
            chains=self._chains,
        )

    def _inside(self) -> frozenset[str]:
        """Tensors of which nothing is a part of what others see."""
        seen = {self._whole_of(name) for name in self.seen}
        return frozenset(name for name in self._layouts if self._whole_of(name) not in seen)

    def _whole_of(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name][0]
        return name

    # --- layers that take turns -------------------------------------------------------------------
    def _in_turns(self) -> list[LayerOperation]:
        """The operations; those of layers that take turns in bands."""
        in_bands = set(chained.from_iterable(self._chains))
        layers = groupby(self._operations, key=itemgetter(0))
        each = (self._turns.get(name, []) if name in in_bands else own for name, own in layers)
        return list(chained.from_iterable(each))

    def _try_turns(self) -> None:
        """Chain by chain; where all of them together then take no less, none takes turns."""
        layouts, held = self._layouts.copy(), self._held
        for chain in chains_of(self.inside, self.seen, self._folded):
            self._try_chain(chain)
        if not self._chains:
            return
        sizes = {name: layout.size_bytes for name, (layout, _, _) in layouts.items()}
        whole = self._whole({})
        turns = cycles_of(whole, sizes)
        one_by_one = replace(whole, operations=self._operations, chains=(), packed=held.packed)
        before = cycles_of(one_by_one, sizes)
        if turns is None or (before is not None and before <= turns):
            self._chains, self._turns, self._layouts, self._held = [], {}, layouts, held

    def _try_chain(self, chain: LayerChain) -> None:
        requests = [self.request.of_layer(op, self.config) for op in chain.operators]
        lowered = {name: self._lowered[name] for name in chain.layers}
        whole = {name: each for name, each in lowered.items() if each is not None}
        if any(request.choice != NO_LAYER_CHOICE for request in requests) or len(whole) < 3:
            return
        sizes = {name: self._layouts[name][0].size_bytes for name in chain.tensors}
        own = alone(chain, self._whole({}))
        bands = in_turns(chain, whole, requests[0], own, sizes, self._held)
        if bands is not None:
            self._held = self._held.loaded_by(constants_of(whole), [o for _, o in bands])
            self._chains.append(chain.layers)
            self._turns[chain.layers[0]] = bands
            for op, name in product(chain.operators, chain.tensors):
                self._use(self._layouts[name][0], self.inside.index(op))

    def _folded(self, operator: g.Operator) -> Im2colLayout | None:
        if not operator.inputs or operator.input.name not in self.host:
            return None
        return im2col_input(operator, self.config, self.request.of_layer(operator, self.config))

    def _lower(self, operator: g.Operator, position: int) -> None:
        request = self.request.of_layer(operator, self.config)
        folded = self._folded(operator)
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
            operations = on_folded(operator, operations)
        self._columns.append(columns_of(operations) if folded is not None else lowered.columns)
        self._operations += [(operator.name, operation) for operation in operations]
        self._held.keep(lowered.constants, operations)
        for name, size_tiles in lowered.scratch.items():
            self._use(_scratch_layout(name, size_tiles, operator, self.config), position)
        self._lowered[operator.name] = lowered

    def _use(self, layout: DeviceLayout, position: int) -> None:
        _, first, last = self._layouts.get(layout.name, (layout, position, position))
        self._layouts[layout.name] = (layout, min(first, position), max(last, position))


def _zero_tiles(constants: Iterable[Constants]) -> dict[str, NDArray[np.bool_]]:
    """Of the weights that have them, which tiles hold nothing but zeros."""
    found = {}
    for name, (memory, tiles) in chained.from_iterable(own.items() for own in constants):
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
    dtype = "int32" if tensor.dtype == "int32" else layout_type(config)
    height, width = (
        tensor.shape[1:3] if len(tensor.shape) == 4 else (1, blocked(tensor, config).pixels)
    )
    shape = (n, height, width, c)
    return DeviceLayout(tensor.name, tensor, shape, config.batch, config.block, dtype=dtype)


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
    return DeviceLayout(
        folded_name(operator),
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
