# SPDX-License-Identifier: Apache-2.0
"""Faults in artifacts, each in one layer: what `loadstone compare` has to find.

In:   a sound artifact, a generator of random numbers.
Out:  Fault: the artifact with one fault, and the layers that may be named for it.
Next: test_compare.py; tests/board/test_cortex_m.py, on firmware.

A byte that two layers load is wrong in the first of them. A wrong token is one that is not given
and not waited for: the program still balances, and both validators and strict mode let it run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.backend.device import INSN_BYTES
from loadstone.runtime.device import validate
from loadstone.vta.device.hw_config import HwConfig, config_of
from loadstone.vta.isa.codec import decode_stream, encode
from loadstone.vta.isa.insn import Alu, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import Memory
from tests.ordering import tokens_of

__all__ = ["KINDS", "Fault", "faults"]

KINDS = ("weights", "bias", "requantization", "dropped", "token")
_CONSTANTS = 0


@dataclass(frozen=True)
class Fault:
    """kind: one of KINDS. layers: those that are right to name."""

    kind: str
    what: str
    layers: frozenset[str]
    artifact: Artifact


@dataclass(frozen=True)
class _Program:
    artifact: Artifact
    config: HwConfig
    step: int
    insns: list[Insn]
    layer_of: list[str]


def faults(artifact: Artifact, seed: int, first: int = 0) -> Iterator[Fault]:
    """For ever, the kinds in turn, from the kind of number `first` on."""
    random = np.random.default_rng(seed)
    config = config_of(artifact.fingerprint)
    step = next(n for n, s in enumerate(artifact.steps) if isinstance(s, ProgramStep))
    program = artifact.steps[step]
    assert isinstance(program, ProgramStep)
    layer_of = [""] * len(program)
    for layer in program.layers:
        layer_of[layer.first : layer.first + layer.count] = [layer.name] * layer.count
    insns = list(decode_stream(program.instructions, config))
    p = _Program(artifact, config, step, insns, layer_of)
    for kind in cycle((*KINDS[first:], *KINDS[:first])):
        if kind == "dropped":
            yield _dropped(p, random)
        elif kind == "token":
            yield _token(p, random)
        else:
            yield _constant(p, random, kind)


def _constant(p: _Program, random: np.random.Generator, kind: str) -> Fault:
    """A flipped bit in what a LOAD brings."""
    memory = Memory.WGT if kind == "weights" else Memory.ACC
    if not any(_loads(insn, memory) for insn in p.insns):
        memory = Memory.WGT  # VTA as it is requantizes with its GEMM core
    number = _one(p, random, lambda i: _loads(i, memory))
    load = p.insns[number]
    assert isinstance(load, Load)
    size = p.config.tile_bytes(memory)
    tiles = range(load.x_size)
    if memory is Memory.ACC and load.x_size % 3 == 0:  # bias, multiplier, shift
        tiles = range(0, load.x_size, 3) if kind == "bias" else range(1, load.x_size, 3)
    at = (load.dram_base + int(random.choice(tiles))) * size
    # a high bit of a byte; of an int32, of its third byte: large, and no overflow
    at += (
        int(random.integers(size)) if memory is Memory.WGT else 4 * int(random.integers(size // 4))
    )
    at += 0 if memory is Memory.WGT else 1 + (kind != "bias")
    region = p.artifact.regions[_CONSTANTS]
    data = bytearray(region.data)
    data[at] ^= 0x40
    regions = list(p.artifact.regions)
    regions[_CONSTANTS] = replace(region, data=bytes(data))
    readers = {p.layer_of[n] for n, i in enumerate(p.insns) if _covers(p, i, at)}
    changed = replace(p.artifact, regions=tuple(regions))
    return Fault(kind, f"byte {at} of the constants", frozenset(readers), changed)


def _loads(insn: Insn, memory: Memory) -> bool:
    if not isinstance(insn, Load) or not insn.x_size:
        return False
    return (insn.memory_id, insn.region) == (memory, _CONSTANTS)


def _covers(p: _Program, insn: Insn, at: int) -> bool:
    if not isinstance(insn, Load) or insn.region != _CONSTANTS or not insn.x_size:
        return False
    size = p.config.tile_bytes(Memory(insn.memory_id))
    rows = (insn.dram_base + y * insn.x_stride for y in range(insn.y_size))
    return any(row * size <= at < (row + insn.x_size) * size for row in rows)


def _dropped(p: _Program, random: np.random.Generator) -> Fault:
    """An instruction that does nothing; its tokens stay."""
    number = _one(p, random, _works)
    insn = p.insns[number]
    tokens = {n: getattr(insn, n) for n in ("pop_prev", "pop_next", "push_prev", "push_next")}
    if isinstance(insn, Load | Store):
        nothing: Insn = type(insn)(memory_id=insn.memory_id, **tokens)
    else:
        nothing = Load(memory_id=Memory.UOP, **tokens)  # of the compute stage, too
    layers = {p.layer_of[number]}
    if isinstance(insn, Load):  # what is still there is not loaded again
        same = [n for n, i in enumerate(p.insns) if isinstance(i, Load) and _same(i, insn)]
        layers |= {p.layer_of[n] for n in same}
    return Fault("dropped", f"instruction {number}", frozenset(layers), _with(p, {number: nothing}))


def _token(p: _Program, random: np.random.Generator) -> Fault:
    """A token that nobody gives, and nobody waits for. (The validator needs those for which the end
    of the program waits.)"""
    tokens = tokens_of(p.insns)
    assert tokens is not None
    while True:
        push, pop = tokens[int(random.integers(len(tokens)))]
        changed = {push[0]: replace(p.insns[push[0]], **{push[1]: 0})}
        changed[pop[0]] = replace(changed.get(pop[0], p.insns[pop[0]]), **{pop[1]: 0})
        artifact = _with(p, changed)
        if validate(artifact)[0] == 0:
            layers = frozenset(p.layer_of[number] for number in changed)
            what = f"the token from instruction {push[0]} to {pop[0]}"
            return Fault("token", what, layers, artifact)


def _works(insn: Insn) -> bool:
    """Without its micro-ops a program is refused."""
    if isinstance(insn, Load) and insn.memory_id == Memory.UOP:
        return False
    if isinstance(insn, Gemm | Alu):
        return insn.steps > 0
    return isinstance(insn, Load | Store) and insn.x_size > 0


def _same(a: Load, b: Load) -> bool:
    return (a.memory_id, a.region, a.dram_base) == (b.memory_id, b.region, b.dram_base)


def _with(p: _Program, changed: dict[int, Insn]) -> Artifact:
    program = p.artifact.steps[p.step]
    assert isinstance(program, ProgramStep)
    data = bytearray(program.instructions)
    for number, insn in changed.items():
        data[number * INSN_BYTES : (number + 1) * INSN_BYTES] = encode(insn, p.config)
    steps = list(p.artifact.steps)
    steps[p.step] = replace(program, instructions=bytes(data))
    return replace(p.artifact, steps=tuple(steps))


def _one(p: _Program, random: np.random.Generator, wanted: Callable[[Insn], bool]) -> int:
    return int(random.choice([n for n, insn in enumerate(p.insns) if wanted(insn)]))
