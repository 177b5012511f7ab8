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
    alu acc[u+1j] max= 0 for i<1 j<784 u in 0..1
    alu acc[u+1j] rq= acc[u] for i<1 j<784 u in 0..1 push(store)
    pop(compute) store dram3[0 + 28y + x] = out[0] for y<28 x<28
    nop compute
    finish

Indices are tiles. `u` is the micro-op's own index of that operand; a range a..b leaves b out.
`dram3` is region 3 of DRAM, `dram` region 0. `=` instead of `+=` overwrites. Without `y`, there is
one row, and x_stride is x_size. pop() waits for a token of that stage, push() gives it one. What
this form does not say is said by field names, so that every instruction that decodes has a text:
`with src_out=3 pop_prev=1`. Behind `#` stand comments; a number and a colon in front are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import AssemblerError, EncodingError
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.isa.codec import encode
from loadstone.vta.isa.insn import (
    CLASSES,
    KINDS,
    Alu,
    Config,
    Finish,
    Gemm,
    Insn,
    Load,
    Store,
    stage_of,
)
from loadstone.vta.isa.spec import (
    INSN_BYTES,
    TOKEN_FLAGS,
    TOKEN_QUEUES,
    AluOp,
    ConfigRegister,
    Memory,
    Opcode,
    Rounding,
    Stage,
)

__all__ = ["assemble", "disassemble", "parse_insn", "text_of"]

#: Neighbour of a stage -> the flags that pop its token and push it one.
_NEIGHBOURS = {
    stage: {
        back.pusher.name.lower(): (back.pop, queue.push)
        for queue in TOKEN_QUEUES
        for back in TOKEN_QUEUES
        if queue.pusher is stage and (back.pusher, back.popper) == (queue.popper, stage)
    }
    for stage in Stage
}
_PADS = {"top": "y_pad_0", "bottom": "y_pad_1", "left": "x_pad_0", "right": "x_pad_1"}
_ALU_SIGNS = {
    AluOp.MIN: "min=",
    AluOp.MAX: "max=",
    AluOp.ADD: "+=",
    AluOp.SHR: ">>=",
    AluOp.MUL: "*=",
    AluOp.RQ: "rq=",
}
_NOOPS: dict[str, Insn] = {
    "load": Load(memory_id=Memory.INP),
    "compute": Load(memory_id=Memory.UOP),
    "store": Store(),
}


# --- instructions -> text -------------------------------------------------------------------------
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
    neighbours = _NEIGHBOURS[stage_of(insn)].items()
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
        case Alu():
            operand = str(insn.imm) if insn.use_imm else _tile(insn, "acc", "src")
            return (
                f"alu {_tile(insn, 'acc', 'dst')} {_ALU_SIGNS[AluOp(insn.alu_op)]} "
                f"{operand} {_loops(insn)}"
            )
        case Config():
            register = ConfigRegister(insn.register_id)
            named = register == ConfigRegister.RQ_ROUNDING and insn.value in set(Rounding)
            value = Rounding(insn.value).name.lower() if named else str(insn.value)
            return f"config {Stage(insn.stage).name.lower()} {register.name.lower()} = {value}"
        case _:
            return "finish"


def _noop(insn: Load | Store) -> str:
    plain = type(insn)(**{k: v for k, v in insn.values().items() if k not in TOKEN_FLAGS})
    return next((f"nop {stage}" for stage, noop in _NOOPS.items() if noop == plain), "")


def _transfer(insn: Load | Store) -> str:
    flat = insn.y_size == 1 and insn.x_stride == insn.x_size
    rows = "" if flat or not insn.x_stride else f"{insn.x_stride}y + "
    dram = f"dram{insn.region or ''}[{insn.dram_base} + {rows}x]"
    pad = f"{Memory(insn.memory_id).name.lower()}[{insn.sram_base}]"
    pads = "".join(
        f" {name} {getattr(insn, field)}" for name, field in _PADS.items() if getattr(insn, field)
    )
    copy = f"load {pad} = {dram}" if isinstance(insn, Load) else f"store {dram} = {pad}"
    return f"{copy} for {'' if flat else f'y<{insn.y_size} '}x<{insn.x_size}" + (
        f" pad{pads}" if pads else ""
    )


def _tile(insn: Gemm | Alu, memory: str, operand: str) -> str:
    factors = ((getattr(insn, f"{operand}_out"), "i"), (getattr(insn, f"{operand}_in"), "j"))
    return (
        f"{memory}[{'+'.join(['u', *(f'{factor}{loop}' for factor, loop in factors if factor)])}]"
    )


