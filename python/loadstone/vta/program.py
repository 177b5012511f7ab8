"""From operations on virtual tiles to one device program: prefetch, allocate, fold, sync, prove,
encode.

In:   the operations of a region with their layers' names, and where each DRAM tensor stands.
Out:  a DeviceProgram: instruction bytes, the micro-op table, the source map, and figures for the
      report.
Next: artifact/format.py puts it into a file; the simulator or the board runs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.errors import LoweringError
from loadstone.vta.allocate import Allocation, allocate
from loadstone.vta.fold import Draft, fold
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.codec import Columns, Stream, encode_stream, encode_uops
from loadstone.vta.isa.spec import INSTRUCTIONS, Opcode, Stage
from loadstone.vta.prefetch import prefetch
from loadstone.vta.stream import Operation
from loadstone.vta.sync import prove, synchronize

__all__ = ["DeviceProgram", "build_program"]


@dataclass(frozen=True)
class DeviceProgram:
    """instructions: uint8 (N, 16), FINISH last. uops: uint32 (M,), to stand at the place of
    UOP_TENSOR.

    source_map: (first instruction, count, layer), ascending. tokens: the most each queue can hold.
    """

    instructions: NDArray[np.uint8]
    uops: NDArray[np.uint32]
    source_map: tuple[tuple[int, int, str], ...]
    tokens: Mapping[str, int]
    loads_dropped: int
    tiles_dropped: int


def build_program(
    operations: Sequence[tuple[str, Operation]], places: Mapping[str, Address], config: HwConfig
) -> DeviceProgram:
    """`operations`: (layer, operation) in program order. Raises LoweringError when a stage meets
    what it cannot do."""
    operations, allocation = _placed(operations, config)
    folded = fold(
        [operations[number] for number in allocation.kept], allocation.address, places, config
    )
    finish = Draft(Opcode.FINISH, Stage.COMPUTE, {}, [], None, "finish")
    drafts = synchronize([*folded.drafts, finish], config)
    tokens = prove(drafts, config)
    return DeviceProgram(
        encode_stream(_columns(drafts), config),
        encode_uops(folded.uops, config),
        _source_map(drafts),
        tokens,
        allocation.loads_dropped,
        allocation.tiles_dropped,
    )


def _placed(
    operations: Sequence[tuple[str, Operation]], config: HwConfig
) -> tuple[Sequence[tuple[str, Operation]], Allocation]:
    """Weights early, as long as everything then still has room."""
    order = prefetch([operation for _, operation in operations], config)
    early = [operations[number] for number in order]
    try:
        return early, allocate([operation for _, operation in early], config)
    except LoweringError:
        return operations, allocate([operation for _, operation in operations], config)


def _columns(drafts: Sequence[Draft]) -> Stream:
    """Drafts as columns; a field that a draft does not name is 0."""
    opcode = np.array([int(d.opcode) for d in drafts], np.uint8)
    index = {op: np.flatnonzero(opcode == op) for op in Opcode}
    columns: dict[Opcode, Columns] = {}
    for spec in INSTRUCTIONS:
        chosen = [drafts[n] for n in index[spec.opcode].tolist()]
        columns[spec.opcode] = {
            f.name: np.array(
                [d.flags.get(f.name, d.fields.get(f.name, 0)) for d in chosen], np.int64
            )
            for f in spec.fields[1:]
        }
    return Stream(opcode, index, columns)


def _source_map(drafts: Sequence[Draft]) -> tuple[tuple[int, int, str], ...]:
    ranges: list[tuple[int, int, str]] = []
    for number, draft in enumerate(drafts):
        if ranges and ranges[-1][2] == draft.layer:
            first, count, layer = ranges[-1]
            ranges[-1] = (first, count + 1, layer)
        else:
            ranges.append((number, 1, draft.layer))
    return tuple(ranges)
