# SPDX-License-Identifier: Apache-2.0
"""ir_pass/insert_dma_copy.py with regions.py and memory_table.py: text in, text out; and what is
refused."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Variable
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.memory_table import MemoryTable
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import Nest, NestLoop, Statement
from loadstone.ir_pass.verify_dma_copy import verify_dma_copy

ALU = dict.fromkeys(("fill", "add", "max", "shr", "rq"), ("acc",))
TABLE = MemoryTable(
    {**ALU, "gemm": ("acc", "inp", "wgt")},
    {"inp": 400, "wgt": 64, "acc": 256},
    {("rq", 1): 3},
    {"acc": 8},
)

CONV = """\
func conv2d:
  table p: int32[1, 1, 3] x1x16
  local acc: int32[1, 1, 1, 32, 32] x1x16
  param x: int8[1, 1, 1, 32, 32] x1x16
  param w: int8[1, 1, 1, 1, 3, 3] x16x16
  param out: int8[1, 1, 1, 32, 32] x1x16
  for i0<4:
    for j0<2:
      for o0<1:
        group:
          fill(acc[0, 0, o0, 8*i0 + i, 16*j0 + j] | 0) for i<8 j<16
          gemm(acc[0, 0, o0, 8*i0 + i, 16*j0 + j], x[0, 0, 0, 8*i0 + i + ky - 1, 16*j0 + j + kx - 1 else -128], w[0, o0, 0, 0, ky, kx]) for i<8 j<16 ky<3 kx<3
        rq(acc[0, 0, o0, 8*i0 + i, 16*j0 + j], p[0, o0, 0] | 4, -128, 127, 0) for i<8 j<16
        copy(out[0, 0, o0, 8*i0 + i, 16*j0 + j], acc[0, 0, o0, 8*i0 + i, 16*j0 + j]) for i<8 j<16
"""  # noqa: E501
CONV_WITH_COPIES = """\
func conv2d:
  table p: int32[1, 1, 3] x1x16
  param x: int8[1, 1, 1, 32, 32] x1x16
  param w: int8[1, 1, 1, 1, 3, 3] x16x16
  param out: int8[1, 1, 1, 32, 32] x1x16
  alloc p_chip: int32[1, 1, 3] x1x16 in acc
  copy(p_chip[0, 0, a2], p[0, 0, a2]) for a2<3
  for i0<4:
    for j0<2:
      alloc x_chip: int8[1, 1, 1, 10, 18] x1x16 in inp
      copy(x_chip[0, 0, 0, a3, a4], x[0, 0, 0, 8*i0 + a3 - 1, 16*j0 + a4 - 1 else -128]) for a3<10 a4<18
      for o0<1:
        alloc acc: int32[1, 1, 1, 8, 16] x1x16 in acc
        alloc w_chip: int8[1, 1, 1, 1, 3, 3] x16x16 in wgt
        copy(w_chip[0, 0, 0, 0, a4, a5], w[0, o0, 0, 0, a4, a5]) for a4<3 a5<3
        group:
          fill(acc[0, 0, 0, i, j] | 0) for i<8 j<16
          gemm(acc[0, 0, 0, i, j], x_chip[0, 0, 0, i + ky, j + kx], w_chip[0, 0, 0, 0, ky, kx]) for i<8 j<16 ky<3 kx<3
        rq(acc[0, 0, 0, i, j], p_chip[0, o0, 0] | 4, -128, 127, 0) for i<8 j<16
        copy(out[0, 0, o0, 8*i0 + i, 16*j0 + j], acc[0, 0, 0, i, j]) for i<8 j<16
"""  # noqa: E501


def inserted(text: str, table: MemoryTable = TABLE) -> str:
    """The text of a function with its copies, which are verified."""
    before = parsed(text)
    after = insert_dma_copy(before, table)
    verify_dma_copy(before, after, table)
    verify_dma_copy(parsed(text), parsed(printed(after)), table)
    return printed(after)


def lines(text: str, word: str) -> list[str]:
    """Those that begin with a word, without their indentation."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith(word)]


