# SPDX-License-Identifier: Apache-2.0
"""vta/kernels/verify.py: a kernel that emits something else than its nests say is found."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError, VerificationError
from loadstone.ir_pass.insert_dma_copy import insert_dma_copy
from loadstone.ir_pass.nest_text import parsed, printed
from loadstone.ir_pass.nests import (
    Function,
    NestAllocation,
    NestLoops,
    NestStep,
    NestTensor,
    Statement,
)
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import AluOp, Memory
from loadstone.vta.kernels.emitter import PAD_TENSOR, Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.kernels.kernel import Kernel
from loadstone.vta.kernels.memories import memory_table
from loadstone.vta.kernels.verify import verify_kernel
from loadstone.vta.operators import kernels, lower_operator
from loadstone.vta.stream.operations import (
    DramTile,
    FillNest,
    Operation,
    TileLoad,
    TileStore,
    VirtualTile,
    tiles_of,
)
from tests.repeat import times
from tests.vta.operators.test_rescaled import convolution
from tests.vta.stream.meaning import execute

CONFIG = load_config("vta-pynq")
OUT = NestTensor("out", (8,), (1, 16), "int8")
ACC = NestTensor("acc", (8,), (1, 16), "int32", "local", "acc")


def filled(*values: int) -> Function:
    """Stores an accumulator behind some fills."""
    body: list[Statement] = [NestAllocation(ACC)]
    for value in values:
        loops = NestLoops()
        body.append(loops.nest(NestStep("fill", (ACC[loops.loop(8, "i")],), (value,))))
    loops = NestLoops()
    i = loops.loop(8, "i")
    return Function("filled", (OUT,), (*body, loops.nest(NestStep("copy", (OUT[i], ACC[i])))))


ROWS = """\
func rows:
  param p: int32[4, 3] x1x16
  param x: int8[12, 9] x1x16
  param out: int8[10] x1x16
  for t<3:
    alloc acc: int32[4] x1x16 in acc
    alloc x_chip: int8[4, 9] x1x16 in inp
    alloc p_chip: int32[3] x1x16 in acc
    fill(acc[i] | 7) for i<4 if -4*t - i + 9 >= 0
    copy(p_chip[a], p[t, a]) for a<3
    add(acc[i], acc[0]) for i<4 if -4*t - i + 9 >= 0
    max(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
    copy(x_chip[i, j], x[4*t + i - 1, j - 1 else -3]) for i<4 j<9 if -4*t - i + 9 >= 0
    add(acc[i], p_chip[1]) for i<4 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""


def test_a_kernel_of_its_own_nests_passes() -> None:
    beyond = ROWS.replace("4*t + i - 1, j - 1 ", "4*t + i + 4, j + 1 ")  # its last row, and column
    for text in (ROWS, beyond, printed(filled(3))):
        function = parsed(text)
        verify_kernel(kernel_of_nests(function, CONFIG), function)


WINDOWS = """\
func windows:
  param x: int8[6, 5] x1x16
  param w: int8[2] x16x16
  param out: int8[4, 3] x1x16
  alloc acc: int32[4, 3] x1x16 in acc
  alloc x_chip: int8[6, 5] x1x16 in inp
  alloc w_chip: int8[2] x16x16 in wgt
  copy(x_chip[i, j], x[i, j]) for i<6 j<5
  copy(w_chip[i], w[i]) for i<2
  fill(acc[i, j] | 0) for i<4 j<3
  depthwise(acc[i, j], x_chip[i + y, j + z], w_chip[0] | 3, 3) for i<4 j<3 y<3 z<3
  copy(out[i, j], acc[i, j]) for i<4 j<3
"""


@pytest.mark.parametrize(
    "spoilt",
    [
        ("w_chip[0] |", "w_chip[1] |"),
        ("x_chip[i + y, j + z]", "x_chip[i, j + y + z]"),
        ("x_chip[i + y, j + z]", "x_chip[i + 1, j + z]"),
        ("| 3, 3) for i<4 j<3 y<3 z<3", "| 2, 3) for i<4 j<3 y<2 z<3"),
        ("| 3, 3) for i<4 j<3 y<3 z<3", "| 3, 2) for i<4 j<3 y<3 z<2"),
        ("depthwise(", "gemm("),
    ],
)
def test_another_window_is_found(spoilt: tuple[str, str]) -> None:
    device = load_config("vtaq2-1x16x16")
    function = parsed(WINDOWS)
    verify_kernel(kernel_of_nests(function, device), function)
    before, after = spoilt
    other = WINDOWS.replace(before, after)
    assert other != WINDOWS
    if after == "gemm(":
        other = other.replace(" | 3, 3)", ")")
    with pytest.raises(LoweringError, match="depthwise"):
        verify_kernel(kernel_of_nests(parsed(other), device), function)


WIDE = """\
func wide:
  param x: int8[6] x1x16
  param w: int8[2] x16x16
  param out: int8[6] x1x16
  alloc acc: int32[6] x1x16 in acc
  alloc x_chip: int8[6] x1x16 in inp
  alloc w_chip: int8[2] x16x16 in wgt
  copy(x_chip[i], x[i]) for i<6
  copy(w_chip[i], w[i]) for i<2
  fill(acc[i] | 0) for i<6
  wide(acc[i], x_chip[i], w_chip[0]) for i<6
  copy(out[i], acc[i]) for i<6
"""


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("wide(acc[i], x_chip[i], w_chip[1])", "depthwise 1x1 wide"),
        ("wide(acc[i], x_chip[5 - i], w_chip[0])", "depthwise 1x1 wide"),
        ("gemm(acc[i], x_chip[i], w_chip[0])", "gemm"),
        ("depthwise(acc[i], x_chip[i], w_chip[0] | 1, 1)", "depthwise 1x1"),
    ],
)
def test_another_wide_step_is_found(after: str, found: str) -> None:
    device = load_config("vtaq2-1x16x16")
    function = parsed(WIDE)
    verify_kernel(kernel_of_nests(function, device), function)
    other = parsed(WIDE.replace("wide(acc[i], x_chip[i], w_chip[0])", after))
    with pytest.raises(LoweringError, match=rf"kernel: wide\(.* is emitted as `{found}"):
        verify_kernel(kernel_of_nests(other, device), function)
    with pytest.raises(LoweringError, match="is emitted as `depthwise 1x1 wide"):
        verify_kernel(kernel_of_nests(function, device), other)


