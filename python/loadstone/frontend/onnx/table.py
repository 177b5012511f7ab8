# SPDX-License-Identifier: Apache-2.0
"""What each ONNX operator's converter reads: the table, and the check of a model against it.

In:   converters, which operators/ enter here; a model whose constants are folded and whose types
      are inferred.
Out:  the converter of a node; UnsupportedError, before anything is converted, for whatever a node
      has that its converter does not read: an attribute that is not at its default, an input or
      output too many, an element type, an input that has to be a constant.
Next: importer.py converts node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.onnx.node import OnnxNode, attribute_value, described, schema_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

    from loadstone.relax.types import Expr

__all__ = [
    "ALL",
    "CONVERTERS",
    "NUMBERS",
    "Convert",
    "Reads",
    "check",
    "converter",
    "element_types",
    "row_of",
]

#: An expression, or one for each output: None where nobody may read it.
Convert: TypeAlias = "Callable[[OnnxNode], Expr | Sequence[Expr | None]]"

#: Any number of inputs or outputs.
ALL = 1 << 30
#: Element types that Relax, the artifact and C all compute with.
NUMBERS = frozenset(
    [
        "float32",
        "float16",
        "float64",
        "bool",
        "int8",
        "uint8",
        "int16",
        "uint16",
        "int32",
        "uint32",
        "int64",
        "uint64",
    ]
)
#: Where ONNX and Relax call a type differently.
_WORDS = {"float": "float32", "double": "float64"}
#: Attributes that are true or false. ONNX does not say what another number means.
_FLAGS = frozenset(
    (
        *("align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "center_point_box"),
        *("count_include_pad", "detect_negative", "detect_positive", "exclude_outside"),
        *("exclusive", "fmod", "input_forget", "interleaved", "inverse", "is_causal", "keepdims"),
        *("largest", "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided"),
        *("periodic", "reverse", "saturate", "select_last_index", "sorted", "storage_order"),
        *("training_mode", "transA", "transB", "upper"),
    )
)
#: Attributes of early opsets that never meant anything to inference.
_WITHOUT_MEANING = frozenset({"consumed_inputs", "is_test"})


@dataclass(frozen=True)
class Reads:
    """What one converter reads.

    attributes: names. inputs, outputs: how many, from the first. constants: positions of inputs
    that have to be constants. types: element types of inputs and outputs. opsets: least and most
    version of the operator's domain.
    """

    convert: Convert
    attributes: frozenset[str]
    inputs: int
    outputs: int
    constants: frozenset[int]
    types: frozenset[str]
    opsets: tuple[int, int]


CONVERTERS: dict[tuple[str, str], list[Reads]] = {}


def converter(  # noqa: PLR0913 (a row of the table has as many columns)
    *op_types: str,
    domain: str = "",
    attributes: str = "",
    inputs: int = 1,
    outputs: int = 1,
    constants: Collection[int] = (),
    types: Collection[str] = NUMBERS,
    opsets: tuple[int, int] = (1, ALL),
) -> Callable[[Convert], Convert]:
    """Enters a converter into the table under these names. attributes: names with spaces
    between."""

    def register(convert: Convert) -> Convert:
        row = Reads(
            convert,
            frozenset(attributes.split()),
            inputs,
            outputs,
            frozenset(constants),
            frozenset(types),
            opsets,
        )
        for op_type in op_types:
            CONVERTERS.setdefault((domain, op_type), []).append(row)
        return convert

    return register


def row_of(node: NodeProto, opsets: Mapping[str, int]) -> Reads | None:
    """The one for the version that the model asks for."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, 1)
    for row in CONVERTERS.get((domain, node.op_type), ()):
        if row.opsets[0] <= version <= row.opsets[1]:
            return row
    return None


def check(model: ModelProto, name: str, opsets: Mapping[str, int]) -> None:
    """Raises UnsupportedError for the first node with something that its converter does not read;
    `name` begins the message."""
    constants = _constants(model)
    types = element_types(model.graph)
    read = {e for node in model.graph.node for e in node.input}
    read |= {entry.name for entry in model.graph.output}
    for node in model.graph.node:
        where = f"{name}: {described(node)}"
        row = row_of(node, opsets)
        if row is None:
            raise UnsupportedError(f"{where}: {_unknown(node, opsets)}")
        wrong = (
            _attribute(node, row, opsets)
            or _count(node.input, row.inputs, "input")
            or _count([e if e in read else "" for e in node.output], row.outputs, "output")
            or _type(node, row, types)
            or _computed(node, row, constants)
        )
        if wrong:
            raise UnsupportedError(f"{where}: {wrong}")


def _unknown(node: NodeProto, opsets: Mapping[str, int]) -> str:
    domain = "" if node.domain in ("", "ai.onnx") else f" of {node.domain}"
    known = CONVERTERS.get((node.domain, node.op_type), ())
    if known:
        ranges = " and ".join(
            f"{low} to {high}" if high < ALL else f"{low} and later"
            for low, high in (row.opsets for row in known)
        )
        return (
            f"imported from opset {ranges}, the model has {opsets.get(node.domain, 1)}: convert it "
            "(onnx.version_converter)"
        )
    why = _REASONS.get(node.op_type) if not domain else None
    if why is not None:
        return why
    return (
        f"no importer for this operator{domain}: cut the model around it with --inputs and "
        "--outputs, or export it with operators that `docs/onnx.md` lists"
    )


