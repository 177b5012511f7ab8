"""The back end for VTA and VTA-Q, as a table of contents.

In:   a HwConfig.
Out:  VtaBackend: which operators it takes, and what becomes of a segment of them.
Next: partition.py asks for patterns, compiler.py for regions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from loadstone import graph as g
from loadstone.backend import Backend, Pattern, Refusal, Segment, offered
from loadstone.batching import batched_operator
from loadstone.errors import LoadstoneError, LoweringError
from loadstone.vta.allocate import allocate
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.offload import OffloadedRegion, is_free
from loadstone.vta.operators import lower_operator

__all__ = ["VtaBackend"]

#: Operators of the common table that VTA-Q has a schedule for, in the order in which they are tried.
_FORMS = (
    "conv2d",
    "dense",
    "add",
    "sub",
    "mul",
    "average_pool2d",
    "max_pool2d",
    "mean",
    "concatenate",
    "slice",
    "pad",
    "reshape",
    "resize",
    "requantize",
)


class VtaBackend(Backend):
    """One VTA or VTA-Q device."""

    name: ClassVar[str] = "vta"

    def __init__(self, config: HwConfig) -> None:
        self.config = config

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """The device, for reports."""
        return {"device": self.config.name, "clock_mhz": self.config.clock_mhz}

    def patterns(self) -> Sequence[Pattern]:
        """The common forms, each as far as this device can lower it."""
        return [offered(form, self.refusal) for form in _FORMS]

    def refusal(self, operator: g.Operator) -> Refusal | None:
        """None when the operator can be lowered and each of its tiles placed: it is tried."""
        other = next((t for t in (*operator.inputs, *operator.outputs) if t.dtype != "int8"), None)
        if other is not None:
            return Refusal(f"tensor {other.name} is {other.dtype}, and the device computes on int8", "an int8 form of the model")
        try:
            whole = batched_operator(operator, {}, self.config.batch)
            if is_free(whole, self.config):
                return None
            lowered = lower_operator(whole, self.config)
            allocate(lowered.operations, self.config)
        except LoweringError as error:
            return Refusal(_without_stage(str(error)), "another device or model form")
        except LoadstoneError as error:
            return Refusal(str(error), "another device")
        return None

    def lower(self, segment: Segment) -> OffloadedRegion:
        """Forms, constants, and the program once they are placed."""
        return OffloadedRegion(segment.name, segment.operators, segment.graph.inputs, self.config)


def _without_stage(text: str) -> str:
    return text.split(": ", 1)[-1]
