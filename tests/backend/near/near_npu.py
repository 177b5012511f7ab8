# SPDX-License-Identifier: Apache-2.0
"""An accelerator whose requantizer is not the framework's: a multiplier of few bits, a shift, and
half up; and an adder that shifts.

In:   convolutions, dense layers and sums.
Out:  a step for each region, computed here without Loadstone's own roundings.
Next: tests/backend/test_rounded_network.py, tests/conformance/test_near.py,
      tests/analysis/test_stated.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from loadstone.backend import (
    Attribute,
    Backend,
    External,
    ExternalRegion,
    MultiplyShift,
    Pattern,
    Refusal,
    Segment,
    StatedRounding,
    offered,
)
from loadstone.graph import Add, Conv2D, Dense, Operator
from loadstone.graph.kernels.windows import convolve

__all__ = ["NearNpu"]

Array = NDArray[Any]
_ONE = 8  # bits behind the point of the adder's factors


class NearNpu(Backend):
    """bits: of the multiplier. bound: what it says of itself. wrong: a fault of the device that it
    does not state."""

    name: ClassVar[str] = "near-npu"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("bits", 8, "of the multiplier", range(1, 32)),
        Attribute("bound", 1, "what it says of itself", range(256)),
        Attribute("wrong", False, "rounds down, and does not say so"),
    )

    def patterns(self) -> Sequence[Pattern]:
        """What it computes."""
        return [
            offered("conv2d", self.accepts),
            offered("dense", self.accepts),
            offered("add", self.accepts),
        ]

    def accepts(self, operator: Operator) -> Refusal | None:
        """Neither groups nor zero points of weights; scales below one."""
        if isinstance(operator, Add) and operator.inputs[0].shape != operator.inputs[1].shape:
            return Refusal("sums of two shapes", "inputs of one shape")
        if isinstance(operator, Conv2D) and operator.groups != 1:
            return Refusal("groups", "a convolution without groups")
        if isinstance(operator, Conv2D | Dense):
            if operator.weight_zero_points.any():
                return Refusal("weights have a zero point", "symmetric weights")
            if operator.real_scales().max() >= 1:
                return Refusal("a scale of one or more", "a larger output scale")
        return None

    def rounding(self, operator: Operator) -> StatedRounding | None:
        """As a whole function of the sums, or of both inputs."""
        bound = int(self.attributes["bound"])
        if isinstance(operator, Add):
            return StatedRounding(lambda a, b: added(a, b, factors(operator)), bound)
        assert isinstance(operator, Conv2D | Dense)
        return StatedRounding(MultiplyShift.of(operator, int(self.attributes["bits"])), bound)

    def lower(self, segment: Segment) -> ExternalRegion:
        """The operators as JSON, and their arrays."""
        calls: list[dict[str, Any]] = []
        constants: dict[str, Array] = {}
        for number, o in enumerate(segment.operators):
            call: dict[str, Any] = {"x": [t.name for t in o.inputs], "y": o.output.name}
            if isinstance(o, Add):
                calls.append({**call, "add": factors(o)})
                continue
            assert isinstance(o, Conv2D | Dense)
            rule = MultiplyShift.of(o, int(self.attributes["bits"]))
            arrays = {"w": o.weights, "b": o.bias, "m": rule.multiplier, "s": rule.shift}
            constants.update({f"{name}{number}": value for name, value in arrays.items()})
            if isinstance(o, Conv2D):
                names = "strides", "padding", "dilation"
                call["window"] = {name: getattr(o, name) for name in names}
            zeros = o.input.zero_point, o.output.zero_point
            calls.append({**call, "zeros": zeros, "limits": (o.low, o.high)})
        said = {
            "calls": calls,
            "wrong": self.attributes["wrong"],
            "inputs": [tensor.name for tensor in segment.inputs],
            "outputs": [tensor.name for tensor in segment.outputs],
        }
        tensors = segment.inputs, segment.outputs
        function = f"{self.name}.execute"
        return ExternalRegion(
            segment.name, segment.operators, *tensors, function, json.dumps(said), constants
        )

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """What the runtime calls."""
        return {f"{cls.name}.execute": execute}


def factors(o: Add) -> list[int]:
    """Of both inputs, with 8 bits behind the point; their zero points; the output's; the clamp."""
    a, b = o.inputs
    scales = [round(t.scale / o.output.scale * 2**_ONE) for t in (a, b)]
    return [*scales, a.zero_point, b.zero_point, o.output.zero_point, o.low, o.high]


def added(a: Array, b: Array, said: Sequence[int]) -> Array:
    """The adder."""
    m, n, zero_a, zero_b, zero, low, high = said
    total = (a.astype(np.int64) - zero_a) * m + (b.astype(np.int64) - zero_b) * n
    return np.clip(((total + (1 << _ONE - 1)) >> _ONE) + zero, low, high)


def execute(arrays: Sequence[Array], attributes: str) -> list[Array]:
    """One region. arrays: its inputs, then its constants."""
    said = json.loads(attributes)
    values = dict(zip(said["inputs"], arrays, strict=False))
    constants = list(arrays[len(values) :])
    for call in said["calls"]:
        x = [values[name] for name in call["x"]]
        if "add" in call:
            values[call["y"]] = added(*x, call["add"]).astype(np.int8)
            continue
        w, b, m, s = (constants.pop(0) for _ in range(4))
        centred = x[0].astype(np.int64) - call["zeros"][0]
        if "window" in call:
            window = {name: tuple(value) for name, value in call["window"].items()}
            sums = convolve(centred, w.astype(np.int64), **window)
        else:
            sums = centred @ w.astype(np.int64).T
        half = 0 if said["wrong"] else 2.0 ** (s - 1)
        scaled = np.floor(((sums + b) * m.astype(np.float64) + half) / 2.0**s)
        values[call["y"]] = np.clip(scaled + call["zeros"][1], *call["limits"]).astype(np.int8)
    return [values[name] for name in said["outputs"]]
