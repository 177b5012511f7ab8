# SPDX-License-Identifier: Apache-2.0
"""Two VTAs in one artifact: a chain through both, and a mixed network of int8 and bfloat16 from its
file to both devices."""

from __future__ import annotations

import dataclasses
import functools
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.program_step import ProgramStep
from loadstone.backend.builtin import further_device
from loadstone.backend.device import ProgramDevice
from loadstone.cli import main
from loadstone.errors import ArtifactError, ConfigError, DeviceError
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array
from loadstone.runtime import device
from loadstone.simulator.programs import program_cycles, program_runs
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.spec import Capability
from tests.artifact.test_reader import sealed
from tests.c.test_readers import c_accepts, python_accepts
from tests.further import FIRST, SECOND, branches, chain, expected, inputs


def check(graph: g.Graph, artifact: Artifact, shadow: bool = False) -> None:
    given = inputs(graph)
    opened = device.open("sim", shadow=shadow)
    with opened as dev, dev.load(artifact) as session:
        got = session.run([x[None] for x in given])
        counted = session.counters.cycles
    for out, want in zip(got, expected(graph, given), strict=True):
        np.testing.assert_array_equal(out[0], want)
    cycles = sum(run.cycles for run in program_runs(artifact, FIRST).values())
    assert counted == cycles


@pytest.mark.parametrize("shadow", [False, True])
@pytest.mark.parametrize("second", ["vtaq-1x8x8", "no regions"])
def test_a_chain_goes_through_both(second: str, shadow: bool) -> None:
    """Tiles of two sizes, and a device without regions; caches that are not coherent."""
    plain = SECOND.capabilities & ~Capability.REGIONS
    other = dataclasses.replace(SECOND, name="mine", capabilities=plain, registers="vta-hls")
    graph, artifact = chain(second=other if second == "no regions" else SECOND)
    kinds = ["host" if isinstance(s, HostStep) else type(s).__name__ for s in artifact.steps]
    assert kinds == ["host", "ProgramStep", "host", "host", "ProgramStep", "host"]
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    assert device.validate(artifact)[0] == 0
    check(graph, artifact, shadow)


def test_what_the_artifact_says_of_a_further_device() -> None:
    _, said = chain()[1].devices
    assert (said.name, said.attributes, said.has_configuration) == ("vtaq-1x8x8", "{}", True)
    assert further_device(said) == SECOND
    mine = dataclasses.replace(SECOND, name="mine", clock_mhz=77)
    found = further_device(ProgramDevice.of(mine))
    assert (found, found.clock_mhz) == (mine, 77)
    for name, attributes, said in (
        ("vtaq-1x16x16", "{}", "not the one that the artifact was compiled for"),
        ("vtaq-1x8x8", "[]", "no object"),
        ("vtaq-1x8x8", "{", "device vtaq-1x8x8"),
        ("mine", "{}", "neither built in"),
    ):
        with pytest.raises(ConfigError, match=said):
            further_device(ProgramDevice(name, SECOND.fingerprint(), attributes))


def replaced(artifact: Artifact, code: bytes) -> Artifact:
    """The same with other instructions for the second device."""
    steps = tuple(
        dataclasses.replace(s, instructions=code) if isinstance(s, ProgramStep) and s.device else s
        for s in artifact.steps
    )
    return dataclasses.replace(artifact, steps=steps)


def test_instructions_of_a_further_device_are_validated() -> None:
    _, artifact = chain()
    (step,) = artifact.programs_of(1)
    stream = list(decode_stream(step.instructions, SECOND))
    at = next(k for k, i in enumerate(stream) if isinstance(i, Load) and not i.is_noop)
    load = stream[at]
    assert isinstance(load, Load)
    stream[at] = dataclasses.replace(load, dram_base=1 << 20)
    broken = replaced(artifact, encode_stream(stream, SECOND).tobytes())
    with device.open("sim") as dev, pytest.raises(ArtifactError, match=f"instruction {at} .layer"):
        dev.load(broken)
    swapped = dataclasses.replace(artifact.devices[1], fingerprint=FIRST.fingerprint())
    with device.open("sim") as dev, pytest.raises(ConfigError, match="compile it again"):
        dev.load(dataclasses.replace(artifact, devices=(artifact.devices[0], swapped)))


