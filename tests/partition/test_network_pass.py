# SPDX-License-Identifier: Apache-2.0
"""network_pass.py: passes on the partitioned network, and where what they change then runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from loadstone.backend.interface import Phase
from loadstone.backend.template.backend import MyNpu
from loadstone.errors import LoweringError
from loadstone.graph import Conv2D, Graph
from loadstone.partition.network_pass import apply_graph_passes
from tests.observed import compiled, right


class Folder(MyNpu):
    """Doubles what the last convolution adds: a pass that changes an operator, which is then placed
    anew."""

    name: ClassVar[str] = "folder"

    def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
        return (doubled,) if phase is Phase.GRAPH else ()


def doubled(graph: Graph) -> Graph:
    *_, last = (operator for operator in graph.operators if isinstance(operator, Conv2D))
    new = replace(last, bias=last.bias + np.int32(500))
    return replace(
        graph,
        operators=tuple(new if operator is last else operator for operator in graph.operators),
    )


def test_a_graph_pass_changes_the_network(tmp_path: Path) -> None:
    plain, made = compiled(tmp_path, "my-npu", MyNpu), compiled(tmp_path, "folder", Folder)
    assert right(made)
    assert [row["where"] for row in made.explain()].count("folder") == 2
    image = np.zeros((1, *made.graph.inputs[0].shape), np.int8)
    assert not np.array_equal(made.run(image)[0], plain.run(image)[0])
    assert (
        compiled(tmp_path, "folder -max_channels=1,vtaq-tiny", Folder)
        .partition.assignments[-2]
        .backend
        != "folder"
    )


def test_a_graph_pass_may_not_change_what_the_user_sees(tmp_path: Path) -> None:
    made = compiled(tmp_path, "my-npu", MyNpu)

    class Cutter(MyNpu):
        def passes(self, phase: Phase) -> Sequence[Callable[[Any], Any]]:
            return (lambda graph: replace(graph, outputs=()),) if phase is Phase.GRAPH else ()

    with pytest.raises(LoweringError, match="the network's outputs were"):
        apply_graph_passes(made.partition, [Cutter()])
