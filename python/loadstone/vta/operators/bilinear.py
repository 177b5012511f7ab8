# SPDX-License-Identifier: Apache-2.0
"""Bilinear resizing: every output pixel is a sum of four input pixels times small integers, then
one requantization, or products and shifts on a device without it.

In:   graph.ResizeBilinear under TFLite's rule (10 fractional bits per axis, half away from zero).
Out:  a BilinearSpec, and diagonal weight tiles.
Next: kernels.py.

Along each axis output pixels fall into runs: pixels `step` apart that read neighbouring inputs with
the same two weights.

    2x, half pixel centers:    out 0 | out 1 3 5 ... | out 2 4 6 ... | last        reads  0 | t, t+1
                               | t, t+1 | last
                               4     | 3 1           | 1 3           | 4           quarters

A run of rows and a run of columns is one loop nest, whose four taps are GEMMs with diagonal
weights. The borders, where a pixel is read twice, are runs of their own.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np
from numpy.typing import NDArray

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.errors import LoweringError
from loadstone.graph.kernels import tflite
from loadstone.numerics import Array, Rounding
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.integers.chain import Chain, Product
from loadstone.vta.integers.linear_form import Correction
from loadstone.vta.integers.linear_search import LinearProblem, find_chain
from loadstone.vta.integers.requantization_search import (
    OutputRange,
    Requantization,
    find_requantization,
)
from loadstone.vta.isa.spec import Capability, Memory
from loadstone.vta.operators import constants
from loadstone.vta.operators.kernels import LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.bilinear import BilinearSpec, PixelRun
from loadstone.vta.schedule.epilogue import Immediate, Rq

__all__ = ["lower", "unsupported"]

#: The largest sum of weights, that of a factor of 4. Beyond it runs get so many and so short that
#: instructions cost more than steps.
_LARGEST_WHOLE = 64


def unsupported(op: g.ResizeBilinear, config: HwConfig) -> Refusal | None:
    """Why the device cannot do this exactly; None if it can."""
    spreads = op.input.shape[1:3] == (1, 1)
    if op.rounding is Rounding.FLOAT32 and not spreads:
        return Refusal("ONNX interpolates in float32", "nearest resizing")
    rows, columns = _runs(op, 1), _runs(op, 2)
    whole = sum(rows[0].weights) * sum(columns[0].weights)
    if whole > _LARGEST_WHOLE:
        return Refusal(
            f"{op.input.shape} to {op.output.shape} needs weights of {whole} parts",
            "an integer factor of at most 4",
        )
    if op.unsigned and whole % 2 == 0 and not (_exact(op, 1) and _exact(op, 2)):
        return Refusal(
            "the uint8 kernel's float32 weights are not exact, and its sums may lie on a half",
            "factors that are powers of two",
        )
    found = (
        _requantization(whole, op.unsigned)
        if config.has(Capability.REQUANTIZE)
        else _chain(whole, _largest(rows) * _largest(columns), op.unsigned)
    )
    if found is None:
        return Refusal(f"no requantization divides by {whole} as the kernel does", "another factor")
    return None


def lower(op: g.ResizeBilinear, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """One kernel, and the weights of its taps as diagonal tiles."""
    rows, columns = _runs(op, 1), _runs(op, 2)
    whole = sum(rows[0].weights) * sum(columns[0].weights)
    found = None
    steps: tuple[int | Immediate | Rq, ...] = (1,)
    if whole > 1:
        chain, found = _finish(whole, _largest(rows) * _largest(columns), op.unsigned, config)
        steps = tuple(
            step.weight if isinstance(step, Product) else Immediate(step.op, step.value)
            for step in chain
        )
    names = {
        "diagonals": f"{op.name}.diagonals",
        "operands": f"{op.name}.operands",
        "x": op.input.name,
        "out": op.output.name,
    }
    own: dict[str, tuple[Memory, Array]] = {}
    if found is not None:
        steps = (*steps, Rq(found.zero_point, found.low, found.high, found.rounding))
        lanes = (found.bias, found.multiplier, found.shift)
        own[names["operands"]] = (
            Memory.ACC,
            constants.operand_tiles(lanes, config.block, config),
        )
    layout = Blocked(op.input.shape, config.batch, config.block)
    spec = BilinearSpec(
        planes=layout.samples * layout.channel_blocks,
        input=(op.input.shape[1], op.input.shape[2]),
        output=(op.output.shape[1], op.output.shape[2]),
        rows=rows,
        columns=columns,
        steps=steps,
    )
    identity = constants.identity_tile(config)
    tiles = np.concatenate([identity * np.int8(weight) for weight in spec.diagonals])
    own = {names["diagonals"]: (Memory.WGT, tiles), **own}
    return emit(spec, names, own, op, config, request)


def _runs(op: g.ResizeBilinear, axis: int) -> tuple[PixelRun, ...]:
    """The runs of one axis, with weights in the smallest integers."""
    lower, pairs = _taps(op, axis)
    divisor = gcd(*pairs.ravel().tolist())
    runs: list[PixelRun] = []
    groups: dict[tuple[int, int], list[int]] = {}
    for index, pair in enumerate((pairs // divisor).tolist()):
        groups.setdefault((pair[0], pair[1]), []).append(index)
    for weights, members in groups.items():
        start = 0
        while start < len(members):
            run = _longest(members[start:], lower)
            runs.append(
                PixelRun(members[start], run[0], run[1], int(lower[members[start]]), weights)
            )
            start += run[1]
    return tuple(runs)


def _taps(op: g.ResizeBilinear, axis: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first input of each output pixel, and the weights of it and the next in 1/1024, or finer
    where the kernel is float32."""
    taps = tflite.bilinear_taps_uint8 if op.unsigned else tflite.bilinear_taps
    lower, upper, share = taps(
        op.input.shape[axis], op.output.shape[axis], op.align_corners, op.half_pixel_centers
    )
    one = (1 << 23) if op.unsigned else 1 << 10
    second = np.asarray(np.round(share.astype(np.float64) * (one if op.unsigned else 1)), np.int64)
    pairs = np.stack([one - second, second], axis=1)
    pairs[np.asarray(lower) == np.asarray(upper)] = (
        one,
        0,
    )  # a pixel that is read twice: all weight on it
    return np.asarray(lower, np.int64), pairs


