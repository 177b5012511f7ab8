# SPDX-License-Identifier: Apache-2.0
"""The C runtime's operators against NumPy and the project's definitions, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import PackWindow, SoftmaxScaling, Strided
from loadstone.backend.device import ProgramDevice
from loadstone.graph import Quantization
from loadstone.graph.kernels import tflite
from loadstone.graph.kernels.tflite.functions import input_radius
from loadstone.numerics import quantize_multiplier
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.operators.layout import Blocked, Im2colLayout
from tests.artifact.test_format import BINARY, ON_ROWS, UNARY

Array = npt.NDArray[Any]
CONFIG = load_config("vtaq-1x16x16")


def run_step(
    step: HostStep,
    x: Array,
    y: BufferView,
    table: Array | None = None,
    x_tensor: BufferView | None = None,
    align: int = 1,
) -> Array:
    """One host step on the null device. Tensors: 0 is x, 1 is y, 2 is the table; regions of any
    alignment, to catch careless access."""
    x_tensor = x_tensor or BufferView("x", x.shape, DataType.of(x.dtype), 0, 0)
    size = max(x.nbytes, 1)
    regions = [
        MemoryRegion("x", RegionKind.INPUT, size, align),
        MemoryRegion("y", RegionKind.OUTPUT, y.size_bytes, align),
    ]
    tensors = [x_tensor, y]
    if table is not None:
        regions.append(
            MemoryRegion("table", RegionKind.CONSTANTS, table.nbytes, 1, data=table.tobytes())
        )
        tensors.append(BufferView("table", table.shape, DataType.of(table.dtype), 2, 0))
    inputs = (0,) if x_tensor.layout == ViewLayout.ROW_MAJOR else ()
    model = Artifact(
        "step", (ProgramDevice.of(CONFIG),), 1, tuple(regions), tuple(tensors), inputs, (), (step,)
    )
    with device.open("null") as dev, dev.load(model) as session:
        source = session._view(lambda s, _: session_memory(session, 0), 0, 0)
        source[...] = x.reshape(source.shape)
        session.execute()
        return session._view(lambda s, _: session_memory(session, 1), 0, 1).copy()


def session_memory(session: device.Session, operand: int) -> Any:
    """Memory of x (0) or y (1): the first and the last operand of step 0."""
    from loadstone.library.native import ffi, lib

    step = session.artifact.steps[0]
    assert isinstance(step, HostStep)
    index = 0 if operand == 0 else len(step.inputs)
    found = ffi.new("lds_operand *")
    assert lib().lds_session_operand(session._open(), 0, index, found) == 0
    return found.data


def tensor(shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> BufferView:
    return BufferView("y", tuple(shape), DataType.of(dtype), 1, 0, scale, zero_point)


def blocked(shape: Sequence[int], batch: int, block: int, region: int = 1) -> BufferView:
    return BufferView(
        "b", tuple(shape), DataType.INT8, region, 0, 0.0, 0, ViewLayout.BLOCKED, batch, block
    )


# --- moving bytes ---------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_copy_is_a_strided_copy(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 6))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 9]), min_size=rank, max_size=rank))
    order = data.draw(st.permutations(range(rank)))
    dtype = data.draw(st.sampled_from(["int8", "int16", "int32", "int64"]))
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    wanted = x.transpose(order)
    strides = [s // x.itemsize for s in wanted.strides]
    out_strides = [s // x.itemsize for s in np.ascontiguousarray(wanted).strides]
    step = host_step.copy("transpose", 0, 1, wanted.shape, Strided(strides), Strided(out_strides))
    assert np.array_equal(run_step(step, x, tensor(wanted.shape, dtype)), wanted)


def test_copy_leaves_the_rest_alone() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    y = run_step(
        host_step.copy("concatenate", 0, 1, (2, 3), Strided((3, 1)), Strided((5, 1), 2)),
        x,
        tensor((2, 5), "int8"),
    )
    assert y.tolist() == [[0, 0, 0, 1, 2], [0, 0, 3, 4, 5]]


def test_fill() -> None:
    assert (
        run_step(host_step.fill("f", 1, 200), np.zeros(1, np.int8), tensor((7,), "uint8")) == 200
    ).all()


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_pack_and_unpack_are_the_compilers_layouts(data: st.DataObject) -> None:
    batch, block = data.draw(st.sampled_from([(1, 4), (1, 16), (2, 8), (4, 16)]))
    n, (h, w, c) = (
        batch * data.draw(st.integers(1, 2)),
        data.draw(st.tuples(st.integers(1, 7), st.integers(1, 7), st.integers(1, 20))),
    )
    nchw, unsigned = data.draw(st.booleans()), data.draw(st.booleans())
    x = np.random.default_rng(n * h * w * c).integers(-128, 128, (n, h, w, c), np.int8)
    stored = (x.transpose(0, 3, 1, 2) if nchw else x).astype(np.int16)
    stored = (stored + 128).astype(np.uint8) if unsigned else stored.astype(np.int8)
    wanted = Blocked(x.shape, batch, block).pack(x)
    packed = run_step(
        host_step.pack("p", 0, 1, (h, w, c), nchw=nchw), stored, blocked((n, h, w, c), batch, block)
    )
    assert np.array_equal(packed.reshape(wanted.shape), wanted)
    back = run_step(
        host_step.unpack("u", 0, 1, nchw=nchw),
        packed,
        tensor(stored.shape, "uint8" if unsigned else "int8"),
        x_tensor=blocked((n, h, w, c), batch, block, 0),
    )
    assert np.array_equal(back, stored)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_unpack_takes_whole_sums(data: st.DataObject) -> None:
    """int32 as a device stores it, tile by tile."""
    batch, block = data.draw(st.sampled_from([(1, 4), (1, 16), (2, 8), (4, 16)]))
    n = batch * data.draw(st.integers(1, 2))
    h, w, c = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 40)))
    limits = np.iinfo(np.int32)
    y = np.random.default_rng(n * h * w * c).integers(limits.min, limits.max, (n, h, w, c))
    y = y.astype(np.int32)
    tiles = Blocked(y.shape, batch, block).pack(y)  # type: ignore[arg-type]
    place = replace(blocked(y.shape, batch, block, 0), dtype=DataType.INT32)
    found = run_step(host_step.unpack("u", 0, 1), tiles, tensor(y.shape, "int32"), x_tensor=place)
    assert np.array_equal(found, y)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_pack_folds_the_taps_of_a_kernel_into_channels(data: st.DataObject) -> None:
    sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
    (h, w), c = data.draw(sizes), data.draw(st.integers(1, 4))
    kernel = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    strides = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    pads = tuple(data.draw(st.integers(0, k - 1)) for k in kernel)
    size = tuple(
        data.draw(st.integers(1, (s + p - 1) // t + 1))
        for s, p, t in zip((h, w), pads, strides, strict=True)
    )
    zero_point = data.draw(st.integers(-128, 127))
    x = np.random.default_rng(h * w * c).integers(-128, 128, (1, h, w, c), np.int8)
    folded = Im2colLayout((1, h, w, c), kernel, strides, pads, size, zero_point, 1, 16)  # type: ignore[arg-type]
    channels = kernel[0] * kernel[1] * c
    y = run_step(
        host_step.pack("p", 0, 1, (h, w, c), PackWindow(kernel, strides, pads, zero_point)),  # type: ignore[arg-type]
        x,
        blocked((1, *size, channels), 1, 16),
    )
    assert np.array_equal(
        folded.blocked.unpack(y.reshape(folded.size_tiles, 1, 16)), folded.gather(x)
    )


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_gather_reads_rows_out_of_blocks(data: st.DataObject) -> None:
    """As pack has put them there; a number outside is the nearest one inside."""
    rows, columns = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    by = data.draw(st.integers(1, 17)), data.draw(st.integers(1, 17))
    dtype = data.draw(st.sampled_from(["int8", "float32"]))
    kinds = st.sampled_from(["int32", "int64"])
    numbers = np.array(
        data.draw(st.lists(st.integers(-2, rows + 2), min_size=1, max_size=5)), data.draw(kinds)
    )
    table = np.arange(rows * columns).reshape(rows, columns).astype(dtype)
    whole = np.full((-(-rows // by[0]) * by[0], -(-columns // by[1]) * by[1]), -1, dtype)
    whole[:rows, :columns] = table
    tiles = whole.reshape(-1, by[0], whole.shape[1] // by[1], by[1]).transpose(0, 2, 1, 3)
    x = BufferView(
        *("x", (rows, 1, 1, columns), DataType.of(dtype), 0, 0, 0.0, 0, ViewLayout.BLOCKED, *by)
    )
    y = run_step(
        host_step.gather("g", (0, 2, 1), rows, columns),
        np.ascontiguousarray(tiles),
        tensor((len(numbers), columns), dtype),
        numbers,
        x,
    )
    assert np.array_equal(y, table[np.clip(numbers, 0, rows - 1)])


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "int64"])
def test_lookup(dtype: str) -> None:
    table = np.arange(256)[::-1].astype(dtype)
    x = np.arange(-128, 128, dtype=np.int8)
    step = host_step.lookup("l", 0, 2, 1)
    assert np.array_equal(run_step(step, x, tensor(x.shape, dtype), table), table[x.view(np.uint8)])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_argmax_is_the_first_largest(dtype: str, index: str) -> None:
    x = np.random.default_rng(1).integers(0, 5, (40, 21)).astype(dtype)
    x[0] = 3
    y = run_step(host_step.argmax("a", 0, 1, 21), x, tensor((40,), index))
    assert np.array_equal(y, x.argmax(axis=1))


# --- floats ---------------------------------------------------------------------------------------
def interesting_floats(scale: float) -> npt.NDArray[np.float32]:
    random = np.random.default_rng(1)
    ties = (np.arange(-140, 140) + 0.5) * scale
    special = [np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 0.0, -0.0]
    return np.concatenate([ties, random.normal(0, 60 * scale, 4000), special]).astype(np.float32)


@pytest.mark.parametrize(
    ("scale", "zero_point"), [(0.0078125, 0), (0.003921569, -128), (0.5, 17), (1.7e-3, -3)]
)
def test_quantize_as_tflite(scale: float, zero_point: int) -> None:
    x = interesting_floats(scale)
    x = x[np.abs(x) < 1e6]  # TFLite's behaviour beyond is not defined
    y = run_step(
        host_step.quantize("q", 0, 1, half_to_even=False),
        x,
        tensor(x.shape, "int8", float(np.float32(scale)), zero_point),
    )
    assert np.array_equal(y, tflite.quantize(x, Quantization(float(np.float32(scale)), zero_point)))


@pytest.mark.parametrize(
    ("scale", "zero_point"), [(0.0078125, 0), (0.003921569, -128), (0.5, 17), (1.7e-3, -3)]
)
def test_quantize_as_onnx(scale: float, zero_point: int) -> None:
    x = interesting_floats(scale)
    y = run_step(
        host_step.quantize("q", 0, 1, half_to_even=True),
        x,
        tensor(x.shape, "int8", float(np.float32(scale)), zero_point),
    )
    with np.errstate(all="ignore"):
        wanted = np.clip(np.rint(x / np.float32(scale)) + zero_point, -128, 127)
    wanted[np.isnan(x)] = -128
    assert np.array_equal(y, wanted.astype(np.int8))


def test_quantize_clamps_to_the_activation() -> None:
    x = np.linspace(-10, 10, 101, dtype=np.float32)
    y = run_step(
        host_step.quantize("q", 0, 1, half_to_even=True, low=-5, high=6),
        x,
        tensor(x.shape, "int8", 0.1),
    )
    assert (y.min(), y.max()) == (-5, 6)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int32", -(2**31), 2**31 - 1)],
)
def test_dequantize(dtype: str, low: int, high: int) -> None:
    x = np.random.default_rng(1).integers(low, high + 1, 500).astype(dtype)
    quantized = BufferView("x", x.shape, DataType.of(dtype), 0, 0, 0.0123, 5)
    y = run_step(host_step.dequantize("d", 0, 1), x, tensor(x.shape, "float32"), x_tensor=quantized)
    assert np.array_equal(y, (x.astype(np.int64) - 5).astype(np.float32) * np.float32(0.0123))


@pytest.mark.parametrize("zero_point", [2**31 - 1, -(2**31), 2**31 - 65, 64 - 2**31, 0, 1])
def test_dequantize_rounds_33_bits_once(zero_point: int) -> None:
    """Ties between two numbers of float32, and their neighbours, on both sides of 2**31."""
    near = np.arange(-3, 4)
    ties = np.concatenate([sign * (2**31 + 128 * k + near) for sign in (-1, 1) for k in range(4)])
    halves = np.concatenate([sign * (2**31 - 64 * k + near) for sign in (-1, 1) for k in range(4)])
    x = np.concatenate([ties, halves, near, [2**31 - 1, -(2**31)]]) + zero_point
    x = x[(x >= -(2**31)) & (x < 2**31)].astype(np.int32)
    quantized = BufferView("x", x.shape, DataType.INT32, 0, 0, 1.0, zero_point)
    y = run_step(host_step.dequantize("d", 0, 1), x, tensor(x.shape, "float32"), x_tensor=quantized)
    assert np.array_equal(y, (x.astype(np.int64) - zero_point).astype(np.float32))


def test_softmax_float32_is_exact_to_a_few_units() -> None:
    random = np.random.default_rng(1)
    x = np.concatenate([random.normal(0, s, (50, 37)) for s in (0.1, 1, 10, 60)]).astype(np.float32)
    y = run_step(host_step.softmax_float32("s", 0, 1, 37), x, tensor(x.shape, "float32"))
    e = np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64))
    wanted = e / e.sum(axis=1, keepdims=True)
    assert np.allclose(y, wanted, rtol=1e-6, atol=1e-37)


def test_softmax_float32_of_infinite_rows_is_no_crash() -> None:
    x = np.array([[np.inf, 0], [-np.inf, -np.inf], [np.nan, 1], [-np.inf, 1]], np.float32)
    y = run_step(host_step.softmax_float32("s", 0, 1, 2), x, tensor(x.shape, "float32"))
    assert y[3].tolist() == [0.0, 1.0]


def softmax_parameters(scale: float, beta: float = 1.0) -> SoftmaxScaling:
    multiplier, shift = quantize_multiplier(
        min(beta * float(np.float32(scale)) * (1 << 26), float((1 << 31) - 1))
    )
    radius = input_radius(5, int(shift))
    return SoftmaxScaling(int(multiplier), int(shift), -radius)


@pytest.mark.parametrize("scale", [0.002, 0.0078125, 0.1, 0.17, 1.0, 7.3])
@pytest.mark.parametrize("depth", [1, 2, 10, 255, 1001])
def test_softmax_int8_is_tflites(scale: float, depth: int) -> None:
    scale = float(np.float32(scale))
    x = np.random.default_rng(depth).integers(-128, 128, (30, depth), np.int8)
    x[0], x[1, 1:] = 5, -128
    step = host_step.softmax_int8("s", 0, 1, depth, softmax_parameters(scale))
    y = run_step(step, x, tensor(x.shape, "int8", 1 / 256, -128))
    assert np.array_equal(y, tflite.softmax(x, Quantization(scale, 0)))
    unsigned = (x.astype(np.int16) + 128).astype(np.uint8)
    again = run_step(step, unsigned, tensor(x.shape, "uint8", 1 / 256, 0))
    assert np.array_equal(again.astype(np.int16) - 128, y)


def test_softmax_int8_with_hostile_parameters_is_no_crash() -> None:
    x = np.random.default_rng(1).integers(-128, 128, (8, 16), np.int8)
    for multiplier in (0, 1, 2**31 - 1):
        for left_shift in (0, 31):
            for diff_min in (0, -(2**31)):
                scaling = SoftmaxScaling(multiplier, left_shift, diff_min)
                step = host_step.softmax_int8("s", 0, 1, 16, scaling)
                run_step(step, x, tensor(x.shape, "int8"))


def test_maker_functions_give_sound_steps() -> None:
    """One for each operator, or for all of a kind."""
    together = {
        **dict.fromkeys(UNARY, host_step.unary),
        **dict.fromkeys(BINARY, host_step.broadcast),
        **dict.fromkeys((opcode for opcode, *_ in ON_ROWS), host_step.on_rows),
    }
    makers: dict[host_step.HostOpcode, Callable[..., HostStep]] = {
        operator: together.get(operator) or getattr(host_step, operator.name.lower())
        for operator in host_step.OPERATORS
    }
    assert set(makers) == set(host_step.HostOpcode)
