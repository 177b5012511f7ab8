# SPDX-License-Identifier: Apache-2.0
"""A .tflite file as records, for a reader that trusts neither the file nor the compiler's reader.

In:   bytes.
Out:  TfliteModel: tensors, and operators with every field of their options.
Next: read_tflite.py says what each operator means.

The schema package checks no bounds, so all that is used later is read here, under one `try`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import tflite
from numpy.typing import NDArray

from loadstone.errors import ModelError, UnsupportedError
from loadstone.prove.network import ModelTensor

__all__ = ["Fields", "TfliteModel", "TfliteOperator", "read_file"]

#: Fields of a table of options, by the schema's names (StrideH); a vector is a tuple.
Fields: TypeAlias = Mapping[str, int | float | tuple[int, ...]]
_TYPES = {
    tflite.TensorType.FLOAT32: "float32",
    tflite.TensorType.FLOAT16: "float16",
    tflite.TensorType.INT8: "int8",
    tflite.TensorType.UINT8: "uint8",
    tflite.TensorType.INT16: "int16",
    tflite.TensorType.INT32: "int32",
    tflite.TensorType.INT64: "int64",
    tflite.TensorType.BOOL: "bool",
}
_CODES = {
    number: name for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)
}
_OPTIONS = {
    number: name for name, number in vars(tflite.BuiltinOptions).items() if isinstance(number, int)
}
_MAX_BYTES = 1 << 31


@dataclass(frozen=True, eq=False)
class TfliteOperator:
    """An operator of the file. code: the schema's name. inputs, outputs: indices of tensors, an
    absent input -1. table: the name of its table of options, "NONE" without."""

    index: int
    code: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: str
    options: Fields

    def option(self, name: str) -> int:
        """An integer of the options; 0, the schema's default, where the operator has none."""
        value = self.options.get(name, 0)
        assert isinstance(value, int), name
        return value

    def real(self, name: str) -> float:
        """A real number of the options; 0.0 where the operator has none."""
        value = self.options.get(name, 0.0)
        assert isinstance(value, float), name
        return value


