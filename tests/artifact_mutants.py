# SPDX-License-Identifier: Apache-2.0
"""Changes of an artifact, in one place each.

In:   an artifact, its device, a generator of random numbers.
Out:  `mutants`: changed artifacts without end.
Next: proof_campaign.py holds each against a proof and the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Insn

__all__ = ["Mutant", "mutants"]

_BYTES = 16  # of an instruction
_TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")


@dataclass(frozen=True)
class Mutant:
    """An artifact with one change; how: the kind of it; what: where."""

    how: str
    what: str
    artifact: Artifact


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
    steps[place] = replace(program, instructions=stream, insn_count=-1, layers=())
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
