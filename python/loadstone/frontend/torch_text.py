# SPDX-License-Identifier: Apache-2.0
"""Every text in a .pt2 program that PyTorch would evaluate, import or write into code that it runs.

In:   the JSON of a program, as torch.export.save wrote it.
Out:  the same without what nobody needs (guards, traces), or a ModelError that names the text.
Next: torch_file.py packs it anew, and PyTorch reads that.

torch.export.load gives the text of a symbolic size to SymPy, which evaluates it as Python; looks
operators up along any dotted path of the package; imports what the structure of inputs and outputs
names; and writes names into the code of a graph, which it executes. So each is held against the
short list of what the exporter writes.
"""

from __future__ import annotations

import ast
import json
import keyword
import re

from loadstone.errors import ModelError
from loadstone.frontend.message import short

__all__ = ["check_config", "checked_program"]

#: Of torch.ops.higher_order: what runs a part of the graph as it is, or is refused by name later.
PARTS = ("wrap_with_set_grad_enabled", "wrap_with_autocast", "cond", "while_loop", "scan")
#: On sizes: those of `operator`, `math` and torch itself that the exporter's own list has.
ON_SIZES = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|mod|pow|truediv|and_|or_|getitem)"
    r"|math\.trunc|torch\.sym_(not|int|float|ite|max|min|sqrt|sum)|torch\._sym_sqrt"
)
OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.\w+(\.\w+)?"
    rf"|torch\.ops\.higher_order\.({'|'.join(PARTS)})"
)
#: Operators of ATen that reach beyond the program's tensors.
FILES = re.compile(r"torch\.ops\.aten\.(save|load|from_file|format|percentFormat|_?print|warn)\b.*")
#: A name that is no code however it is quoted; those of modules may have dots, dashes and spaces.
PATH = re.compile(r"[\w.\-+/: ]*")
#: What follows the names in a graph: their values are names, too.
NAMES = ("name", "as_name", "forward_arg_names")
#: Containers of inputs and outputs that need no import.
CONTAINERS = (
    "builtins.tuple",
    "builtins.list",
    "builtins.dict",
    "collections.OrderedDict",
    "collections.namedtuple",
    "torch.Size",
    "torch.fx.immutable_collections.immutable_dict",
    "torch.fx.immutable_collections.immutable_list",
)
#: SymPy's functions and PyTorch's on sizes; those whose second argument is a power or a shift.
FUNCTIONS = re.compile(
    "Symbol|Integer|Float|Rational|Add|Mul|Max|Min|Abs|Mod|PythonMod|FloorDiv|CleanDiv|CeilDiv"
    "|ModularIndexing|Where|Identity|ToFloat|IntTrueDiv|FloatTrueDiv|TruncToInt|TruncToFloat"
    "|CeilToInt|FloorToInt|RoundToInt|floor|ceiling|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality"
    "|LessThan|StrictLessThan|GreaterThan|StrictGreaterThan|And|Or|Not|Piecewise|ExprCondPair"
    "|Tuple|IsNonOverlappingAndDenseIndicator"
)
POWERS = ("Pow", "PowByNatural", "FloatPow", "LShift", "RShift")
#: What the exporter writes between the brackets of these.
LITERALS = {
    "Symbol": re.compile(r"[A-Za-z_]\w{0,63}"),
    "Float": re.compile(r"-?[\d.]{1,64}(e[+-]?\d{1,4})?"),
}
SYMBOL = re.compile(r"[a-z]{1,5}\d+|oo|int_oo|true|false")
NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Load, ast.Tuple)
SIGNS = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
MAX_EXPRESSION_CHARACTERS = 4000
MAX_DEPTH = 100
MAX_POWER = 64
MAX_INTEGER = 2**63


def checked_program(data: bytes, name: str) -> bytes:
    """The JSON of a program without its guards and the traces of its nodes. Raises ModelError for
    a text that could run code, and for what is no JSON."""
    try:
        program = json.loads(data)
    except (ValueError, RecursionError):
        raise ModelError(f"{name}: a damaged file: its program is no JSON") from None
    if not isinstance(program, dict):
        raise ModelError(f"{name}: a damaged file: its program is no object of JSON")
    program["guards_code"] = []  # Python for other sizes than those that are compiled for
    try:
        _check(program, "", name)
    except RecursionError:
        raise ModelError(f"{name}: a damaged file: its program is nested too deep") from None
    return json.dumps(program).encode()


