# SPDX-License-Identifier: Apache-2.0
"""analysis/graph_page.py: the graph is the network's, and the times add up to the plan's."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadstone.analysis.graph_page import explain_data, explain_page
from tests.browser import body_data, cells, opened
from tests.compiled import network


@pytest.mark.full
def test_nodes_edges_and_sums(shared: Path, tmp_path: Path) -> None:
    compiled = network(shared, "mlpt_resnet8_int8.tflite", "vtaq-1x16x16")
    rows, report = compiled.explain(), compiled.profile()
    data = explain_data(compiled.partition.graph, rows, report)
    operators = compiled.partition.graph.operators
    assert len(data["nodes"]) == len(operators) + 2  # an input and an output
    wanted = sum(len(o.inputs) for o in operators) + 1
    assert len(data["edges"]) == wanted
    times = [node.get("us") or 0 for node in data["nodes"]] + [step["us"] for step in data["steps"]]
    assert sum(times) == pytest.approx(report.us)
    path = tmp_path / "graph.html"
    path.write_text(explain_page(compiled.partition.graph, rows, report), encoding="utf-8")
    dom = opened(path)
    drawn = body_data(dom)
    assert (drawn["drawnnodes"], drawn["drawnedges"]) == (str(len(operators) + 2), str(wanted))
    lines = cells(dom)
    assert len(lines) == len(operators) + len(data["steps"])
    softmax = next(line for line in lines if line[1] == "softmax")
    assert softmax[2] == "host"
    assert "the ALU has no exponential" in softmax[-2]
    assert softmax[-1].startswith("a model that ends in its logits")
