# SPDX-License-Identifier: Apache-2.0
"""A sweep: the same table whoever works and whatever happens, each unit done once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (the extra `search`)")


from loadstone.compiler import compile
from loadstone.errors import ConfigError
from loadstone.search.assumptions import Assumptions
from loadstone.search.evaluate import SweptNetwork
from loadstone.search.space import Space, SpaceAxis
from loadstone.search.store import ResultStore
from loadstone.search.sweep import BEST, Sweep, SweepPlan, edges, run_sweep
from loadstone.search.table import parquet_bytes, table_rows
from loadstone.search.workers import Pool, open_pool
from loadstone.simulator.programs import program_cycles
from tests.repeat import more
from tests.search.small_network import small_network

NETWORK = SweptNetwork("small", ".onnx", small_network())
SPACE = Space(
    (
        SpaceAxis("base", "base", ("vtaq-1x8x8", "vtab-1x8x8")),
        SpaceAxis("device", "bus_bits", (64, 100)),
        SpaceAxis("device", "clock_mhz", (100, 200)),
    )
)


class Backwards:
    """Does the last unit first; stops after so many, as a process that is killed."""

    def __init__(self, most: int = 1000) -> None:
        self.most = most

    def map(
        self,
        function: Callable[..., Any],
        units: Sequence[Any],
        on_result: Callable[[int, Any], None] | None = None,
        shared: Sequence[Any] = (),
    ) -> list[Any]:
        results = {}
        for done, index in enumerate(reversed(range(len(units)))):
            if done == self.most:
                raise KeyboardInterrupt
            results[index] = function(units[index], *shared)
            if on_result is not None:
                on_result(index, results[index])
        return [results[index] for index in range(len(units))]


def swept(pool: Pool, store: ResultStore, space: Space = SPACE) -> Sweep:
    return run_sweep(space, [NETWORK], SweepPlan(), pool, store)


@pytest.fixture(scope="module")
def known() -> ResultStore:
    return ResultStore(None)


@pytest.fixture(scope="module")
def sweep(known: ResultStore) -> Sweep:
    with open_pool(1) as pool:
        return swept(pool, known)


def test_an_executor_gives_the_same_table(sweep: Sweep) -> None:
    with ThreadPoolExecutor(1) as executor, open_pool(executor) as pool, ResultStore(None) as store:
        assert parquet_bytes(swept(pool, store)) == parquet_bytes(sweep)


def test_a_row_is_what_compile_and_simulate_give(sweep: Sweep, tmp_path: Path) -> None:
    (tmp_path / "small.onnx").write_bytes(NETWORK.content)
    compiled = compile(tmp_path / "small.onnx", "vtaq-1x8x8")
    cycles = sum(program_cycles(compiled.artifact, compiled.device))
    rows = table_rows(sweep)
    (slow, fast) = (row for row in rows if row["feasible"])
    assert (slow["clock_mhz"], fast["clock_mhz"]) == (100, 200)
    for row in (slow, fast):
        assert row["cycles"] == cycles == sum(layer[1] for layer in sweep_layers(sweep))
        assert row["us"] == cycles / row["clock_mhz"]
        macs = 2 * 16 * 16 * 9 * 20 * 20
        assert row["macs"] == macs
        assert row["utilisation"] == pytest.approx(macs / (64 * cycles))
    assert 0 < slow["energy_uj"] < fast["energy_uj"] < 1.1 * slow["energy_uj"]
    assert slow["area_mm2"] < fast["area_mm2"]  # gates are larger near the limit
    assert slow["clock_limit_mhz"] == fast["clock_limit_mhz"] > 200


def sweep_layers(sweep: Sweep) -> list[Any]:
    found = next(c for c in sweep.candidates if c.feasible).rows[0]["layers"]
    assert isinstance(found, list)
    return found


def test_what_cannot_be_says_why(sweep: Sweep) -> None:
    for row in table_rows(sweep):
        if row["bus_bits"] == 100:
            assert not row["feasible"]
            assert "bus_bits=100 is not one of 32, 64" in row["why"]
        elif row["base"] == "vtab-1x8x8":  # bfloat16, and the network is of integers
            assert not row["feasible"]
            assert "2 operator(s) that multiply stay on the host" in row["why"]
        else:
            assert (row["feasible"], row["why"]) == (True, "")


def test_the_order_of_work_does_not_show(sweep: Sweep, known: ResultStore) -> None:
    """Units without their clock: four of eight devices are done, the others are equal."""
    assert sweep.computed == 4
    wanted = parquet_bytes(sweep)
    again = swept(Backwards(0), known)
    assert (again.computed, parquet_bytes(again)) == (0, wanted)
    with ResultStore(None) as store:
        with pytest.raises(KeyboardInterrupt):
            swept(Backwards(3), store)
        rest = swept(Backwards(), store)
        assert (rest.computed, parquet_bytes(rest)) == (1, wanted)


def test_other_assumptions_compile_nothing(sweep: Sweep, known: ResultStore) -> None:
    cheap = replace(SPACE, assumptions=Assumptions(dram_pj_per_byte=0.0))
    other = swept(Backwards(0), known, cheap)
    for one, two in zip(table_rows(sweep), table_rows(other), strict=True):
        if one["feasible"]:
            assert two["energy_uj"] == pytest.approx(one["energy_uj"] - one["energy_dram_uj"])


def test_the_front_is_what_nothing_beats(sweep: Sweep) -> None:
    slow, fast = sweep.front()
    assert (slow.settings["clock_mhz"], fast.settings["clock_mhz"]) == (100, 200)
    assert all(sweep.best(by).feasible for by in BEST)
    assert (sweep.best("time"), sweep.best("energy")) == (fast, slow)
    assert edges(sweep.space, fast) == [
        "bus_bits=64 is the least of its range: a better one may lie beyond",
        "clock_mhz=200 is the largest of its range: a better one may lie beyond",
    ]
    able = [c for c in sweep.candidates if not c.feasible]
    with pytest.raises(ConfigError, match="no device of the space runs all networks: "):
        replace(sweep, candidates=tuple(able)).best("time")


def at_work(cluster: Any) -> list[int]:
    """Ids of the processes that compute at the moment."""
    busy = {state.name for state in cluster.scheduler.workers.values() if state.processing}
    return [keeper.pid for name, keeper in cluster.workers.items() if name in busy and keeper.pid]


@more
def test_workers_are_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    """Four processes are killed, each in the middle of a unit."""
    space = Space(
        (
            SpaceAxis("base", "base", ("vtaq-1x8x8", "vtaq-1x16x16")),
            SpaceAxis("device", "bus_bits", (64, 128)),
            SpaceAxis("device", "LOG_WGT_BUFF_SIZE", (14, 15, 16, 17, 18)),
        )
    )
    with open_pool(1) as here, ResultStore(None) as store:
        wanted = parquet_bytes(swept(here, store, space))
    killed = 0
    rng = random.Random(0)
    with open_pool(2) as pool, ResultStore(tmp_path / "r.sqlite") as store:
        put = store.put

        def put_and_kill(key: str, value: dict[str, Any]) -> None:
            nonlocal killed
            put(key, value)
            working = at_work(pool.cluster)  # type: ignore[attr-defined]
            if killed < 4 and rng.random() < 0.5 and working:
                os.kill(rng.choice(working), signal.SIGKILL)
                killed += 1

        store.put = put_and_kill  # type: ignore[method-assign]
        found = swept(pool, store, space)
    assert killed >= 4
    assert parquet_bytes(found) == wanted
