# SPDX-License-Identifier: Apache-2.0
"""PyTorch to Relax: a program of torch.export, float or quantized by PT2E.

In:   the bytes of a .pt2 file (torch.export.save), or a torch.export.ExportedProgram; static shapes
      (a symbolic batch
      becomes 1), eval mode.
Out:  an IRModule whose `main` carries the attribute "loadstone.numerics" = "torch"; NCHW, names of
      the program's nodes.
Next: canonical.py brings it into the one QDQ form (NHWC, int8).

The graph is walked once; aten/ says what each operator becomes. What depends on constants alone
PyTorch computes itself on the way; only a dequantize of constants stays, because it says what the
integers mean. TVM has an importer of its own, which is not used: without PyTorch's decompositions
it takes batch normalization for training, and with them quantized weights lie behind operators that
no longer show what they are.

PyTorch is imported when there is something to read (torch_file.py), and nowhere else.
"""

from __future__ import annotations

import importlib
import io
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from loadstone.errors import ModelError, Refusal, UnsupportedError
from loadstone.frontend.aten import GIVES_SCALES, OPERATORS, READS_COMPLEX, WAYS, Build, literal
from loadstone.frontend.message import one_line, short
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.frontend.torch_arguments import arguments, check_read, promoted
from loadstone.frontend.torch_file import checked_files, packed, pytorch, quietly
from loadstone.frontend.torch_functional import CHECKS, FunctionalProgram, functional
from loadstone.frontend.torch_graph import exported_graph
from loadstone.frontend.torch_static import (
    DTYPES,
    check_inputs,
    dtype_of,
    functional_program,
)
from loadstone.numerics import Array
from loadstone.relax.compat import abandoning, dtype, relax, shape

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor
    from torch.export import ExportedProgram
    from torch.fx import Node

    from loadstone.relax.types import Expr, IRModule, Var

__all__ = ["FunctionalProgram", "from_bytes", "from_functional", "from_program", "label"]

DYNAMIC = ("choose_qparams", "per_token", "per_channel_group")
#: Operators that fill a tensor of the shape that another has; the others of their kind PyTorch
#: breaks down to these.
LIKE = tuple(f"aten.{kind}_like." for kind in ("zeros", "ones", "full"))
#: Registers the operators of PT2E.
PT2E = "torch.ao.quantization.fx._decomposed"
#: The message where a converter fails, and the remedy.
NO_FORM = "with these arguments it has no form that is done"
INSTEAD = "replace it in the model, or export the part without it"


def from_bytes(data: bytes, name: str, reading: Reading = WHOLE) -> IRModule:
    """The program in a .pt2 file as an IRModule. Nothing in it runs as code: pickled objects are
    refused, and so is every text that PyTorch would evaluate and the exporter does not write.

    Raises ModelError for a damaged file, for weights without a program, and where PyTorch is
    missing.
    """
    if not reading.is_whole:
        raise UnsupportedError(
            f"{name}: a program of PyTorch has fixed sizes and is read whole: export it with the "
            "sizes and outputs that are wanted"
        )
    files = checked_files(data, name)
    torch = pytorch(name)
    with quietly():
        importlib.import_module(PT2E)
        exported = exported_graph(files)
        read = None if exported is None else functional(exported)
    if read is not None:
        check_inputs(read, name)
        return _Walk(read, name).module()
    with quietly():
        try:
            program = torch.export.load(io.BytesIO(packed(files)))
        except Exception as error:
            if "weights_only" in str(error):
                raise ModelError(
                    f"{name}: holds pickled objects besides its tensors, which could run "
                    "code: make them buffers of the model"
                ) from None
            raise ModelError(
                f"{name}: PyTorch {torch.__version__} cannot load this program: {one_line(error)}"
            ) from error
    return from_program(program, name)


def from_program(program: ExportedProgram, name: str) -> IRModule:
    """A torch.export.ExportedProgram as an IRModule; a torch.nn.Module is refused with how to
    export it.

    Raises UnsupportedError for what Loadstone does not do; `name` begins the message.
    """
    torch = pytorch(name)
    if isinstance(program, torch.nn.Module):
        raise ModelError(
            f"{name}: a {type(program).__name__} is no program yet: "
            "torch.export.export(model.eval(), (example,)) makes one"
        )
    functional = functional_program(program, name)
    with quietly():
        return _Walk(functional, name).module()


def _array(tensor: TorchTensor) -> Array:
    return np.array(tensor.detach().cpu().numpy(), order="C")  # of no dimension, too


#: What a node computes: see _Walk.
Value: TypeAlias = Any
#: An argument of a node: a node, a number, a text, None, or lists and dicts of these.
Argument: TypeAlias = Any


