# SPDX-License-Identifier: Apache-2.0
"""The arguments of a node, held against ATen's schema of its operator.

In:   a node of a program, its arguments with values in the place of nodes; the importer of its
      operator.
Out:  every argument of the schema by name, with the schema's defaults; an UnsupportedError for one
      that says something which the importer does not read.
Next: torch.py calls the importer.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import PLACES, Importer
from loadstone.frontend.message import short

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor
    from torch.fx import Node

__all__ = ["arguments", "check_read", "promoted"]


def arguments(
    node: Node, positional: Sequence[object], named: Mapping[str, object]
) -> dict[str, object]:
    """By ATen's names. Raises UnsupportedError for an operator without a schema, and for arguments
    that it does not have."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        raise UnsupportedError("no operator of ATen: only these are read")
    found, entries = dict[str, object](), schema.arguments
    if len(positional) > len(entries) or set(named) - {entry.name for entry in entries}:
        raise UnsupportedError(f"it has arguments that {schema.name} does not know")
    for place, entry in enumerate(entries):
        if place < len(positional):
            found[entry.name] = positional[place]
        elif entry.name in named:
            found[entry.name] = named[entry.name]
        elif entry.has_default_value():
            found[entry.name] = entry.default_value
        else:
            raise UnsupportedError(f'it lacks the argument "{entry.name}"')
    return found


def check_read(node: Node, importer: Importer, given: Mapping[str, object]) -> None:
    """Raises UnsupportedError, with name and value, for the first argument that the importer does
    not read and that is not what it would be without being said."""
    reads, needs = (
        {importer.named(name, given) for name in names}
        for names in (importer.reads, importer.needs)
    )
    silent = {*reads, *importer.free, *PLACES}
    for entry in node.target._schema.arguments:  # noqa: SLF001 (PyTorch has no public one)
        if entry.name in silent:
            continue
        value, usual = given[entry.name], importer.only.get(entry.name, entry.default_value)
        if _plain(value) == _plain(usual) or (entry.name == "dtype" and _is_own(node, value)):
            continue
        raise UnsupportedError(
            f'its argument "{entry.name}" is {short(str(value))}: only {_plain(usual)} is done'
        )
    if not needs <= set(given):
        raise UnsupportedError("no importer for this overload: replace it in the model")


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple | list) else value


def _is_own(node: Node, kind: object) -> bool:
    """Whether a dtype is that of the operator's first tensor: said, and no change."""
    tensor = next((source.meta.get("val") for source in node.all_input_nodes), None)
    return str(getattr(tensor, "dtype", "")) == str(kind)


def promoted(node: Node) -> str:
    """The type in which PyTorch's operands meet: of tensors first, of numbers where they are of
    another kind; float32 where there is none."""
    torch = importlib.import_module("torch")
    met: TorchTensor | float | None = None
    for item in (*node.args, *node.kwargs.values()):
        value = item.meta.get("val") if hasattr(item, "meta") else item
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            value = torch.empty([1] * bool(len(value.shape)), dtype=value.dtype)
        elif not isinstance(value, bool | int | float):
            continue
        met = value if met is None else torch.empty([1], dtype=torch.result_type(met, value))
    return str(getattr(met, "dtype", "torch.float32")).removeprefix("torch.")
