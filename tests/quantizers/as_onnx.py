# SPDX-License-Identifier: Apache-2.0
"""A plan as a float ONNX model, and quantized by ONNX Runtime's quantize_static.

In:   plan.Plan, a seed for the options.
Out:  the bytes of a .onnx file with QuantizeLinear and DequantizeLinear, and the options as text.
Next: campaign.py compiles it.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.draw import Random
from tests.onnx_builder import Graph
from tests.quantizers.plan import Array, Layer, Plan

__all__ = ["float_model", "quantized"]


def float_model(plan: Plan) -> bytes:
    """The network in float32."""
    graph = Graph()
    names = [graph.input(plan.shape, np.float32)]
    for layer in plan.layers:
        names.append(_write(graph, layer, [names[k] for k in layer.inputs]))
    shapes = [plan.layers[k - 1].shape for k in plan.outputs]
    return graph.save([(names[k], np.float32) for k in plan.outputs], shapes)


def quantized(plan: Plan, seed: int) -> tuple[bytes, str]:
    """By quantize_static, with options as people set them."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

    draw = Random(9_000_011 + seed)
    signed, unsigned = QuantType.QInt8, QuantType.QUInt8
    kinds = [(signed, signed), (signed, signed), (unsigned, signed), (unsigned, unsigned)]
    activations, weights = draw.pick(kinds)
    options = {
        "per_channel": bool(draw.int(0, 1)),
        "activation_type": activations,
        "weight_type": weights,
    }
    extra = {
        "ActivationSymmetric": draw.chance(4),
        "WeightSymmetric": not draw.chance(6),
        "AddQDQPairToWeight": draw.chance(6),
        "DedicatedQDQPair": draw.chance(6),
    }

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(plan.samples)

        def get_next(self) -> dict[str, Array] | None:
            sample = next(self.left, None)
            return None if sample is None else {"in0": sample}

    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "quantized.onnx"
            model = onnx.load_model_from_string(float_model(plan))
            quantize_static(model, str(target), Reader(), extra_options=extra, **options)
            said = [f"{key}={getattr(value, 'name', value)}" for key, value in options.items()]
            return target.read_bytes(), " ".join(said + [key for key in extra if extra[key]])
    finally:
        logging.disable(level)


def _write(graph: Graph, layer: Layer, x: list[str]) -> str:
    arrays = [graph.constant(array, np.float32) for array in layer.arrays]
    return _WRITTEN[layer.kind](graph, layer.options, [*x, *arrays])


def _convolution(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    pad, stride, dilation = (options[name] for name in ("pad", "stride", "dilation"))
    return graph.node(
        "Conv",
        *operands,
        group=options["groups"],
        pads=[pad] * 4,
        strides=[stride] * 2,
        dilations=[dilation] * 2,
    )


def _transposed(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    pads, strides = [options["pad"]] * 4, [options["stride"]] * 2
    return graph.node("ConvTranspose", *operands, pads=pads, strides=strides)


def _dense(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    """Gemm, or on rows MatMul and Add, as exporters write it."""
    weights = next(tensor for tensor in graph.constants if tensor.name == operands[1])
    if options.get("gemm"):
        return graph.node("Gemm", *operands, transB=1)
    array = onnx.numpy_helper.to_array(weights)
    turned = onnx.numpy_helper.from_array(np.ascontiguousarray(array.T), weights.name)
    weights.CopyFrom(turned)
    y = graph.node("MatMul", *operands[:2])
    return graph.node("Add", y, operands[2]) if len(operands) == 3 else y


def _silu(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    return graph.node("Mul", operands[0], graph.node("Sigmoid", operands[0]))


def _relu6(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    limits = [graph.constant(value, np.float32) for value in (0, 6)]
    return graph.node("Clip", operands[0], *limits)


def _pool(kind: str) -> Callable[[Graph, dict[str, Any], list[str]], str]:
    return lambda graph, options, operands: graph.node(
        kind, *operands, kernel_shape=[options["kernel"]] * 2, strides=[options["stride"]] * 2
    )


def _slice(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    bounds = [graph.constant([options[name]], np.int64) for name in ("begin", "end")]
    return graph.node("Slice", operands[0], *bounds, graph.constant([1], np.int64))


def _nearest(graph: Graph, options: dict[str, Any], operands: list[str]) -> str:
    scales = graph.constant([1, 1, 2, 2], np.float32)
    rule = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return graph.node("Resize", operands[0], "", scales, mode="nearest", **rule)


def _plain(kind: str, **attributes: Any) -> Callable[[Graph, dict[str, Any], list[str]], str]:
    return lambda graph, options, operands: graph.node(kind, *operands, **attributes)


_WRITTEN: dict[str, Callable[[Graph, dict[str, Any], list[str]], str]] = {
    "conv": _convolution,
    "transposed": _transposed,
    "dense": _dense,
    "relu": _plain("Relu"),
    "relu6": _relu6,
    "leaky": _plain("LeakyRelu", alpha=0.1),
    "sigmoid": _plain("Sigmoid"),
    "tanh": _plain("Tanh"),
    "hardswish": _plain("HardSwish"),
    "silu": _silu,
    "max_pool": _pool("MaxPool"),
    "average_pool": _pool("AveragePool"),
    "mean": _plain("GlobalAveragePool"),
    "add": _plain("Add"),
    "multiply": _plain("Mul"),
    "concatenate": _plain("Concat", axis=1),
    "flatten": _plain("Flatten"),
    "nearest": _nearest,
    "slice": _slice,
    "transpose": _plain("Transpose", perm=[0, 2, 1]),
    "product": _plain("MatMul"),
    "softmax": _plain("Softmax", axis=-1),
}
