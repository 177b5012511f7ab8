"""The interface of back ends: what a plug-in outside the tree imports.

interface.py holds the classes, region.py what a back end gives back, device.py what is known of its
device; none needs TVM.
"""

from loadstone.backend.device import Device, DeviceProgram, LayerRange, RegisterBlock
from loadstone.backend.interface import (
    Attribute,
    Backend,
    External,
    OperatorPattern,
    Pattern,
    Phase,
    Refusal,
    Segment,
    current,
    entered,
    offered,
)
from loadstone.backend.program import ProgramRegion
from loadstone.backend.region import Address, DeviceLayout, ExternalRegion, LoweredRegion

__all__ = [
    "Address",
    "Attribute",
    "Backend",
    "Device",
    "DeviceLayout",
    "DeviceProgram",
    "External",
    "ExternalRegion",
    "LayerRange",
    "LoweredRegion",
    "OperatorPattern",
    "Pattern",
    "Phase",
    "ProgramRegion",
    "Refusal",
    "RegisterBlock",
    "Segment",
    "current",
    "entered",
    "offered",
]
