# SPDX-License-Identifier: Apache-2.0
"""Read a TFLite file, and check everything in it.

In:   bytes.
Out:  TfliteFile: tensors and operators as small records, every index, size and number checked.
Next: tflite.py turns the operators into Relax.

The flatbuffer library checks no bounds, and TVM's importer trusts the file: a damaged offset or a
stride of zero would end in a traceback or a signal. Therefore everything that is used later is read
here once, within one `try`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import tflite
from flatbuffers import number_types
from numpy.typing import ArrayLike, NDArray

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import MAX_SCALE, one_line, short
from loadstone.frontend.tflite_operators import OPERATORS
from loadstone.frontend.tflite_options import Options, options_of
from loadstone.numerics import Array

__all__ = ["RESOURCE", "OperatorRecord", "TensorRecord", "TfliteFile", "TfliteTable", "read"]

#: The type of a handle of a variable; tflite_variables.py gives it the variable's.
RESOURCE = "resource"
#: TensorType -> NumPy type; other types (strings, complex numbers) are refused.
TYPES = {
    0: "float32",
    1: "float16",
    2: "int32",
    3: "uint8",
    4: "int64",
    6: "bool",
    7: "int16",
    9: "int8",
    10: "float64",
    13: RESOURCE,
    15: "uint32",
}
#: TensorType of integers that lie several in a byte, the first one in its lowest bits -> their
#: bits. LiteRT's kernels widen such constants to int8, which is what Loadstone reads.
PACKED = {17: 4, 19: 2}
#: Operators that write a variable.
WITHOUT_OUTPUT = ("ASSIGN_VARIABLE", "CALL_ONCE")
MAX_TENSOR_BYTES = 2**31 - 1


#: A table of the FlatBuffers file, as the package tflite reads it: Model, SubGraph, Tensor ...
TfliteTable: TypeAlias = Any


@dataclass(frozen=True, eq=False)
class TensorRecord:
    """scales, zero_points: float32 and int32 (1,) or one per index of `axis`; None when it is not
    quantized.

    data: the constant, None for activations; of a variable what it holds before the first run, or
        None for zeros.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    scales: NDArray[np.float32] | None
    zero_points: NDArray[np.int32] | None
    axis: int
    data: Array | None
    is_variable: bool = False

    @property
    def is_quantized(self) -> bool:
        """An integer tensor that stands for real numbers."""
        return self.scales is not None and self.dtype in ("int8", "uint8", "int16", "int32")


@dataclass(frozen=True, eq=False)
class OperatorRecord:
    """One operator; `table` is its flatbuffer table. An absent optional input is -1. options: every
    field of its options, by the schema's name."""

    index: int
    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: TfliteTable
    options: Options


@dataclass(frozen=True, eq=False)
class TfliteFile:
    """One subgraph of a model."""

    model: TfliteTable
    subgraph: TfliteTable
    tensors: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def describe(self, operator: OperatorRecord) -> str:
        """`CONV_2D (operator 3, output "conv1/Relu")`: how messages name it."""
        index = (*operator.outputs, *operator.inputs, None)[0]
        output = "" if index is None else short(self.tensors[index].name)
        return f'{operator.code} (operator {operator.index}, output "{output}")'


