# SPDX-License-Identifier: Apache-2.0
"""The interface of back ends: what a plug-in outside the tree imports.

interface.py holds the classes, region.py what a back end gives back, device.py what is known of its
device; none needs TVM.
Each is imported when it is used: what reads artifacts on a board wants device.py alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loadstone.backend.device import Device, LayerRange, ProgramStep, RegisterBlock
    from loadstone.backend.from_table import FromTable
    from loadstone.backend.interface import (
        Attribute,
        Backend,
        External,
        OperatorPattern,
        Pattern,
        Phase,
        Refusal,
        Segment,
        Taken,
        offered,
    )
    from loadstone.backend.program import ProgramRegion
    from loadstone.backend.region import Address, DeviceLayout, ExternalRegion, LoweredRegion
    from loadstone.backend.rounding import FloatScale, MultiplyShift, StatedRounding

__all__ = [
    "Address",
    "Attribute",
    "Backend",
    "Device",
    "DeviceLayout",
    "External",
    "ExternalRegion",
    "FloatScale",
    "FromTable",
    "LayerRange",
    "LoweredRegion",
    "MultiplyShift",
    "OperatorPattern",
    "Pattern",
    "Phase",
    "ProgramRegion",
    "ProgramStep",
    "Refusal",
    "RegisterBlock",
    "Segment",
    "StatedRounding",
    "Taken",
    "offered",
]

#: The module that defines each name.
_WHERE = {
    **dict.fromkeys(("Device", "ProgramStep", "LayerRange", "RegisterBlock"), "device"),
    **dict.fromkeys(
        (
            "Attribute",
            "Backend",
            "External",
            "OperatorPattern",
            "Pattern",
            "Phase",
            "Refusal",
            "Segment",
            "Taken",
            "offered",
        ),
        "interface",
    ),
    "FromTable": "from_table",
    **dict.fromkeys(("ProgramRegion",), "program"),
    **dict.fromkeys(("Address", "DeviceLayout", "ExternalRegion", "LoweredRegion"), "region"),
    **dict.fromkeys(("FloatScale", "MultiplyShift", "StatedRounding"), "rounding"),
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
