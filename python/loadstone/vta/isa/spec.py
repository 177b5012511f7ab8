# SPDX-License-Identifier: Apache-2.0
"""The instruction set, stated once: every field of every instruction, micro-op and register.

In:   the values that fields can hold (values.py); loadstone/isa, which places fields.
Out:  INSTRUCTIONS, MICRO_OPS, the enumerations, the capability bits, and `table_of()`, the
      InstructionTable of one device's widths.
Next: codec.py (bytes <-> fields), asm.py (text <-> fields), tools/isa (C header and docs).

An instruction is 128 bits, little-endian, two 64-bit words. Fields are packed from the low bit of
their word upwards in the order of the table; a width may depend on the device:

    lu  log2 of the micro-ops that the encoding can name       (13 on the default VTA)
    li  log2 of the tiles of the input scratchpad              (11)
    lw  log2 of the tiles of the weight scratchpad             (10)
    la  log2 of the tiles of the accumulator scratchpad        (11)

                 word 0                                            word 1
     0  3 4 5 6 7                                       63 | 64                         127
    +--+-+-+-+-+-------------------------------------------+-------------------------------+
    |op|p|p|p|p| memory_id sram_base dram_base region      | y_size x_size x_stride pads   |  LOAD
    |op|p|p|p|p| memory_id sram_base dram_base region      | sizes operands requantize     |  STORE
    |op|p|p|p|p| reset uop_bgn uop_end iter_out iter_in  o | dst src wgt factors           |  GEMM
    |op|p|p|p|p| -     uop_bgn uop_end iter_out iter_in    | dst src factors, op, imm      |  ALU
    |op|p|p|p|p| stage register_id                         | value                         |  CONFIG
    |op|p|p|p|p| wide uop_bgn ... iter_in rows columns o   | factors, row_stride           |  WINDOW
    +--+-+-+-+-+-------------------------------------------+-------------------------------+

To add a field or an instruction: one line here (a new value or opcode: in values.py), `loadstone
isa` to regenerate, meanings in meaning/reference.py and hw_sim, and CONTRIBUTING.md's checklist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from loadstone.isa.parameters import BitField, Field, Widths, fields_of_device, layout
from loadstone.isa.table import InstructionForm, InstructionTable
from loadstone.numerics import Rounding
from loadstone.vta.isa.packed_weights import GROUPS
from loadstone.vta.isa.values import (
    CONFIG_DEFAULTS,
    LOAD_STAGE,
    SCRATCHPAD_OF,
    STAGE_REGISTERS,
    TOKEN_QUEUES,
    VALUE_NEEDS,
    WIDE_FACTOR,
    WINDOW_COLUMNS,
    WINDOW_PITCH,
    WINDOW_ROWS,
    AluOp,
    Capability,
    ConfigRegister,
    Memory,
    Opcode,
    Stage,
    TokenQueue,
    initial_registers,
    window_rows,
)
from loadstone.vta.isa.weight_planes import PLANES

__all__ = [
    "CONFIG_DEFAULTS",
    "INSN_BYTES",
    "INSTRUCTIONS",
    "LOAD_STAGE",
    "MAX_REGIONS",
    "MAX_TOKENS",
    "MICRO_OPS",
    "SCRATCHPAD_OF",
    "STAGE_REGISTERS",
    "TOKEN_FLAGS",
    "TOKEN_QUEUES",
    "UOP_BYTES",
    "VALUE_NEEDS",
    "WIDE_FACTOR",
    "WINDOW_COLUMNS",
    "WINDOW_PITCH",
    "WINDOW_ROWS",
    "AluOp",
    "BitField",
    "Capability",
    "ConfigRegister",
    "Field",
    "FieldWidths",
    "Instruction",
    "Memory",
    "Opcode",
    "Rounding",
    "Stage",
    "TokenQueue",
    "initial_registers",
    "layout",
    "table_of",
    "window_rows",
]

INSN_BYTES = 16
UOP_BYTES = 4
#: Tokens a queue can hold: 8-bit saturating semaphores in VTA's RTL (300 hang it).
MAX_TOKENS = 255
#: DRAM regions that LOAD and STORE can name (3 bits).
MAX_REGIONS = 8


@dataclass(frozen=True)
class Instruction:
    """One instruction: its opcode, its fields in the order of the bits, and its meaning as a
    loop.

    stage: the one that executes it, or the name of the field that decides: memory_id (by
        LOAD_STAGE) or stage.
    """

    name: str
    opcode: Opcode
    stage: Stage | Literal["memory_id", "stage"]
    fields: tuple[Field, ...]
    doc: str
    pseudo: str
    needs: Capability | None = None


_FLAGS = (
    Field("opcode", 3, "which instruction this is", enum=Opcode),
    Field("pop_prev", 1, "wait for a token of the previous stage"),
    Field("pop_next", 1, "wait for a token of the next stage"),
    Field("push_prev", 1, "give the previous stage a token when done"),
    Field("push_next", 1, "give the next stage a token when done"),
)

#: The flags that all instructions have, in the order of the bits.
TOKEN_FLAGS: tuple[str, ...] = tuple(field.name for field in _FLAGS[1:])

_TRANSFER = (
    *_FLAGS,
    Field("memory_id", 3, "scratchpad", enum=Memory),
    Field("sram_base", 16, "first tile in the scratchpad"),
    Field("dram_base", 32, "first tile in DRAM, counted in tiles of that memory"),
    Field("region", 3, "DRAM region that dram_base counts from", needs=Capability.REGIONS),
    Field("y_size", 16, "rows", at=64),
    Field("x_size", 16, "tiles in a row; 0 makes a no-op"),
    Field("x_stride", 16, "tiles from one row to the next in DRAM"),
)

_LOAD = (
    *_TRANSFER,
    Field("y_pad_0", 4, "rows of padding before"),
    Field("y_pad_1", 4, "rows of padding after"),
    Field("x_pad_0", 4, "tiles of padding at the left of a row"),
    Field("x_pad_1", 4, "tiles of padding at the right of a row"),
)

_STORE = (
    *_TRANSFER,
    Field(
        "operands",
        "la",
        "first of the three accumulator tiles that requantize the first row",
        needs=Capability.STORE_REQUANTIZE,
    ),
    Field(
        "operand_step",
        1,
        "each row has three tiles of its own, behind those of the row before",
        needs=Capability.STORE_REQUANTIZE,
    ),
    Field(
        "requantize",
        1,
        "store what RQ makes of a tile instead of its low bits",
        needs=Capability.STORE_REQUANTIZE,
    ),
)

_LOOPS = (
    Field("uop_bgn", "lu", "first micro-op"),
    Field("uop_end", "lu+1", "one past the last micro-op"),
    Field("iter_out", 14, "turns of the outer loop"),
    Field("iter_in", 14, "turns of the inner loop"),
)

#: Of GEMM and DEPTHWISE, whose second 64 bits begin with them.
_MOVES = (
    Field("dst_out", "la", "tiles that dst moves per outer turn", at=64),
    Field("dst_in", "la", "tiles that dst moves per inner turn"),
    Field("src_out", "li", "tiles that src moves per outer turn"),
    Field("src_in", "li", "tiles that src moves per inner turn"),
    Field("wgt_out", "lw", "tiles that wgt moves per outer turn"),
)
_OVERWRITE = Field(
    "overwrite",
    1,
    "write the product instead of adding it",
    at=63,
    needs=Capability.GEMM_OVERWRITE,
)

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "LOAD",
        Opcode.LOAD,
        "memory_id",
        _LOAD,
        "Copies a strided 2-D block of tiles from DRAM to a scratchpad, packed, with padding "
        "around it. UOP, ACC and ACC_8BIT are loaded by compute, the others by the load stage. "
        "Pads are 0, or PAD_VALUE for INP and ACC_8BIT. With x_size = 0 nothing is "
        "written, not even pads, and only the tokens count; with y_size = 0 the pads are. "
        + f"{GROUPS} {PLANES}",
        "s = sram_base\n"
        "for y in -y_pad_0 .. y_size+y_pad_1:\n"
        "  for x in -x_pad_0 .. x_size+x_pad_1:\n"
        "    sram[s++] = inside ? dram[dram_base + y*x_stride + x] : pad",
    ),
    Instruction(
        "STORE",
        Opcode.STORE,
        Stage.STORE,
        _STORE,
        "Copies packed tiles of OUT (the low 8 bits of ACC's lanes, no saturation) to a "
        "strided 2-D block in DRAM or in INP. No pads. "
        "OUT is written where a product or an ALU operation writes ACC, and by nothing else: a "
        "tile of ACC whose last writer is a LOAD or a GEMM with reset has no value in OUT, and a "
        "program that stores it has no meaning. "
        "With requantize, each tile is requantized on its way, by three operand tiles as those of "
        "ALU RQ and by the store stage's own RQ registers; ACC stays as it is, and what a LOAD or "
        "a reset wrote there has a value, too. Without it, operands and operand_step are 0. "
        "memory_id says where the tiles go. OUT: to DRAM; so in a no-op (x_size = 0), which may "
        "also be all zero. INP, which needs `store_inp`: to the scratchpad INP, where dram_base "
        "is a tile and x_stride the tiles from one row to the next; region is 0. "
        "ACC, which needs `store_acc`: to DRAM as whole lanes, which a LOAD of ACC reads (also "
        "what a LOAD or a reset wrote); requantize is 0.",
        "s = sram_base\n"
        "for y in 0 .. y_size:\n"
        "  p = operands + (operand_step ? 3*y : 0)\n"
        "  for x in 0 .. x_size:\n"
        "    to[dram_base + y*x_stride + x] = requantize ? rq(acc[s++], acc[p], acc[p+1], "
        "acc[p+2]) : memory_id == ACC ? acc[s++] : low8(acc[s++])",
    ),
    Instruction(
        "GEMM",
        Opcode.GEMM,
        Stage.COMPUTE,
        (
            *_FLAGS,
            Field("reset", 1, "write zeros instead of multiplying"),
            *_LOOPS,
            _OVERWRITE,
            *_MOVES,
            Field("wgt_in", "lw", "tiles that wgt moves per inner turn"),
        ),
        "Multiplies input tiles by weight tiles into accumulator tiles (int32, wrapping). Steps "
        "take effect in the order of the loops: with overwrite, the last step that writes a tile "
        "decides. With reset, src and wgt are not read, and overwrite means nothing.",
        "for i in 0 .. iter_out:\n"
        "  for j in 0 .. iter_in:\n"
        "    for u in uop_bgn .. uop_end:\n"
        "      d = uop[u].dst + i*dst_out + j*dst_in\n"
        "      s = uop[u].src + i*src_out + j*src_in\n"
        "      w = uop[u].wgt + i*wgt_out + j*wgt_in\n"
        "      acc[d][b][o] (+)= sum over k of inp[s][b][k] * wgt[w][o][k]",
    ),
    Instruction(
        "FINISH",
        Opcode.FINISH,
        Stage.COMPUTE,
        _FLAGS,
        "Ends the program, in the compute stage.",
        "done",
    ),
    Instruction(
        "ALU",
        Opcode.ALU,
        Stage.COMPUTE,
        (
            *_FLAGS,
            Field("reset", 1, "must be 0"),
            *_LOOPS,
            Field("dst_out", "la", "tiles that dst moves per outer turn", at=64),
            Field("dst_in", "la", "tiles that dst moves per inner turn"),
            Field("src_out", "la", "tiles that src moves per outer turn"),
            Field("src_in", "la", "tiles that src moves per inner turn"),
            Field("alu_op", 3, "operation", enum=AluOp),
            Field("use_imm", 1, "the second operand is imm instead of acc[src]; 0 for RQ"),
            Field("imm", 16, "immediate operand", signed=True),
        ),
        "Lane-wise operation on accumulator tiles (int32, wrapping). A step sees what the "
        "steps before it wrote. SHR floors; a negative amount shifts left; amounts beyond 31 give "
        "what infinitely many bits would. RQ reads three operand tiles, bias, multiplier and "
        "shift, from acc[s], acc[s+1] and acc[s+2]. A shift lane holds the signed shift in bits "
        "0:8 and in bits 8:5 a pre-shift: acc + bias is first shifted left by it (wrapping). "
        "Rounding `float32` reads the multiplier lane as an IEEE-754 single and ignores the shift "
        "lane.",
        "for i in 0 .. iter_out:\n"
        "  for j in 0 .. iter_in:\n"
        "    for u in uop_bgn .. uop_end:\n"
        "      d = uop[u].dst + i*dst_out + j*dst_in\n"
        "      s = uop[u].src + i*src_out + j*src_in\n"
        "      acc[d] = op(acc[d], use_imm ? imm : acc[s])\n"
        "      RQ: acc[d] = clamp(requantize(acc[d] + acc[s], acc[s+1], acc[s+2], "
        "RQ_ROUNDING) + RQ_ZERO_POINT, RQ_MIN, RQ_MAX)",
    ),
    Instruction(
        "CONFIG",
        Opcode.CONFIG,
        "stage",
        (
            *_FLAGS,
            Field("stage", 3, "the queue whose register is set", enum=Stage),
            Field("register_id", 6, "which register", enum=ConfigRegister),
            Field("value", 32, "what it holds from here on", signed=True, at=64),
        ),
        "Sets a register of a stage, in order in that stage's queue, with tokens like any "
        "other instruction. "
        "Registers hold their defaults when a program starts. PAD_VALUE keeps the low 8 bits "
        "of the value.",
        "register[stage][register_id] = value",
        needs=Capability.CONFIG,
    ),
    Instruction(
        "DEPTHWISE",
        Opcode.DEPTHWISE,
        Stage.COMPUTE,
        (
            *_FLAGS,
            Field("wide", 1, "a lane has one more weight, which counts 128 times"),
            *_LOOPS[:-1],
            Field("iter_in", 10, "turns of the inner loop"),
            Field("rows", 2, "rows of the window, 1 to 3"),
            Field("columns", 2, "tiles in a row of the window, 1 to 3"),
            _OVERWRITE,
            *_MOVES,
            Field("row_stride", "lw", "tiles from one row of the window to the next"),
        ),
        "Multiplies a window of input tiles by the weights of one tile, lane by lane, into "
        "accumulator tiles (int32, wrapping): a depthwise convolution takes one step for all taps "
        "of a window. R is the device's largest number of rows: 3, or 2 with blocks of 8 and 1 "
        "with blocks of 4. The weights of a window's last row are always at the same place, "
        "4*(R-1), and those of shorter windows before it are not read. With wide, the last row's "
        "first tile is multiplied once more, by 128 times the weight at 4*R-1. A step reads the "
        "rows that the step before did not: k of them where src is that step's + k*row_stride with "
        "0 < k < rows, else all; the first step of an instruction reads all. Steps take effect in "
        "the order of the loops, as those of GEMM.",
        "for i in 0 .. iter_out:\n"
        "  for j in 0 .. iter_in:\n"
        "    for u in uop_bgn .. uop_end:\n"
        "      d = uop[u].dst + i*dst_out + j*dst_in\n"
        "      s = uop[u].src + i*src_out + j*src_in\n"
        "      w = uop[u].wgt + i*wgt_out\n"
        "      acc[d][b][o] (+)= sum over r < rows, c < columns of "
        "inp[s + r*row_stride + c][b][o] * wgt[w][o][4*(R-rows+r) + c]\n"
        "      wide: acc[d][b][o] += inp[s + (rows-1)*row_stride][b][o] * 128 * wgt[w][o][4*R-1]",
        needs=Capability.DEPTHWISE,
    ),
)

#: Micro-ops are 32 bits; the same fields in the same order for all users, ALU leaves wgt 0.
MICRO_OPS: tuple[Field, ...] = (
    Field("dst", "la", "accumulator tile"),
    Field("src", "max(la,li)", "input tile (products) or accumulator tile (ALU)"),
    Field("wgt", "lw", "weight tile (products); 0 for ALU"),
)


class FieldWidths(Protocol):
    """What bits of instructions ask of a device: how wide the fields are that differ between
    devices. HwConfig answers."""

    @property
    def widths(self) -> Widths:
        """`lu`, `li`, `lw` and `la`, as fields name them."""


@lru_cache(maxsize=64)
def _table(lu: int, li: int, lw: int, la: int) -> InstructionTable:
    widths = {"lu": lu, "li": li, "lw": lw, "la": la}
    opcode_bits = INSTRUCTIONS[0].fields[0].width
    assert isinstance(opcode_bits, int)
    forms = (
        InstructionForm(
            insn.name,
            insn.opcode,
            fields_of_device(insn.fields[1:], widths),
            INSN_BYTES,
            insn.doc,
            needs=(insn.needs.name or "").lower() if insn.needs is not None else "",
        )
        for insn in INSTRUCTIONS
    )
    return InstructionTable("vta", tuple(forms), opcode_bits=opcode_bits)


def table_of(widths: Widths) -> InstructionTable:
    """The instructions of one device, as those of any accelerator are described. What they reach
    and how long they take is not in it: micro-ops in memory decide that (meaning/reference.py,
    hw_sim)."""
    return _table(widths["lu"], widths["li"], widths["lw"], widths["la"])
