# SPDX-License-Identifier: Apache-2.0
"""prove/tokens.py on compiled networks: without any one pair of a push and its pop, a program is
not in order, and the simulator finds the same race."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed")

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.errors import LoadstoneError
from loadstone.prove import proof as proof_module
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.tokens import CellAccess, Tokens
from loadstone.prove.verdict import NotProved, Status
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Insn, stage_of
from loadstone.vta.isa.spec import TOKEN_QUEUES
from tests.compiled import network as compiled
from tests.proof_campaign import compiled_artifact
from tests.repeat import times
from tests.test_proof_campaign import small_network

#: A push or a pop: the number of its instruction, and the flag.
End = tuple[int, str]


def pairs(stream: list[Insn]) -> list[tuple[End, End]]:
    """Each push with the pop that takes it."""
    found = []
    for queue in TOKEN_QUEUES:
        ends: dict[str, list[End]] = defaultdict(list)
        for number, instruction in enumerate(stream):
            for stage, flag in ((queue.pusher, queue.push), (queue.popper, queue.pop)):
                if stage_of(instruction) == stage and getattr(instruction, flag, 0):
                    ends[flag].append((number, flag))
        found += list(zip(ends[queue.push], ends[queue.pop], strict=True))
    return found


def without(stream: list[Insn], pair: tuple[End, End]) -> list[Insn]:
    less = list(stream)
    for number, flag in pair:
        less[number] = replace(less[number], **{flag: 0})
    return less


class Recording(Tokens):
    """Keeps what each instruction touches."""

    def __init__(self, cells: dict[str, int]) -> None:
        super().__init__(cells)
        self.cells, self.seen = cells, list[CellAccess]()

    def step(self, instruction: Insn, access: CellAccess) -> None:
        self.seen.append(access)
        super().step(instruction, access)


class Program:
    """A program of a proved artifact, and what the proof saw of it."""

    def __init__(self, artifact: Artifact, number: int, seen: Recording) -> None:
        self.artifact, self.number, self.seen = artifact, number, seen
        step = artifact.steps[number]
        assert isinstance(step, ProgramStep)
        self.program, self.config = step, load_config(artifact.device)
        self.stream = list(decode_stream(step.instructions, self.config))
        self.pairs = pairs(self.stream)

    def refused(self, stream: list[Insn]) -> bool:
        """Whether the checker of tokens refuses it: what an instruction touches, it touches in
        whatever order."""
        tokens = Tokens(self.seen.cells)
        try:
            for instruction, access in zip(stream, self.seen.seen, strict=True):
                tokens.step(instruction, access)
            tokens.end()
        except NotProved:
            return True
        return False

    def with_stream(self, stream: list[Insn]) -> Artifact:
        steps = list(self.artifact.steps)
        code = encode_stream(stream, self.config).tobytes()
        steps[self.number] = replace(self.program, instructions=code)
        return replace(self.artifact, steps=tuple(steps))

    def stops(self, artifact: Artifact) -> bool:
        """Whether the simulator finds the race."""
        tensors = [artifact.tensors[k] for k in artifact.inputs]
        inputs = [np.ones(tensor.shape, tensor.dtype.numpy) for tensor in tensors]
        try:
            with (
                OpenedDevice("sim", "", self.config) as device,
                device.load(artifact, trust=True) as session,
            ):
                session.run(inputs)
        except LoadstoneError:
            return True
        return False


def check(
    artifact: Artifact, network: ModelNetwork, some: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every pair by the checker alone; some of them by the whole proof, and by the simulator."""
    recordings: list[Recording] = []

    def recording(cells: dict[str, int]) -> Recording:
        recordings.append(Recording(cells))
        return recordings[-1]

    proof = Proof(network)
    with monkeypatch.context() as patch:
        patch.setattr(proof_module, "Tokens", recording)
        assert proof.of(artifact).status is Status.PROVED
    numbers = [number for number, _ in artifact.numbered_programs]
    for number, seen in zip(numbers, recordings, strict=True):
        program = Program(artifact, number, seen)
        assert not program.refused(program.stream)
        left = [
            pair for pair in program.pairs if not program.refused(without(program.stream, pair))
        ]
        print(f"{len(program.pairs)} pairs, {len(left)} of them not needed")
        assert left == []
        order = np.random.default_rng(1).permutation(len(program.pairs))
        for k in order[:some]:
            mutant = program.with_stream(without(program.stream, program.pairs[k]))
            assert proof.of(mutant).status is Status.NOT_PROVED
            assert program.stops(mutant), program.pairs[k]


def test_each_pair_of_a_small_network_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = small_network()
    artifact = compiled_artifact(data, "small.tflite", "vtaq-1x16x16")
    check(artifact, read_tflite(data, "small"), 10, monkeypatch)


@pytest.mark.parametrize(
    ("model", "device"), [("mlpt_kws_int8", "vtaq-1x16x16"), ("mlpt_ad_int8", "vta-pynq")]
)
def test_each_pair_of_a_real_network_is_needed(
    model: str, device: str, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{model}.tflite"
    network = read_tflite((shared / "models" / name).read_bytes(), name)
    artifact = compiled(shared, name, device).artifact
    check(artifact, network, times(2, 1000), monkeypatch)