def check_config(data: bytes, name: str) -> None:
    """Where the bytes of weights or constants lie. Raises ModelError for pickled ones, for places
    outside their folder, and for names that are none."""
    try:
        entries = json.loads(data)["config"]
        for path, entry in entries.items():
            _check_path(path, "weight", name)
            if entry["use_pickle"]:
                raise ModelError(
                    f'{name}: "{short(path)}" is stored as a pickled object, which could run code: '
                    "save it as a plain tensor (torchao: unwrap_tensor_subclass(model) before the "
                    "export, and program.run_decompositions() behind it)"
                )
            if not re.fullmatch(r"(weight|tensor)_\w+", entry["path_name"]):
                raise ModelError(
                    f'{name}: "{short(path)}" lies in "{short(str(entry["path_name"]))}", where '
                    "PyTorch stores no tensor"
                )
            _check(entry, "", name)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{name}: a damaged file: its table of weights is not sound") from None


def _check(item: object, key: str, name: str) -> None:
    """One value of the JSON and all below it. key: what it is the value of."""
    if key == "expr_str" and not isinstance(item, str):
        raise ModelError(f"{name}: a damaged file: a symbolic size is no text")
    if isinstance(item, dict):
        if ("target" in item or "module_call_graph" in item) and item.get("metadata"):
            item["metadata"] = _stripped(item["metadata"])
        for inner, value in item.items():
            _check_path(inner, "name", name)
            _check(value, inner, name)
    elif isinstance(item, list):
        for value in item:
            _check(value, key, name)
    elif isinstance(item, str):
        _check_text(item, key, name)


def _stripped(metadata: object) -> dict[str, str]:
    """Of what is noted of a node only its module is read; of a graph, nothing."""
    stack = metadata.get("nn_module_stack") if isinstance(metadata, dict) else None
    return {"nn_module_stack": stack} if isinstance(stack, str) and stack else {}


def _decomposed(target: str) -> str:
    """The remedy for an operator of torchao, which PyTorch breaks down into such ones."""
    is_torchao = target.startswith("torch.ops.torchao.")
    return ": call program.run_decompositions() before it is saved" if is_torchao else ""


def _check_text(text: str, key: str, name: str) -> None:
    if key == "expr_str":
        _check_expression(text, name)
    elif key in ("target", "as_operator"):
        if FILES.fullmatch(text) or not (OPERATOR.fullmatch(text) or ON_SIZES.fullmatch(text)):
            raise ModelError(
                f'{name}: "{short(text)}" is no operator of a model: those of the namespaces '
                "aten, prims and quantized_decomposed are read, which touch no files"
                f"{_decomposed(text)}"
            )
    elif key in ("in_spec", "out_spec"):
        _check_structure(text, name)
    elif key in NAMES:
        if text and (not text.isidentifier() or keyword.iskeyword(text)):
            raise ModelError(
                f'{name}: "{short(text)}" stands where a name does, and is none: only letters, '
                "digits and _ can be read there"
            )
    elif key not in ("as_string", "as_strings", "nn_module_stack"):  # data: never written as code
        _check_path(text, key, name)


def _check_path(text: str, what: str, name: str) -> None:
    if not PATH.fullmatch(text):
        raise ModelError(
            f'{name}: "{short(text)}" ({what}) holds other characters than names do: only letters, '
            "digits, spaces and _.-+/: can be read there"
        )


def _check_structure(text: str, name: str) -> None:
    """How inputs and outputs are nested: containers that PyTorch knows, keys that are texts."""
    if not text:
        return
    try:
        pending = [json.loads(text)[1]]
        while pending:
            item = pending.pop()
            kind, context = item["type"], item["context"]
            if kind is not None and kind not in CONTAINERS:
                raise ModelError(
                    f'{name}: its inputs or outputs are a "{short(str(kind))}": use tensors, and '
                    "lists, tuples and dicts of them"
                )
            for key in _texts(json.loads(context) if isinstance(context, str) else context):
                _check_path(key, "key of an input or output", name)
            pending += item["children_spec"]
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        raise ModelError(
            f"{name}: a damaged file: how its inputs and outputs are nested is not sound"
        ) from None