#: What is said by the nests, what the kernel was made of in its place, and what is found.
SPOILT = [
    ("| 7)", "| 8)", r"fill\(acc\[0\] \| 7\) is emitted as `fill .* = 8"),
    ("add(acc[i], acc[0])", "mul(acc[i], acc[0])", r"add\(.*\) is emitted as `.*\*="),
    ("add(acc[i], acc[0])", "add(acc[i], acc[1])", r"add\(acc\[0\], acc\[0\]\) is emitted as"),
    ("add(acc[i], acc[0])", "add(acc[i], acc[i])", r"add\(acc\[0\], acc\[0\]\) is emitted as"),
    ("max(acc[i] | 0)", "max(acc[i] | 1)", r"max\(acc\[0\] \| 0\) is emitted as"),
    (
        "x[4*t + i - 1,",
        "x[4*t + i - 2,",
        "tile 10 of x_chip holds the pad -3 behind .* tile 0 of x",
    ),
    ("else -3]", "else -4]", "tile 0 of x_chip holds the pad -4 behind .* must hold the pad -3"),
    ("else -3]", "else -128]", "tile 0 of x_chip holds the pad -128 behind"),
    (
        "copy(p_chip[a], p[t, a])",
        "copy(p_chip[a], p[t + 1, a])",
        "tile 0 of p_chip holds tile 3 of p behind its loads, and must hold tile 0 of p",
    ),
    ("copy(out[4*t + i], acc[i])", "copy(out[4*t + i], acc[3 - i])", "stores from copy.* are not"),
    ("for t<3:", "for t<2:", "copy.* is not emitted|fill.* is not emitted"),
    (
        "x_chip[i, j], x[4*t + i - 1, j - 1 ",
        "x_chip[i, j], x[4*t + i - 1, j - 2 ",
        "of x_chip holds",
    ),
    (
        "    max(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0\n",
        "",
        "2 steps from add.* are 1 operations",
    ),
]