_BY_NUMBERS = (
    "how many elements it gives depends on the numbers that it reads, and memory is planned before "
    "the model runs: cut the model before it with --outputs, and do this in the program around it"
)
_RANDOM = (
    "it draws numbers anew in each run, and an artifact gives the same for the same input: draw "
    "them outside and make them an input (--inputs), or export the model for inference"
)
_TEXTS = (
    "it computes on texts, and nothing here does: cut the model behind it with --inputs, and do "
    "this in the program around it"
)
_LISTS = (
    "a sequence or an optional is taken apart only where its length is known and it is neither an "
    "input nor an output of the model: make its tensors inputs and outputs"
)
#: Why an operator has no converter, where there is more to say than that.
_REASONS = (
    dict.fromkeys(("NonZero", "Unique"), _BY_NUMBERS)
    | dict.fromkeys(
        (
            *(
                "SequenceConstruct",
                "SequenceEmpty",
                "SequenceInsert",
                "SequenceErase",
                "SequenceAt",
            ),
            *("SplitToSequence", "ConcatFromSequence", "SequenceLength", "SequenceMap"),
            *("Optional", "OptionalGetElement", "OptionalHasElement"),
        ),
        _LISTS,
    )
    | dict.fromkeys(
        (
            *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
            "RandomUniformLike",
        ),
        _RANDOM,
    )
    | dict.fromkeys(
        (
            *("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
            *("TfIdfVectorizer", "ImageDecoder"),
        ),
        _TEXTS,
    )
)


def _attribute(node: NodeProto, row: Reads, opsets: Mapping[str, int]) -> str:
    schema = schema_of(node, opsets)
    for attribute in node.attribute:
        if attribute.name in _WITHOUT_MEANING:
            continue
        if attribute.name in _FLAGS and attribute.i not in (0, 1):
            return (
                f"its attribute {attribute.name} is {attribute.i}, and it is 0 or 1: export it anew"
            )
        if attribute.name in row.attributes:
            continue
        known = schema.attributes.get(attribute.name) if schema else None
        default = None
        if known is not None and known.default_value.type != onnx.AttributeProto.UNDEFINED:
            default = attribute_value(known.default_value)
        given = attribute_value(attribute)
        if default is not None and _same(given, default):
            continue
        limit = f"only {_text(default)}" if default is not None else "only its absence"
        return (
            f"its attribute {attribute.name} is {_text(given)}, and {limit} is imported: "
            "export the model without it"
        )
    return ""


def _same(given: object, default: object) -> bool:
    return bool(np.array_equal(np.asarray(given), np.asarray(default)))


def _text(given: object) -> str:
    return short(" ".join(str(given).split())) if not isinstance(given, onnx.GraphProto) else "..."


def _count(names: Sequence[str], most: int, kind: str) -> str:
    for index, entry in enumerate(names):
        if entry and index >= most:
            return (
                f'its {kind} {index} ("{short(entry)}") is not imported, only the first {most}: '
                "export the model without it"
            )
    return ""


def _type(node: NodeProto, row: Reads, types: Mapping[str, str]) -> str:
    for tensor in (*node.input, *node.output):
        found = types.get(tensor)
        if found is not None and found not in row.types:
            remedy = _OF_TYPES.get(found, "convert the model to one of them")
            return (
                f'tensor "{short(tensor)}" is {found}, and only '
                f"{', '.join(sorted(row.types))} are imported there: {remedy}"
            )
    return ""


_CUT = "cut the model with --inputs and --outputs, and keep that part in the program around it"
#: What helps where a tensor has such a type.
_OF_TYPES = {
    "string": f"texts are nothing to compute with: {_CUT}",
    "sequence": f"only a sequence whose length is known can be taken apart: {_CUT}",
    "optional": f"export the model with it, or without it: {_CUT}",
    "bfloat16": "convert the model to float32; a device of profile vtab rounds by itself",
}


def _computed(node: NodeProto, row: Reads, constants: Collection[str]) -> str:
    for index in sorted(row.constants):
        given = node.input[index] if index < len(node.input) else ""
        if given and given not in constants:
            return (
                f'its input {index} ("{short(given)}") is computed when the model runs: export it '
                "as a constant"
            )
    return ""


def _constants(model: ModelProto) -> set[str]:
    """Tensors whose numbers are known: initializers, and what is dequantized from them."""
    known = {tensor.name for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" or (
            node.op_type == "DequantizeLinear" and all(not e or e in known for e in node.input)
        ):
            known.update(node.output)
    return known


def element_types(graph: GraphProto) -> dict[str, str]:
    """Element types by tensor, in Relax's words; "sequence", "optional" for what is no tensor."""
    known = {
        entry.name: entry.type.tensor_type.elem_type
        for entry in (*graph.input, *graph.value_info, *graph.output)
        if entry.type.HasField("tensor_type")
    }
    known |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    texts = {
        name: _WORDS.get(word := onnx.TensorProto.DataType.Name(number).lower(), word)
        for name, number in known.items()
        if number
    }
    others = (*graph.input, *graph.value_info, *graph.output)
    texts |= {
        entry.name: str(entry.type.WhichOneof("value")).removesuffix("_type")
        for entry in others
        if entry.type.WhichOneof("value") not in (None, "tensor_type")
    }
    return texts
