# SPDX-License-Identifier: Apache-2.0
"""tools/lab/page_data.py: the page gets every exercise and device, and no solution."""

from __future__ import annotations

import json
from base64 import b64decode

from loadstone.vta.device.device_file import device_names
from loadstone.vta.device.hw_config import load_config
from tests.lab.conftest import SOLUTIONS
from tools.lab.exercises import EXERCISES
from tools.lab.page_data import devices, exercises


def test_every_device_comes_with_its_configuration_and_timing() -> None:
    given = json.loads(json.dumps(devices()))
    assert sorted(given) == device_names()
    for name, one in given.items():
        config = load_config(name)
        assert b64decode(one["config"]) == config.configuration()
        assert one["busBits"] == config.bus_bits
        assert one["timing"]["read_latency_cycles"] == config.timing["read_latency_cycles"].value


def test_every_exercise_comes_with_two_cases_and_no_solution() -> None:
    text = json.dumps(exercises())
    given = json.loads(text)["exercises"]
    assert [one["name"] for one in given] == [exercise.name for exercise in EXERCISES]
    for one, exercise in zip(given, EXERCISES, strict=True):
        for seed, case in enumerate(one["cases"]):
            assert b64decode(case["output"]) == exercise.case(seed).output
            assert [b64decode(r) for r in case["regions"]] == list(exercise.case(seed).regions)
        assert [region["kind"] for region in one["regions"]] == [0, 0, 0, 2, 3]
    assert all(json.dumps(solution)[1:-1] not in text for solution in SOLUTIONS.values())
