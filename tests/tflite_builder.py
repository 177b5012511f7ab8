# SPDX-License-Identifier: Apache-2.0
"""TFLite models made by tests: tensors with quantization, operators with options, saved to bytes,
run on LiteRT.

In:   tensors and operators, in any number: a single convolution or a small graph.
Out:  the bytes of a .tflite file; `run` gives what LiteRT's reference kernels compute.
Next: graph/kernels/tflite/ compares them with loadstone.graph.kernels.tflite; the compiler's
property tests compile them.

    graph = Graph()
    x = graph.input((1, 8, 8, 3), np.int8, scale=0.1, zero_point=-3)
    w = graph.constant(weights, scale=[0.01, 0.02], zero_point=[0, 0], axis=0)     # one scale per
      channel
    b = graph.constant(bias)                                                      # int32; its scale
      is set too
    y = graph.tensor((1, 8, 8, 2), np.int8, scale=0.2, zero_point=5)
    graph.operator("CONV_2D", [x, w, b], [y], padding=Padding.SAME, stride_h=1, stride_w=1)
    outputs = run(graph.save(outputs=[y]), {0: image})

Options are the fields of the schema's table for that operator in snake_case
(`fused_activation_function`); a sequence becomes a vector. Fields left out have the schema's
defaults, mostly 0: strides must be given. The options of "CUSTOM NAME" are a FlexBuffer's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import ArrayLike, DTypeLike, NDArray
from tflite import ActivationFunctionType as Activation
from tflite import Padding

__all__ = ["Activation", "Graph", "Padding", "Tensor", "interpreter", "invoke", "run"]

#: The type of a handle of a variable.
HANDLE = np.dtype("V4")
_TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.int16): tflite.TensorType.INT16,
    np.dtype(np.int64): tflite.TensorType.INT64,
    np.dtype(np.bool_): tflite.TensorType.BOOL,
    np.dtype(np.float16): tflite.TensorType.FLOAT16,
    HANDLE: tflite.TensorType.RESOURCE,
}

#: Bits of an integer -> the type; the package tflite does not know that of 2 bits.
_PACKED = {4: tflite.TensorType.INT4, 2: 19}

#: Operators whose options table is not named like the operator (ADD -> AddOptions).
_OPTIONS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), "Pool2DOptions"),
    "CONV_2D": "Conv2DOptions",
    "CONV_3D": "Conv3DOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    **dict.fromkeys(
        ("MEAN", "SUM", *(f"REDUCE_{which}" for which in ("PROD", "MAX", "MIN", "ANY", "ALL"))),
        "ReducerOptions",
    ),
    "SPACE_TO_BATCH_ND": "SpaceToBatchNDOptions",
    "BATCH_TO_SPACE_ND": "BatchToSpaceNDOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "PADV2": "PadV2Options",
    "TOPK_V2": "TopKV2Options",
    "ATAN2": "ATan2Options",
    "L2_NORMALIZATION": "L2NormOptions",
    "SVDF": "SVDFOptions",
    "STABLEHLO_COMPOSITE": "StableHLOCompositeOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    **dict.fromkeys(("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC")),
    **dict.fromkeys(("ELU", "LOG", "PRELU", "RSQRT", "SIN", "SQRT", "TANH")),
    **dict.fromkeys(("CEIL", "FLOOR", "ROUND", "EMBEDDING_LOOKUP", "BROADCAST_ARGS")),
}

#: Kernel versions: LiteRT refuses int8 below a certain one; these are what the converter writes for
#: int8.
_VERSIONS = {
    "CONV_2D": 3,
    "SQUEEZE": 1,
    "TRANSPOSE_CONV": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "RELU_N1_TO_1": 1,
    "RESHAPE": 1,
    **dict.fromkeys(
        ("DEPTH_TO_SPACE", "EXPAND_DIMS", "SQUARE", "ZEROS_LIKE", "ADD_N", "UNPACK"), 1
    ),
    **dict.fromkeys(("FLOOR", "CEIL", "ROUND", "COS", "POW", "ATAN2", "CUMSUM", "RELU_0_TO_1"), 1),
    **dict.fromkeys(("L2_POOL_2D", "LOCAL_RESPONSE_NORMALIZATION", "CONV_3D", "DILATE"), 1),
    **dict.fromkeys(("SHAPE", "RANK", "RANGE", "UNIQUE", "BUCKETIZE", "FAKE_QUANT", "BITCAST"), 1),
    **dict.fromkeys(("REDUCE_ANY", "REDUCE_ALL", "BITWISE_XOR", "RIGHT_SHIFT", "ONE_HOT"), 1),
    **dict.fromkeys((f"LOGICAL_{which}" for which in ("OR", "AND", "NOT")), 1),
    **dict.fromkeys(("MATRIX_DIAG", "MATRIX_SET_DIAG", "SCATTER_ND", "REVERSE_SEQUENCE"), 1),
    **dict.fromkeys((f"UNSORTED_SEGMENT_{how}" for how in ("SUM", "PROD", "MAX", "MIN")), 1),
    **dict.fromkeys(("BROADCAST_ARGS", "SEGMENT_SUM"), 1),
    **dict.fromkeys(("ELU", "HARD_SWISH", "NEG", "PRELU", "SIN"), 1),
    "STABLEHLO_COMPOSITE": 1,
    **dict.fromkeys(("CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"), 1),
}


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of the graph. `scale` and `zero_point` are one number each or one per channel along
    `axis`."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    scale: NDArray[np.float32]
    zero_point: NDArray[np.int64]
    axis: int
    data: NDArray[Any] | None
    variable: bool = False
    packed_bits: int = 0


@dataclass(frozen=True)
class _Operator:
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Any] | None
    intermediates: tuple[int, ...] = ()


@dataclass
class Graph:
    """One subgraph under construction. new_codes: operators are named by the newer field alone, as
    some tools write them."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    new_codes: bool = False

    def tensor(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.int8,
        scale: ArrayLike = (),
        zero_point: ArrayLike = 0,
        *,
        axis: int = 0,
        data: NDArray[Any] | None = None,
        name: str = "",
    ) -> Tensor:
        """Adds a tensor that an operator writes; without `scale` it is not quantized."""
        index = len(self.tensors)
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        zeros = np.broadcast_to(np.atleast_1d(np.asarray(zero_point, np.int64)), scales.shape)
        made = Tensor(
            index,
            name or f"t{index}",
            tuple(int(n) for n in shape),
            np.dtype(dtype),
            scales,
            zeros,
            axis,
            data,
        )
        self.tensors.append(made)
        return made

    def variable(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.int8,
        scale: ArrayLike = (),
        zero_point: ArrayLike = 0,
    ) -> Tensor:
        """Adds a tensor that lives from one run to the next."""
        made = replace(self.tensor(shape, dtype, scale, zero_point), variable=True)
        self.tensors[made.index] = made
        return made

    def input(
        self,
        shape: Sequence[int],
        dtype: DTypeLike = np.int8,
        scale: ArrayLike = (),
        zero_point: ArrayLike = 0,
    ) -> Tensor:
        """Adds an input of the graph."""
        made = self.tensor(shape, dtype, scale, zero_point, name=f"in{len(self.inputs)}")
        self.inputs.append(made)
        return made

    def constant(
        self,
        data: ArrayLike,
        scale: ArrayLike = (),
        zero_point: ArrayLike = 0,
        *,
        axis: int = 0,
        packed_bits: int = 0,
    ) -> Tensor:
        """Adds a tensor with its values: weights, a bias, a list of axes. packed_bits: 4 or 2, of
        integers that lie several in a byte."""
        array = np.array(data, order="C", ndmin=0)
        made = self.tensor(array.shape, array.dtype, scale, zero_point, axis=axis, data=array)
        self.tensors[made.index] = replace(made, packed_bits=packed_bits)
        return self.tensors[made.index]

    def operator(
        self,
        kind: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[Tensor],
        *,
        intermediates: Sequence[Tensor] = (),
        **options: Any,
    ) -> None:
        """Appends an operator, by the schema's name (CONV_2D); None stands for an optional input
        left out."""
        sources = tuple(-1 if tensor is None else tensor.index for tensor in inputs)
        targets, inner = ([t.index for t in some] for some in (outputs, intermediates))
        self.operators.append(_Operator(kind, sources, tuple(targets), options, tuple(inner)))

    def handle(self, name: str) -> Tensor:
        """Adds VAR_HANDLE: the variable of that name."""
        made = self.tensor((), HANDLE)
        self.operator("VAR_HANDLE", [], [made], container="", shared_name=name)
        return made

    def save(
        self,
        outputs: Sequence[Tensor],
        called: Graph | None = None,
        called_outputs: Sequence[Tensor] = (),
    ) -> bytes:
        """The .tflite file. called: subgraph 1, with its outputs."""
        graphs = [(self, outputs), *([(called, called_outputs)] if called is not None else [])]
        return _Writer(graphs).model()