def _exact(op: g.ResizeBilinear, axis: int) -> bool:
    """Whether float32 weights of an axis are whole parts of _LARGEST_WHOLE, also those of a pixel
    that is read twice: then the kernel's products and sums of 8 + 12 bits are exact, and its halves
    are ours. An odd sum of weights has no halves, and its float32 errors are rounded away."""
    share = tflite.bilinear_taps_uint8(
        op.input.shape[axis], op.output.shape[axis], op.align_corners, op.half_pixel_centers
    )[2]
    return not np.any(share.astype(np.float64) * _LARGEST_WHOLE % 1)


def _longest(members: list[int], lower: NDArray[np.int64]) -> tuple[int, int]:
    """(step, count) of the longest run that begins with the first member: equal steps, neighbouring
    inputs."""
    if len(members) == 1:
        return 1, 1
    step, count = members[1] - members[0], 1
    while (
        count < len(members)
        and members[count] - members[count - 1] == step
        and lower[members[count]] - lower[members[count - 1]] == 1
    ):
        count += 1
    return step, count


def _largest(runs: tuple[PixelRun, ...]) -> int:
    return max(max(run.weights) for run in runs)


def _finish(
    whole: int, largest: int, unsigned: bool, config: HwConfig
) -> tuple[Chain, Requantization | None]:
    """The operations on the sum: one RQ, or products with it and shifts."""
    if config.has(Capability.REQUANTIZE):
        found = _requantization(whole, unsigned)
        if found is not None:
            return (Product(0, 1),), found
    else:
        chain = _chain(whole, largest, unsigned)
        if chain is not None:
            return chain, None
    raise LoweringError(f"operators: resize_bilinear: nothing divides by {whole}")


def _means(whole: int, offset: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every sum, and its share: half away from zero of x + offset."""
    sums = np.arange(-128 * whole, 127 * whole + 1)
    raised = sums + offset * whole
    return sums, np.sign(raised) * ((2 * np.abs(raised) + whole) // (2 * whole)) - offset


@lru_cache(maxsize=64)
def _requantization(whole: int, unsigned: bool) -> Requantization | None:
    """Division by the sum of weights, tried on every sum; in uint8 models of x + 128."""
    offset = 128 if unsigned else 0
    sums, wanted = _means(whole, offset)
    return find_requantization(sums, wanted, 1 / whole, offset * whole, OutputRange(-offset))


@lru_cache(maxsize=64)
def _chain(whole: int, largest: int, unsigned: bool) -> Chain | None:
    """The same by products and shifts. largest: the largest weight of a tap."""
    offset = 128 if unsigned else 0
    sums, wanted = _means(whole, offset)
    taps = 4
    problem = LinearProblem(
        (sums,), wanted, (1 / whole,), (-offset * whole,), -128, 127, taps, largest
    )
    return find_chain(problem, (Correction.NONE, Correction.NEGATIVE))