def test_a_convolution_gets_its_copies() -> None:
    assert inserted(CONV) == CONV_WITH_COPIES


def test_the_page_shows_what_the_pass_makes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lowering.md").read_text(encoding="utf-8")
    text = page.split("## Copies that are inserted")[1]
    blocks = [
        dedent(block) + "\n" for block in re.findall(r"(?m)^(?: {4}.*\n)* {4}.*(?=\n\n)", text)
    ]
    found = inserted(blocks[0])
    assert found.endswith(indent(blocks[1], "  "))
    assert found.index("  alloc") + len(indent(blocks[1], "  ")) == len(found)


def small(body: str, tensors: str = "") -> str:
    """A function of 12 tiles, one after another."""
    head = "func small:\n  param x: int8[12] x1x16\n  table w: int8[2] x16x16\n"
    head += f"{tensors}  local acc: int32[12] x1x16\n  param out: int8[12] x1x16\n"
    return head + "".join(f"  {line}\n" for line in body.splitlines())


BEGUN = "fill(acc[4*t + i] | 0) for i<4"
SUM = "gemm(acc[4*t + i], x[4*t + i], w[0]) for i<4"
STORED = "copy(out[4*t + i], acc[4*t + i]) for i<4"


def loop(*inner: str, apart: bool = False) -> str:
    return "\n".join([f"for t<3{' apart' if apart else ''}:", *(f"  {line}" for line in inner)])


def test_a_table_is_loaded_at_the_start_of_each_turn_that_stands_apart() -> None:
    kept = inserted(small(loop(BEGUN, SUM, STORED))).splitlines()
    assert kept.index("  copy(w_chip[a0], w[a0]) for a0<2") < kept.index("  for t<3:")
    apart = inserted(small(loop(BEGUN, SUM, STORED, apart=True))).splitlines()
    assert apart[apart.index("  for t<3 apart:") + 1] == "    alloc w_chip: int8[2] x16x16 in wgt"


def test_a_table_that_is_too_large_for_its_share_is_loaded_where_it_is_read() -> None:
    table = MemoryTable(TABLE.operands, TABLE.depth_tiles, share={"wgt": 40})
    found = inserted(small(loop(BEGUN, SUM, STORED)), table)
    assert "copy(w_chip[0], w[0])" in lines(found, "copy")
    text = found.splitlines()
    assert text.index("  copy(w_chip[0], w[0])") < text.index("  for t<3:")


def test_what_no_loop_moves_is_loaded_outside_of_it() -> None:
    still = SUM.replace("x[4*t + i]", "x[i]")
    assert "\n  copy(x_chip[a0], x[a0]) for a0<4\n" in inserted(small(loop(BEGUN, still, STORED)))


def test_a_group_has_its_copies_in_front() -> None:
    alone = inserted(small(loop(BEGUN, SUM, STORED)))
    assert lines(alone, "fill") + lines(alone, "copy(x") == [
        "fill(acc[i] | 0) for i<4",
        "copy(x_chip[a0], x[4*t + a0]) for a0<4",
    ]
    text = alone.splitlines()
    room = "    alloc x_chip: int8[4] x1x16 in inp"
    assert text.index("    fill(acc[i] | 0) for i<4") < text.index(
        "    alloc x_chip: int8[4] x1x16 in inp"
    )
    grouped = inserted(small(loop("group:", f"  {BEGUN}", f"  {SUM}", STORED))).splitlines()
    assert grouped.index("    group:") > grouped.index(room)


def test_a_condition_that_bounds_a_nest_bounds_its_load() -> None:
    bounded = [f"{line} if -4*t - i + 9 >= 0" for line in (BEGUN, SUM, STORED)]
    found = inserted(small(loop(*bounded)))
    assert "copy(x_chip[a0], x[4*t + a0]) for a0<4 if -4*t - a0 + 9 >= 0" in lines(found, "copy")


