# SPDX-License-Identifier: Apache-2.0
"""The interface of back ends, for VTA and for plug-ins outside the tree.

In:   nothing; no TVM until a back end's patterns are asked for.
Out:  Backend, Pattern, Phase, Taken; Attribute is attribute.py's, Refusal errors.py's.
Next: partition/eager.py applies the patterns of every back end in the target's order;
      artifact/deploy.py asks for programs.

A back end defines four things. `patterns`: the operators that it takes, in the order in which they
are tried, each with a predicate that accepts an operator or states why not. `passes`: its own
passes over the network, by phase. `lower`: the device's work, as a program of an instruction stream
(LoweredRegion), or as one call of a function of the back end (ExternalRegion and `externals`: its
functional model, or its driver). `cost_cycles`: the cost of that work.

`Backend` below shows the minimum; every example in this file is executed by
tests/backend/test_interface.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from loadstone.backend.attribute import Attribute
from loadstone.backend.device import Device
from loadstone.backend.external import External
from loadstone.backend.request import CompileRequest
from loadstone.backend.space import space_choice, space_digest
from loadstone.errors import LoweringError, Refusal

if TYPE_CHECKING:
    from typing_extensions import Self  # typing's own from Python 3.11 on

    from loadstone.backend.region import ExternalRegion, LoweredRegion
    from loadstone.backend.rounding import StatedRounding
    from loadstone.graph import Graph, Operator, Tensor
    from loadstone.ir_pass.memory_table import MemoryTable
    from loadstone.ir_pass.nests import Function
    from loadstone.isa.accelerator import Accelerator
    from loadstone.relax.types import Call, DFPattern, IRModule

__all__ = [
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
]


@dataclass(frozen=True)
class OperatorPattern:
    """An operator's form in Relax, and how a match becomes the operator.

    name: the operator's `kind`. pattern: builds TVM's dataflow pattern. extract: receives the
        network's reader (partition/patterns/reader.py) and the root of a match; raises Mismatch
        where the match is not the operator.

    >>> def square(reader, root):
    ...     raise NotImplementedError("no square in this network")
    >>> OperatorPattern("square", lambda: None, square).name
    'square'
    """

    name: str
    pattern: Callable[[], DFPattern]
    extract: Callable[[Any, Call], Operator]


@dataclass(frozen=True, eq=False)
class Taken:
    """A predicate's acceptance of an operator, with the results that it computed on the way.

    lowered: what the predicate made of the operator, to see whether it can be done. It comes back
        in Segment.taken, for `lower` to use again; nobody else looks at it. None: it made nothing.
    cycles: of the operator alone, as Backend.cost_cycles counts them; None: that is asked.
    how: by which method, where `--explain` should say so.
    Raises TypeError for cycles that are no whole number of at least 0.

    >>> Taken("8 tiles", cycles=120).cycles
    120
    >>> Taken(cycles=-1)
    Traceback (most recent call last):
    TypeError: Taken: cycles -1, not a whole number of at least 0 or None
    """

    lowered: object = None
    cycles: int | None = None
    how: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "cycles", whole_cycles(self.cycles, "Taken: cycles"))


def whole_cycles(cycles: object, what: str) -> int | None:
    """A back end is foreign code: the cycles that it gave as a number of at least 0, NumPy's
    integers too; None for None. what: begins the message. Raises TypeError."""
    if cycles is None:
        return None
    try:
        number = index(cycles)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < 0:
        raise TypeError(f"{what} {cycles!r}, not a whole number of at least 0 or None")
    return number


@dataclass(frozen=True)
class Pattern:
    """One line of a pattern table.

    name: of the composite function, behind the back end's own: `vtaq.conv2d`.
    operator_pattern: name of an operator pattern of loadstone.partition.patterns; or one of the
        back end's own, whose extractor may return a dataclass that only this back end knows.
    predicate: says whether the operator is taken; it sees the integers, never Relax. None: yes. A
        Taken: yes, and what was lowered to find out. A Refusal: why not.

    >>> def small(operator):
    ...     if operator.output.size > 4096:
    ...         return Refusal("more than 4096 elements", "a smaller layer")
    >>> Pattern("small_dense", "dense", small).name
    'small_dense'
    """

    name: str
    operator_pattern: str | OperatorPattern
    predicate: Callable[[Any], Taken | Refusal | None]

    @property
    def kind(self) -> str:
        """The operator pattern's name."""
        wanted = self.operator_pattern
        return wanted.name if isinstance(wanted, OperatorPattern) else wanted