def _loops(insn: Gemm | Alu) -> str:
    return f"for i<{insn.iter_out} j<{insn.iter_in} u in {insn.uop_bgn}..{insn.uop_end}"


# --- text -> instructions -------------------------------------------------------------------------
def assemble(text: str, config: HwConfig) -> NDArray[np.uint8]:
    """uint8 (N, 16). Raises AssemblerError naming the line and what was expected, or the field that
    does not fit."""
    encoded = []
    for number, line in enumerate(text.splitlines(), 1):
        source = line.partition("#")[0].strip()
        if not source or re.fullmatch(r"\d+:", source):
            continue
        try:
            encoded.append(encode(parse_insn(source), config))
        except (AssemblerError, EncodingError) as error:
            raise AssemblerError(f"line {number}: {error}") from None
    return np.frombuffer(b"".join(encoded), np.uint8).reshape(-1, INSN_BYTES)


def parse_insn(text: str) -> Insn:
    """The instruction of one line. Raises AssemblerError saying what was expected where."""
    words = _TokenReader(text)
    pops = _parse_tokens(words, "pop")
    verb = words.one_of(("load", "store", "gemm", "alu", "config", "nop", "finish"))
    opcode, values = _PARSERS[verb](words)
    if words.take("with"):
        while not words.at_end() and words.peek() != "push":
            name = words.one_of([f.name for f in KINDS[opcode].fields[1:]])
            words.expect("=")
            values[name] = words.number()
    pushes = _parse_tokens(words, "push")
    if not words.at_end():
        words.fail("'with', 'push(' or the end of the line")
    return _with_tokens(CLASSES[opcode](**values), pops, pushes)


def _parse_tokens(words: _TokenReader, verb: str) -> list[str]:
    stages = []
    while words.take(verb):
        words.expect("(")
        stages.append(words.one_of([s.name.lower() for s in Stage]))
        words.expect(")")
    return stages


def _with_tokens(insn: Insn, pops: Sequence[str], pushes: Sequence[str]) -> Insn:
    """The instruction with the flags of its tokens set; which flag that is follows from its
    stage."""
    flags = {}
    neighbours = _NEIGHBOURS[stage_of(insn)]
    for which, (verb, stages) in enumerate((("pop", pops), ("push", pushes))):
        for stage in stages:
            if stage not in neighbours:
                raise AssemblerError(
                    f"{verb}({stage}) in stage {stage_of(insn).name.lower()}: expected one "
                    f"of {', '.join(neighbours)}"
                )
            flags[neighbours[stage][which]] = 1
    return type(insn)(**{**insn.values(), **flags})


class _TokenReader:
    """The words of one line, taken from left to right."""

    _WORD = re.compile(r"\s*([A-Za-z_]\w*|0[xX][0-9a-fA-F]+|\d+|\.\.|\+=|\*=|>>=|\S)")

    def __init__(self, text: str) -> None:
        self.words = self._WORD.findall(re.sub(r"^\s*\d+:", "", text))
        self.at = 0

    def at_end(self) -> bool:
        return self.at == len(self.words)

    def peek(self) -> str:
        return "" if self.at_end() else self.words[self.at]

    def next(self) -> str:
        word = self.peek()
        self.at += 1
        return word

    def take(self, word: str) -> bool:
        """Whether `word` comes next; it is then taken."""
        found = self.peek() == word
        self.at += found
        return found

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail(repr(word))

    def one_of(self, choices: Iterable[str]) -> str:
        if self.peek() not in (known := list(choices)):
            self.fail("one of " + ", ".join(known))
        return self.next()

    def number(self) -> int:
        sign = -1 if self.take("-") else 1
        if not self.peek()[:1].isdigit():
            self.fail("a number")
        word = self.next()
        return sign * int(word, 16 if word[:2] in ("0x", "0X") else 10)

    def fail(self, expected: str) -> NoReturn:
        where = f"after {self.words[self.at - 1]!r}: " if self.at else ""
        raise AssemblerError(
            f"{where}expected {expected}, found "
            f"{repr(self.peek()) if not self.at_end() else 'the end of the line'}"
        )


_Parsed = tuple[Opcode, dict[str, int]]


def _parse_load(words: _TokenReader) -> _Parsed:
    sram = _parse_scratchpad(words)
    words.expect("=")
    return Opcode.LOAD, _parse_rows(words, {**sram, **_parse_dram(words)})


def _parse_store(words: _TokenReader) -> _Parsed:
    dram = _parse_dram(words)
    words.expect("=")
    return Opcode.STORE, _parse_rows(words, {**dram, **_parse_scratchpad(words)})


