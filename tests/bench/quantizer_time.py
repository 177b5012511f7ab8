# SPDX-License-Identifier: Apache-2.0
"""What `loadstone quantize` takes: seconds of whole commands, imports included.

In:   the float networks of ../shared/models (skipped without them); YOLOv8n, built in large.py.
Out:  seconds of each beside its target, and peak memory.
Next: a person compares them with docs/performance.md.

Samples are random: what they hold changes neither how often the network runs nor what is counted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.large import yolov8n
from tests.conftest import SHARED

__all__ = ["run"]

#: Network, shape of a sample, samples, seconds to be met.
NETWORKS = (
    ("mlpt_resnet8_f32.tflite", (1, 32, 32, 3), 100, 8),
    ("mlpt_vww_f32.tflite", (1, 96, 96, 3), 100, 8),
    ("mlpt_ad_f32.tflite", (1, 640), 100, 8),
    ("squeezenet_f32.onnx", (1, 3, 224, 224), 64, 8),
)
#: It is compiled as well.
TRANSFORMER = ("arm_kwt1_f32.tflite", (1, 16000), 20, 8)
LARGE = ("yolov8n.onnx", (1, 3, 640, 640), 4, 25)


def run() -> bool:
    """Prints the table; False where a target is missed."""
    held = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (SHARED / "models").is_dir():
            for row in NETWORKS:
                held &= _measured(folder, SHARED / "models" / row[0], ["quantize"], *row[1:])
            words = ["compile", "--target", "vtaq-1x16x16"]
            path = SHARED / "models" / TRANSFORMER[0]
            held &= _measured(folder, path, words, *TRANSFORMER[1:])
        path = folder / LARGE[0]
        path.write_bytes(yolov8n())
        return _measured(folder, path, ["quantize"], *LARGE[1:]) and held


def _measured(
    folder: Path, model: Path, words: list[str], shape: tuple[int, ...], samples: int, most: float
) -> bool:
    data = folder / "samples.npz"
    drawn = np.random.default_rng(0).normal(0, 1, (samples, *shape)).astype(np.float32)
    np.savez(data, in0=drawn)
    command = [sys.executable, "-m", "loadstone", *words, str(model), "--data", str(data)]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "-o", str(folder / "out")], capture_output=True, check=True)
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{words[0]:<9} {model.name:<26} {samples:>3} samples {seconds:>6.2f} s (target {most}), "
        f"{processor:.2f} s of processors, {after.ru_maxrss / 1024:.0f} MiB at most so far",
        flush=True,
    )
    return seconds <= most
