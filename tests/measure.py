# SPDX-License-Identifier: Apache-2.0
"""What can be counted of the tree's order: `make measure`.

In:   the sources of python/loadstone.
Out:  a line for each measure with its limit, and what is beyond it; exit status 1 then.
Next: whoever adds a file or a parameter reads it.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.unused_names import unused_names

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "loadstone"

MAX_LINES = 400
MAX_COMPLEXITY = 15
MAX_PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measure:
    """One figure of the tree. found: what counts, by name; at most `limit` of these may be."""

    name: str
    limit: int
    find: Callable[[], Sequence[str]]


@cache
def modules() -> dict[str, Path]:
    """Name -> file of every module of the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree_of(module: str) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def functions() -> Iterator[tuple[str, Function]]:
    """Every function, inner ones and methods too, with a name that says where it is."""
    for module in modules():
        for node in ast.walk(tree_of(module)):
            if isinstance(node, Function):
                yield f"{module}:{node.lineno} {node.name}", node


def loose_modules() -> list[str]:
    """Files in the root of the package."""
    return sorted(path.name for path in PACKAGE.glob("*.py"))


def long_files() -> list[str]:
    """Files that pass 400 lines, the licence's not counted, usually hold two ideas."""
    counts = {
        module: len(path.read_text(encoding="utf-8").splitlines()[1:])
        for module, path in modules().items()
    }
    return [f"{module} ({count} lines)" for module, count in counts.items() if count > MAX_LINES]


def class_names_twice() -> list[str]:
    """Two classes of the package that share a name; private ones are their file's own affair."""
    places = defaultdict(list)
    for module in modules():
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(places.items()) if where[1:]]


# --- tests ----------------------------------------------------------------------------------------
#: Modules and folders whose tests stand in a file of another name, and why.
TESTED_ELSEWHERE = {
    "__main__": ("test_cli", "it starts the command line"),
    "commands/": ("commands/test_run", "a command is tested as people call it: tests/commands"),
    "backend/template/": ("conformance/test_check", "a user's file: it is compiled and conforms"),
    "backend/region": ("backend/test_interface", "a protocol; it has no code of its own"),
    "relax/types": ("relax/test_compat", "names for type checkers"),
    "frontend/aten/": ("frontend/test_aten", "every operator is compared with PyTorch's"),
    "frontend/layout": ("frontend/test_canonical", "one half of the canonical form"),
    "graph/base": ("graph/test_graph", "dataclasses, tested together"),
    "graph/elementwise": ("graph/test_graph", "dataclasses, tested together"),
    "graph/movement": ("graph/test_graph", "dataclasses, tested together"),
    "graph/network": ("graph/test_graph", "dataclasses, tested together"),
    "graph/pooling": ("graph/test_graph", "dataclasses, tested together"),
    "graph/weighted": ("graph/test_graph", "dataclasses, tested together"),
    "partition/patterns/": ("partition/patterns/test_patterns", "patterns compete with each other"),
    "partition/cost/candidates": ("partition/cost/test_choice", "what a choice is made from"),
    "ir_pass/": ("ir_pass/test_pipeline", "golden texts of every pass, and what each refuses"),
    "vta/operators/": ("vta/operators/test_operators", "every operator is compared in one way"),
    "vta/schedule/": ("vta/operators/test_operators", "a schedule is right when its operator is"),
    "vta/backend": ("vta/region/test_patterns", "it joins patterns and regions"),
    "isa/scratchpad": ("isa/test_residency", "types, and what residency.py does with them"),
    "vta/passes/synchronize/hazards": (
        "vta/passes/synchronize/test_synchronize",
        "tokens and the proof of tokens belong together",
    ),
    "vta/passes/program": ("vta/passes/test_pipeline", "what passes hand on"),
    "vta/stream/operations": ("vta/kernels/test_emitter", "dataclasses of operations"),
    "vta/stream/text": ("vta/passes/test_pipeline", "golden texts"),
    "vta/passes/encode/verify": (
        "vta/passes/encode/test_encode",
        "a verifier, fed with spoilt programs",
    ),
    "vta/passes/allocate/verify": (
        "vta/passes/allocate/test_allocate",
        "a verifier, fed with spoilt programs",
    ),
    "artifact/host_operators": ("artifact/test_content", "a test for each rule of the format"),
    "artifact/step_writer": ("artifact/test_relax_steps", "values between an operator's steps"),
    "artifact/memory_plan": ("artifact/test_content", "a test for each rule of the format"),
    "conformance/": ("conformance/test_check", "cases are judged, and wrong back ends found"),
    "prove/compiled": ("prove/test_proof", "an artifact, executed"),
    "prove/operators/": ("prove/test_operators", "every operator is compared with its meaning"),
    "prove/verdict": ("prove/test_proof", "dataclasses of what a proof says"),
    "prove/witness": ("prove/test_proof", "what a spoilt artifact is told"),
    "prove/network": ("prove/test_read_tflite", "dataclasses, filled by the readers"),
    "prove/onnx/": ("prove/test_read_onnx", "every operator is compared with ONNX Runtime"),
    "prove/tflite/": ("prove/test_read_tflite", "every operator is compared with LiteRT"),
    "quantization/executable": ("quantization/test_simulate", "what the simulation runs"),
    "quantization/onnx_writer": ("quantization/test_export_onnx", "the base of the exporter"),
    "runtime/externals": ("artifact/test_host", "steps that Python runs"),
    "relax/c_loops": ("relax/test_c_printer", "loops as the printer writes them"),
    "artifact/c_text": ("artifact/c_kernels/test_body", "the text of kernels, compiled and run"),
    "graph/reduction": ("frontend/test_tflite_kernels", "dataclasses; compared with LiteRT"),
    "graph/kernels/tflite/reduction": ("frontend/test_tflite_kernels", "compared with LiteRT"),
    "hosts/offload": ("hosts/test_tvm", "each host's test goes through it"),
}


