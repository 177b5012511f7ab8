# SPDX-License-Identifier: Apache-2.0
"""Functions of nests as text that is printed, and parsed back.

In:   a `Function` of nests.py; or its text.
Out:  the text; or the Function, whose text is the same again.
Next: dumps; tests of passes, which are text in and text out.

    function  = "func" name ":" { tensor | statement }
    tensor    = ("param" | "table" | "local") declared ["in" memory]
    declared  = name ":" dtype "[" int {"," int} "]" "x" rows "x" columns
    statement = "for" name "<" int ["apart"] ":" block
              | "group:" block
              | "alloc" declared "in" memory
              | step {";" step} ["for" {name "<" int}] ["if" index ">= 0" {"," index ">= 0"}]
    step      = name "(" access {"," access} ["|" int {"," int}] ")"
    access    = name "[" index {"," index} ["else" int] "]"
    index     = term {("+" | "-") term}
    term      = int | [int "*"] name

A block is indented by two spaces more than what it belongs to. Tensors and loops of one name are
told apart by numbers behind it. A line that begins with # is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn, get_args

from loadstone.errors import LoweringError
from loadstone.ir_pass.affine import Index, Place, Variable, index
from loadstone.ir_pass.nests import (
    Function,
    Nest,
    NestAccess,
    NestAllocation,
    NestGroup,
    NestLoop,
    NestStep,
    NestTensor,
    Role,
    Statement,
)

__all__ = ["parsed", "printed"]

_INDENT = "  "


# --- printing -------------------------------------------------------------------------------------
def printed(function: Function) -> str:
    """The text of a function; of two equal functions the same."""
    return "\n".join(_Printer().function(function)) + "\n"


class _Printer:
    """names: of the tensors and loops that can be seen where the printer is."""

    def __init__(self) -> None:
        self._names: dict[NestTensor | Variable, str] = {}

    def function(self, function: Function) -> Iterator[str]:
        """Its lines."""
        yield f"func {function.name}:"
        for tensor in function.tensors:
            yield f"{_INDENT}{tensor.role} {self._declared(tensor)}"
        yield from self._block(function.body, 1)

    def _block(self, body: Sequence[Statement], depth: int) -> Iterator[str]:
        seen = dict(self._names)
        for statement in body:
            yield from self._statement(statement, depth)
        self._names = seen

    def _statement(self, statement: Statement, depth: int) -> Iterator[str]:
        space = _INDENT * depth
        match statement:
            case NestAllocation():
                yield f"{space}alloc {self._declared(statement.tensor)}"
            case NestGroup():
                yield f"{space}group:"
                yield from self._block(statement.body, depth + 1)
            case NestLoop():
                seen = dict(self._names)
                apart = " apart" if statement.apart else ""
                yield f"{space}for {self._opened(statement.variable)}{apart}:"
                yield from self._block(statement.body, depth + 1)
                self._names = seen
            case Nest():
                yield space + self._nest(statement)

    def _nest(self, nest: Nest) -> str:
        seen = dict(self._names)
        loops = " ".join(map(self._opened, nest.loops))
        line = "; ".join(map(self._step, nest.steps))
        line += f" for {loops}" if loops else ""
        conditions = ", ".join(f"{self._index(place)} >= 0" for place in nest.conditions)
        self._names = seen
        return f"{line} if {conditions}" if conditions else line

    def _step(self, step: NestStep) -> str:
        immediates = f" | {', '.join(map(str, step.immediates))}" if step.immediates else ""
        return f"{step.name}({', '.join(map(self._access, step.operands))}{immediates})"

    def _access(self, access: NestAccess) -> str:
        pad = "" if access.pad is None else f" else {access.pad}"
        name = self._names.get(access.tensor, access.tensor.name)
        return f"{name}[{', '.join(map(self._index, access.at))}{pad}]"

    def _index(self, place: Place) -> str:
        whole = index(place)
        parts = []
        for variable, factor in whole.terms.items():
            if factor:
                name = self._names.get(variable, variable.name)
                times = "" if abs(factor) == 1 else f"{abs(factor)}*"
                parts.append(f"{'-' if factor < 0 else '+'} {times}{name}")
        if whole.constant or not parts:
            parts.append(f"{'-' if whole.constant < 0 else '+'} {abs(whole.constant)}")
        joined = " ".join(parts)
        return joined[2:] if joined[0] == "+" else "-" + joined[2:]

    def _declared(self, tensor: NestTensor) -> str:
        shape, (rows, columns) = ", ".join(map(str, tensor.shape)), tensor.lanes
        where = "" if tensor.memory is None else f" in {tensor.memory}"
        return f"{self._named(tensor)}: {tensor.dtype}[{shape}] x{rows}x{columns}{where}"

    def _opened(self, variable: Variable) -> str:
        return f"{self._named(variable)}<{variable.extent}"

    def _named(self, thing: NestTensor | Variable) -> str:
        """Its name, and a number where something else has it."""
        name, number = thing.name, 1
        while name in self._names.values():
            number += 1
            name = f"{thing.name}_{number}"
        self._names[thing] = name
        return name


# --- parsing --------------------------------------------------------------------------------------
_NAME = r"[A-Za-z_][\w.]*"
_TENSOR = re.compile(
    rf"(?P<role>\w+) (?P<name>{_NAME}): (?P<dtype>\w+)\[(?P<shape>\d+(?:, \d+)*)\] "
    rf"x(?P<rows>\d+)x(?P<columns>\d+)(?: in (?P<memory>{_NAME}))?"
)
_HEAD = re.compile(rf"for (?P<loop>{_NAME}<\d+)(?P<apart> apart)?:")
_NEST = re.compile(
    rf"(?P<steps>.+?\))(?: for (?P<loops>{_NAME}<\d+(?: {_NAME}<\d+)*))?(?: if (?P<guards>.+))?"
)
_STEP = re.compile(
    rf"(?P<name>{_NAME})\((?P<operands>[^|()]+?)(?: \| (?P<immediates>-?\d+(?:, -?\d+)*))?\)"
)
_ACCESS = re.compile(rf"(?P<name>{_NAME})\[(?P<at>[^\]]+?)(?: else (?P<pad>-?\d+))?\]")
_TERM = re.compile(rf"(?P<sign>[+-]?) ?(?:(?:(?P<factor>\d+)\*)?(?P<name>{_NAME})|(?P<number>\d+))")
_INDEX = re.compile(rf"-?(?:(?:\d+\*)?{_NAME}|\d+)(?: [+-] (?:(?:\d+\*)?{_NAME}|\d+))*")


def parsed(text: str) -> Function:
    """Parses the text of a function. Raises LoweringError with the first line that has no known
    form, or that refers to an undeclared name."""
    return _Parser(text).function()


class _Parser:
    """Takes line after line."""

    def __init__(self, text: str) -> None:
        lines = enumerate(text.splitlines(), start=1)
        self._lines = [(n, line) for n, line in lines if line.strip() and line.strip()[0] != "#"]
        self._next = 0

    def function(self) -> Function:
        """All of them."""
        found = re.fullmatch(rf"func (?P<name>{_NAME}):", self._line(0) or "")
        if found is None:
            self._fail("the text begins with no `func NAME:`")
        self._next = 1
        tensors: dict[str, NestTensor] = {}
        while (line := self._line(1)) is not None and line.split()[0] in get_args(Role):
            self._declare(line, tensors)
            self._next += 1
        parameters = tuple(tensors.values())
        body = self._block(1, tensors, {})
        if self._next < len(self._lines):
            self._fail("it stands in no block")
        return Function(found["name"], parameters, body)

    def _line(self, depth: int) -> str | None:
        """The next line without its indentation; None where it belongs to no block of this
        depth."""
        if self._next >= len(self._lines):
            return None
        line = self._lines[self._next][1].rstrip()
        inner = line.lstrip(" ")
        return inner if len(line) - len(inner) == depth * len(_INDENT) else None

    def _fail(self, why: str) -> NoReturn:
        number, line = self._lines[self._next] if self._next < len(self._lines) else (0, "")
        raise LoweringError(f"nests: line {number} `{line.strip()}`: {why}")

    def _block(
        self, depth: int, tensors: Mapping[str, NestTensor], loops: Mapping[str, Variable]
    ) -> tuple[Statement, ...]:
        """The statements of one depth. tensors, loops: those that can be seen."""
        known, body = dict(tensors), list[Statement]()
        while (line := self._line(depth)) is not None:
            if line.startswith("alloc "):
                body.append(NestAllocation(self._declare(line, known)))
                self._next += 1
            elif line == "group:":
                self._next += 1
                body.append(NestGroup(self._block(depth + 1, known, loops)))
            elif (head := _HEAD.fullmatch(line)) is not None:
                inner = dict(loops)
                variable = self._loop(head["loop"], inner)
                self._next += 1
                inside = self._block(depth + 1, known, inner)
                body.append(NestLoop(variable, inside, head["apart"] is not None))
            else:
                body.append(self._nest(line, known, loops))
                self._next += 1
        return tuple(body)

    def _declare(self, line: str, tensors: dict[str, NestTensor]) -> NestTensor:
        found = _TENSOR.fullmatch(line)
        if found is None:
            self._fail("it declares no tensor: ROLE NAME: DTYPE[SHAPE] xROWSxCOLUMNS")
        name, memory = found["name"], found["memory"]
        if name in tensors:
            self._fail(f"there is a tensor {name} already")
        role: Role = "local"
        for each in get_args(Role):
            role = each if found["role"] == each else role
        if found["role"] == "alloc" and memory is None:
            self._fail(f"{name} is allocated in no memory")
        shape = tuple(map(int, found["shape"].split(", ")))
        lanes = int(found["rows"]), int(found["columns"])
        if min(*shape, *lanes) < 1:
            self._fail(f"{name} has an axis of 0 places")
        tensors[name] = NestTensor(name, shape, lanes, found["dtype"], role, memory)
        return tensors[name]

    def _loop(self, word: str, loops: dict[str, Variable]) -> Variable:
        name, extent = word.split("<")
        if name in loops:
            self._fail(f"there is a loop {name} already")
        if int(extent) < 1:
            self._fail(f"loop {name} has no turn")
        loops[name] = Variable(name, int(extent))
        return loops[name]

    def _nest(
        self, line: str, tensors: Mapping[str, NestTensor], loops: Mapping[str, Variable]
    ) -> Nest:
        found = _NEST.fullmatch(line)
        if found is None:
            self._fail("it is no statement")
        known = dict(loops)
        own = [self._loop(word, known) for word in (found["loops"] or "").split()]
        conditions = []
        for guard in (found["guards"] or "").split(", ") if found["guards"] else ():
            place, sign, zero = guard.partition(" >= ")
            if (sign, zero) != (" >= ", "0"):
                self._fail(f"`{guard}` is not of the form `INDEX >= 0`")
            conditions.append(index(self._index(place, known)))
        steps = [self._step(step, tensors, known) for step in found["steps"].split("; ")]
        return Nest(tuple(own), tuple(conditions), tuple(steps))

    def _step(
        self, text: str, tensors: Mapping[str, NestTensor], loops: Mapping[str, Variable]
    ) -> NestStep:
        found = _STEP.fullmatch(text)
        accesses = list(_ACCESS.finditer(found["operands"])) if found is not None else []
        if found is None or ", ".join(each[0] for each in accesses) != found["operands"]:
            self._fail(f"`{text}` is no step: NAME(TENSOR[INDEX, ...], ... | IMMEDIATE, ...)")
        operands = []
        for each in accesses:
            name, places = each["name"], each["at"].split(", ")
            if name not in tensors:
                self._fail(f"there is no tensor {name}")
            if len(places) != len(tensors[name].shape):
                self._fail(f"{name} has {len(tensors[name].shape)} axes, not {len(places)}")
            at = tuple(self._index(place, loops) for place in places)
            pad = None if each["pad"] is None else int(each["pad"])
            operands.append(NestAccess(tensors[name], at, pad))
        immediates = (found["immediates"] or "").split(", ") if found["immediates"] else ()
        return NestStep(found["name"], tuple(operands), tuple(map(int, immediates)))

    def _index(self, text: str, loops: Mapping[str, Variable]) -> Place:
        if _INDEX.fullmatch(text) is None:
            self._fail(f"`{text}` is no index")
        constant, terms = 0, dict[Variable, int]()
        for found in _TERM.finditer(text):
            sign = -1 if found["sign"] == "-" else 1
            if found["number"] is not None:
                constant += sign * int(found["number"])
            elif found["name"] in loops:
                variable = loops[found["name"]]
                terms[variable] = terms.get(variable, 0) + sign * int(found["factor"] or 1)
            else:
                self._fail(f"there is no loop {found['name']}")
        return Index(constant, terms) if terms else constant
