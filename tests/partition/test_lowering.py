# SPDX-License-Identifier: Apache-2.0
"""lowering.py: segments become regions once, in order; what is no region is refused by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.backend.device import NO_DEVICE
from loadstone.backend.interface import Backend, Pattern, Segment, Taken
from loadstone.backend.region import ExternalRegion
from loadstone.backend.target import Target
from loadstone.backend.target_spec import Entry, TargetSpec
from loadstone.errors import BackendError
from loadstone.partition.eager import HOST, Assignment, Partition
from loadstone.partition.lowering import Clock, lower_partition
from loadstone.partition.segments import divide
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_deploy import conv, tensor


class Npu(Backend):
    """Gives whatever the test says."""

    name: ClassVar[str] = "npu"
    gives: Any = None

    def patterns(self) -> Sequence[Pattern]:
        return ()

    def lower(self, segment: Segment) -> Any:
        if self.gives is not None:
            return self.gives
        tensors = segment.inputs, segment.outputs
        return ExternalRegion(segment.name, segment.operators, *tensors, "npu.run", "", {})


def divided(*places: str) -> Partition:
    tensors = [tensor(f"t{n}", 1, 2, 2, 4) for n in range(len(places) + 1)]
    operators = tuple(map(conv, tensors, tensors[1:]))
    graph = g.Graph(
        name="n", inputs=tensors[:1] and (tensors[0],), outputs=(tensors[-1],), operators=operators
    )
    where = {o.name: place for o, place in zip(operators, places, strict=True)}
    graph, segments = divide(graph, where, ["npu"])
    return Partition(None, graph, (), segments)


def target(backend: Backend) -> Target:
    return Target((backend,), NO_DEVICE, TargetSpec((Entry("npu"),)))


def test_a_segment_is_one_region_and_the_order_stays() -> None:
    clock = Clock()
    lowered = lower_partition(divided("npu", "npu", HOST, "npu"), target(Npu()), clock)
    kinds = [type(region).__name__ for region in lowered.regions]
    assert kinds == ["ExternalRegion", "Conv2D", "ExternalRegion"]
    steps = lowered.deployment.artifact.steps
    assert [step.name for step in steps] == [lowered.regions[0].name, "t3", lowered.regions[2].name]
    assert set(clock.seconds) == {"lower", "deploy"}
    assert all(seconds >= 0 for seconds in clock.seconds.values())


@pytest.mark.parametrize("samples", [1, 4])
def test_what_a_predicate_lowered_comes_back_with_its_operator(samples: int) -> None:
    """Under the operator as the back end lowers it, for all samples of the device's batch."""
    seen: list[Segment] = []

    class Seeing(Npu):
        def lower(self, segment: Segment) -> Any:
            seen.append(segment)
            return super().lower(segment)

    made = divided("npu", "npu", HOST, "npu")
    first, _, third, last = made.graph.operators
    said = {first: Taken("first"), last: Taken("last")}
    assignments = (
        *(Assignment(operator, "npu", (), taken) for operator, taken in said.items()),
        Assignment(third, HOST, ()),
    )
    whole = replace(target(Seeing()), device=replace(load_config("vtaq-tiny"), log_batch=2))
    lower_partition(
        replace(made, assignments=assignments), whole if samples == 4 else target(Seeing())
    )
    found = [[segment.taken.get(o) for o in segment.operators] for segment in seen]
    assert found == [[said[first], None], [said[last]]]
    assert {o.output.shape[0] for segment in seen for o in segment.operators} == {samples}


@pytest.mark.parametrize("gives", ["text", 3, np.zeros(2), type("Region", (), {"build": 1})()])
def test_what_is_no_region_is_refused(gives: Any) -> None:
    """Also what only looks like one: a type is said, not guessed from its methods."""
    backend = Npu()
    backend.gives = gives
    with pytest.raises(
        BackendError, match="lowering of t1.*neither an ExternalRegion nor a LoweredRegion"
    ):
        lower_partition(divided("npu"), target(backend))


def test_a_clock_adds_up() -> None:
    clock = Clock()
    for _ in range(2):
        with clock("a"):
            pass
    with clock("b"):
        pass
    assert list(clock.seconds) == ["a", "b"]
