"""Eager partition and partition by cost, on every network of ../shared/models that compiles, for VTA-Q and for a composite.

Columns: microseconds of one run, by the simulator (or the back end's own model) plus the measured time of the host's steps; eager / cost;
operators that run elsewhere than in the eager partition; whether the search was exact; seconds of the whole compilation by cost.
The host's times are measured anew, not taken from what the choice was made by.

LOADSTONE_BENCH_NETWORKS=tiny takes the five of MLPerf Tiny only. A network for which the cost partition is slower is a failure.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from loadstone.choice import Realised, plan_ns
from loadstone.compiler import Compiled, compile
from loadstone.costs import CostTable
from loadstone.errors import LoadstoneError
from loadstone.plugins import load_plugins
from loadstone.target import resolve

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("vtaq-1x16x16", "my-accel,vtaq-1x16x16")
TINY = tuple(f"mlpt_{name}_int8.tflite" for name in ("ad", "kws", "resnet8", "strww", "vww"))


def run() -> bool:
    """Prints the table; False when a network is slower by cost."""
    models = Path(os.environ.get("LOADSTONE_SHARED", ROOT.parent / "shared")) / "models"
    if not models.is_dir():
        print(f"skipped: {models} is absent")
        return True
    names = sorted(path.name for path in models.iterdir() if path.suffix in (".tflite", ".onnx"))
    names = [name for name in names if name in TINY] if os.environ.get("LOADSTONE_BENCH_NETWORKS") == "tiny" else names
    held = True
    for target in TARGETS:
        print(f"{target:<36} {'eager us':>12} {'cost us':>12} {'gain':>6} {'moved':>5} {'exact':>5} {'compile s':>9}", flush=True)
        for name in names:
            held &= _row(models / name, target)
    return held


def _row(model: Path, target: str) -> bool:
    plugins = load_plugins([ROOT / "docs/examples/c_library"])
    try:
        eager = compile(model, target, plugins=plugins)
    except LoadstoneError as error:
        print(f"{model.name:<36} does not compile: {str(error)[:90]}", flush=True)
        return True
    start = time.perf_counter()
    by_cost = compile(model, target, plugins=plugins, strategy="cost")
    seconds = time.perf_counter() - start
    assert by_cost.choice is not None
    table = CostTable(eager.device)
    eager_ns, cost_ns = (_ns(compiled, target, table) for compiled in (eager, by_cost))
    moved = len(_places(by_cost) ^ _places(eager)) // 2
    print(
        f"{model.name:<36} {eager_ns / 1000:>12.1f} {cost_ns / 1000:>12.1f} {eager_ns / max(cost_ns, 1):>6.3f} {moved:>5} "
        f"{'yes' if by_cost.choice.exact else 'no':>5} {seconds:>9.1f}{'  SLOWER' if cost_ns > eager_ns else ''}",
        flush=True,
    )
    return cost_ns <= eager_ns


def _ns(compiled: Compiled, target: str, table: CostTable) -> int:
    backends = resolve(target, load_plugins([ROOT / "docs/examples/c_library"])).backends
    divided = compiled.partition
    return plan_ns(Realised(divided, compiled.graph, divided.segments, (), compiled.deployment), backends, table)


def _places(compiled: Compiled) -> set[tuple[str, str, str]]:
    return {(p.operator.name, p.operator.kind, p.backend) for p in compiled.partition.placements}
