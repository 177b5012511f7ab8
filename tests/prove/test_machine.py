# SPDX-License-Identifier: Apache-2.0
"""prove/machine.py and what it stands on: what instructions do to symbols is what they do to
bytes."""

from __future__ import annotations

import numpy as np
import pytest

from loadstone.prove.fingerprints import Integers
from loadstone.prove.memory import NOBODY, flipped
from loadstone.prove.values import CONSTANTS
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.insn import Alu, Config, Gemm, Insn, Load, Store
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Stage
from tests.programs import BASE, random_program
from tests.prove.symbol_machines import ONE, TINY, Both, Drawn, Tiny, with_stores
from tests.repeat import times
from tests.simulated import EIGHT_WINDOWS, GROUPED, ONLY_INP, TINY_INP, TINY_WINDOWS

VTAQ, VTA = load_config("vtaq-1x8x8"), load_config("vta-pynq")
#: Devices whose stores requantize.
STORING, TINY_STORING = with_stores(VTAQ), with_stores(TINY)
WIDE = load_config("vtaq-4x16x16")


@pytest.mark.parametrize("config", [VTAQ, VTA, STORING], ids=lambda config: config.name)
@pytest.mark.parametrize("seed", range(times(12, 3000)))
def test_programs_do_to_symbols_what_they_do_to_bytes(config: HwConfig, seed: int) -> None:
    drawn = Drawn(config, seed)
    program = drawn.instructions()
    stored = next(k for k, one in enumerate(program) if isinstance(one, Store)) + 1
    drawn.both.run(program[:stored])
    drawn.both.check()
    try:
        drawn.both.run(program[stored:])
    except NotProved as error:  # sums of digits of several sums are beyond a proof
        assert "made of several sums" in str(error)  # noqa: PT017
    else:
        drawn.both.check()


@pytest.mark.parametrize(
    "config",
    [TINY, WIDE, VTA, TINY_STORING, TINY_WINDOWS, EIGHT_WINDOWS, TINY_INP, ONLY_INP, *GROUPED],
    ids=lambda config: config.name,
)
def test_instructions_of_every_kind(config: HwConfig) -> None:
    """Programs of any instructions, in which some bytes are unknown: pads, strides, loops, repeated
    tiles, operations of two lanes, registers."""
    begin = 0 if config.has(Capability.REGIONS) else BASE
    for seed in range(times(30, 2000)):
        rng = np.random.default_rng(seed)
        program = random_program(config, rng, 40)
        memory = np.concatenate([np.zeros(begin, np.uint8), program.memory])
        unknown = begin + np.sort(rng.choice(200, int(rng.integers(0, 8)), replace=False))
        both = Both(config, memory, unknown)
        both.run_what_has_a_meaning(program.objects)
        both.check()


_CLEAR = Gemm(**ONE | {"iter_in": 4}, dst_in=1, reset=1)
_ACTIVATIONS = Load(memory_id=Memory.WGT, sram_base=1, dram_base=Tiny.INPUTS // 16, y_size=1,
                    x_size=1)  # fmt: skip
_BYTES = Load(memory_id=Memory.ACC_8BIT, sram_base=4, dram_base=Tiny.INPUTS // 4, y_size=1,
              x_size=2, x_stride=2)  # fmt: skip
