# SPDX-License-Identifier: Apache-2.0
"""Instructions of a table as text and back: one line each.

In:   an InstructionTable; TableInsn objects, or text.
Out:  text that a person reads and `assemble` takes; TableInsn objects.
Next: people read it and write it.

    mvin address=@x+64 stride=16 rows=4 row=12   # what is 0 may be left out
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from loadstone.errors import AssemblerError, EncodingError
from loadstone.isa.codec import At, TableInsn, check_fields
from loadstone.isa.table import Bits, InstructionTable

__all__ = ["assemble", "disassemble", "parsed_lines"]

T = TypeVar("T")

_PLACE = re.compile(r'@(?:"([^"\n]*)"|([^\s"+#=]+))(?:\+(\d+|0x[0-9a-fA-F]+))?')
_PLAIN = re.compile(r'[^\s"+#=]+')
_NUMBER = re.compile(r"^\s*\d+:")
_WORD = re.compile(r'(?:[^\s"#]|"[^"\n]*")+')


def disassemble(table: InstructionTable, insns: Sequence[TableInsn]) -> str:
    """A line for each instruction; fields that are 0 and need no name are left out."""
    return "".join(_line(table, insn) + "\n" for insn in insns)


def _line(table: InstructionTable, insn: TableInsn) -> str:
    words = [insn.name]
    for field in table.by_name[insn.name].fields:
        value = insn.fields.get(field.name, 0)
        if isinstance(value, At):
            words.append(f"{field.name}={_place(value)}")
        elif field.values:
            words.append(f"{field.name}={field.values[value]}")
        elif value:
            words.append(f"{field.name}={value}")
    return " ".join(words)


def _place(at: At) -> str:
    """Quoted where the symbol is no plain word, such as the name of a tensor with spaces."""
    name = at.symbol if _PLAIN.fullmatch(at.symbol) else '"' + at.symbol.replace('"', "'") + '"'
    return f"@{name}" + (f"+{at.offset_bytes}" if at.offset_bytes else "")


def assemble(table: InstructionTable, text: str) -> list[TableInsn]:
    """The instructions of a text. Raises AssemblerError naming the line."""
    return parsed_lines(text, lambda line: _insn(table, _WORD.findall(line)))


def parsed_lines(text: str, parse: Callable[[str], T]) -> list[T]:
    """What `parse` makes of each line, without its comment and the number that a listing puts in
    front; lines that are empty then are left out. Raises AssemblerError naming the line. For any
    form that a device's instructions have as text."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        source = _NUMBER.sub("", _without_comment(line)).strip()
        if not source:
            continue
        try:
            found.append(parse(source))
        except (AssemblerError, EncodingError) as error:
            raise AssemblerError(f"line {number}: {error}") from None
    return found


def _without_comment(line: str) -> str:
    quoted = False
    for place, character in enumerate(line):
        quoted ^= character == '"'
        if character == "#" and not quoted:
            return line[:place]
    return line


def _insn(table: InstructionTable, words: Sequence[str]) -> TableInsn:
    form = table.by_name.get(words[0])
    fields: dict[str, int | At] = {}
    known = {field.name: field for field in form.fields} if form is not None else {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        if not equals:
            raise AssemblerError(f"{word!r} is not FIELD=VALUE")
        if name in fields:
            raise AssemblerError(f"field {name} stands twice")
        fields[name] = _value(known.get(name), value)
    insn = TableInsn(words[0], fields)
    check_fields(table, insn)
    return insn


def _value(field: Bits | None, text: str) -> int | At:
    if field is not None and text in field.values:
        return field.values.index(text)
    if place := _PLACE.fullmatch(text):
        return At(place[1] if place[1] is not None else place[2], int(place[3] or "0", 0))
    try:
        return int(text, 0)
    except ValueError:
        names = f" nor one of {', '.join(field.values)}" if field is not None else ""
        raise AssemblerError(f"{text!r} is no number{names}") from None
