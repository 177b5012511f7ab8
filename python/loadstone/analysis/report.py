# SPDX-License-Identifier: Apache-2.0
"""The time of every layer of a compiled model, on one axis: devices, other accelerators, host.

In:   an artifact and its device; where available, what the compiler knows besides (kinds,
      multiplications, models of other accelerators).
Out:  a ProfileReport: a Row for each layer and each host step, totals by place.
Next: tables.py makes text and CSV of it, page_data.py a page, commands/profile.py all three.

Every row states the source of its time:

    simulated   cycles of the timing model that `loadstone replay` compares with RTL
    modelled    the estimate of the back end of another accelerator (Backend.cost_cycles)
    measured    the time of the step alone, on this machine
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from loadstone.analysis.html import rows_table
from loadstone.analysis.names import plain_name, short_names
from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_OPERATOR
from loadstone.backend.device import Device
from loadstone.files import JsonObject
from loadstone.runtime.external_steps import place_of
from loadstone.runtime.step_time import StepTimes
from loadstone.simulator.interface import DeviceFigures, LayerFigures, Lived, ProgramRun
from loadstone.simulator.programs import elapsed_cycles, program_runs, saved_us

__all__ = ["Known", "ProfileReport", "Row", "profile_report"]

_OWN = "loadstone."


@dataclass(frozen=True)
class Known:
    """What the compiler knows of a model and the artifact does not contain. kinds, macs: by layer.
    modelled_us, places: by the name of an external step. sqnr_db: signal-to-quantization-noise
    ratio, by the name of a tensor in the float network."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    macs: Mapping[str, int] = field(default_factory=dict)
    modelled_us: Mapping[str, float] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    sqnr_db: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A layer of a device program, or a step of the host or of another accelerator.

    how: simulated, modelled or measured. share: of the sum of all rows. For layers of a device:
        `cycles` belong to this layer alone, while first_cycle to last_cycle, counted from the start
        of its program, overlaps with other layers. macs: the operator's own multiply-accumulates,
        where the network is known, else 0. executed_macs: those that the multipliers execute for
        it, including lanes that only fill tiles, and multiplications by one that move values, as
        for a max pool. utilisation: share of the multipliers' capacity that executed_macs use.
        arena_bytes: alive while it computes. bound, spent_cycles: vta/simulator/layers.py. sqnr_db:
        against the float network, where it is known.
    """

    name: str
    short: str
    step: int
    where: str
    how: str
    kind: str
    shape: tuple[int, ...]
    begin_us: float
    end_us: float
    us: float
    share: float = 0.0
    macs: int = 0
    macs_share: float = 0.0
    executed_macs: int = 0
    instructions: int = 0
    cycles: int | None = None
    first_cycle: int | None = None
    last_cycle: int | None = None
    best_cycles: int | None = None
    best_us: float | None = None
    utilisation: float | None = None
    bound: str = ""
    arena_bytes: int = 0
    arena_share: float = 0.0
    busy_cycles: Mapping[str, int] = field(default_factory=dict)
    spent_cycles: Mapping[str, int] = field(default_factory=dict)
    bytes: Mapping[str, int] = field(default_factory=dict)
    bus_cycles: Mapping[str, int] = field(default_factory=dict)
    sqnr_db: float | None = None


@dataclass(frozen=True, repr=False)
class ProfileReport:
    """rows: in order. programs: of all devices, with their traces. arena: for each, the memory that
    each tensor occupies over time. facts: of the first device; None where nothing is simulated.
    elapsed_cycles: of all programs, of those side by side that which takes longest. saved_us: what
    the others take.
    """

    model: str
    device: str
    samples: int
    rows: tuple[Row, ...]
    facts: DeviceFigures | None
    programs: tuple[ProgramRun, ...]
    arena: tuple[tuple[Lived, ...], ...]
    arena_bytes: int
    elapsed_cycles: int = 0
    saved_us: float = 0.0

    @property
    def us(self) -> float:
        """The time of all rows: of programs side by side the longest, else one after the other."""
        return sum(row.us for row in self.rows) - self.saved_us

    @property
    def cycles(self) -> int:
        """The cycles of all programs, each by the clock of its own device: the sum that the
        counters of a run give."""
        return sum(row.cycles or 0 for row in self.rows)

    @property
    def has_macs(self) -> bool:
        """Whether the operators' own multiply-accumulates are known."""
        return any(row.macs for row in self.rows)

    @property
    def has_sqnr(self) -> bool:
        """Whether the layers' signal-to-noise ratios are known."""
        return any(row.sqnr_db is not None for row in self.rows)

    @property
    def totals(self) -> dict[str, JsonObject]:
        """By place: layers, microseconds, cycles, and how they are known."""
        totals: dict[str, JsonObject] = {}
        for row in self.rows:
            entry = totals.setdefault(row.where, {"layers": 0, "us": 0.0, "cycles": 0, "how": []})
            entry["layers"] += 1
            entry["us"] += row.us
            entry["cycles"] += row.cycles or 0
            if row.how not in entry["how"]:
                entry["how"].append(row.how)
        return totals

    def __repr__(self) -> str:
        places = ", ".join(f"{where} {e['us']:.1f} us" for where, e in self.totals.items())
        return f"<profile of {self.model!r}: {len(self.rows)} layers, {self.us:.1f} us: {places}>"

    def _repr_html_(self) -> str:
        heads = ("layer", "where", "kind", "MACs", "cycles", "us", "share", "bound by")
        rows = (
            (
                row.short,
                row.where,
                row.kind,
                f"{row.macs:,}" if row.macs else "",
                "" if row.cycles is None else f"{row.cycles:,}",
                f"{row.us:.1f}",
                f"{100 * row.share:.1f} %",
                row.bound or row.how,
            )
            for row in self.rows
        )
        foot = f"{self.us:.1f} us a run of {self.samples} sample(s)"
        return rows_table(f"{self.model} on {self.device}", heads, rows, foot)

    def to_json(self) -> JsonObject:
        """All figures; no events."""
        return {
            "model": self.model,
            "device": self.device,
            "samples": self.samples,
            "us": self.us,
            "cycles": self.cycles,
            "elapsed_cycles": self.elapsed_cycles,
            "arena_bytes": self.arena_bytes,
            "totals": self.totals,
            "layers": [{**asdict(row), "shape": list(row.shape)} for row in self.rows],
        }


