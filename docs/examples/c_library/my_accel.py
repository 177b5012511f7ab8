# SPDX-License-Identifier: Apache-2.0
"""A back end that calls a library in C: the maker of the accelerator delivers functions, we
generate the calls.

In:   convolutions, in runs that follow each other.
Out:  for each run a C function of calls to my_accel_conv2d, kept as text in the artifact, with
      weights and scales as inputs.
Next: `execute` compiles it with the functional model my_accel.c and calls it; on a board it would
link the maker's driver.

    loadstone compile net.tflite --uma-backends docs/examples/c_library --target
    my-accel,vtaq-1x16x16
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import (
    Attribute,
    Backend,
    External,
    ExternalRegion,
    Pattern,
    Refusal,
    Segment,
    offered,
)
from loadstone.errors import DeviceError
from loadstone.graph import Conv2D, Operator
from loadstone.numerics import Rounding, quantize_multiplier, tflite_scale

HERE = Path(__file__).resolve().parent
CC = ("cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


class MyAccel(Backend):
    """Convolutions with TFLite's rounding."""

    name: ClassVar[str] = "my-accel"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("max_kernel", 7, "largest height and width of a kernel"),
        Attribute(
            "macs_per_cycle", 64, "multiply-accumulates side by side: what a convolution costs"
        ),
        Attribute("clock_mhz", 200, "clock in MHz: what a cycle costs"),
    )

    def patterns(self) -> Sequence[Pattern]:
        """One."""
        return [offered("conv2d", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """What my_accel_conv2d has no argument for stays with the others."""
        assert isinstance(operator, Conv2D)
        largest = max(operator.weights.shape[1:3])
        if operator.groups != 1:
            return Refusal(
                f"{operator.groups} groups: my_accel_conv2d has none",
                "a convolution without groups",
            )
        if operator.dilation != (1, 1):
            return Refusal(
                f"dilation {operator.dilation}: my_accel_conv2d has none",
                "a convolution without dilation",
            )
        if largest > self.attributes["max_kernel"]:
            return Refusal(
                f"kernel of {largest}, the limit is {self.attributes['max_kernel']}",
                "a larger max_kernel",
            )
        if operator.rounding is not Rounding.DOUBLE:
            return Refusal(
                f"rounding {operator.rounding.name.lower()}: my_accel rounds as TFLite does",
                "a TFLite model",
            )
        if np.any(operator.weight_zero_points):
            return Refusal("weights with a zero point", "symmetric weights")
        return None

    def lower(self, segment: Segment) -> ExternalRegion:
        """One C function for the segment."""
        constants: dict[str, NDArray[Any]] = {}
        pointers = {tensor.name: f"in[{k}]" for k, tensor in enumerate(segment.inputs)}
        pointers.update({tensor.name: f"out[{k}]" for k, tensor in enumerate(segment.outputs)})
        lines = []
        for number, operator in enumerate(segment.operators):
            assert isinstance(operator, Conv2D)
            if operator.output.name not in pointers:
                pointers[operator.output.name] = f"t{number}"
                lines.append(f"static int8_t t{number}[{operator.output.size}];")
            multiplier, shift = quantize_multiplier(
                tflite_scale(operator.input.scale, operator.weight_scales, operator.output.scale)
            )
            arrays: dict[str, NDArray[Any]] = {
                "weights": operator.weights,
                "bias": operator.bias,
                "multiplier": multiplier,
                "shift": shift,
            }
            first = len(segment.inputs) + len(constants)
            constants.update({f"{name}{number}": array for name, array in arrays.items()})
            operands = [
                pointers[operator.input.name],
                *(f"in[{first + k}]" for k in range(4)),
                pointers[operator.output.name],
            ]
            lines.append(f"/* {operator.name.replace('*/', '')} */".replace("\n", " "))
            lines.append(
                f"my_accel_conv2d(&(my_accel_conv2d_t){{{geometry(operator)}}}, "
                f"{', '.join(operands)});"
            )
        body = "\n    ".join(lines)
        source = (
            f'#include "my_accel.h"\n\nvoid run(const void *const *in, void *const '
            f"*out) {{\n    {body}\n}}\n"
        )
        attributes = json.dumps(
            {"source": source, "outputs": [tensor.shape for tensor in segment.outputs]}
        )
        return ExternalRegion(
            segment.name,
            segment.operators,
            segment.inputs,
            segment.outputs,
            "my-accel.run",
            attributes,
            constants,
        )

    def cost_cycles(self, segment: Segment) -> int:
        """As the maker's data sheet has it: peak rate, and 500 cycles to start a function."""
        macs = sum(
            o.output.size * int(np.prod(o.weights.shape[1:]))
            for o in segment.operators
            if isinstance(o, Conv2D)
        )
        return macs // int(self.attributes["macs_per_cycle"]) + 500 * len(segment.operators)

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """The functional model."""
        return {"my-accel.run": execute}


def geometry(operator: Conv2D) -> str:
    """The initializer of my_accel_conv2d_t, in the order of its members."""
    (n, h, w, c), (_, out_h, out_w, out_c) = operator.input.shape, operator.output.shape
    window = (*operator.weights.shape[1:3], *operator.strides, *operator.padding[:2])
    levels = (operator.input.zero_point, operator.output.zero_point, operator.low, operator.high)
    return ", ".join(map(str, (n, h, w, c, out_h, out_w, out_c, *window, *levels)))


@cache
def compiled(source: str) -> Callable[[Any, Any], None]:
    """The generated function, linked with the functional model."""
    with tempfile.TemporaryDirectory() as folder:
        calls, library = Path(folder, "calls.c"), Path(folder, "calls.so")
        calls.write_text(source, encoding="utf-8")
        done = subprocess.run(
            [*CC, f"-I{HERE}", calls, HERE / "my_accel.c", "-o", library],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DeviceError(
                f"my-accel: the C compiler refuses the generated calls: {done.stderr.strip()}"
            )
        function: Callable[[Any, Any], None] = ctypes.CDLL(str(library)).run
    return function


def execute(arrays: Sequence[NDArray[Any]], attributes: str) -> list[NDArray[Any]]:
    """One run: the pointers of all inputs and outputs to the C function."""
    said = json.loads(attributes)
    inputs = [np.ascontiguousarray(array) for array in arrays]
    outputs = [np.empty(shape, np.int8) for shape in said["outputs"]]
    pointers = [
        (ctypes.c_void_p * len(group))(*(array.ctypes.data for array in group))
        for group in (inputs, outputs)
    ]
    compiled(said["source"])(*pointers)
    return outputs