def test_rows_between_those_that_are_read_stay_in_dram() -> None:
    text = """\
func strided:
  param x: int8[9, 9] x1x16
  param w: int8[1] x16x16
  local acc: int32[5, 5] x1x16
  param out: int8[5, 5] x1x16
  fill(acc[i, j] | 0) for i<5 j<5
  gemm(acc[i, j], x[2*i, 2*j], w[0]) for i<5 j<5
  copy(out[i, j], acc[i, j]) for i<5 j<5
"""
    found = inserted(text)
    assert "copy(x_chip[a0, a1], x[2*a0, a1]) for a0<5 a1<9" in lines(found, "copy")
    assert "gemm(acc[i, j], x_chip[i, 2*j], w_chip[0]) for i<5 j<5" in lines(found, "gemm")


def test_loops_that_read_different_parts_have_copies_of_their_own() -> None:
    part = "  gemm(acc[i], x[4*{0} + i], w[0]) for i<4"
    body = ["fill(acc[i] | 0) for i<4", "for a<2:", part.format("a"), "for b<3:", part.format("b")]
    found = inserted(small("\n".join([*body, "copy(out[i], acc[i]) for i<4"])))
    assert lines(found, "copy(x") == [
        "copy(x_chip[a0], x[4*a + a0]) for a0<4",
        "copy(x_chip[a0], x[4*b + a0]) for a0<4",
    ]


DIGITS = "  param digits: int8[2, 12] x1x16\n"
SPLIT = [f"copy(digits[{digit}, 4*t + i], acc[4*t + i]) for i<4" for digit in (0, 1)]
FETCHED = "gemm(acc[4*t + i], digits[d, 4*t + i], w[1]) for i<4 d<2"


def test_what_is_stored_is_loaded_behind_its_last_store() -> None:
    found = inserted(small(loop(BEGUN, SUM, *SPLIT, FETCHED, STORED), DIGITS))
    inside = [line.strip() for line in found.splitlines()]
    load = inside.index("copy(digits_chip[a0, a1], digits[a0, 4*t + a1]) for a0<2 a1<4")
    assert inside[load - 2] == "copy(digits[1, 4*t + i], acc[i]) for i<4"
    assert inside[load + 1].startswith("gemm(acc[i], digits_chip[d, i]")


READ = "gemm(acc[4*t + i], out[4*t + i], w[0]) for i<4"
NOT_IN_THE_SAME_TURN = "out is read where it is not written in the same turn"


def test_what_is_stored_and_read_in_the_same_turn_needs_no_tensor_of_its_own() -> None:
    found = inserted(small(loop(BEGUN, SUM, STORED, READ)))
    assert "copy(out_chip[a0], out[4*t + a0]) for a0<4" in lines(found, "copy")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (loop(SUM, BEGUN, STORED), "acc is used before a fill of all of it"),
        (loop(BEGUN.replace("i<4", "i<3"), SUM, STORED), "acc is used before a fill of all of it"),
        (loop(BEGUN, SUM.replace("gemm", "conv")), "the device has no instruction conv"),
        (loop(BEGUN, STORED.replace("acc", "x")), "a copy of x: a schedule stores locals alone"),
        (loop(BEGUN, "copy(acc[4*t + i], acc[i]) for i<4"), "a copy of acc"),
        (loop(BEGUN, SUM, SUM.replace("x[4*t", "x[2*t")), "accesses of x move differently"),
        (loop(BEGUN, SUM, SUM.replace("+ i], w", "+ i else 1], w")), "x is padded with 1 and None"),
        (loop(BEGUN, SUM, READ, STORED), "out is read before it is written"),
        (
            loop(BEGUN, STORED, READ.replace("out[4*t + i]", "out[4*t + i + 1]")),
            NOT_IN_THE_SAME_TURN,
        ),
        (loop(BEGUN, STORED, READ.replace("out[4*t + i]", "out[i]")), NOT_IN_THE_SAME_TURN),
        (loop(BEGUN, f"{STORED} if 1 - i >= 0", READ), NOT_IN_THE_SAME_TURN),
        (loop(BEGUN, STORED.replace("i<4", "i<3"), READ), NOT_IN_THE_SAME_TURN),
        (loop(BEGUN, STORED.replace(" + i]", " + 2*i]", 1), READ), NOT_IN_THE_SAME_TURN),
        (
            loop(BEGUN, STORED.replace(" for", f"; {READ} for").replace(" for i<4 for", " for")),
            "out is written and read by one nest",
        ),
        (
            loop(BEGUN, "group:", f"  {STORED}", f"  {READ}"),
            "out is read inside the statement that",
        ),
        (
            f"{loop(BEGUN, SUM, STORED, apart=True)}\nfill(acc[i] | 0) for i<4\n"
            "gemm(acc[i], out[i], w[0]) for i<4",
            "out is written in one turn of a loop and read in another",
        ),
        (loop("alloc y: int8[4] x1x16 in inp", BEGUN), "y is allocated already"),
        (loop("gemm(acc[4*t + i], acc[4*t + i], w[0]) for i<4"), "acc is used before a fill"),
        (
            loop(BEGUN, "gemm(acc[4*t + i], acc[4*t + i], w[0]) for i<4"),
            "acc is used before a fill",
        ),
    ],
)
def test_what_is_no_box_or_depends_on_parts_of_statements_is_refused(
    body: str, message: str
) -> None:
    with pytest.raises(LoweringError, match=f"insert_dma_copy: .*{message}"):
        insert_dma_copy(parsed(small(body)), TABLE)


