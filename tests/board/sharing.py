# SPDX-License-Identifier: Apache-2.0
"""Three networks for one board, as guest/share_cases.c takes them, and what must come out.

In:   how many releases; whether one of the networks fails in every run.
Out:  the packed networks; assertions on the guest's lines: outputs of each alone, responses below
      the bounds of analysis/response.py, and near them.
Next: test_cortex_m.py, test_user.py.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from loadstone.analysis.bounds import blocks_of
from loadstone.analysis.response import BlockTimes, longest_responses
from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.compiler import compile as compile_model
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import INSN_BYTES
from tests.compiled import golden
from tests.repeat import times
from tests.sample_model import dense_model

__all__ = ["SECONDS", "Shared", "check", "networks", "real_networks"]

CONFIG = load_config("vtaq-1x16x16")
_WORST, _EXTRA = "worst_burst_extra_cycles", "read_burst_extra_cycles"
#: Whose memory is never slower than that of `loadstone simd`, so that bounds can be near.
SERVED = replace(
    CONFIG,
    timing={
        **CONFIG.timing,
        _WORST: replace(CONFIG.timing[_WORST], value=CONFIG.timing[_EXTRA].value),
    },
)
DENSE = dense_model(CONFIG)
#: By descending priority: programs of a run, and the share of the device's time.
PARTS = ((1, 0.2), (2, 0.3), (3, 0.4))
SAMPLES, FAULTY = 5, 1
#: The same of real networks, cut into programs of so many cycles.
REAL = (
    ("mlpt_kws_int8.tflite", 0.25),
    ("mlpt_ad_int8.tflite", 0.25),
    ("mlpt_resnet8_int8.tflite", 0.3),
)
SWITCH_CYCLES = 30_000
#: For all releases, on a machine that does much else.
SECONDS = 6 * 3600
_ALIGN = 64
_LINE = re.compile(r"network (\d+) runs (\d+) failures (\d+) wrong (\d+) worst (\d+)")


@dataclass(frozen=True)
class Shared:
    """One of them. bound: of its responses, in cycles."""

    runs: int
    failures: int
    bound: int


@dataclass(frozen=True)
class _Member:
    """A network with samples, and its outputs of each; the share of the device's time. fails: its
    programs are packed spoilt."""

    artifact: Artifact
    inputs: np.ndarray
    outputs: np.ndarray
    share: float
    fails: bool = False


def networks(*, faulty: bool) -> tuple[bytes, list[Shared]]:
    """Programs of one layer, packed. faulty: the second one's programs have an instruction that the
    device does not know, and nobody looks at them before."""
    runs = times(12, 1000) if faulty else times(120, 33_400)
    members = []
    rng = np.random.default_rng(runs)
    for number, (parts, share) in enumerate(PARTS):
        artifact = _in_parts(parts)
        x = rng.integers(-128, 128, (SAMPLES, 1, DENSE.weights.shape[1])).astype(np.int8)
        fails = faulty and number == FAULTY
        members.append(_Member(artifact, x, DENSE.expected(x), share, fails))
    return _packed(members, runs)


def real_networks(shared: Path) -> tuple[bytes, list[Shared]]:
    """Of MLPerf Tiny, packed, with LiteRT's outputs."""
    members = []
    for file, share in REAL:
        inputs, outputs = golden(shared, file, SAMPLES)
        made = compile_model(shared / "models" / file, CONFIG.name, switch_cycles=SWITCH_CYCLES)
        members.append(_Member(made.artifact, inputs[0], outputs[0], share))
    return _packed(members, times(34, 200))


def _packed(members: Sequence[_Member], runs: int) -> tuple[bytes, list[Shared]]:
    packed, blocks = b"", []
    for one in members:
        lengths = blocks_of(one.artifact, SERVED, None, 0)
        blocks.append(BlockTimes(lengths, int(sum(lengths) / one.share)))
        x, y = one.inputs, one.outputs
        data = (_spoilt(one.artifact) if one.fails else one.artifact).to_bytes()
        sizes = (len(data), x[0].nbytes, y[0].nbytes, len(x))
        head = struct.pack("<8I", *sizes, runs, blocks[-1].period, int(one.fails), 0)
        packed += b"".join(map(_padded, (head, data, x.tobytes(), y.tobytes())))
    bounds = longest_responses(blocks)
    return packed, [
        Shared(runs, runs if one.fails else 0, bound)
        for one, bound in zip(members, bounds, strict=True)
        if bound is not None
    ]


def check(lines: Sequence[str], wanted: Sequence[Shared]) -> str:
    """No response above its bound, the bound at most 1.3 times the longest; nothing wrong. Gives
    the figures."""
    assert "done" in lines, "the guest did not finish:\n" + "\n".join(lines)
    found = [tuple(map(int, m.groups())) for m in map(_LINE.fullmatch, lines) if m]
    assert [one[0] for one in found] == list(range(len(wanted))) == list(range(len(PARTS)))
    fails = any(one.failures for one in wanted)
    for (_, runs, failures, wrong, worst), one in zip(found, wanted, strict=True):
        assert (runs, failures, wrong) == (one.runs, one.failures, 0)
        assert worst <= one.bound
        assert fails or one.bound <= 1.3 * worst
    runs, failures = sum(one.runs for one in wanted), sum(one.failures for one in wanted)
    worsts = [f"{worst} of {one.bound}" for (*_, worst), one in zip(found, wanted, strict=True)]
    return f"{runs} releases, {failures} failed; longest responses {', '.join(worsts)} cycles"


def _in_parts(parts: int) -> Artifact:
    """The program of the sample model again and again."""
    (program,) = DENSE.artifact.programs
    steps = DENSE.artifact.steps
    at = steps.index(program)
    again = tuple(replace(program, name=f"part {n}") for n in range(parts))
    return replace(DENSE.artifact, steps=(*steps[:at], *again, *steps[at + 1 :]))


def _spoilt(artifact: Artifact) -> Artifact:
    """The second instruction of each program becomes one that is none."""
    steps = [_with_unknown(s) if isinstance(s, ProgramStep) else s for s in artifact.steps]
    return replace(artifact, steps=tuple(steps))


def _with_unknown(program: ProgramStep) -> ProgramStep:
    code = bytearray(program.instructions)
    code[INSN_BYTES] |= 7
    return replace(program, instructions=bytes(code))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGN)
