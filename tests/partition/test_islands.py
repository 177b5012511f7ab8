# SPDX-License-Identifier: Apache-2.0
"""partition/islands.py: what a device takes, but does not keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnx", reason="onnx is not installed")

from loadstone import graph as g
from loadstone.backend.interface import offered
from loadstone.partition.eager import HOST, explain, partition
from loadstone.partition.islands import islands
from tests import lowered as lo
from tests.onnx_builder import Graph
from tests.partition.test_eager import backend, module_of, places, step

NPU = backend("npu", offered("average_pool2d"), offered("max_pool2d"), offered("add"))


def pool(graph: Graph, x: str, kind: str = "MaxPool") -> str:
    return step(graph, kind, x, kernel_shape=[2, 2], strides=[1, 1])


def host(graph: Graph, x: str) -> str:
    return step(graph, "LeakyRelu", x, alpha=0.5)


def placed(build: Callable[[Graph, str], str], kind: str) -> set[str]:
    return {where for name, where in places(partition(module_of(build), [NPU])) if name == kind}


@pytest.mark.parametrize(("kind", "name"), [("MaxPool", "max_pool2d"), ("AveragePool", None)])
def test_a_pool_between_operators_of_the_host_stays_there(kind: str, name: str | None) -> None:
    def build(graph: Graph, x: str) -> str:
        return host(graph, pool(graph, host(graph, x), kind))

    name = name or "average_pool2d"
    divided = partition(module_of(build), [NPU])
    assert placed(build, name) == {HOST}
    assert not divided.segments
    (row,) = [row for row in explain(divided) if row["kind"] == name]
    assert "two transfers between operators of the host" in row["why"]


def test_two_pools_in_a_row_are_no_better() -> None:
    assert placed(
        lambda graph, x: host(graph, pool(graph, pool(graph, host(graph, x)))), "max_pool2d"
    ) == {HOST}


def test_beside_work_of_the_device_a_pool_goes_with_it() -> None:
    def build(graph: Graph, x: str) -> str:
        pooled = pool(graph, host(graph, x))
        return host(graph, step(graph, "Add", pooled, pooled))

    assert placed(build, "max_pool2d") == {"npu"}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_where_the_network_begins_or_ends_a_pool_is_no_island(before: bool, after: bool) -> None:
    """What the host packs in any case, or unpacks."""
    tensors = [lo.tensor(name, (1, 4, 4, 16)) for name in "xyzw"]
    kinds = [True, False, True]  # on the host
    operators = [
        g.Requantize(
            name=name,
            inputs=(source,),
            outputs=(target,),
            low=-128,
            high=127,
            rounding=lo.Rounding.DOUBLE,
        )
        if is_host
        else g.MaxPool2D(
            name=name,
            inputs=(source,),
            outputs=(target,),
            kernel=(1, 1),
            strides=(1, 1),
            padding=(0, 0, 0, 0),
            low=-128,
            high=127,
            rounding=lo.Rounding.DOUBLE,
        )
        for name, is_host, source, target in zip("abc", kinds, tensors, tensors[1:], strict=False)
    ]
    kept = operators[0 if before else 1 : 3 if after else 2]
    graph = g.Graph(
        name="test", inputs=(kept[0].input,), outputs=(kept[-1].output,), operators=tuple(kept)
    )
    backend_of = {"a": HOST, "b": "npu", "c": HOST}
    alone = islands(graph, backend_of, {"npu": 0, HOST: 1})
    assert [operator.name for operator in alone] == (["b"] if before and after else [])
