# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/clipped_loops.py: loops are clipped, joined and dropped; accesses stay inside."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.clipped_loops import ComputeLoop, clipped_nest
from loadstone.vta.stream.operations import Access, VirtualTile

ACC = VirtualTile(Memory.ACC, 10, "acc")


def path(*loops: ComputeLoop) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Extents, first tile and strides of one operand."""
    nest = clipped_nest(loops, 1)
    assert nest is not None
    (own,) = nest.paths
    return nest.extents, own.start, own.strides


def test_loops_are_clipped_joined_and_dropped() -> None:
    assert path((5, 0, 5, 20), (4, 0, 4, 5), (5, 0, 5, 1)) == ((100,), 0, (1,))  # contiguous
    assert path((5, 2, 4, 20), (1, 0, 1, 77), (3, 1, 3, 1)) == ((2, 2), 41, (20, 1))  # one turn
    assert clipped_nest(((5, 3, 3, 20), (3, 0, 3, 1)), 1) is None  # nothing is left


def test_loops_are_joined_where_they_are_contiguous_for_every_operand() -> None:
    nest = clipped_nest(((4, 0, 4, 3, 6), (3, 0, 3, 1, 1)), 2)
    assert nest is not None
    assert nest.extents == (4, 3)
    assert [own.strides for own in nest.paths] == [(3, 1), (6, 1)]


def test_an_access_that_leaves_its_tile_is_refused() -> None:
    nest = clipped_nest(((9, 0, 9, 1),), 1)
    assert nest is not None
    assert nest.paths[0].access((ACC, 1)) == Access(ACC, 1, (1,))
    with pytest.raises(LoweringError, match=r"tiles \[2, 11\) leave acc of 10"):
        nest.paths[0].access((ACC, 2))
    with pytest.raises(LoweringError, match=r"tiles \[0, 11\) leave acc"):  # RQ reads three
        nest.paths[0].access((ACC, 0), 3)
    back = clipped_nest(((2, 0, 2, -1),), 1)
    assert back is not None
    with pytest.raises(LoweringError, match=r"tiles \[-1, 1\) leave"):
        back.paths[0].access((ACC, 0))
