# SPDX-License-Identifier: Apache-2.0
"""The graph of a .tflite file while it is followed, and what its operators ask of it.

In:   a TfliteModel.
Out:  Tensors and Operators of a Network; refusals, each of one line.
Next: operators.py adds each operator; read_tflite.py gives the network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError, UnsupportedError
from loadstone.prove.network import ModelNetwork, ModelOperator, ModelTensor
from loadstone.prove.tflite.file import TfliteModel, TfliteOperator
from loadstone.prove.tflite.levels import activation_limits

__all__ = ["EIGHT_BITS", "TfliteGraph"]

EIGHT_BITS = ("int8", "uint8")


class TfliteGraph:
    """Tensors and operators of the network so far."""

    def __init__(self, model: TfliteModel) -> None:
        self.model = model
        self.tensors = list(model.tensors)
        self.operators: list[ModelOperator] = []

    def network(self) -> ModelNetwork:
        """What was read; refused where nothing of it is integers."""
        if all(o.kind.startswith("float:") or o.kind == "dequantize" for o in self.operators):
            raise ModelError(
                f"{self.model.name}: no operator computes on int8 or uint8: a proof compares "
                "integers; quantize the model first"
            )
        return ModelNetwork(
            self.model.name,
            tuple(self.tensors),
            tuple(self.operators),
            self.model.inputs,
            self.model.outputs,
        )

    def refusal(self, operator: TfliteOperator, what: str, remedy: str) -> UnsupportedError:
        """What is raised: the operator, what is the matter with it, what to do."""
        return UnsupportedError(f"{self.model.name}: {self.model.where(operator)} {what}: {remedy}")

    def emit(
        self, kind: str, operator: TfliteOperator, inputs: Sequence[int], **attributes: object
    ) -> None:
        """Appends an operator with the file's outputs."""
        self.operators.append(
            ModelOperator(
                kind, tuple(inputs), operator.outputs, attributes, self.model.where(operator)
            )
        )

    def add(self, tensor: ModelTensor) -> int:
        """The index of a tensor that the file does not have so."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    # -- what operators ask ------------------------------------------------------------------------

    def output(self, operator: TfliteOperator) -> ModelTensor:
        """The tensor of its first output."""
        return self.tensors[operator.outputs[0]]

    def levels(self, operator: TfliteOperator, *places: int) -> list[ModelTensor]:
        """The inputs at `places` and the output: of one 8-bit type, each with one scale."""
        found = [self.tensors[operator.inputs[k]] for k in places] + [self.output(operator)]
        for tensor in found:
            if tensor.dtype not in EIGHT_BITS or tensor.dtype != found[0].dtype:
                raise self.refusal(
                    operator,
                    f"has tensors of {', '.join(sorted({t.dtype for t in found}))}",
                    "tensors of int8 alone or of uint8 alone are understood",
                )
            if len(tensor.scales) != 1:
                raise self.refusal(
                    operator,
                    f'has the tensor "{tensor.name[-60:]}" with {len(tensor.scales)} scales',
                    "one is understood",
                )
        return found

    def constant(self, operator: TfliteOperator, place: int) -> NDArray[np.generic]:
        """The elements, in their shape, of an input that must be a constant."""
        data = self.tensors[operator.inputs[place]].data
        if data is None:
            raise self.refusal(operator, f"has input {place} that is no constant", "make it one")
        return data

    def integers(self, operator: TfliteOperator, place: int) -> list[int]:
        """The elements of a constant of axes, sizes or positions."""
        data = self.constant(operator, place)
        if data.dtype.kind != "i":
            raise self.refusal(
                operator, f"has input {place} of {data.dtype}", "int32 is understood"
            )
        return [int(value) for value in data.reshape(-1)]

    def clamp(self, operator: TfliteOperator) -> tuple[int, int]:
        """The levels of the fused activation."""
        activation = operator.option("FusedActivationFunction")
        found = activation_limits(activation, self.output(operator))
        if found is None:
            raise self.refusal(
                operator, f"has the fused activation {activation}", "0 (none) to 3 are understood"
            )
        return found

    def expect(self, operator: TfliteOperator, shape: Sequence[int]) -> None:
        """Refuses an output whose shape is not what the operator gives."""
        stated = self.output(operator).shape
        if stated != tuple(shape):
            raise self.refusal(
                operator,
                f"has an output of shape {list(stated)}, and gives {list(shape)}",
                "convert the model with fixed shapes",
            )

    def one_quantization(self, operator: TfliteOperator, tensors: Sequence[ModelTensor]) -> None:
        """Refuses levels that would move between different scales."""
        if len({(t.scale, t.zero_point) for t in tensors}) > 1:
            raise self.refusal(
                operator,
                "moves levels between tensors of different scales",
                "give them one scale and zero point",
            )

    def broadcast(self, operator: TfliteOperator, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape that shapes broadcast to."""
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            stated = " and ".join(str(list(shape)) for shape in shapes)
            what = f"has operands of shapes {stated}"
            raise self.refusal(operator, what, "they must broadcast") from None
