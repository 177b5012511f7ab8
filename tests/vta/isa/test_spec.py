# SPDX-License-Identifier: Apache-2.0
"""The spec against ISA bits written down by hand, and against itself for every device."""

from __future__ import annotations

import pytest

from loadstone.isa.codec import decode, encode
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.registers import BLOCKS, NATIVE
from loadstone.vta.isa.spec import (
    CONFIG_DEFAULTS,
    INSN_BYTES,
    INSTRUCTIONS,
    MICRO_OPS,
    STAGE_REGISTERS,
    ConfigRegister,
    Stage,
    layout,
    table_of,
)
from tests.random_insns import CONFIGS, random_stream

#: Profile `vta` at the default sizes, start:width, as VTA's hardware has it.
FLAGS = "opcode 0:3 pop_prev 3:1 pop_next 4:1 push_prev 5:1 push_next 6:1"
LOOPS = "reset 7:1 uop_bgn 8:13 uop_end 21:14 iter_out 35:14 iter_in 49:14"
MEMORY = (
    "memory_id 7:3 sram_base 10:16 dram_base 26:32 region 58:3 "
    "y_size 64:16 x_size 80:16 x_stride 96:16"
)
BITS = {
    "LOAD": f"{FLAGS} {MEMORY} y_pad_0 112:4 y_pad_1 116:4 x_pad_0 120:4 x_pad_1 124:4",
    "STORE": f"{FLAGS} {MEMORY} operands 112:11 operand_step 123:1 requantize 124:1",
    "GEMM": f"{FLAGS} {LOOPS} overwrite 63:1 dst_out 64:11 dst_in 75:11 src_out 86:11 src_in "
    "97:11 wgt_out 108:10 wgt_in 118:10",
    "ALU": f"{FLAGS} {LOOPS} dst_out 64:11 dst_in 75:11 src_out 86:11 src_in 97:11 alu_op "
    "108:3 use_imm 111:1 imm 112:16",
    "FINISH": FLAGS,
    "CONFIG": f"{FLAGS} stage 7:3 register_id 10:6 value 64:32",
}
DEFAULT = {"lu": 13, "li": 11, "lw": 10, "la": 11}


@pytest.mark.parametrize("name", BITS)
def test_the_bits_of_the_default_vta(name: str) -> None:
    insn = next(i for i in INSTRUCTIONS if i.name == name)
    placed = layout(insn.fields, DEFAULT)
    assert " ".join(f"{n} {p.start}:{p.width}" for n, p in placed.items()) == BITS[name]


def test_the_bits_of_a_micro_op() -> None:
    assert {n: (p.start, p.width) for n, p in layout(MICRO_OPS, DEFAULT).items()} == {
        "dst": (0, 11),
        "src": (11, 11),
        "wgt": (22, 10),
    }


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_no_field_overlaps_or_straddles_a_word(config: HwConfig) -> None:
    for insn in INSTRUCTIONS:
        used: set[int] = set()
        for name, place in layout(insn.fields, config.widths).items():
            bits = set(range(place.start, place.start + place.width))
            assert not bits & used, (insn.name, name)
            assert place.start // 64 == max(bits) // 64, (insn.name, name)
            assert max(bits) < 128
            used |= bits
    assert sum(place.width for place in layout(MICRO_OPS, config.widths).values()) <= 32


def test_enumerated_values_are_0_1_2_and_fit() -> None:
    for insn in INSTRUCTIONS:
        for place in layout(insn.fields, DEFAULT).values():
            if place.field.enum is not None:
                assert [int(e) for e in place.field.enum] == list(range(len(place.field.enum)))
                assert len(place.field.enum) - 1 <= place.high


def test_registers_have_defaults_and_stages() -> None:
    assert set(CONFIG_DEFAULTS) == set(ConfigRegister)
    assert set(STAGE_REGISTERS) == set(Stage)


def test_register_blocks_do_not_overlap() -> None:
    for table in BLOCKS.values():
        taken = [
            r.offset + k * r.stride + part
            for r in table
            for k in range(r.count)
            for part in range(0, max(4, r.stride if r.count > 1 else 4), 4)
        ]
        assert len(taken) == len(set(taken))
        assert all(offset % 4 == 0 for offset in taken)
    assert max(r.offset + r.count * r.stride for r in NATIVE) <= 4096


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_the_table_of_a_device_has_every_field_where_layout_has_it(config: HwConfig) -> None:
    """VTA's instructions are those of an InstructionTable: its general codec and checker take
    them."""
    table = table_of(config.widths)
    for insn in INSTRUCTIONS:
        name = insn.name
        placed = layout(insn.fields, config.widths)
        assert placed.pop("opcode").width == table.opcode_bits
        assert table.places[name] == {field: place.start for field, place in placed.items()}
        assert table.sizes[name] == INSN_BYTES
    code = encode_stream(random_stream(config, 100, seed=3), config).tobytes()
    assert encode(table, decode(table, code)) == code
