# SPDX-License-Identifier: Apache-2.0
"""copy_pieces.py: copies as LOADs and STOREs from where they begin; what the pieces of random
windows hold is in test_emitter.py."""

from __future__ import annotations

import pytest

from loadstone.errors import LoweringError
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.copy_pieces import Loading, Piece, load_pieces, store_pieces

BORDER = ((3, 0, 3, 1, 3, 6, 4), (6, 0, 6, 1, 5, 1, 1))  # a row above, a column on each side


def test_a_device_that_makes_any_pad_takes_one_load() -> None:
    (piece,) = load_pieces(Loading(Memory.INP, -5, any_value=True), BORDER)
    assert piece == Piece(0, 18, 4 + 1, 8, (2, 4, 4, 1, 0, 1, 1, -5))
    assert piece.has_pads


def test_pads_that_a_load_cannot_make_come_from_a_constant() -> None:
    above, rows, *patches = load_pieces(Loading(Memory.INP, -5, any_value=False), BORDER)
    assert above == Piece(0, 6, None, 1, (6, 1, 0, 0, 0, 0, 0, 0))
    assert rows.fields == (2, 4, 4, 0, 0, 1, 1, 0)
    assert [(patch.first, patch.fields[0]) for patch in patches] == [(6, 1), (11, 2), (17, 1)]
    assert all(patch.has_pads and patch.dram is None for patch in patches)


def test_clipped_rows_are_stores_of_their_own() -> None:
    rows = ((3, 0, 3, 0, 3, 4, 8), (4, 0, 2, 0, 2, 1, 1))
    assert store_pieces(rows) == tuple(
        Piece(4 * row, 4 * row + 2, 8 * row, 2, (1, 2, 2)) for row in range(3)
    )


def test_a_store_has_no_pads() -> None:
    with pytest.raises(LoweringError, match="a store has pads"):
        store_pieces(((4, 0, 4, 1, 4, 1, 1),))
