# SPDX-License-Identifier: Apache-2.0
"""Random networks of blocks on random devices of the second generation equal LiteRT exactly, in
both of two runs; no program has a race, or reads what nobody wrote.

`python -m tests.test_random_blocks 1234` runs one alone."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")

from loadstone.compiler import Compiled, compile
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Load, Store
from loadstone.vta.isa.spec import Memory
from tests.races import check_races
from tests.random_blocks import device, network
from tests.repeat import times
from tests.tflite_builder import interpreter, invoke

SAMPLES = 4
NETWORKS = times(8, 400)


def check(seed: int, folder: Path) -> Compiled:
    """Raises AssertionError where an element differs, or what the compiler raises."""
    config, drawn = device(seed), network(seed)
    path = folder / f"blocks{seed}.tflite"
    path.write_bytes(drawn.model)
    compiled = compile(path, config)
    check_races(compiled.artifact, config)
    inputs = drawn.draw_inputs(seed, SAMPLES)
    for x in inputs:
        x[1], x[2] = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    reference = interpreter(drawn.model)
    with OpenedDevice("sim", "", config) as opened, opened.load(compiled.artifact) as session:
        runs = [session.run(inputs), session.run([x[::-1].copy() for x in inputs])]
    for sample in range(SAMPLES):
        wanted = invoke(reference, [x[sample] for x in inputs])
        for outputs, at in zip(runs, (sample, SAMPLES - 1 - sample), strict=True):
            for got, want in zip(outputs, wanted, strict=True):
                different = np.count_nonzero(got[at].reshape(want.shape) != want)
                assert not different, f"{different} of {want.size} elements differ"
    return compiled


def test_a_network_of_blocks_is_exact(tmp_path: Path) -> None:
    """One of those below."""
    assert len(check(3, tmp_path).partition.assignments) == 3


def test_random_blocks_are_exact(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """The networks of one run have all that the second generation adds."""
    found: Counter[str] = Counter()
    for seed in range(NETWORKS):
        compiled = check(seed, tmp_path)
        for program in compiled.artifact.programs:
            for insn in decode_stream(program.instructions, device(seed)):
                found[type(insn).__name__] += 1
                if isinstance(insn, Load | Store):
                    found[f"{type(insn).__name__} {Memory(insn.memory_id).name}"] += 1
                    found["requantizing"] += isinstance(insn, Store) and bool(insn.requantize)
    figure(f"{NETWORKS} networks of blocks equal: {dict(sorted(found.items()))}")
    assert min(found[name] for name in ("Depthwise", "Store INP", "requantizing")) > 0
    assert min(found[name] for name in ("Load WGT_4BIT", "Load WGT_PLANES")) > 0


def test_numbers_are_networks() -> None:
    """The same number gives the same file and the same device."""
    assert network(6).model == network(6).model
    assert device(6) == device(6)


if __name__ == "__main__":
    print(check(int(sys.argv[1]), Path(".")).graph.describe())
