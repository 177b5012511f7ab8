# SPDX-License-Identifier: Apache-2.0
"""From TensorIR to C99: a printer of our own.

In:   a PrimFunc of TVM (a legalized Relax operator), and a name.
Out:  CFunction: a static function of pointers without headers, malloc or libm, the size of its
      workspace, and the helpers that it calls.
Next: artifact/c_operator.py calls several of them in a row.

Real constants are hexadecimal, so that no digit is lost (TVM's own printer writes seven). A node
that has no C here is refused by its name: UnsupportedError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.relax.c_helpers import C_TYPES
from loadstone.relax.c_loops import lowered, owner, written
from loadstone.relax.c_math import MATH
from loadstone.relax.compat import loaded_buffer

if TYPE_CHECKING:
    from loadstone.relax.types import Expr, PrimFunc, Stmt

__all__ = ["WORKSPACE_ALIGN_BYTES", "CFunction", "print_function"]

WORKSPACE_ALIGN_BYTES = 8
_SUFFIX = {"int64": "LL", "uint64": "ULL", "uint32": "u"}
_INFIX = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "/",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "&&",
    "Or": "||",
    "Mod": "%",
}
_REALS = ("float32", "float64")
_BITWISE = {
    "LShift": "<<",
    "RShift": ">>",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "shift_left": "<<",
    "shift_right": ">>",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}


@dataclass(frozen=True)
class CFunction:
    """helpers: "lds_min int32", or a name of c_math.py. stores: whether, by parameter."""

    name: str
    text: str
    workspace_bytes: int
    helpers: frozenset[str]
    stores: tuple[bool, ...]


def print_function(function: PrimFunc, name: str) -> CFunction:
    """`static void name(const T *in..., T *out..., uint8_t *workspace)`. Raises UnsupportedError
    naming the node that has no C."""
    return _Printer(lowered(function, name)[name], name).printed()


def _kind(node: Expr | Stmt) -> str:
    return type(node).__name__


def _type_of(node: Expr) -> str:
    """The element type of a buffer, a variable or an expression."""
    return str(node.ty.dtype) if hasattr(node.ty, "dtype") else str(node.ty)


_Method: TypeAlias = "Callable[[_Printer, Expr | Stmt], str]"


class _Printer:
    def __init__(self, function: PrimFunc, name: str) -> None:
        self.function, self.name = function, name
        self.names: dict[object, str] = {}  # C identifiers, by variable
        self.used = {"workspace", name}
        self.helpers: set[str] = set()
        self.workspace_bytes = 0
        self.depth = 1

    def printed(self) -> CFunction:
        stored = written(self.function.body)
        parameters = []
        for parameter in self.function.params:
            const = "" if parameter.name in stored else "const "
            kind = self.type(_type_of(parameter))
            parameters.append(f"{const}{kind} *restrict {self.identifier(parameter)}")
            offset = getattr(parameter.ty, "elem_offset", None)
            if (
                _kind(offset) == "Var"
            ):  # of a tensor inside another one: ours begin at their pointer
                self.names[offset] = "0"
        body = self.statement(self.function.body)
        scratch = "uint8_t *workspace"
        unused = "" if "workspace +" in body else "  (void)workspace;\n"
        head = f"static void {self.name}({', '.join([*parameters, scratch])}) {{\n"
        text, helpers = f"{head}{unused}{body}}}", frozenset(self.helpers)
        stores = tuple(parameter.name in stored for parameter in self.function.params)
        return CFunction(self.name, text, self.workspace_bytes, helpers, stores)

    # --- names and types --------------------------------------------------------------------------
    def identifier(self, variable: Expr) -> str:
        if variable not in self.names:
            base = name = "v_" + re.sub(r"\W", "_", str(variable.name))
            count = 0
            while name in self.used:
                count += 1
                name = f"{base}_{count}"
            self.used.add(name)
            self.names[variable] = name
        return self.names[variable]

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name}: {what} has no form in C")

    def type(self, dtype: str) -> str:
        if dtype not in C_TYPES:
            raise self.refuse(f"type {dtype}")
        return C_TYPES[dtype]

    # --- statements -------------------------------------------------------------------------------
    def statement(self, node: Stmt) -> str:
        method = _STATEMENTS.get(_kind(node))
        if method is None:
            raise self.refuse(f"statement {_kind(node)}")
        return method(self, node)

    @property
    def pad(self) -> str:
        return "  " * self.depth

    def inner(self, node: Stmt) -> str:
        self.depth += 1
        text = self.statement(node)
        self.depth -= 1
        return text

    def sequence(self, node: Stmt) -> str:
        return "".join(self.statement(entry) for entry in node.seq)

    def allocate(self, node: Stmt) -> str:
        dtype = _type_of(node.buffer)
        elements = prod(int(extent) for extent in node.buffer.ty.shape)
        begin = -(-self.workspace_bytes // WORKSPACE_ALIGN_BYTES) * WORKSPACE_ALIGN_BYTES
        self.workspace_bytes = begin + elements * np.dtype(dtype).itemsize
        kind = self.type(dtype)
        name = self.identifier(node.buffer)
        return f"{self.pad}{kind} *{name} = ({kind} *)(void *)(workspace + {begin});\n"

    def view(self, node: Stmt) -> str:
        whole = owner(node.data)
        kind = self.type(_type_of(node.buffer))
        if kind == self.type(_type_of(whole)):
            self.names[node.buffer] = self.identifier(whole)
            return ""
        name, source = self.identifier(node.buffer), self.identifier(whole)
        return f"{self.pad}{kind} *{name} = ({kind} *)(void *){source};\n"

    def loop(self, node: Stmt) -> str:
        if int(node.kind) not in (0, 1, 3):  # serial, parallel, unrolled
            raise self.refuse(f"a loop of kind {node.kind}")
        kind, name = self.type(_type_of(node.loop_var)), self.identifier(node.loop_var)
        begin, end = self.expression(node.min), self.expression(node.min + node.extent)
        head = f"{self.pad}for ({kind} {name} = {begin}; {name} < {end}; ++{name}) {{\n"
        return f"{head}{self.inner(node.body)}{self.pad}}}\n"

    def condition(self, node: Stmt) -> str:
        text = f"{self.pad}if ({self.expression(node.condition)}) {{\n{self.inner(node.then_case)}"
        if node.else_case is not None:
            text += f"{self.pad}}} else {{\n{self.inner(node.else_case)}"
        return f"{text}{self.pad}}}\n"

    def store(self, node: Stmt) -> str:
        place = f"{self.identifier(node.buffer)}[{self.index(node.indices)}]"
        return f"{self.pad}{place} = {self.cast(node.value, _type_of(node.buffer))};\n"

    def bind(self, node: Stmt) -> str:
        kind = self.type(_type_of(node.value))
        return (
            f"{self.pad}const {kind} {self.identifier(node.var)} = {self.expression(node.value)};\n"
        )

    def attribute(self, node: Stmt) -> str:
        return self.statement(node.body)

    def evaluate(self, node: Stmt) -> str:
        if _kind(node.value) != "IntImm":
            called = getattr(node.value, "args", [""])[0]
            raise self.refuse(f"a call of {getattr(called, 'value', called)}")
        return ""

    # --- expressions ------------------------------------------------------------------------------
    def expression(self, node: Expr) -> str:
        method = _EXPRESSIONS.get(_kind(node))
        if method is None:
            raise self.refuse(f"expression {_kind(node)}")
        return method(self, node)

    def cast(self, node: Expr, dtype: str) -> str:
        """A narrow result of C's int arithmetic, as the type that TensorIR gives it."""
        text = self.expression(node)
        narrow = dtype in ("int8", "uint8", "int16", "uint16", "bool")
        return f"({self.type(dtype)})({text})" if narrow and _kind(node) != "Cast" else text

    def index(self, indices: list[Expr]) -> str:
        if len(indices) != 1:
            raise self.refuse("an index of several dimensions")
        return self.expression(indices[0])

    def integer(self, node: Expr) -> str:
        kind, value = _type_of(node), int(node.value)
        if kind == "int64" and value == -(2**63):
            return "INT64_MIN"
        if kind == "int32" and value == -(2**31):
            return "INT32_MIN"
        text = f"{value}{_SUFFIX.get(kind, '')}"
        return text if value >= 0 else f"({text})"

    def real(self, node: Expr) -> str:
        value, kind = float(node.value), _type_of(node)
        if kind == "float16":
            return f"{int(np.array(value, np.float16).view(np.uint16))}u"
        if kind not in ("float32", "float64"):
            raise self.refuse(f"type {kind}")
        cast = "(float)" if kind == "float32" else ""
        if not np.isfinite(value):
            self.helpers.add("lds_bits")
            bits = int(np.array(value, np.float64).view(np.uint64))
            return f"({cast}lds_bits(0x{bits:x}ULL))"
        text = float(np.float32(value)).hex() + "f" if kind == "float32" else value.hex()
        return text if value >= 0 and not text.startswith("-") else f"({text})"

    def infix(self, node: Expr) -> str:
        self.computed(_kind(node), [node.a])
        if _kind(node) == "Mod" and _type_of(node).startswith("float"):
            return self.mathematics("fmod", _type_of(node), [node.a, node.b])
        if _kind(node) in ("Div", "Mod") and not _is_harmless(node.b):
            return self.helped(node)
        text = f"({self.expression(node.a)} {_INFIX[_kind(node)]} {self.expression(node.b)})"
        narrow = _type_of(node) in ("int8", "uint8", "int16", "uint16")
        return f"({self.type(_type_of(node))}){text}" if narrow else text

    def bitwise(self, node: Expr) -> str:
        return self.bits(_kind(node), _type_of(node), [node.a, node.b])

    def bits(self, name: str, kind: str, arguments: list[Expr]) -> str:
        """A negative number is shifted to the left as its bits."""
        left, right = map(self.expression, arguments)
        if _BITWISE[name] == "<<" and kind.startswith("int"):
            left = f"({self.type('u' + kind)})({left})"
        return f"(({self.type(kind)})({left} {_BITWISE[name]} {right}))"

    def inverted(self, node: Expr) -> str:
        return f"(({self.type(_type_of(node))})(~{self.expression(node.a)}))"

    def helped(self, node: Expr) -> str:
        return self.helper(f"lds_{_kind(node).lower()}", _type_of(node), [node.a, node.b])

    def helper(self, name: str, dtype: str, arguments: list[Expr]) -> str:
        self.computed(name.removeprefix("lds_"), arguments)
        if name in ("lds_floordiv", "lds_floormod") and dtype.startswith("float"):
            raise self.refuse(f"{name.removeprefix('lds_')} of {dtype}")
        self.type(dtype)
        self.helpers.add(f"{name} {dtype}")
        return f"{name}_{dtype}({', '.join(map(self.expression, arguments))})"

    def mathematics(self, name: str, dtype: str, arguments: list[Expr]) -> str:
        if name not in MATH or dtype not in ("float32", "float64"):
            raise self.refuse(f"{name} of {dtype}")
        function = MATH[name] + ("f" if dtype == "float32" else "")
        self.helpers.add(function)
        return f"{function}({', '.join(map(self.expression, arguments))})"

    def opposite(self, node: Expr) -> str:
        return f"(!{self.expression(node.a)})"

    def choice(self, condition: Expr, yes: Expr, no: Expr) -> str:
        return f"({self.expression(condition)} ? {self.expression(yes)} : {self.expression(no)})"

    def select(self, node: Expr) -> str:
        return self.choice(node.condition, node.true_value, node.false_value)

    def computed(self, what: str, arguments: list[Expr]) -> None:
        if any(_type_of(entry) == "float16" for entry in arguments):
            raise self.refuse(f"{what} of float16")

    def convert(self, node: Expr) -> str:
        kind, text = _type_of(node), self.expression(node.value)
        if _type_of(node.value) == "float16" != kind:
            self.helpers.add("lds_from_half")
            text = f"lds_from_half({text})"
        elif kind == "float16" and _type_of(node.value) != "float16":
            if _type_of(node.value) != "float32":
                raise self.refuse(f"{_type_of(node.value)} as float16")
            self.helpers.add("lds_to_half")
            return f"lds_to_half({text})"
        if kind == "bool":
            return f"({text} != 0)"
        if _type_of(node.value) in _REALS and "int" in kind:
            name = f"lds_of_{C_TYPES[_type_of(node.value)]}"
            self.helpers.add(f"{name} {kind}")
            return f"{name}_{kind}({text})"
        return f"(({self.type(kind)})({text}))"

    def load(self, node: Expr) -> str:
        return f"{self.identifier(loaded_buffer(node))}[{self.index(node.indices)}]"

    def call(self, node: Expr) -> str:
        if not hasattr(node.op, "name"):
            raise self.refuse("a call of a function")
        name = str(node.op.name).rpartition(".")[2]  # tirx.exp, prim.ceil
        arguments, kind = list(node.args), _type_of(node)
        if name == "likely":
            return self.expression(arguments[0])
        if name == "if_then_else":
            return self.choice(*arguments)
        if name in _BITWISE:
            return self.bits(name, kind, arguments)
        if name in ("abs", "fabs") and "int" in kind:
            return self.helper("lds_abs", kind, arguments)
        if name in ("isnan", "isinf"):
            self.computed(name, arguments)
            text = self.expression(arguments[0])
            return (
                f"({text} != {text})"
                if name == "isnan"
                else f"({text} == {text} && {text} - {text} != 0)"
            )
        return self.mathematics(name, kind, arguments)


