# SPDX-License-Identifier: Apache-2.0
"""Write a simulated run as a Perfetto trace: a track for each stage, a flow for each token.

In:   a Simulator that has run with trace=True; optionally the names of layers.
Out:  a file that https://ui.perfetto.dev opens (Perfetto's own protobuf format, written here
      without a dependency).
Next: readers see where the cycles are spent.

Times are in nanoseconds of the device's clock. A slice is an instruction, from the cycle in which
its tokens are available to the cycle in which its own are pushed; its arguments state how long it
waited before, and for what. The gaps between slices are waiting times.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from loadstone.artifact.format import LayerRange
from loadstone.files import write_whole
from loadstone.vta.isa.spec import Stage
from loadstone.vta.simulator.result import Event
from loadstone.vta.simulator.sim import Simulator

__all__ = ["trace_bytes", "write_trace"]

# Field numbers of perfetto/trace/perfetto_trace.proto.
_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _SEQUENCE_FLAGS, _TRACK_EVENT, _TRACK_DESCRIPTOR = (
    8,
    10,
    13,
    11,
    60,
)  # of TracePacket
_UUID, _NAME, _PROCESS, _PARENT = 1, 2, 3, 5  # of TrackDescriptor
_PID, _PROCESS_NAME = 1, 6  # of ProcessDescriptor
_EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME, _CATEGORIES, _ANNOTATION, _FLOW = (
    9,
    11,
    23,
    22,
    4,
    47,
)  # of TrackEvent
_ANNOTATION_NAME, _ANNOTATION_UINT = 10, 3  # of DebugAnnotation
_BEGIN, _END, _INSTANT = 1, 2, 3
_INCREMENTAL_STATE_CLEARED = 1


def write_trace(
    path: str | Path, runs: Sequence[tuple[str, Simulator]], layers: Sequence[LayerRange] = ()
) -> None:
    """Writes the last runs of simulators, each a process of its own name. `layers`: a source map;
    slices then bear its names."""
    traces = [
        trace_bytes(number, name, simulator, layers)
        for number, (name, simulator) in enumerate(runs, 1)
    ]
    write_whole(path, b"".join(traces))


def trace_bytes(
    number: int, name: str, simulator: Simulator, layers: Sequence[LayerRange] = ()
) -> bytes:
    """One run as packets of a trace; `number` (from 1) tells it from others in the same file."""
    process = number << 32
    packets = [
        _packet(
            _message(
                _TRACK_DESCRIPTOR,
                _number(_UUID, process) + _message(_PROCESS, _process(number, name)),
            ),
            number,
            first=True,
        )
    ]
    for stage in Stage:
        track = (
            _number(_UUID, process + 1 + stage)
            + _text(_NAME, stage.name.lower())
            + _number(_PARENT, process)
        )
        packets.append(_packet(_message(_TRACK_DESCRIPTOR, track), number))
    layer_of = {
        insn: layer.name
        for layer in layers
        for insn in range(layer.first, layer.first + layer.count)
    }
    events = list(simulator.events())
    popped_from = {
        source
        for event in events
        for source in (event.from_prev, event.from_next)
        if source is not None
    }
    for event in events:
        packets += _slice(
            event, simulator, process, layer_of.get(event.insn, ""), event.insn in popped_from
        )
    return b"".join(packets)


def _slice(
    event: Event, simulator: Simulator, process: int, layer: str, gives: bool
) -> Iterable[bytes]:
    """A begin and an end, or an instant for what takes no time (FINISH)."""
    number = process >> 32
    track = _number(_EVENT_TRACK, process + 1 + event.stage)
    text = simulator.assembler(event.insn)
    body = (
        track
        + _text(_EVENT_NAME, f"{layer}: {text}" if layer else text)
        + _text(_CATEGORIES, event.stage.name.lower())
    )
    arguments = {
        "instruction": event.insn,
        "cycles": event.end - event.start,
        "waited for fetch (cycles)": event.ready - event.enter,
        "waited for tokens (cycles)": event.start - event.ready,
        "waited for DRAM (cycles)": event.dram_cycles,
    }
    for name, value in arguments.items():
        body += _message(
            _ANNOTATION, _text(_ANNOTATION_NAME, name) + _number(_ANNOTATION_UINT, value)
        )
    if gives:  # a flow begins at the instruction that pushes ...
        body += _fixed64(_FLOW, process + event.insn)
    for source in (event.from_prev, event.from_next):
        if source is not None:  # ... and comes in at the one that pops
            body += _fixed64(_FLOW, process + source)
    start, end = (
        int(cycle * 1000 / simulator.config.clock_mhz) for cycle in (event.start, event.end)
    )
    if event.start == event.end:
        yield _packet(
            _number(_TIMESTAMP, start)
            + _message(_TRACK_EVENT, _number(_EVENT_TYPE, _INSTANT) + body),
            number,
        )
        return
    yield _packet(
        _number(_TIMESTAMP, start) + _message(_TRACK_EVENT, _number(_EVENT_TYPE, _BEGIN) + body),
        number,
    )
    yield _packet(
        _number(_TIMESTAMP, end) + _message(_TRACK_EVENT, _number(_EVENT_TYPE, _END) + track),
        number,
    )


def _process(pid: int, name: str) -> bytes:
    return _number(_PID, pid) + _text(_PROCESS_NAME, name)


# --- protobuf -------------------------------------------------------------------------------------
def _packet(body: bytes, sequence: int, first: bool = False) -> bytes:
    flags = _number(_SEQUENCE_FLAGS, _INCREMENTAL_STATE_CLEARED) if first else b""
    return _message(_PACKET, body + _number(_SEQUENCE, sequence) + flags)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _fixed64(field: int, value: int) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<Q", value)


def _message(field: int, body: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())
