# SPDX-License-Identifier: Apache-2.0
"""The buffers of a function of TensorIR as tensors of tiles.

In:   a PrimFunc of loops; the device's MemoryTable.
Out:  `Tensors`: a tensor for each buffer, and whose value each tensor holds.
Next: tir_store.py reads stores into them.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

from loadstone.errors import LoweringError
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nests import NestTensor, Role
from loadstone.relax.compat import TensorLoad, is_tir_call, loaded_buffer, structural_walk, tirx

if TYPE_CHECKING:
    from loadstone.relax.types import Buffer, BufferStore, Expr, PrimFunc

__all__ = ["SCOPE", "Tensors", "loaded"]

#: In front of a memory's name in the scope of a buffer.
SCOPE = "local."
_DRAM = "global"


class Tensors:
    """tables: names of parameters that are tables. renamed: tensors whose values are computed in
    the place of another.

    An operation that writes another buffer than it reads works in place, and the buffer takes the
    tensor over: what reads the former one afterwards is refused, until that is written anew.
    """

    def __init__(self, function: PrimFunc, table: MemoryTable, tables: Container[str]) -> None:
        self._table = table
        self._tensors: dict[int, NestTensor] = {}
        self._buffers: list[Buffer] = []  # so that addresses stay theirs
        self._scopes: dict[NestTensor, str | None] = {}
        self._holds: dict[NestTensor, int] = {}
        self.renamed: set[NestTensor] = set()
        for parameter in function.params[:]:
            role: Role = "table" if str(parameter.name) in tables else "param"
            self._add(parameter, role, None)
        self.parameters = list(self._tensors.values())
        self.copied = self._copied(function)

    def named(self) -> list[NestTensor]:
        """Parameters, and locals whose memory is open."""
        open_locals = [
            tensor
            for tensor in dict.fromkeys(self._tensors.values())
            if tensor.role == "local" and tensor.memory is None and tensor not in self.renamed
        ]
        return [*self.parameters, *open_locals]

    def allocated(self, buffer: Buffer) -> NestTensor:
        """The tensor of a buffer that is allocated here."""
        known = self._tensors.get(buffer.__chandle__())
        if known is not None:
            return known
        name, scope = str(buffer.name), str(buffer.scope())
        memory = scope.removeprefix(SCOPE) if scope.startswith(SCOPE) else None
        if memory is not None and memory not in self._table.depth_tiles:
            those = ", ".join(SCOPE + each for each in self._table.depth_tiles)
            raise LoweringError(f"TensorIR: {name} has scope {scope!r}, not one of {those}")
        if memory is None and self.copied:
            raise LoweringError(
                f"TensorIR: {name} is allocated in scope {scope!r}, where other buffers have "
                f"copies: give it the scope of a memory, such as {SCOPE}{self._table.result}"
            )
        tensor = self._add(buffer, "local", memory if self.copied else None)
        self._scopes[tensor] = memory
        return tensor

    def of(self, buffer: Buffer) -> NestTensor:
        """The tensor of a buffer that is read or written."""
        found = self._tensors.get(buffer.__chandle__())
        if found is None:
            raise LoweringError(f"TensorIR: {buffer.name} is used where it is not allocated")
        return found

    def scope(self, tensor: NestTensor) -> str | None:
        """The memory that its buffer's scope names; None: none."""
        return self._scopes.get(tensor)

    def read(self, buffer: Buffer) -> NestTensor:
        """As `of`. Raises LoweringError where another buffer has taken the tensor over."""
        tensor = self.of(buffer)
        if self._holds.get(tensor, buffer.__chandle__()) != buffer.__chandle__():
            raise LoweringError(
                f"TensorIR: {buffer.name} is read after another buffer was computed in its place"
            )
        return tensor

    def written(self, buffer: Buffer) -> None:
        """The buffer begins to hold something."""
        self._holds[self.of(buffer)] = buffer.__chandle__()

    def take_over(self, buffer: Buffer, head: Buffer) -> None:
        """From now on the tensor of `head` is that of `buffer`."""
        tensor, former = self.read(head), self.of(buffer)
        if former is not tensor and former in self._holds:
            raise LoweringError(
                f"TensorIR: {buffer.name} is computed in the place of {head.name}, and was written "
                "before"
            )
        if former is not tensor:
            self.renamed.add(former)
        self._tensors[buffer.__chandle__()] = tensor
        self._holds[tensor] = buffer.__chandle__()

    def _add(self, buffer: Buffer, role: Role, memory: str | None) -> NestTensor:
        name, sizes = str(buffer.name), tuple(buffer.shape[:])
        if len(sizes) < 2 or not all(isinstance(size, tirx.IntImm) for size in sizes):
            raise LoweringError(
                f"TensorIR: {name} of shape [{', '.join(map(str, sizes))}] ends in no tile: its "
                "last two axes must be the rows and columns of one, all of them numbers"
            )
        *shape, rows, columns = (int(size.value) for size in sizes)
        tensor = NestTensor(
            name, tuple(shape) or (1,), (rows, columns), str(buffer.dtype), role, memory
        )
        self._tensors[buffer.__chandle__()] = tensor
        self._buffers.append(buffer)
        return tensor

    def _copied(self, function: PrimFunc) -> bool:
        """Whether a statement loads from DRAM into a scratchpad."""
        found: list[BufferStore] = []
        structural_walk(function.body, (tirx.BufferStore, found.append))
        return any(map(self._is_load, found))

    def _is_load(self, store: BufferStore) -> bool:
        if not str(store.buffer.scope()).startswith(SCOPE):
            return False
        value = loaded(store.value)[0]
        return isinstance(value, TensorLoad) and str(loaded_buffer(value).scope()) == _DRAM


def loaded(value: Expr) -> tuple[Expr, Expr | None, int | None]:
    """What is loaded, without casts; the condition under which it is, and the pad elsewhere."""
    while isinstance(value, tirx.Cast):
        value = value.value
    condition, pad = None, None
    if is_tir_call(value, "if_then_else") and isinstance(value.args[2], tirx.IntImm):
        condition, pad, value = value.args[0], int(value.args[2].value), value.args[1]
    return value, condition, pad
