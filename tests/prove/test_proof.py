# SPDX-License-Identifier: Apache-2.0
"""prove/proof.py: artifacts that compute their networks are proved; spoilt ones are not, and no
spoilt one is proved that the simulator shows to differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact, RegionKind
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.prove import proof as proof_module
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from loadstone.runtime import device as devices
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Alu, Config, Store
from tests.compiled import network as compiled
from tests.proof_campaign import compiled_artifact
from tests.random_tflite import network as random_network
from tests.repeat import times
from tests.test_proof_campaign import small_network
from tests.tflite_builder import Graph

SMALL = "mlpt_ad_int8.tflite"


class Case:
    """A network's proof and an artifact of it."""

    def __init__(self, shared: Path, device: str) -> None:
        file = shared / "models" / SMALL
        self.artifact: Artifact = compiled(shared, SMALL, device).artifact
        self.device = devices.OpenedDevice("sim", "", compiled(shared, SMALL, device).device)
        self.proof = Proof(read_tflite(file.read_bytes(), SMALL))
        self.inputs = np.random.default_rng(0).integers(-128, 128, (32, 1, 640)).astype(np.int8)
        self.wanted = self.outputs(self.artifact)

    def outputs(self, artifact: Artifact) -> list[np.ndarray] | None:
        """What the simulator computes; None where the runtime refuses or stops."""
        try:
            with self.device as opened, opened.load(artifact) as session:
                return session.run([self.inputs])
        except LoadstoneError:
            return None

    def differs(self, artifact: Artifact) -> bool:
        got = self.outputs(artifact)
        assert self.wanted is not None
        return got is not None and any(
            (a != b).any() for a, b in zip(got, self.wanted, strict=True)
        )


@pytest.fixture(scope="module")
def case(shared: Path) -> Case:
    return Case(shared, "vtaq-1x16x16")


