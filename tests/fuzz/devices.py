# SPDX-License-Identifier: Apache-2.0
"""Mutated descriptions of devices: each is a device, or refused in one line.

In:   the built-in devices' JSON, a number of seconds.
Out:  how many were accepted and refused; a line for each that ended otherwise.
Next: `python -m tests.fuzz devices`.
"""

from __future__ import annotations

import copy
import json
import time
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import device_names, load_config

__all__ = ["fuzz"]

_STRANGE: list[Any] = [
    None, True, -1, 0, 1, 31, 32, 33, 64, 1 << 31, 1 << 63, 10**400, 0.5, -0.0, 1e308,
    "", "x" * 1000, "\0", "\ud800", "vta-rtl", "vtaq",
    [], [[]], ["RQ"], [1], {}, {"base": "vta-rtl"}, {"base": {}},
]  # fmt: skip


#: So many at least, however slow the machine is.
LEAST = 50


def fuzz(seconds: float, folder: Path, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Verdicts, and what was wrong."""
    rng = np.random.default_rng(seed)
    texts = [
        resources.files("loadstone.vta.devices").joinpath(f"{name}.json").read_text("utf-8")
        for name in device_names()
    ]
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    end = time.monotonic() + seconds
    path = folder / "device.json"
    while time.monotonic() < end or sum(counts.values()) < LEAST:
        data = json.loads(texts[rng.integers(len(texts))])
        for _ in range(rng.integers(1, 4)):
            _mutate(data, rng)
        text = json.dumps(data)
        if rng.integers(8) == 0:
            text = text[: rng.integers(len(text))]
        path.write_text(text, encoding="utf-8")
        try:
            load_config(path).fingerprint()
            counts["accepted"] += 1
        except LoadstoneError as error:
            counts["refused"] += 1
            if "\n" in str(error) or len(str(error)) > 400:
                wrong.append(f"{text}: a refusal of more than a line: {error!r}")
        except Exception as error:  # the very thing that is looked for
            counts["traceback"] += 1
            wrong.append(f"{text}: {type(error).__name__}: {error}")
    return counts, wrong


def _mutate(data: dict[str, Any], rng: np.random.Generator) -> None:
    key = str(rng.choice(sorted(data)))
    kind = rng.integers(4)
    if kind == 0:
        del data[key]
    elif kind == 1:
        data[key + "x"] = copy.deepcopy(data[key])
    elif kind == 2 and isinstance(data[key], int):
        data[key] += int(rng.integers(-40, 41))
    else:
        data[key] = copy.deepcopy(_STRANGE[rng.integers(len(_STRANGE))])
    if not data:
        data["name"] = "empty"
