# SPDX-License-Identifier: Apache-2.0
"""verify.py: what reads or leaves something else is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from loadstone.errors import LoweringError
from loadstone.vta.passes.program import LayerOperation, VtaProgram
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.passes.store_inp.verify import verify_reads
from loadstone.vta.stream.operations import GemmNest, InpTiles, TileLoad, TileStore
from tests.vta.passes.store_inp.two_layers import TwoLayers

BEFORE = TwoLayers().program()
AFTER = StoreInp().run(BEFORE)
Operations = list[LayerOperation]


def numbers(kind: type[object]) -> list[int]:
    return [n for n, (_, o) in enumerate(AFTER.operations) if type(o) is kind]


def with_store(number: int, **values: object) -> Operations:
    """One of the stores to INP is another."""
    made = list(AFTER.operations)
    at = [n for n in numbers(TileStore) if getattr(made[n][1], "inp", None) is not None][number]
    layer, o = made[at]
    assert isinstance(o, TileStore)
    made[at] = (layer, replace(o, **values))
    return made


def first_store() -> TileStore:
    return next(o for _, o in AFTER.operations if isinstance(o, TileStore) and o.inp)


def elsewhere() -> Operations:
    to = first_store().inp
    assert to is not None
    return with_store(0, inp=InpTiles(to.tile, to.offset + 1))


def other_cells() -> Operations:
    return with_store(0, offset=first_store().offset + 1)


def other_rows() -> Operations:
    return with_store(0, x_stride=first_store().x_stride + 1)


def other_operands() -> Operations:
    by = first_store().requantization
    assert by is not None
    return with_store(0, requantization=replace(by, offset=by.offset + 3))


def other_clamp() -> Operations:
    by = first_store().requantization
    assert by is not None
    return with_store(0, requantization=replace(by, low=0))


def no_padding() -> Operations:
    fills = [n for n in numbers(TileLoad) if getattr(AFTER.operations[n][1], "y_pad_0", 0)]
    return [one for n, one in enumerate(AFTER.operations) if n != fills[0]]


def padding_behind() -> Operations:
    fills = [n for n in numbers(TileLoad) if getattr(AFTER.operations[n][1], "y_pad_0", 0)]
    made = list(AFTER.operations)
    last = max(n for n in numbers(TileStore) if getattr(made[n][1], "inp", None) is not None)
    made.insert(last, made.pop(fills[0]))
    return made


def no_store() -> Operations:
    at = next(n for n in numbers(TileStore) if getattr(AFTER.operations[n][1], "inp", None))
    return [one for n, one in enumerate(AFTER.operations) if n != at]


def no_result() -> Operations:
    return list(AFTER.operations[:-1])


def other_product() -> Operations:
    made = list(AFTER.operations)
    at = numbers(GemmNest)[-1]
    layer, o = made[at]
    assert isinstance(o, GemmNest)
    made[at] = (layer, replace(o, src=replace(o.src, base=o.src.base + 1)))
    return made


WRONG = (
    *(elsewhere, other_cells, other_rows, other_operands, other_clamp),
    *(no_padding, padding_behind, no_store, no_result, other_product),
)


def test_what_the_pass_makes_is_accepted() -> None:
    verify_reads(BEFORE, AFTER)
    verify_reads(BEFORE, BEFORE)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda each: str(each.__name__))
def test_what_is_wrong_is_refused(wrong: Callable[[], Operations]) -> None:
    made: VtaProgram = replace(AFTER, operations=wrong())
    with pytest.raises(LoweringError, match="store_inp"):
        verify_reads(BEFORE, made)


def test_what_others_see_must_be_in_dram() -> None:
    seen = replace(BEFORE, inside=frozenset())
    with pytest.raises(LoweringError, match="left in DRAM"):
        verify_reads(seen, replace(AFTER, inside=frozenset()))
