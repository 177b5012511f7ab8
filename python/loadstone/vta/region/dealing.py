# SPDX-License-Identifier: Apache-2.0
"""Deal a region's layers out to several equal devices.

In:   for each layer the ways to compute it: whole on one device, or divided among some.
Out:  phases: what each device does until all are waited for.
Next: cores.py makes a program of each device's operations in a phase.

    device 0    conv a, rows 0-15  add, rows 0-15  |  conv b, channels 0-31  |  dense
    device 1    conv a, rows 16-31 add, rows 16-31 |  conv b, channels 32-63 |
                                                   ^ conv b reads rows of both: they are waited for

A layer goes on in the phase of those before it where no device reads what another one writes in it.
Which way each layer is computed is chosen by the cost model: the sum over the phases of the device
that works longest, where one works as long as the stage that is busiest, or as its reads take on
the bus; with one bus for all, at least as long as all reads take on it, and some more. The ways of
all layers together are searched with a beam; to leave everything on the first device is always
among the results that are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import VerificationError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Memory
from loadstone.vta.stream.cost import cost_model
from loadstone.vta.stream.operations import Operation, TileLoad, TileStore
from loadstone.vta.stream.table import columns_of

__all__ = ["Claim", "Share", "Way", "deal", "share_of", "verify_phases"]

#: What a further phase takes, in cycles, besides its work: a program begins with empty scratchpads
#: and ends with its last store.
_PHASE_CYCLES = 700
#: On a bus for all, the part of the shorter of work and reads that the longer does not hide.
_WAITS = 4
_BEAM = 48
_LOAD, _COMPUTE, _STORE, _BUS = range(4)


@dataclass(frozen=True)
class Claim:
    """Tiles of tensors in DRAM, by tensor: bool (tiles,)."""

    tiles: Mapping[str, NDArray[np.bool_]]

    def meets(self, other: Claim) -> bool:
        """Whether they have a tile in common."""
        return any(
            name in other.tiles and bool((mask & other.tiles[name]).any())
            for name, mask in self.tiles.items()
        )


@dataclass(frozen=True, eq=False)
class Share:
    """What one device does of one layer. cycles: (4,) of load, compute and store stage, and of its
    reads on the bus. reads, writes: of tensors that are no constants."""

    operations: Sequence[Operation]
    cycles: NDArray[np.int64]
    reads: Claim
    writes: Claim


@dataclass(frozen=True, eq=False)
class Way:
    """One way to compute a layer: the share of each device that has one, by its number."""

    name: str
    shares: Mapping[int, Share]


def share_of(
    operations: Sequence[Operation], sizes: Mapping[str, tuple[str, int, int]], config: HwConfig
) -> Share:
    """sizes: of each tensor that is no constant, the tensor that it is a part of or itself, the
    tile of that one with which it begins, and the tiles of that one."""
    columns = columns_of(operations)
    cycles = cost_model(config).operations(operations, columns, config)
    cycles[_repeated(operations, config)] = 0
    total = np.zeros(4, np.int64)
    masks: tuple[dict[str, NDArray[np.bool_]], ...] = ({}, {})
    for operation, spent in zip(operations, cycles.tolist(), strict=True):
        if type(operation) is TileLoad:
            is_load = operation.memory in (Memory.INP, Memory.WGT)
            total[_LOAD if is_load else _COMPUTE] += spent
            tiles = operation.x_size * operation.y_size if spent else 0
            total[_BUS] += tiles * config.tile_bytes(operation.memory) // (config.bus_bits // 8)
        elif type(operation) is TileStore:
            total[_STORE] += spent
        else:
            total[_COMPUTE] += spent
            continue
        if operation.dram.tensor in sizes:
            whole, first, size = sizes[operation.dram.tensor]
            own = masks[type(operation) is TileStore]
            mask = own.setdefault(whole, np.zeros(size, np.bool_))
            for row in range(operation.y_size):
                begin = first + operation.dram.tile + row * operation.x_stride
                mask[begin : begin + operation.x_size] = True
    return Share(operations, total, Claim(masks[0]), Claim(masks[1]))


def _repeated(operations: Sequence[Operation], config: HwConfig) -> list[int]:
    """The loads that allocate/ is expected to leave out: of what was loaded before, where all that
    this memory loads has room in it."""
    known: set[tuple[Memory, str, int, int, int, int]] = set()
    room = {memory: config.depth(memory) for memory in Memory}
    again = []
    for number, o in enumerate(operations):
        if type(o) is TileLoad:
            key = o.memory, o.dram.tensor, o.dram.tile, o.y_size, o.x_size, o.x_stride
            if key in known:
                again.append((number, o.memory))
            else:
                known.add(key)
                room[o.memory] -= o.x_size * o.y_size
    return [number for number, memory in again if room[memory] >= 0]


@dataclass(frozen=True, eq=False)
class _State:
    """closed: cycles of the phases before the open one. chosen: the way of each layer. begins: the
    layers with which phases begin. spent: (devices, 4) in the open phase. writes: in it, by device;
    reads alike."""

    closed: int
    chosen: tuple[int, ...]
    begins: tuple[int, ...]
    spent: NDArray[np.int64]
    writes: Sequence[tuple[int, Claim]] = field(default=())
    reads: Sequence[tuple[int, Claim]] = field(default=())


def deal(
    layers: Sequence[Sequence[Way]], devices: int, *, shared_bus: bool
) -> list[list[tuple[int, Way]]]:
    """Phases: the layers of each by their number, and the way of each. layers: the ways of every
    layer; the first is to leave it whole on the first device."""
    beam = [_State(0, (), (0,), np.zeros((devices, 4), np.int64))]

    def cost(state: _State) -> int:
        return state.closed + _phase_cycles(state.spent, shared_bus)

    for number, ways in enumerate(layers):
        found = [
            made
            for state in beam
            for way in range(len(ways))
            for made in _continued(state, number, way, ways[way], shared_bus)
        ]
        kept = list(
            {_likeness(state): state for state in sorted(found, key=cost, reverse=True)}.values()
        )
        kept = kept[::-1][:_BEAM]
        alone = next(state for state in found if state.begins == (0,) and not any(state.chosen))
        beam = kept if alone in kept else [*kept, alone]
    best = min(beam, key=cost)
    edges = [*best.begins, len(layers)]
    return [
        [(number, layers[number][best.chosen[number]]) for number in range(begin, end)]
        for begin, end in pairwise(edges)
        if begin < end
    ]


def _likeness(state: _State) -> tuple[int, int, tuple[tuple[int, ...], ...]]:
    """Equal where states differ in which device does what alone."""
    return state.closed, state.begins[-1], tuple(sorted(map(tuple, state.spent.tolist())))


def _phase_cycles(spent: NDArray[np.int64], shared_bus: bool) -> int:
    if not shared_bus:
        return int(spent.max())
    low, high = sorted((int(spent[:, :_BUS].max()), int(spent[:, _BUS].sum())))
    return high + low // _WAITS


def _continued(
    state: _State, number: int, index: int, way: Way, shared_bus: bool
) -> Iterable[_State]:
    """The state with a layer more: in the open phase where it can be there, and in a new one."""
    own = np.zeros_like(state.spent)
    for device, share in way.shares.items():
        own[device] = share.cycles
    writes = tuple((device, share.writes) for device, share in way.shares.items())
    reads = tuple((device, share.reads) for device, share in way.shares.items())
    chosen = (*state.chosen, index)
    if not _is_tied(state, way.shares):
        yield replace(
            state,
            chosen=chosen,
            spent=state.spent + own,
            writes=(*state.writes, *writes),
            reads=(*state.reads, *reads),
        )
    if number > state.begins[-1]:
        closed = state.closed + _phase_cycles(state.spent, shared_bus) + _PHASE_CYCLES
        yield _State(closed, chosen, (*state.begins, number), own, writes, reads)


def _is_tied(state: _State, shares: Mapping[int, Share]) -> bool:
    """Whether a device would touch what another one writes in the open phase, or the reverse."""
    for device, share in shares.items():
        for other, claim in state.writes:
            if other != device and (share.reads.meets(claim) or share.writes.meets(claim)):
                return True
        for other, claim in state.reads:
            if other != device and share.writes.meets(claim):
                return True
    return False


def verify_phases(
    phases: Sequence[Sequence[tuple[int, Way]]], layers: int, written: Mapping[str, int]
) -> None:
    """Raises VerificationError where a device touches what another one writes in the same phase;
    where a layer is missing or not in its turn; or where tiles of a tensor that one writes whole
    are left out. written: of each tensor, how many tiles the layers write when none is divided."""
    if [number for phase in phases for number, _ in phase] != list(range(layers)):
        raise VerificationError("phases", "layers are missing, or not in their order")
    made: dict[str, NDArray[np.bool_]] = {}
    for number, phase in enumerate(phases):
        touched = [(device, share) for _, way in phase for device, share in way.shares.items()]
        _verify_apart(number, touched)
        for _, share in touched:
            for name, mask in share.writes.tiles.items():
                made[name] = made[name] | mask if name in made else mask
    for name, tiles in written.items():
        if int(made[name].sum()) != tiles:
            raise VerificationError("phases", f"of {name} not all tiles are written")


def _verify_apart(number: int, touched: Sequence[tuple[int, Share]]) -> None:
    for (device, one), (other, two) in permutations(touched, 2):
        if device != other and (one.writes.meets(two.reads) or one.writes.meets(two.writes)):
            raise VerificationError(
                "phases", f"devices {device} and {other} meet in phase {number}"
            )
