# SPDX-License-Identifier: Apache-2.0
"""isa/verify_rows.py: what residency makes of random programs is found right, and every change of
it after which a program computes something else is found wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.isa.accelerator import Port
from loadstone.isa.codec import TableInsn
from loadstone.isa.tiled import in_rows
from loadstone.isa.tiles import InTile, TiledInsn
from loadstone.isa.verify_rows import verify_rows
from tests.isa.tiled_device import device, own_rows, random_program, run
from tests.repeat import times

ROOMY, SMALL = device(255), device(12)
Made = tuple[list[TableInsn], list[int]]


def program(seed: int) -> tuple[list[TiledInsn], Made]:
    insns, layers = random_program(seed)
    return insns, in_rows(SMALL.table, insns, layers, Port())


def swapped(made: Made, rng: random.Random) -> Made:
    """Two neighbours change places."""
    insns, sources = list(made[0]), list(made[1])
    n = rng.randrange(len(insns) - 1)
    for each in (insns, sources):
        each[n], each[n + 1] = each[n + 1], each[n]  # type: ignore[index]
    return insns, sources


def dropped(made: Made, rng: random.Random) -> Made:
    """One instruction is left out."""
    n = rng.randrange(len(made[0]))
    return made[0][:n] + made[0][n + 1 :], made[1][:n] + made[1][n + 1 :]


def moved(made: Made, rng: random.Random, insns: list[TiledInsn]) -> Made:
    """One instruction finds its tile elsewhere."""
    found = list(made[0])
    n = rng.randrange(len(found))
    names = [name for name, v in insns[made[1][n]].fields.items() if isinstance(v, InTile)]
    if names:
        name = rng.choice(names)
        row = found[n].fields[name]
        assert isinstance(row, int)
        other = max(0, min(11, row + rng.choice((-2, -1, 1, 2))))
        found[n] = replace(found[n], fields={**found[n].fields, name: other})
    return found, made[1]


def test_what_residency_makes_is_found_right() -> None:
    for seed in range(times(20, 500)):
        insns, made = program(seed)
        verify_rows(SMALL.table, insns, *made)


@pytest.mark.parametrize("spoil", [swapped, dropped, moved])
def test_whatever_changes_a_result_is_refused(spoil: Callable[..., Made]) -> None:
    refused = 0
    for seed in range(times(40, 1000)):
        rng = random.Random(seed)
        insns, made = program(seed)
        spoilt = spoil(made, rng, insns) if spoil is moved else spoil(made, rng)
        want, _ = run(ROOMY, own_rows(insns))
        try:
            same = run(SMALL, spoilt[0])[0] == want
        except (LoweringError, IndexError, ValueError):
            same = False
        try:
            verify_rows(SMALL.table, insns, *spoilt)
        except LoweringError:
            refused += 1
        else:
            assert same, seed
    assert refused > 0


def test_each_mistake_is_named() -> None:
    insns, (found, sources) = program(1)
    with pytest.raises(LoweringError, match=r"rows: instruction \d+, \w+, comes twice"):
        verify_rows(SMALL.table, insns, [*found, found[0]], [*sources, sources[0]])
    stores = [n for n, insn in enumerate(found) if insn.name == "write"]
    without = [insn for n, insn in enumerate(found) if n != stores[-1]]
    rest = [source for n, source in enumerate(sources) if n != stores[-1]]
    with pytest.raises(LoweringError, match=r"instruction \d+, write, is left out and no load"):
        verify_rows(SMALL.table, insns, without, rest)
    other = [replace(found[0], name="write"), *found[1:]]
    with pytest.raises(LoweringError, match=r"rows: instruction \d+, \w+, became"):
        verify_rows(SMALL.table, insns, other, sources)
