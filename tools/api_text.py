# SPDX-License-Identifier: Apache-2.0
"""The Python reference as plain text, for who reads the tree without building the site:
`python -m tools.api_text [--check]`.

In:   the pages of docs/api, which name modules; the modules' sources, which are parsed, not run.
Out:  docs/api/PAGE.txt for each: of every public name its signature and docstring; with --check
      exit status 1 when one of them is not current.
Next: the pages link to it; tests/tools/test_api_text.py runs the check.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent

from loadstone.files import write_whole

__all__ = ["PAGES", "main", "stale", "text_of"]

#: Those that the author of a back end needs.
PAGES = ("backend", "graph", "ir_pass", "isa", "numerics")
_MODULE = re.compile(r"^::: (\S+)", re.MULTILINE)


def text_of(root: Path, page: str) -> str:
    """What docs/api/PAGE.txt contains."""
    named = _MODULE.findall((root / f"docs/api/{page}.md").read_text(encoding="utf-8"))
    return "\n".join(line for module in named for line in _module(root, module)) + "\n"


def _file(root: Path, module: str) -> Path:
    path = root / "python" / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _module(root: Path, module: str) -> Iterator[str]:
    """One module: its docstring, then its public names, where they are defined."""
    file = _file(root, module)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    yield f"==== {module}: {file.relative_to(root).as_posix()}"
    yield from ("", ast.get_docstring(tree) or "", "")
    for name in _public(tree):
        yield from _named(root, tree, name)


def _public(tree: ast.Module) -> Sequence[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def _named(root: Path, tree: ast.Module, name: str) -> Iterator[str]:
    """A name that a module defines, or takes from another one."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            yield from _definition(node)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if name in [alias.asname or alias.name for alias in node.names]:
                other = _file(root, node.module)
                source = ast.parse(other.read_text(encoding="utf-8"))
                yield from _named(root, source, name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if getattr(target, "id", "") == name:
                yield from (ast.unparse(node), "")


def _definition(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    """A signature, a docstring, fields and public methods."""
    text = ast.get_docstring(node)
    if isinstance(node, ast.FunctionDef):
        returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
        yield f"{node.name}({ast.unparse(node.args)}){returns}"
        yield from (indent(text or "", "    "), "")
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    yield from (indent(text or "", "    "), "")
    for part in node.body:
        if isinstance(part, ast.AnnAssign):
            yield f"    {ast.unparse(part)}"
    for part in node.body:
        shown = isinstance(part, ast.FunctionDef) and (
            part.name == "__init__" or part.name[0] != "_"
        )
        if isinstance(part, ast.FunctionDef) and shown:
            yield indent("\n".join(["", *_definition(part)]).rstrip(), "    ")
    yield ""


def stale(root: Path) -> list[Path]:
    """The files that are not current."""
    texts = {root / f"docs/api/{page}.txt": text_of(root, page) for page in PAGES}
    return [
        path
        for path, text in texts.items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.api_text")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(arguments).check
    root = Path(__file__).resolve().parents[1]
    found = stale(root)
    for path in found:
        print(f"{path.relative_to(root)} is not current" if check else f"wrote {path.name}")
        if not check:
            write_whole(path, text_of(root, path.stem))
    return int(check and bool(found))


if __name__ == "__main__":
    raise SystemExit(main())
