"""Which operators a VTA device takes, and why it leaves the others.

In:   a HwConfig.
Out:  the pattern table of the back end: (form, predicate), in the order in which they are tried.
Next: partition.py applies it; schedule/ and operators/ lower what is taken.

A predicate sees an operator of graph.py and answers None (taken) or a Refusal. It states limits of geometry and of exactness:
what is taken must give the framework's integers, not nearly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from loadstone import graph as g
from loadstone.backend import Pattern, Refusal, offered
from loadstone.numerics import Rounding, onnx_scale, tflite_scale
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability

__all__ = ["patterns"]

#: LOAD writes at most 15 rows or columns of padding on each side, and one instruction per side is what a schedule uses.
MAX_PAD = 15

Predicate = Callable[[HwConfig, Any], Refusal | None]


def patterns(config: HwConfig) -> Sequence[Pattern]:
    """The table of one device."""
    return [offered(form, partial(predicate, config)) for form, predicate in _TABLE]


# ---------------------------------------------------------------------------------------------------------------
# What every operator must satisfy
# ---------------------------------------------------------------------------------------------------------------


def _int8(config: HwConfig, o: g.Operator) -> Refusal | None:
    for tensor in (*o.inputs, *o.outputs):
        if tensor.dtype != "int8":
            return Refusal(f'tensor "{tensor.name}" is {tensor.dtype}, the device computes on int8', "an int8 tensor there")
    return None


def _requantizes(config: HwConfig, scales: Any, rounding: Rounding) -> Refusal | None:
    """VTA-Q rounds as the frameworks do; VTA shifts, half up, which is SINGLE when every scale is a power of two."""
    if Capability.REQUANTIZE in config.capabilities:
        return None
    mantissa, exponent = np.frexp(np.asarray(scales, np.float64))
    if rounding is Rounding.SINGLE and np.all(mantissa == 0.5) and np.all((exponent <= 1) & (exponent >= -14)):
        return None
    return Refusal(
        f"{config.name} requantizes by shifting only, the model needs factors that are no powers of two, or another rounding",
        "quantize with scales that are powers of two (`loadstone quantize --profile vta`), or a device with `requantize`",
    )


def _spatial(config: HwConfig, o: g.Operator) -> Refusal | None:
    if len(o.input.shape) != 4 or len(o.output.shape) != 4:
        return Refusal(f"its input has {len(o.input.shape)} dimensions, the device's layout 4", "a 4-dimensional tensor (N, H, W, C)")
    return None


def _padding(config: HwConfig, padding: tuple[int, int, int, int]) -> Refusal | None:
    if max(padding) > MAX_PAD:
        return Refusal(f"a padding of {max(padding)} does not fit LOAD's 4-bit pad fields", "a padding of at most 15, or a separate pad")
    return None


# ---------------------------------------------------------------------------------------------------------------
# Predicates, one per form
# ---------------------------------------------------------------------------------------------------------------


def _conv2d(config: HwConfig, o: g.Conv2D) -> Refusal | None:
    return _int8(config, o) or _padding(config, o.padding) or _requantizes(config, _scales(o), o.rounding)


def _dense(config: HwConfig, o: g.Dense) -> Refusal | None:
    return _int8(config, o) or _requantizes(config, _scales(o), o.rounding)


def _scales(o: g.Weighted) -> Any:
    scale = onnx_scale if o.rounding is Rounding.FLOAT32 else tflite_scale
    return scale(o.input.scale, o.weight_scales, o.output.scale)


def _elementwise(config: HwConfig, o: g.Elementwise) -> Refusal | None:
    if refusal := _int8(config, o):
        return refusal
    shapes = [tensor.shape for tensor in o.inputs]
    if any(shape != o.output.shape for shape in shapes):
        return Refusal(f"its inputs {shapes[0]} and {shapes[1]} broadcast", "inputs of the output's shape")
    if Capability.REQUANTIZE in config.capabilities:
        return None
    if isinstance(o, g.Add) and {tensor.quantization for tensor in o.inputs} == {o.output.quantization} and o.rounding is Rounding.SINGLE:
        return None
    return _requantizes(config, 0.3, o.rounding)


def _average_pool2d(config: HwConfig, o: g.AveragePool2D) -> Refusal | None:
    if refusal := _int8(config, o) or _padding(config, o.padding):
        return refusal
    if any(o.padding) and not o.count_include_pad:
        return Refusal(f"its padding {o.padding} is left out of the count, which then differs at the border", "a pool without padding")
    return _requantizes(config, 1 / (o.kernel[0] * o.kernel[1]), o.rounding)


def _max_pool2d(config: HwConfig, o: g.MaxPool2D) -> Refusal | None:
    return _int8(config, o) or _padding(config, o.padding) or _loads_acc8(config)


def _mean(config: HwConfig, o: g.Mean) -> Refusal | None:
    if refusal := _int8(config, o) or (None if len(o.input.shape) == 4 else _spatial(config, o)):
        return refusal
    if o.axes != (1, 2):
        return Refusal(f"it averages axes {o.axes}, the device height and width (1, 2)", "a mean over height and width")
    return _requantizes(config, 1 / (o.input.shape[1] * o.input.shape[2]), o.rounding)


def _requantize(config: HwConfig, o: g.Requantize) -> Refusal | None:
    if refusal := _int8(config, o):
        return refusal
    return _loads_acc8(config) if o.is_clamp else _requantizes(config, o.input.scale / o.output.scale, o.rounding)


def _loads_acc8(config: HwConfig) -> Refusal | None:
    if Capability.LOAD_ACC8 in config.capabilities:
        return None
    return Refusal(f"{config.name} cannot load int8 into its accumulators", "a device with `load_acc8`")


def _concatenate(config: HwConfig, o: g.Concatenate) -> Refusal | None:
    if refusal := _int8(config, o):
        return refusal
    if o.is_copy:
        return None
    return _requantizes(config, [tensor.scale / o.output.scale for tensor in o.inputs], o.rounding)


def _slice(config: HwConfig, o: g.Slice) -> Refusal | None:
    if refusal := _int8(config, o):
        return refusal
    if any(stride != 1 for stride in o.strides):
        return Refusal(f"it takes every {max(o.strides)}th element", "a slice with stride 1")
    return None


def _pad(config: HwConfig, o: g.Pad) -> Refusal | None:
    if refusal := _int8(config, o) or _spatial(config, o):
        return refusal
    if any(o.before[axis] or o.after[axis] for axis in (0, 3)):
        return Refusal("it pads the batch or the channels", "padding of height and width")
    return None


def _reshape(config: HwConfig, o: g.Reshape) -> Refusal | None:
    return _int8(config, o)


def _resize(config: HwConfig, o: g.ResizeNearest | g.ResizeBilinear) -> Refusal | None:
    if refusal := _int8(config, o):
        return refusal
    if isinstance(o, g.ResizeBilinear):
        return Refusal("a bilinear resize needs weights per position", "a nearest resize")
    for axis in (1, 2):
        factor, remainder = divmod(o.output.shape[axis], o.input.shape[axis])
        if remainder or not np.array_equal(o.nearest(axis), np.arange(o.output.shape[axis]) // factor):
            return Refusal(
                f"it resizes {o.input.shape[1:3]} to {o.output.shape[1:3]}, which does not repeat each element equally often",
                "a resize by an integer factor",
            )
    return None


def _no_softmax(config: HwConfig, o: g.Softmax) -> Refusal:
    return Refusal("the ALU has no exponential", "a model that ends in its logits: the largest of them is the same class")


def _no_float(config: HwConfig, o: g.Quantize | g.Dequantize) -> Refusal:
    return Refusal("it is the edge between float32 and int8", "a model with int8 inputs and outputs")


def _no_transpose(config: HwConfig, o: g.Transpose) -> Refusal:
    return Refusal("it moves elements between the lanes of a tile", "a model with channels last")


_TABLE: tuple[tuple[str, Predicate], ...] = (
    ("conv2d", _conv2d),
    ("batch_norm", _conv2d),
    ("dense", _dense),
    ("add", _elementwise),
    ("sub", _elementwise),
    ("mul", _elementwise),
    ("average_pool2d", _average_pool2d),
    ("max_pool2d", _max_pool2d),
    ("mean", _mean),
    ("concatenate", _concatenate),
    ("slice", _slice),
    ("pad", _pad),
    ("reshape", _reshape),
    ("resize", _resize),
    ("requantize", _requantize),
    ("softmax", _no_softmax),
    ("quantize", _no_float),
    ("dequantize", _no_float),
    ("transpose", _no_transpose),
)
