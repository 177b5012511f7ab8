# SPDX-License-Identifier: Apache-2.0
"""runtime/isolated.c: of models with several steps and devices the right program is named, and the
memory that a caller gives is exactly what it says that it needs."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from loadstone.artifact.file_layout import ENTRY_BYTES, HEADER, SECTIONS
from loadstone.artifact.format import Artifact, ProgramStep
from loadstone.backend.device import ProgramDevice
from loadstone.library.native import ffi, lib
from loadstone.runtime.schedule import isolated
from loadstone.vta.device.hw_config import device_names, load_config
from loadstone.vta.isa.codec import Finish, decode_stream, encode_stream
from loadstone.vta.isa.spec import Memory
from tests.artifact.test_program_step import program_model
from tests.artifact.test_reader import sealed
from tests.sample_model import dense_model
from tests.validated import CONFIG, GEMM, with_program
from tests.validated import replace as replaced
from tests.vta.validator.isolated_case import RESIDUE, staged
from tests.vta.validator.one_instruction import INTEGERS, Case, alu, load
from tests.vta.validator.validate import STATUS

CONFIGURATION, MEMORY = STATUS["CONFIG"], lib().LDS_ERR_MEMORY
BAD = Case((alu(use_imm=1), Finish()))
GOOD = Case((Finish(),))


class _Call:
    """lds_model_isolated on a file, with memory of which the caller says how much it may use."""

    GUARD = 4096

    def __init__(self, data: bytes) -> None:
        self.model, self.fault = ffi.new("lds_model *"), ffi.new("lds_fault *")
        self._data = ffi.from_buffer(data)
        assert lib().lds_model_open(self.model, self._data, len(data)) == 0
        self.needed = int(lib().lds_isolated_scratch_bytes(self.model))

    def status(self, size_bytes: int, fill: int = 0xA5) -> int:
        """Nothing behind them is written."""
        memory = ffi.new("uint64_t[]", (size_bytes + self.GUARD) // 8 + 1)
        ffi.memmove(memory, bytes([fill]) * ffi.sizeof(memory), ffi.sizeof(memory))
        status = int(lib().lds_model_isolated(self.model, memory, size_bytes, self.fault))
        behind = bytes(ffi.buffer(memory))[size_bytes:]
        assert behind == bytes([fill]) * len(behind)
        return status


def _of(fingerprint: bytes) -> Artifact:
    return replace(GOOD, fingerprint=fingerprint).artifact()


def _words(tiles: int) -> int:
    return -(-tiles // 32)


def _bytes(li: int, lw: int, la: int, micro_ops: int) -> int:
    """A bit for each tile of INP, WGT, ACC and OUT, and of one instruction; and the micro-ops."""
    sets = (li, lw, la, la, max(li, lw, la))
    return 4 * (sum(_words(1 << log) for log in sets) + micro_ops)


# --- memory ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", device_names())
def test_as_much_memory_is_asked_for_as_is_used(name: str) -> None:
    config = load_config(name)
    call = _Call(_of(config.fingerprint()).to_bytes())
    assert call.needed == _bytes(config.li, config.lw, config.la, config.uop_depth)
    assert call.status(call.needed) == 0
    assert call.status(call.needed - 1) == MEMORY
    assert call.status(0) == MEMORY


def test_the_last_micro_op_is_within_the_memory() -> None:
    last = INTEGERS.uop_depth - 1
    insn = alu(use_imm=1, uop_bgn=last, uop_end=last + 1)
    loads = [load(Memory.ACC, sram_base=5), load(Memory.UOP, sram_base=last)]
    call = _Call(Case((*loads, insn, Finish()), uops=((5, 9, 9),)).artifact().to_bytes())
    assert call.status(call.needed) == 0
    assert call.status(call.needed, fill=0xFF) == 0


def test_what_the_memory_held_says_nothing() -> None:
    call = _Call(BAD.artifact().to_bytes())
    for fill in (0, 0xFF):
        assert call.status(call.needed, fill) == RESIDUE
        assert (call.fault.status, call.fault.error, call.fault.error_addr) == (RESIDUE, 0, 0)


def test_arguments_are_checked() -> None:
    call = _Call(GOOD.artifact().to_bytes())
    fault, memory = call.fault, ffi.new("uint32_t[]", call.needed // 4)
    wrong = lib().LDS_ERR_ARGUMENT
    assert lib().lds_model_isolated(ffi.NULL, memory, call.needed, fault) == wrong
    for size in (1, call.needed):
        assert lib().lds_model_isolated(call.model, ffi.NULL, size, fault) == wrong
    assert lib().lds_model_isolated(call.model, ffi.NULL, 0, fault) == MEMORY
    assert lib().lds_model_isolated(call.model, memory, call.needed, ffi.NULL) == 0


# --- devices --------------------------------------------------------------------------------------
def _fingerprint(**changes: int) -> bytes:
    """Of INTEGERS, with other sizes than a device can have."""
    names = ("batch", "block", "uop", "inp", "wgt", "acc")
    own = bytearray(INTEGERS.fingerprint())
    for name, value in changes.items():
        if name == "micro_ops":
            own[12:16] = struct.pack("<I", value)
        else:
            own[4 + names.index(name)] = value
    return bytes(own)


#: log2 of the bytes of a tile of each memory.
TILE = {
    "inp": INTEGERS.log_inp_buff - INTEGERS.li,
    "wgt": INTEGERS.log_wgt_buff - INTEGERS.lw,
    "acc": INTEGERS.log_acc_buff - INTEGERS.la,
    "uop": 2,
}


@pytest.mark.parametrize(("memory", "most"), [("inp", 15), ("wgt", 15), ("acc", 15), ("uop", 13)])
def test_memories_of_any_size_that_can_be_named(memory: str, most: int) -> None:
    """The device refuses what is larger than it; here indices must stay inside."""
    for log, status in ((0, 0), (1, 0), (most, 0), (most + 1, CONFIGURATION)):
        sizes = {"li": INTEGERS.li, "lw": INTEGERS.lw, "la": INTEGERS.la}
        sizes |= {} if memory == "uop" else {f"l{memory[0]}": log}
        call = _Call(_of(_fingerprint(micro_ops=1, **{memory: log + TILE[memory]})).to_bytes())
        assert call.needed == (0 if status else _bytes(**sizes, micro_ops=1)), log
        assert call.status(call.needed) == status, log


def test_as_many_micro_ops_as_can_be_named() -> None:
    for count, status in ((256, 0), (257, CONFIGURATION)):
        call = _Call(_of(_fingerprint(micro_ops=count)).to_bytes())
        assert call.status(call.needed) == status
        assert bool(call.needed) is (status == 0)


def test_a_table_of_instructions_does_not_say_what_its_memories_keep() -> None:
    model = program_model()
    own = ProgramDevice("own", INTEGERS.fingerprint())
    (step,) = model.programs
    mixed = replace(
        model, devices=(own, model.devices[1]), steps=(ProgramStep("own", GOOD.code), step)
    )
    assert isolated(mixed)[:2] == (lib().LDS_ERR_ACCELERATOR, 1)
    assert _Call(mixed.to_bytes()).needed == _Call(GOOD.artifact().to_bytes()).needed
    assert _Call(replace(model, devices=model.devices[1:] * 2).to_bytes()).needed == 0


def test_the_largest_of_all_devices_says_how_much_memory() -> None:
    large = load_config("vtaq-1x16x16")
    devices = tuple(ProgramDevice("d", c.fingerprint()) for c in (INTEGERS, large, INTEGERS))
    needed = {}
    for first in range(3):
        turned = devices[first:] + devices[:first]
        needed[first] = _Call(replace(GOOD.artifact(), devices=turned).to_bytes()).needed
    assert set(needed.values()) == {_bytes(large.li, large.lw, large.la, large.uop_depth)}
    # of a table with an entry less: what lies behind it is no device
    data = _shorter(replace(GOOD.artifact(), devices=devices[:2]).to_bytes(), "devices")
    assert _Call(data).needed == _bytes(INTEGERS.li, INTEGERS.lw, INTEGERS.la, INTEGERS.uop_depth)


def _shorter(data: bytes, section: str) -> bytes:
    """The file without the last entry of a section, whose bytes stay where they are."""
    made, at = bytearray(data), HEADER.size + 8 * SECTIONS.index(section) + 4
    (size,) = struct.unpack_from("<I", made, at)
    struct.pack_into("<I", made, at, size - ENTRY_BYTES[section])
    return sealed(made)


# --- steps ----------------------------------------------------------------------------------------
def _steps(*cases: Case) -> Artifact:
    return replace(
        cases[0].artifact(), steps=tuple(ProgramStep(f"p{k}", c.code) for k, c in enumerate(cases))
    )


def test_each_program_is_for_itself() -> None:
    """A program keeps nothing for the next one; the first that breaks the rule is named."""
    good = staged([], [load(Memory.ACC), alu(use_imm=1)], uops=((0, 0, 0),))
    assert isolated(_steps(good, good))[0] == 0
    assert isolated(_steps(good, BAD)) == (RESIDUE, 1, 0)
    assert isolated(_steps(BAD, good)) == (RESIDUE, 0, 0)
    late = Case((load(Memory.UOP), alu(use_imm=1), Finish()))
    assert isolated(_steps(good, good, late, BAD)) == (RESIDUE, 2, 1)


def test_what_is_behind_the_last_step_is_none() -> None:
    assert isolated(_shorter(_steps(GOOD, BAD).to_bytes(), "steps"))[0] == 0


def test_steps_of_the_host_are_left_out() -> None:
    model = dense_model(CONFIG).artifact
    (number,) = (k for k, s in enumerate(model.steps) if isinstance(s, ProgramStep))
    assert number > 0
    assert isolated(model)[0] == 0
    program = list(decode_stream(model.programs[0].instructions, CONFIG))
    replaced(GEMM, uop_bgn=5, uop_end=5)(program)
    wrong = with_program(model, encode_stream(program, CONFIG).tobytes())
    assert isolated(wrong) == (STATUS["UOP"], number, GEMM)


def test_micro_ops_come_from_the_region_that_is_named() -> None:
    """Of two with constants the second, from its second entry on."""
    for entry, status in ((1, 0), (0, RESIDUE)):
        uop = load(Memory.UOP, region=4, dram_base=entry)
        program = (load(Memory.ACC, sram_base=6), uop, alu(use_imm=1), Finish())
        artifact = Case(program, uops=((1, 0, 0), (2, 0, 0))).artifact()
        rows = Case((), uops=((3, 0, 0), (6, 0, 0))).artifact().regions[0]
        artifact = replace(artifact, regions=(*artifact.regions, replace(rows, name="second")))
        assert isolated(artifact)[0] == status
