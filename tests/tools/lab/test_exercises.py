# SPDX-License-Identifier: Apache-2.0
"""tools/lab/exercises.py: each exercise can be solved, by the definition of the instructions and by
the simulator, and what the visitor begins with solves none."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.errors import SimulationError
from loadstone.vta.isa.asm import assemble
from loadstone.vta.meaning.reference import DramBytes, Machine
from loadstone.vta.simulator.result import Result
from loadstone.vta.simulator.sim import ORDERS, Simulator
from tests.lab.conftest import SOLUTIONS
from tools.lab.exercises import DEVICE, EXERCISES, OUTPUT, Case, Exercise

each = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
_BUS, _ALIGN = 0x10000000, 64


def defined(case: Case, text: str) -> bytes:
    """The output by the definition in NumPy, where instructions run one after the other."""
    arrays = [np.frombuffer(region, np.uint8).copy() for region in case.regions]
    Machine(DEVICE, [DramBytes(array) for array in arrays]).run(assemble(text, DEVICE))
    return arrays[OUTPUT].tobytes()


def simulated(case: Case, text: str, order: str = "program") -> tuple[bytes, Result]:
    """The output and the run of the simulator."""
    simulator = Simulator(DEVICE, races=True, uninitialised=True, order=order)
    arrays, bus = [np.frombuffer(region, np.uint8).copy() for region in case.regions], _BUS
    for number, array in enumerate(arrays):
        if array.size:
            simulator.map(bus, array)
            simulator.set_region(number, bus, array.size)
        bus += -(-array.size // _ALIGN) * _ALIGN
    result = simulator.run(assemble(text, DEVICE), address=bus, check=False)
    return arrays[OUTPUT].tobytes(), result


def test_there_is_a_solution_for_each() -> None:
    assert list(SOLUTIONS) == [exercise.name for exercise in EXERCISES]


@each
@pytest.mark.parametrize("seed", range(3))
def test_the_solution_is_right(exercise: Exercise, seed: int) -> None:
    case, text = exercise.case(seed), SOLUTIONS[exercise.name]
    assert len(set(case.output)) > 3
    assert defined(case, text) == case.output
    for order in ORDERS:
        output, result = simulated(case, text, order)
        assert (output, result.status, result.findings) == (case.output, "NONE", 0)
        assert result.cycles <= exercise.cycles or exercise.cycles == 0


@each
def test_what_the_visitor_begins_with_is_no_solution(exercise: Exercise) -> None:
    case = exercise.case(0)
    output, result = simulated(case, exercise.start)
    right = output == case.output and result.status == "NONE" and result.findings == 0
    if exercise.name == "convolution":  # right, and slow
        assert right
        assert result.cycles > exercise.cycles > simulated(case, SOLUTIONS["convolution"])[1].cycles
    else:
        assert not right


def test_the_race_is_right_by_luck() -> None:
    exercise = next(exercise for exercise in EXERCISES if exercise.name == "race")
    case = exercise.case(0)
    output, result = simulated(case, exercise.start)
    assert (output, result.findings) == (case.output, 1)
    assert simulated(case, exercise.start, "load-first")[0] != case.output


def test_a_program_for_the_bytes_of_one_case_does_not_solve_the_other() -> None:
    for exercise in EXERCISES:
        assert exercise.case(0).output != exercise.case(1).output


def test_a_wrong_program_is_found_by_the_definition() -> None:
    case, text = EXERCISES[1].case(0), SOLUTIONS["add"]
    assert defined(case, text.replace("min= 127", "min= 126")) != case.output
    with pytest.raises(SimulationError, match="no FINISH"):
        defined(case, text.replace("pop(store) finish", ""))
