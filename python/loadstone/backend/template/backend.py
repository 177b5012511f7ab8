# SPDX-License-Identifier: Apache-2.0
"""The back end that `loadstone backend new NAME` writes: convolutions in one call of a function. It
works as it is; edit it.

In:   operators of the network (loadstone.graph), which `accepts` looks at; then a Segment of those
      that it takes together.
Out:  an ExternalRegion: one step of the artifact, executed by `execute`.
Next: `loadstone conform my-npu --uma-backends DIR`; then `loadstone compile MODEL --uma-backends
      DIR --target my-npu`.

Two functions to edit: `accepts` (what the device takes, and why not the rest) and `execute` (its
functional model, or its driver).
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
    Pattern,
    Refusal,
    Segment,
    offered,
)
from loadstone.graph import Conv2D, Operator
from loadstone.graph.kernels.windows import convolve
from loadstone.numerics import Rounding, rq

__all__ = ["MyNpu"]

Array = NDArray[Any]


class MyNpu(Backend):
    """An accelerator that runs convolutions."""

    name: ClassVar[str] = "my-npu"
    target_attributes: ClassVar[Sequence[Attribute]] = (
        Attribute("max_channels", 512, "channels that its buffers hold", range(1, 2**16)),
    )

    def patterns(self) -> Sequence[Pattern]:
        """The forms that it takes, the longest first: names of loadstone.partition.patterns."""
        return [offered("conv2d", self.accepts)]

    def accepts(self, operator: Operator) -> Refusal | None:
        """None to take it. EDIT: what can the device not do?"""
        assert isinstance(operator, Conv2D)
        limit = int(self.attributes["max_channels"])
        if operator.groups != 1:
            return Refusal(
                f"{operator.groups} groups, and the device has none", "a convolution without groups"
            )
        if operator.input.shape[3] > limit or operator.output.shape[3] > limit:
            return Refusal(f"more than {limit} channels", "a larger max_channels")
        if np.any(operator.weight_zero_points):
            return Refusal("weights have a zero point", "symmetric weights")
        return None

    def lower(self, segment: Segment) -> ExternalRegion:
        """The operators as JSON, and their arrays."""
        calls: list[dict[str, Any]] = []
        constants: dict[str, Array] = {}
        for number, operator in enumerate(segment.operators):
            assert isinstance(operator, Conv2D)
            multiplier, shift = operator.requantization()
            arrays: dict[str, Array] = {
                "weights": operator.weights,
                "bias": operator.bias,
                "multiplier": multiplier,
                "shift": shift,
            }
            constants.update({f"{name}{number}": array for name, array in arrays.items()})
            fields = ("strides", "padding", "dilation", "low", "high")
            call = {name: getattr(operator, name) for name in fields}
            call["rounding"] = int(operator.rounding)
            call["zero_points"] = [operator.input.zero_point, operator.output.zero_point]
            calls.append({**call, "x": operator.input.name, "y": operator.output.name})
        names = {
            "inputs": [t.name for t in segment.inputs],
            "outputs": [t.name for t in segment.outputs],
        }
        attributes = json.dumps({**names, "calls": calls})
        return ExternalRegion(
            segment.name,
            segment.operators,
            segment.inputs,
            segment.outputs,
            f"{self.name}.execute",
            attributes,
            constants,
        )

    def cost_cycles(self, segment: Segment) -> int:
        """For `--partition cost`, at 100 MHz. EDIT: what does the device take for these
        operators?"""
        return sum(
            o.output.size * int(np.prod(o.weights.shape[1:])) // 16
            for o in segment.operators
            if isinstance(o, Conv2D)
        )

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """What the runtime calls."""
        return {f"{cls.name}.execute": execute}


def execute(arrays: Sequence[Array], attributes: str) -> list[Array]:
    """One region. arrays: its inputs, then its constants. EDIT: call the device, or its model in C,
    instead."""
    said = json.loads(attributes)
    values = dict(zip(said["inputs"], arrays, strict=False))
    constants = list(arrays[len(values) :])
    for call in said["calls"]:
        weights, bias, multiplier, shift = (constants.pop(0) for _ in range(4))
        zero_in, zero_out = call["zero_points"]
        window: dict[str, Any] = {
            name: tuple(call[name]) for name in ("strides", "padding", "dilation")
        }
        acc = convolve(
            values[call["x"]].astype(np.int64) - zero_in, weights.astype(np.int64), **window
        )
        limits = {"zero_point": zero_out, "low": call["low"], "high": call["high"]}
        values[call["y"]] = rq(
            acc, bias, multiplier, shift, **limits, rounding=Rounding(call["rounding"])
        ).astype(np.int8)
    return [values[name] for name in said["outputs"]]
