# SPDX-License-Identifier: Apache-2.0
"""Bytes <-> fields: round trips in both forms, against VTA's own programs, and every refusal by
name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadstone.errors import EncodingError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import (
    Alu,
    Config,
    Depthwise,
    Finish,
    Gemm,
    Insn,
    Load,
    MicroOp,
    Store,
    decode,
    decode_stream,
    decode_uops,
    encode,
    encode_stream,
    encode_uops,
)
from loadstone.vta.isa.insn import stage_of
from loadstone.vta.isa.spec import (
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
    layout,
    table_of,
)
from tests.random_insns import CONFIGS, any_insn, random_stream
from tests.repeat import times

VTA = load_config("vta-pynq")
NAMES = {
    c.__name__: c
    for c in (
        *(Alu, Config, Depthwise, Finish, Gemm, Load, Store),
        *(AluOp, ConfigRegister, Memory, Stage),
    )
}
each_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)


@given(st.one_of([st.tuples(st.just(config), any_insn(config)) for config in CONFIGS]))
@settings(max_examples=times(300, 1000), deadline=None)
def test_one_instruction_there_and_back(drawn: tuple[HwConfig, Insn]) -> None:
    config, insn = drawn
    encoded = encode(insn, config)
    assert decode(encoded, config) == insn
    assert eval(repr(insn), NAMES) == insn
    assert int.from_bytes(encoded, "little") == sum(
        (value & ((1 << place.width) - 1)) << place.start
        for (name, place), value in zip(
            layout(insn.SPEC.fields, config.widths).items(),
            [insn.SPEC.opcode, *insn.values().values()],
            strict=True,
        )
    )


@each_config
def test_a_stream_there_and_back_and_equal_to_single_objects(config: HwConfig) -> None:
    stream = random_stream(config, 3000, seed=1)
    encoded = encode_stream(stream, config)
    decoded = decode_stream(encoded, config)
    for op in Opcode:
        np.testing.assert_array_equal(decoded.index[op], stream.index[op])
        for name, values in stream.columns[op].items():
            np.testing.assert_array_equal(decoded.columns[op][name], values)
    insns = list(stream)
    assert list(decoded) == insns
    assert b"".join(encode(insn, config) for insn in insns) == encoded.tobytes()
    np.testing.assert_array_equal(encode_stream(insns, config), encoded)


def test_every_measured_program_encodes_to_its_bytes(vectors: list[Path]) -> None:
    for path in vectors:
        insns = np.load(path)["insns"]
        stream = decode_stream(insns, VTA)
        np.testing.assert_array_equal(encode_stream(stream, VTA), insns, err_msg=path.name)
        np.testing.assert_array_equal(
            encode_stream([eval(repr(insn), NAMES) for insn in stream], VTA),
            insns,
            err_msg=path.name,
        )


def test_repr_leaves_zeros_out_and_names_values() -> None:
    assert (
        repr(Load(memory_id=Memory.INP, x_size=4, push_next=1))
        == "Load(push_next=1, memory_id=Memory.INP, x_size=4)"
    )
    assert repr(Alu(imm=-1)) == "Alu(alu_op=AluOp.MIN, imm=-1)"
    assert repr(Finish()) == "Finish()"
    assert repr(Load(memory_id=9)) == "Load(memory_id=9)"  # not encodable, and yet printable


# --- refusals -------------------------------------------------------------------------------------
def limits() -> list[tuple[Insn, str]]:
    """Each field of each instruction, one beyond each of its limits."""
    found = []
    for form in table_of(VTA.widths).forms:
        cls = NAMES[form.name.capitalize()]
        for field in form.fields:
            known = ", ".join(f"{name} {k}" for k, name in enumerate(field.values))
            limits = f"does not fit {field.width} bits [{field.lowest}, {field.highest}]"
            wrong = f"is unknown; known are {known}" if known else limits
            for value in (field.lowest - 1, field.highest + 1):
                insn = cls(**{field.name: value})
                found.append((insn, f"{form.name}.{field.name}={value} {wrong}"))
    return found


def test_a_field_beyond_its_limits_is_named() -> None:
    assert len(limits()) > 100
    for insn, message in limits():
        with pytest.raises(EncodingError) as caught:
            encode(insn, VTA)
        assert str(caught.value) == message
        with pytest.raises(EncodingError) as caught:
            encode_stream([Finish(), insn], VTA)
        assert str(caught.value) == f"instruction 1: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            bytes([3]) + bytes(14),
            "instruction stream of 15 bytes is no multiple of 16: cut after 0 instructions",
        ),
        (
            bytes([7]) + bytes(15),
            "instruction 0: opcode 7 is unknown; known are LOAD 0, STORE 1, GEMM 2, FINISH "
            "3, ALU 4, CONFIG 5, DEPTHWISE 6",
        ),
        (
            bytes([4]) + bytes(12) + bytes([0x60]) + bytes(2),
            "instruction 0: ALU.alu_op=6 is unknown; known are min 0, ",
        ),
        (
            bytes([5, 2]) + bytes(14),
            "instruction 0: CONFIG.stage=4 is unknown; known are load 0, compute 1, store 2",
        ),
        (
            bytes(16) + bytes([3]) + bytes(14) + bytes([0x80]),
            "instruction 1: FINISH has reserved bit 127 set; it must be 0",
        ),
        (bytes([0x83]) + bytes(15), "instruction 0: FINISH has reserved bit 7 set; it must be 0"),
        (
            bytes(7) + bytes([0x80]) + bytes(8),
            "instruction 0: LOAD has reserved bit 63 set; it must be 0",
        ),
        (
            bytes([4]) + bytes(6) + bytes([0x80]) + bytes(8),
            "instruction 0: ALU has reserved bit 63 set; it must be 0",
        ),
    ],
)
def test_bytes_that_are_no_instruction(data: bytes, message: str) -> None:
    with pytest.raises(EncodingError) as caught:
        decode_stream(data, VTA)
    assert str(caught.value).startswith(message)


@given(st.binary(min_size=16, max_size=16), st.sampled_from(CONFIGS))
@settings(max_examples=500)
def test_random_bytes_decode_to_what_encodes_to_them_or_are_refused(
    data: bytes, config: HwConfig
) -> None:
    try:
        insn = decode(data, config)
    except EncodingError:
        return
    assert encode(insn, config) == data


def test_decode_takes_exactly_one() -> None:
    with pytest.raises(EncodingError, match="an instruction has 16 bytes, not 32"):
        decode(bytes(32), VTA)
    assert len(decode_stream(b"", VTA)) == 0
    assert list(decode_stream(np.zeros((0, 16), np.uint8), VTA)) == []


# --- what an instruction asks for -----------------------------------------------------------------
def test_stages() -> None:
    loads = {m: stage_of(Load(memory_id=m)) for m in Memory if m is not Memory.OUT}
    assert [m for m, stage in loads.items() if stage is Stage.LOAD] == [
        Memory.WGT,
        Memory.INP,
        Memory.WGT_4BIT,
        Memory.WGT_PLANES,
    ]
    assert {
        stage for m, stage in loads.items() if m in (Memory.UOP, Memory.ACC, Memory.ACC_8BIT)
    } == {Stage.COMPUTE}
    assert stage_of(Store()) is Stage.STORE
    assert [stage_of(Config(stage=s)) for s in Stage] == list(Stage)
    assert {stage_of(insn) for insn in (Gemm(), Alu(), Finish())} == {Stage.COMPUTE}


def test_needs() -> None:
    assert list(Gemm().needs()) == []
    assert list(Alu(alu_op=AluOp.RQ).needs()) == [("ALU.alu_op=RQ", Capability.REQUANTIZE)]
    assert list(Load(memory_id=Memory.ACC_8BIT, region=2).needs()) == [
        ("LOAD.memory_id=ACC_8BIT", Capability.LOAD_ACC8),
        ("LOAD.region=2", Capability.REGIONS),
    ]
    assert list(Config().needs()) == [("CONFIG", Capability.CONFIG)]


# --- micro-ops ------------------------------------------------------------------------------------
@each_config
def test_micro_ops_there_and_back(config: HwConfig) -> None:
    rng = np.random.default_rng(2)
    high = [1 << config.la, 1 << max(config.la, config.li), 1 << config.lw]
    table = np.concatenate([rng.integers(0, high, (1000, 3)), [[0, 0, 0], np.array(high) - 1]])
    encoded = encode_uops(table, config)
    np.testing.assert_array_equal(decode_uops(encoded.tobytes(), config), table)
    np.testing.assert_array_equal(
        encode_uops([MicroOp(*row) for row in table.tolist()], config), encoded
    )
    for column, name in enumerate(("dst", "src", "wgt")):
        with pytest.raises(
            EncodingError,
            match=rf"^micro-op 1: {name}={high[column]} does not fit \d+ bits \[0, "
            rf"{high[column] - 1}\]$",
        ):
            encode_uops(
                np.array([[0, 0, 0], [high[k] if k == column else 0 for k in range(3)]]), config
            )


def test_micro_op_bytes_are_whole() -> None:
    with pytest.raises(EncodingError, match="micro-op table of 6 bytes is not a multiple of 4"):
        decode_uops(bytes(6), VTA)
    assert encode_uops([MicroOp(1, 2, 3)], VTA).tobytes() == (1 | 2 << 11 | 3 << 22).to_bytes(
        4, "little"
    )
    assert encode_uops([], VTA).shape == (0,)
