# SPDX-License-Identifier: Apache-2.0
"""A .tflite file that carries its artifacts, for LiteRT's delegate.

In:   a .tflite file, a target.
Out:  the same model with artifacts in its metadata `loadstone` (runtime/hosts/litert/bundle.h),
      each with a hash of the operators that it was made from (runtime/hosts/litert/subgraph.h).
Next: load_delegate(delegate_file(), {"device": "sim"}); without the delegate the file behaves like
      the original.

    from loadstone.hosts import litert
    litert.compile("net.tflite", "vtaq-1x16x16").save("net_lds.tflite")

Needs the package ai-edge-litert, whose schema writes .tflite files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadstone.backend.request import ROUNDINGS, CompileRequest
from loadstone.backend.target import TargetSource, resolve
from loadstone.errors import LoadstoneError, ModelError, UnsupportedError
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile, read
from loadstone.hosts.cut import CutModel, HostModel, Node, Part, cut
from loadstone.library.native import library_file
from loadstone.relax.rewriter import fresh_name

__all__ = ["compile", "delegate_file"]

_METADATA = b"loadstone"
_HEADER, _ENTRY = struct.Struct("<4sIII16x"), struct.Struct("<8I")
_ALIGN = 64
#: TfLiteType of element types.
_TYPES = {
    "float32": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "int8": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 16,
}


def _padding(options: Any) -> int:
    return int(options.padding) + 1  # SAME, VALID are 0, 1 in the file, 1, 2 in LiteRT's structures


def _pool(o: Any) -> tuple[int, ...]:
    window = (o.strideW, o.strideH, o.filterWidth, o.filterHeight)
    return (_padding(o), *window, o.fusedActivationFunction)


def _activation(o: Any) -> tuple[int, ...]:
    return (o.fusedActivationFunction,)


#: Operators whose options are not all seen in shapes -> the words of LiteRT's structure: the same
#: table as parameters_of in runtime/hosts/litert/subgraph.c.
_PARAMETERS: Mapping[str, Callable[[Any], Sequence[int | float]]] = {
    "ADD": _activation,
    "AVERAGE_POOL_2D": _pool,
    "CONCATENATION": lambda o: (o.axis, o.fusedActivationFunction),
    "CONV_2D": lambda o: (
        *(_padding(o), o.strideW, o.strideH, o.fusedActivationFunction),
        *(o.dilationWFactor, o.dilationHFactor),
    ),
    "DEPTHWISE_CONV_2D": lambda o: (
        *(_padding(o), o.strideW, o.strideH, o.depthMultiplier, o.fusedActivationFunction),
        *(o.dilationWFactor, o.dilationHFactor),
    ),
    "FULLY_CONNECTED": _activation,
    "MAX_POOL_2D": _pool,
    "MUL": _activation,
    "SOFTMAX": lambda o: (float(o.beta),),
    "SUB": _activation,
    "LEAKY_RELU": lambda o: (float(o.alpha),),
}
_WORDS = {"AVERAGE_POOL_2D": 6, "MAX_POOL_2D": 6, "CONV_2D": 6, "DEPTHWISE_CONV_2D": 7}


def delegate_file() -> Path:
    """libloadstone_litert.so. Raises LoadstoneError when it was not built."""
    path = library_file().with_name("libloadstone_litert.so")
    if not path.is_file():
        raise LoadstoneError(f"{path} is absent: build it with `make lib`, or install the wheel")
    return path


def compile(  # noqa: A001
    model: str | Path, target: TargetSource, rounding: str = ROUNDINGS[0]
) -> HostModel:
    """Raises ModelError, UnsupportedError where no part of the model runs on the target."""
    path = Path(model)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    file = read(data, path.name)
    writer = _Writer(data, path.name)
    if file.model.SubgraphsLength() != 1:
        raise UnsupportedError(
            f"{path.name} has {file.model.SubgraphsLength()} subgraphs: LiteRT's delegate takes "
            "models of one"
        )
    names = _names(file.tensors)
    nodes = [
        Node(
            o.index,
            tuple(names[i] for i in o.inputs if i >= 0 and file.tensors[i].data is None),
            tuple(names[i] for i in o.outputs),
        )
        for o in file.operators
    ]
    index = {name: tensor for tensor, name in names.items()}

    def extract(group: Sequence[int], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
        return writer.extracted(group, [index[n] for n in inputs], [index[n] for n in outputs])

    whole = CutModel(path.stem, nodes, {names[i] for i in file.outputs}, extract, ".tflite")
    parts, left = cut(whole, resolve(target).asked(CompileRequest(rounding)))
    bundle = _bundle(file, writer, parts, index)
    return HostModel(writer.with_metadata(bundle), len(nodes), tuple(parts), left)


def _names(tensors: Sequence[TensorRecord]) -> dict[int, str]:
    """By index. Names in a file may be the same; these differ."""
    taken: set[str] = set()
    return {tensor.index: fresh_name(tensor.name, taken) for tensor in tensors}


# --- the file -------------------------------------------------------------------------------------
class _Writer:
    """The model as objects of LiteRT's schema."""

    def __init__(self, data: bytes, name: str) -> None:
        try:
            from ai_edge_litert import schema_py_generated as schema
        except ImportError:
            raise LoadstoneError(
                f"{name}: writing a .tflite file needs LiteRT: pip install ai-edge-litert"
            ) from None
        self.schema = schema
        self.data = data

    def model(self) -> Any:
        """Read anew each time: a subgraph is changed in place."""
        return self.schema.ModelT.InitFromPackedBuf(self.data, 0)

    def options(self) -> list[Any]:
        """The options of each operator, None where it has none."""
        return [operator.builtinOptions for operator in self.model().subgraphs[0].operators]

    def packed(self, model: Any) -> bytes:
        import flatbuffers

        builder = flatbuffers.Builder(len(self.data) + 1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def extracted(
        self, group: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]
    ) -> bytes:
        """The same tensors, and only these operators."""
        model = self.model()
        graph = model.subgraphs[0]
        graph.operators = [graph.operators[index] for index in group]
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        model.subgraphs = [graph]
        model.signatureDefs = model.metadata = model.metadataBuffer = None
        return self.packed(model)

    def with_metadata(self, content: bytes) -> bytes:
        """The model with one more metadata entry, in place of an older one."""
        model = self.model()
        entry, buffer = self.schema.MetadataT(), self.schema.BufferT()
        entry.name, entry.buffer = _METADATA, len(model.buffers)
        buffer.data = np.frombuffer(content, np.uint8)
        model.buffers.append(buffer)
        kept = [item for item in model.metadata or [] if item.name != _METADATA]
        model.metadata = [*kept, entry]
        return self.packed(model)