@pytest.mark.parametrize(("said", "made", "message"), SPOILT)
def test_what_differs_is_named(said: str, made: str, message: str) -> None:
    assert said in ROWS
    kernel = kernel_of_nests(parsed(ROWS.replace(said, made)), CONFIG)
    with pytest.raises(LoweringError, match=message):
        verify_kernel(kernel, parsed(ROWS))


def test_more_than_the_nests_say_is_named() -> None:
    kernel = kernel_of_nests(parsed(ROWS), CONFIG)
    less = ROWS[: ROWS.rindex("    copy(out")]
    with pytest.raises(LoweringError, match=r"2 steps from add.* on are 1 operations"):
        verify_kernel(kernel, parsed(less))
    with pytest.raises(LoweringError, match=r"parameters \('y',\) of \('p', 'x', 'out'\)"):
        verify_kernel(replace(kernel, parameters=("y",)), parsed(ROWS))


def test_pads_from_a_constant_are_those_that_the_emitter_says() -> None:
    """vta-pynq cannot make a pad of -3 itself."""
    kernel = kernel_of_nests(parsed(ROWS), CONFIG)

    def emit(emitter: Emitter, *places: DramTile) -> None:
        kernel.emit(emitter, *places)
        assert emitter.pad_values == {-3}
        emitter.pad_values.add(5)

    with pytest.raises(LoweringError, match=r"it reads pads \[-3\] and says \[-3, 5\]"):
        verify_kernel(replace(kernel, emit=emit), parsed(ROWS))


def test_a_step_has_as_many_operands_as_its_call() -> None:
    kernel = kernel_of_nests(parsed(ROWS), CONFIG)
    more = ROWS.replace("p_chip[1])", "p_chip[1], p_chip[2])")
    with pytest.raises(LoweringError, match=r"add\(acc.*, p_chip.*, p_chip.*\) is emitted as `"):
        verify_kernel(kernel, parsed(more))


TWO = """\
func two:
  param out: int8[16] x1x16
  alloc a: int32[8] x1x16 in acc
  alloc b: int32[8] x1x16 in acc
  fill(a[i] | 1) for i<8
  fill(b[i] | 2) for i<8
  copy(out[i], a[i]) for i<8
  copy(out[i + 8], b[i]) for i<8
"""


def test_two_tensors_do_not_share_a_tile() -> None:
    """The second one's would be stored twice."""

    def shared(operations: list[Operation]) -> list[Operation]:
        (first,) = dict.fromkeys(tiles_of(operations[0]))
        for operation in operations:
            if isinstance(operation, FillNest):
                operation.dst = replace(operation.dst, tile=first)
            elif isinstance(operation, TileStore):
                operation.tile = first
        return operations

    function = parsed(TWO)
    kernel = kernel_of_nests(function, CONFIG)
    verify_kernel(kernel, function)
    with pytest.raises(LoweringError, match="b of 8 tiles in acc has another tile than before"):
        verify_kernel(emitting(kernel, shared), function)


# --- operations that are changed ------------------------------------------------------------------
#: As ROWS, with a product, and an operand that comes from eight bits.
PRODUCT = """\
func product:
  param w: int8[2] x16x16
  param b: int8[4] x1x16
  param x: int8[12, 9] x1x16
  param out: int8[10] x1x16
  for t<3:
    alloc acc: int32[4] x1x16 in acc
    alloc b_chip: int32[4] x1x16 in acc
    alloc x_chip: int8[4, 9] x1x16 in inp
    alloc w_chip: int8[2] x16x16 in wgt
    fill(acc[i] | 7) for i<4 if -4*t - i + 9 >= 0
    copy(x_chip[i, j], x[4*t + i - 1, j - 1 else -3]) for i<4 j<9 if -4*t - i + 9 >= 0
    copy(w_chip[k], w[k]) for k<2
    gemm(acc[i], x_chip[i, 2*k + 1], w_chip[k]) for i<4 k<2 if -4*t - i + 9 >= 0
    copy(b_chip[i], b[i]) for i<4
    add(acc[i], b_chip[i]) for i<4 if -4*t - i + 9 >= 0
    max(acc[i] | 0) for i<4 if -4*t - i + 9 >= 0
    copy(out[4*t + i], acc[i]) for i<4 if -4*t - i + 9 >= 0
"""
ACC8 = load_config("vtaq-1x16x16")


