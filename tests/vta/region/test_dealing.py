# SPDX-License-Identifier: Apache-2.0
"""dealing.py: what is tied is waited for, the cheaper way is taken, and phases that are wrong are
noticed."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import VerificationError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.dealing import Claim, Share, Way, deal, share_of, verify_phases
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

CONFIG = load_config("vtaq-1x16x16")


def claim(tensor: str, begin: int, end: int) -> Claim:
    mask = np.zeros(8, np.bool_)
    mask[begin:end] = True
    return Claim({tensor: mask})


def share(reads: Claim, writes: Claim, cycles: int, bus: int = 0) -> Share:
    return Share((), np.array([0, cycles, 0, bus]), reads, writes)


def layer(source: str, target: str, cycles: int, *, halo: int = 0, bus: int = 0) -> list[Way]:
    """Whole on either of two devices, or a half on each, with `halo` tiles of the other's half."""
    whole = share(claim(source, 0, 8), claim(target, 0, 8), cycles, bus)
    upper = share(claim(source, 0, 4 + halo), claim(target, 0, 4), cycles // 2, bus // 2)
    lower = share(claim(source, 4 - halo, 8), claim(target, 4, 8), cycles // 2, bus // 2)
    return [Way("whole", {0: whole}), Way("whole", {1: whole}), Way("halves", {0: upper, 1: lower})]


def names(phases: list[list[tuple[int, Way]]]) -> list[list[str]]:
    return [[way.name for _, way in phase] for phase in phases]


def test_halves_follow_each_other_in_one_phase() -> None:
    layers = [layer("x", "y", 10_000), layer("y", "z", 10_000)]
    assert names(deal(layers, 2, shared_bus=False)) == [["halves", "halves"]]


def test_a_halo_is_waited_for() -> None:
    layers = [layer("x", "y", 10_000), layer("y", "z", 10_000, halo=1)]
    assert names(deal(layers, 2, shared_bus=False)) == [["halves"], ["halves"]]


def test_what_is_short_stays_whole() -> None:
    layers = [layer("x", "y", 300), layer("y", "z", 300, halo=1), layer("z", "a", 300, halo=1)]
    (phase,) = deal(layers, 2, shared_bus=False)
    assert [way.shares.keys() for _, way in phase] == [{0}] * 3 or len(phase) == 3


def test_two_layers_that_nothing_ties_run_on_one_device_each() -> None:
    layers = [layer("x", "y", 10_000)[:2], layer("x", "z", 10_000)[:2]]
    (phase,) = deal(layers, 2, shared_bus=False)
    assert {device for _, way in phase for device in way.shares} == {0, 1}


def test_a_shared_bus_is_the_limit_of_both() -> None:
    """Two reads of the bus at once take as long as one behind the other: a phase more is not worth
    it."""
    layers = [layer("x", "y", 1_000, bus=10_000), layer("y", "z", 2_000, halo=1, bus=10_000)]
    assert len(deal(layers, 2, shared_bus=False)) == 2
    assert len(deal(layers, 2, shared_bus=True)) == 1


def test_what_a_share_reads_writes_and_takes() -> None:
    tile = VirtualTile(Memory.INP, 8, "t")
    sums = VirtualTile(Memory.ACC, 8, "s")
    operations = [
        TileLoad(Memory.INP, tile, 0, DramTile("part", 1), 2, 2, 3),
        TileLoad(Memory.WGT, VirtualTile(Memory.WGT, 1, "w"), 0, DramTile("w", 0), 1, 1, 1),
        FillNest((8,), Access(sums, 0, (1,)), 0),
        TileStore(sums, 0, DramTile("y", 0), 1, 8, 8),
    ]
    made = share_of(operations, {"part": ("x", 3, 12), "y": ("y", 0, 8)}, CONFIG)
    assert np.flatnonzero(made.reads.tiles["x"]).tolist() == [4, 5, 7, 8]
    assert made.writes.tiles["y"].all()
    assert made.reads.tiles.keys() == {"x"}
    assert made.cycles[3] == (4 * 16 + 256) // 8
    assert (made.cycles > 0).all()


def test_a_load_of_what_is_there_counts_once_where_all_has_room() -> None:
    tile, tiles = VirtualTile(Memory.INP, 2048, "t"), {"x": ("x", 0, 4096)}

    def loads(*begins: int) -> int:
        return int(
            share_of(
                [
                    TileLoad(Memory.INP, tile, 0, DramTile("x", begin), 1, 1024, 1024)
                    for begin in begins
                ],
                tiles,
                CONFIG,
            ).cycles[3]
        )

    assert CONFIG.depth(Memory.INP) == 2048
    assert loads(0, 1024, 0, 1024) == loads(0, 1024) == 2 * 1024 * 16 // 8
    assert loads(0, 1024, 2048, 0) == 4 * 1024 * 16 // 8


def test_phases_that_are_wrong_are_noticed() -> None:
    first, second = layer("x", "y", 10), layer("y", "z", 10, halo=1)
    written = {"y": 8, "z": 8}
    verify_phases([[(0, first[2])], [(1, second[2])]], 2, written)
    for wrong, said in (
        ([[(0, first[2]), (1, second[2])]], "devices 0 and 1 meet in phase 0"),
        ([[(1, second[2])], [(0, first[2])]], "not in their order"),
        ([[(0, first[2])]], "layers are missing"),
        ([[(0, first[2])], [(1, Way("upper", {0: second[2].shares[0]}))]], "of z not all tiles"),
        ([[(0, first[0]), (1, second[1])]], "meet in phase 0"),
    ):
        with pytest.raises(VerificationError, match=said):
            verify_phases(wrong, 2, written)
    both = Way("both", {0: first[0].shares[0], 1: first[0].shares[0]})
    with pytest.raises(VerificationError, match="meet"):
        verify_phases([[(0, both)]], 1, {"y": 8})