@dataclass(frozen=True, eq=False)
class TfliteModel:
    """The one subgraph of a file."""

    name: str
    tensors: tuple[ModelTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def where(self, operator: TfliteOperator) -> str:
        """`CONV_2D (operator 3, output "conv1/Relu")`."""
        output = self.tensors[operator.outputs[0]].name if operator.outputs else ""
        return f'{operator.code} (operator {operator.index}, output "{output[-60:]}")'


def read_file(data: bytes, name: str) -> TfliteModel:
    """The model of a file. Raises ModelError where it is damaged, UnsupportedError for a tensor
    that no record can hold."""
    if data[4:8] != b"TFL3":
        raise ModelError(
            f"{name}: not a TFLite file (the identifier at byte 4 is {data[4:8]!r}, not b'TFL3')"
        )
    try:
        return _File(data, name).read()
    except (ModelError, UnsupportedError):
        raise
    except (struct.error, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: damaged TFLite file: {reason}") from error


class _File:
    """What is read of one file."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name
        self.model = tflite.Model.GetRootAsModel(data, 0)
        if self.length(self.model.SubgraphsLength()) != 1:
            raise self.unsupported(
                f"{self.model.SubgraphsLength()} subgraphs",
                "a proof reads one: convert the model without control flow and variables",
            )
        self.graph = self.model.Subgraphs(0)

    def unsupported(self, what: str, remedy: str) -> UnsupportedError:
        return UnsupportedError(f"{self.name}: {what}: {remedy}")

    def damaged(self, what: str) -> ModelError:
        return ModelError(f"{self.name}: damaged TFLite file: {what}")

    def length(self, count: int) -> int:
        """A vector's length, which cannot exceed the file's bytes."""
        if not 0 <= count <= len(self.data):
            raise self.damaged(f"a vector of {count} entries in {len(self.data)} bytes")
        return count

    def read(self) -> TfliteModel:
        graph = self.graph
        tensors = tuple(self.tensor(k) for k in range(self.length(graph.TensorsLength())))
        operators = tuple(
            self.operator(k, len(tensors)) for k in range(self.length(graph.OperatorsLength()))
        )
        inputs = self.indices(graph.InputsAsNumpy(), len(tensors))
        outputs = self.indices(graph.OutputsAsNumpy(), len(tensors))
        if not outputs:
            raise self.damaged("the graph has no output")
        self.check_order(tensors, operators, inputs, outputs)
        return TfliteModel(self.name, tensors, operators, inputs, outputs)

    def check_order(
        self,
        tensors: tuple[ModelTensor, ...],
        operators: tuple[TfliteOperator, ...],
        inputs: tuple[int, ...],
        outputs: tuple[int, ...],
    ) -> None:
        """Every tensor is an input, a constant, or written once before it is read."""
        constants = {k for k, tensor in enumerate(tensors) if tensor.data is not None}
        if constants & set(inputs):
            raise self.damaged("an input of the graph is a constant")
        known = {-1} | constants | set(inputs)
        for operator in operators:
            if not set(operator.inputs) <= known or known & set(operator.outputs):
                raise self.damaged(
                    f"operator {operator.index} {operator.code} reads a tensor before it is "
                    "written, or writes one again"
                )
            known |= set(operator.outputs)
        if not set(outputs) <= known - {-1}:
            raise self.damaged("an output of the graph is never written")

    def tensor(self, index: int) -> ModelTensor:
        table = self.graph.Tensors(index)
        name = (table.Name() or b"").decode("utf-8", "replace") or f"tensor {index}"
        where = f'tensor {index} "{name[-60:]}"'
        if table.Type() not in _TYPES:
            raise self.unsupported(
                f"{where} has element type {table.Type()}",
                f"a proof knows {', '.join(_TYPES.values())}",
            )
        if table.Sparsity() is not None or table.IsVariable():
            raise self.unsupported(
                f"{where} is sparse or a variable", "convert the model without sparsity and state"
            )
        dtype = _TYPES[table.Type()]
        shape = tuple(table.Shape(k) for k in range(self.length(table.ShapeLength())))
        signature = [table.ShapeSignature(k) for k in range(table.ShapeSignatureLength())]
        size_bytes = (
            int(np.prod([max(n, 0) for n in shape], dtype=object)) * np.dtype(dtype).itemsize
        )
        if size_bytes > _MAX_BYTES or any(n < 0 for n in shape):
            raise self.damaged(f"{where} has shape {list(shape)}")
        data = self.constant(table.Buffer(), shape, dtype, where)
        if data is None and any(n < 0 for n in signature[1:]):
            raise self.unsupported(
                f"{where} has shape {signature}", "convert the model with fixed shapes"
            )
        return ModelTensor(name, shape, dtype, *self.quantization(table, shape, where), data=data)

    def constant(
        self, buffer: int, shape: tuple[int, ...], dtype: str, where: str
    ) -> NDArray[np.generic] | None:
        if not 0 <= buffer < self.length(self.model.BuffersLength()):
            raise self.damaged(f"{where} names buffer {buffer}")
        stored = self.model.Buffers(buffer)
        if self.length(stored.DataLength()) == 0:
            return None
        raw = stored.DataAsNumpy().tobytes()
        expected = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if len(raw) != expected:
            raise self.damaged(f"{where} has {len(raw)} bytes, its shape needs {expected}")
        return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)

    def quantization(
        self, table: Any, shape: tuple[int, ...], where: str
    ) -> tuple[tuple[float, ...], tuple[int, ...], int | None]:
        """Scales, zero points and the axis they lie along."""
        stated = table.Quantization()
        count = 0 if stated is None else self.length(stated.ScaleLength())
        if count == 0:
            return (), (), None
        if stated.DetailsType() != 0:
            raise self.unsupported(
                f"{where} has quantization details of type {stated.DetailsType()}",
                "convert the model with one scale for each tensor or channel",
            )
        scales = tuple(float(stated.Scale(k)) for k in range(count))
        if not all(0 < scale < 2.0**64 for scale in scales):
            raise self.damaged(f"{where} has a scale that is not above 0 and finite")
        zeros = self.zero_points(stated, count, _TYPES[table.Type()], where)
        if count == 1:
            return scales, zeros, None
        axis = stated.QuantizedDimension() if len(shape) > 1 else 0
        if not (0 <= axis < len(shape) and shape[axis] == count):
            raise self.damaged(f"{where} of shape {list(shape)} has {count} scales, axis {axis}")
        return scales, zeros, axis

    def zero_points(self, stated: Any, count: int, dtype: str, where: str) -> tuple[int, ...]:
        """One for each scale: a file may have one for all, or none for 0."""
        zeros = tuple(stated.ZeroPoint(k) for k in range(self.length(stated.ZeroPointLength())))
        zeros = zeros or (0,)
        zeros = zeros * count if len(zeros) == 1 else zeros
        if len(zeros) != count:
            raise self.damaged(f"{where} has {count} scales and {len(zeros)} zero points")
        least, greatest = _range(dtype)
        if not all(least <= zero <= greatest for zero in zeros):
            raise self.damaged(f"{where} has a zero point outside [{least}, {greatest}]")
        return zeros

    def indices(self, values: Any, count: int) -> tuple[int, ...]:
        """Indices of tensors; the package gives 0 for an absent vector."""
        found = tuple(int(k) for k in values) if isinstance(values, np.ndarray) else ()
        if not all(-1 <= k < count for k in found):
            raise self.damaged(f"tensors {list(found)} of {count} are named")
        return found

    def operator(self, index: int, tensors: int) -> TfliteOperator:
        table = self.graph.Operators(index)
        if not 0 <= table.OpcodeIndex() < self.length(self.model.OperatorCodesLength()):
            raise self.damaged(f"operator {index} names operator code {table.OpcodeIndex()}")
        stated = self.model.OperatorCodes(table.OpcodeIndex())
        number = max(stated.BuiltinCode(), stated.DeprecatedBuiltinCode())
        code = _CODES.get(number, f"operator code {number}")
        if code == "CUSTOM":
            code = f"CUSTOM {(stated.CustomCode() or b'').decode('utf-8', 'replace')}"
        outputs = self.indices(table.OutputsAsNumpy(), tensors)
        if -1 in outputs:
            raise self.damaged(f"operator {index} {code} has an output that is no tensor")
        kind = _OPTIONS.get(table.BuiltinOptionsType(), "unknown")
        options = self.options(kind, table.BuiltinOptions(), f"operator {index} {code}")
        inputs = self.indices(table.InputsAsNumpy(), tensors)
        return TfliteOperator(index, code, stated.Version(), inputs, outputs, kind, options)

    def options(self, kind: str, table: Any, where: str) -> Fields:
        """Every field of a table of options; one that the schema does not know is refused."""
        if kind == "NONE" or table is None:
            return {}
        made = getattr(tflite, kind, None)
        if made is None:
            raise self.unsupported(f"{where} has options of an unknown kind", "convert it anew")
        made = made()
        made.Init(table.Bytes, table.Pos)
        known = [
            field
            for field, method in vars(type(made)).items()
            if callable(method) and field != "Init" and not field.endswith(("Length", "IsNone"))
        ]
        scalars = [field for field in known if not field.endswith("AsNumpy")]
        place = table.Pos - struct.unpack_from("<i", table.Bytes, table.Pos)[0]
        size = struct.unpack_from("<H", table.Bytes, place)[0]
        slots = struct.unpack_from(f"<{size // 2 - 2}H", table.Bytes, place + 4)
        counted: list[int] = []  # fields of the schema, those that it has given up included
        getattr(tflite, f"{kind}Start")(SimpleNamespace(StartObject=counted.append))
        if any(slots[counted[0] :]):
            raise self.unsupported(
                f"{where} has a field of its options that the schema of this release lacks",
                "convert the model with an older converter",
            )
        return {field: self.field(made, field) for field in scalars}

    def field(self, table: Any, name: str) -> int | float | tuple[int, ...]:
        if not hasattr(table, f"{name}Length"):
            value = getattr(table, name)()
            return value if isinstance(value, float) else 0 if value is None else int(value)
        count = self.length(getattr(table, f"{name}Length")())
        return tuple(int(getattr(table, name)(k)) for k in range(count))


def _range(dtype: str) -> tuple[int, int]:
    if dtype.startswith(("float", "bool")):
        return -(1 << 63), (1 << 63) - 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