def offered(
    name: str, predicate: Callable[[Any], Taken | Refusal | None] = lambda _: None
) -> Pattern:
    """A pattern of the common table under its own name; without a predicate it takes every operator
    of that name.

    >>> [pattern.name for pattern in (offered("conv2d"), offered("add"))]
    ['conv2d', 'add']
    """
    return Pattern(name, name, predicate)


class Phase(Enum):
    """When a pass of a back end runs, and its argument. Passes of one phase run in the target's
    order of back ends.

    >>> class Npu(Backend):
    ...     def passes(self, phase):
    ...         return [lambda graph: graph] if phase is Phase.GRAPH else ()
    >>> [phase.value for phase in Phase]
    ['relax', 'composite', 'graph', 'tensor_ir', 'loops', 'copies']
    """

    RELAX = "relax"  # the module in canonical form, before partition: IRModule -> IRModule
    COMPOSITE = (
        "composite"  # the same after partition: what was taken is calls of composite functions
    )
    #: the partitioned network as integers: Graph -> Graph (partition/network_pass.py)
    GRAPH = "graph"
    # each computation or schedule of this back end: IRModule -> IRModule (ir_pass/pipeline.py)
    TENSOR_IR = "tensor_ir"
    LOOPS = "loops"  # the same as loop nests, without blocks
    COPIES = "copies"  # the same with allocations and copies


def _no_relax() -> IRModule:
    raise LoweringError("segment: it has no Relax: the compiler gives it one")


@dataclass(frozen=True, eq=False)
class Segment:
    """Operators that one back end runs together: no path from one of them to another leaves the
    segment.

    operators: in execution order. inputs: tensors from outside (no constants); outputs: tensors
        read outside.
    from_host: those inputs that this back end does not make, so that the host can pack them in any
        layout.
    taken: what the predicates lowered, of those operators that a predicate answered with a Taken.
    relax: gives the segment as an IRModule of composite functions (partition/relax_region.py),
        for a back end that would rather read Relax.

    >>> def lower(self, segment: Segment):
    ...     text = "; ".join(f"{op.kind} {op.output.name}" for op in segment.operators)
    ...     tensors = segment.inputs, segment.outputs
    ...     return ExternalRegion(segment.name, segment.operators, *tensors, "npu.run", text, {})
    """

    name: str
    backend: str
    graph: Graph
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    from_host: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    taken: Mapping[Operator, Taken] = field(default_factory=dict)
    relax: Callable[[], IRModule] = field(default=_no_relax, compare=False)


