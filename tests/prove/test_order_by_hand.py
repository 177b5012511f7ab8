# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py and prove/tokens.py on one artifact by hand: weights that a program stores and
loads, where a tile has more bytes than a group of weights, so that the group lies in two tiles."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    LayerRange,
    MemoryRegion,
    ProgramStep,
    RegionKind,
)
from loadstone.backend.device import ProgramDevice
from loadstone.prove.proof import Proof
from loadstone.prove.verdict import ProofVerdict, Status
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import encode_stream, encode_uops
from loadstone.vta.isa.insn import Alu, Finish, Gemm, Insn, Load, MicroOp, Store
from loadstone.vta.isa.packed_weights import packed
from loadstone.vta.isa.spec import AluOp, Capability, Memory
from loadstone.vta.simulator.unordered import findings
from tests.prove.test_proof_by_hand import network

_BASE = load_config("vtaq-1x16x16")
CONFIG = replace(
    _BASE,
    name="32x16x16-weights4",
    log_batch=5,
    log_inp_buff=14,
    log_acc_buff=16,
    capabilities=_BASE.capabilities | Capability.WEIGHTS4,
)
TILE, GROUP = CONFIG.tile_bytes(Memory.OUT), CONFIG.tile_bytes(Memory.WGT_4BIT)
CONSTANTS, IN, OUT, ARENA = range(4)
#: Where the group begins: its numbers end in the next tile.
BEGIN = TILE // 2


def program(late: bool, tile: int) -> list[Insn]:
    """y = x by weights of 1 in the diagonal, which are stored and then loaded. Another store, of
    zeros over `tile` of the arena: late: behind the product; else with no token between it and
    the load."""
    one = {"y_size": 1, "x_size": 1}
    product = Gemm(uop_bgn=1, uop_end=2, iter_out=1, iter_in=1)
    clear = product.changed(reset=1, pop_next=1)
    zeros = Store(memory_id=Memory.OUT, region=ARENA, dram_base=tile, sram_base=2, **one)
    others = [] if late else [zeros.changed(pop_prev=1)]
    return [
        Load(memory_id=Memory.UOP, region=CONSTANTS, y_size=1, x_size=2),
        Load(memory_id=Memory.ACC_8BIT, region=CONSTANTS, dram_base=1, y_size=1, x_size=3),
        Alu(uop_end=1, iter_out=1, iter_in=3, dst_in=1, src_in=1, alu_op=AluOp.ADD, use_imm=1,
            push_next=1),
        Store(memory_id=Memory.OUT, region=ARENA, y_size=1, x_size=2, pop_prev=1, push_prev=1),
        clear.changed(push_prev=1, push_next=int(not late)),
        Load(memory_id=Memory.INP, region=IN, **one),
        Load(memory_id=Memory.WGT_4BIT, region=ARENA, dram_base=BEGIN // (2 * CONFIG.block), **one,
             pop_next=1, push_next=1),
        *others,
        product.changed(pop_prev=1, push_next=1),
        Store(memory_id=Memory.OUT, region=OUT, sram_base=3, **one, pop_prev=1, push_prev=1),
        *([zeros.changed(push_prev=1), clear] if late else []),
        Finish(pop_next=1),
    ]  # fmt: skip


def constants() -> bytes:
    """Two micro-ops, the second of accumulators 3 by the second tile of a group; tiles of the
    group; zeros."""
    uops = encode_uops([MicroOp(), MicroOp(dst=3, wgt=1)], CONFIG).tobytes()
    numbers = np.zeros((1, 2, CONFIG.block, CONFIG.block), np.uint8)
    numbers[:, 1] = np.eye(CONFIG.block)
    eights = np.full((1, CONFIG.block), 8, np.uint8)
    group = packed(numbers, eights, np.zeros((1, CONFIG.block), np.int8)).tobytes()
    held = bytes(BEGIN) + group
    return uops.ljust(TILE, b"\0") + held.ljust(3 * TILE, b"\0")


def artifact(late: bool, tile: int) -> Artifact:
    stream = encode_stream(program(late, tile), CONFIG).tobytes()
    data = constants()
    count = len(stream) // 16
    return Artifact(
        name="weights of its own",
        devices=(ProgramDevice.of(CONFIG),),
        samples=1,
        regions=(
            MemoryRegion("data", RegionKind.CONSTANTS, len(data), TILE, device_reads=True,
                         data=data),
            MemoryRegion("in", RegionKind.INPUT, TILE, TILE, device_reads=True),
            MemoryRegion("out", RegionKind.OUTPUT, TILE, TILE, device_writes=True),
            MemoryRegion("arena", RegionKind.ARENA, 3 * TILE, TILE, device_reads=True,
                         device_writes=True),
        ),
        tensors=(
            BufferView("x", (1, TILE), DataType.INT8, IN, 0, 0.5, 3),
            BufferView("y", (1, TILE), DataType.INT8, OUT, 0, 0.5, 3),
        ),
        inputs=(0,),
        outputs=(1,),
        steps=(ProgramStep("p", stream, (LayerRange("p", 0, count),)),),
    )  # fmt: skip


def said(late: bool, tile: int) -> ProofVerdict:
    """The simulator, which keeps bytes and no tiles, finds a race where the proof does."""
    model = artifact(late, tile)
    verdict = Proof(network(elements=TILE)).of(model)
    races = findings(model, CONFIG, uninitialised=False)
    assert bool(races) == (verdict.status is Status.NOT_PROVED)
    return verdict


def test_the_group_lies_in_two_tiles() -> None:
    assert (BEGIN // TILE, (BEGIN + GROUP - 1) // TILE, GROUP < TILE) == (0, 1, True)


@pytest.mark.parametrize("tile", [0, 1, 2])
def test_a_store_behind_the_product_is_proved(tile: int) -> None:
    verdict = said(True, tile)
    assert (verdict.status, verdict.reason) == (Status.PROVED, "")


@pytest.mark.parametrize("tile", [0, 1])
def test_a_store_that_no_token_keeps_behind_a_load_is_refused(tile: int) -> None:
    verdict = said(False, tile)
    assert verdict.status is Status.NOT_PROVED
    assert "it overwrites region 3 that may not be read yet" in verdict.reason


def test_a_store_beside_the_group_needs_no_token() -> None:
    verdict = said(False, 2)
    assert (verdict.status, verdict.reason) == (Status.PROVED, "")
