"""What a back end is: the one interface, for VTA and for a plug-in out of tree.

In:   nothing; no TVM until a back end's patterns are asked for.
Out:  Backend, Attribute, Pattern, Refusal, Phase.
Next: partition.py applies the patterns of every back end in the target's order; deploy.py asks for programs.

A back end says four things. Which operators it takes: `patterns`, in the order in which they are tried, each with a
predicate that accepts an operator or says why not. What is done to the network for it: `passes`, by phase. What the
device executes: `lower`, to a program of an instruction stream (LoweredRegion), or to one call of a function that the back
end brings (ExternalRegion and `externals`: its functional model, or its driver). What that costs: `cost_cycles`.

    class Npu(Backend):
        name = "npu"
        target_attributes = (Attribute("lanes", 16, "multipliers side by side"),)
        def patterns(self):
            return [offered("conv2d", lambda op: None if op.groups == 1 else Refusal("grouped", "a device with groups"))]
        def lower(self, segment):
            return ExternalRegion(segment.name, segment.operators, segment.inputs, segment.outputs, "npu.run", "...", {})
        @classmethod
        def externals(cls):
            return {"npu.run": run}  # run(arrays, attributes) -> arrays
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from numpy.typing import NDArray

from loadstone.errors import TargetError
from loadstone.graph import Graph, Operator, Tensor
from loadstone.region import ExternalRegion, LoweredRegion

__all__ = ["Attribute", "Backend", "External", "Pattern", "Phase", "Refusal", "Segment", "offered"]

#: A function of external steps: the arrays of its inputs and its attributes -> the arrays of its outputs.
External = Callable[[Sequence[NDArray[Any]], str], Sequence[NDArray[Any]]]


@dataclass(frozen=True)
class Attribute:
    """One attribute of an accelerator. default: also says the type: int, str or bool."""

    name: str
    default: int | str | bool
    doc: str

    def value(self, text: str, accelerator: str) -> int | str | bool:
        """The typed value. Raises TargetError naming what is allowed."""
        if isinstance(self.default, bool):
            if text not in ("true", "false"):
                raise TargetError(f"target: {accelerator} -{self.name}={text} is neither true nor false")
            return text == "true"
        if isinstance(self.default, int):
            try:
                return int(text, 0)
            except ValueError:
                raise TargetError(f"target: {accelerator} -{self.name}={text} is not an integer") from None
        return text


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
    from_host: those inputs that this back end does not make, so that the host can pack them in any form.
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
    #: What a target may say of it: `npu -lanes=8`.
    target_attributes: ClassVar[Sequence[Attribute]] = ()

    def __init__(self, **values: int | str | bool) -> None:
        """values: of target_attributes, typed; defaults for the rest. A subclass that refuses a value raises ValueError."""
        self._values = {entry.name: values.get(entry.name, entry.default) for entry in self.target_attributes}

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """What distinguishes this configuration, for reports (`device`, `clock_mhz` ...) and for its own code."""
        return self._values

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """The functions that its external regions name; begin them with the back end's name."""
        return {}

    @abstractmethod
    def patterns(self) -> Sequence[Pattern]:
        """The longest first: an operator goes to the first pattern that matches and whose predicate accepts it."""

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        """Passes of this back end, in order."""
        return ()

    @abstractmethod
    def lower(self, segment: Segment) -> LoweredRegion | ExternalRegion:
        """What the device needs for these operators together. Raises LoweringError."""

    def cost_cycles(self, operator: Operator) -> int | None:
        """An estimate for one operator alone; None where the back end has none."""
        return None