def _is_harmless(divisor: Expr) -> bool:
    """Whether no dividend makes C's own division fail."""
    whole = _kind(divisor) == "IntImm" and int(divisor.value) not in (0, -1)
    return whole or _type_of(divisor).startswith("float")


_STATEMENTS: Mapping[str, _Method] = {
    "SeqStmt": _Printer.sequence,
    "AllocBuffer": _Printer.allocate,
    "DeclBuffer": _Printer.view,
    "For": _Printer.loop,
    "IfThenElse": _Printer.condition,
    "BufferStore": _Printer.store,
    "Bind": _Printer.bind,
    "AttrStmt": _Printer.attribute,
    "Evaluate": _Printer.evaluate,
}
_EXPRESSIONS: Mapping[str, _Method] = {
    "Var": _Printer.identifier,
    "IntImm": _Printer.integer,
    "FloatImm": _Printer.real,
    **dict.fromkeys(_INFIX, _Printer.infix),
    **dict.fromkeys(("FloorDiv", "FloorMod", "Min", "Max"), _Printer.helped),
    **dict.fromkeys(("LShift", "RShift"), _Printer.bitwise),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), _Printer.bitwise),
    "BitwiseNot": _Printer.inverted,
    "Not": _Printer.opposite,
    "Select": _Printer.select,
    "Cast": _Printer.convert,
    "BufferLoad": _Printer.load,
    "TensorLoad": _Printer.load,
    "Call": _Printer.call,
}
