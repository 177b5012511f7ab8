# SPDX-License-Identifier: Apache-2.0
"""A program of torch.export from its checked archive, without torch.export.load.

In:   the files of an archive that torch_file.py has checked.
Out:  the program as it was exported: torch.fx's graph, signature, weights; or None, where it has
      more than operators of ATen on tensors of fixed sizes.
Next: torch_functional.py makes it functional; where that or this gives None, PyTorch loads the
      archive (torch.py).

torch.export.load imports PyTorch's compiler, tracer and SymPy for symbolic sizes, and examines the
types of all its classes: 2 s, of which this takes a tenth. PyTorch states the format as the module
schema of torch._export.serde.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from loadstone.files import JsonObject, JsonValue

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor
    from torch._ops import OpOverload
    from torch.export import ExportGraphSignature
    from torch.fx import Graph, Node
    from torch.fx.node import Argument

__all__ = ["ExportedGraph", "exported_graph"]

#: The version of the format: numbers above the second may mean what is not known here.
MAJOR, MINOR, OPSET = 8, 20, {"aten": 10}
#: Numbers of types, layouts and memory formats in the file.
TYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
}
LAYOUTS = {7: "strided"}
MEMORY_FORMATS = {1: "contiguous_format", 2: "channels_last", 4: "preserve_format"}
#: Arguments that are themselves, and Python's type of each.
LITERALS: dict[str, type] = {
    "as_int": int,
    "as_ints": int,
    "as_float": float,
    "as_floats": float,
    "as_bool": bool,
    "as_bools": bool,
    "as_string": str,
}
#: Tensors among the inputs, and what the format calls the name of each in the model.
STORED = {
    "parameter": ("PARAMETER", "parameter_name"),
    "buffer": ("BUFFER", "buffer_name"),
    "tensor_constant": ("CONSTANT_TENSOR", "tensor_constant_name"),
}
POSITIONAL, KEYWORD = 1, 2


@dataclass(frozen=True, eq=False)
class ExportedGraph:
    """A program with operators of ATen alone, as it was exported."""

    graph: Graph
    graph_signature: ExportGraphSignature
    state_dict: Mapping[str, TorchTensor]
    constants: Mapping[str, TorchTensor] = field(default_factory=dict)


class _OtherError(Exception):
    """The program has something that is not read here."""


def exported_graph(files: Mapping[str, bytes]) -> ExportedGraph | None:
    """files: by their places below the archive's folder. A file that is not sound gives None as
    well: PyTorch says what it finds."""
    try:
        return _exported(files)
    except (_OtherError, LookupError, TypeError, ValueError, AttributeError, RuntimeError):
        return None


def _exported(files: Mapping[str, bytes]) -> ExportedGraph:
    [place] = (file for file in files if file.startswith("models/"))
    model = place.removeprefix("models/").removesuffix(".json")
    program = json.loads(files[place])
    version = program["schema_version"]
    _need(version["major"] == MAJOR and version["minor"] <= MINOR)
    _need(program["opset_version"] == OPSET and files["archive_version"] == b"0")
    _need(files.get("byteorder") == b"little" and not program["range_constraints"])
    module = program["graph_module"]
    names = {
        "weights": f"data/weights/{model}_weights_config.json",
        "constants": f"data/constants/{model}_constants_config.json",
    }
    weights, constants = (
        _tensors(files, json.loads(files[config])["config"], f"data/{folder}")
        for folder, config in names.items()
    )
    return ExportedGraph(
        _Graph(module["graph"]).made(), _signature(module["signature"]), weights, constants
    )


def _need(holds: bool) -> None:
    if not holds:
        raise _OtherError


def _only(entry: JsonObject) -> tuple[str, JsonValue]:
    """The kind of a union, and its value."""
    [pair] = entry.items()
    return pair


# --------------------------------------------------------------------------------------------------
# The graph
# --------------------------------------------------------------------------------------------------


class _Graph:
    def __init__(self, stored: JsonObject) -> None:
        self.torch = import_module("torch")
        self.stored = stored
        self.graph: Graph = import_module("torch.fx").Graph()
        self.nodes: dict[str, Node] = {}

    def made(self) -> Graph:
        """Raises _OtherError."""
        stored = self.stored
        _need(not any(stored[f"{kind}_values"] for kind in ("sym_int", "sym_bool", "sym_float")))
        _need(not stored["custom_obj_values"] and not stored["is_single_tensor_return"])
        for entry in stored["inputs"]:
            kind, value = _only(entry)
            _need(kind == "as_tensor")
            self.computed(value["name"], self.graph.placeholder(value["name"]))
        for node in stored["nodes"]:
            self.add(node)
        outputs = []
        for entry in stored["outputs"]:
            kind, value = _only(entry)
            _need(kind == "as_tensor")
            outputs.append(self.nodes[value["name"]])
        self.graph.output(tuple(outputs))
        return self.graph

    def computed(self, name: str, node: Node) -> None:
        """This node computes the tensor of this name."""
        _need(name not in self.nodes)
        node.name = name
        node.meta["val"] = self.tensor(name)
        self.nodes[name] = node

    def tensor(self, name: str) -> TorchTensor:
        """Its shape and type, without elements."""
        meta = self.stored["tensor_values"][name]
        kind = getattr(self.torch, TYPES[meta["dtype"]])
        _need(LAYOUTS[meta["layout"]] == "strided")
        sizes, strides = _sizes(meta["sizes"]), _sizes(meta["strides"])
        made: TorchTensor = self.torch.empty_strided(sizes, strides, dtype=kind, device="meta")
        return made

    def add(self, stored: JsonObject) -> None:
        """One operator of ATen, and a node for each of its results where it has several."""
        target = self.operator(stored["target"])
        args, kwargs = self.arguments(target, stored["inputs"])
        metadata = _metadata(stored["metadata"])
        node = self.graph.create_node("call_function", target, args, kwargs, stored["name"])
        node.meta.update(metadata)
        outputs = [_only(entry) for entry in stored["outputs"]]
        if not outputs:  # a check of the exporter's
            return
        if [kind for kind, _ in outputs] == ["as_tensor"]:
            self.computed(outputs[0][1]["name"], node)
            return
        if [kind for kind, _ in outputs] == ["as_tensors"]:
            outputs = [("as_tensor", value) for value in outputs[0][1]]
        _need(all(kind == "as_tensor" for kind, _ in outputs))
        values = []
        for place, (_, value) in enumerate(outputs):
            name = value["name"]
            item = self.graph.create_node(
                "call_function", operator.getitem, (node, place), name=name
            )
            item.meta.update(metadata)
            self.computed(name, item)
            values.append(item.meta["val"])
        node.meta["val"] = tuple(values)

    def operator(self, name: str) -> OpOverload:
        """`torch.ops.aten.conv2d.default`."""
        words = name.split(".")
        _need(words[:2] == ["torch", "ops"] and len(words) == 5 and words[2] != "higher_order")
        found = self.torch.ops
        for word in words[2:]:
            found = getattr(found, word)
        return found

    def arguments(
        self, target: OpOverload, inputs: list[JsonObject]
    ) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
        """By place and by name, in the order of the operator's schema."""
        given = {entry["name"]: entry for entry in inputs}
        args, kwargs = [], {}
        for entry in target._schema.arguments:  # noqa: SLF001 (PyTorch has no public one)
            stored = given.pop(entry.name, None)
            if stored is None:
                continue
            value = self.argument(*_only(stored["arg"]))
            if stored["kind"] == KEYWORD:
                kwargs[entry.name] = value
            else:
                _need(stored["kind"] == POSITIONAL and not kwargs)
                args.append(value)
        _need(not given)
        return tuple(args), kwargs

    def argument(self, kind: str, value: JsonValue) -> Argument:
        """One argument of a node."""
        if kind in LITERALS:
            items = value if kind.endswith("s") else [value]
            _need(all(type(item) is LITERALS[kind] for item in items))
            return value
        if kind == "as_tensor":
            return self.nodes[value["name"]]
        if kind == "as_tensors":
            return [self.nodes[item["name"]] for item in value]
        if kind == "as_optional_tensors":
            return [self.argument(*_only(item)) for item in value]
        if kind == "as_none":
            return None
        tables = {
            "as_scalar_type": TYPES,
            "as_memory_format": MEMORY_FORMATS,
            "as_layout": LAYOUTS,
        }
        if kind in tables:
            return getattr(self.torch, tables[kind][value])
        _need(kind == "as_device" and value == {"type": "cpu", "index": None})
        return self.torch.device("cpu")


