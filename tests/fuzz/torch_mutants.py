# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch with something changed in their graph that no exporter would have written.

In:   a number.
Out:  the bytes of a .pt2 file, inputs for it, and what was changed, as text.
Next: models.py compiles it and compares.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from numpy.typing import NDArray
from torch._export import utils

from tests.draw import Random
from tests.frontend.test_aten import CASES, Together, image
from tests.frontend.torch_programs import changed, saved

__all__ = ["mutant"]

#: PyTorch looks through its operators for each namespace of each program, as somebody may add one:
#: a third of what a mutant takes, and nobody does.
utils._materialize_cpp_cia_ops = cache(utils._materialize_cpp_cia_ops)

PROGRAM = "models/model.json"
#: Operators that take the same arguments.
SWAPS = (
    ("relu", "sigmoid", "tanh", "abs", "neg", "exp", "sqrt", "silu", "floor", "erf", "sign", "cos"),
    ("add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "fmod.Tensor"),
    ("mean.dim", "sum.dim_IntList", "amax", "amin", "prod.dim_int", "var.correction"),
    ("eq.Tensor", "ne.Tensor", "lt.Tensor", "ge.Tensor", "remainder.Tensor", "atan2"),
    ("argmax", "argmin", "softmax.int", "log_softmax.int", "cumsum", "any.dim", "all.dim"),
    ("squeeze.dim", "unsqueeze", "flip", "glu", "logsumexp", "select.int", "narrow"),
    ("max_pool2d", "avg_pool2d", "conv2d", "conv_transpose2d.input", "upsample_nearest2d.vec"),
    ("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "leaky_relu", "elu", "hardtanh"),
)
TEXTS = ("none", "tanh", "reflect", "replicate", "circular", "constant", "same", "valid", "floor")
REALS = (0.0, -1.0, 0.5, 1e-30, 3e38, float("inf"), float("nan"), 2.0)
WHOLE = (0, -1, 1, 2, 3, 7, 100, 2**33)


def mutant(number: int) -> tuple[bytes, list[NDArray[Any]], tuple[str, ...]]:
    """One to three changes of a program of one function."""
    draw = Random(7_000_003 * (number + 1))
    name = draw.pick(sorted(CASES))
    changes: list[str] = []

    def change(program: dict[str, Any]) -> None:
        graph = program["graph_module"]["graph"]
        wanted = draw.pick([1, 1, 1, 2, 3])
        while len(changes) < wanted:  # not every program has what a change is of
            if text := draw.pick(_CHANGES)(graph, draw):
                changes.append(text)

    model = changed(_program(name), PROGRAM, change)
    return model, [image().numpy()], (name, *changes)


@cache
def _program(name: str) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return saved(torch.export.export(Together(CASES[name]).eval(), (image(),)))


def _picked(graph: Any, draw: Random, *kinds: str) -> tuple[Any, Any] | None:
    """A node, and one of its arguments of these kinds."""
    found = [
        (node, entry)
        for node in graph["nodes"]
        for entry in node["inputs"]
        if not kinds or set(entry["arg"]) & set(kinds)
    ]
    return draw.pick(found) if found else None


def _said(node: Any, entry: Any) -> str:
    return f"{node['target'].removeprefix('torch.ops.')} {entry['name']} = {entry['arg']}"


def _number(graph: Any, draw: Random) -> str:
    found = _picked(graph, draw, "as_int", "as_float", "as_bool")
    if found is None:
        return ""
    node, entry = found
    ((kind, value),) = entry["arg"].items()
    new = {
        "as_int": lambda: draw.pick([value + 1, value - 1, draw.pick(WHOLE)]),
        "as_float": lambda: draw.pick([value * 2, -value, draw.pick(REALS)]),
        "as_bool": lambda: not value,
    }[kind]()
    entry["arg"] = {kind: new}
    return _said(node, entry)


def _numbers(graph: Any, draw: Random) -> str:
    found = _picked(graph, draw, "as_ints", "as_floats")
    if found is None:
        return ""
    node, entry = found
    ((kind, values),) = entry["arg"].items()
    if not values or draw.chance(4):
        values += [1 if kind == "as_ints" else 1.0]
    elif draw.chance(4):
        values.pop()
    else:
        place = draw.int(0, len(values) - 1)
        values[place] = (
            draw.pick([values[place] + 1, values[place] - 1, draw.pick(WHOLE)])
            if kind == "as_ints"
            else draw.pick([values[place] * 1.3, draw.pick(REALS)])
        )
    return _said(node, entry)


def _text(graph: Any, draw: Random) -> str:
    found = _picked(graph, draw, "as_string")
    if found is None:
        return ""
    node, entry = found
    entry["arg"] = {"as_string": draw.pick(TEXTS)}
    return _said(node, entry)


def _kind(graph: Any, draw: Random) -> str:
    """Another type, or none."""
    found = _picked(graph, draw)
    if found is None:
        return ""
    node, entry = found
    entry["arg"] = draw.pick(
        [
            {"as_none": True},
            {"as_scalar_type": draw.int(1, 13)},
            {"as_float": draw.pick(REALS)},
            {"as_int": draw.pick(WHOLE)},
            {"as_ints": [draw.pick(WHOLE[:4]), draw.pick(WHOLE[:4])]},
            {"as_bool": draw.chance(2)},
        ]
    )
    return _said(node, entry)


def _dropped(graph: Any, draw: Random) -> str:
    found = _picked(graph, draw)
    if found is None:
        return ""
    node, entry = found
    node["inputs"].remove(entry)
    return f"{node['target']} without {entry['name']}"


def _tensor(graph: Any, draw: Random) -> str:
    """Another tensor, which may come later."""
    found = _picked(graph, draw, "as_tensor")
    if found is None:
        return ""
    node, entry = found
    entry["arg"] = {"as_tensor": {"name": draw.pick(sorted(graph["tensor_values"]))}}
    return _said(node, entry)


def _operator(graph: Any, draw: Random) -> str:
    plain = [
        (node, family)
        for node in graph["nodes"]
        for family in SWAPS
        if node["target"].removeprefix("torch.ops.aten.").removesuffix(".default") in family
    ]
    if not plain:
        return ""
    node, family = draw.pick(plain)
    old, new = node["target"], draw.pick(family)
    node["target"] = f"torch.ops.aten.{new}" + ("" if "." in new else ".default")
    return f"{old} -> {new}"


def _result(graph: Any, draw: Random) -> str:
    """The program gives another tensor."""
    name = draw.pick(sorted(graph["tensor_values"]))
    graph["outputs"][0] = {"as_tensor": {"name": name}}
    return f"output {name}"


_CHANGES: tuple[Callable[[Any, Random], str], ...] = (
    _number,
    _number,
    _numbers,
    _numbers,
    _text,
    _kind,
    _dropped,
    _tensor,
    _operator,
    _operator,
    _result,
)
