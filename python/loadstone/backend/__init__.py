"""The interface of back ends: what a plug-in outside the tree imports.

interface.py holds the classes, region.py what a back end gives back; both need no TVM.
"""

from loadstone.backend.interface import (
    Attribute,
    Backend,
    External,
    Pattern,
    Phase,
    Refusal,
    Segment,
    current,
    entered,
    offered,
)
from loadstone.backend.region import Address, DeviceLayout, ExternalRegion, LoweredRegion

__all__ = [
    "Address",
    "Attribute",
    "Backend",
    "DeviceLayout",
    "External",
    "ExternalRegion",
    "LoweredRegion",
    "Pattern",
    "Phase",
    "Refusal",
    "Segment",
    "current",
    "entered",
    "offered",
]
