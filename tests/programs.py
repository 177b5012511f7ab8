# SPDX-License-Identifier: Apache-2.0
"""Random legal programs, for everything that runs or checks instruction streams.

In:   a HwConfig and a random generator.
Out:  `random_program`: instructions in program order with tokens for every hazard between stages,
      the memory they run on.
Next: vta/simulator/test_sim.py holds the simulator against vta/meaning/reference.py; the runtime's
      validator, an allow-list, refuses a few of them.

Tokens come from hazards alone, by a rule of its own (not the compiler's
vta/passes/synchronize/synchronize.py): an instruction waits for the last one of another stage that
touches the same tile or bytes, if one of the two writes and it has not waited for it, or a later
one, before. Programs for profile vta keep to the subset in which real hardware agrees; others use
what their device has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import bfloat16
from loadstone.numerics import scale_lane, shift_lane
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode
from loadstone.vta.isa.insn import Insn
from loadstone.vta.isa.spec import INSN_BYTES, Capability, Memory
from tests.program_computes import alu, depthwise, gemm
from tests.program_draft import BASE, Draft
from tests.program_moves import configure, load, load_planes, store
from tests.program_tokens import with_tokens

__all__ = ["BASE", "Program", "random_program"]


@dataclass(frozen=True, eq=False)
class Program:
    """insns: uint8 (N, 16). memory: what stands at BASE (region 0 of devices with regions, whose
    addresses count from its start)."""

    config: HwConfig
    objects: list[Insn]
    insns: NDArray[np.uint8]
    memory: NDArray[np.uint8]


def random_program(config: HwConfig, rng: np.random.Generator, length: int = 24) -> Program:
    """A legal program of at least `length` instructions, FINISH last, no token left."""
    draft = Draft(config, rng)
    w = draft.windows
    for memory, window in ((Memory.INP, w.inp), (Memory.WGT, w.wgt), (Memory.ACC, w.acc)):
        load(draft, memory, *window, fill=True)
    choices = _choices(draft)
    while len(draft.steps) < length:
        choices[draft.below(len(choices))](draft)
    objects = with_tokens(draft.steps, rng)
    # For so few sooner than encode_stream.
    stream = b"".join(encode(insn, config) for insn in objects)
    insns = np.frombuffer(stream, np.uint8).reshape(-1, INSN_BYTES)
    return Program(config, objects, insns, _memory(draft))


def _choices(draft: Draft) -> list[Callable[[Draft], None]]:
    """What adds instructions that the device has, as often as they are to come."""
    w, has = draft.windows, draft.config.has
    choices: list[Callable[[Draft], None]] = [gemm] * 4 + [alu] * 4 + [store] * 3 + [configure] * 2
    choices += [lambda d: load(d, Memory.INP, *w.inp)] * 2
    choices += [lambda d: load(d, Memory.WGT, *w.wgt), lambda d: load(d, Memory.ACC, *w.acc)]
    if has(Capability.LOAD_ACC8):
        choices += [lambda d: load(d, Memory.ACC_8BIT, *w.acc)]
    if has(Capability.WEIGHTS4):
        choices += [lambda d: load(d, Memory.WGT_4BIT, *w.wgt)] * 3
    if has(Capability.WEIGHT_CODE):
        choices += [lambda d: load_planes(d, *w.wgt)] * 3
    if has(Capability.DEPTHWISE):
        choices += [depthwise] * 4
    return choices


def _memory(draft: Draft) -> NDArray[np.uint8]:
    size = draft.uop_start + 4 * draft.uop_count - draft.offset
    memory = draft.rng.integers(0, 256, size, np.uint8)
    if draft.config.is_float:
        _make_floats(draft, memory)
        return _with_micro_ops(draft, memory)
    # Some of the data are plausible operands of RQ: any lane may serve as multiplier or shift.
    words = memory[draft.start - draft.offset :][: draft.data_bytes].view("<i4")
    kind = draft.rng.integers(0, 6, words.size)
    words[kind == 0] = draft.rng.integers(1 << 30, 1 << 31, words.size)[kind == 0]
    words[kind == 1] = shift_lane(
        draft.rng.integers(-31, 31, words.size), draft.rng.integers(0, 8, words.size)
    )[kind == 1]
    words[kind == 2] = scale_lane((draft.rng.random(words.size) * 0.01).astype(np.float32))[
        kind == 2
    ]
    words[kind == 3] = draft.rng.integers(-5000, 5000, words.size)[kind == 3]
    return _with_micro_ops(draft, memory)


def _make_floats(draft: Draft, memory: NDArray[np.uint8]) -> None:
    """Most data are numbers of everyday size, of few bits: any bits would soon make every sum
    infinite or no number. The upper half of a float32 and a bfloat16 look alike. Others are
    tiny, so that products and sums are subnormal, or zeros of either sign."""
    halves = memory[: memory.size // 2 * 2].view("<u2")
    kind = draft.rng.integers(0, 40, halves.size)
    usual = bfloat16.bits_of(draft.rng.normal(size=halves.size).astype(np.float32))
    coarse = bfloat16.bits_of(draft.rng.integers(-8, 9, halves.size).astype(np.float32))
    tiny = bfloat16.bits_of((draft.rng.normal(size=halves.size) * 2.0**-66).astype(np.float32))
    zeros = np.where(draft.rng.integers(0, 2, halves.size) > 0, 0x8000, 0).astype(np.uint16)
    among = (usual, usual, coarse, tiny, zeros)
    for position, values in enumerate(among):
        here = (kind > 0) & (kind % len(among) == position)
        halves[here] = values[here]


def _with_micro_ops(draft: Draft, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    memory[draft.uop_start - draft.offset :] = (
        np.concatenate([np.zeros(0, np.uint32), *draft.uops]).astype("<u4").view(np.uint8)
    )
    return memory