def modules_without_test() -> list[str]:
    """Modules without tests/<folder>/test_<name>.py, but for TESTED_ELSEWHERE; and its lines that
    name what is not there, or a module that has a test of its own by now."""
    found = []
    tests = ROOT / "tests"
    excused: set[str] = set()
    for path in modules().values():
        name = path.relative_to(PACKAGE).with_suffix("").as_posix()
        folder, _, stem = name.rpartition("/")
        if stem == "__init__":
            continue
        own = (tests / folder / f"test_{stem}.py").is_file()
        rules = [rule for rule in TESTED_ELSEWHERE if covers(rule, name)]
        if not own and not rules:
            found.append(f"{name}: no tests/{folder}{'/' if folder else ''}test_{stem}.py")
        excused.update(rule for rule in rules if not own or rule.endswith("/"))
    found += [
        f"TESTED_ELSEWHERE has {rule!r} for nothing" for rule in TESTED_ELSEWHERE.keys() - excused
    ]
    places = {file for file, _ in TESTED_ELSEWHERE.values()}
    return found + [
        f"no tests/{file}.py" for file in places if not (tests / f"{file}.py").is_file()
    ]


def covers(rule: str, name: str) -> bool:
    """Whether a line of TESTED_ELSEWHERE is about a module: itself, or a folder."""
    return name == rule or (rule.endswith("/") and name.startswith(rule))


# --- imports --------------------------------------------------------------------------------------
@cache
def imports_of(module: str) -> frozenset[str]:
    """Modules of ours that a module imports, inside functions too; not what is for type checkers
    only."""
    found: set[str] = set()
    for node in _without_type_checking(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            inner = names & modules().keys()
            found |= inner | ({node.module} if names - inner else set())
            handed = handed_on(node.module) if node.module in modules() else {}
            found |= {handed[alias.name] for alias in node.names if alias.name in handed}
    return frozenset((found & modules().keys()) - {module})


@cache
def handed_on(module: str) -> dict[str, str]:
    """Names that a module has its `__getattr__` import when they are asked for -> the modules that
    hold them. To type checkers it says so itself."""
    body = tree_of(module).body
    if not any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in body):
        return {}
    return {
        alias.asname or alias.name: node.module
        for block in body
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _without_type_checking(tree: ast.AST) -> Iterator[ast.stmt]:
    """The statements: no import stands in an expression."""
    todo = [tree]
    while todo:
        for node in _statements(todo.pop()):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            yield node
            todo.append(node)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those that stand in it, in the handlers of a `try` and the cases of a `match` too."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, name, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            else:
                yield from _statements(inner)


def import_circles() -> list[str]:
    """Groups of modules that import each other, directly or not (Tarjan's components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[str] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(imports_of(module)):
            if other not in index:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], index[other])
        if low[module] == index[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                circles.append(" <-> ".join(stack[at:]))
            del stack[at:]

    for module in modules():
        if module not in index:
            visit(module)
    return circles


# --- functions ------------------------------------------------------------------------------------
_BRANCHES = (
    ast.If,
    ast.For,
    ast.While,
    ast.AsyncFor,
    ast.IfExp,
    ast.ExceptHandler,
    ast.comprehension,
)


def _complexity(function: Function) -> int:
    """McCabe's: one, and one for every branch; those of inner functions are theirs."""
    count = 1
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, Function | ast.ClassDef):
            continue
        count += isinstance(node, _BRANCHES)
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        count += len(node.cases) if isinstance(node, ast.Match) else 0
        todo += ast.iter_child_nodes(node)
    return count


def complex_functions() -> list[str]:
    """Functions whose complexity is above 15."""
    return [name for name, function in functions() if _complexity(function) > MAX_COMPLEXITY]