def test_what_an_instruction_reads_in_dram_stays_there() -> None:
    """A bias, for example, that is added on its way to the chip."""
    table = MemoryTable({**TABLE.operands, "add": ("acc", "dram")}, TABLE.depth_tiles)
    added = "add(acc[4*t + i], b[t]) for i<4"
    text = inserted(small(loop(BEGUN, added, STORED), "  param b: int32[3] x1x16\n"), table)
    assert lines(text, "add") == ["add(acc[i], b[t]) for i<4"]
    assert lines(text, "alloc") == ["alloc acc: int32[4] x1x16 in acc"]
    padded = added.replace("b[t]", "b[t - 1 else 0]")
    with pytest.raises(LoweringError, match="b is read in DRAM, where it has no pads"):
        inserted(small(loop(BEGUN, padded, STORED), "  param b: int32[3] x1x16\n"), table)
    with pytest.raises(LoweringError, match="acc is read in DRAM, where no local is"):
        inserted(small(loop(BEGUN, added.replace("b[t]", "acc[4*t + i]"), STORED)), table)


def test_a_box_that_is_larger_than_its_memory_is_refused() -> None:
    body = loop(BEGUN, SUM, STORED)
    for depth, fits in ((4, True), (3, False)):
        table = MemoryTable(TABLE.operands, {**TABLE.depth_tiles, "inp": depth})
        if fits:
            inserted(small(body), table)
            continue
        with pytest.raises(LoweringError, match="4 tiles of x do not fit inp, which holds 3"):
            insert_dma_copy(parsed(small(body)), table)


def test_a_tensor_that_the_function_does_not_have_is_named() -> None:
    function = parsed(small(loop(BEGUN, SUM, STORED)))
    with pytest.raises(LoweringError, match="x is none of the function's tensors"):
        insert_dma_copy(function._replace(tensors=function.tensors[1:]), TABLE)
    placed = CONV.replace("x16x16\n", "x16x16 in wgt\n")
    with pytest.raises(LoweringError, match="w stands in wgt already"):
        insert_dma_copy(parsed(placed), TABLE)