_INPUTS_FROM_OUT = Load(memory_id=Memory.INP, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=1)
_OUT = Store(memory_id=Memory.OUT, dram_base=Tiny.NOTHING // 4, y_size=1, x_size=4)
_STORED = [Alu(**ONE | {"iter_in": 4}, dst_in=1, alu_op=AluOp.ADD, use_imm=1), _OUT]


def _add(first: int, last: int) -> Alu:
    """By micro-ops: 12 adds tile 4 to 1, 13 adds 1 to 0, 14 adds 5 to 1."""
    return Alu(uop_bgn=first, uop_end=last, iter_out=1, iter_in=1, alu_op=AluOp.ADD)


SMALL: dict[str, list[Insn]] = {
    "weights that are activations beside others": [
        _CLEAR, _ACTIVATIONS, Gemm(**ONE | {"iter_in": 2}, src_in=1, wgt_in=1)
    ],
    "weights that were activations": [
        _CLEAR, _ACTIVATIONS, _ACTIVATIONS.changed(dram_base=Tiny.KNOWN // 16),
        Gemm(**ONE | {"iter_in": 2}, src_in=1, wgt_in=1),
    ],
    "a product of activations and one activation more": [
        _CLEAR, _ACTIVATIONS, Gemm(**ONE | {"uop_bgn": 1, "uop_end": 2}), _BYTES, _add(12, 13)
    ],
    **{
        f"{operation.name} of two lanes": [
            _CLEAR, _BYTES, _add(14, 15), _add(12, 13).changed(alu_op=operation)
        ]
        for operation in (AluOp.MIN, AluOp.MAX, AluOp.MUL)
    },
    "products of several tiles into one": [_CLEAR, Gemm(**ONE | {"iter_in": 3}, src_in=1)],
    "the last of several tiles remains": [
        Gemm(**ONE | {"iter_in": 3}, src_in=1, wgt_in=1, overwrite=1)
    ],
    "accumulators that are added to": [Gemm(**ONE, src_out=1), Gemm(**ONE | {"iter_in": 2})],
    "a lane that is read and then written": [
        _CLEAR, _BYTES, _add(12, 13), _add(14, 15), _add(13, 15)
    ],
    "a lane that is read behind its write": [
        _CLEAR, _BYTES, _add(12, 13), _add(12, 14), _add(14, 15)
    ],
    "pads of bytes": [
        Config(stage=Stage.LOAD, register_id=ConfigRegister.PAD_VALUE, value=-9),
        Config(stage=Stage.COMPUTE, register_id=ConfigRegister.PAD_VALUE, value=77),
        Load(memory_id=Memory.INP, dram_base=Tiny.INPUTS // 4, y_size=1, x_size=1, x_pad_0=1),
        Gemm(**ONE, src_out=1),
        _BYTES.changed(sram_base=2, x_size=1, x_pad_1=1),
    ],
    "pads of weights and accumulators": [
        Load(memory_id=Memory.WGT, dram_base=Tiny.KNOWN // 16, y_size=1, x_size=1, y_pad_0=1),
        Load(memory_id=Memory.ACC, dram_base=Tiny.KNOWN // 16, y_size=1, x_size=1, y_pad_0=1),
        Gemm(**ONE | {"iter_in": 2}, src_in=1, wgt_in=1),
    ],
    "digits of a sum beside that sum": [
        *_STORED, _INPUTS_FROM_OUT, Gemm(uop_bgn=15, uop_end=16, iter_out=1, iter_in=1)
    ],
}  # fmt: skip


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", SMALL)
def test_small_programs_do_to_symbols_what_they_do_to_bytes(name: str, every: int) -> None:
    """Also where lanes are known beside some that are not."""
    tiny = Tiny(every)
    tiny.both.run([*tiny.ready(), *SMALL[name], *_STORED])
    stored = tiny.both.dram.read(0, np.arange(tiny.NOTHING, tiny.NOTHING + 16), "the test")
    assert (stored >= CONSTANTS).any()
    tiny.both.check(tiny.NOTHING + 16)


@pytest.mark.parametrize("rounding", [0, 1, 2, 3, -1])
def test_roundings_of_a_requantization(rounding: int) -> None:
    tiny = Tiny()
    register = Config(stage=Stage.COMPUTE, register_id=ConfigRegister.RQ_ROUNDING, value=rounding)
    operands = tiny.load(Memory.ACC, tiny.KNOWN, 3, at=1)
    requantize = Alu(uop_bgn=15, uop_end=16, iter_out=1, iter_in=1, alu_op=AluOp.RQ)
    program: list[Insn] = [*tiny.ready(), operands, register, requantize]
    if rounding in (0, 1, 2):
        tiny.both.run([*program, _OUT.changed(x_size=1)])
        tiny.both.check(tiny.NOTHING + 4)
        return
    for one in program[:-1]:
        tiny.run(one, 0)
    with pytest.raises(NotProved, match=f"RQ_ROUNDING={rounding}, which is none"):
        tiny.run(requantize, 0)


@pytest.mark.parametrize("every", [1, 2])
def test_no_lane_is_shifted_by_one_that_varies(every: int) -> None:
    """Nor any other one by the same instruction."""
    tiny = Tiny(every)
    for one in (*tiny.ready(), _CLEAR, _BYTES):
        tiny.run(one, 0)
    with pytest.raises(Unsupported, match="ALU SHR by activations"):
        tiny.run(_add(12, 13).changed(alu_op=AluOp.SHR), 0)


def test_regions_of_a_device_without_them_are_parts_of_its_memory() -> None:
    drawn = Drawn(VTA, 0)
    drawn.both.dram.constants(1, bytes(64))
    drawn.both.machine.run(Load(memory_id=Memory.INP, region=1, x_size=1, y_size=1), 0)


def test_bytes_of_which_a_part_is_no_program() -> None:
    """One of a tile's that nobody wrote, that another step has as uint8, or that varies."""
    tiny = Tiny()
    known = tiny.both.dram.read(0, np.arange(tiny.KNOWN, tiny.KNOWN + 16), "the test")
    symbol = tiny.both.dram.read(0, np.array([tiny.INPUTS]), "the test")
    assert symbol[0] == CONSTANTS
    place, last = np.arange(tiny.NOTHING, tiny.NOTHING + 16), np.array([tiny.NOTHING + 15])

    def loads(memory: Memory, last_one: Integers) -> None:
        tiny.both.dram.write(0, place, known, "the test", NOBODY)
        tiny.both.dram.write(0, last, last_one, "the test", NOBODY)
        tiny.run(tiny.load(memory, tiny.NOTHING, 1), 0)

    nobody = np.array([NOBODY])
    for memory in (Memory.WGT, Memory.ACC):
        with pytest.raises(NotProved, match="nobody wrote"):
            loads(memory, nobody)
        with pytest.raises(Unsupported, match="levels of uint8"):
            loads(memory, flipped(symbol))
    with pytest.raises(Unsupported, match="LOAD ACC of activations"):
        loads(Memory.ACC, symbol)
    for instruction in tiny.ready():
        tiny.run(instruction, 0)
    tiny.run(_CLEAR, 0)
    loads(Memory.WGT, symbol)
    tiny.run(Gemm(**ONE), 0)
    sources, functions = tiny.both.machine.lanes.resolve(np.array([3]))
    inputs = tiny.both.bytes.data[tiny.INPUTS : tiny.INPUTS + 4].view(np.int8).astype(int)
    weights = np.append(tiny.known[12:15].view(np.int8), inputs[0])
    assert tiny.both.values.value(int(sources[0]), int(functions[0])) == inputs @ weights


def test_only_what_a_computation_wrote_is_stored() -> None:
    """The last tile, too; loads and products that only clear take it back."""
    tiny = Tiny()
    last = {"uop_bgn": 0, "uop_end": 1, "iter_out": 2, "iter_in": 1, "dst_out": 255}
    store = _OUT.changed(x_size=1, sram_base=255)
    for instruction in (*tiny.ready(), Gemm(**last, overwrite=1)):
        tiny.run(instruction, 0)
    tiny.run(Alu(**last, alu_op=AluOp.ADD, use_imm=1), 0)
    tiny.run(store, 0)
    with pytest.raises(NotProved, match="no product"):
        tiny.run(store.changed(x_size=2), 0)
    for taken in (
        Gemm(**last, reset=1),
        _BYTES.changed(x_size=1, sram_base=255),
        tiny.load(Memory.ACC, tiny.KNOWN, 1, at=255),
    ):
        tiny.run(taken, 0)
        with pytest.raises(NotProved, match="no product"):
            tiny.run(store, 0)
        tiny.run(Alu(**last, alu_op=AluOp.ADD, use_imm=1), 0)
        tiny.run(store, 0)
