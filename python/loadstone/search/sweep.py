# SPDX-License-Identifier: Apache-2.0
"""A sweep: devices of a space times networks times options, each unit computed once.

In:   a Space, networks, workers, a store of known results.
Out:  Sweep: a row for each device and network, a line for each device, its Pareto front.
Next: table.py writes Parquet, sweep_page.py a page; commands/sweep.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue
from loadstone.search.assumptions import (
    Counts,
    area_mm2,
    clock_limit_mhz,
    energy_uj,
)
from loadstone.search.evaluate import SweptNetwork, Unit, code_digest, evaluate, is_result
from loadstone.search.plugin_device import (
    accelerator_of,
    is_plugin,
    plugin_area_mm2,
    plugin_energy_uj,
    plugin_limit_mhz,
    plugin_sources,
)
from loadstone.search.sampling import OBJECTIVES, batches
from loadstone.search.space import Point, Space
from loadstone.search.store import ResultStore, key_of
from loadstone.search.workers import Pool
from loadstone.vta.device.hw_config import load_config

__all__ = ["BEST", "Sweep", "SweepPlan", "SweptDevice", "edges", "run_sweep"]

#: What `--best` may name -> what is made small, of all networks together.
BEST = {
    "time": "microseconds a sample, the networks one after the other",
    "energy": "microjoules a sample, by the stated model",
    "area": "square millimetres, by the stated model",
    "edp": "energy times time",
}
#: Keys of a device's file on which cycles do not depend: devices that differ there are one unit.
_FREE = ("description", "registers", "register_base", "bus_offset", "clock_mhz")


@dataclass(frozen=True)
class SweepPlan:
    """Which points. points: at most so many, unless search is grid."""

    search: str = "grid"
    points: int = 100
    seed: int = 0


@dataclass(frozen=True, eq=False)
class SweptDevice:
    """A device with options, and its rows in the networks' order. us, energy_uj: of a sample of
    each network, one after the other."""

    point: Point
    device: JsonObject
    settings: Mapping[str, JsonValue]
    rows: tuple[JsonObject, ...]

    @property
    def name(self) -> str:
        """The device's."""
        return str(self.device["name"])

    @property
    def feasible(self) -> bool:
        """Whether it runs every network."""
        return all(row["feasible"] for row in self.rows)

    @property
    def us(self) -> float:
        """Time."""
        return sum(float(row["us"]) for row in self.rows)

    @property
    def energy_uj(self) -> float:
        """Energy."""
        return sum(float(row["energy_uj"]) for row in self.rows)

    @property
    def area_mm2(self) -> float:
        """Area, the same for every network."""
        return float(self.rows[0]["area_mm2"])

    @property
    def objectives(self) -> tuple[float, ...] | None:
        """OBJECTIVES; None where a network cannot be run."""
        return tuple(getattr(self, name) for name in OBJECTIVES) if self.feasible else None


@dataclass(frozen=True, eq=False)
class Sweep:
    """candidates: in the space's order. computed: units that were done now, the others were
    known."""

    space: Space
    networks: tuple[str, ...]
    candidates: tuple[SweptDevice, ...]
    computed: int

    def front(self) -> list[SweptDevice]:
        """Those that no other one beats: not worse in any objective, and better in one."""
        found = []
        for one in self.candidates:
            mine = one.objectives
            if mine is not None and not any(
                _beats(other.objectives, mine) for other in self.candidates
            ):
                found.append(one)
        return found

    def best(self, by: str) -> SweptDevice:
        """By a key of BEST; the first of equal ones. Raises ConfigError where no device can run
        the networks."""
        measures = {
            "time": lambda c: c.us,
            "energy": lambda c: c.energy_uj,
            "area": lambda c: c.area_mm2,
            "edp": lambda c: c.us * c.energy_uj,
        }
        able = [candidate for candidate in self.candidates if candidate.feasible]
        if not able:
            why = next(row["why"] for c in self.candidates for row in c.rows if row["why"])
            raise ConfigError(f"--best {by}: no device of the space runs all networks: {why}")
        return min(able, key=measures[by])


def edges(space: Space, device: SweptDevice) -> list[str]:
    """Of each number that varies and has its least or largest value there: a line, since a better
    one may lie beyond the range."""
    found = []
    for axis in space.axes:
        numbers = [v for v in axis.values if isinstance(v, int | float)]
        if len(numbers) < 2 or len(numbers) < len(axis.values):
            continue
        value = device.settings[axis.name]
        ends = {"least": min(numbers), "largest": max(numbers)}
        which = next((name for name, end in ends.items() if value == end), None)
        if which is not None:
            found.append(
                f"{axis.name}={value} is the {which} of its range: a better one may lie beyond"
            )
    return found


def _beats(other: tuple[float, ...] | None, mine: tuple[float, ...]) -> bool:
    return other is not None and other != mine and all(map(float.__le__, other, mine))


