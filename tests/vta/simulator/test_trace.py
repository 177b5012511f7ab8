# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/trace.py: a trace follows Perfetto's schema; slices bear the names of layers."""

from __future__ import annotations

from typing import Any

import pytest

from loadstone.artifact.format import LayerRange
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.simulator.replay import replay
from loadstone.vta.simulator.trace import trace_bytes
from loadstone.vta.simulator.vectors import (
    Vector,
)


def parse(data: bytes) -> Any:
    """A trace by Perfetto's own schema."""
    schema = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2",
        reason="pip install perfetto: its schema",
    )
    trace = schema.Trace()
    trace.ParseFromString(data)
    return trace


def test_a_trace_of_a_convolution_follows_perfettos_schema(conv: Vector) -> None:
    _, simulator = replay(conv, trace=True)
    trace = parse(trace_bytes(1, conv.name, simulator))
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    assert [t.name for t in tracks.values()][1:] == ["load", "compute", "store"]
    events = [p for p in trace.packet if p.HasField("track_event")]
    assert {p.track_event.track_uuid for p in events} == set(tracks) - {1 << 32}
    insns = list(decode_stream(conv.insns, conv.config))
    for uuid in list(tracks)[1:]:
        times, depth = [], 0
        for p in events:
            if p.track_event.track_uuid == uuid:
                depth += {1: 1, 2: -1, 3: 0}[p.track_event.type]
                assert depth in (0, 1)
                times.append(p.timestamp)
        assert depth == 0
        assert times == sorted(times)
    named = [p.track_event for p in events if p.track_event.type != 2]
    assert len(named) == len(insns)
    finish = next(p for p in events if p.track_event.name == "finish")
    assert finish.timestamp == conv.cycles[0] * 10  # 100 MHz
    flows = [flow for e in named for flow in e.flow_ids]
    pushes = sum(i.push_prev + i.push_next for i in insns)
    assert len(set(flows)) <= pushes
    assert all(flows.count(flow) >= 2 for flow in flows), "a flow has a beginning and an end"


def test_slices_bear_the_names_of_layers(conv: Vector) -> None:
    _, simulator = replay(conv, trace=True)
    trace = parse(trace_bytes(1, "net", simulator, [LayerRange("conv1", 0, 5)]))
    names = [
        p.track_event.name for p in trace.packet if p.HasField("track_event") and p.track_event.name
    ]
    assert sum(name.startswith("conv1: ") for name in names) == 5


def test_without_trace_nothing_is_recorded(conv: Vector) -> None:
    assert list(replay(conv)[1].events()) == []