def _sizes(entries: list[JsonObject]) -> list[int]:
    sizes = [entry["as_int"] for entry in entries]
    _need(all(type(size) is int and size >= 0 for size in sizes))
    return sizes


def _metadata(stored: Mapping[str, str]) -> dict[str, object]:
    """The modules that an operator belongs to: `key,path,class` each."""
    stack = stored.get("nn_module_stack")
    if not stack:
        return {}
    entries = [entry.split(",", 2) for entry in stack.split(";")]
    return {"nn_module_stack": {key: (path, kind) for key, path, kind in entries}}


# --------------------------------------------------------------------------------------------------
# Weights and signature
# --------------------------------------------------------------------------------------------------


def _tensors(files: Mapping[str, bytes], config: JsonObject, folder: str) -> dict[str, TorchTensor]:
    """Tensors by their names in the model; several may share a file's bytes."""
    torch = import_module("torch")
    found: dict[str, TorchTensor] = {}
    flat: dict[tuple[str, int], TorchTensor] = {}
    for name, entry in config.items():
        meta, file = entry["tensor_meta"], f"{folder}/{entry['path_name']}"
        _need(not entry["use_pickle"] and LAYOUTS[meta["layout"]] == "strided")
        _need(meta["device"] == {"type": "cpu", "index": None})
        content, key = files[file], (file, meta["dtype"])
        _need(bool(content))
        if key not in flat:
            kind = getattr(torch, TYPES[meta["dtype"]])
            flat[key] = torch.frombuffer(bytearray(content), dtype=kind)
        sizes, strides = _sizes(meta["sizes"]), _sizes(meta["strides"])
        offset = meta["storage_offset"]["as_int"]
        found[name] = torch.as_strided(flat[key], sizes, strides, offset)
    return found