def _texts(context: object) -> list[str]:
    """The keys of a container. Raises ValueError for anything but texts and numbers: an object
    would be imported."""
    items = context if isinstance(context, list) else [context]
    if any(item is not None and not isinstance(item, str | int | float) for item in items):
        raise ValueError
    return [item for item in items if isinstance(item, str)]


# --------------------------------------------------------------------------------------------------
# Expressions
# --------------------------------------------------------------------------------------------------


def _check_expression(text: str, name: str) -> None:
    """A symbolic size: integers, symbols, arithmetic, and functions of FUNCTIONS."""

    def refuse(what: str) -> ModelError:
        return ModelError(
            f'{name}: the symbolic size "{short(text)}" {what}: a file of torch.export.save has '
            "numbers, symbols and arithmetic there"
        )

    if len(text) > MAX_EXPRESSION_CHARACTERS:
        raise refuse(f"has {len(text)} characters, of {MAX_EXPRESSION_CHARACTERS}")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise refuse("is no expression") from None
    powers = 1
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise refuse(f"is nested deeper than {MAX_DEPTH}")
        wrong = _wrong(node)
        if wrong:
            raise refuse(wrong)
        powers *= max(1, _power(node))
        if powers > MAX_POWER:
            raise refuse(f"raises to powers above {MAX_POWER}")
        pending += [
            (child, depth + 1)
            for child in ast.iter_child_nodes(node)
            if not (isinstance(node, ast.Call) and child is node.func)
            and not (isinstance(node, ast.Call) and node.func.id in ("Symbol", "Float"))  # type: ignore[attr-defined]
        ]


def _wrong(node: ast.AST) -> str:
    """What one node of an expression is, where it may not stand in one; empty where it may."""
    if isinstance(node, ast.Call):
        return _wrong_call(node)
    if isinstance(node, ast.Name):
        return "" if SYMBOL.fullmatch(node.id) else f'names "{short(node.id)}"'
    if isinstance(node, ast.Constant):
        number = node.value
        if isinstance(number, bool) or (isinstance(number, int) and abs(number) <= MAX_INTEGER):
            return ""
        return "" if isinstance(number, float) else f"holds {short(repr(number))}"
    return "" if isinstance(node, (*NODES, *SIGNS)) else f"holds a {type(node).__name__}"


def _wrong_call(node: ast.Call) -> str:
    function = node.func.id if isinstance(node.func, ast.Name) else ""
    if not FUNCTIONS.fullmatch(function) and function not in POWERS:
        return f'calls "{short(ast.unparse(node.func))}"'
    if function not in ("Symbol", "Float"):
        return "" if not node.keywords else f"gives {function} a keyword"
    words = [*node.args[1:], *(entry.value for entry in node.keywords)]
    literal = LITERALS[function]
    plain = (
        all(isinstance(word, ast.Constant) for word in (*node.args, *words))
        and len(node.args) == 1
        and literal.fullmatch(str(ast.literal_eval(node.args[0]))) is not None
        and all(ast.literal_eval(word) in range(1000) for word in words)
        and all(entry.arg in ("integer", "positive", "precision") for entry in node.keywords)
    )
    return "" if plain else f"has a {function} that is no plain one"


def _power(node: ast.AST) -> int:
    """The exponent of a power or shift, MAX_POWER + 1 where it is no small number; 1 for
    anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift | ast.RShift):
        exponent = node.right
    elif isinstance(node, ast.Call) and node.func.id in POWERS and len(node.args) == 2:  # type: ignore[attr-defined]
        exponent = node.args[1]
    elif isinstance(node, ast.Call) and node.func.id in POWERS:  # type: ignore[attr-defined]
        return MAX_POWER + 1
    else:
        return 1
    while isinstance(exponent, ast.UnaryOp | ast.Call):
        if isinstance(exponent, ast.Call) and len(exponent.args) != 1:
            return MAX_POWER + 1
        exponent = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent.args[0]
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    return abs(value) if isinstance(value, int) else MAX_POWER + 1