class Backend(ABC):
    """One accelerator, configured. What a subclass must say is its name, `patterns` and `lower`.

    >>> class Npu(Backend):
    ...     name = "npu"
    ...     target_attributes = (Attribute("lanes", 16, "multipliers side by side"),)
    ...     def accepts(self, conv2d):
    ...         return None if conv2d.groups == 1 else Refusal("grouped", "a device with groups")
    ...     def patterns(self):
    ...         return [offered("conv2d", self.accepts)]
    ...     def lower(self, segment):
    ...         text = f"{self.attributes['lanes']} lanes"
    ...         tensors = segment.inputs, segment.outputs
    ...         return ExternalRegion("npu", segment.operators, *tensors, "npu.run", text, {})
    ...     @classmethod
    ...     def externals(cls):
    ...         return {"npu.run": lambda arrays, attributes: arrays[:1]}
    >>> Npu(lanes=8).attributes
    {'lanes': 8}
    """

    #: Its name in targets, and the prefix of its composite functions.
    name: ClassVar[str]
    #: Its attributes in a target: `npu -lanes=8`.
    target_attributes: ClassVar[Sequence[Attribute]] = ()
    #: The host of the target that it is part of, as TVM takes it: {"kind": "llvm", "mcpu": ...}.
    #: target.resolve sets it.
    host: Mapping[str, str] = MappingProxyType({"kind": "llvm"})

    #: The request of the compile for which it works. `asked` sets it.
    request: CompileRequest = CompileRequest()

    #: The device that executes its programs; None where it is reached through functions alone.
    device: Device | None = None

    #: The accelerator of its ProgramRegions; None for a back end without such regions.
    accelerator: Accelerator | None = None

    #: The memories of the operands of its `computations` and `schedules`; None without these.
    memories: MemoryTable | None = None

    #: How a float network is best quantized for it, as `loadstone quantize --scheme` calls it;
    #: "float" for an accelerator of real numbers, which takes a float network as it is.
    scheme: str = "affine"

    #: Whether each output channel of a layer may have a scale of its own; where not, a float
    #: network is quantized with one for each layer's weights (`loadstone quantize --per-tensor`).
    per_channel: bool = True
    #: How many equal devices its programs are for.
    device_count: int = 1

    def __init__(self, **values: int | str | bool) -> None:
        """values: of target_attributes, typed; defaults for the rest. A subclass that refuses a
        value raises ValueError."""
        self._values = {
            entry.name: values.get(entry.name, entry.default) for entry in self.target_attributes
        }

    def asked(self, request: CompileRequest) -> Self:
        """This back end, working for a compile with this request: a shallow copy."""
        made = copy(self)
        made.request = request
        return made

    @property
    def attributes(self) -> Mapping[str, str | int]:
        """The properties of this configuration, for reports (`device`, `clock_mhz` ...) and for its
        own code."""
        return self._values

    @property
    def schedule_digest(self) -> str:
        """Of all that decides how good its schedule choices are; empty where it has none."""
        return space_digest(self) if type(self).space is not Backend.space else ""

    @classmethod
    def externals(cls) -> Mapping[str, External]:
        """The functions that its external regions name; begin them with the back end's name:
        {"npu.run": run}."""
        return {}

    @abstractmethod
    def patterns(self) -> Sequence[Pattern]:
        """The longest first: an operator goes to the first pattern that matches and whose predicate
        accepts it.

        return [offered("conv2d", self.accepts), offered("dense")]
        """

    def rounding(self, operator: Operator) -> StatedRounding | None:
        """What the device computes of an operator that `patterns` takes, where its requantizer is
        not the framework's; None: it is. Taken with `--rounding near` alone, unless it is proven to
        give the same integers.

        return StatedRounding(MultiplyShift.of(operator, bits=8), bound=1)
        """
        del operator
        return None

    def computations(self) -> Mapping[str, Callable[[Any], Function]]:
        """By kind of operator, what makes its computation: nests over tiles (ir_pass/nests.py) that
        say nothing of memories. The copies are inserted, by `memories`.

        return {"conv2d": self.computed_conv2d}; `lower` then gets an operator with its copies by
        backend.lowering.with_copies(self, operator, region.log(operator)).
        """
        return {}

    def schedules(self) -> Mapping[str, Callable[[Any], IRModule]]:
        """By kind of operator, what makes its scheduled TensorIR (an IRModule), for back ends that
        would rather use TVM's own primitives. It is read as a computation (ir_pass/from_tir.py);
        copies are inserted where it has none.

        return {"conv2d": self.scheduled_conv2d}; `lower` then gets an operator with its copies as
        it does those of `computations`.
        """
        return {}

    def space(self, operator: Operator) -> Mapping[str, Sequence[int | str]]:
        """What `loadstone tune` may choose of an operator's schedule: by name, the values to try,
        likely ones first: {"rows": [8, 4, 2]}. Those for which `lower` raises LoweringError are
        left out."""
        return {}

    def choice(self, operator: Operator) -> Mapping[str, int | str]:
        """What was chosen of its `space`, a value for each name; nothing, and the back end decides:
        rows = self.choice(operator).get("rows", self.most_rows(operator))."""
        return space_choice(self, operator)

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        """Passes of this back end, in order: {Phase.LOOPS:
        (tirx.transform.StmtSimplify(),)}.get(phase, ())."""
        return ()

    @abstractmethod
    def lower(self, segment: Segment) -> LoweredRegion | ExternalRegion:
        """What the device needs for these operators together. Raises LoweringError."""

    def cost_cycles(self, segment: Segment) -> int | None:
        """Cycles of one run of these operators together, at attributes["clock_mhz"] (100 without
        that attribute); transfers left out.

        `--partition cost` asks for segments of one operator, and for whole ones. None: a program is
        simulated, and a function of an external region is called and timed: right for a driver, not
        for a functional model.
        """
        return None
