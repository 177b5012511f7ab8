# SPDX-License-Identifier: Apache-2.0
"""Text <-> instructions: one line each, with the loop that it stands for.

In:   instructions, or text.
Out:  text that assembles back to the same bytes, or instructions.
Next: `loadstone disasm` and `loadstone asm`; golden text in tests, where a change of the compiler
      is read as a diff.

    pop(compute) load inp[0] = dram[256 + 56y + x] for y<28 x<14 pad top 1 left 1 push(compute)
    load uop[0] = dram[64 + x] for x<9
    pop(load) gemm acc[u+28i+1j] += inp[u+30i+1j] * wgt[u] for i<28 j<28 u in 0..9 push(load)
    gemm acc[u+28i+1j] = 0 for i<28 j<28 u in 0..1
    config compute rq_min = -128
    depthwise acc[u+1i+8j] = inp[u+1i+10j+10r] * wgt[u] for i<8 j<8 u in 0..1 r<3 c<3
    alu acc[u+1j] max= 0 for i<1 j<784 u in 0..1
    alu acc[u+1j] rq= acc[u] for i<1 j<784 u in 0..1 push(store)
    pop(compute) store dram3[0 + 28y + x] = out[0] for y<28 x<28
    store dram3[0 + 28y + x] = out[0] rq acc[96 + 3y] for y<2 x<28
    store inp[64 + 30y + x] = out[0] for y<2 x<28
    nop compute
    finish

Indices are tiles. `u` is the micro-op's own index of that operand; a range a..b leaves b out.
`dram3` is region 3 of DRAM, `dram` region 0. `=` instead of `+=` overwrites. Without `y`, there is
one row, and x_stride is x_size. `r` and `c` count rows and columns of a window. `rq acc[96]`
requantizes on the way by three tiles, with `+ 3y` by three others in each row. pop() waits
for a token of that stage, push() gives it one. What this form does not say is said by field names,
so that every instruction that decodes has a text: `with src_out=3 pop_prev=1`. Behind `#` stand
comments; a number and a colon in front are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from loadstone.vta.isa.asm_parser import assemble, parse_insn
from loadstone.vta.isa.asm_words import ALU_SIGNS, NEIGHBOURS, NOOPS, PADS
from loadstone.vta.isa.insn import (
    Alu,
    Config,
    Depthwise,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    stage_of,
)
from loadstone.vta.isa.spec import TOKEN_FLAGS, AluOp, ConfigRegister, Memory, Rounding, Stage

__all__ = ["assemble", "disassemble", "parse_insn", "text_of"]


def text_of(insn: Insn) -> str:
    """One line that parse_insn turns back into an equal instruction."""
    pops, pushes = _tokens(insn)
    words = [*pops, _body(insn)]
    said = parse_insn(" ".join(words + pushes)).values()
    unsaid = [f"{name}={value}" for name, value in insn.values().items() if said[name] != value]
    return " ".join([*words, *(["with", *unsaid] if unsaid else []), *pushes])


def disassemble(
    program: Iterable[Insn], comment: Callable[[Insn], str] | None = None
) -> Iterator[str]:
    """A numbered line for each instruction; `comment` may add what the instruction alone does not
    tell."""
    for number, insn in enumerate(program):
        note = comment(insn) if comment is not None else ""
        yield f"{number:>5}: {text_of(insn)}" + (f"  # {note}" if note else "")


def _tokens(insn: Insn) -> tuple[list[str], list[str]]:
    neighbours = NEIGHBOURS[stage_of(insn)].items()
    pops = [f"pop({stage})" for stage, (pop, _) in neighbours if getattr(insn, pop)]
    return pops, [f"push({stage})" for stage, (_, push) in neighbours if getattr(insn, push)]


def _body(insn: Insn) -> str:
    """The readable form, which may leave fields unsaid."""
    match insn:
        case Load() | Store():
            return _noop(insn) or _transfer(insn)
        case Gemm():
            right = (
                "= 0"
                if insn.reset
                else f"{'=' if insn.overwrite else '+='} {_tile(insn, 'inp', 'src')} * "
                f"{_tile(insn, 'wgt', 'wgt')}"
            )
            return f"gemm {_tile(insn, 'acc', 'dst')} {right} {_loops(insn)}"
        case Depthwise():
            return _depthwise(insn)
        case Alu():
            operand = str(insn.imm) if insn.use_imm else _tile(insn, "acc", "src")
            return (
                f"alu {_tile(insn, 'acc', 'dst')} {ALU_SIGNS[AluOp(insn.alu_op)]} "
                f"{operand} {_loops(insn)}"
            )
        case Config():
            register = ConfigRegister(insn.register_id)
            named = register == ConfigRegister.RQ_ROUNDING and insn.value in set(Rounding)
            value = Rounding(insn.value).name.lower() if named else str(insn.value)
            return f"config {Stage(insn.stage).name.lower()} {register.name.lower()} = {value}"
        case Finish():
            return "finish"
        case _:
            raise AssertionError(f"{type(insn).__name__} has no text")


def _depthwise(insn: Depthwise) -> str:
    src = (("src_out", "i"), ("src_in", "j"), ("row_stride", "r"))
    wgt = (("wgt_out", "i"),)
    return (
        f"depthwise {_tile(insn, 'acc', 'dst')} {'=' if insn.overwrite else '+='} "
        f"{_tile(insn, 'inp', 'src', src)} * {_tile(insn, 'wgt', 'wgt', wgt)} "
        f"{_loops(insn)} r<{insn.rows} c<{insn.columns}{' wide' if insn.wide else ''}"
    )


def _noop(insn: Load | Store) -> str:
    if insn.x_size:  # it moves something
        return ""
    plain = type(insn)(**{k: v for k, v in insn.values().items() if k not in TOKEN_FLAGS})
    return next((f"nop {stage}" for stage, noop in NOOPS.items() if noop == plain), "")


def _transfer(insn: Load | Store) -> str:
    flat = insn.y_size == 1 and insn.x_stride == insn.x_size
    rows = "" if flat or not insn.x_stride else f"{insn.x_stride}y + "
    place, memory = _between(insn)
    dram = f"{place}[{insn.dram_base} + {rows}x]"
    pad = f"{memory}[{insn.sram_base}]"
    sides = PADS.items() if isinstance(insn, Load) else ()
    pads = "".join(
        f" {name} {getattr(insn, field)}" for name, field in sides if getattr(insn, field)
    )
    copy = f"load {pad} = {dram}" if isinstance(insn, Load) else f"store {dram} = {pad}"
    if isinstance(insn, Store) and insn.requantize:
        copy += f" rq acc[{insn.operands}{' + 3y' if insn.operand_step else ''}]"
    return f"{copy} for {'' if flat else f'y<{insn.y_size} '}x<{insn.x_size}" + (
        f" pad{pads}" if pads else ""
    )


def _between(insn: Load | Store) -> tuple[str, str]:
    """Where the rows are that dram_base begins, and the scratchpad of sram_base."""
    memory = Memory(insn.memory_id)
    if isinstance(insn, Store) and memory == Memory.INP:
        return "inp", "out"
    return f"dram{insn.region or ''}", memory.name.lower()


def _tile(
    insn: Gemm | Depthwise | Alu,
    memory: str,
    operand: str,
    fields: Sequence[tuple[str, str]] = (),
) -> str:
    """fields: the factors, and their loops; else those of an operand that both loops move."""
    fields = fields or ((f"{operand}_out", "i"), (f"{operand}_in", "j"))
    factors = [(getattr(insn, field), loop) for field, loop in fields]
    return (
        f"{memory}[{'+'.join(['u', *(f'{factor}{loop}' for factor, loop in factors if factor)])}]"
    )


def _loops(insn: Gemm | Depthwise | Alu) -> str:
    return f"for i<{insn.iter_out} j<{insn.iter_in} u in {insn.uop_bgn}..{insn.uop_end}"