def wide_functions() -> list[str]:
    """Functions with more than six parameters, `self` left out."""
    found = []
    for name, function in functions():
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if len([a for a in arguments if a.arg not in ("self", "cls")]) > MAX_PARAMETERS:
            found.append(name)
    return found


def anys() -> list[str]:
    """Every `Any`, but for its imports."""
    found = []
    for module, path in modules().items():
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.string == "Any" and "import" not in token.line:
                    found.append(f"{module}:{token.start[0]}")
    return found


# --- state ----------------------------------------------------------------------------------------
#: What a module may keep while the process runs, and why it is no argument: nothing that one stage
#: of a compile tells the next.
PROCESS_STATE = {
    "backend.external._FUNCTIONS": "a register: functions of external steps, by name",
    "frontend.aten.build.OPERATORS": "a register, filled when its modules are imported",
    "frontend.onnx.table.CONVERTERS": "a register, filled when its modules are imported",
    "hosts.tvm._pending": "TVM's RunCodegen calls a global function, with texts as options",
    "isa.accelerator._FACTORIES": "a register: accelerators of plug-ins, by name",
    "relax.byoc._PATTERNS": "a register: what stands in TVM's table already",
    "relax.byoc._ROWS": "a register: the rows of TVM's table that are ours",
    "relax.saved._compiled": "functions that TVM has compiled",
    "runtime.c_step._FUNCTIONS": "libraries that are loaded",
    "runtime.simulated._there": "threads that end before the process does",
    "search.evaluate._MODULES": "a worker reads a network once, by its digest",
    "vta.simulator.signals._raised": "what a signal's handler raised during a call of C",
}
_CHANGES = frozenset(
    [
        "add",
        "append",
        "appendleft",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "popleft",
        "remove",
        "setdefault",
        "update",
    ]
)


def state_of_modules() -> list[str]:
    """What functions hand each other past their arguments: context variables, locals of threads,
    `global`, and containers of modules that functions change, but for PROCESS_STATE; and its lines
    that name what is not there."""
    found = {name for module in modules() for name in _state_of(module, tree_of(module))}
    return sorted(found - PROCESS_STATE.keys()) + [
        f"PROCESS_STATE has {name!r} for nothing" for name in sorted(PROCESS_STATE.keys() - found)
    ]


def _state_of(module: str, tree: ast.Module) -> Iterator[str]:
    """Names behind the module's, which stands without the package's."""
    inside = module.partition(".")[2] or module
    own = {
        target.id
        for node in tree.body
        for target in (node.targets if isinstance(node, ast.Assign) else _annotated(node))
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from (f"{inside}.{name}" for name in node.names)
        elif isinstance(node, ast.Name | ast.Attribute) and _last(node) in ("ContextVar", "local"):
            if ast.unparse(node) in ("ContextVar", "contextvars.ContextVar", "threading.local"):
                yield f"{inside}: {ast.unparse(node)}"
        elif isinstance(node, Function):
            yield from (f"{inside}.{name}" for name in own & _changed(node))


def _annotated(node: ast.stmt) -> list[ast.expr]:
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def _last(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _changed(function: Function) -> set[str]:
    """Names that are not the function's own, and whose items it changes."""
    arguments = function.args
    own = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    changed: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        place: ast.expr | None = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            place = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            place = node.func.value if node.func.attr in _CHANGES else None
        if isinstance(place, ast.Name):
            changed.add(place.id)
    return changed - own


def only_tested() -> Sequence[str]:
    """Functions and classes that nothing but tests uses."""
    return unused_names({module: tree_of(module) for module in modules()})


MEASURES = (
    Measure("loose modules in the package's root", 9, loose_modules),
    Measure("import circles, lazy imports counted", 0, import_circles),
    Measure("class names that occur twice", 0, class_names_twice),
    Measure(f"Python files of more than {MAX_LINES} lines", 0, long_files),
    Measure("modules without a test file of their name", 0, modules_without_test),
    Measure(f"functions of complexity above {MAX_COMPLEXITY}", 0, complex_functions),
    Measure(f"functions with more than {MAX_PARAMETERS} parameters", 10, wide_functions),
    Measure("state of modules that no argument carries", 0, state_of_modules),
    Measure("names that only tests use", 3, only_tested),
    Measure("uses of Any", 199, anys),
)


def main() -> int:
    """Prints the figures; 1 when one is beyond its limit."""
    status = 0
    for measure in MEASURES:
        found = measure.find()
        beyond = len(found) > measure.limit
        print(f"{len(found):>6}  (at most {measure.limit})  {measure.name}")
        if beyond:
            status = 1
            print("\n".join(f"            {name}" for name in found[:40]))
    return status


if __name__ == "__main__":
    sys.exit(main())