def _signature(stored: JsonObject) -> ExportGraphSignature:
    """What each input and output is. Raises _OtherError for any but weights and tensors."""
    exported = import_module("torch.export.graph_signature")
    inputs = []
    for entry in stored["input_specs"]:
        kind, value = _only(entry)
        if kind in STORED:
            words = STORED[kind]
            inputs.append(
                exported.InputSpec(
                    getattr(exported.InputKind, words[0]),
                    exported.TensorArgument(value["arg"]["name"]),
                    value[words[1]],
                    value["persistent"] if kind == "buffer" else None,
                )
            )
            continue
        inner, tensor = _only(value["arg"])
        _need(kind == "user_input" and inner == "as_tensor")
        argument = exported.TensorArgument(tensor["name"])
        inputs.append(exported.InputSpec(exported.InputKind.USER_INPUT, argument, None))
    outputs = []
    for entry in stored["output_specs"]:
        kind, value = _only(entry)
        inner, tensor = _only(value["arg"])
        _need(kind == "user_output" and inner == "as_tensor")
        argument = exported.TensorArgument(tensor["name"])
        outputs.append(exported.OutputSpec(exported.OutputKind.USER_OUTPUT, argument, None))
    signature: ExportGraphSignature = exported.ExportGraphSignature(inputs, outputs)
    return signature
