# SPDX-License-Identifier: Apache-2.0
"""runtime/isolated.c beside isolated.py, which computes tile by tile: the same first instruction of
the same stage is refused, in random programs of every kind of access."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from loadstone.artifact.format import Artifact, MemoryRegion, RegionKind
from loadstone.backend.device import ProgramDevice, ProgramStep
from loadstone.runtime.schedule import isolated
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import (
    Alu,
    Depthwise,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    encode_stream,
    encode_uops,
)
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.isa.weight_planes import coded
from tests.repeat import times
from tests.vta.validator.isolated import Uop, residues

_SECOND = load_config("vtaq2-1x16x16")
CONFIG = replace(_SECOND, capabilities=_SECOND.capabilities | Capability.STORE_INP)
RESIDUE = -27
#: Words of bit planes behind the micro-ops, and where those of each tile begin.
CODE, FIRST = coded(np.random.default_rng(0).integers(-60, 60, (140, 16, 16)).astype(np.int8))
_UOP_BYTES = 64


def _model(program: list[Insn], uops: list[Uop]) -> Artifact:
    data = encode_uops(np.array(uops, np.int64), CONFIG).tobytes() + CODE.tobytes()
    return Artifact(
        name="random",
        devices=(ProgramDevice.of(CONFIG),),
        samples=1,
        regions=(
            MemoryRegion("micro-ops", RegionKind.CONSTANTS, len(data), 64, True, data=data),
            MemoryRegion("arena", RegionKind.ARENA, 1 << 16, 64, True, True),
        ),
        tensors=(),
        inputs=(),
        outputs=(),
        steps=(ProgramStep("random", encode_stream(program, CONFIG).tobytes()),),
    )


class _Writer:
    """A random program whose tokens balance; most of what it reads was written."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.uops = [
            (self.rng.randrange(20), self.rng.randrange(20), self.rng.randrange(12))
            for _ in range(16)
        ]
        self.program: list[Insn] = []

    def load(self, memory: Memory, most: int, **flags: int) -> None:
        rng = self.rng
        base = rng.choice([0, 0, 0, rng.randrange(8)])
        y, x = rng.randrange(1, 4), rng.choice([most, most, rng.randrange(1, most)])
        if memory is Memory.WGT_PLANES:
            count = y * x
            words = int(FIRST[count]) - rng.choice([0, 0, 0, 1])
            base_word = _UOP_BYTES // 8
            if rng.randrange(8) == 0:  # beyond the constants, or not in them
                flags |= {"region": 1} if rng.randrange(2) else {"dram_base": 1 << 30}
            fields = {"dram_base": base_word, "sram_base": base, "y_size": count, "x_size": words}
            self.program.append(Load(memory_id=memory, **{**fields, **flags}))
            return
        pads = {}
        if memory is Memory.WGT_4BIT:
            x = max(1, x // 2)
        elif memory is not Memory.WGT:
            pads = {name: rng.randrange(2) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
        fields = {"sram_base": base, "y_size": y, "x_size": x, "x_stride": x, "region": 1}
        self.program.append(Load(memory_id=memory, **fields, **pads, **flags))

    def loops(self) -> dict[str, int]:
        begin = self.rng.randrange(15)
        return {
            "uop_bgn": begin,
            "uop_end": self.rng.randrange(begin + 1, 17),
            "iter_out": self.rng.randrange(1, 6),
            "iter_in": self.rng.randrange(1, 6),
        }

    def strides(self, *names: str) -> dict[str, int]:
        return {name: self.rng.choice([0, 1, 2, 3, 5, 17]) for name in names}

    def compute(self, **flags: int) -> None:
        rng, kind = self.rng, self.rng.randrange(4)
        dst = self.strides("dst_out", "dst_in")
        if kind == 0:
            moves = self.strides("src_out", "src_in", "wgt_out", "wgt_in")
            how = rng.choice([{}, {"reset": 1}, {"overwrite": 1}])
            self.program.append(Gemm(**self.loops(), **dst, **moves, **how, **flags))
        elif kind == 1:
            moves = self.strides("src_out", "src_in", "wgt_out", "row_stride")
            window = {"rows": rng.randrange(1, 4), "columns": rng.randrange(1, 4)}
            how = {"overwrite": rng.randrange(2), "wide": rng.randrange(2)}
            self.program.append(Depthwise(**self.loops(), **dst, **moves, **window, **how, **flags))
        elif kind == 2:
            moves, op = self.strides("src_out", "src_in"), rng.choice([AluOp.RQ, AluOp.ADD])
            imm = 0 if op is AluOp.RQ else rng.randrange(2)
            self.program.append(
                Alu(alu_op=op, use_imm=imm, **self.loops(), **dst, **moves, **flags)
            )
        else:
            self.load(rng.choice([Memory.ACC, Memory.ACC_8BIT]), 60, **flags)

    def store(self, **flags: int) -> None:
        rng = self.rng
        y, x = rng.randrange(1, 4), rng.randrange(1, 12)
        fields = {"sram_base": rng.randrange(6), "y_size": y, "x_size": x, "x_stride": x}
        by = {}
        if rng.randrange(2):
            step = rng.randrange(2)
            by = {"requantize": 1, "operands": rng.randrange(40), "operand_step": step}
        self.program.append(Store(memory_id=Memory.OUT, region=1, **fields, **by, **flags))

    def store_to_inp(self) -> None:
        """Of an ACC that is whole; what it leaves in INP is beside what load does."""
        rng = self.rng
        wide = {"y_size": 1, "x_size": 400, "x_stride": 400, "region": 1}
        self.program.append(Load(memory_id=Memory.ACC, push_next=1, **wide))
        x = rng.choice([25, 40, 70])
        fields = {
            "dram_base": rng.choice([0, 0, 5]),
            "y_size": rng.randrange(1, 5),
            "x_size": x,
            "x_stride": rng.choice([0, x, x + 1, x - 3]),
            "requantize": 1,
        }
        self.program.append(Store(memory_id=Memory.INP, pop_prev=1, push_prev=1, **fields))

    def write(self) -> list[Insn]:
        fields = {"y_size": 1, "x_size": 16, "x_stride": 16}
        self.program.append(Load(memory_id=Memory.UOP, **fields))
        whole = self.rng.randrange(3)
        for turn in range(self.rng.randrange(1, 4)):
            early = self.rng.randrange(2)
            stores = self.rng.randrange(2)
            if stores:
                self.store_to_inp()
            self.load(Memory.INP, 20 if stores else 70, push_next=early)
            weights = self.rng.choice([Memory.WGT, Memory.WGT_4BIT, Memory.WGT_PLANES])
            self.load(weights, 45, push_next=1 - early)
            if whole:  # of ACC all that others reach
                wide = {"y_size": 1, "x_size": 400, "x_stride": 400, "region": 1}
                self.program.append(Load(memory_id=Memory.ACC, **wide))
            pops = {"pop_prev": 1, "pop_next": stores and int(self.rng.randrange(4) > 0)}
            for _ in range(self.rng.randrange(1, 5)):
                self.compute(**pops)
                pops = {}
            self.compute(push_next=1, **pops)
            self.store(pop_prev=1, push_prev=1)
            if turn == 0 and self.rng.randrange(4) == 0:
                self.store(push_prev=0)
        self.program.append(Finish())
        return self.program


def test_the_rule_is_the_same_tile_by_tile() -> None:
    verdicts = {0: 0, RESIDUE: 0}
    for seed in range(times(120, 20_000)):
        writer = _Writer(seed)
        program = writer.write()
        status, _, instruction = isolated(_model(program, writer.uops))

        def loaded(load: Load, uops: list[Uop] = writer.uops) -> list[Uop]:
            return uops[load.dram_base : load.dram_base + load.x_size]

        def code(load: Load) -> bytes:
            first = 8 * load.dram_base - _UOP_BYTES
            held = CODE.tobytes()[first : first + 8 * load.x_size] if load.region == 0 else b""
            return held if len(held) == 8 * load.x_size else b""

        found = residues(program, loaded, code)
        # compute is examined before store
        stores = [n for n in found if isinstance(program[n], Store)]
        others = [n for n in found if n not in stores]
        wanted = min(others) if others else min(stores, default=None)
        verdicts[status] += 1
        assert (instruction if status else None) == wanted, (seed, program)
    assert min(verdicts.values()) > 0.05 * sum(verdicts.values()), verdicts
