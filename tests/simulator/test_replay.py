"""Vectors: all that were measured come out exact, what we write reads back, and every difference is
seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import LayerRange
from loadstone.cli import main
from loadstone.errors import LoadstoneError
from loadstone.simulator.replay import figures, replay
from loadstone.simulator.trace import trace_bytes
from loadstone.simulator.vectors import (
    Stimulus,
    Vector,
    load_vectors,
    measure,
    save_vectors,
)
from loadstone.vta.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Finish
from loadstone.vta.isa.spec import Capability
from tests.sample_model import dense_model


@pytest.fixture(scope="module")
def conv(shared: Path) -> Vector:
    return load_vectors([shared / "vta_rtl" / "conv_conv3x3_v1.npz"])[0]


def test_every_measured_program_is_exact_to_the_byte_and_to_the_cycle(shared: Path) -> None:
    replayed = [replay(v)[0] for v in load_vectors([shared / "vta_rtl"])]
    assert [r.name for r in replayed if not r.exact] == []
    assert [(r.name, r.cycles, r.measured) for r in replayed if any(r.errors().values())] == []
    counts = {g.group: (g.programs, g.measured) for g in figures(replayed)}
    assert counts == {"micro": (92, 92), "random": (80, 80), "conv": (8, 8), "fsim_only": (20, 0)}


def test_beats_and_bursts_are_those_of_the_bus(shared: Path) -> None:
    for vector in load_vectors([shared / "vta_rtl"]):
        if vector.counters["rd_beats"] >= 0:
            result = vector.simulator(vector.dram_in.copy(), strict=False).run(vector.insns)
            counted = (
                result.read_beats,
                result.write_beats,
                result.read_bursts,
                result.write_bursts,
            )
            assert counted == tuple(vector.counters.values()), vector.name


def test_no_check_fires_on_a_measured_program(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "replay",
                str(shared / "vta_rtl"),
                "--strict",
                "--check",
                "races",
                "--check",
                "init",
                "--json",
            ]
        )
        == 0
    )
    assert all(
        not p["findings"] and not p["message"]
        for p in json.loads(capsys.readouterr().out)["programs"]
    )


def test_a_spoilt_byte_is_told_with_its_address(conv: Vector) -> None:
    out = conv.out.copy()
    out[5] ^= 1
    replayed, _ = replay(replace(conv, out=out))
    assert not replayed.exact
    assert (
        "1 bytes differ, the first at "
        f"0x{conv.dram_base + int(conv.out_regions[0][0]) + 5:x}: {conv.out[5]} instead of"
        in replayed.message
    )


def test_a_byte_stored_outside_the_out_regions_is_seen(conv: Vector) -> None:
    shorter = replace(conv, out_regions=np.array([[conv.out_regions[0][0], 16]]), out=conv.out[:16])
    assert not replay(shorter)[0].exact


def test_limits_on_cycles_decide_the_exit_status(conv: Vector, tmp_path: Path) -> None:
    save_vectors(tmp_path, [replace(conv, cycles={0: 10060, 64: 36882})])  # 0.05 % off
    assert main(["replay", str(tmp_path), "--max-error", "0.1"]) == 0
    assert main(["replay", str(tmp_path), "--max-error", "0.01"]) == 1
    assert main(["replay", str(tmp_path), "--max-median", "0.01"]) == 1


def test_what_we_write_is_what_was_measured(shared: Path, tmp_path: Path) -> None:
    paths = sorted((shared / "vta_rtl").glob("conv_*.npz"))
    vectors = [
        measure(Stimulus(v.name, v.config, v.insns, v.dram_base, v.dram_in))
        for v in load_vectors(paths)
    ]
    save_vectors(tmp_path, vectors)
    for path in paths:
        theirs, ours = np.load(path), np.load(tmp_path / path.name)
        for name in theirs.files:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=f"{path.name}: {name}")
            assert ours[name].dtype == theirs[name].dtype


def test_vectors_of_text_on_a_device_with_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copy.txt").write_text(
        "load uop[0] = dram[1024 + x] for x<1\nload acc[0] = dram[260 + x] for x<1\n"
        "alu acc[u] += 1 for i<1 j<1 u in 0..1 push(store)\npop(compute) store dram[1100 + "
        "x] = out[0] for x<1 push(compute)\n"
        "pop(store) nop compute\nfinish\n"
    )
    memory = np.zeros(0x4000, np.uint8)
    memory[260 * 64 - 0x1000 :][:64:4] = 7
    memory.tofile(tmp_path / "in.bin")
    words = [
        "vectors",
        str(tmp_path / "copy.txt"),
        "--device",
        "vtaq-1x16x16",
        "--memory",
        f"{tmp_path}/in.bin@0x1000",
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    vector = np.load(tmp_path / "out" / "copy.npz")
    assert vector["out_regions"].tolist() == [[1100 * 16 - 0x1000, 16]]
    assert vector["out"].tolist() == [8] * 16
    assert main(["replay", str(tmp_path / "out"), "--max-error", "0"]) == 0
    assert "WRONG" not in capsys.readouterr().out


def test_mistakes_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match=r"no index\.json"):
        load_vectors([tmp_path])
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(LoadstoneError, match=r"x\.npz is no .npz file"):
        load_vectors([tmp_path / "x.npz"])
    np.savez(tmp_path / "y.npz", insns=np.zeros((1, 16), np.uint8))
    with pytest.raises(LoadstoneError, match=r"y\.npz: has no array 'dram_base"):
        load_vectors([tmp_path / "y.npz"])


# --- traces ---------------------------------------------------------------------------------------
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


def test_measure_refuses_what_does_not_finish() -> None:
    config = load_config("vta-pynq")
    waiting = encode_stream([Finish(pop_prev=1)], config)
    with pytest.raises(LoadstoneError, match="waits for a token from load"):
        measure(Stimulus("stuck", config, waiting, 0x1000, np.zeros(16, np.uint8)))


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16", "vtaq-1x32x32"])
def test_vectors_of_a_model_have_every_device_program(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without regions addresses are absolute, as when the runtime binds a model."""
    config = load_config(device)
    artifact = dense_model(config).artifact
    artifact.save(tmp_path / "dense.ldsm")
    assert (
        main(
            [
                "vectors",
                str(tmp_path / "dense.ldsm"),
                "-o",
                str(tmp_path / "out"),
                "--device",
                device,
            ]
        )
        == 0
    )
    vectors = load_vectors([tmp_path / "out"])
    assert len(vectors) == len(artifact.programs) == 1
    assert vectors[0].config == config
    assert bool(vectors[0].regions) == config.has(Capability.REGIONS)
    assert vectors[0].out.size > 0
    assert (
        main(
            [
                "replay",
                str(tmp_path / "out"),
                "--check",
                "races",
                "--check",
                "init",
                "--max-error",
                "0",
            ]
        )
        == 0
    )
    assert "WRONG" not in capsys.readouterr().out


def test_vectors_are_for_the_device_that_a_model_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four boards share a fingerprint; their cycles are not the same."""
    artifact = dense_model(load_config("vta-zcu104")).artifact
    artifact.save(tmp_path / "dense.ldsm")
    assert main(["vectors", str(tmp_path / "dense.ldsm"), "-o", str(tmp_path / "out")]) == 0
    assert load_vectors([tmp_path / "out"])[0].config == load_config("vta-zcu104")
    replace(artifact, device="mine").save(tmp_path / "mine.ldsm")
    assert main(["vectors", str(tmp_path / "mine.ldsm"), "-o", str(tmp_path / "out")]) != 0
    assert "for device 'mine' (config hash" in capsys.readouterr().err


def test_vectors_of_a_model_for_another_device_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense_model(load_config("vtaq-1x16x16")).artifact.save(tmp_path / "dense.ldsm")
    assert (
        main(
            [
                "vectors",
                str(tmp_path / "dense.ldsm"),
                "-o",
                str(tmp_path / "out"),
                "--device",
                "vta-pynq",
            ]
        )
        == 2
    )
    assert "is not for vta-pynq: its config hash is" in capsys.readouterr().err
