# SPDX-License-Identifier: Apache-2.0
"""A program of torch.export, made static and functional.

In:   a torch.export.ExportedProgram.
Out:  one whose sizes are numbers (a symbolic batch becomes 1), whose operators write nothing in
      place, and are those that aten/ reads: others are broken down into them by PyTorch itself.
Next: torch.py walks it. torch_functional.py does most programs without tracing them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.aten import OPERATORS
from loadstone.frontend.message import one_line
from loadstone.frontend.torch_file import quietly
from loadstone.frontend.torch_functional import FunctionalProgram, functional

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor
    from torch.export import ExportedProgram

__all__ = ["DTYPES", "check_inputs", "dtype_of", "functional_program"]

DTYPES = ("float32", "float16", "int8", "uint8", "int16", "int32", "int64", "bool")


def functional_program(program: ExportedProgram, name: str) -> ExportedProgram | FunctionalProgram:
    """Raises UnsupportedError for inputs that are no tensors of fixed sizes, ModelError for what
    PyTorch cannot break down."""
    batches = check_inputs(program, name)
    with quietly():
        try:
            static = _with_batch_1(program) if batches else program
            return functional(static) or static.run_decompositions(_decompositions())
        except Exception as error:
            raise ModelError(
                f"{name}: PyTorch cannot make the program static and functional: {one_line(error)}"
            ) from error


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's own, for operators that are not in the table: broken down they lose what a device
    could have done whole, and so those of the table stay."""
    torch = importlib.import_module("torch")
    table = torch.export.default_decompositions()
    return {
        target: rule
        for target, rule in table.items()
        if str(target) not in OPERATORS and str(target).rpartition(".")[0] not in OPERATORS
    }


def check_inputs(program: ExportedProgram | FunctionalProgram, name: str) -> bool:
    """Tensors of known shapes and types. Returns whether the batch of one is symbolic."""
    wanted, symbolic = set(program.graph_signature.user_inputs), False
    for node in program.graph.nodes:
        if node.op != "placeholder" or node.name not in wanted:
            continue
        tensor = node.meta.get("val")
        if not hasattr(tensor, "shape"):
            raise UnsupportedError(
                f'{name}: input "{node.name}" is no tensor: make it a constant of the model'
            )
        for axis, extent in enumerate(tensor.shape):
            symbolic = symbolic or not isinstance(extent, int)
            if axis and not isinstance(extent, int):
                raise UnsupportedError(
                    f'{name}: input "{node.name}" has the dynamic dimension {axis} '
                    f"({extent}): export it with a fixed size"
                )
        if 0 in tensor.shape:
            raise UnsupportedError(
                f'{name}: input "{node.name}" has no elements: export the model without it'
            )
        if dtype_of(tensor) not in DTYPES:
            raise UnsupportedError(
                f'{name}: input "{node.name}" is {dtype_of(tensor)}: export the model in '
                "float32 (model.float())"
            )
    if not wanted or not program.graph_signature.user_outputs:
        raise ModelError(f"{name}: the program has no inputs or no outputs")
    return symbolic


def _with_batch_1(program: ExportedProgram) -> ExportedProgram:
    """Exported again, with 1 for the symbolic first extent of its inputs."""
    torch = importlib.import_module("torch")
    tensors = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    leaves = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            tensor: TorchTensor = tensors.get(getattr(spec.arg, "name", None))
            shape = [
                extent if isinstance(extent, int) else 1 for extent in getattr(tensor, "shape", ())
            ]
            leaves.append(
                torch.zeros(shape, dtype=tensor.dtype)
                if hasattr(tensor, "dtype")
                else spec.arg.value
            )
    args, kwargs = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)  # noqa: SLF001 (PyTorch has no public one)
    return torch.export.export(program.module(check_guards=False), args, kwargs)


def dtype_of(tensor: TorchTensor) -> str:
    """`float32`."""
    return str(tensor.dtype).removeprefix("torch.")
