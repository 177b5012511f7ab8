# SPDX-License-Identifier: Apache-2.0
"""TVM's own external code generators (tensorrt, example_npu, nnapi ...) as accelerators of a
composite target.

In:   a name; TVM's pattern table of that name.
Out:  TvmExternal, a back end: its passes put the matches of the patterns into functions with a
      `Codegen` attribute, which no other pass changes.
Next: target.py, which alone imports it, creates it like other back ends.
      partition/eager.py leaves them whole in Host operators; run_module of relax/saved.py lets
      the code generator compile them.

A generator before VTA in a target takes the float operators between dequantize and quantize first;
one after VTA takes from the remaining ones. The function `relax.ext.NAME` exists where TVM was
built with the generator; otherwise the target is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from loadstone.backend.interface import Attribute, Backend, Pattern, Phase, Segment
from loadstone.backend.region import ExternalRegion
from loadstone.errors import TargetError
from loadstone.graph import Graph, Host
from loadstone.relax.compat import external_patterns, has_external

__all__ = ["TvmExternal"]


class TvmExternal(Backend):
    """One external code generator. first: no other accelerator stands before it."""

    name: ClassVar[str] = "tvm"
    target_attributes: ClassVar[Sequence[Attribute]] = ()

    def __init__(self, name: str, first: bool) -> None:
        """Raises TargetError where TVM was built without it."""
        super().__init__()
        if not has_external(name):
            raise TargetError(
                f"target: {name} is an external code generator of TVM, and this TVM was "
                f"built without it (no function relax.ext.{name}): "
                "install a TVM that has it, or leave it out"
            )
        self.name = name  # type: ignore[misc]  # one class for all of them
        self.first = first

    def patterns(self) -> Sequence[Pattern]:
        """None of Loadstone's: TVM's table is applied by its pass."""
        return ()

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        """Matches become functions with `Codegen`."""
        if phase is Phase.RELAX and self.first:
            return (external_patterns(self.name),)
        return (self._leftovers,) if phase is Phase.GRAPH and not self.first else ()

    def _leftovers(self, graph: Graph) -> Graph:
        """The pass on what nobody took."""
        matches = external_patterns(self.name)
        changed = {
            o: replace(o, function=matches(o.function))
            for o in graph.operators
            if isinstance(o, Host)
        }
        return replace(
            graph,
            operators=tuple(
                changed.get(o, o) if isinstance(o, Host) else o for o in graph.operators
            ),
        )

    def lower(self, segment: Segment) -> ExternalRegion:
        """Never asked: it has no patterns."""
        raise AssertionError(f"{self.name}: no segment can be its own")
