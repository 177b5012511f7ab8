# SPDX-License-Identifier: Apache-2.0
"""Bytes of instructions and back, one by one and in columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadstone.errors import EncodingError
from loadstone.isa.codec import (
    At,
    TableInsn,
    check_fields,
    decode,
    decode_columns,
    encode,
    encode_columns,
    instruction_offsets,
)
from loadstone.isa.table import InstructionTable
from loadstone.isa.text import assemble, disassemble
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.device.instruction_table import instruction_table
from tests.isa import gather
from tests.isa.tables import NPU, random_insns, tables
from tests.passes.networks import plugins


@given(tables(), st.integers(0, 2**32))
def test_round_trip(table: InstructionTable, seed: int) -> None:
    insns = random_insns(table, 20, seed)
    code = encode(table, insns)
    assert decode(table, code) == insns
    sizes = [table.sizes[insn.name] for insn in insns]
    assert instruction_offsets(table, code).tolist() == [sum(sizes[:k]) for k in range(20)]


@given(tables(), st.integers(0, 2**32))
def test_columns_are_the_same(table: InstructionTable, seed: int) -> None:
    insns = random_insns(table, 20, seed)
    found = decode_columns(table, encode(table, insns))
    assert sorted(int(p) for positions, _ in found.values() for p in positions) == list(range(20))
    for name, (positions, columns) in found.items():
        chosen = [insns[int(p)] for p in positions]
        rows = [{f: int(c[k]) for f, c in columns.items()} for k in range(len(chosen))]
        assert rows == [dict(insn.fields) for insn in chosen]
        if columns:
            assert encode_columns(table, name, columns).tobytes() == encode(table, chosen)


def test_bytes_by_hand() -> None:
    insn = TableInsn("copy", {"address": 0x12, "stride": 0x2211, "rows": 3, "row": 0xABC})
    assert encode(NPU, [insn]).hex() == "01" + "1200000000" + "1122" + "03c0ab00"
    named = TableInsn("copy", {"address": At("x", 64), "rows": 1})
    assert encode(NPU, [named])[1:6] == bytes(5)


@pytest.mark.parametrize(
    ("insn", "said"),
    [
        (TableInsn("jump", {}), "^npu has no instruction 'jump'; it has copy, store, work, end$"),
        (
            TableInsn("copy", {"rows": 1, "size": 1}),
            "^copy has no field 'size'; it has address, stride, rows, row$",
        ),
        (TableInsn("end", {"size": 1}), "^end has no field 'size'; it has none$"),
        (TableInsn("copy", {"rows": 4096}), r"rows=4096 is not in \[1, 4095\]"),
        (TableInsn("copy", {}), "rows=0"),
        (TableInsn("work", {"mode": 3}), "work.mode=3 is unknown; known are "),
        (TableInsn("work", {"gain": -201}), "gain=-201"),
        (TableInsn("work", {"gain": 256}), r"gain=256 is not in \[-200, 255\]"),
        (TableInsn("copy", {"rows": At("x")}), "rows is no address"),
    ],
)
def test_field_checker(insn: TableInsn, said: str) -> None:
    with pytest.raises(EncodingError, match=said):
        check_fields(NPU, insn)
    with pytest.raises(EncodingError, match=said):
        encode(NPU, [insn])


def test_limits_are_values_as_well() -> None:
    for insn in (
        TableInsn("copy", {"rows": 1}),
        TableInsn("copy", {"rows": 4095, "address": At("x", 8)}),
        TableInsn("work", {"gain": -200, "mode": 0}),
        TableInsn("work", {"gain": 255, "mode": 2}),
    ):
        assert check_fields(NPU, insn) is NPU.by_name[insn.name]


def test_what_a_table_forbids_is_no_instruction() -> None:
    """`gather` is none where (begin+1>end); a field that is not named is 0."""
    table = gather.table()
    form = table.by_name["gather"]
    for sound in ({"end": 1}, {"begin": 2, "end": 3}):
        assert check_fields(table, TableInsn("gather", sound)) is form
    for begin, end in ((3, 3), (2, 1), (0, 0)):
        said = rf"^gather: end={end}, begin={begin}: it is no instruction where \(begin\+1>end\) is"
        with pytest.raises(EncodingError, match=said):
            check_fields(table, TableInsn("gather", {"begin": begin, "end": end}))
    with pytest.raises(EncodingError, match="^gather: end=0, begin=0: it is no instruction"):
        check_fields(table, TableInsn("gather", {"end": 0}))


def test_an_address_by_name_is_0_to_what_a_table_forbids() -> None:
    forms = tuple(replace(f, never=("address",) if f.name == "copy" else ()) for f in NPU.forms)
    table = replace(NPU, forms=forms)
    for address in (At("x"), At("x", 16), 0):
        check_fields(table, TableInsn("copy", {"rows": 1, "address": address}))
    with pytest.raises(EncodingError, match="^copy: address=1: it is no instruction where address"):
        check_fields(table, TableInsn("copy", {"rows": 1, "address": 1}))


def test_what_a_device_lacks_is_said_instead_of_what_it_has() -> None:
    forms = tuple(replace(form, needs="moves" if form.name == "copy" else "") for form in NPU.forms)
    poor = replace(NPU, forms=forms).having()
    said = "^npu has no instruction 'copy'; that needs capability moves, which the device lacks$"
    with pytest.raises(EncodingError, match=said):
        check_fields(poor, TableInsn("copy", {"rows": 1}))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("03000000", "instruction 0: opcode 3 is unknown; known are copy 1, "),
        ("ff000000" + "01000000", "instruction 1: copy has 12 bytes, 4 left"),
        ("ff000001", "instruction 0: end has reserved bit 24 set; it must be 0"),
        ("01" + "00" * 11, "rows=0"),
        ("ff", "end has 4 bytes, 1 left"),
    ],
)
def test_refuses_bytes(code: str, said: str) -> None:
    with pytest.raises(EncodingError, match=said):
        decode(NPU, bytes.fromhex(code))


def test_columns_keep_limits() -> None:
    for columns, wrong in (({"rows": np.array([1, 0])}, 1), ({"row": np.array([1, 1])}, 0)):
        with pytest.raises(EncodingError, match=rf"instruction {wrong}: copy.rows=0 is not in"):
            encode_columns(NPU, "copy", columns)
    with pytest.raises(EncodingError, match="instruction 7: copy.rows=0"):
        encode_columns(NPU, "copy", {"rows": np.array([1, 0])}, np.array([3, 7]))


#: By target, instructions as text, and the bytes of each.
CODE = {
    "systolic": (
        ("mvin address=512 stride=8 rows=8 row=64 push_next=1", "01000200000800000800000400010000"),
        ("preload row=64 pop_prev=1", "0340002000000000"),
        ("compute step=1 rows=6 target=3 push_next=1", "040000100060000003002000"),
        ("scale zero_point=5 low=-128 high=127 rounding=double", "0500005000e07f00"),
        ("nop push_prev=1 pop_next=1", "070c0000"),
    ),
    "vtaq-tiny": (
        (
            "LOAD memory_id=inp region=2 y_size=4 x_size=4 x_stride=4 y_pad_0=1 x_pad_0=1",
            "00010000000000080400040004000101",
        ),
        (
            "GEMM pop_prev=1 uop_bgn=1 uop_end=4 iter_out=4 iter_in=4 dst_out=4 src_out=6",
            "0a010408000200000400060000000000",
        ),
        (
            "ALU push_next=1 uop_end=1 iter_out=1 iter_in=16 alu_op=shr use_imm=1 imm=6",
            "4400010200080000000000006b000000",
        ),
        (
            "STORE pop_prev=1 memory_id=out dram_base=256 region=2 y_size=1 x_size=16 x_stride=16",
            "09020000040000080100100010000000",
        ),
        ("FINISH pop_next=1", "13000000000000000000000000000000"),
    ),
    "vta-pynq": (
        (
            "LOAD memory_id=inp region=2 y_size=4 x_size=4 x_stride=4 y_pad_0=1 x_pad_0=1",
            "00010000000000080400040004000101",
        ),
        (
            "GEMM pop_prev=1 uop_bgn=1 uop_end=4 iter_out=4 iter_in=4 dst_out=4 src_out=6",
            "0a018000200008000400800100000000",
        ),
        (
            "ALU push_next=1 uop_end=1 iter_out=1 iter_in=16 alu_op=shr use_imm=1 imm=6",
            "44002000080020000000000000b00600",
        ),
        (
            "STORE pop_prev=1 memory_id=out dram_base=256 region=2 y_size=1 x_size=16 x_stride=16",
            "09020000040000080100100010000000",
        ),
        ("FINISH pop_next=1", "13000000000000000000000000000000"),
    ),
}


@pytest.mark.parametrize("target", CODE)
def test_text_in_bytes_out_and_text_again(target: str) -> None:
    if target == "systolic":
        accelerator = plugins().backends[target](dim=8, tokens=1).accelerator
        assert accelerator is not None
        table = accelerator.table
    else:
        table = instruction_table(load_config(target))
    text = "".join(f"{line}\n" for line, _ in CODE[target])
    insns = assemble(table, text)
    assert [encode(table, [insn]).hex() for insn in insns] == [code for _, code in CODE[target]]
    assert disassemble(table, decode(table, encode(table, insns))) == text
