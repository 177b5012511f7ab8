# SPDX-License-Identifier: Apache-2.0
"""Int8 networks on `vta-pynq`, VTA as it is: the share of multiply-accumulates on the device,
cycles, elements that differ, what stays on the host and why; compile time beside that for VTA-Q;
instructions of a network with long rows.

The networks are those of ../shared/models; without that folder there is nothing to measure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests import networks_on_vta as nv

#: Networks whose compile time is compared, and how much longer one for VTA may take.
COMPILED = tuple(file for file in nv.NETWORKS if file.startswith("mlpt"))
MOST_TIMES = 2.0
#: DeepLab, whose images are 513 pixels wide: instructions before 6d16ba63, most instructions, most
#: seconds of a compile.
LONG_ROWS = ("coral_deeplab_mnv2_dm05.tflite", 3_608_313, 360_000, 10.0)
_WITH_RQ = "vtaq-1x16x16"


def run() -> bool:
    """Prints both tables; False when a network misses what it must reach."""
    shared = Path(
        os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    )
    if not (shared / "models").is_dir():
        print(f"skipped: {shared / 'models'} is absent")
        return True
    print(nv.HEAD)
    held = True
    for file in nv.NETWORKS:
        row = nv.measure(shared, file)
        print(nv.line(row), *(f"    missed: {miss}" for miss in row.misses()), sep="\n", flush=True)
        held &= not row.misses()
    print(f"\n{'seconds of compile':<36} {nv.DEVICE:>9} {_WITH_RQ:>13} {'times':>6}")
    for file in COMPILED:
        own, other = (
            _seconds(shared / "models" / file, device) for device in (nv.DEVICE, _WITH_RQ)
        )
        print(f"{file:<36} {own:>9.2f} {other:>13.2f} {own / other:>6.2f}", flush=True)
        held &= own <= MOST_TIMES * other
    return _long_rows(shared / "models" / LONG_ROWS[0]) and held


def _long_rows(model: Path) -> bool:
    """Instructions and seconds of a network whose rows have a prime number of pixels."""
    from loadstone.compiler import compile as compile_model

    begin = time.process_time()
    artifact = compile_model(model, nv.DEVICE).artifact
    seconds = time.process_time() - begin
    count = sum(len(program.instructions) // 16 for program in artifact.programs)
    _, before, most, most_seconds = LONG_ROWS
    print(
        f"{model.name}: {count} instructions (before {before}, at most {most}), "
        f"{seconds:.1f} s (at most {most_seconds})",
        flush=True,
    )
    return count <= most and seconds <= most_seconds


def _seconds(model: Path, device: str) -> float:
    """User time of a compile in a process of its own, without `import tvm`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.vta", str(model), device],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout))


def _measured(model: str, device: str) -> float:
    from resource import RUSAGE_SELF, getrusage

    import loadstone.relax.compat  # noqa: F401 (what takes long to import)
    from loadstone.compiler import compile as compile_model

    before = getrusage(RUSAGE_SELF).ru_utime
    compile_model(model, device)
    return getrusage(RUSAGE_SELF).ru_utime - before


if __name__ == "__main__":
    print(json.dumps(_measured(*sys.argv[1:])))
