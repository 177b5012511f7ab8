# SPDX-License-Identifier: Apache-2.0
"""Mutants of artifacts, held against a proof and against the simulator: none may be proved that the
simulator shows different.

In:   a model, a device, how many mutants, a seed.
Out:  how many ended how: what the proof said, what the simulator showed.
Next: test_proof_campaign.py runs a slice of it.

    nice .venv/bin/python -m tests.proof_campaign MODEL --target vtaq-1x16x16 --mutants 3000

A mutant is a bit of a stream, a field of an instruction, two instructions swapped, one dropped, a
token less, a bit of constants or micro-ops, or a constant one off. The simulator runs each with
random inputs, and with the ends of their type. "Not proved, equal" is where a proof beats tests.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.compiler import compile as compile_model
from loadstone.errors import LoadstoneError
from loadstone.prove.network import ModelNetwork
from loadstone.prove.proof import Proof
from loadstone.prove.read_onnx import read_onnx
from loadstone.prove.read_tflite import read_tflite
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Insn

__all__ = ["Campaign", "Mutant", "mutants", "network_of"]

Array = NDArray[Any]
_BYTES = 16  # of an instruction
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")


@dataclass(frozen=True)
class Mutant:
    """An artifact with one change; how: the kind of it; what: where."""

    how: str
    what: str
    artifact: Artifact


def network_of(data: bytes, name: str) -> ModelNetwork:
    """The network of a model file."""
    return read_tflite(data, name) if data[4:8] == b"TFL3" else read_onnx(data, name)


def mutants(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Iterator[Mutant]:
    """Mutants without end, each kind as often as any other."""
    kinds: list[Callable[[Artifact, HwConfig, np.random.Generator], Mutant | None]] = [
        _stream_bit,
        _field,
        _swapped,
        _dropped,
        _token,
        _constant_bit,
        _constant,
    ]
    while True:
        made = kinds[int(rng.integers(len(kinds)))](artifact, config, rng)
        if made is not None:
            yield made


def _program(artifact: Artifact, rng: np.random.Generator) -> int:
    places = [k for k, step in enumerate(artifact.steps) if isinstance(step, ProgramStep)]
    return int(rng.choice(places))


def _with_stream(artifact: Artifact, place: int, stream: bytes) -> Artifact:
    steps = list(artifact.steps)
    program = steps[place]
    assert isinstance(program, ProgramStep)
    steps[place] = replace(program, instructions=stream, insn_count=-1)
    return replace(artifact, steps=tuple(steps))


def _stream(artifact: Artifact, place: int) -> bytes:
    program = artifact.steps[place]
    assert isinstance(program, ProgramStep)
    return program.instructions


def _stream_bit(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant:
    place = _program(artifact, rng)
    raw = bytearray(_stream(artifact, place))
    bit = int(rng.integers(8 * len(raw)))
    raw[bit // 8] ^= 1 << bit % 8
    where = f"step {place}, instruction {bit // 8 // _BYTES}, bit {bit % (8 * _BYTES)}"
    return Mutant("bit of a stream", where, _with_stream(artifact, place, bytes(raw)))


def _field(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant | None:
    place = _program(artifact, rng)
    insns = list(decode_stream(_stream(artifact, place), config))
    number = int(rng.integers(len(insns)))
    fields = [name for name in vars(insns[number]) if name not in _TOKENS]
    if not fields:
        return None
    name = str(rng.choice(fields))
    value = int(getattr(insns[number], name)) + int(rng.choice([-2, -1, 1, 2]))
    try:
        insns[number] = replace(insns[number], **{name: value})
        stream = encode_stream(insns, config).tobytes()
    except LoadstoneError:  # it does not fit its bits
        return None
    where = f"step {place}, instruction {number}, {name}={value}"
    return Mutant("field", where, _with_stream(artifact, place, stream))


def _rearranged(
    how: str,
    artifact: Artifact,
    config: HwConfig,
    rng: np.random.Generator,
    change: Callable[[list[Insn], int], list[Insn] | None],
) -> Mutant | None:
    place = _program(artifact, rng)
    insns = list(decode_stream(_stream(artifact, place), config))
    number = int(rng.integers(len(insns) - 1))
    changed = change(insns, number)
    if changed is None:
        return None
    stream = encode_stream(changed, config).tobytes()
    where = f"step {place}, instruction {number}"
    return Mutant(how, where, _with_stream(artifact, place, stream))


def _swapped(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant | None:
    def change(insns: list[Insn], k: int) -> list[Insn]:
        return [*insns[:k], insns[k + 1], insns[k], *insns[k + 2 :]]

    return _rearranged("two swapped", artifact, config, rng, change)


def _dropped(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant | None:
    def change(insns: list[Insn], k: int) -> list[Insn]:
        return [*insns[:k], *insns[k + 1 :]]

    return _rearranged("one dropped", artifact, config, rng, change)


def _token(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant | None:
    def change(insns: list[Insn], k: int) -> list[Insn] | None:
        held = [name for name in _TOKENS if getattr(insns[k], name)]
        if not held:
            return None
        insns[k] = replace(insns[k], **{str(rng.choice(held)): 0})
        return insns

    return _rearranged("a token less", artifact, config, rng, change)


def _held(artifact: Artifact, rng: np.random.Generator) -> tuple[int, bytearray]:
    regions = [k for k, region in enumerate(artifact.regions) if region.data]
    place = int(rng.choice(regions))
    return place, bytearray(artifact.regions[place].data)


def _with_data(artifact: Artifact, place: int, data: bytes) -> Artifact:
    regions = list(artifact.regions)
    regions[place] = replace(regions[place], data=data)
    return replace(artifact, regions=tuple(regions))


def _constant_bit(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant:
    place, raw = _held(artifact, rng)
    bit = int(rng.integers(8 * len(raw)))
    raw[bit // 8] ^= 1 << bit % 8
    name = artifact.regions[place].name
    made = _with_data(artifact, place, bytes(raw))
    return Mutant(f"bit of {name}", f"byte {bit // 8}, bit {bit % 8}", made)


def _constant(artifact: Artifact, config: HwConfig, rng: np.random.Generator) -> Mutant:
    place, raw = _held(artifact, rng)
    byte, step = int(rng.integers(len(raw))), int(rng.choice([-1, 1]))
    raw[byte] = (raw[byte] + step) & 255
    name = artifact.regions[place].name
    made = _with_data(artifact, place, bytes(raw))
    return Mutant(f"byte of {name} one off", f"byte {byte}, {step:+}", made)


class Campaign:
    """Counts (kind, what the proof said, what the simulator showed); `wrong` names mutants that
    were proved and compute something else."""

    def __init__(self, model: bytes, name: str, device: str, inputs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.config = load_config(device)
        self.network = network_of(model, name)
        self.artifact = Artifact.from_bytes(_compiled(model, name, device))
        self.proof = Proof(self.network)
        verdict = self.proof.of(self.artifact)
        assert verdict.status.name == "PROVED", verdict.reason
        self.inputs = self._inputs(inputs)
        wanted = self._simulated(self.artifact)
        assert wanted is not None
        self.wanted = wanted
        self.ends: Counter[tuple[str, str, str]] = Counter()
        self.wrong: list[str] = []

    def _inputs(self, count: int) -> list[Array]:
        """Random levels; the first samples are the ends of their type."""
        drawn = []
        for index in self.artifact.inputs:
            tensor = self.artifact.tensors[index]
            limits = np.iinfo(tensor.dtype.numpy)
            shape = (count, tensor.shape[0] // self.artifact.samples, *tensor.shape[1:])
            array = self.rng.integers(
                limits.min, limits.max, shape, tensor.dtype.numpy, endpoint=True
            )
            array[:2] = np.reshape([limits.min, limits.max], (2,) + (1,) * (len(shape) - 1))[:count]
            drawn.append(array)
        return drawn

    def _simulated(self, artifact: Artifact) -> list[Array] | None:
        """Outputs; None where the runtime refuses the artifact, or the simulator stops."""
        try:
            device = OpenedDevice("sim", "", self.config)
            with device, device.load(artifact, trust=False) as session:
                return session.run(self.inputs)
        except LoadstoneError:
            return None

    def go(self, count: int) -> None:
        """So many mutants more."""
        for _, mutant in zip(range(count), self._mutants(), strict=False):
            said = self._said(mutant.artifact)
            got = self._simulated(mutant.artifact)
            showed = "stopped" if got is None else "equal" if self._equal(got) else "different"
            self.ends[mutant.how, said, showed] += 1
            if said == "proved" and showed == "different":
                self.wrong.append(f"{mutant.how}: {mutant.what}")

    def _mutants(self) -> Iterator[Mutant]:
        return mutants(self.artifact, self.config, self.rng)

    def _said(self, artifact: Artifact) -> str:
        """What the proof says of it."""
        try:
            return self.proof.of(artifact).status.name.lower().replace("_", " ")
        except LoadstoneError:  # no sound artifact
            return "refused"

    def _equal(self, got: Sequence[Array]) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(got, self.wanted, strict=True))

    def report(self) -> str:
        """A line for each way to end, and the sum of what tests would have missed."""
        lines = [f"{n:7,}  {': '.join(how)}" for how, n in sorted(self.ends.items())]
        missed = sum(
            n for (_, said, saw), n in self.ends.items() if (said, saw) == ("not proved", "equal")
        )
        return "\n".join(
            [
                *lines,
                f"{self.ends.total():,} mutants, {len(self.wrong)} proved and different; {missed} "
                f"not proved and equal on {len(self.inputs[0])} inputs",
            ]
        )


def _compiled(model: bytes, name: str, device: str) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(model)
        return compile_model(path, device).artifact.to_bytes()


def main() -> int:
    """Prints the report; 1 when a mutant was proved that is different."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="vtaq-1x16x16")
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    data = args.model.read_bytes()
    campaign = Campaign(data, args.model.name, args.target, args.inputs, args.seed)
    for done in range(0, args.mutants, 100):
        campaign.go(min(100, args.mutants - done))
        print(f"--- {campaign.ends.total()}\n{campaign.report()}", flush=True)
    for what in campaign.wrong:
        print(f"proved and different: {what}")
    return 1 if campaign.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
