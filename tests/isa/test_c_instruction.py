# SPDX-License-Identifier: Apache-2.0
"""isa/c_instruction.py: instructions in C do what those in Python do, registers and all."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from loadstone.isa.machine import TableMachine
from loadstone.isa.state import Dram, MachineFault
from loadstone.isa.text import disassemble
from tests.isa import registered
from tests.isa.registered import dram_of, run
from tests.repeat import times

TABLE = registered.table()


def test_meanings_in_c_do_the_same_in_the_same_time(tmp_path: Path) -> None:
    """Whole programs in C: memory, cycles, what units did, and what is refused."""
    in_python = TableMachine(registered.device(), Dram([]))
    in_c = TableMachine(registered.device(in_c=tmp_path), Dram([]))
    rng = np.random.default_rng(21)
    for seed in range(times(40, 400)):
        insns = registered.random_program(seed, 30)
        for program in (insns, registered.changed(insns, rng)):
            results = []
            for machine in (in_python, in_c):
                machine.state.memory["pad"][:] = 0
                try:
                    result: object = run(program, machine)
                except MachineFault as fault:
                    result = str(fault), fault.instruction, fault.error
                results.append((result, dram_of(machine), machine.state.memory["pad"].tobytes()))
            assert results[0] == results[1], disassemble(TABLE, program)