def profile_report(
    artifact: Artifact, device: Device, known: Known | None = None, *, trust: bool = False
) -> ProfileReport:
    """trust: whether steps that are code may run (SECURITY.md). Raises SimulationError for a
    program that does not reach FINISH, ArtifactError for steps that cannot be run here."""
    known = known or Known()
    runs = program_runs(artifact, device, trace=True)
    own = sorted(runs.values(), key=lambda run: run.number)
    arena = {run.number: tuple(run.arena(artifact)) for run in own}
    maker = _Rows(artifact, device, known, trust)
    for number, step in enumerate(artifact.steps):
        if isinstance(step, HostStep):
            maker.add_host(number, step)
        else:
            maker.add_program(runs[number], arena.get(number, ()))
    return ProfileReport(
        artifact.name,
        device.name,
        artifact.samples,
        tuple(maker.finished()),
        own[0].facts if own else None,
        tuple(own),
        tuple(arena.values()),
        next((r.size_bytes for r in artifact.regions if r.name == "arena"), 0),
        elapsed_cycles(artifact, runs),
        saved_us(artifact, runs),
    )


class _Rows:
    """Collects rows; `now_us` is where the last one ended."""

    def __init__(self, artifact: Artifact, device: Device, known: Known, trust: bool) -> None:
        self.artifact, self.known = artifact, known
        self.times = StepTimes(artifact, device, trust=trust)
        self.rows: list[Row] = []
        self.now_us = 0.0
        self.views = {view.name: view for view in artifact.tensors}

    def finished(self) -> Iterator[Row]:
        """The report, with the shares and short names, which depend on all rows."""
        us = sum(row.us for row in self.rows) or 1.0
        macs = sum(row.macs for row in self.rows) or 1
        arena = max((row.arena_bytes for row in self.rows), default=0) or 1
        short = short_names([row.name for row in self.rows])
        for row in self.rows:
            yield Row(
                **{
                    **vars(row),
                    "short": short[row.name],
                    "share": row.us / us,
                    "macs_share": row.macs / macs,
                    "arena_share": row.arena_bytes / arena,
                    "sqnr_db": self.known.sqnr_db.get(plain_name(row.name)),
                }
            )

    def add_host(self, number: int, step: HostStep) -> None:
        """A host step, or a call of another accelerator."""
        modelled = self.known.modelled_us.get(step.name)
        how = "measured" if modelled is None else "modelled"
        us = self.times.ns(step) / 1000 if modelled is None else modelled
        where = self.known.places.get(step.name) or place_of(step)
        shape = self.artifact.tensors[step.outputs[0]].shape
        kind = self.known.kinds.get(step.name) or _kind(step)
        begin, self.now_us = self.now_us, self.now_us + us
        macs = self.known.macs.get(step.name, 0)
        self.rows.append(
            Row(step.name, "", number, where, how, kind, shape, begin, self.now_us, us, macs=macs)
        )

    def add_program(self, run: ProgramRun, arena: Sequence[Lived]) -> None:
        """A row for each layer."""
        begin_us = self.now_us
        for layer in run.layers():
            self.rows.append(self._layer(run, layer, arena, begin_us))
            self.now_us += layer.cycles / run.clock_mhz
        self.now_us = begin_us + run.cycles / run.clock_mhz

    def _layer(
        self, run: ProgramRun, layer: LayerFigures, arena: Sequence[Lived], begin_us: float
    ) -> Row:
        """begin_us: of the program. Where a simulator does not report when a layer begins, the
        layer begins after the one before."""
        view = self.views.get(f"{layer.name} on device")
        view = view or self.views.get(f"{layer.name} for {run.device} on device")
        row = Row(
            layer.name,
            "",
            run.number,
            run.device,
            "simulated",
            self.known.kinds.get(layer.name) or layer.kind,
            view.shape if view is not None else (),
            self.now_us,
            self.now_us + layer.cycles / run.clock_mhz,
            layer.cycles / run.clock_mhz,
            macs=self.known.macs.get(layer.name, 0),
            executed_macs=layer.macs,
            instructions=layer.instructions,
            cycles=layer.cycles,
            bound=layer.bound,
            busy_cycles=layer.busy_cycles,
            spent_cycles=layer.spent_cycles,
            bytes=layer.bytes,
        )
        first, last, best, facts = (
            layer.first_cycle,
            layer.last_cycle,
            layer.best_cycles,
            run.facts,
        )
        if first is None or last is None or best is None or facts is None:
            return row
        peak = layer.cycles * facts.macs_per_cycle
        return replace(
            row,
            begin_us=begin_us + first / run.clock_mhz,
            end_us=begin_us + last / run.clock_mhz,
            first_cycle=first,
            last_cycle=last,
            best_cycles=best,
            best_us=best / run.clock_mhz,
            utilisation=layer.macs / peak if peak else None,
            arena_bytes=sum(
                piece.end - piece.first
                for piece in arena
                if piece.begin <= last and piece.last >= first
            ),
            bus_cycles={n: -(-size // facts.bus_bytes) for n, size in layer.bytes.items()}
            if facts.bus_bytes
            else {},
        )


def _kind(step: HostStep) -> str:
    if step.function == EXTERNAL_OPERATOR:
        return str(json.loads(step.attributes)["kind"]).lower()
    return step.function.removeprefix(_OWN) or step.opcode.name.lower()