def test_both_readers_refuse_the_same_files() -> None:
    original = chain()[1].to_bytes()
    random, accepted = np.random.default_rng(7), 0
    words = original.index(SECOND.fingerprint())
    for _ in range(300):
        data = bytearray(original)
        place = words + int(random.integers(-8, 56))
        data[place] = random.choice([0, 1, 2, 0x7F, 0xFF])
        file = sealed(data)
        assert python_accepts(file) == c_accepts(file), (place - words, data[place])
        accepted += c_accepts(file)
    assert 0 < accepted < 300


@pytest.mark.parametrize("shadow", [False, True])
def test_branches_run_side_by_side(shadow: bool) -> None:
    """Packed before both programs, unpacked behind both; the memory of neither is the other's."""
    graph, artifact = branches()
    steps = [s.opcode.name if isinstance(s, HostStep) else type(s).__name__ for s in artifact.steps]
    assert steps == ["PACK", "PACK", "ProgramStep", "ProgramStep", "UNPACK", "UNPACK"]
    assert [step.beside for step in artifact.programs] == [False, True]
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    check(graph, artifact, shadow)
    assert not any(step.beside for step in chain()[1].programs)
    views = [t for t in artifact.tensors if t.name.endswith("on device")]
    spans = sorted((t.offset_bytes, t.offset_bytes + t.size_bytes) for t in views)
    assert len(spans) == 4
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_another_connection_has_one_device() -> None:
    with device.open("null") as dev, pytest.raises(DeviceError, match="several devices"):
        dev.load(chain()[1])


# --- from a network's file ------------------------------------------------------------------------
TARGET = "vtaq-1x16x16,vtab-1x16x16"


@functools.cache
def mixed() -> tuple[object, Array]:
    """A network with convolutions of reals and one of integers; pictures."""
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    from loadstone.compiler import compile
    from loadstone.frontend import onnx
    from tests.test_real_networks import mixed_onnx

    rng = np.random.default_rng(0)
    compiled = compile(onnx.from_bytes(mixed_onnx(rng), "mixed.onnx"), TARGET)
    return compiled, rng.normal(size=(3, 1, 16, 8, 8)).astype(np.float32)


def test_a_mixed_network_is_exact_on_both_devices() -> None:
    """Each operator by its own rule: integers on one device, bfloat16 on the other."""
    compiled, pictures = mixed()
    where = {row["kind"]: row["where"] for row in compiled.explain()}  # type: ignore[attr-defined]
    assert (where["conv2d"], where["real_conv2d"]) == ("vta", "vtab-1x16x16")
    assert not compiled.python_steps  # type: ignore[attr-defined]
    graph = compiled.graph  # type: ignore[attr-defined]
    for picture, got in zip(pictures, compiled.run(pictures)[0], strict=True):  # type: ignore[attr-defined]
        known: dict[str, Array] = {graph.inputs[0].name: picture}
        for operator in graph.operators:
            given = [known[t.name] for t in operator.inputs]
            made = run_operator(operator, given)
            known.update(zip((t.name for t in operator.outputs), made, strict=True))
        np.testing.assert_array_equal(got, known[graph.outputs[0].name])


def test_commands_name_both_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled, pictures = mixed()
    path = tmp_path / "mixed.lds"
    compiled.save(path)  # type: ignore[attr-defined]
    np.savez(tmp_path / "x.npz", in0=pictures)
    assert main(["inspect", str(path)]) == 0
    assert "vtab-1x16x16: vtab-1x16x16" in capsys.readouterr().out
    assert main(["disasm", str(path)]) == 0
    listed = capsys.readouterr().out
    assert "instructions for vtaq-1x16x16" in listed
    assert "instructions for vtab-1x16x16" in listed
    assert main(["profile", str(path), "--trust"]) == 0
    told = capsys.readouterr().out
    assert "vtaq-1x16x16: 1 layer(s)" in told
    assert "vtab-1x16x16: 2 layer(s)" in told
    assert main(["run", str(path), "--inputs", str(tmp_path / "x.npz"), "--json", "--trust"]) == 0
    cycles = json.loads(capsys.readouterr().out)["cycles_by_device"]
    assert set(cycles) == {"vtaq-1x16x16", "vtab-1x16x16"}
    own = program_cycles(compiled.artifact, load_config("vtaq-1x16x16"))  # type: ignore[attr-defined]
    assert cycles["vtaq-1x16x16"] == sum(own)
