# SPDX-License-Identifier: Apache-2.0
"""One node of an ONNX graph, as the converter of its operator reads it.

In:   a NodeProto; what its inputs were converted to.
Out:  OnnxNode: inputs as Relax expressions, attributes as Python values (defaults of the operator's
      schema filled in), the place where calls are bound, and a way to refuse.
Next: operators/ convert it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.numerics import Array
from loadstone.relax.compat import dtype, is_call, is_constant, relax, shape, value
from loadstone.relax.convolutions import with_types

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto
    from onnx.defs import OpSchema

    from loadstone.relax.types import BlockBuilder, Expr

__all__ = ["Attributes", "OnnxNode", "attribute_value", "described", "schema_of"]

#: Of a node by name: numbers, texts, arrays, tuples of these.
Attributes: TypeAlias = "Mapping[str, Any]"


def described(node: NodeProto) -> str:
    """How every message names a node: operator, name, first output."""
    output = short(node.output[0]) if node.output else ""
    return f'{node.op_type} (node "{short(node.name)}", output "{output}")'


def schema_of(node: NodeProto, opsets: Mapping[str, int]) -> OpSchema | None:
    """ONNX's own definition of the operator in the version that the model asks for; None for what
    ONNX does not define. opsets: version by domain."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None


def attribute_value(attribute: AttributeProto) -> Any:
    """A number, a text, an array, a tuple of such, or a GraphProto."""
    found = onnx.helper.get_attribute_value(attribute)
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    if isinstance(found, onnx.TensorProto):
        return onnx.numpy_helper.to_array(found)
    if isinstance(found, Sequence) and not isinstance(found, str):
        return tuple(e.decode("utf-8", "replace") if isinstance(e, bytes) else e for e in found)
    return found


def _extents_text(extents: Sequence[int] | None) -> str:
    return f"({', '.join(map(str, extents or ()))})"


@dataclass(frozen=True, eq=False)
class OnnxNode:
    """proto: as the file has it. where: begins a message about it. inputs: one expression for each
    name, None for a name that is left out. opsets: version of each domain. types: element type and
    extents of each output that shape inference knows."""

    proto: NodeProto
    where: str
    inputs: tuple[Expr | None, ...]
    opsets: Mapping[str, int]
    builder: BlockBuilder
    types: Mapping[str, tuple[str, tuple[int, ...]]]

    @property
    def op_type(self) -> str:
        """The operator's name in its domain."""
        return str(self.proto.op_type)

    @property
    def opset(self) -> int:
        """The version of the domain that the model asks for."""
        return self.opsets.get("" if self.proto.domain == "ai.onnx" else self.proto.domain, 1)

    @cached_property
    def attributes(self) -> Attributes:
        """By name, the schema's defaults where the file says nothing; those that have no default
        are absent."""
        schema = schema_of(self.proto, self.opsets)
        defaults = {
            name: attribute_value(entry.default_value)
            for name, entry in (schema.attributes if schema else {}).items()
            if entry.default_value.type != onnx.AttributeProto.UNDEFINED
        }
        return defaults | {a.name: attribute_value(a) for a in self.proto.attribute}

    def input(self, index: int) -> Expr | None:
        """None where the node has none."""
        return self.inputs[index] if index < len(self.inputs) else None

    def tensor(self, index: int) -> Expr:
        """An input that must be there."""
        found = self.input(index)
        if found is None:
            raise self.refusal(f"its input {index} is left out", "export the model anew")
        return found

    def extents(self, index: int) -> tuple[int, ...]:
        """The shape of an input."""
        known = shape(self.tensor(index))
        if known is None:
            raise self.refusal(
                f"the shape of its input {index} is known only when the model runs",
                "export it with fixed shapes",
            )
        return known

    def dtype(self, index: int) -> str:
        """The element type of an input."""
        return dtype(self.tensor(index))

    def constant(self, index: int) -> Array | None:
        """The array of an input, of any shape; None where it is left out. Raises UnsupportedError
        for one that is computed when the model runs."""
        given = self.input(index)
        if given is None:
            return None
        known = self._known(given)
        if known is None:
            raise self.refusal(
                f'its input "{short(self.proto.input[index])}" is computed when the model runs',
                "export it as a constant",
            )
        return known

    def _known(self, expr: Expr) -> Array | None:
        if is_constant(expr):
            return value(expr)
        made = self.builder.lookup_binding(expr) if isinstance(expr, relax.Var) else expr
        if made is None or not is_call(made, "dequantize"):
            return None
        data, scale, zero = (self._known(argument) for argument in made.args)
        if data is None or scale is None or zero is None or scale.size > 1:
            return None
        real: Array = (data.astype("int64") - zero.astype("int64")).astype("float32") * scale
        return real

    def emit(self, expr: Expr, name: str = "") -> Expr:
        """Binds an expression to a variable, so that its type is known. name: the node's first
        output if nothing else is said."""
        try:
            normal = self.builder.normalize(with_types(expr))
        except Exception as error:  # TVM looks here at how shapes fit together
            raise self.given_up() from error
        if not isinstance(normal.ty, relax.TensorType):
            return normal
        hint = name or self.proto.output[0]  # of the two that want to be `main`, the function is
        return self.builder.emit(normal, name_hint="main_" if hint == "main" else hint)

    def refusal(self, reason: str, remedy: str) -> UnsupportedError:
        """What to raise. reason: the thing, its value, the limit. remedy: what helps."""
        return UnsupportedError(f"{self.where}: {reason}: {remedy}")

    def given_up(self) -> UnsupportedError:
        """What to raise where its converter fails: the node as it stands there."""
        given = ", ".join(
            "nothing" if x is None else f"{dtype(x)} {_extents_text(shape(x))}" for x in self.inputs
        )
        said = ", ".join(f"{a.name}={short(str(attribute_value(a)))}" for a in self.proto.attribute)
        return self.refusal(
            f"it has no conversion for inputs {given}" + (f" with {said}" if said else ""),
            "cut the model around it with --inputs and --outputs, or export it in another form",
        )
