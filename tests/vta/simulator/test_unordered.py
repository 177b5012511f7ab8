# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/unordered.py: races and reads of what nobody wrote, in an artifact's programs; and
the orders in which a simulator can run what no token orders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.vta.device.hw_config import HwConfig, config_of, load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.insn import Finish, Load
from loadstone.vta.isa.spec import Memory
from loadstone.vta.simulator.sim import ORDERS, Simulator
from loadstone.vta.simulator.unordered import findings
from tests.ordering import tokens_of, without
from tests.programs import random_program
from tests.repeat import times
from tests.sample_model import dense_model, stored_twice_model
from tests.simulated import DEVICES, refer, simulate, simulate_again

CONFIG = load_config("vtaq-1x16x16")
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


def test_a_compiled_model_has_none() -> None:
    assert findings(dense_model(CONFIG).artifact, CONFIG) == []


def test_what_was_never_written_is_found_when_it_is_asked_for() -> None:
    """A LOAD of weights that moves nothing."""
    artifact = dense_model(CONFIG).artifact
    (program,) = artifact.programs
    insns = [
        Load(memory_id=i.memory_id, **{flag: getattr(i, flag) for flag in FLAGS})
        if isinstance(i, Load) and i.memory_id == Memory.WGT
        else i
        for i in decode_stream(program.instructions, CONFIG)
    ]
    changed = replace(program, instructions=encode_stream(insns, CONFIG).tobytes())
    steps = tuple(changed if step is program else step for step in artifact.steps)
    bad = replace(artifact, steps=steps)
    assert {finding.kind for _, finding in findings(bad, CONFIG)} == {"uninitialised"}
    assert findings(bad, CONFIG, uninitialised=False) == []


@pytest.mark.parametrize("config", DEVICES[::3], ids=lambda c: c.name)
def test_programs_without_races_compute_the_same_in_every_order(config: HwConfig) -> None:
    simulators = [Simulator(config, order=order) for order in ORDERS]
    for seed in range(times(5, 300)):
        program = random_program(config, np.random.default_rng(seed), 30)
        expected, _ = refer(program)
        for simulator in simulators:
            memory, _ = simulate_again(simulator, program)
            np.testing.assert_array_equal(memory, expected)


def test_an_order_shows_what_a_missing_token_does() -> None:
    """Of random programs that lack a token: what some order computes otherwise has a race, or a
    FINISH that does not wait; and such there are."""
    shown = 0
    for seed in range(times(30, 300)):
        rng = np.random.default_rng(seed)
        program = random_program(CONFIG, rng, 20)
        tokens = tokens_of(program.objects)
        if not tokens:
            continue
        (push, pop) = tokens[int(rng.integers(len(tokens)))]
        if isinstance(program.objects[pop[0]], Finish):
            continue
        fewer = without(program.objects, push, pop)
        mutant = replace(program, insns=encode_stream(fewer, CONFIG))
        expected, _ = refer(program)
        for order in ORDERS:
            memory, simulator, result = simulate(mutant, order=order, races=True, strict=False)
            done = result.insns_done == len(fewer)
            if done and not np.array_equal(memory, expected):
                assert simulator.findings(), f"seed {seed}, {order}"
                shown += 1
    assert shown > 3


def test_a_finish_that_does_not_wait_is_found() -> None:
    artifact = dense_model(CONFIG).artifact
    (program,) = artifact.programs
    insns = list(decode_stream(program.instructions, CONFIG))
    tokens = [t for t in tokens_of(insns) or [] if isinstance(insns[t[1][0]], Finish)]
    changed = encode_stream(without(insns, *tokens[0]), CONFIG).tobytes()
    steps = [replace(program, instructions=changed) if s is program else s for s in artifact.steps]
    ((step, finding),) = findings(replace(artifact, steps=tuple(steps)), CONFIG)
    assert artifact.steps[step] is program
    assert f"instruction {len(insns) - 1} finishes and" in finding.text


def test_a_finish_that_does_not_wait_for_a_store_to_inp_is_found() -> None:
    artifact = stored_twice_model()
    config = config_of(artifact.fingerprint)
    (program,) = artifact.programs
    insns = list(decode_stream(program.instructions, config))
    del insns[4]  # the one to DRAM
    changed = encode_stream([*insns[:-1], Finish()], config).tobytes()
    bad = replace(artifact, steps=(replace(program, instructions=changed, layers=()),))
    ((_, finding),) = findings(bad, config)
    assert "finishes and 3 writes INP" in finding.text
    assert finding.memory == "INP"


def test_an_order_that_is_none() -> None:
    with pytest.raises(SimulationError, match="is not one of program, load-first, store-first"):
        Simulator(CONFIG, order="backwards")