# --- what is computed stays the same --------------------------------------------------------------
@st.composite
def computations(draw: Any) -> str:
    """A sum of products over tiles of two axes, with strides, dilation, pads and tiles that hang
    over."""
    sizes = [draw(st.integers(1, 7)) for _ in range(2)]
    tiles = [draw(st.integers(1, size)) for size in sizes]
    kernel, stride, apart = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(3))
    before = [draw(st.integers(0, 2)) for _ in range(2)]
    reach = [
        (size - 1) * s + (k - 1) * a + 1
        for size, s, k, a in zip(sizes, stride, kernel, apart, strict=True)
    ]
    whole = [max(1, r - b - draw(st.integers(0, 2))) for r, b in zip(reach, before, strict=True)]
    turns = [-(-size // tile) for size, tile in zip(sizes, tiles, strict=True)]
    at = f"{tiles[0]}*y0 + y, {tiles[1]}*x0 + x"
    source = ", ".join(
        f"{s * tile}*{name}0 + {s}*{name} + {a}*k{name} - {b}"
        for s, tile, name, a, b in zip(stride, tiles, "yx", apart, before, strict=True)
    )
    here = f"for y<{tiles[0]} x<{tiles[1]}"
    guards = ", ".join(
        f"{size - 1} - {tile}*{name}0 - {name} >= 0"
        for size, tile, name in zip(sizes, tiles, "yx", strict=True)
        if size % tile
    )
    guard = f" if {guards}" if guards else ""
    marks = [" apart" if draw(st.booleans()) else "" for _ in range(2)]
    return f"""\
func conv2d:
  param x: int8[{whole[0]}, {whole[1]}] x1x16
  param w: int8[{kernel[0]}, {kernel[1]}] x16x16
  local acc: int32[{sizes[0]}, {sizes[1]}] x1x16
  param out: int8[{sizes[0]}, {sizes[1]}] x1x16
  for y0<{turns[0]}{marks[0]}:
    for x0<{turns[1]}{marks[1]}:
      fill(acc[{at}] | 0) {here}{guard}
      gemm(acc[{at}], x[{source} else -3], w[ky, kx]) {here} ky<{kernel[0]} kx<{kernel[1]}{guard}
      copy(out[{at}], acc[{at}]) {here}{guard}
"""


def run(body: tuple[Statement, ...], memory: dict[Any, int], values: dict[Variable, int]) -> None:
    """Executes statements on numbers: a tile is one, and a product of tiles their product."""
    for statement in body:
        if isinstance(statement, NestLoop):
            for turn in range(statement.variable.extent):
                run(statement.body, memory, {**values, statement.variable: turn})
        elif isinstance(statement, Nest):
            execute(statement, memory, values)


def execute(nest: Nest, memory: dict[Any, int], values: dict[Variable, int]) -> None:
    turns = [values]
    for variable in nest.loops:
        turns = [{**turn, variable: n} for turn in turns for n in range(variable.extent)]
    for turn in turns:
        if any(place.at(turn) < 0 for place in nest.conditions):
            continue
        for step in nest.steps:
            read = []
            for tensor, at, pad in step.operands:
                place = tuple(p if isinstance(p, int) else p.at(turn) for p in at)
                inside = all(0 <= p < size for p, size in zip(place, tensor.shape, strict=True))
                assert inside or pad is not None
                read.append((tensor.name, tensor.memory, place) if inside else pad)
            target, *others = read
            # What nobody wrote is read as a number that no sum of the test is.
            numbers = [n if isinstance(n, int) else memory.get(n, 10**9) for n in others]
            if step.name == "gemm":
                memory[target] += numbers[0] * numbers[1]
            else:
                memory[target] = numbers[0] if step.name == "copy" else step.immediates[0]


@given(computations())
def test_a_computation_with_its_copies_gives_the_same_numbers(text: str) -> None:
    before = parsed(text)
    after = insert_dma_copy(before, TABLE)
    verify_dma_copy(before, after, TABLE)
    results = []
    for function in (before, after):
        memory: dict[Any, int] = {}
        for tensor in function.tensors:
            if tensor.name in "xw":
                rows, columns = tensor.shape
                for n in range(rows * columns):
                    memory[tensor.name, None, divmod(n, columns)] = 7 * n + 1
        run(function.body, memory, {})
        results.append({place: n for place, n in memory.items() if place[0] == "out"})
    assert results[0] == results[1]
    (out,) = (tensor for tensor in before.tensors if tensor.name == "out")
    assert len(results[0]) == out.shape[0] * out.shape[1]
