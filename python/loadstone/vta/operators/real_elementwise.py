# SPDX-License-Identifier: Apache-2.0
"""Sums, products and clamps of activations on a device of bfloat16.

In:   graph.RealBinary, RealClamp.
Out:  an ElementwiseSpec: the GEMM core brings the inputs into ACC, times one, and the ALU does the
      rest.
Next: kernels.py.

A product with the identity adds zeros to each lane: of an infinite number in a tile nothing is left
in the others but not-a-number. A network whose activations are finite does not meet it.
"""

from __future__ import annotations

from loadstone import graph as g
from loadstone.backend.interface import Refusal
from loadstone.graph.bfloat16 import immediate
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.operators.kernels import IDENTITY, LoweredOperator, emit
from loadstone.vta.operators.layout import Blocked
from loadstone.vta.operators.real_layers import clamps
from loadstone.vta.operators.request import LayerRequest
from loadstone.vta.schedule.elementwise import ElementwiseSpec, Input
from loadstone.vta.schedule.epilogue import Immediate

__all__ = ["binary", "clamp", "unsupported"]


def unsupported(op: g.RealBinary, _: HwConfig) -> Refusal | None:
    """None if the device can do this."""
    moves = [_moves(op, tensor) for tensor in op.inputs]
    if None in moves or not any(all(own) for own in moves if own):
        shapes = " and ".join("x".join(map(str, tensor.shape)) for tensor in op.inputs)
        return Refusal(
            f"{op.function} of {shapes}", "equal shapes, or one value per channel for all pixels"
        )
    return None


def clamp(op: g.RealClamp, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """Immediates alone."""
    layout = Blocked(op.input.shape, config.batch, config.block)
    tail = clamps(op.low, op.high)
    spec = ElementwiseSpec((layout.size_tiles,), (Input((True,), ()),), None, tail)
    names = {"a": op.input.name, "identity": IDENTITY, "out": op.output.name}
    return emit(spec, names, {}, op, config, request)


def binary(op: g.RealBinary, config: HwConfig, request: LayerRequest) -> LoweredOperator:
    """The result takes the place of the first input, so that must be one that moves everywhere."""
    minus = (Immediate("mul", immediate(-1.0)),) if op.function == "sub" else ()
    inputs = [
        (tensor, _moves(op, tensor) or (), steps)
        for tensor, steps in zip(op.inputs, ((), minus), strict=True)
    ]
    if not all(inputs[0][1]):
        inputs.reverse()
    layout = Blocked(op.output.shape, config.batch, config.block)
    alike = all(all(own) for _, own, _ in inputs)
    loops = (layout.samples, layout.channel_blocks, layout.pixels)
    spec = ElementwiseSpec(
        (layout.size_tiles,) if alike else loops,
        tuple(Input((True,) if alike else own, steps) for _, own, steps in inputs),
        "mul" if op.function == "mul" else "add",
        clamps(op.low, op.high),
    )
    names = {
        "a": inputs[0][0].name,
        "b": inputs[1][0].name,
        "identity": IDENTITY,
        "out": op.output.name,
    }
    return emit(spec, names, {}, op, config, request)


def _moves(op: g.RealBinary, tensor: g.Tensor) -> tuple[bool, ...] | None:
    """Whether an input moves along (samples, channel blocks, pixels); None for a broadcast that the
    device does not do."""
    shape, out = tensor.shape, op.output.shape
    if len(shape) != len(out) or len(shape) < 2:
        return None
    same = [own == whole for own, whole in zip(shape, out, strict=True)]
    pixels = all(same[1:-1])
    if not (same[0] and same[-1] and (pixels or all(own == 1 for own in shape[1:-1]))):
        return None
    return True, True, pixels
