# SPDX-License-Identifier: Apache-2.0
"""One network on several equal devices: cycles beside those of one, on a bus each and on one bus.

In:   ResNet8 and MobileNetV2 of ../shared/models with LiteRT's outputs; a language model in
      build/language, or what LOADSTONE_GGUF names.
Out:  a line for each number of devices; False where the speed over one is less than it was, or an
      element is not LiteRT's.
Next: docs/many-devices.md has the figures.

Cycles are those of the simulator, from the start of the first program to the end of the last, of
programs side by side the longest; the host takes no time. Of a language model they are those of a
chunk of 16 tokens of the prompt.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.compiler import compile as compile_model
from loadstone.runtime import device
from loadstone.simulator.programs import elapsed_cycles, program_runs
from loadstone.vta.device.hw_config import load_config
from tests.bench.language import model

_DEVICE = "vtaq-1x16x16"
_WAYS = (("private", 2), ("private", 4), ("shared", 2), ("shared", 4))
#: The least speed over one device, by _WAYS.
NETWORKS = {
    "mlpt_resnet8_int8.tflite": (1.69, 2.80, 1.36, 1.39),
    "coral_tf2_mnv2_1.0_224_ptq.tflite": (1.89, 3.5, 1.39, 1.5),
}
_LANGUAGE = (1.9, 3.5, 0.95, 0.95)


def run() -> bool:
    """Prints; whether the limits hold."""
    shared = Path(
        os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    )
    held = True
    for name, least in NETWORKS.items():
        path = shared / "models" / name
        if path.is_file():
            golden = shared / "models" / "golden" / f"{name}.npz"
            held &= all(_measured(path, least, golden))
        else:
            print(f"skipped: {path} is absent")
    text = model()
    return held if text is None else held and all(_measured(text, _LANGUAGE, None))


def _measured(path: Path, least: tuple[float, ...], golden: Path | None) -> Iterator[bool]:
    """golden: inputs and outputs of the network; None: a language model's chunk is measured."""
    one, _ = _cycles(path, _DEVICE)
    print(f"{path.stem}: one {_DEVICE} {one:,} cycles", flush=True)
    for (bus, count), limit in zip(_WAYS, least, strict=True):
        cycles, artifact = _cycles(path, f"{_DEVICE} -count={count} -bus={bus}")
        speed = one / cycles
        wrong = 0 if golden is None else _unequal(artifact, golden)
        print(
            f"{path.stem}: {count}, bus {bus}: {cycles:,} cycles, {speed:.2f} times as fast "
            f"(at least {limit}), {wrong} elements unequal",
            flush=True,
        )
        yield speed >= limit and wrong == 0


def _cycles(path: Path, target: str) -> tuple[int, Artifact]:
    artifact = compile_model(path, target).artifact
    names = artifact.entry_names
    measured = artifact.only(names.index("chunk")) if "chunk" in names else artifact
    runs = program_runs(measured, load_config(_DEVICE))
    return elapsed_cycles(measured, runs), artifact


def _unequal(artifact: Artifact, golden: Path) -> int:
    """Elements of the outputs that are not those of the file."""
    with np.load(golden) as arrays:
        inputs, wanted = arrays["in0"], arrays["out0"]
    with device.open("sim") as opened, opened.load(artifact) as session:
        (got,) = session.run([inputs])
    return int(np.count_nonzero(got != wanted))