def read(data: bytes, name: str, subgraph: int = 0) -> TfliteFile:
    """The network, or a subgraph that it calls. Raises ModelError, naming the file and what is
    wrong, unless all of it is sound."""
    if len(data) < 8 or data[4:8] != b"TFL3":
        raise ModelError(
            f"{name}: not a TFLite file (the identifier at byte 4 is {data[4:8]!r}, not b'TFL3')"
        )
    try:
        return _Reader(data, name).read(subgraph)
    except ModelError:
        raise
    except (
        struct.error,
        ValueError,
        IndexError,
        TypeError,
        OverflowError,
        UnicodeDecodeError,
        MemoryError,
        AssertionError,
    ) as error:
        raise ModelError(f"{name}: damaged TFLite file: {one_line(error)}") from error


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.model = tflite.Model.GetRootAsModel(data, 0)

    def fail(self, what: str) -> ModelError:
        return ModelError(f"{self.name}: damaged TFLite file: {what}")

    def dynamic(self, where: str, shape: tuple[int, ...]) -> UnsupportedError:
        return UnsupportedError(
            f"{self.name}: {where} has shape {list(shape)}: dynamic shapes are not "
            "supported, convert with fixed ones"
        )

    def count(self, length: int, what: str) -> range:
        """A vector cannot have more entries than the file has 4-byte words."""
        if not 0 <= length <= len(self.data) // 4:
            raise self.fail(f"{length} {what} in {len(self.data)} bytes")
        return range(length)

    def read(self, number: int = 0) -> TfliteFile:
        """A subgraph: the first one is the network, others are called."""
        count = len(self.count(self.model.SubgraphsLength(), "subgraphs"))
        if count == 0:
            raise self.fail("it holds no subgraph")
        if not number < count:
            raise self.fail(f"subgraph {number} of {count} is called")
        self.subgraph = self.model.Subgraphs(number)
        self.buffers = [
            self.model.Buffers(index) for index in self.count(self.model.BuffersLength(), "buffers")
        ]
        self.tensors = tuple(
            self.tensor(index) for index in self.count(self.subgraph.TensorsLength(), "tensors")
        )
        inputs = self.indices(self.subgraph.InputsAsNumpy(), "graph inputs")
        outputs = self.indices(self.subgraph.OutputsAsNumpy(), "graph outputs")
        operators = tuple(
            self.operator(index)
            for index in self.count(self.subgraph.OperatorsLength(), "operators")
        )
        if not outputs and number == 0:
            raise self.fail("the graph has no output")
        file = TfliteFile(self.model, self.subgraph, self.tensors, operators, inputs, outputs)
        self.check_order(file)
        return file

    # -- tensors -----------------------------------------------------------------------------------

    def tensor(self, index: int) -> TensorRecord:
        table = self.subgraph.Tensors(index)
        name = (table.Name() or b"").decode("utf-8", "replace") or f"tensor_{index}"
        where = f'tensor {index} "{short(name)}"'
        if "\0" in name:
            raise self.fail(f"tensor {index} has a zero byte in its name")
        self.check_stored(table, where)
        dtype = TYPES.get(table.Type(), "int8")
        if dtype == RESOURCE:
            return TensorRecord(index, name, (), dtype, None, None, 0, None)
        shape = tuple(
            int(table.Shape(axis))
            for axis in self.count(table.ShapeLength(), f"dimensions of {where}")
        )
        if len(shape) > 8 or any(extent < 0 for extent in shape):
            raise self.dynamic(where, shape)
        size_bytes = prod(shape) * np.dtype(dtype).itemsize
        if size_bytes > MAX_TENSOR_BYTES:
            raise self.fail(f"{where} has shape {list(shape)}: {size_bytes} bytes")
        data = self.constant(table, shape, dtype, where)
        if data is None and size_bytes == 0:
            raise self.dynamic(where, shape)
        if data is None and table.Type() in PACKED:
            raise UnsupportedError(
                f"{self.name}: {where} is int{PACKED[table.Type()]} and no constant: only weights "
                "can be, convert the model with int8 activations"
            )
        scales, zero_points, axis = self.quantization(table, shape, dtype, where)
        state = bool(table.IsVariable())
        return TensorRecord(index, name, shape, dtype, scales, zero_points, axis, data, state)

    def check_stored(self, table: TfliteTable, where: str) -> None:
        """Raises UnsupportedError for element types and for ways to store them."""
        if table.Type() not in (*TYPES, *PACKED):
            raise UnsupportedError(
                f"{self.name}: {where} has element type {table.Type()}: Loadstone reads "
                f"{', '.join(TYPES.values())}, and int4 and int2 constants"
            )
        if table.Sparsity() is not None:
            raise UnsupportedError(
                f"{self.name}: {where} is stored sparse: convert the model without sparsity"
            )

    def constant(
        self, table: TfliteTable, shape: tuple[int, ...], dtype: str, where: str
    ) -> Array | None:
        if not 0 <= table.Buffer() < len(self.buffers):
            raise self.fail(f"{where} names buffer {table.Buffer()} of {len(self.buffers)}")
        buffer = self.buffers[table.Buffer()]
        length = buffer.DataLength()
        if length == 0:
            return None
        if not 0 <= length <= len(self.data):
            raise self.fail(
                f"buffer {table.Buffer()} has {length} bytes, the file {len(self.data)}"
            )
        bits = PACKED.get(table.Type(), 8 * np.dtype(dtype).itemsize)
        expected = -(-prod(shape) * bits // 8)
        if length != expected:
            raise self.fail(
                f"{where} has {length} bytes, its shape {list(shape)} of {bits} bits needs "
                f"{expected}"
            )
        raw = buffer.DataAsNumpy()
        if table.Type() in PACKED:
            return _widened(raw, bits, prod(shape)).reshape(shape)
        stored = np.frombuffer(raw.tobytes(), np.dtype(dtype).newbyteorder("<"))
        return stored.reshape(shape).astype(dtype)

    def quantization(
        self, table: TfliteTable, shape: tuple[int, ...], dtype: str, where: str
    ) -> tuple[NDArray[np.float32] | None, NDArray[np.int32] | None, int]:
        parameters = table.Quantization()
        count = (
            0
            if parameters is None
            else len(self.count(parameters.ScaleLength(), f"scales of {where}"))
        )
        if count == 0:
            return None, None, 0
        if parameters.DetailsType() != 0:
            raise UnsupportedError(
                f"{self.name}: {where} has quantization details of type "
                f"{parameters.DetailsType()} (blocks of scales, or a tool's own): convert the "
                "model with one scale for each tensor or channel"
            )
        scales = np.array(parameters.ScaleAsNumpy(), np.float32)
        stated = self.count(parameters.ZeroPointLength(), f"zero points of {where}")
        zeros = np.array(parameters.ZeroPointAsNumpy() if stated else [0], np.int64)
        self.check_scales(scales, where)
        zero_points = self.zero_points(zeros, (len(stated), count), dtype, where)
        axis = (
            0 if len(shape) <= 1 else int(parameters.QuantizedDimension())
        )  # converters of 2019 gave biases axis 3
        if count > 1 and not (0 <= axis < len(shape) and shape[axis] == count):
            raise self.fail(f"{where} of shape {list(shape)} has {count} scales along axis {axis}")
        return scales, zero_points, axis if count > 1 else 0

    def check_scales(self, scales: NDArray[np.float32], where: str) -> None:
        if not (np.all(np.isfinite(scales)) and np.all(scales >= 0)):
            raise self.fail(f"{where} has a scale that is not positive and finite")
        if np.any(scales > MAX_SCALE):
            raise self.fail(f"{where} has the scale {scales.max():g}, above {MAX_SCALE:g}")

    def zero_points(
        self, zeros: NDArray[np.int64], counts: tuple[int, int], dtype: str, where: str
    ) -> NDArray[np.int32]:
        """One for each scale: a file may have one for all, or none for 0. counts: of zero points,
        and of scales."""
        stated, count = counts
        if stated not in (0, 1, count):
            raise self.fail(f"{where} has {count} scales and {stated} zero points")
        zero_points = np.resize(zeros, count)
        if dtype in ("int8", "uint8", "int16", "int32"):
            limits = np.iinfo(dtype)
            if np.any((zero_points < limits.min) | (zero_points > limits.max)):
                raise self.fail(f"{where} has a zero point outside [{limits.min}, {limits.max}]")
        return zero_points.astype(np.int32)

    # -- operators ---------------------------------------------------------------------------------

    def indices(self, values: ArrayLike, what: str, *, optional: bool = False) -> tuple[int, ...]:
        """Tensor indices of a vector (the library returns 0 for an absent one)."""
        found = tuple(int(value) for value in values) if isinstance(values, np.ndarray) else ()
        for value in found:
            if not (0 <= value < len(self.tensors) or (optional and value == -1)):
                raise self.fail(f"{what} name tensor {value} of {len(self.tensors)}")
        return found

    def operator(self, index: int) -> OperatorRecord:
        table = self.subgraph.Operators(index)
        codes = self.model.OperatorCodesLength()
        if not 0 <= table.OpcodeIndex() < codes:
            raise self.fail(
                f"operator {index} names operator code {table.OpcodeIndex()} of {codes}"
            )
        code = self.model.OperatorCodes(table.OpcodeIndex())
        number = max(code.DeprecatedBuiltinCode(), _builtin_code(code))
        if number not in _CODES:
            raise UnsupportedError(f"{self.name}: operator {index} has the unknown code {number}")
        label = _CODES[number]
        if label == "CUSTOM":
            label = f"CUSTOM {(code.CustomCode() or b'').decode('utf-8', 'replace')}"
        inputs = self.indices(table.InputsAsNumpy(), f"inputs of operator {index}", optional=True)
        outputs = self.indices(table.OutputsAsNumpy(), f"outputs of operator {index}")
        if not outputs and label not in WITHOUT_OUTPUT:
            raise self.fail(f"operator {index} {label} has no output")
        return OperatorRecord(
            index, label, inputs, outputs, table, self.options(index, label, table)
        )

    def options(self, index: int, label: str, table: TfliteTable) -> Options:
        """All fields of an operator that is taken; none of another one."""
        taken = OPERATORS.get(label)
        if taken is None:
            return {}
        try:
            return options_of(table, taken.options, needed=taken.needs_options)
        except ModelError as error:
            raise self.fail(f"operator {index} {label} {error}") from None

    def check_order(self, file: TfliteFile) -> None:
        """Every tensor is an input, a constant, or written once before it is read."""
        known = (
            {-1}
            | set(file.inputs)
            | {t.index for t in file.tensors if t.data is not None or t.is_variable}
        )
        for index in file.inputs:
            if file.tensors[index].data is not None:
                raise self.fail(f"graph input {index} is a constant")
        for operator in file.operators:
            missing = [file.tensors[index].name for index in operator.inputs if index not in known]
            if missing:
                raise self.fail(
                    f"{file.describe(operator)} reads {missing[0]!r} before it is written"
                )
            for index in operator.outputs:
                if index in known:
                    raise self.fail(
                        f"{file.describe(operator)} writes tensor {index}, which is already written"
                    )
                known.add(index)
        for index in file.outputs:
            if index not in known:
                raise self.fail(f"graph output {file.tensors[index].name!r} is never written")


def _widened(raw: NDArray[np.uint8], bits: int, count: int) -> NDArray[np.int8]:
    """(count,) integers of `bits` bits each, in two's complement."""
    places = np.arange(0, 8, bits, dtype=np.uint8)
    levels = (raw[:, None] >> places).reshape(-1)[:count] << np.uint8(8 - bits)
    return levels.astype(np.uint8).view(np.int8) >> np.int8(8 - bits)


def _builtin_code(code: TfliteTable) -> int:
    """The field as the file has it: the package tflite gives the deprecated one instead of what is
    below 127."""
    table = code._tab  # noqa: SLF001 (the package has no other way to it)
    place = table.Offset(_BUILTIN_CODE)
    return int(table.Get(number_types.Int32Flags, place + table.Pos)) if place else 0


#: Where the field builtin_code lies in the table OperatorCode's list of fields, in bytes.
_BUILTIN_CODE = 10
_CODES = {
    number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)
}
