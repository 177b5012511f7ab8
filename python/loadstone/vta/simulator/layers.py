# SPDX-License-Identifier: Apache-2.0
"""The cost of each layer of a device program: its cycles and their causes, its bytes, its lower
bound.

In:   a Profile (profile.py) and its device.
Out:  a LayerFigures for each layer, in the order in which they compute; their cycles sum to the
      program's.
Next: programs.py; analysis/report.py puts them beside the steps of the host.

Layers overlap: loads for one run while another computes. So that shares sum to the whole, a cycle
belongs to the layer whose instruction the compute stage executes or waits to execute. The events of
the run show exactly what the stage waits for:

    enter ........ ready ......... start ........ end
    | fetch        | tokens        | busy         |
                     the part in which the other stage worked on the instruction that pushed the
                     token counts for that stage (load, store), the rest for the token, because the
                     other stage could not begin earlier
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadstone.simulator.interface import DeviceFigures, LayerFigures
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Alu, Depthwise, Finish, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import INSN_BYTES, AluOp, Memory, Stage
from loadstone.vta.simulator.profile import Profile
from loadstone.vta.simulator.result import Event
from loadstone.vta.stream.cost import CostModel, cost_model

__all__ = [
    "BOUNDS",
    "device_figures",
    "layer_figures",
]

#: What a cycle of the compute stage can be spent on -> what that means.
BOUNDS: Mapping[str, str] = {
    "multipliers": "GEMM and DEPTHWISE instructions",
    "RQ": "requantization",
    "ALU": "other ALU instructions",
    "accumulator loads": "loads of accumulators and micro-ops, which the compute stage executes",
    "load channel": "waiting while the load stage brings inputs or weights",
    "store": "waiting while the store stage takes results away",
    "fetch": "waiting for the instruction itself",
    "token from load": "the load stage began late: it waited for a token, or for its instruction",
    "token from store": "the store stage began late",
    "other": "configuration and no-ops",
}
#: Where LOADs and STOREs are counted; beside them the instructions themselves.
_READERS = {
    Memory.UOP: "uop",
    Memory.INP: "inp",
    Memory.WGT: "wgt",
    Memory.ACC: "acc",
    Memory.ACC_8BIT: "acc",
    Memory.WGT_4BIT: "wgt",
    Memory.WGT_PLANES: "wgt",
    Memory.OUT: "out",
}
_BYTES = ("fetch", "uop", "inp", "wgt", "acc", "out")


def device_figures(config: HwConfig) -> DeviceFigures:
    """Of one device."""
    memories = (Memory.INP, Memory.WGT, Memory.ACC, Memory.UOP)
    return DeviceFigures(
        config.name,
        config.clock_mhz,
        config.macs_per_cycle,
        config.bus_bits // 8,
        {memory.name.lower(): config.depth(memory) for memory in memories},
        BOUNDS,
    )


class _Sum:
    """The figures of a layer while they are added up."""

    def __init__(self) -> None:
        self.instructions = self.cycles = self.macs = self.step_cycles = 0
        self.first: int | None = None
        self.last = 0
        self.busy = {stage.name.lower(): 0 for stage in Stage}
        self.spent = dict.fromkeys(BOUNDS, 0)
        self.bytes = dict.fromkeys(_BYTES, 0)

    def add(self, event: Event, insn: Insn, config: HwConfig, cost: CostModel) -> None:
        """What one instruction does, whoever waits for it."""
        self.instructions += 1
        self.first = event.start if self.first is None else min(self.first, event.start)
        self.last = max(self.last, event.end)
        self.busy[event.stage.name.lower()] += event.end - event.start
        self.bytes["fetch"] += INSN_BYTES
        if isinstance(insn, Store) and insn.to_inp:
            return  # no byte of DRAM
        if isinstance(insn, Load | Store):
            size = insn.x_size * insn.dram_rows * config.tile_bytes(Memory(insn.memory_id))
            self.bytes[_READERS[Memory(insn.memory_id)]] += size
        elif isinstance(insn, Gemm):
            self.macs += 0 if insn.reset else insn.steps * config.macs_per_cycle
            self.step_cycles += insn.steps * cost.gemm_step
        elif isinstance(insn, Depthwise):
            taps = insn.rows * insn.columns + insn.wide
            self.macs += insn.steps * config.batch * config.block * taps
            self.step_cycles += insn.steps * cost.gemm_step
        elif isinstance(insn, Alu):
            rq = insn.alu_op == AluOp.RQ
            step = cost.rq_step if rq else cost.alu_step(tensor=not insn.use_imm)
            self.step_cycles += insn.steps * step

    def spend(self, on: str, cycles: int) -> None:
        """Cycles of the compute stage."""
        self.spent[on] += cycles
        self.cycles += cycles

    def figures(self, name: str, bus_bytes: int) -> LayerFigures:
        """All of it."""
        read = sum(self.bytes.values()) - self.bytes["out"]
        best = max(self.step_cycles, -(-read // bus_bytes), -(-self.bytes["out"] // bus_bytes))
        return LayerFigures(
            name,
            self.instructions,
            self.cycles,
            self.busy["compute"],
            self.first or 0,
            self.last,
            self.busy,
            self.spent,
            self.bytes,
            self.macs,
            self.step_cycles,
            best,
            self._kind(),
        )

    def _kind(self) -> str:
        lanes = self.spent["ALU"] + self.spent["RQ"]
        if not self.macs and not lanes:
            return "move"
        return "multiply" if lanes <= 1.5 * self.spent["multipliers"] else "elementwise"


def layer_figures(entry: Profile, config: HwConfig) -> list[LayerFigures]:
    """In the order in which the layers compute. What FINISH waits for belongs to the last layer."""
    insns = list(decode_stream(entry.program.instructions, config))
    cost = cost_model(config)
    sums: dict[str, _Sum] = {}
    by_insn = {event.insn: event for event in entry.events}
    order: list[str] = []
    now = 0
    for event in sorted(entry.events, key=lambda e: (e.end, e.insn)):
        if isinstance(insns[event.insn], Finish):
            name = order[-1] if order else entry.layer_of[event.insn]
        else:
            name = entry.layer_of[event.insn]
            sums.setdefault(name, _Sum()).add(event, insns[event.insn], config, cost)
        if event.stage is not Stage.COMPUTE:
            continue
        if name not in order:
            order.append(name)
        layer = sums.setdefault(name, _Sum())
        for on, cycles in _spent(event, now, insns[event.insn], by_insn):
            layer.spend(on, cycles)
        now = event.end
    if order and entry.result.cycles > now:
        sums[order[-1]].spend("other", entry.result.cycles - now)
    names = [*order, *(name for name in sums if name not in order)]
    return [sums[name].figures(name, config.bus_bits // 8) for name in names]


def _spent(
    event: Event, now: int, insn: Insn, by_insn: Mapping[int, Event]
) -> Sequence[tuple[str, int]]:
    """What the compute stage did from cycle `now` to the end of an instruction of its."""
    ready, start = max(event.ready, now), max(event.start, now)
    return [
        ("fetch", ready - now),
        *_waited(event, ready, start, by_insn),
        (_work(insn), event.end - start),
    ]


def _waited(
    event: Event, ready: int, start: int, by_insn: Mapping[int, Event]
) -> Sequence[tuple[str, int]]:
    """For tokens: the one that came last decides. compute's previous stage is load, its next
    store."""
    givers = [
        (by_insn[giver].end, channel, token, by_insn[giver])
        for giver, channel, token in (
            (event.from_prev, "load channel", "token from load"),
            (event.from_next, "store", "token from store"),
        )
        if giver is not None and giver in by_insn
    ]
    if start == ready or not givers:
        return [("other", start - ready)]
    _, channel, token, giver = max(givers, key=lambda entry: entry[:2])
    worked = max(0, start - max(ready, giver.start))
    return [(channel, worked), (token, start - ready - worked)]


def _work(insn: Insn) -> str:
    match insn:
        case Gemm() | Depthwise():
            return "multipliers"
        case Alu(alu_op=AluOp.RQ):
            return "RQ"
        case Alu():
            return "ALU"
        case Load():
            return "accumulator loads"
        case _:
            return "other"
