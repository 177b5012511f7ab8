# SPDX-License-Identifier: Apache-2.0
"""Programs of an accelerator's own instructions: instructions that name tensors, and their encoding
once all tensors are placed.

In:   a segment's operators; the instructions of each, with `At` for addresses.
Out:  ProgramRegion, which a back end's `lower` returns.
Next: artifact/deploy.py plans the memory and asks for the program; the runtime fills in addresses.

    region = ProgramRegion(segment, self.accelerator)
    x = region.tensor(operator.input, block=16)        # channels last, rounded up to 16
    w = region.constant(f"{operator.name}.w", weights)
    region.emit(operator, TableInsn("mvin", {"address": At(x, 64), "rows": 4}))
    return region
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from loadstone import graph as g
from loadstone.backend.constants import (
    check_address,
    check_constants,
    check_emitted,
    check_numbers,
)
from loadstone.backend.device import LayerRange, ProgramDevice, ProgramStep, Relocation
from loadstone.backend.interface import Segment
from loadstone.backend.region import Address, DeviceLayout, LoweredRegion
from loadstone.errors import LoweringError
from loadstone.isa.accelerator import Accelerator
from loadstone.isa.codec import At, TableInsn, check_fields, decode, encode
from loadstone.isa.follow import Placed, ProgramRefusal
from loadstone.isa.program_check import ProgramMemory, RegionLimits, check_program
from loadstone.isa.program_tokens import prove_tokens, with_tokens
from loadstone.isa.table import InstructionTable
from loadstone.isa.text import disassemble
from loadstone.isa.tiled import in_rows
from loadstone.isa.tiles import TiledInsn
from loadstone.isa.verify_rows import verify_rows
from loadstone.numerics import Array
from loadstone.passes.log import PassLog, PassRun

__all__ = ["ProgramRegion", "verify_code"]

_ALIGN_BYTES = 64


#: Instructions, and which of them belong to which layer.
_Ranged: TypeAlias = tuple[Sequence[TableInsn], Sequence[LayerRange]]


def verify_code(table: InstructionTable, insns: Sequence[TableInsn], code: bytes) -> None:
    """Raises LoweringError where bytes do not decode to the instructions that they were encoded
    from; addresses, which the runtime fills in, are zero."""
    read, forms = decode(table, code), table.by_name
    if len(read) != len(insns):
        raise LoweringError(f"{len(insns)} instructions decode to {len(read)}")
    for number, (insn, other) in enumerate(zip(insns, read, strict=True)):
        said = [(field.name, insn.fields.get(field.name, 0)) for field in forms[insn.name].fields]
        fields = {name: 0 if isinstance(value, At) else value for name, value in said}
        if (insn.name, fields) != (other.name, other.fields):
            raise LoweringError(f"instruction {number}, {insn.name}, decodes to {other}")


class ProgramRegion(LoweredRegion):
    """A segment on an accelerator: tensors and constants by name, instructions by operator."""

    def __init__(self, segment: Segment, accelerator: Accelerator | None) -> None:
        """accelerator: of the back end. Raises LoweringError for a back end without one."""
        if accelerator is None:
            raise LoweringError(
                f"{segment.name}: its back end {segment.backend} has no accelerator"
            )
        self.name = segment.name
        self.operators = segment.operators
        self.accelerator = accelerator
        self.aliases: Mapping[str, tuple[str, int]] = {}
        self.constants: dict[str, tuple[Array, int]] = {}
        self._layouts: dict[str, tuple[DeviceLayout, int, int]] = {}
        self._insns: list[TableInsn | TiledInsn] = []
        self._layers: list[LayerRange] = []
        self._used: dict[str, list[int]] = {}
        self._sources: Sequence[int] | None = None  # of instructions with rows: those with tiles
        self._logs: dict[str, PassLog] = {}  # of each operator, and of the program
        for position, operator in enumerate(segment.operators):
            for tensor in (*operator.inputs, *operator.outputs):
                self._used.setdefault(tensor.name, []).append(position)

    @property
    def program_device(self) -> ProgramDevice:
        """The device of its program."""
        accelerator = self.accelerator
        attributes = json.dumps(dict(accelerator.attributes), sort_keys=True)
        return ProgramDevice(accelerator.name, accelerator.table.fingerprint, attributes)

    # --- what a back end says ---------------------------------------------------------------------
    def tensor(self, tensor: g.Tensor, block: int = 1) -> str:
        """The symbol of a tensor of the segment in the device's memory: (N, H, W, C) int8, channels
        last and rounded up to a multiple of `block`; for other ranks N first and C last."""
        channels = tensor.shape[-1] if len(tensor.shape) > 1 else 1
        rows = tensor.size // max(channels * tensor.shape[0], 1)
        shape = tensor.shape if len(tensor.shape) == 4 else (tensor.shape[0], 1, rows, channels)
        name = f"{tensor.name} for {self.device}"
        rounded = -(-shape[-1] // block) * block
        first, *_, last = sorted((*self._used[tensor.name], *self._used[tensor.name]))
        layout = DeviceLayout(name, tensor, (*shape[:3], shape[3]), 1, rounded)
        self._layouts[name] = (layout, first, last)
        return name

    def scratch(self, operator: g.Operator, name: str, size_bytes: int) -> str:
        """The symbol of memory for a single operator."""
        position = self.operators.index(operator)
        layout = DeviceLayout(name, operator.output, (1, 1, 1, size_bytes), 1, 1, scratch=True)
        self._layouts[name] = (layout, position, position)
        return name

    def constant(self, name: str, value: Array) -> str:
        """The symbol of an array of any shape, which the artifact contains in this form. Raises
        LoweringError for what are no numbers; `build` for those of another type than the memory
        has into which an instruction reads them."""
        check_numbers(name, value)
        symbol = f"{name} for {self.device}"
        align = max(_ALIGN_BYTES, self.align_bytes)
        self.constants[symbol] = (np.ascontiguousarray(value), align)
        return symbol

    def log(self, operator: g.Operator) -> PassLog:
        """For the passes that make an operator's instructions: `with_copies` and `lowered` of
        lowering.py take it."""
        return self._logs.setdefault(operator.name, PassLog(operator.name, texts=True))

    def emit(self, operator: g.Operator, *insns: TableInsn | TiledInsn) -> None:
        """Appends instructions of an operator; those that name tiles get their rows in `build`.
        Raises EncodingError for a field that the instruction lacks, and for a value outside its
        limits."""
        for insn in insns:
            check_emitted(self.accelerator.table, operator.name, insn)
        if not self._layers or self._layers[-1].name != operator.name:
            self._layers.append(LayerRange(operator.name, len(self._insns), 0))
        last = self._layers[-1]
        self._layers[-1] = LayerRange(last.name, last.first, last.count + len(insns))
        self._insns += insns

    # --- LoweredRegion ----------------------------------------------------------------------------
    @property
    def align_bytes(self) -> int:
        """Where tensors and constants begin: at a multiple of what the table's address fields
        count."""
        fields = (field for form in self.accelerator.table.forms for field in form.fields)
        return max((1 << field.shift for field in fields if field.address), default=1)

    @property
    def instructions(self) -> Sequence[TableInsn]:
        """All instructions so far, with rows."""
        return self._in_rows()[0]

    @property
    def layouts(self) -> Sequence[tuple[DeviceLayout, int, int]]:
        """Every tensor that an instruction may name."""
        return list(self._layouts.values())

    def build(self, addresses: Mapping[str, Address], uops: Address) -> tuple[ProgramStep, bytes]:
        """The program for these addresses; it has no micro-ops. Raises LoweringError for one that
        the runtime would refuse."""
        table = self.accelerator.table
        memory = self._memory(addresses)
        log = self._logs[self.name] = PassLog(self.name, texts=True)
        insns, layers = log.run(
            "rows", lambda _: self._in_rows(), (), verify=self._verify_rows, show=self._text
        )
        if table.queues:
            insns, layers = log.run(
                "tokens",
                lambda made: self._ordered(*made, memory),
                (insns, layers),
                verify=lambda _, made: prove_tokens(table, made[0], memory.where, memory.content),
                show=self._text,
            )
        code = log.run(
            "code",
            partial(encode, table),
            insns,
            verify=partial(verify_code, table),
            show=lambda made: f"{len(made)} bytes\n{made.hex(' ', 16)}\n",
        )
        relocations, at = [], 0
        for insn in insns:
            for field in table.by_name[insn.name].fields:
                value = insn.fields.get(field.name)
                if isinstance(value, At):
                    place = self._place(insn.name, value, addresses)
                    bit = table.places[insn.name][field.name]
                    addend = place.offset_bytes + value.offset_bytes
                    check_address(self.name, insn.name, field, value, addend)
                    where = at, bit, field.width, field.shift
                    relocations.append(Relocation(*where, int(place.region), addend))
            at += table.sizes[insn.name]
        check_constants(table, insns, {name: value for name, (value, _) in self.constants.items()})
        self._require_sound(insns, memory)
        relocations.sort(key=lambda r: (r.offset_bytes, r.bit))
        return ProgramStep(
            self.name,
            code,
            tuple(layers),
            insn_count=len(insns),
            relocations=tuple(relocations),
        ), b""

    def _require_sound(self, insns: Sequence[TableInsn], memory: ProgramMemory) -> None:
        """What the runtime would refuse is refused here, where it is made."""
        try:
            check_program(self.accelerator.table, insns, memory)
        except ProgramRefusal as refusal:
            raise LoweringError(f"{self.name} on {self.device}: {refusal}") from None

    def _place(self, name: str, at: At, addresses: Mapping[str, Address]) -> Address:
        if at.symbol not in addresses:
            raise LoweringError(
                f"{self.name}: {name} names {at.symbol!r}, which is no tensor and no constant of "
                "the region"
            )
        return addresses[at.symbol]

    @property
    def runs(self) -> Sequence[PassRun]:
        """The passes that ran on its operators, then those on its program."""
        return [run for log in self._logs.values() for run in log.runs]

    def _memory(self, addresses: Mapping[str, Address]) -> ProgramMemory:
        """What the program may touch: of each region as much as holds the tensors and constants
        that its instructions may name."""
        constants = [
            (int(place.region), place.offset_bytes, value.tobytes())
            for symbol, (value, _) in self.constants.items()
            if (place := addresses.get(symbol)) is not None
        ]
        written = [
            (int(place.region), place.offset_bytes + layout.size_bytes)
            for name, (layout, _, _) in self._layouts.items()
            if (place := addresses.get(name)) is not None
        ]
        ends = [*written, *((region, first + len(data)) for region, first, data in constants)]
        sizes: dict[int, int] = {}
        for region, end in ends:
            sizes[region] = max(end, sizes.get(region, 0))
        writable = {region for region, _ in written}

        def where(at: At) -> Placed:
            place = self._place("an instruction", at, addresses)
            return int(place.region), place.offset_bytes + at.offset_bytes

        def content(place: Placed, size: int) -> bytes | None:
            for region, first, data in constants:
                at = place[1] - first
                if region == place[0] and 0 <= at <= len(data) - size:
                    return data[at : at + size]
            return None

        limits: dict[Hashable, RegionLimits] = {
            region: RegionLimits(size, writes=region in writable) for region, size in sizes.items()
        }
        return ProgramMemory(limits, where, content)

    def _verify_rows(self, _: object, made: _Ranged) -> None:
        """Raises EncodingError for a row outside its field's limits, and LoweringError where an
        instruction does not find in its rows what it found in its tiles."""
        table, tiled = self.accelerator.table, self._tiled
        for insn in made[0]:
            check_fields(table, insn)
        if self._sources is not None:
            verify_rows(table, tiled, made[0], self._sources)

    @property
    def _tiled(self) -> list[TiledInsn]:
        return [TiledInsn(insn.name, insn.fields) for insn in self._insns]

    def _text(self, made: _Ranged) -> str:
        """Instructions under the names of their layers."""
        insns, layers = made
        return "".join(
            f"# layer {layer.name}\n"
            + disassemble(self.accelerator.table, insns[layer.first : layer.first + layer.count])
            for layer in layers
        )

    def _in_rows(self) -> tuple[Sequence[TableInsn], Sequence[LayerRange]]:
        """The instructions with rows instead of tiles."""
        plain = [insn for insn in self._insns if isinstance(insn, TableInsn)]
        if len(plain) == len(self._insns):
            return plain, self._layers
        accelerator = self.accelerator
        layer_of = [n for n, layer in enumerate(self._layers) for _ in range(layer.count)]
        try:
            insns, sources = in_rows(accelerator.table, self._tiled, layer_of, accelerator.port)
        except LoweringError as error:
            raise LoweringError(f"{self.name} on {self.device}: {error}") from None
        self._sources = sources
        counts = Counter(layer_of[source] for source in sources)
        firsts = accumulate((counts[n] for n in range(len(self._layers))), initial=0)
        layers = [
            LayerRange(layer.name, first, counts[n])
            for n, (layer, first) in enumerate(zip(self._layers, firsts, strict=False))
        ]
        return insns, layers

    def _ordered(
        self,
        insns: Sequence[TableInsn],
        ranges: Sequence[LayerRange],
        memory: ProgramMemory,
    ) -> tuple[Sequence[TableInsn], Sequence[LayerRange]]:
        """The instructions with tokens. A no-op belongs to the layer of the instruction after
        it."""
        try:
            found = with_tokens(self.accelerator.table, insns, memory.where, memory.content)
        except LoweringError as error:
            raise LoweringError(f"{self.name} on {self.device}: {error}") from None
        count_before = [0]
        for _, source in found:
            count_before.append(max(count_before[-1], source + 1))
        layers, first = [], 0
        for layer in ranges:
            end = bisect_left(count_before, layer.first + layer.count)
            layers.append(LayerRange(layer.name, first, end - first))
            first = end
        return [insn for insn, _ in found], layers