# --- the bundle -----------------------------------------------------------------------------------
def _bundle(
    file: TfliteFile, writer: _Writer, parts: Sequence[Part], index: Mapping[str, int]
) -> bytes:
    """As runtime/hosts/litert/bundle.h says."""
    options = writer.options()
    content = bytearray()
    begin = _HEADER.size + _ENTRY.size * len(parts)
    entries = []

    def add(data: bytes, align: int) -> int:
        content.extend(bytes(-(begin + len(content)) % align))
        content.extend(data)
        return begin + len(content) - len(data)

    for part in parts:
        ports = [[index[name] for name in names] for names in (part.inputs, part.outputs)]
        words = [*part.nodes, *ports[0], *ports[1]]
        artifact = part.artifact.to_bytes()
        entries.append(
            _ENTRY.pack(
                _hash(file, options, part.nodes),
                *(len(part.nodes), len(ports[0]), len(ports[1])),
                add(struct.pack(f"<{len(words)}i", *words), 4),
                add(artifact, _ALIGN),
                *(len(artifact), 0),
            )
        )
    header = _HEADER.pack(b"LDSB", 1, begin + len(content), len(parts))
    return header + b"".join(entries) + bytes(content)


def _hash(file: TfliteFile, options: Sequence[Any], nodes: Sequence[int]) -> int:
    """As runtime/hosts/litert/subgraph.h says."""
    crc = 0
    seen: set[int] = set()
    for node in nodes:
        operator = file.operators[node]
        parameters = _parameters(operator, options[node])
        numbers = [_code(file, operator)]
        numbers += [len(operator.inputs), *operator.inputs]
        numbers += [len(operator.outputs), *operator.outputs, len(parameters)]
        crc = zlib.crc32(_words(*numbers, *parameters), crc)
        for index in (*operator.inputs, *operator.outputs):
            if index >= 0 and index not in seen:
                seen.add(index)
                crc = _hash_tensor(file.tensors[index], crc)
    return crc


def _hash_tensor(tensor: TensorRecord, crc: int) -> int:
    scales = [] if tensor.scales is None else [float(scale) for scale in tensor.scales]
    zeros = [] if tensor.zero_points is None else [int(zero) for zero in tensor.zero_points]
    shape = [len(tensor.shape), *tensor.shape]
    constant = tensor.data is not None
    numbers = (_TYPES[tensor.dtype], *shape, len(scales), *scales, *zeros, int(constant))
    crc = zlib.crc32(_words(*numbers), crc)
    return crc if tensor.data is None else zlib.crc32(tensor.data.tobytes(), crc)


def _words(*numbers: float) -> bytes:
    """Integers as they are, real numbers as float32."""
    return b"".join(struct.pack("<f" if isinstance(n, float) else "<i", n) for n in numbers)


def _code(file: TfliteFile, operator: OperatorRecord) -> int:
    code = file.model.OperatorCodes(operator.table.OpcodeIndex())
    return max(int(code.DeprecatedBuiltinCode()), int(code.BuiltinCode()))


def _parameters(operator: OperatorRecord, options: Any) -> Sequence[int | float]:
    """Zeros where a file leaves the options out."""
    reader = _PARAMETERS.get(operator.code)
    if reader is None:
        return ()
    if options is None:
        return (0,) * _WORDS.get(operator.code, 2 if operator.code == "CONCATENATION" else 1)
    return [n if isinstance(n, float) else int(n) for n in reader(options)]