def emitting(kernel: Kernel, change: Callable[[list[Operation]], list[Operation]]) -> Kernel:
    """A kernel whose operations are changed."""

    def emit(emitter: Emitter, *places: DramTile) -> None:
        kernel.emit(emitter, *places)
        emitter.operations[:] = change(list(emitter.operations))

    return replace(kernel, emit=emit)


def refusal(change: Callable[[list[Operation]], list[Operation]]) -> str:
    """What is found in PRODUCT; "" where it passes."""
    function = parsed(PRODUCT)
    try:
        verify_kernel(emitting(kernel_of_nests(function, ACC8), change), function)
    except LoweringError as error:
        return str(error)
    return ""


def stored(operations: Sequence[Operation]) -> NDArray[np.int8]:
    """What operations of PRODUCT write, from fixed numbers."""
    rng, dram = np.random.default_rng(7), dict[str, Any]()
    for name, shape in (("w", (2, 16, 16)), ("b", (4, 1, 16)), ("x", (108, 1, 16))):
        dram[name] = rng.integers(-128, 128, shape).astype(np.int8)
    dram["out"] = np.zeros((10, 1, 16), np.int8)
    execute(operations, dram, ACC8)
    return np.asarray(dram["out"])


def tampered(rng: random.Random, operations: list[Operation]) -> list[Operation]:
    """One operation is gone, twice there, moved, or has another number or tile."""
    at, kind = rng.randrange(len(operations)), rng.randrange(8)
    if kind == 0:
        del operations[at]
    elif kind == 1:
        operations.insert(rng.randrange(len(operations) + 1), operations[at])
    elif kind == 2:
        operations.insert(rng.randrange(len(operations)), operations.pop(at))
    else:
        operations[at] = spoilt_record(rng, operations[at], operations)
    return operations


def spoilt_record(rng: random.Random, record: Any, operations: Sequence[Operation]) -> Any:
    """With another value in one field, or in one of an access."""
    name = rng.choice([entry.name for entry in fields(record)])
    value = getattr(record, name)
    if isinstance(value, VirtualTile):
        tiles = list(dict.fromkeys(t for o in operations for t in tiles_of(o)))
        same = VirtualTile(value.memory, value.size_tiles, value.name)
        new: Any = rng.choice([*tiles, same])
    elif isinstance(value, Memory):
        new = rng.choice([Memory.ACC, Memory.ACC_8BIT, Memory.INP, Memory.WGT])
    elif isinstance(value, AluOp):
        new = rng.choice([AluOp.ADD, AluOp.MAX, AluOp.MIN])
    elif isinstance(value, int):
        new = value + rng.choice([-1, 1])
    elif isinstance(value, tuple) and value:
        place = rng.randrange(len(value))
        new = (*value[:place], value[place] + rng.choice([-1, 1]), *value[place + 1 :])
    elif isinstance(value, str):
        new = rng.choice(["w", "b", "x", "y"])
    elif is_dataclass(value):
        new = spoilt_record(rng, value, operations)
    else:
        new = value
    return replace(record, **{name: new})


def test_operations_that_are_passed_compute_the_same() -> None:
    rng, kept = random.Random(3), list[list[Operation]]()
    assert refusal(lambda operations: kept.append(list(operations)) or operations) == ""
    right = stored(kept[0])
    said: list[str] = []
    for _ in range(times(600, 20_000)):
        said.append(refusal(lambda operations: kept.append(tampered(rng, operations)) or kept[-1]))
        if not said[-1]:
            np.testing.assert_array_equal(stored(kept[-1]), right)
    assert said.count("") > 20
    assert len(set(said)) > 30


def test_an_operation_behind_the_last_call_is_named() -> None:
    assert "no nest says `fill" in refusal(lambda operations: [*operations, operations[0]])