def with_code(artifact: Artifact, change: Iterator[int]) -> Iterator[Artifact]:
    """The artifact with one bit of its instructions changed, for each number of a bit."""
    (number, program), *_ = artifact.numbered_programs
    for bit in change:
        code = bytearray(program.instructions)
        at = bit % (8 * len(code))
        code[at // 8] ^= 1 << at % 8
        steps = list(artifact.steps)
        steps[number] = replace(steps[number], instructions=bytes(code))  # type: ignore[arg-type]
        yield replace(artifact, steps=tuple(steps))


def with_constant(artifact: Artifact, change: Iterator[int]) -> Iterator[Artifact]:
    """The same with one bit of its constants or micro-ops."""
    held = [k for k, r in enumerate(artifact.regions) if r.kind == RegionKind.CONSTANTS]
    for bit in change:
        regions = list(artifact.regions)
        region = regions[held[bit % len(held)]]
        data = bytearray(region.data)
        at = bit % (8 * len(data))
        data[at // 8] ^= 1 << at % 8
        regions[held[bit % len(held)]] = replace(region, data=bytes(data))
        yield replace(artifact, regions=tuple(regions))


def test_a_real_network_is_proved(case: Case) -> None:
    verdict = case.proof.of(case.artifact)
    assert (verdict.status, verdict.reason) == (Status.PROVED, "")
    assert verdict.error_bits >= 60
    assert sum(verdict.equalities.values()) > 1000


@pytest.mark.parametrize("spoil", [with_code, with_constant], ids=["instructions", "constants"])
def test_no_spoilt_artifact_is_proved_that_differs(spoil: object, case: Case) -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 40, times(10, 500)).tolist()
    refused = 0
    for mutant in spoil(case.artifact, iter(bits)):  # type: ignore[operator]
        status = case.proof.of(mutant).status
        assert not (status is Status.PROVED and case.differs(mutant))
        refused += status is not Status.PROVED
    assert refused >= len(bits) // 4


def test_a_wrong_weight_is_named_with_a_sum(case: Case) -> None:
    """One bit of a weight that changes few outputs, and none of random inputs."""
    regions = list(case.artifact.regions)
    region = next(k for k, r in enumerate(regions) if r.kind == RegionKind.CONSTANTS)
    data = bytearray(regions[region].data)
    place = next(k for k in range(len(data)) if 0 < data[k] < 20)
    data[place] ^= 1
    regions[region] = replace(regions[region], data=bytes(data))
    verdict = case.proof.of(replace(case.artifact, regions=tuple(regions)))
    assert verdict.status is Status.NOT_PROVED
    assert "First at FULLY_CONNECTED" in verdict.reason


def test_a_constant_one_off_has_a_witness(case: Case) -> None:
    """A register that RQ reads, one higher: the sum for which the bytes differ is named."""
    (number, program), *_ = case.artifact.numbered_programs
    config = load_config("vtaq-1x16x16")
    stream = list(decode_stream(program.instructions, config))
    at = next(k for k, i in enumerate(stream) if isinstance(i, Config) and i.value < -1)
    stream[at] = stream[at].changed(value=int(stream[at].value) + 1)  # type: ignore[attr-defined]
    steps = list(case.artifact.steps)
    code = encode_stream(stream, config).tobytes()
    steps[number] = replace(steps[number], instructions=code)  # type: ignore[arg-type]
    verdict = case.proof.of(replace(case.artifact, steps=tuple(steps)))
    assert verdict.status is Status.NOT_PROVED
    for word in ("for sum", "the device has", "the network", "stored by instruction"):
        assert word in verdict.reason


def test_a_function_of_too_many_steps_is_not_proved() -> None:
    """An ALU instruction that requantizes one tile 1,200 times."""
    data, device = small_network(), "vtaq-1x16x16"
    artifact, config = compiled_artifact(data, "small.tflite", device), load_config(device)
    (number, program), *_ = artifact.numbered_programs
    stream = list(decode_stream(program.instructions, config))
    at = next(k for k, instruction in enumerate(stream) if isinstance(instruction, Alu))
    still = dict.fromkeys(("dst_in", "src_in", "dst_out", "src_out"), 0)
    stream[at] = stream[at].changed(iter_in=1200, iter_out=1, **still)  # type: ignore[attr-defined]
    steps = list(artifact.steps)
    code = encode_stream(stream, config).tobytes()
    steps[number] = replace(program, instructions=code)  # type: ignore[type-var]
    verdict = Proof(read_tflite(data, "small")).of(replace(artifact, steps=tuple(steps)))
    assert verdict.status is Status.NOT_PROVED
    assert "instruction" in verdict.reason
    assert "a byte is a function of too many steps" in verdict.reason


def one_weight() -> bytes:
    """An input by a weight of one: of a sum each value comes from one input."""
    graph = Graph()
    x = graph.input((1, 1), np.int8, 0.05, 3)
    w = graph.constant(np.ones((1, 1), np.int8), 0.01)
    b = graph.constant(np.array([40], np.int32), 0.0005)
    out = graph.tensor((1, 1), np.int8, 0.0012, -5)
    graph.operator("FULLY_CONNECTED", [x, w, b], [out])
    return graph.save([out])


def test_a_witness_is_what_the_device_computes() -> None:
    """Of each byte of the constants one higher: the simulator differs for as many inputs as are
    named, and for the sum that is named, which here is the input, as it is named. The operator, the
    element and the STORE that wrote it are named, too."""
    data, device = one_weight(), "vtaq-1x16x16"
    artifact = compiled_artifact(data, "one.tflite", device)
    proof = Proof(read_tflite(data, "one"))
    inputs = np.arange(-128, 128).astype(np.int8).reshape(256, 1, 1)

    def outputs(spoilt: Artifact) -> np.ndarray:
        opened = devices.OpenedDevice("sim", "", load_config(device))
        with opened, opened.load(spoilt) as session:
            return np.asarray(session.run([inputs])[0]).ravel()

    right, seen, config = outputs(artifact), 0, load_config(device)
    place = next(k for k, r in enumerate(artifact.regions) if r.kind == RegionKind.CONSTANTS)
    for byte in range(len(artifact.regions[place].data)):
        changed = bytearray(artifact.regions[place].data)
        changed[byte] = (changed[byte] + 1) & 255
        regions = list(artifact.regions)
        regions[place] = replace(regions[place], data=bytes(changed))
        spoilt = replace(artifact, regions=tuple(regions))
        verdict = proof.of(spoilt)
        said = re.search(
            r"First at FULLY_CONNECTED \(operator 0, .*\), element 0, one of 1 that are missing: "
            r"for sum (\S+) the device has (\S+), the network (\S+) \((\d+) of 256 values\), "
            r"stored by instruction (\d+) of (\S+)$",
            verdict.reason,
        )
        if said is None:
            continue
        got, seen = outputs(spoilt), seen + 1
        total, ours, theirs, count, instruction = map(int, said.groups()[:5])
        assert np.count_nonzero(got != right) == count
        assert (got[total + 128], right[total + 128]) == (ours, theirs)
        (program,) = (step for _, step in spoilt.numbered_programs if step.name == said[6])
        assert isinstance(list(decode_stream(program.instructions, config))[instruction], Store)
    assert seen > 3


def test_another_network_has_other_ends(case: Case) -> None:
    drawn = random_network(3)
    other = Proof(read_tflite(drawn.model, "other"))
    verdict = other.of(case.artifact)
    assert verdict.status is Status.NOT_PROVED
    assert "the artifact has inputs of [640] elements" in verdict.reason


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
@pytest.mark.parametrize("seed", range(times(4, 300)))
def test_what_the_compiler_makes_is_never_refused(seed: int, device: str, tmp_path: Path) -> None:
    """Random networks: proved, or a step that a proof does not cover by name."""
    drawn = random_network(seed)
    path = tmp_path / "net.tflite"
    path.write_bytes(drawn.model)
    artifact = compile_model(path, device).artifact
    verdict = Proof.attempt(read_tflite(drawn.model, "net"), artifact)
    assert verdict.status is not Status.NOT_PROVED, verdict.reason


def test_a_proof_that_may_err_is_made_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """With other primes, until the probabilities together are small enough."""
    once = Proof.attempt(case.proof.network, case.artifact)
    assert once.status is Status.PROVED
    monkeypatch.setattr(proof_module, "ERROR_BITS", once.error_bits + 1)
    twice = Proof.attempt(case.proof.network, case.artifact)
    assert twice.status is Status.PROVED
    assert twice.error_bits == 2 * once.error_bits
    monkeypatch.setattr(proof_module, "_PAIR_BITS", 1)
    never = Proof.attempt(case.proof.network, case.artifact)
    assert never.status is Status.UNSUPPORTED
    assert "divide the model" in never.reason


def test_an_artifact_of_several_samples_is_unsupported() -> None:
    """Which says nothing against it: a tile of four rows takes four samples."""
    model = small_network()
    artifact = compiled_artifact(model, "small.tflite", "vtaq-4x16x16")
    verdict = Proof.attempt(read_tflite(model, "small.tflite"), artifact)
    assert verdict.status is Status.UNSUPPORTED
    assert verdict.reason.startswith("a run takes 4 samples, one in each row of a tile, and a")