def _parse_scratchpad(words: _TokenReader) -> dict[str, int]:
    memory = Memory[words.one_of([m.name.lower() for m in Memory]).upper()]
    words.expect("[")
    base = words.number()
    words.expect("]")
    return {"memory_id": memory, "sram_base": base}


def _parse_dram(words: _TokenReader) -> dict[str, int]:
    """dramR[base + stride y + x]; without the y term the stride is 0, and decided by
    _parse_rows."""
    match = re.fullmatch(r"dram(\d*)", words.peek())
    if match is None:
        words.fail("'dram' and the number of a region")
    words.next()
    words.expect("[")
    values = {"region": int(match[1] or 0), "dram_base": words.number(), "x_stride": 0}
    words.expect("+")
    if words.peek() != "x":
        values["x_stride"] = words.number()
        words.expect("y", "+")
    words.expect("x", "]")
    return values


def _parse_rows(words: _TokenReader, values: dict[str, int]) -> dict[str, int]:
    words.expect("for")
    flat = not words.take("y")
    if not flat:
        words.expect("<")
        values["y_size"] = words.number()
    words.expect("x", "<")
    values["x_size"] = words.number()
    if flat:
        values["y_size"], values["x_stride"] = 1, values["x_size"]
    if words.take("pad"):
        side = words.one_of(_PADS)
        values[_PADS[side]] = words.number()
        while (side := words.peek()) in _PADS:
            words.expect(side)
            values[_PADS[side]] = words.number()
    return values


def _parse_gemm(words: _TokenReader) -> _Parsed:
    values = _parse_tile(words, "acc", "dst")
    if words.one_of(("+=", "=")) == "=":
        values["overwrite"] = 1
    if values.get("overwrite") and words.take("0"):
        del values["overwrite"]
        values["reset"] = 1
    else:
        values |= _parse_tile(words, "inp", "src")
        words.expect("*")
        values |= _parse_tile(words, "wgt", "wgt")
    return Opcode.GEMM, values | _parse_loops(words)


def _parse_alu(words: _TokenReader) -> _Parsed:
    values = _parse_tile(words, "acc", "dst")
    sign = words.one_of(("min", "max", "rq", "+=", ">>=", "*="))
    if sign.isalpha():
        words.expect("=")
        sign += "="
    values["alu_op"] = next(op for op, text in _ALU_SIGNS.items() if text == sign)
    if words.peek() == "acc":
        values |= _parse_tile(words, "acc", "src")
    else:  # the RTL reads src also then: where nothing else is said, it is dst
        values |= {
            "use_imm": 1,
            "imm": words.number(),
            "src_out": values["dst_out"],
            "src_in": values["dst_in"],
        }
    return Opcode.ALU, values | _parse_loops(words)


def _parse_tile(words: _TokenReader, memory: str, operand: str) -> dict[str, int]:
    """memory[u + factor i + factor j]."""
    words.expect(memory, "[", "u")
    factors = {"i": 0, "j": 0}
    while words.take("+"):
        factor = 1 if words.peek() in factors else words.number()
        factors[words.one_of(factors)] = factor
    words.expect("]")
    return {f"{operand}_out": factors["i"], f"{operand}_in": factors["j"]}


def _parse_loops(words: _TokenReader) -> dict[str, int]:
    words.expect("for", "i", "<")
    values = {"iter_out": words.number()}
    words.expect("j", "<")
    values["iter_in"] = words.number()
    words.expect("u", "in")
    values["uop_bgn"] = words.number()
    words.expect("..")
    values["uop_end"] = words.number()
    return values


def _parse_config(words: _TokenReader) -> _Parsed:
    stage = Stage[words.one_of([s.name.lower() for s in Stage]).upper()]
    register = ConfigRegister[words.one_of([r.name.lower() for r in ConfigRegister]).upper()]
    words.expect("=")
    roundings = {r.name.lower(): int(r) for r in Rounding}
    value = roundings[words.next()] if words.peek() in roundings else words.number()
    return Opcode.CONFIG, {"stage": stage, "register_id": register, "value": value}


def _parse_nop(words: _TokenReader) -> _Parsed:
    insn = _NOOPS[words.one_of(_NOOPS)]
    return insn.SPEC.opcode, insn.values()


def _parse_finish(words: _TokenReader) -> _Parsed:
    return Finish.SPEC.opcode, {}


_PARSERS: dict[str, Callable[[_TokenReader], _Parsed]] = {
    "load": _parse_load,
    "store": _parse_store,
    "gemm": _parse_gemm,
    "alu": _parse_alu,
    "config": _parse_config,
    "nop": _parse_nop,
    "finish": _parse_finish,
}
