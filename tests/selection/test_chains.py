# SPDX-License-Identifier: Apache-2.0
"""selection/chains.py: calls become chains of plain loops."""

from __future__ import annotations

from loadstone.ir_pass.nest_text import parsed
from loadstone.ir_pass.unroll import Call, unroll_nests
from loadstone.selection.chains import SlotAt, chains_of, is_taken_up
from loadstone.selection.unify import ChainLoop, ChainStep, ValueChain

HEAD = """\
func f:
  param x: int8[6, 6] x1x4
  param out: int32[4, 4] x1x4
  alloc acc: int32[4, 4] x1x4 in accumulator
  alloc pix: int8[8, 8] x1x4 in scratchpad
  alloc w: int8[3, 3, 4] x1x4 in scratchpad
"""
GEMM = ChainStep("gemm", 2, ())


def calls(*lines: str) -> list[Call]:
    """The calls of some nests."""
    return unroll_nests(parsed(HEAD + "".join(f"  {line}\n" for line in lines)))


def test_a_copy_with_pads_is_a_box_and_fills_around_it() -> None:
    (copy,) = calls("copy(pix[a, b], x[a - 1, b - 1 else 7]) for a<8 b<8")
    inside, *outside = chains_of([copy]) or []
    loops = ChainLoop(6, (8, 6)), ChainLoop(6, (1, 1))
    assert inside.chain == ValueChain(("scratchpad", "global"), None, True, (), loops)
    assert inside.slots == (SlotAt(0, 0, 9), SlotAt(0, 1, 7))
    covered = []
    for each in outside:
        assert (each.chain.fill, each.chain.is_moved, each.chain.memories) == (
            7,
            False,
            ("scratchpad",),
        )
        at = [each.slots[0].offset]
        for loop in each.chain.loops:
            at = [a + n * loop.strides[0] for a in at for n in range(loop.extent)]
        covered += at
    assert sorted(covered) == [n for n in range(64) if not (0 < n % 8 < 7 and 0 < n // 8 < 7)]


def test_a_sum_begins_in_its_first_turn() -> None:
    fill, gemm = calls(
        "fill(acc[i, j] | 0) for i<4 j<4",
        "gemm(acc[i, j], pix[i + y, j + x], w[y, x, 0]) for i<4 j<4 y<3 x<3",
    )
    assert is_taken_up(fill, gemm)
    first, *others = chains_of([fill, gemm]) or []
    over = ChainLoop(4, (4, 8, 0)), ChainLoop(4, (1, 1, 0))
    memories = ("accumulator", "scratchpad", "scratchpad")
    assert first.chain == ValueChain(memories, 0, False, (GEMM,), over)
    assert first.slots == (SlotAt(0, 0, 0), SlotAt(1, 1, 0), SlotAt(1, 2, 0))
    (a, b) = (each.chain for each in others)
    assert a == ValueChain(memories, None, False, (GEMM,), (*over, ChainLoop(2, (0, 1, 4))))
    rest = ChainLoop(2, (0, 8, 12)), ChainLoop(3, (0, 1, 4))
    assert b == ValueChain(memories, None, False, (GEMM,), (*over, *rest))
    assert [each.slots[1].offset for each in others] == [1, 8]
    assert [each.slots[2].offset for each in others] == [4, 12]
    (alone,) = chains_of([gemm]) or []
    assert alone.chain.loops[2:] == (ChainLoop(3, (0, 8, 12)), ChainLoop(3, (0, 1, 4)))


def test_a_value_goes_through_steps_to_where_it_is_stored() -> None:
    add, store = calls("add(acc[i, j] | 5) for i<4 j<4", "copy(out[i, j], acc[i, j]) for i<4 j<4")
    assert is_taken_up(add, store)
    (found,) = chains_of([add, store]) or []
    loops = ChainLoop(4, (4, 4)), ChainLoop(4, (1, 1))
    step = ChainStep("add", 0, (5,))
    assert found.chain == ValueChain(("global", "accumulator"), None, True, (step,), loops)
    assert found.slots == (SlotAt(1, 0, 0), SlotAt(0, 0, 0))


def test_what_is_no_chain() -> None:
    fill, half, add, store = calls(
        "fill(acc[i, j] | 0) for i<4 j<4",
        "gemm(acc[i, j], pix[i, j], w[0, 0, 0]) for i<2 j<4",
        "add(acc[i, j] | 5) for i<4 j<4",
        "copy(out[i, j], acc[i, j]) for i<4 j<4",
    )
    assert chains_of([fill, half]) is None
    assert chains_of([half, add]) is None
    assert not is_taken_up(store, fill)
    assert not is_taken_up(add, fill)


def test_turns_that_write_one_place_must_be_a_sum() -> None:
    shift, add, copies = calls(
        "shr(acc[i, 0], acc[i, 1]) for i<4 j<4",
        "add(acc[i, 0], acc[i, 1]) for i<4 j<4",
        "copy(acc[i + j, 0], out[i, j]) for i<2 j<2",
    )
    assert chains_of([shift]) == []
    assert chains_of([copies]) == []
    assert len(chains_of([add]) or []) == 1