def run_sweep(
    space: Space, networks: Sequence[SweptNetwork], plan: SweepPlan, pool: Pool, store: ResultStore
) -> Sweep:
    """Does what is not in the store. Raises ConfigError for a plan that cannot be."""
    runner = _Runner(space, networks, pool, store)
    batches(space, plan.search, plan.points, plan.seed, runner.scores)
    order = sorted(runner.found)
    return Sweep(
        space,
        tuple(network.name for network in networks),
        tuple(runner.found[point] for point in order),
        runner.computed,
    )


class _Runner:
    """Candidates by point."""

    def __init__(
        self, space: Space, networks: Sequence[SweptNetwork], pool: Pool, store: ResultStore
    ) -> None:
        self.space, self.networks, self.pool, self.store = space, networks, pool, store
        self.found: dict[Point, SweptDevice] = {}
        self.computed = 0
        self.digests = [network.digest for network in networks]
        self.sources = plugin_sources(space.plugins)

    def scores(self, points: Sequence[Point]) -> list[tuple[float, ...] | None]:
        """Objectives of a batch."""
        new = [point for point in dict.fromkeys(points) if point not in self.found]
        units = {(p, n): self._unit(p, n) for p in new for n in range(len(self.networks))}
        keys = {place: self._key(unit) for place, unit in units.items()}
        stored = {key: self.store.get(key) for key in keys.values()}
        rows = {key: row for key, row in stored.items() if row is not None and is_result(row)}
        wanted = {key: units[place] for place, key in keys.items() if key not in rows}
        names = list(wanted)

        def keep(index: int, row: JsonObject) -> None:
            self.store.put(names[index], row)

        done = self.pool.map(
            evaluate,
            list(wanted.values()),
            keep,
            (tuple(self.networks),),
        )
        self.computed += len(done)
        rows.update(zip(names, done, strict=True))
        for point in new:
            device = self.space.device(point)
            counted = [rows[keys[point, n]] for n in range(len(self.networks))]
            self.found[point] = SweptDevice(
                point,
                device,
                self.space.settings(point),
                tuple(_row(entry, device, self.space) for entry in counted),
            )
        return [self.found[point].objectives for point in points]

    def _unit(self, point: Point, network: int) -> Unit:
        """Without what its result does not depend on, so that no result tells of a name."""
        options = self.space.options(point)
        free = () if options.get("strategy") == "cost" else _FREE  # it weighs the host's time
        device = self.space.device(point)
        free = () if is_plugin(device) else free
        kept = {name: value for name, value in device.items() if name not in free}
        said = {**kept, "name": "in-the-sweep"}
        return Unit(said, network, options, self.space.host, self.space.plugins.folders)

    def _key(self, unit: Unit) -> str:
        said = code_digest(), self.digests[unit.network], unit.device, dict(unit.options), unit.host
        return key_of(*said, self.sources if is_plugin(unit.device) else "")


@dataclass(frozen=True)
class _Costs:
    """Of a device and what was counted on it."""

    clock_mhz: int
    limit_mhz: float
    macs_per_cycle: int
    read: int
    write: int
    energy: Mapping[str, float]
    area: Mapping[str, float]


def _costs(counted: JsonObject, device: JsonObject, space: Space) -> _Costs:
    a, cycles, counts = space.assumptions, counted["cycles"], counted["counts"]
    if is_plugin(device):
        made = accelerator_of(device, space.plugins)
        energy, area = plugin_energy_uj(counts, made, a, cycles), plugin_area_mm2(made, a)
        limit, moved = plugin_limit_mhz(made, a), (counts["read"], counts["write"])
        return _Costs(made.clock_mhz, limit, made.macs_per_cycle, *moved, energy, area)
    config, n = load_config(device), Counts(**counts)
    energy, area = energy_uj(n, config, a, cycles), area_mm2(config, a)
    limit = clock_limit_mhz(config, a)
    return _Costs(config.clock_mhz, limit, config.macs_per_cycle, n.read, n.write, energy, area)


def _row(counted: JsonObject, device: JsonObject, space: Space) -> JsonObject:
    """What was counted, with time, energy and area of the device: of one sample."""
    if not counted["feasible"]:
        return counted
    samples, cycles = counted["samples_per_run"], counted["cycles"]
    found = _costs(counted, device, space)
    limit, energy, area = found.limit_mhz, found.energy, found.area
    if found.clock_mhz > limit:
        why = (
            f"clock_mhz={found.clock_mhz} is above {limit:.0f}, the highest clock of this device "
            f"by the assumptions at {space.assumptions.node_nm:.0f} nm: give a slower clock, a "
            "smaller node_nm, or clock_limit_mhz"
        )
        return {"feasible": False, "why": why}
    peak = cycles * found.macs_per_cycle
    return {
        **counted,
        "us": (cycles / found.clock_mhz + counted["host_ns"] / 1000) / samples,
        "host_us": counted["host_ns"] / 1000 / samples,
        "energy_uj": sum(energy.values()) / samples,
        **{f"energy_{part}_uj": value / samples for part, value in energy.items()},
        "clock_limit_mhz": limit,
        "area_mm2": sum(area.values()),
        **{f"area_{part}_mm2": value for part, value in area.items()},
        "dram_read_bytes": found.read,
        "dram_write_bytes": found.write,
        "utilisation": counted["macs"] * samples / peak if peak else None,
    }
