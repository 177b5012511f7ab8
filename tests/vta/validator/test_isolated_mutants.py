# SPDX-License-Identifier: Apache-2.0
"""runtime/isolated.c beside the simulator, which marks every tile that is written: programs of the
compiler, and mutants of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from loadstone.errors import EncodingError
from loadstone.runtime import device
from loadstone.runtime.schedule import isolated
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import Insn, Store, decode_stream, encode_stream
from loadstone.vta.simulator.result import SimulationStopped
from loadstone.vta.simulator.sim import ORDERS
from loadstone.vta.simulator.unordered import findings
from tests.compiled import network
from tests.repeat import times
from tests.validated import Program, with_program
from tests.vta.validator.test_isolated import FLAGS, RESIDUE

_FIELDS = ("sram_base", "x_size", "y_size", "iter_out", "iter_in", "uop_end", "uop_bgn")
_FIELDS += ("dst_out", "dst_in", "src_out", "src_in", "wgt_out", "wgt_in", "operands", "reset")


def _mutant(rng: np.random.Generator, program: Program) -> Program | None:
    at = int(rng.integers(len(program) - 1))
    old: Insn = program[at]
    fields = [name for name in (*_FIELDS, *FLAGS) if hasattr(old, name)]
    name = str(rng.choice(fields))
    value = getattr(old, name) + int(rng.choice([-1, 1, 2, 8]))
    if name in FLAGS or name == "reset":
        value = 1 - getattr(old, name)
    if value < 0:
        return None
    made = list(program)
    made[at] = dataclasses.replace(old, **{name: value})  # type: ignore[type-var]
    return made


@pytest.mark.parametrize("name", ["vtaq-tiny", "vtaq2-1x16x16", "vta-pynq"])
def test_mutants_get_the_verdict_of_the_simulator(shared: Path, name: str) -> None:
    """Of programs that the validator accepts: what is accepted here reads nothing that was not
    written, in whatever order tokens allow; what is refused does, or a race decides, or a STORE
    takes from OUT what only ACC has, which the simulator does not tell."""
    config = load_config(name)
    artifact = network(shared, "mlpt_kws_int8.tflite", name).artifact
    program = list(decode_stream(artifact.programs[0].instructions, config))
    rng = np.random.default_rng(5)
    seen = {0: 0, RESIDUE: 0}
    for _ in range(times(250, 4000)):
        made = _mutant(rng, program)
        try:
            code = b"" if made is None else encode_stream(made, config).tobytes()
        except EncodingError:
            continue
        changed = with_program(artifact, code or artifact.programs[0].instructions)
        if not code or device.validate(changed)[0] != 0:
            continue
        status, _, instruction = isolated(changed)
        seen[status] += 1
        if seen[status] > times(8, 200):
            continue
        try:
            found = [f.kind for order in ORDERS for _, f in findings(changed, config, order=order)]
        except SimulationStopped:  # a hazard of VTA's own hardware
            seen[status] -= 1
            continue
        if status == 0:
            assert "uninitialised" not in found, made
        else:
            assert found or isinstance(made[instruction], Store), (instruction, made)
    assert min(seen.values()) >= 8, seen


def test_the_programs_of_the_compiler_are_isolated(shared: Path) -> None:
    for name in ("vtaq-1x16x16", "vta-pynq", "vtaq2-1x16x16", "vtaq-tiny"):
        made = network(shared, "mlpt_kws_int8.tflite", name)
        assert isolated(made.artifact)[0] == 0
