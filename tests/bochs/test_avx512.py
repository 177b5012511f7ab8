# SPDX-License-Identifier: Apache-2.0
"""The simulator's AVX-512 path on an emulated processor that has it, in `make test-all`; `make
test-avx512` is the same with more programs.

Bochs emulates the instructions, in software floating point that is its own: the bits that come out
are compared with the reference's, which is NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from loadstone.numerics import Rounding
from tests.bochs.build import replayer
from tests.bochs.campaign import campaign, devices, replay
from tests.bochs.convolutions import convolutions
from tests.bochs.coverage import counting_replayer, executed
from tests.edges import gemm_edges, gemm_loops, requantization_edges, requantization_loops
from tests.programs import Program, random_program
from tests.repeat import more

pytestmark = [pytest.mark.full, more]

#: Random programs of each kind of element.
PROGRAMS = 1000
#: Lines of the shared source that only tables of other instruction sets reach: packing and finding
#: diagonals (Dot::kDiagonals), which no tile is taken for here.
OF_OTHERS = ("pack_diagonal", "is_diagonal", "multiply_diagonals")


def programs() -> Iterator[Program]:
    """All loops and operations that kernels tell apart."""
    for config in (*devices(is_float=False), *devices(is_float=True)):
        yield from gemm_edges(config)
        if config.block <= 32:  # larger ones take the same functions, and minutes
            yield from convolutions(config)
            yield from () if config.is_float else gemm_loops(config)
        for seed in range(8):
            yield random_program(config, np.random.default_rng(seed))
    [config] = [c for c in devices(is_float=False) if c.name.startswith("vtaq-1x16x16")]
    yield from requantization_loops(config)
    for rounding in Rounding:
        yield from (program for program, _ in requantization_edges(rounding))


def test_every_function_of_the_path_runs_and_leaves_the_references_bytes(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    everything = list(programs())
    lines = replay(counting_replayer(tmp_path), everything, tmp_path)
    assert f"avx512 {len(everything)} programs" in lines
    functions, idle_lines = executed(tmp_path, lines)
    idle = [
        name
        for name, count in functions.items()
        if count == 0 and not any(other in name for other in OF_OTHERS)
    ]
    assert len(functions) > 100
    assert not idle, "\n".join(idle)
    figure(
        f"AVX-512 kernels on Bochs: {len(everything)} programs, {len(functions)} functions executed"
        f"; lines that were not: {' '.join(idle_lines) or 'none'}"
    )


@pytest.mark.parametrize("elements", ["bfloat16", "int8"])
def test_random_programs_leave_the_references_bytes(
    elements: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    done = list(
        campaign(replayer(tmp_path), tmp_path, PROGRAMS, is_float=elements == "bfloat16", first=1)
    )
    assert done[-1] == PROGRAMS
    figure(f"AVX-512 kernels on Bochs: {PROGRAMS} random programs of {elements} equal")
