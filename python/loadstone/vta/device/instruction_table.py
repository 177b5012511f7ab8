# SPDX-License-Identifier: Apache-2.0
"""VTA's instructions as those of any accelerator: units, queues, memories, and what each reaches.

In:   a HwConfig; the bits of instructions and micro-ops (isa/spec.py).
Out:  `instruction_table`: what runtime/VALIDATION.md and isa/spec.py say in words, as a table.
Next: kernels/memories.py has the memories of computations from it; passes/encode/verify.py holds
      programs against it; tests hold both validators against it.

A LOAD and a STORE move rows of DRAM, which begins where a region begins; a LOAD writes rows with
their padding. GEMM and ALU go through the micro-ops in the scratchpad UOP: each of these is one
more turn of their two loops. Which scratchpad a memory_id means, and that a reset reads nothing,
are comparisons among the factors of an extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from loadstone.isa.parameters import fields_of_device
from loadstone.isa.queues import UnitQueue
from loadstone.isa.table import (
    DRAM,
    AddressRegister,
    InstructionForm,
    InstructionTable,
    LocalMemory,
    Reach,
    UnitBy,
    Words,
)
from loadstone.isa.terms import Term
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import (
    LOAD_STAGE,
    MAX_REGIONS,
    MAX_TOKENS,
    MICRO_OPS,
    SCRATCHPAD_OF,
    TOKEN_QUEUES,
    VALUE_NEEDS,
    WINDOW_COLUMNS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Rounding,
    Stage,
    table_of,
    window_rows,
)

__all__ = ["REQUANTIZE_TILES", "instruction_table"]

#: Tiles that RQ reads of its second operand: bias, multiplier, shift.
REQUANTIZE_TILES = 3
_REGIONS = "region_base"
_WORDS = Words("uop", "uop_bgn", "uop_end")
_PADS = "y_pad_0+y_pad_1+x_pad_0+x_pad_1"
_WIDTH = "(x_pad_0+x_size+x_pad_1)"
_HEIGHT = "(y_pad_0+y_size+y_pad_1)"


@lru_cache(maxsize=64)
def instruction_table(config: HwConfig) -> InstructionTable:
    """The same object for equal devices."""
    bits = table_of(config.widths)
    said = {
        "LOAD": _load,
        "STORE": _store,
        "GEMM": _gemm,
        "ALU": _alu,
        "FINISH": _finish,
        "CONFIG": _config,
        "DEPTHWISE": _depthwise,
    }
    forms = [said[form.name](form, config) for form in bits.forms]
    lacks = [
        (str(capability.name), str(capability.name).lower())
        for capability in (Capability.CONFIG, Capability.DEPTHWISE)
        if not config.has(capability)
    ]
    return replace(
        bits,
        forms=tuple(form for form in forms if form.name not in dict(lacks)),
        memories=_memories(config),
        address_registers=(AddressRegister(_REGIONS, MAX_REGIONS, regions=True),),
        queues=tuple(
            UnitQueue(_unit(q.pusher), _unit(q.popper), q.push, q.pop, MAX_TOKENS)
            for q in TOKEN_QUEUES
        ),
        lacks=tuple(lacks),
    )


def _unit(stage: Stage) -> str:
    return stage.name.lower()


def _memories(config: HwConfig) -> tuple[LocalMemory, ...]:
    row, weights = config.batch * config.block, config.block * config.block
    element, sum_type = ("float32", "float32") if config.is_float else ("int8", "int32")
    words = fields_of_device(MICRO_OPS, config.widths)
    return (
        LocalMemory("uop", config.depth(Memory.UOP), 1, "uint32", words),
        LocalMemory("wgt", config.depth(Memory.WGT), weights, element),
        LocalMemory("inp", config.depth(Memory.INP), row, element),
        LocalMemory("acc", config.depth(Memory.ACC), row, sum_type),
    )


def _dram(memory: Memory, config: HwConfig, extent: Term, *, writes: bool = False) -> Reach:
    """Rows of tiles of a memory. extent: of a row in bytes."""
    rows = (("y_size", f"x_stride*{config.tile_bytes(memory)}"),)
    base = f"dram_base*{config.base_bytes(memory)}"
    return Reach(DRAM, _REGIONS, rows, extent, writes, base, "region")


def _load(form: InstructionForm, config: HwConfig) -> InstructionForm:
    reaches: list[Reach] = []
    for memory in Memory:
        if memory != Memory.OUT:
            chosen = f"(memory_id={int(memory)})"
            bytes_of_row = f"{chosen}*x_size*{config.tile_bytes(memory)}"
            fills = config.filled_tiles(memory)
            width = "1" if memory is Memory.WGT_PLANES else f"{_WIDTH}*{fills}"
            rows, extent = ((_HEIGHT, width),), f"{chosen}*(x_size>0)*{width}"
            scratchpad = SCRATCHPAD_OF[memory].name.lower()
            reaches.append(_dram(memory, config, bytes_of_row))
            reaches.append(Reach(scratchpad, "sram_base", rows, extent, writes=True))
    never = [
        f"(memory_id={int(Memory.OUT)})",
        *_absent("memory_id", Memory, config),
        *_noop(f"region+y_size+x_stride+sram_base+dram_base+{_PADS}"),
        f"(memory_id<{Memory.WGT + 1})*({_PADS})",
        f"(memory_id={int(Memory.WGT_4BIT)})*({_PADS})",
        f"(memory_id={int(Memory.WGT_PLANES)})*({_PADS}+x_stride)",
        f"(memory_id={int(Memory.UOP)})*(y_size>1)",
    ]
    units = tuple(_unit(LOAD_STAGE[memory]) for memory in Memory)
    return _saying(form, reaches, never, UnitBy("memory_id", units))


def _store(form: InstructionForm, config: HwConfig) -> InstructionForm:
    out, inp, whole = Memory.OUT, Memory.INP, Memory.ACC
    to_inp, to_whole = config.has(Capability.STORE_INP), config.has(Capability.STORE_ACC)
    acc = SCRATCHPAD_OF[out].name.lower()
    of_row = f"(memory_id={int(out)})*x_size" if to_inp or to_whole else "x_size"
    reaches: tuple[Reach, ...] = (
        _dram(out, config, f"{of_row}*{config.tile_bytes(out)}", writes=True),
        Reach(acc, "sram_base", (("y_size", "x_size"),), "x_size"),
    )
    if to_whole:
        of_row = f"(memory_id={int(whole)})*x_size"
        reaches += (_dram(whole, config, f"{of_row}*{config.tile_bytes(whole)}", writes=True),)
    if to_inp:
        of_row = f"(memory_id={int(inp)})*x_size"
        rows = (("y_size", "x_stride"),)
        reaches += (Reach(inp.name.lower(), "dram_base", rows, of_row, writes=True),)
    operands = "operands+operand_step"
    never: list[Term] = [f"({operands}+requantize)"]
    if config.has(Capability.STORE_REQUANTIZE):
        rows = (("y_size", f"operand_step*{REQUANTIZE_TILES}"),)
        reaches += (Reach(acc, "operands", rows, f"requantize*{REQUANTIZE_TILES}"),)
        never = [f"(requantize=0)*({operands})", f"(x_size=0)*({operands}+requantize)"]
    stored = [*[inp] * to_inp, *[whole] * to_whole, out]
    never += [f"(memory_id={int(m)})" for m in Memory if 0 < m < out and m not in stored]
    never += [f"(memory_id={int(m)})*(x_size=0)" for m in stored[:-1]]
    never += [f"(memory_id={int(inp)})*region"] * to_inp
    never += [f"(memory_id={int(whole)})*requantize"] * to_whole
    never += [
        f"(memory_id>{int(out)})",
        "(memory_id=0)*(x_size>0)",
        *_noop("region+y_size+x_stride+sram_base+dram_base"),
    ]
    return _saying(form, reaches, never, _unit(Stage.STORE))


def _noop(others: str) -> tuple[Term, Term]:
    """With x_size = 0 nothing is moved, and nothing else is said; else there is a row."""
    return f"(x_size=0)*({others})", "(x_size>0)*(y_size=0)"


def _absent(field: str, values: type, config: HwConfig) -> list[Term]:
    """Values of an enumeration that need what the device lacks."""
    needed = VALUE_NEEDS[values].items()
    return [f"({field}={value})" for value, capability in needed if not config.has(capability)]


def _loops(operand: str) -> tuple[tuple[Term, Term], ...]:
    return ("iter_out", f"{operand}_out"), ("iter_in", f"{operand}_in")


_TURNS = ("(iter_out=0)", "(iter_in=0)", "(uop_bgn+1>uop_end)")


def _gemm(form: InstructionForm, config: HwConfig) -> InstructionForm:
    reads = "(reset=0)"
    reaches = (
        Reach("acc", "dst", _loops("dst"), 1, writes=True, through=_WORDS),
        Reach("inp", "src", _loops("src"), reads, through=_WORDS),
        Reach("wgt", "wgt", _loops("wgt"), reads, through=_WORDS),
    )
    never = [*_TURNS, "reset*overwrite"]
    never += [] if config.has(Capability.GEMM_OVERWRITE) else ["overwrite"]
    return _saying(form, reaches, never, _unit(Stage.COMPUTE))


def _depthwise(form: InstructionForm, config: HwConfig) -> InstructionForm:
    window = (("rows", "row_stride"),)
    reaches = (
        Reach("acc", "dst", _loops("dst"), 1, writes=True, through=_WORDS),
        Reach("inp", "src", (*_loops("src"), *window), "columns", through=_WORDS),
        Reach("wgt", "wgt", (("iter_out", "wgt_out"),), 1, through=_WORDS),
    )
    beyond = [f"(rows>{window_rows(config.block)})", f"(columns>{WINDOW_COLUMNS})"]
    never = [*_TURNS, "(rows=0)", "(columns=0)", *beyond]
    never += [] if config.has(Capability.GEMM_OVERWRITE) else ["overwrite"]
    return _saying(form, reaches, never, _unit(Stage.COMPUTE))


def _alu(form: InstructionForm, config: HwConfig) -> InstructionForm:
    rq = int(AluOp.RQ)
    reaches = (
        Reach("acc", "dst", _loops("dst"), 1, writes=True, through=_WORDS),
        *(
            Reach("acc", "src", _loops("src"), extent, through=_WORDS)
            for extent in (
                f"(alu_op<{rq})",
                f"(alu_op={rq})*{REQUANTIZE_TILES}",
                f"(alu_op>{rq})",
            )
        ),
    )
    never = [*_TURNS, "reset", f"use_imm*(alu_op={rq})", *_absent("alu_op", AluOp, config)]
    never += [f"(alu_op={int(AluOp.SHR)})"] if config.is_float else []
    return _saying(form, reaches, never, _unit(Stage.COMPUTE))


def _finish(form: InstructionForm, _: HwConfig) -> InstructionForm:
    return replace(_saying(form, (), (), _unit(Stage.COMPUTE)), ends=True)


def _config(form: InstructionForm, config: HwConfig) -> InstructionForm:
    pad, rounding = int(ConfigRegister.PAD_VALUE), int(ConfigRegister.RQ_ROUNDING)
    beyond = 1 << (8 * config.element_bytes - 1)
    never = [
        *_absent("stage", Stage, config),
        f"(stage={int(Stage.LOAD)})*(register_id>{pad})",
        f"(stage={int(Stage.STORE)})*(register_id={pad})",
        f"(register_id={pad})*(value>{beyond - 1})",
        f"(register_id={pad})*(value+{beyond}<0)",
        f"(register_id={rounding})*(value>{int(max(Rounding))})",
        f"(register_id={rounding})*(value<0)",
    ]
    return _saying(form, (), never, UnitBy("stage", tuple(map(_unit, Stage))))


def _saying(
    form: InstructionForm, reaches: Sequence[Reach], never: Sequence[Term], unit: str | UnitBy
) -> InstructionForm:
    return replace(form, reaches=tuple(reaches), never=tuple(never), unit=unit)
