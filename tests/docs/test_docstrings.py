# SPDX-License-Identifier: Apache-2.0
"""Public functions that take or give arrays say which shape, in their docstrings.

A signature says `NDArray[np.int8]`; whether that is one sample or many, an image or a vector, only
words can say. Public is what a module's `__all__` names, and the public methods of classes in it.
A shape is written as a tuple such as `(N, H, W, C)` or `(samples, ...)`, or as one of the phrases
of SHAPE: that shapes broadcast, that the result has the shape of an argument, that there is one
element per channel, that anything goes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "python/loadstone"
SHAPE = re.compile(
    r"""\((?:\w+|\.\.\.|[\w /*+]+),(?:\s*[\w /*+.-]+,?)*\)   # (N, H, W, C), (256,), (samples, ...)
    | \b(?:broadcast|elementwise|scalar|one-dimensional|of\ any\ shape|any\ shape)
    | \b(?:same|its|their|own|the|whose)\ shape
    | \bshape(?:d|s)?\ of\b | \bshape\ \(
    | \b(?:per|a|each|every)\ (?:channel|element|tile|lane|instruction|candidate)\b
    """,
    re.VERBOSE,
)
ARRAYS = {"NDArray", "ArrayLike", "ndarray"}


@cache
def aliases() -> frozenset[str]:
    """Names that the package gives to types of arrays: Int32Array = NDArray[np.int32]."""
    found = set(ARRAYS)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            target = node.target if isinstance(node, ast.AnnAssign) else target
            value = getattr(node, "value", None)
            if not (isinstance(target, ast.Name) and isinstance(value, ast.Subscript)):
                continue
            if ast.unparse(value).split("[")[0].rpartition(".")[2] == "NDArray":
                found.add(target.id)
    return frozenset(found)


def has_arrays(function: ast.FunctionDef) -> bool:
    """Whether a parameter or the result is an array, or holds some."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    annotations = [a.annotation for a in every] + [function.returns]
    words = {word for a in annotations if a for word in re.findall(r"\w+", ast.unparse(a))}
    return bool(words & aliases())


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """(name, function) of what `__all__` makes public."""
    named = next(
        (
            set(ast.literal_eval(node.value))
            for node in tree.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ),
        set(),
    )
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in named:
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name in named:
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def silent(path: Path) -> tuple[list[str], int]:
    """Public functions with arrays whose docstring gives no shape; and how many there are."""
    found, count = [], 0
    for name, function in public(ast.parse(path.read_text(encoding="utf-8"))):
        if has_arrays(function):
            count += 1
            if not SHAPE.search(ast.get_docstring(function) or ""):
                found.append(f"{path.relative_to(PACKAGE)}:{function.lineno}: {name}")
    return found, count


def test_public_functions_with_arrays_give_the_shape(figure: Callable[[str], None]) -> None:
    results = [silent(path) for path in sorted(PACKAGE.rglob("*.py"))]
    without = [line for lines, _ in results for line in lines]
    count = sum(number for _, number in results)
    figure(f"docstrings: {count} public functions with arrays, {len(without)} without a shape")
    assert count > 100
    assert without == [], "\n" + "\n".join(without)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x: (N, H, W, C). Gives (N, OH, OW, O).", True),
        ("A table (256,).", True),
        ("samples: (samples, ...).", True),
        ("(N, KH * KW * C)", True),
        ("Shapes broadcast.", True),
        ("The result has the shape of x.", True),
        ("weight_scales: one per channel.", True),
        ("acc * scale, rounded (half to even).", False),
        ("Quantizes x; see f(x).", False),
        ("Clamps to [low, high].", False),
    ],
)
def test_what_counts_as_a_shape(text: str, says: bool) -> None:
    assert bool(SHAPE.search(text)) == says