def interpreter(model: bytes, *, reference: bool = True) -> Any:
    """LiteRT with its reference kernels (else: the optimised ones, with XNNPACK), on one thread."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    made = Interpreter(model_content=model, experimental_op_resolver_type=resolver, num_threads=1)
    made.allocate_tensors()
    return made


def run(
    model: bytes,
    inputs: Mapping[int, NDArray[Any]] | Sequence[NDArray[Any]],
    *,
    reference: bool = True,
) -> list[NDArray[Any]]:
    """Runs a model once on LiteRT with its reference kernels (else: the optimised ones, with
    XNNPACK); all outputs in order."""
    return invoke(interpreter(model, reference=reference), inputs)


def invoke(
    opened: Any, inputs: Mapping[int, NDArray[Any]] | Sequence[NDArray[Any]]
) -> list[NDArray[Any]]:
    """One run; all outputs in order."""
    details = opened.get_input_details()
    for i, value in inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs):
        opened.set_tensor(details[i]["index"], np.asarray(value))
    opened.invoke()
    return [opened.get_tensor(out["index"]) for out in opened.get_output_details()]


class _Writer:
    """Writes a Graph bottom-up, as flatbuffers demand: children before parents, vectors from their
    end."""

    def __init__(self, graphs: Sequence[tuple[Graph, Sequence[Tensor]]]) -> None:
        self.builder = flatbuffers.Builder(1 << 16)
        self.graphs = graphs
        operators = [op for some, _ in self.graphs for op in some.operators]
        self.kinds = sorted({op.kind for op in operators})
        self.buffers = [self.table("Buffer")]  # buffer 0 is empty, by convention

    def model(self) -> bytes:
        builder = self.builder
        subgraphs = [self.subgraph(*entry) for entry in self.graphs]
        codes = [self.operator_code(kind) for kind in self.kinds]
        model = self.table(
            "Model",
            Version=3,
            OperatorCodes=self.offsets(codes),
            Subgraphs=self.offsets(subgraphs),
            Description=builder.CreateString("made by a test"),
            Buffers=self.offsets(self.buffers),
        )
        builder.Finish(model, b"TFL3")
        return bytes(builder.Output())

    def subgraph(self, graph: Graph, outputs: Sequence[Tensor]) -> int:
        buffers, builder, tensors = self.buffers, self.builder, []
        for tensor in graph.tensors:
            buffer = 0
            if tensor.data is not None:
                buffer = len(buffers)
                data = _packed(tensor.data, tensor.packed_bits)
                buffers.append(self.table("Buffer", Data=self.bytes_vector(data)))
            tensors.append(self.tensor(tensor, buffer))
        return self.table(
            "SubGraph",
            Tensors=self.offsets(tensors),
            Inputs=self.vector([t.index for t in graph.inputs], np.int32),
            Outputs=self.vector([t.index for t in outputs], np.int32),
            Operators=self.offsets(
                [self.operator(op, self.kinds.index(op.kind)) for op in graph.operators]
            ),
            Name=builder.CreateString("main"),
        )

    def tensor(self, tensor: Tensor, buffer: int) -> int:
        quantization = {}
        if tensor.scale.size:
            zero_point = self.vector(tensor.zero_point, np.int64)
            scale = self.vector(tensor.scale, np.float32)
            table = self.table(
                "QuantizationParameters",
                Scale=scale,
                ZeroPoint=zero_point,
                QuantizedDimension=tensor.axis,
            )
            quantization["Quantization"] = table
        return self.table(
            "Tensor",
            Shape=self.vector(tensor.shape, np.int32),
            Type=_PACKED.get(tensor.packed_bits, _TYPES[tensor.dtype]),
            Buffer=buffer,
            Name=self.builder.CreateString(tensor.name),
            IsVariable=tensor.variable,
            **quantization,
        )

    def operator(self, operator: _Operator, opcode_index: int) -> int:
        options: dict[str, Any] = {}
        if operator.kind.startswith("CUSTOM "):
            raw = np.frombuffer(flexbuffers.Dumps(dict(operator.options or {})), np.uint8)
            return self.table(
                "Operator",
                OpcodeIndex=opcode_index,
                Inputs=self.vector(operator.inputs, np.int32),
                Outputs=self.vector(operator.outputs, np.int32),
                CustomOptions=self.vector(raw, np.uint8),
            )
        name = _OPTIONS.get(operator.kind, f"{_camel(operator.kind.lower())}Options")
        if name is not None and operator.options is not None:
            fields = {_camel(key): self.option(value) for key, value in operator.options.items()}
            union = "BuiltinOptions" if hasattr(tflite.BuiltinOptions, name) else "BuiltinOptions2"
            options = {
                f"{union}Type": getattr(getattr(tflite, union), name),
                union: self.table(name, **fields),
            }
        return self.table(
            "Operator",
            OpcodeIndex=opcode_index,
            Inputs=self.vector(operator.inputs, np.int32),
            Outputs=self.vector(operator.outputs, np.int32),
            Intermediates=self.vector(operator.intermediates, np.int32),
            **options,
        )

    def option(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.builder.CreateString(value)
        if isinstance(value, bytes | bytearray):
            return self.vector(np.frombuffer(value, np.uint8), np.uint8)
        if not isinstance(value, list | tuple):
            return value
        real = any(isinstance(number, float) for number in value)
        return self.vector(value, np.float32 if real else np.int32)

    def operator_code(self, kind: str) -> int:
        builtin, _, custom = kind.partition(" ")
        code = getattr(tflite.BuiltinOperator, builtin)
        named = {"CustomCode": self.builder.CreateString(custom)} if custom else {}
        return self.table(
            "OperatorCode",
            **named,
            DeprecatedBuiltinCode=0 if self.graphs[0][0].new_codes else min(code, 127),
            Version=1 if custom else _VERSIONS.get(kind, 2),
            BuiltinCode=code,
        )

    def table(self, kind: str, /, **fields: int | float | bool) -> int:
        """One table by the schema package's generated functions: <kind>Start, <kind>Add<Field>...,
        <kind>End."""
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        return int(getattr(tflite, f"{kind}End")(self.builder))

    def vector(self, values: Any, dtype: DTypeLike) -> int:
        return int(self.builder.CreateNumpyVector(np.ascontiguousarray(values, dtype).reshape(-1)))

    def bytes_vector(self, data: NDArray[Any]) -> int:
        """Tensor data, aligned to 16 bytes as LiteRT wants it."""
        raw = data.tobytes()
        self.builder.StartVector(1, len(raw), 16)
        self.builder.head -= len(raw)
        self.builder.Bytes[self.builder.head : self.builder.head + len(raw)] = raw
        return int(self.builder.EndVector())

    def offsets(self, tables: Sequence[int]) -> int:
        self.builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            self.builder.PrependUOffsetTRelative(table)
        return int(self.builder.EndVector())


def _camel(name: str) -> str:
    """stride_h -> StrideH, conv_2d -> Conv2D."""
    return re.sub(r"(?:^|_|(?<=\d))([a-z0-9])", lambda match: match.group(1).upper(), name)


def _packed(data: NDArray[Any], bits: int) -> NDArray[Any]:
    """Integers of `bits` bits, the first one in a byte's lowest; 0: as they are."""
    if not bits:
        return data
    parts = 8 // bits
    low = data.reshape(-1).view(np.uint8) & ((1 << bits) - 1)
    rows = np.pad(low, (0, -low.size % parts)).reshape(-1, parts)
    return np.bitwise_or.reduce(rows << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
