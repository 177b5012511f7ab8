# SPDX-License-Identifier: Apache-2.0
"""Eager partition and partition by cost, on every network of ../shared/models that compiles, for
two sizes of VTA-Q and a composite.

Columns: microseconds of one run, by the simulator (or the back end's own model) plus the measured
time of the host's steps; eager / cost;
operators that run elsewhere than in the eager partition; whether the search was exact; seconds of
the whole compilation by cost.
The host's times are measured anew, not taken from what the choice was made by, on one thread: two
on a busy machine wait for each other.

LOADSTONE_BENCH_NETWORKS=tiny takes the five of MLPerf Tiny only. A network for which the cost
partition is slower is a failure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("vtaq-1x16x16", "vtaq-tiny", "my-accel,vtaq-1x16x16")
TINY = tuple(f"mlpt_{name}_int8.tflite" for name in ("ad", "kws", "resnet8", "strww", "vww"))
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"), "1"
)
#: Measurements of plans that differ: the least counts.
TIMES = 3


def run() -> bool:
    """Prints the table; False when a network is slower by cost."""
    models = Path(os.environ.get("LOADSTONE_SHARED", ROOT.parent / "shared")) / "models"
    if not models.is_dir():
        print(f"skipped: {models} is absent")
        return True
    names = sorted(path.name for path in models.iterdir() if path.suffix in (".tflite", ".onnx"))
    names = (
        [name for name in names if name in TINY]
        if os.environ.get("LOADSTONE_BENCH_NETWORKS") == "tiny"
        else names
    )
    held = True
    for target in TARGETS:
        print(
            f"{target:<36} {'eager us':>12} {'cost us':>12} {'gain':>6} {'moved':>5} "
            f"{'exact':>5} {'compile s':>9}",
            flush=True,
        )
        for name in names:
            held &= _row(models / name, target)
    return held


def _row(model: Path, target: str) -> bool:
    words = [sys.executable, __file__, str(model), target]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **ONE_THREAD}
    )
    if done.returncode:
        print(f"{model.name:<36} {done.stderr.strip().splitlines()[-1][:120]}", flush=True)
        return False
    row = json.loads(done.stdout)
    if "refused" in row:
        print(f"{model.name:<36} does not compile: {row['refused'][:90]}", flush=True)
        return True
    eager_ns, cost_ns = row["eager_ns"], row["cost_ns"]
    print(
        f"{model.name:<36} {eager_ns / 1000:>12.1f} {cost_ns / 1000:>12.1f} "
        f"{eager_ns / max(cost_ns, 1):>6.3f} {row['moved']:>5} "
        f"{'yes' if row['exact'] else 'no':>5} "
        f"{row['seconds']:>9.1f}{'  SLOWER' if cost_ns > eager_ns else ''}",
        flush=True,
    )
    return bool(cost_ns <= eager_ns)


def measure(model: str, target: str) -> dict[str, Any]:
    """One network, in this process."""
    from loadstone.backend.plugins import load_plugins
    from loadstone.backend.target import resolve
    from loadstone.compiler import Compiled, compile
    from loadstone.errors import LoadstoneError
    from loadstone.partition.cost.prices import CostTable
    from loadstone.partition.cost.pricing import Pricing
    from loadstone.partition.lowering import LoweredPartition

    plugins = load_plugins([ROOT / "docs/examples/c_library"])
    backends = resolve(target, plugins).backends
    try:
        eager = compile(model, target, plugins=plugins)
    except LoadstoneError as error:
        return {"refused": str(error)}
    start = time.perf_counter()
    by_cost = compile(model, target, plugins=plugins, strategy="cost")
    seconds = time.perf_counter() - start
    assert by_cost.choice is not None

    def places(compiled: Compiled) -> set[tuple[str, str, str]]:
        return {
            (p.operator.name, p.operator.kind, p.backend) for p in compiled.partition.assignments
        }

    def ns(compiled: Compiled, table: CostTable) -> int:
        divided = compiled.partition
        return Pricing(backends, table).plan_ns(
            LoweredPartition(divided, compiled.graph, divided.segments, (), compiled.deployment)
        )

    moved = len(places(by_cost) ^ places(eager)) // 2
    tables = [CostTable(eager.device) for _ in range(TIMES if moved else 1)]
    both = [min(ns(compiled, table) for table in tables) for compiled in (eager, by_cost)]
    return {
        "eager_ns": both[0],
        "cost_ns": both[1],
        "moved": moved,
        "exact": by_cost.choice.exact,
        "seconds": seconds,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
