# SPDX-License-Identifier: Apache-2.0
"""Functions and classes of the package that nothing but tests uses. vulture takes what stands in
`__all__` for used, so it does not see these.

In:   python/loadstone; the code and the pages that may use it; `ignore_names` of pyproject.toml.
Out:  `unused_names`.
Next: tests/measure.py counts them.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

__all__ = ["unused_names", "used_by"]

ROOT = Path(__file__).resolve().parents[1]
#: Who uses the package, besides itself: what stands beside it, examples.
USERS = ("packages", "tools", "docs")
#: Files that `loadstone backend new` writes for somebody, who calls what is in them.
TEMPLATE = "loadstone.backend.template."


def used_by(tree: ast.AST) -> Iterator[str]:
    """Names that code reads, imports or sets: not what it defines, nor what `__all__` lists."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]


def unused_names(trees: dict[str, ast.Module]) -> Sequence[str]:
    """`module:line name` of each. trees: of the package's modules, by name. What a page of docs/
    names, and what a module holds whose reference is a page there, is for users."""
    used = {name for tree in trees.values() for name in used_by(tree)}
    for folder in USERS:
        for path in (ROOT / folder).rglob("*.py"):
            used.update(used_by(ast.parse(path.read_text(encoding="utf-8"))))
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    used.update(re.findall(r"\w+", texts))
    public = set(re.findall(r"^::: ([\w.]+)$", texts, re.MULTILINE))
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    called = settings["tool"]["vulture"]["ignore_names"]
    return [
        f"{module}:{node.lineno} {node.name}"
        for module, tree in trees.items()
        if module not in public and not module.startswith(TEMPLATE)
        for node in _defined(tree)
        if node.name not in used and not any(fnmatch(node.name, name) for name in called)
    ]


def _defined(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Those that nothing registers (a decorator's affair) and Python does not call itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("__"):
            names = [ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list]
            if not {"importer", "converter", "atexit.register"} & set(names):
                yield node