@pytest.mark.parametrize(
    ("name", "memory"), [("b_chip", Memory.ACC), ("x_chip", Memory.WGT), ("w_chip", Memory.INP)]
)
def test_a_tile_is_loaded_into_its_memory(name: str, memory: Memory) -> None:
    """Accumulators that are int8 in DRAM are extended to 32 bits."""

    def moved(operations: list[Operation]) -> list[Operation]:
        for operation in operations:
            if isinstance(operation, TileLoad) and operation.tile.name == name:
                operation.memory = memory
        return operations

    assert refusal(moved) == f"kernel: {name} is loaded as {memory.name}"


def test_an_access_has_a_stride_of_each_loop() -> None:
    """A record of an operation that is none."""

    def shorter(operations: list[Operation]) -> list[Operation]:
        (fill,) = [o for o in operations[:1] if isinstance(o, FillNest)]
        fill.dst = replace(fill.dst, strides=(*fill.dst.strides, 0))
        return operations

    with pytest.raises(ValueError, match="longer"):
        refusal(shorter)


def test_rows_of_a_store_may_lie_apart() -> None:
    text = printed(filled(3)).replace("int8[8]", "int8[16]").replace("out[i]", "out[2*i + 1]")
    function = parsed(text)
    verify_kernel(kernel_of_nests(function, CONFIG), function)
    for other in ("out[i + 1]", "out[2*i]"):
        spoilt = kernel_of_nests(parsed(text.replace("out[2*i + 1]", other)), CONFIG)
        with pytest.raises(LoweringError, match="stores from copy.* are not those of the nests"):
            verify_kernel(spoilt, function)


def test_what_nothing_wrote_is_not_stored() -> None:
    function = filled()
    with pytest.raises(LoweringError, match=r"copy\(out.*\) stores what nothing wrote"):
        verify_kernel(kernel_of_nests(function, CONFIG), function)


def test_a_tensor_may_have_the_name_of_a_pad() -> None:
    """It is what it is called in the function: the pad has no place there."""
    text = PRODUCT.replace("x: int8", f"{PAD_TENSOR.format(5)}: int8")
    text = text.replace(" x[", f" {PAD_TENSOR.format(5)}[")
    function = parsed(text)
    verify_kernel(kernel_of_nests(function, ACC8), function)


def test_a_tile_may_be_loaded_again() -> None:
    """Behind an operation that used it."""
    lines = PRODUCT.splitlines(keepends=True)
    load, add = (next(k for k, line in enumerate(lines) if w in line) for w in ("b[i]", "add("))
    again = lines[load].replace("b[i]", "b[i - 1 else 3]")
    text = "".join([*lines[: add + 1], again, lines[add], *lines[add + 1 :]])
    function = parsed(text)
    verify_kernel(kernel_of_nests(function, ACC8), function)
    other = kernel_of_nests(parsed(text.replace("i - 1 else", "i else")), ACC8)
    with pytest.raises(LoweringError, match="tile 0 of b_chip holds tile 0 of b"):
        verify_kernel(other, function)


def test_a_dump_has_the_computation_and_its_copies() -> None:
    lowered = lower_operator(convolution(20, 3, 0.0012, Rounding.DOUBLE), CONFIG)
    before, after, *_ = lowered.runs("layer")
    assert [run.name for run in (before, after)] == ["computation", "insert_dma_copy"]
    assert {run.subject for run in (before, after)} == {"layer"}
    assert before.text is not None
    assert after.text is not None
    made = insert_dma_copy(parsed(before.text()), memory_table(CONFIG))
    assert printed(made) == after.text()


def test_every_new_kernel_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was read wrongly does not come through in a test."""

    def spoilt(function: Function, config: HwConfig) -> Kernel:
        kernel = kernel_of_nests(function, config)

        def emit(emitter: Emitter, *places: DramTile) -> None:
            kernel.emit(emitter, *places)
            next(o for o in emitter.operations if isinstance(o, FillNest)).value += 1

        return replace(kernel, emit=emit)

    monkeypatch.setattr(kernels, "kernel_of_nests", spoilt)
    kernels._kernel.cache_clear()
    wanted = r"pass operations on .* is wrong: .*kernel: fill.* is emitted as `fill .* = 1"
    with pytest.raises(VerificationError, match=wanted):
        lower_operator(convolution(20, 3, 0.0012, Rounding.DOUBLE), CONFIG)
    kernels._kernel.cache_clear()
