# SPDX-License-Identifier: Apache-2.0
"""What the lab's page reads: exercises with their data and results, and the built-in devices.

In:   exercises.py; vta/devices/.
Out:  `exercises`, `devices`: what is written as exercises.json and devices.json.
Next: __main__.py writes them; lab/page/bench.mjs and lab/page/artifact.mjs read them.
"""

from __future__ import annotations

from base64 import b64encode

from loadstone.vta.device.device_file import device_names
from loadstone.vta.device.hw_config import HwConfig, load_config
from tools.lab.exercises import DEVICE, EXERCISES, OUTPUT, TILES, Exercise

__all__ = ["devices", "exercises"]

#: Kinds of regions (runtime/FORMAT.md), by number: constants but for input and output.
_KINDS = (0, 0, 0, 2, 3)
_TITLES = ("micro-ops", "weights", "operands", "input", "output")
#: Two draws: a program that was made for the bytes of one does not solve the other.
_SEEDS = (0, 1)


def exercises() -> dict[str, object]:
    """The device, and each exercise with two cases."""
    return {"device": _device(DEVICE), "exercises": [_exercise(e) for e in EXERCISES]}


def devices() -> dict[str, object]:
    """Name -> configuration, bus and timing."""
    return {name: _device(load_config(name)) for name in device_names()}


def _device(config: HwConfig) -> dict[str, object]:
    return {
        "name": config.name,
        "config": _text(config.configuration()),
        "busBits": config.bus_bits,
        "timing": {name: constant.value for name, constant in config.timing.items()},
    }


def _exercise(exercise: Exercise) -> dict[str, object]:
    cases = [exercise.case(seed) for seed in _SEEDS]
    return {
        "name": exercise.name,
        "title": exercise.title,
        "text": exercise.text,
        "start": exercise.start,
        "cycles": exercise.cycles,
        "output": OUTPUT,
        "regions": [
            {"title": title, "kind": kind, "memory": int(memory)}
            for title, kind, memory in zip(_TITLES, _KINDS, TILES, strict=True)
        ],
        "cases": [
            {"regions": [_text(r) for r in case.regions], "output": _text(case.output)}
            for case in cases
        ],
    }


def _text(data: bytes) -> str:
    return b64encode(data).decode()
