"""What a back end is: the one interface, for VTA and for a plug-in out of tree.

In:   nothing; no TVM until a back end's patterns are asked for.
Out:  Backend, Pattern, Refusal, Phase.
Next: partition.py applies the patterns of every back end in the target's order; deploy.py asks for programs.

A back end says four things. Which operators it takes: `patterns`, in the order in which they are tried, each with a
predicate that accepts an operator or says why not. What is done to the network for it: `passes`, by phase. What the
device executes: `lower`. What that costs: `cost_cycles`, so that a target with two accelerators can be weighed.

    class Npu(Backend):
        name = "npu"
        def patterns(self):
            return [offered("conv2d", lambda op: None if op.groups == 1 else Refusal("grouped", "a device with groups"))]
        def lower(self, segment): ...
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from loadstone.graph import Graph, Operator, Tensor
from loadstone.region import LoweredRegion

__all__ = ["Backend", "Pattern", "Phase", "Refusal", "Segment", "offered"]


@dataclass(frozen=True)
class Refusal:
    """Why a back end leaves an operator: `why` names the thing and the limit, `remedy` what would change it."""

    why: str
    remedy: str


@dataclass(frozen=True)
class Pattern:
    """One line of a pattern table.

    name: of the composite function, behind the back end's own: `vtaq.conv2d`.
    form: name of a form of loadstone.composite (its Relax pattern and its extractor); or a Form of the back end's own,
        whose extractor may return a dataclass that only this back end knows.
    predicate: None to take the operator; it sees the integers, never Relax.
    """

    name: str
    form: Any
    predicate: Callable[[Any], Refusal | None]


def offered(form: str, predicate: Callable[[Any], Refusal | None] = lambda _: None) -> Pattern:
    """A pattern of the common table under its own name."""
    return Pattern(form, form, predicate)


class Phase(Enum):
    """When a pass runs, and on what."""

    RELAX = "relax"  # the module in canonical form, before partition: IRModule -> IRModule
    GRAPH = "graph"  # the partitioned network: Graph -> Graph, operators this back end did not take included
    TENSOR_IR = "tensor_ir"  # each scheduled PrimFunc of this back end: IRModule -> IRModule


@dataclass(frozen=True, eq=False)
class Segment:
    """Operators that one back end runs together: no path from one of them to another leaves the segment.

    operators: in execution order. inputs: tensors from outside (no constants); outputs: tensors read outside.
    from_host: those inputs that no back end makes, so that the host can pack them in any form.
    """

    name: str
    backend: str
    graph: Graph
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    from_host: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


class Backend(ABC):
    """One accelerator, configured."""

    #: How targets call it, and what composite functions begin with.
    name: ClassVar[str]

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """What distinguishes this configuration, for reports (`device`, `clock_mhz` ...)."""
        return {}

    @abstractmethod
    def patterns(self) -> Sequence[Pattern]:
        """The longest first: an operator goes to the first pattern that matches and whose predicate accepts it."""

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        """Passes of this back end, in order."""
        return ()

    @abstractmethod
    def lower(self, segment: Segment) -> LoweredRegion:
        """What the device needs for these operators together. Raises LoweringError."""

    def cost_cycles(self, operator: Operator) -> int | None:
        """An estimate for one operator alone; None where the back end has none."""
        return None
