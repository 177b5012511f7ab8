# SPDX-License-Identifier: Apache-2.0
"""Text -> instructions: the assembler. asm.py describes the text.

In:   lines of text.
Out:  instructions, or their bytes; AssemblerError says what was expected where.
Next: asm.py gives `assemble` and `parse_insn` to everybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import AssemblerError
from loadstone.isa.text import parsed_lines
from loadstone.vta.isa.asm_words import ALU_SIGNS, NEIGHBOURS, NOOPS, PADS
from loadstone.vta.isa.codec import encode
from loadstone.vta.isa.insn import CLASSES, KINDS, Finish, Insn, stage_of
from loadstone.vta.isa.spec import (
    INSN_BYTES,
    ConfigRegister,
    FieldWidths,
    Memory,
    Opcode,
    Rounding,
    Stage,
)

__all__ = ["assemble", "parse_insn"]


def assemble(text: str, device: FieldWidths) -> NDArray[np.uint8]:
    """uint8 (N, 16). Raises AssemblerError naming the line and what was expected, or the field that
    does not fit."""
    encoded = parsed_lines(text, lambda line: encode(parse_insn(line), device))
    return np.frombuffer(b"".join(encoded), np.uint8).reshape(-1, INSN_BYTES)


#: What words stand for.
_STAGES = {stage.name.lower(): stage for stage in Stage}
_MEMORIES = {memory.name.lower(): memory for memory in Memory}
_REGISTERS = {register.name.lower(): register for register in ConfigRegister}
_ROUNDINGS = {rounding.name.lower(): int(rounding) for rounding in Rounding}
_OPERATIONS = {
    sign.removesuffix("=") if sign[0].isalpha() else sign: operation
    for operation, sign in ALU_SIGNS.items()
}


def parse_insn(text: str) -> Insn:
    """The instruction of one line. Raises AssemblerError saying what was expected where."""
    words = _TokenReader(text)
    pops = _parse_tokens(words, "pop")
    verb = words.one_of(_PARSERS)
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
        stages.append(words.one_of(_STAGES))
        words.expect(")")
    return stages


def _with_tokens(insn: Insn, pops: Sequence[str], pushes: Sequence[str]) -> Insn:
    """The instruction with the flags of its tokens set; which flag that is follows from its
    stage."""
    flags = {}
    neighbours = NEIGHBOURS[stage_of(insn)]
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

    _WORD = re.compile(
        r"\s*([A-Za-z_]\w*|0[xX][0-9a-fA-F]+|\d+|\.\.|"
        + "|".join(re.escape(sign) for sign in ALU_SIGNS.values() if not sign[0].isalpha())
        + r"|\S)"
    )

    _NUMBER = re.compile(r"^\s*\d+:")

    def __init__(self, text: str) -> None:
        found: list[str] = self._WORD.findall(self._NUMBER.sub("", text))
        self.words = [*found, ""]  # the end of the line
        self.at = 0

    def at_end(self) -> bool:
        return not self.words[self.at]

    def peek(self) -> str:
        return self.words[self.at]

    def next(self) -> str:
        word = self.words[self.at]
        self.at += 1
        return word

    def take(self, word: str) -> bool:
        """Whether `word` comes next; it is then taken."""
        if self.words[self.at] != word:
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.words[self.at] != word:
                self.fail(repr(word))
            self.at += 1

    def one_of(self, choices: Collection[str]) -> str:
        if self.words[self.at] not in choices:
            self.fail("one of " + ", ".join(choices))
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
    return Opcode.LOAD, _parse_pads(words, _parse_rows(words, {**sram, **_parse_dram(words)}))


def _parse_store(words: _TokenReader) -> _Parsed:
    to_inp = words.take("inp")
    values = _parse_place(words) if to_inp else _parse_dram(words)
    words.expect("=")
    if to_inp and words.peek() != "out":
        words.fail("'out'")
    if words.peek() == "inp":
        words.fail("'out': INP is stored to, as inp[...] = out[...]")
    values |= _parse_scratchpad(words)
    if to_inp:
        values["memory_id"] = Memory.INP
    if words.take("rq"):
        words.expect("acc", "[")
        values |= {"requantize": 1, "operands": words.number()}
        if words.take("+"):
            words.expect("3", "y")
            values["operand_step"] = 1
        words.expect("]")
    return Opcode.STORE, _parse_rows(words, values)


def _parse_scratchpad(words: _TokenReader) -> dict[str, int]:
    memory = _MEMORIES[words.one_of(_MEMORIES)]
    words.expect("[")
    base = words.number()
    words.expect("]")
    return {"memory_id": memory, "sram_base": base}


def _parse_dram(words: _TokenReader) -> dict[str, int]:
    """dramR and a place."""
    match = re.fullmatch(r"dram(\d*)", words.peek())
    if match is None:
        words.fail("'dram' and the number of a region")
    words.next()
    return {"region": int(match[1] or 0), **_parse_place(words)}


def _parse_place(words: _TokenReader) -> dict[str, int]:
    """[base + stride y + x]; without the y term the stride is 0, and decided by _parse_rows."""
    words.expect("[")
    values = {"dram_base": words.number(), "x_stride": 0}
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
    return values


def _parse_pads(words: _TokenReader, values: dict[str, int]) -> dict[str, int]:
    if words.take("pad"):
        side = words.one_of(PADS)
        values[PADS[side]] = words.number()
        while (side := words.peek()) in PADS:
            words.expect(side)
            values[PADS[side]] = words.number()
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


def _parse_depthwise(words: _TokenReader) -> _Parsed:
    values = _parse_tile(words, "acc", "dst")
    values["overwrite"] = int(words.one_of(("+=", "=")) == "=")
    values |= _parse_tile(words, "inp", "src", {"i": "src_out", "j": "src_in", "r": "row_stride"})
    words.expect("*")
    values |= _parse_tile(words, "wgt", "wgt", {"i": "wgt_out"}) | _parse_loops(words)
    words.expect("r", "<")
    values["rows"] = words.number()
    words.expect("c", "<")
    values["columns"] = words.number()
    values["wide"] = int(words.take("wide"))
    return Opcode.DEPTHWISE, values


def _parse_alu(words: _TokenReader) -> _Parsed:
    values = _parse_tile(words, "acc", "dst")
    sign = words.one_of(_OPERATIONS)
    if sign.isalpha():
        words.expect("=")
    values["alu_op"] = _OPERATIONS[sign]
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


def _parse_tile(
    words: _TokenReader, memory: str, operand: str, fields: dict[str, str] | None = None
) -> dict[str, int]:
    """memory[u + factor i + factor j]. fields: the loops, and the fields of their factors."""
    words.expect(memory, "[", "u")
    fields = fields or {"i": f"{operand}_out", "j": f"{operand}_in"}
    factors = dict.fromkeys(fields, 0)
    while words.take("+"):
        factor = 1 if words.peek() in factors else words.number()
        factors[words.one_of(factors)] = factor
    words.expect("]")
    return {field: factors[loop] for loop, field in fields.items()}


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
    stage = _STAGES[words.one_of(_STAGES)]
    register = _REGISTERS[words.one_of(_REGISTERS)]
    words.expect("=")
    value = _ROUNDINGS[words.next()] if words.peek() in _ROUNDINGS else words.number()
    return Opcode.CONFIG, {"stage": stage, "register_id": register, "value": value}


def _parse_nop(words: _TokenReader) -> _Parsed:
    insn = NOOPS[words.one_of(NOOPS)]
    return insn.SPEC.opcode, insn.values()


def _parse_finish(words: _TokenReader) -> _Parsed:
    return Finish.SPEC.opcode, {}


_PARSERS: dict[str, Callable[[_TokenReader], _Parsed]] = {
    "load": _parse_load,
    "store": _parse_store,
    "gemm": _parse_gemm,
    "depthwise": _parse_depthwise,
    "alu": _parse_alu,
    "config": _parse_config,
    "nop": _parse_nop,
    "finish": _parse_finish,
}
