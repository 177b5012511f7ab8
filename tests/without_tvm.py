# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.without_tvm`: the modules that need NumPy and cffi alone: what runs on a board.

In:   the package's sources.
Out:  their names, one a line.
Next: `make check` reads them with the types of Python 3.10; test_layers.py promises some of them;
      test_wheel.py imports all of them where nothing else is installed.

Found by their imports, not listed: a module belongs to them until it, or what it imports, asks for
a third package. Imports inside functions are not followed: they are how a module uses TVM for one
thing only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from functools import cache

from tests.measure import modules, tree_of

__all__ = ["foreign_to", "imports_of", "names", "reached_from"]

#: What `pip install loadstone` brings.
PACKAGES = ("numpy", "cffi")


@cache
def imports_of(module: str) -> frozenset[str]:
    """What a module imports: modules of ours by full name, others by their top name."""
    found: set[str] = set()
    for node in walk(tree_of(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute"
            assert node.module is not None
            found |= {
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}" in modules()
                else node.module
                for alias in node.names
            }
    return frozenset(
        name if name.startswith("loadstone") else name.partition(".")[0] for name in found
    )


def walk(tree: ast.AST) -> Iterable[ast.AST]:
    """All nodes; without what only runs in functions, or is there for type checkers."""
    todo = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
                continue  # no import stands in an expression
            if isinstance(node, ast.If) and ast.unparse(node.test) in (
                "TYPE_CHECKING",
                "typing.TYPE_CHECKING",
            ):
                continue
            yield node
            todo.append(node)


def reached_from(module: str) -> dict[str, str]:
    """Everything that importing `module` imports, packages' __init__ included -> the module that
    asked for it."""
    asked = {module: ""}
    todo = [module]
    while todo:
        current = todo.pop()
        parents = [current.rsplit(".", k)[0] for k in range(1, current.count(".") + 1)]
        for name in {*imports_of(current), *parents}:
            if name not in asked:
                asked[name] = current
                if name in modules():
                    todo.append(name)
    return asked


def foreign_to(module: str) -> dict[str, str]:
    """What importing `module` needs besides -> the module that asks for it."""
    allowed = {*PACKAGES, *sys.stdlib_module_names}
    return {
        name: by
        for name, by in reached_from(module).items()
        if not name.startswith("loadstone") and name not in allowed
    }


def names() -> list[str]:
    """The modules of a board, sorted; a template, which is text to be changed, is none."""
    return sorted(
        name
        for name in modules()
        if not name.startswith("loadstone.backend.template.") and not foreign_to(name)
    )


if __name__ == "__main__":
    print(*names(), sep="\n")
