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
from loadstone.backend.region import ExternalRegion, Form, LoweredRegion, Place

__all__ = [
    "Attribute",
    "Backend",
    "External",
    "ExternalRegion",
    "Form",
    "LoweredRegion",
    "Pattern",
    "Phase",
    "Place",
    "Refusal",
    "Segment",
    "current",
    "entered",
    "offered",
]
