# SPDX-License-Identifier: Apache-2.0
"""The page of `loadstone compile --explain-html`: the network as a graph, coloured by who runs it.

In:   the rows of Compiled.explain, the network, a ProfileReport of the plan.
Out:  HTML (pages/page.py): a graph, and a table whose times add up to the plan's.
Next: pages/explain.js draws it.
"""

from __future__ import annotations

from collections.abc import Sequence

from loadstone import graph as g
from loadstone.analysis.names import short_names
from loadstone.analysis.report import ProfileReport, Row
from loadstone.files import JsonObject
from loadstone.pages.page import page

__all__ = ["explain_data", "explain_page"]


def explain_page(network: g.Graph, rows: Sequence[JsonObject], report: ProfileReport) -> str:
    """One HTML file. rows: one for each of the network's operators, in order."""
    title = f"{report.model}: who runs it on {report.device}, and why"
    return page(title, "explain", ["dagre"], explain_data(network, rows, report))


def explain_data(network: g.Graph, rows: Sequence[JsonObject], report: ProfileReport) -> JsonObject:
    """nodes: inputs, operators, outputs. edges: pairs of indices of nodes. steps: parts of the plan
    that are not operators of the network: packing, unpacking, segments of several operators. The
    times of nodes and steps add up to `us`."""
    short = short_names([row["operator"] for row in rows])
    times = {row.name: row for row in report.rows}
    # a layer and the host's step behind it may have one name
    us: dict[str, float] = {}
    for entry in report.rows:
        us[entry.name] = us.get(entry.name, 0.0) + entry.us
    nodes: list[JsonObject] = [
        {"name": t.name, "short": t.name, "kind": "input", "where": "", "shape": list(t.shape)}
        for t in network.inputs
    ]
    maker = {tensor.name: number for number, tensor in enumerate(network.inputs)}
    edges: list[tuple[int, int]] = []
    for operator, row in zip(network.operators, rows, strict=True):
        number = len(nodes)
        edges += [(maker[t.name], number) for t in operator.inputs if t.name in maker]
        maker.update((t.name, number) for t in operator.outputs)
        name = row["operator"]
        known = {"us": us.get(name), **_known(times.get(name))}
        nodes.append(
            {**row, "how_done": row.get("how", ""), **known, "name": name, "short": short[name]}
        )
    for tensor in network.outputs:
        edges.append((maker[tensor.name], len(nodes)))
        nodes.append(
            {
                "name": tensor.name,
                "short": tensor.name,
                "kind": "output",
                "where": "",
                "shape": list(tensor.shape),
            }
        )
    names = {row["operator"] for row in rows}
    steps = [
        {
            "name": r.name,
            "short": r.short,
            "kind": r.kind,
            "where": r.where,
            "us": r.us,
            "how": r.how,
        }
        for r in report.rows
        if r.name not in names
    ]
    places = sorted({a["place"] for row in rows for a in row.get("alternatives", ())})
    return {
        "model": report.model,
        "device": report.device,
        "us": report.us,
        "nodes": nodes,
        "edges": edges,
        "steps": steps,
        "places": places,
    }


def _known(row: Row | None) -> JsonObject:
    """How the time is known, and the operator's loss; nothing of an operator without a row."""
    if row is None:
        return {"how": "", "sqnr_db": None}
    return {"how": row.how, "sqnr_db": row.sqnr_db}