def from_functional(program: FunctionalProgram, name: str) -> IRModule:
    """As from_program, for a program that is static and functional already, such as a part of one:
    operators keep their nodes' names."""
    if check_inputs(program, name):
        raise UnsupportedError(f"{name}: a dimension of an input is symbolic")
    return _Walk(program, name).module()


class _Walk:
    """From the nodes of a graph to the bindings of a function. A value is a Relax expression, a
    constant (torch.Tensor), or a list of them."""

    def __init__(self, program: ExportedProgram | FunctionalProgram, name: str) -> None:
        self.program, self.name = program, name
        self.values: dict[Node, Value] = {}
        self.builder = relax.BlockBuilder()

    def module(self) -> IRModule:
        """All of it."""
        parameters = self.placeholders()
        attributes = {
            "num_input": len(parameters),
            "loadstone.numerics": "torch",
            "loadstone.outputs": list(self.program.graph_signature.user_outputs),
        }
        nodes = [node for node in self.program.graph.nodes if node.op != "placeholder"]
        with abandoning(self.builder), self.builder.function("main", parameters, attrs=attributes):
            with self.builder.dataflow():
                for node in nodes[:-1]:
                    self.values[node] = self.value(node)
                outputs = self.outputs(nodes[-1])
                output = self.builder.emit_output(
                    outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
                )
            self.builder.emit_func_output(output)
        return self.builder.get()

    def placeholders(self) -> list[Var]:
        """The function's parameters; weights and buffers become constants."""
        signature, parameters = self.program.graph_signature, []
        stored = {**self.program.state_dict, **self.program.constants}
        targets = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        for node in self.program.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in targets:
                self.values[node] = stored[targets[node.name]]
            elif node.name in signature.user_inputs:
                tensor = node.meta["val"]
                variable = relax.Var(
                    node.name, relax.TensorType(tuple(tensor.shape), dtype_of(tensor))
                )
                parameters.append(variable)
                self.values[node] = variable
        return parameters

    def outputs(self, node: Node) -> list[Expr]:
        specs = self.program.graph_signature.output_specs
        values = []
        for spec, item in zip(specs, node.args[0], strict=True):
            if spec.kind.name == "BUFFER_MUTATION":
                raise UnsupportedError(
                    f'{self.name}: the program writes its buffer "{spec.target}": call '
                    "model.eval() before torch.export.export"
                )
            if not hasattr(item, "meta") or _is_complex(item):
                raise UnsupportedError(
                    f'{self.name}: output "{item}" is no tensor of real numbers: leave it out of '
                    "what forward() returns, or make it one (torch.view_as_real, torch.tensor)"
                )
            self.check_computed(item, f"{self.name}: ")
            if 0 in _extents(item):
                raise UnsupportedError(
                    f'{self.name}: output "{item}" has no elements: leave it out of what forward() '
                    "returns"
                )
            values.append(self.expressions(item))
        return values

    # -- one node ----------------------------------------------------------------------------------

    def value(self, node: Node) -> Value:
        """Raises UnsupportedError with a Refusal."""
        if node.target is operator.getitem:
            return self.values[node.args[0]][node.args[1]]
        target = str(node.target)
        if target.startswith(CHECKS):
            return None
        try:
            if self.is_constant(node) and "dequantize" not in target:
                return self.computed(node)
            return self.converted(node)
        except UnsupportedError as error:
            raise error.about(self.name, str(node.target), short(label(node))) from None
        except ModelError as error:
            why, _, remedy = str(error).partition(": ")
            raise UnsupportedError(self.refusal(node, why, remedy)) from None
        except Exception as error:
            raise UnsupportedError(self.refusal(node, NO_FORM, INSTEAD)) from error

    def converted(self, node: Node) -> Value:
        """By the importer of its operator."""
        target, kind = str(node.target), _result_dtype(node)
        convert = OPERATORS.get(target) or OPERATORS.get(target.rpartition(".")[0])
        if convert is None and any(word in target for word in DYNAMIC):
            raise UnsupportedError(f"this form of dynamic quantization is not imported: {WAYS}")
        if convert is None:
            raise UnsupportedError(f"no importer for this operator: {INSTEAD}")
        if target not in READS_COMPLEX and any(map(_is_complex, node.all_input_nodes)):
            raise UnsupportedError(
                "it reads complex numbers: take their real parts first (torch.view_as_real)"
            )
        for source in node.all_input_nodes:
            self.check_computed(source)
        if kind not in (*DTYPES, "complex64") and target not in GIVES_SCALES:
            raise UnsupportedError(
                f"its result is {kind}: compute in float32 (model.float(), x.float())"
            )
        if 0 in _extents(node):
            raise UnsupportedError("its result has no elements: leave it out of the model")
        check_read(node, convert, arguments(node, node.args, node.kwargs))
        given = arguments(node, self.expressions(node.args), self.expressions(node.kwargs))
        build = Build(self.builder, label(node), _extents(node), kind, promoted(node))
        return self.checked(node, convert(build, given))

    def refusal(self, node: Node, why: str, remedy: str) -> Refusal:
        return Refusal(why, remedy, str(node.target), short(label(node)), self.name)

    def check_computed(self, node: Node, where: str = "") -> None:
        """Of some operators only the first result is. where: begins the message."""
        if self.values.get(node) is None:
            raise UnsupportedError(
                f'{where}"{short(node.name)}" is not computed: only the values of pools and of '
                "normalizations are, no indices and no statistics"
            )

    def computed(self, node: Node) -> TorchTensor:
        """What depends on constants alone, by PyTorch."""
        if any("nondeterministic" in str(tag) for tag in getattr(node.target, "tags", ())):
            raise UnsupportedError("it draws random numbers: make them a buffer of the model")
        return node.target(*self.stored(node.args), **self.stored(node.kwargs))

    def is_constant(self, node: Node) -> bool:
        """Whether it depends on no input of the program, or on its shape alone."""
        return str(node.target).startswith(LIKE) or all(
            _is_tensor(self.values.get(source)) for source in node.all_input_nodes
        )

    def stored(self, argument: Argument) -> Argument:
        """An argument as PyTorch takes it; of an input, its shape and type."""
        torch = importlib.import_module("torch")

        def plain(value: Value) -> Value:
            if not isinstance(value, relax.Expr):
                return value
            return torch.empty(shape(value), dtype=getattr(torch, dtype(value)))

        return self.mapped(argument, plain)

    def expressions(self, argument: Argument) -> Argument:
        """An argument as Relax takes it."""
        return self.mapped(
            argument, lambda value: literal(_array(value)) if _is_tensor(value) else value
        )

    def mapped(self, argument: Argument, change: Callable[[Value], Value]) -> Argument:
        if isinstance(argument, dict):
            return {key: self.mapped(item, change) for key, item in argument.items()}
        if isinstance(argument, list | tuple):
            return [self.mapped(item, change) for item in argument]
        return change(self.values[argument]) if argument in self.values else argument

    def checked(self, node: Node, result: Expr | list[Expr | None]) -> Expr | list[Expr | None]:
        """Emitted under the node's name; its shape and type are those that PyTorch has."""
        if isinstance(result, list):
            return [
                item if item is None else self.builder.emit(item, name_hint=label(node))
                for item in result
            ]
        variable = (
            result
            if isinstance(result, relax.Var)
            else self.builder.emit(result, name_hint=label(node))
        )
        tensor = node.meta["val"]
        tensor = tensor[0] if isinstance(tensor, tuple | list) else tensor
        found, wanted = (shape(variable), dtype(variable)), (tuple(tensor.shape), dtype_of(tensor))
        if wanted[1] == "complex64":
            wanted = ((*wanted[0], 2), "float32")
        if found != wanted:
            raise UnsupportedError(
                f"it would be {found[1]} of shape {found[0]}, PyTorch says {wanted[1]} of "
                f"shape {wanted[0]}"
            )
        return variable


def _is_complex(node: Node) -> bool:
    return "complex" in str(getattr(node.meta.get("val"), "dtype", ""))


def label(node: Node) -> str:
    """What a node computes is called: `features.0/conv2d`, and quantized
    `features.0/conv2d/int8`."""
    if ".quantize_per_tensor." in str(node.target):
        return f"{label(node.args[0])}/int8"
    path = _path(node)
    return f"{path}/{node.name}" if path else str(node.name)


def _is_tensor(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _extents(node: Node) -> tuple[int, ...]:
    """The shape of what it computes; empty where that is several tensors."""
    tensor = node.meta.get("val")
    return tuple(int(extent) for extent in tensor.shape) if hasattr(tensor, "shape") else ()


def _result_dtype(node: Node) -> str:
    """The type of what it computes; of the first of several tensors."""
    tensor = node.meta.get("val")
    tensor = tensor[0] if isinstance(tensor, tuple | list) and tensor else tensor
    return dtype_of(tensor) if hasattr(tensor, "dtype") else "float32"


def _path(node: Node) -> str:
    """The submodule that the operator belongs to."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(path) for path, _ in stack.values()]
    return paths[-1].removeprefix("L['self'].") if paths else ""
