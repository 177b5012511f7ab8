# SPDX-License-Identifier: Apache-2.0
"""The graph of a quantized ONNX file while it is followed: from levels to real numbers and back.

In:   an OnnxModel, and values of its names.
Out:  Tensors and Operators of a ModelNetwork.
Next: operators.py adds each node; read_onnx.py gives the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.onnx.file import Array, NodeRecord, OnnxModel
from loadstone.prove.onnx.values import (
    ConstantValue,
    Moved,
    Pending,
    QuantizedConstant,
    RealLevels,
    Scale,
    Value,
)
from loadstone.prove.requantize import Float32, Requantizer

__all__ = ["OnnxGraph"]

#: The relative error of a product of two float32 scales that a bias may have.
_SCALE_TOLERANCE = 1e-4
#: Part of an output's step by which a bias may differ from whole steps of the sums.
_BIAS_MOVES_AT_MOST = 1 / 16


class OnnxGraph:
    """Tensors and operators of the network so far, and what each name stands for."""

    def __init__(self, model: OnnxModel) -> None:
        self.model = model
        self.tensors: list[ModelTensor] = []
        self.operators: list[ModelOperator] = []
        self.values: dict[str, Value] = {
            name: ConstantValue(data) for name, data in model.constants.items()
        }
        self.inputs = []
        for name, dtype, shape in model.inputs:
            self.inputs.append(self.tensor(ModelTensor(name, shape, dtype)))
            self.values[name] = Moved(self.inputs[-1], shape)

    def network(self) -> ModelNetwork:
        """What was read; refused where nothing of it is integers."""
        outputs = []
        for name in self.model.outputs:
            value = self.values.get(name)
            if isinstance(value, Moved):
                outputs.append(value.index)
            elif isinstance(value, RealLevels) and value.scale is not None:
                made = self.tensor(ModelTensor(name, value.shape, "float32"))
                where = f'DequantizeLinear (output "{name[-60:]}")'
                self.operators.append(
                    ModelOperator(
                        "dequantize", value.sources, (made,), {"arithmetic": "onnx"}, where
                    )
                )
                outputs.append(made)
            else:
                raise UnsupportedError(
                    f'{self.model.name}: output "{name[-60:]}" is computed in real numbers: a '
                    "proof compares integers; quantize the model first"
                )
        return ModelNetwork(
            self.model.name,
            tuple(self.tensors),
            tuple(self.operators),
            tuple(self.inputs),
            tuple(outputs),
        )

    def refusal(self, node: NodeRecord, what: str, remedy: str) -> UnsupportedError:
        """What is raised: the node, what is the matter with it, what to do."""
        return UnsupportedError(f"{self.model.name}: {node.where} {what}: {remedy}")

    def tensor(self, tensor: ModelTensor) -> int:
        """The index of a new tensor."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def emit(
        self,
        node: NodeRecord,
        kind: str,
        inputs: Sequence[int],
        output: ModelTensor,
        attributes: Mapping[str, object],
    ) -> int:
        """Appends an operator with a new tensor, whose index it gives."""
        made = self.tensor(output)
        self.operators.append(ModelOperator(kind, tuple(inputs), (made,), attributes, node.where))
        return made

    # -- what a node reads -------------------------------------------------------------------------

    def value(self, node: NodeRecord, place: int) -> Value | None:
        """An input; None where it is left out."""
        if place >= len(node.inputs) or not node.inputs[place]:
            return None
        found = self.values.get(node.inputs[place])
        if found is None:
            raise self.refusal(
                node, f'reads "{node.inputs[place][-60:]}"', "nothing before it gives that"
            )
        return found

    def constant(self, node: NodeRecord, place: int) -> Array:
        """The elements, in their shape, of an input that must be a constant."""
        value = self.value(node, place)
        if isinstance(value, QuantizedConstant):
            return value.real()
        if not isinstance(value, ConstantValue):
            raise self.refusal(node, f"has input {place} that is no constant", "make it one")
        return value.data

    def integers(self, node: NodeRecord, place: int) -> tuple[int, ...]:
        """The elements of a constant of axes, sizes or positions."""
        data = self.constant(node, place)
        if data.dtype.kind not in "iu":
            raise self.refusal(
                node, f"has input {place} of {data.dtype}", "integers are understood"
            )
        return tuple(int(value) for value in data.reshape(-1))

    def real(self, node: NodeRecord, place: int) -> RealLevels:
        """An input that is a function of levels; a constant of levels becomes a tensor."""
        value = self.value(node, place)
        if isinstance(value, QuantizedConstant) and value.is_of_levels:
            scale = Scale(float(value.scales[0]), int(value.zero_points[0]), value.data.dtype.name)
            tensor = self.levels(f"{node.inputs[place]} levels", value.data.shape, scale)
            index = self.tensor(replace(tensor, data=value.data))
            return RealLevels((index,), value.data.shape, scale.reals(), scale)
        if not isinstance(value, RealLevels):
            raise self.refusal(
                node,
                f"has input {place} that is no function of levels",
                "put DequantizeLinear before it and QuantizeLinear behind it",
            )
        return value

    def dequantized(self, node: NodeRecord, place: int) -> tuple[RealLevels, Scale]:
        """An input that is levels of one scale, and nothing else."""
        value = self.real(node, place)
        if value.scale is None:
            raise self.refusal(
                node,
                f"has input {place} that is computed in real numbers",
                "put QuantizeLinear and DequantizeLinear before it",
            )
        return value, value.scale

    def scale(self, node: NodeRecord, place: int, dtype: str) -> Scale:
        """The scale at `place` and the zero point behind it; one for the tensor, of an 8-bit
        type. dtype: where there is no zero point."""
        scale = self.constant(node, place)
        zero = np.zeros((), dtype)
        if place + 1 < len(node.inputs) and node.inputs[place + 1]:
            zero = np.asarray(self.constant(node, place + 1))
        if scale.size != 1 or zero.size != 1 or zero.dtype.name not in ("int8", "uint8"):
            raise self.refusal(
                node,
                f"has {scale.size} scales and zero points of {zero.dtype}",
                "one of int8 or uint8 is understood for activations",
            )
        real = float(np.float32(scale.reshape(-1)[0]))
        if not 0 < real < 2.0**64:
            raise self.refusal(node, f"has the scale {real:g}", "a scale is above 0 and finite")
        return Scale(real, int(zero.reshape(-1)[0]), zero.dtype.name)

    def levels(self, name: str, shape: tuple[int, ...], scale: Scale) -> ModelTensor:
        """A tensor of levels."""
        return ModelTensor(name, shape, scale.dtype, (scale.scale,), (scale.zero_point,))

    # -- from levels to real numbers and back ------------------------------------------------------

    def dequantize(self, node: NodeRecord, place: int, scales: int, axis: int) -> Value:
        """DequantizeLinear of the input at `place`; scales: where its scale stands."""
        value = self.value(node, place)
        if isinstance(value, ConstantValue):
            real = np.asarray(self.constant(node, scales), np.float32).reshape(-1)
            zeros = np.zeros(1, np.int64)
            if scales + 1 < len(node.inputs) and node.inputs[scales + 1]:
                zeros = np.asarray(self.constant(node, scales + 1)).astype(np.int64).reshape(-1)
            data = value.data
            axis = axis % max(data.ndim, 1)
            fits = real.size == 1 or (data.ndim > axis and data.shape[axis] == real.size)
            if data.dtype.name not in ("int8", "uint8", "int32") or not fits:
                raise self.refusal(
                    node, f"has a constant of {data.dtype}", "8 bits and int32 are read"
                )
            if zeros.size not in (1, real.size) or not np.all((real > 0) & np.isfinite(real)):
                raise self.refusal(
                    node, "has scales that mean nothing", "a scale is above 0 and finite"
                )
            return QuantizedConstant(data, real, np.broadcast_to(zeros, real.shape), axis)
        if not isinstance(value, Moved):
            raise self.refusal(node, "dequantizes real numbers", "levels are understood")
        tensor = self.tensors[value.index]
        scale = self.scale(node, scales, tensor.dtype)
        if tensor.dtype != scale.dtype or tensor.scales not in ((), (scale.scale,)):
            raise self.refusal(
                node,
                f'reads levels of another scale or type than "{tensor.name[-60:]}" has',
                "give both ends of it one scale",
            )
        if not tensor.scales:
            self.tensors[value.index] = self.levels(tensor.name, tensor.shape, scale)
        elif tensor.zero_points != (scale.zero_point,):
            raise self.refusal(node, "reads levels of another zero point", "give both ends one")
        return RealLevels((value.index,), value.shape, scale.reals(), scale)

    def quantize(self, node: NodeRecord, value: Value | None, scale: Scale) -> Moved:
        """QuantizeLinear of a value."""
        name = node.outputs[0]
        if isinstance(value, RealLevels):
            return self._tabulated(node, value, scale)
        if isinstance(value, Pending):
            return self._requantized(node, value, scale)
        if isinstance(value, Moved) and self.tensors[value.index].dtype == "float32":
            output = self.levels(name, value.shape, scale)
            index = self.emit(node, "quantize", (value.index,), output, {"arithmetic": "onnx"})
            return Moved(index, value.shape)
        raise self.refusal(
            node, "quantizes what is no activation", "fold it into a constant of levels"
        )

    def _tabulated(self, node: NodeRecord, value: RealLevels, scale: Scale) -> Moved:
        if value.scale == scale:
            return Moved(value.sources[0], value.shape)
        output = self.levels(node.outputs[0], value.shape, scale)
        attributes: dict[str, object] = {"table": scale.levels(value.reals)}
        if value.axis is not None:
            attributes["axis"] = value.axis
        kind = "channel_table" if value.axis is not None else value.kind
        return Moved(self.emit(node, kind, value.sources, output, attributes), value.shape)

    def _requantized(self, node: NodeRecord, value: Pending, scale: Scale) -> Moved:
        low, high = (
            limit if math.isinf(bound) else int(scale.levels(np.array([bound], np.float32))[0])
            for bound, limit in zip((value.low, value.high), scale.limits, strict=True)
        )
        attributes = dict(value.attributes)
        inputs = value.inputs
        if value.kind == "average_pool":
            counts = value.attributes["averages"]
            assert isinstance(counts, dict)
            attributes["averages"] = {
                inside: _requantizer(value, scale, low, high, count)
                for inside, count in counts.items()
            }
        elif value.unit is not None:
            count = attributes.pop("count", 1)
            assert isinstance(count, int)
            attributes["requantization"] = _requantizer(value, scale, low, high, count)
        if value.kind in ("conv2d", "depthwise_conv2d", "dense"):
            inputs = (*inputs, self._bias(node, value, scale))
        elif value.kind == "concat":
            attributes["tables"] = tuple(
                None if isinstance(part, Scale) and part == scale else scale.levels(part.reals())
                for part in attributes.pop("scales")  # type: ignore[attr-defined]
            )
        elif value.unit is None:
            attributes |= {"low": low, "high": high}
        output = self.levels(node.outputs[0], value.shape, scale)
        return Moved(self.emit(node, value.kind, inputs, output, attributes), value.shape)

    def _bias(self, node: NodeRecord, value: Pending, scale: Scale) -> int:
        """The tensor of a bias in steps of the sums, int32; -1 without one."""
        if value.bias is None:
            return -1
        assert value.unit is not None
        unit, bias = value.unit.astype(np.float64), value.bias
        if isinstance(bias, QuantizedConstant) and bias.data.dtype == np.int32:
            if not np.allclose(bias.scales, unit, rtol=_SCALE_TOLERANCE, atol=0) or np.any(
                bias.zero_points
            ):
                raise self.refusal(
                    node, "has a bias of another scale than its sums", "quantize the model anew"
                )
            steps = bias.data.reshape(-1).astype(np.float64)
        else:
            real = (
                bias.real() if isinstance(bias, QuantizedConstant) else bias.data.astype(np.float32)
            )
            exact = real.reshape(-1).astype(np.float64) / unit
            steps = np.rint(exact)
            moved = (np.abs(steps - exact) * unit).max() / scale.scale
            if moved > _BIAS_MOVES_AT_MOST or np.any(np.abs(steps - exact) == 0.5):
                raise self.refusal(
                    node,
                    f"has a real bias that is no whole step of its sums ({moved:.3g} of a level)",
                    "quantize the bias to int32",
                )
        if np.any(np.abs(steps) >= 2.0**31):
            raise self.refusal(
                node, "has a bias beyond int32 at the scale of its sums", "rescale it"
            )
        data = np.broadcast_to(steps, (value.shape[_channels(value)],)).astype(np.int32)
        return self.tensor(ModelTensor(f"{node.outputs[0]} bias", data.shape, "int32", data=data))


def _requantizer(value: Pending, scale: Scale, low: int, high: int, count: int) -> Requantizer:
    """What makes levels of sums, or of the average of so many terms of a sum."""
    assert value.unit is not None
    reals = value.unit / (np.float32(count) * np.float32(scale.scale))
    return Requantizer(Float32(reals.astype(np.float64)), scale.zero_point, low, high)


def _channels(value: Pending) -> int:
    return len(value.shape) - 1 if value.kind == "dense" else 1
