# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of a model's layers and the artifact does not contain.

In:   a network, its segments with their back ends, the names of the back ends in the target.
Out:  Known, for report.py: kinds, multiplications, the times that back ends estimate.
Next: compiled.py's Compiled.profile; `loadstone profile --target`, and `--network`, which reads the
      model again when the artifact is a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loadstone import graph as g
from loadstone.analysis.report import Known
from loadstone.backend.device import Device
from loadstone.backend.interface import Backend, Phase, Segment
from loadstone.backend.scope import apply_passes
from loadstone.partition.cost.prices import CostTable
from loadstone.partition.cost.pricing import Pricing

__all__ = ["known_of", "known_of_file"]


def known_of_file(path: str | Path, backends: Sequence[Backend]) -> Known:
    """Kinds and multiplications of the operators in a model's file, for these back ends. Raises
    ModelError."""
    from loadstone.frontend import load
    from loadstone.partition.eager import partition

    module = apply_passes(backends, Phase.RELAX, load(path))
    return _known_operators(partition(module, backends, Path(path).stem).graph)


def _known_operators(graph: g.Graph) -> Known:
    kinds = {operator.name: str(operator.kind) for operator in graph.operators}
    macs = {
        operator.name: int(getattr(operator, "macs", 0))  # of what multiplies
        for operator in graph.operators
    }
    return Known(kinds, macs)


def known_of(
    graph: g.Graph,
    segments: Sequence[tuple[Backend, Segment]],
    device: Device,
    accelerators: Mapping[str, str],
) -> Known:
    """accelerators: back end -> its name in the target. Raises BackendError where a back end's cost
    model fails."""
    pricing = Pricing((), CostTable(device))
    own = _known_operators(graph)
    kinds, macs = dict(own.kinds), dict(own.macs)
    modelled_us: dict[str, float] = {}
    places: dict[str, str] = {}
    for backend, segment in segments:
        operators = segment.operators
        several = len(operators) > 1
        kinds[segment.name] = f"{len(operators)} operators" if several else str(operators[0].kind)
        macs[segment.name] = sum(macs.get(operator.name, 0) for operator in operators)
        places[segment.name] = accelerators.get(backend.name, backend.name)
        cost_ns = pricing.model_ns(backend, segment)
        if cost_ns is not None:
            modelled_us[segment.name] = cost_ns / 1000
    return Known(kinds, macs, modelled_us, places)
