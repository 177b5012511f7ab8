# SPDX-License-Identifier: Apache-2.0
"""validate.py and runtime/validate.c: one verdict on each class of bugs, on shapes, on
configurations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.errors import ArtifactError, ConfigError
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import (
    Alu,
    Config,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    decode,
    decode_stream,
    encode,
    encode_stream,
)
from loadstone.vta.isa.spec import AluOp, Capability, ConfigRegister, Memory, Opcode, Stage, layout
from tests.sample_model import INTEGER_DEVICES, copy_model, dense_model, with_fingerprint
from tests.validated import (
    CONFIG,
    CONFIG_ZP,
    GEMM,
    LOAD_ACC,
    LOAD_INP,
    LOAD_UOP,
    LOAD_WGT,
    RESET,
    RQ,
    STORE,
    Program,
    both,
    changed,
    poke,
    replace,
    vector_model,
    with_program,
)
from tests.vta.validator.validate import STATUS, validate


def test_the_program_under_test_is_what_these_tests_think() -> None:
    program = list(decode_stream(dense_model(CONFIG).artifact.programs[0].instructions, CONFIG))
    kinds = [Load, Load, Load, Gemm, Gemm, Load, Config, Config, Config, Alu, Store, Finish]
    assert [type(i) for i in program] == kinds
    assert changed(lambda _: None) == ("OK", 0)


def test_class_01_shift_overflow_on_wide_addresses() -> None:
    """2^32 - 1 tiles of 1024 bytes do not fit 32 bits, nor does the sum with the rows."""
    wide = load_config("vtaq-1x32x32")
    model = dense_model(wide).artifact
    for base in (0xFFFFFFFF, 0x00400000, 0x003FFFFF, 1 << 31):
        program = list(decode_stream(model.programs[0].instructions, wide))
        program[LOAD_WGT] = dataclasses.replace(program[LOAD_WGT], dram_base=base)  # type: ignore[type-var]
        assert both(with_program(model, encode_stream(program, wide).tobytes())) == (
            STATUS["DRAM"],
            LOAD_WGT,
        )


def test_class_02_an_access_past_the_last_instruction() -> None:
    """The stream is cut before its end: what follows is never read."""
    instructions = dense_model(CONFIG).artifact.programs[0].instructions
    for count in range(1, len(instructions) // 16):
        status, instruction = both(
            with_program(dense_model(CONFIG).artifact, instructions[: 16 * count])
        )
        assert (status, instruction) == (STATUS["FINISH"], count - 1)


def test_class_03_length_arithmetic() -> None:
    """The last row is where the extent is decided: one tile more than fits."""
    model = dense_model(CONFIG).artifact
    assert changed(replace(STORE, y_size=2, x_size=1, x_stride=3)) == ("OK", 0)
    assert changed(replace(STORE, y_size=2, x_size=1, x_stride=4)) == ("DRAM", STORE)
    assert changed(replace(STORE, y_size=65535, x_size=65535, x_stride=65535)) == ("DRAM", STORE)
    assert changed(replace(STORE, dram_base=1)) == ("DRAM", STORE)
    assert model.regions[2].size_bytes == 4 * 16


def test_class_04_uninitialised_state_that_bypasses_a_bound() -> None:
    """Micro-ops that this program did not load have no indices to check: whatever an earlier
    program left behind is not used."""

    def forget(program: Program) -> None:
        program[LOAD_UOP] = Load(memory_id=Memory.UOP)

    assert changed(forget) == ("UOP", RESET)
    assert changed(replace(LOAD_UOP, x_size=1)) == ("UOP", RQ)
    model = dense_model(CONFIG).artifact
    again = dataclasses.replace(
        model,
        steps=(
            *model.steps,
            ProgramStep("second", encode_stream(without_uops(model), CONFIG).tobytes()),
        ),
    )
    status, step, instruction = device.validate(again)
    assert (status, step, instruction) == (STATUS["UOP"], 3, RESET)


def without_uops(model: Artifact) -> Program:
    program = list(decode_stream(model.programs[0].instructions, CONFIG))
    program[LOAD_UOP] = Load(memory_id=Memory.UOP)
    return program


def test_constants_may_end_within_a_micro_op() -> None:
    """Its first bytes are no micro-op: two more of them is what is not there."""
    model = dense_model(CONFIG).artifact
    (number,) = (k for k, r in enumerate(model.regions) if r.data)
    whole = model.regions[number]
    longer = dataclasses.replace(
        whole, data=whole.data + b"\xff\xff", size_bytes=whole.size_bytes + 2
    )
    regions = (*model.regions[:number], longer, *model.regions[number + 1 :])
    assert both(dataclasses.replace(model, regions=regions)) == (0, 0)


def test_class_05_an_index_masked_wider_than_its_table() -> None:
    """Regions have 3 bits, the plan has four: the fifth is not there; CONFIG's register has 6 bits,
    memory 3."""
    for region in range(3, 8):  # 3 is the host's own
        assert changed(replace(LOAD_INP, region=region)) == ("DRAM", LOAD_INP)
    for field, value in (("memory_id", 6), ("memory_id", 7)):
        raw = bytearray(dense_model(CONFIG).artifact.programs[0].instructions)
        poke(raw, LOAD_INP, Opcode.LOAD, field, value)
        assert both(with_program(dense_model(CONFIG).artifact, bytes(raw))) == (
            STATUS["INSTRUCTION"],
            LOAD_INP,
        )
    for field, value in (("register_id", 5), ("register_id", 63), ("stage", 3), ("stage", 7)):
        raw = bytearray(dense_model(CONFIG).artifact.programs[0].instructions)
        poke(raw, CONFIG_ZP, Opcode.CONFIG, field, value)
        assert both(with_program(dense_model(CONFIG).artifact, bytes(raw))) == (
            STATUS["INSTRUCTION"],
            CONFIG_ZP,
        )


def test_class_06_an_unimplemented_operation_let_through() -> None:
    model = dense_model(CONFIG).artifact
    for at, opcode, field, value in [
        (GEMM, Opcode.GEMM, "opcode", 6),
        (GEMM, Opcode.GEMM, "opcode", 7),
        (RQ, Opcode.ALU, "alu_op", 6),
    ]:
        raw = bytearray(model.programs[0].instructions)
        poke(raw, at, opcode, field, value)
        assert both(with_program(model, bytes(raw))) == (STATUS["INSTRUCTION"], at)
    lesser = dataclasses.replace(CONFIG, capabilities=Capability.CONFIG | Capability.REGIONS)
    assert both(with_fingerprint(model, lesser.fingerprint())) == (
        STATUS["INSTRUCTION"],
        RQ,
    )
    least = dataclasses.replace(CONFIG, capabilities=Capability.REGIONS)
    assert both(with_fingerprint(model, least.fingerprint())) == (
        STATUS["INSTRUCTION"],
        CONFIG_ZP,
    )
    assert changed(replace(GEMM, overwrite=1, reset=1)) == ("INSTRUCTION", GEMM)


def test_class_07_the_wrong_buffers_index() -> None:
    """Each access is measured with its own region and its own rights."""
    assert changed(replace(STORE, region=1)) == ("DRAM", STORE)  # the device only reads it
    assert changed(replace(STORE, region=0)) == ("DRAM", STORE)  # constants
    assert changed(replace(LOAD_INP, region=2)) == ("DRAM", LOAD_INP)  # the device only writes it
    assert changed(replace(LOAD_WGT, region=1)) == ("DRAM", LOAD_WGT)  # too small for weights


def test_class_08_size_underflow() -> None:
    """y_size - 1, iter - 1 and uop_end - uop_bgn of nothing are not huge: nothing is refused."""
    assert changed(replace(LOAD_INP, y_size=0)) == ("INSTRUCTION", LOAD_INP)
    assert changed(replace(LOAD_INP, x_size=0)) == ("INSTRUCTION", LOAD_INP)
    for at in (GEMM, RQ):
        assert changed(replace(at, iter_out=0)) == ("INSTRUCTION", at)
        assert changed(replace(at, iter_in=0)) == ("INSTRUCTION", at)
        assert changed(replace(at, uop_bgn=2, uop_end=2)) == ("UOP", at)
        assert changed(replace(at, uop_bgn=2, uop_end=1)) == ("UOP", at)


def test_class_09_a_scalar_operand_rule() -> None:
    """RQ has no immediate; with one it would take its operand tiles from nowhere."""
    assert changed(replace(RQ, use_imm=1)) == ("INSTRUCTION", RQ)
    assert changed(replace(RQ, alu_op=AluOp.ADD, use_imm=1, imm=-5)) == ("OK", 0)
    assert changed(replace(RQ, alu_op=AluOp.ADD, use_imm=1, src_out=2047)) == (
        "SRAM",
        RQ,
    )  # real hardware reads src all the same


def test_class_10_an_error_path_that_keeps_what_it_took() -> None:
    """A session that is refused gives back all its memory: a thousand of them do not use up the
    pool."""
    model = with_program(dense_model(CONFIG).artifact, encode(Finish(push_next=1), CONFIG))
    with device.open("null") as dev:
        for _ in range(1000):
            with pytest.raises(ArtifactError, match="tokens of a program"):
                dev.load(model)
        dev._sessions.clear()
        with dev.load(dense_model(CONFIG).artifact) as session:
            session.execute()


def test_class_11_element_size_accounting() -> None:
    """Tiles of each memory have their own size: the same numbers fit as INP and not as ACC."""
    size = dense_model(CONFIG).artifact.regions[1].size_bytes  # 64: four tiles of INP, one of ACC
    assert size == 4 * CONFIG.tile_bytes(Memory.INP) == CONFIG.tile_bytes(Memory.ACC)
    assert changed(replace(LOAD_INP, x_size=4)) == ("OK", 0)
    assert changed(replace(LOAD_INP, x_size=5)) == ("DRAM", LOAD_INP)
    assert changed(replace(LOAD_ACC, region=1, dram_base=0, x_size=1)) == ("OK", 0)
    assert changed(replace(LOAD_ACC, region=1, dram_base=0, x_size=2)) == ("DRAM", LOAD_ACC)
    assert changed(
        replace(LOAD_ACC, memory_id=Memory.ACC_8BIT, region=1, dram_base=0, x_size=4)
    ) == ("OK", 0)


def test_class_12_chained_buffers() -> None:
    """Nothing that the device writes is ever read as something that was checked: micro-ops come
    from constants alone."""
    model = dense_model(CONFIG).artifact
    packed = dataclasses.replace(model.regions[1], device_writes=True)
    chained = dataclasses.replace(model, regions=(model.regions[0], packed, *model.regions[2:]))
    assert changed(replace(LOAD_UOP, region=1, dram_base=0), chained) == ("UOP", LOAD_UOP)
    assert changed(replace(LOAD_UOP, region=1, dram_base=0)) == (
        "UOP",
        LOAD_UOP,
    )  # read-only for the device, but the host writes it


def test_class_13_one_field_read_as_another() -> None:
    """Every field in turn at its largest: what the validator reads is what encoder and device call
    by that name."""
    base = list(decode_stream(dense_model(CONFIG).artifact.programs[0].instructions, CONFIG))
    refused = {}
    for at, insn in enumerate(base):
        places = layout(insn.SPEC.fields, CONFIG.widths)
        for name in insn.values():
            if name == "opcode" or places[name].field.enum is not None:
                continue
            refused[at, name] = changed(replace(at, **{name: places[name].high}))[0]
    assert refused[LOAD_INP, "x_stride"] == "OK"  # of one row
    assert refused[LOAD_INP, "x_pad_0"] == "OK"
    assert refused[LOAD_WGT, "x_pad_0"] == "INSTRUCTION"
    assert refused[LOAD_INP, "sram_base"] == "SRAM"
    assert refused[LOAD_INP, "y_size"] == "DRAM"
    assert refused[GEMM, "src_out"] == "SRAM"
    assert refused[GEMM, "iter_out"] == "SRAM"
    assert refused[RQ, "imm"] == "OK"
    assert refused[CONFIG_ZP, "value"] == "OK"
    assert refused[STORE, "operand_step"] == "INSTRUCTION"
    assert refused[LOAD_INP, "pop_prev"] == "TOKEN"
    assert len(refused) > 100


def test_class_14_clean_up_order() -> None:
    """The device is stopped before the memory it works on is given back (the simulator would find
    its memory gone)."""
    from loadstone.library.native import lib

    with device.open("sim") as dev:
        for _ in range(5):
            session = dev.load(copy_model(), hang_seconds=5.0)
            lib().lds_simdev_fault(lib().lds_hal_sim_device(dev.sim), lib().LDS_FAULT_HANG, 0, 0)
            session.start()
            session.close()
            assert lib().lds_simdev_read32(lib().lds_hal_sim_device(dev.sim), 0x14) == 1  # IDLE


def test_each_place_of_a_shape_is_held_against_its_limits() -> None:
    """An instruction that differs from the one before in its place alone is refused for its
    place."""

    def again(at: int, **place: int) -> Callable[[Program], None]:
        def change(program: Program) -> None:
            plain = dataclasses.replace(
                program[at], pop_prev=0, pop_next=0, push_prev=0, push_next=0
            )  # type: ignore[type-var]
            program.insert(at, dataclasses.replace(plain, **place))  # type: ignore[type-var]
            program.insert(at, plain)

        return change

    inp, acc, uops = CONFIG.depth(Memory.INP), CONFIG.depth(Memory.ACC), CONFIG.uop_depth
    x_size = decode(
        dense_model(CONFIG).artifact.programs[0].instructions[: 16 * (LOAD_INP + 1)][-16:], CONFIG
    ).values()["x_size"]
    assert changed(again(LOAD_INP, sram_base=inp - x_size)) == ("OK", 0)
    assert changed(again(LOAD_INP, sram_base=inp - x_size + 1)) == ("SRAM", LOAD_INP + 1)
    assert changed(again(LOAD_INP, dram_base=4)) == ("DRAM", LOAD_INP + 1)
    assert changed(again(LOAD_ACC, sram_base=acc)) == ("SRAM", LOAD_ACC + 1)
    assert changed(again(LOAD_UOP, sram_base=uops)) == ("SRAM", LOAD_UOP + 1)
    assert changed(again(RESET, uop_bgn=uops - 1, uop_end=uops)) == ("UOP", RESET + 1)
    assert changed(again(RESET, uop_bgn=0, uop_end=0)) == ("UOP", RESET + 1)


@pytest.mark.parametrize("byte", range(1, 16))
@pytest.mark.parametrize("value", [0, 1, 7, 63, 255])
def test_a_fingerprint_of_no_device_is_refused(byte: int, value: int) -> None:
    fingerprint = bytearray(CONFIG.fingerprint())
    fingerprint[byte] = value
    model = with_fingerprint(dense_model(CONFIG).artifact, bytes(fingerprint))
    status, _, _ = device.validate(model)
    try:
        refusal = validate(model)
        assert status == (refusal.status if refusal else 0)
    except ConfigError:
        assert status == STATUS["CONFIG"]


def test_every_vector_is_accepted(vectors: list[Path]) -> None:
    for path in vectors:
        assert both(vector_model(path, Capability.ALU_MUL | Capability.LOAD_ACC8)) == (0, 0), (
            path.stem
        )


@pytest.mark.parametrize("name", INTEGER_DEVICES)
def test_the_sample_models_are_accepted(name: str) -> None:
    assert both(dense_model(load_config(name)).artifact) == (0, 0)


def test_the_registers_of_load_and_compute() -> None:
    cases: list[tuple[Stage, ConfigRegister, int, str]] = [
        (Stage.LOAD, ConfigRegister.PAD_VALUE, 127, "OK"),
        (Stage.LOAD, ConfigRegister.PAD_VALUE, 128, "INSTRUCTION"),
        (Stage.COMPUTE, ConfigRegister.PAD_VALUE, -128, "OK"),
        (Stage.COMPUTE, ConfigRegister.PAD_VALUE, -129, "INSTRUCTION"),
        (Stage.LOAD, ConfigRegister.RQ_MIN, 0, "INSTRUCTION"),
        (Stage.STORE, ConfigRegister.PAD_VALUE, 0, "INSTRUCTION"),
        (Stage.COMPUTE, ConfigRegister.RQ_ROUNDING, 2, "OK"),
        (Stage.COMPUTE, ConfigRegister.RQ_ROUNDING, 3, "INSTRUCTION"),
        (Stage.COMPUTE, ConfigRegister.RQ_ROUNDING, -1, "INSTRUCTION"),
    ]
    for stage, register, value, wanted in cases:
        new = Config(stage=stage, register_id=register, value=value)

        def insert(program: Program, new: Insn = new) -> None:
            program.insert(0, new)

        assert changed(insert)[0] == wanted, (stage, register, value)


def test_the_data_of_vectors_is_read_as_written(vectors: list[Path]) -> None:
    """The images that vector_model makes have room for every address: the image itself is its own
    bound."""
    model = vector_model(vectors[0], Capability(0))
    assert model.regions[0].size_bytes == len(model.regions[1].data)
    data: npt.NDArray[np.uint8] = np.frombuffer(model.regions[1].data, np.uint8)
    assert data.any()


def test_micro_ops_with_a_gap_between_them() -> None:
    """Loaded behind a gap, they are known there alone; what fills the gap joins them."""

    def program(*loads: int, begin: int, end: int) -> Callable[[Program], None]:
        def change(instructions: Program) -> None:
            first = instructions[LOAD_UOP]
            assert isinstance(first, Load)
            one = dataclasses.replace(first, x_size=1, x_stride=1)
            more = [dataclasses.replace(one, sram_base=100 + at) for at in loads]
            gemm = instructions[RESET]
            assert isinstance(gemm, Gemm)
            used = dataclasses.replace(
                gemm, uop_bgn=begin, uop_end=end, pop_prev=0, pop_next=0, push_prev=0, push_next=0
            )
            instructions[RESET + 1 : RESET + 1] = [*more, used]

        return change

    for loads, begin, end, known in (
        ((5,), 105, 106, True),
        ((5,), 104, 106, False),
        ((5,), 105, 107, False),
        ((5, 7), 105, 108, False),
        ((5, 7, 6), 105, 108, True),
        ((6, 5), 105, 107, True),
        ((5, 5), 104, 105, False),
        ((6, *range(-98, 6)), 104, 107, True),  # all in front of it
        ((6, *range(-98, 5)), 104, 107, False),
    ):
        at = RESET + 1 + len(loads)
        verdict = changed(program(*loads, begin=begin, end=end))
        assert verdict == (("OK", 0) if known else ("UOP", at)), (loads, begin, end)
