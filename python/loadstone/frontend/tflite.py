# SPDX-License-Identifier: Apache-2.0
"""TFLite to Relax: every quantized operator becomes dequantize -> the float operator -> quantize.

In:   the bytes of a .tflite file (float, int8 or uint8).
Out:  an IRModule whose `main` carries the attribute "loadstone.numerics" = "tflite".
Next: canonical.py converts it to the canonical QDQ form.

TVM's importer supports about 200 operators, but its quantized ones differ from TFLite's: an average
pool truncates, and PAD and RESIZE are refused. This converter therefore presents a float network to
it: an int8 tensor of the file appears as float32, is dequantized when it is read, and an operator's
result is quantized again. The attribute selects the integer rule (graph/, `rounding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.canonical import FLOAT
from loadstone.frontend.names import OUTPUTS
from loadstone.frontend.reading import STATES, WHOLE, Reading
from loadstone.frontend.tflite_arrays import ARRAYS
from loadstone.frontend.tflite_checks import CONVERSIONS, check_operator, refusing
from loadstone.frontend.tflite_composite import decomposed
from loadstone.frontend.tflite_converters import OWN
from loadstone.frontend.tflite_cut import cut
from loadstone.frontend.tflite_dense import dense
from loadstone.frontend.tflite_detection import DETECTION
from loadstone.frontend.tflite_file import (
    OperatorRecord,
    TensorRecord,
    TfliteFile,
    TfliteTable,
    read,
)
from loadstone.frontend.tflite_fold import folded
from loadstone.frontend.tflite_functions import FUNCTIONS
from loadstone.frontend.tflite_hybrid import HYBRID, is_hybrid
from loadstone.frontend.tflite_kernels import OPERANDS
from loadstone.frontend.tflite_prelu import prelu
from loadstone.frontend.tflite_rules import check_types, relabels
from loadstone.frontend.tflite_state import STATEFUL
from loadstone.frontend.tflite_variables import described, resolved, states_of
from loadstone.frontend.tflite_view import TensorView
from loadstone.frontend.tflite_weights import with_positive_scales
from loadstone.frontend.tflite_wide import WIDE, is_wide
from loadstone.numerics import Array
from loadstone.relax.compat import (
    abandoning,
    constant,
    dtype,
    relax,
    shape,
    tflite_importer,
    with_main,
)
from loadstone.relax.convolutions import with_flat_kernels, with_types

if TYPE_CHECKING:
    from loadstone.relax.types import BlockBuilder, Expr, IRModule, TensorWrapper

__all__ = ["from_bytes"]

_importer = tflite_importer()

#: Ends the name of integers before they are given another scale.
COPIED = "/copied"
#: Operators that say themselves what they know, and give each tensor as the file has it.
WHOLE_OPERATORS = {**STATEFUL, **DETECTION}
#: Operators whose conversion is ours; TVM's converters do the others.
CONVERTERS = {**OWN, **ARRAYS, **FUNCTIONS, "FULLY_CONNECTED": dense}


def from_bytes(data: bytes, name: str, reading: Reading = WHOLE) -> IRModule:
    """The model as an IRModule; tensors and constants keep the integers of the file.

    Raises ModelError for a damaged file and UnsupportedError for what Loadstone does not do; `name`
    begins the message.
    """
    file = resolved(decomposed(read(data, name), data, name), data, name)
    file = file if reading.is_whole else cut(file, name, reading)
    file = folded(with_positive_scales(file, name))
    check_types(file, name)
    builder = relax.BlockBuilder()
    kept = states_of(file)
    sources = (*file.inputs, *kept)
    inputs = [file.tensors[index] for index in sources]
    parameters = [
        relax.Var(record.name, relax.TensorType(record.shape, record.dtype)) for record in inputs
    ]
    attributes = {"num_input": len(parameters), "loadstone.numerics": _numerics(file)}
    attributes[OUTPUTS] = _output_names(file, kept)
    if kept:
        attributes[STATES] = described(file, kept)
    with abandoning(builder), builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            converter = _QdqConverter(
                file, builder, dict(zip(sources, parameters, strict=True)), name
            )
            converter.convert_op_to_relax()
            outputs = [converter.stored(index) for index in (*file.outputs, *kept)]
            output = builder.emit_output(outputs[0] if len(outputs) == 1 else relax.Tuple(outputs))
        builder.emit_func_output(output)
    return with_main(builder.get())


def _output_names(file: TfliteFile, kept: tuple[int, ...]) -> list[str]:
    """As the file has them; "" for one that another tensor of the edge has."""
    owners: dict[str, int] = {}
    for index in (*file.inputs, *file.outputs):
        owners.setdefault(file.tensors[index].name, index)
    names = [(file.tensors[index].name, index) for index in (*file.outputs, *kept)]
    return [name if owners.get(name, index) == index else "" for name, index in names]


def _numerics(file: TfliteFile) -> str:
    """uint8 kernels average and interpolate x + 128; a model that is uint8 at its edges only is an
    int8 model."""
    inner = (
        index
        for operator in file.operators
        if operator.code not in CONVERSIONS
        for index in operator.inputs
        if index >= 0
    )
    unsigned = any(
        file.tensors[index].dtype == "uint8" and file.tensors[index].is_quantized for index in inner
    )
    return "tflite_uint8" if unsigned else "tflite"


class _QdqConverter(_importer.OperatorConverter):  # type: ignore[misc,name-defined]
    def __init__(
        self, file: TfliteFile, builder: BlockBuilder, values: dict[int, Expr], name: str
    ) -> None:
        super().__init__(file.model, file.subgraph, _importer.ExprTable(), builder)
        self.file, self.values, self.model_name = file, values, name
        self.record: OperatorRecord
        own: dict[str, Callable[[TfliteTable], Expr | None]] = {
            "QUANTIZE": self.convert_same,
            "DEQUANTIZE": self.convert_same,
            "PRELU": self.convert_slopes,
            **{kind: partial(convert, self) for kind, convert in CONVERTERS.items()},
            **{kind: partial(convert, self) for kind, convert in WHOLE_OPERATORS.items()},
        }
        self.convert_map.update(own)

    # -- what TVM's converters ask -----------------------------------------------------------------

    def is_real(self, index: int) -> bool:
        """Whether the integers of this tensor stand for real numbers."""
        record = self.file.tensors[index]
        if record.dtype == "int32":
            return self.is_bias(
                index
            )  # with a scale in the file or without: it has the accumulator's
        return record.is_quantized

    def is_bias(self, index: int) -> bool:
        """Whether the operator at hand adds it to its accumulators; another one may read the same
        integers as something else."""
        if self.record.code not in OPERANDS:
            return False
        position = OPERANDS[self.record.code].bias
        return self.record.inputs[position : position + 1] == (index,)

    def get_tensors(self, tensors_idx_list: Iterable[int]) -> list[TensorWrapper]:
        wrappers = []
        for index in map(int, tensors_idx_list):
            if index >= 0:
                view = TensorView(self.file.tensors[index], real=self.is_real(index))
                wrappers.append(_importer.TensorWrapper(index, view, view.buffer))
        return wrappers  # an absent optional input is always the last

    def get_input_tensors(self, op: TfliteTable) -> list[TensorWrapper]:
        return self.get_tensors(self.record.inputs)

    def get_output_tensors(self, op: TfliteTable) -> list[TensorWrapper]:
        return self.get_tensors(self.record.outputs)

    def is_prefetched(self, input_tensor_idx: int) -> bool:
        """Sparse tensors, of which there are none, are made dense beforehand."""
        return False

    def has_expr(self, input_tensor_idx: int) -> bool:
        return input_tensor_idx in self.values or self.is_real(input_tensor_idx)

    def get_expr(self, input_tensor_idx: int) -> Expr:
        if not self.is_real(input_tensor_idx):
            return self.stored(input_tensor_idx)
        return self.bb.emit(self.dequantized(input_tensor_idx))

    def get_tensor_value(self, tensor_wrapper: TensorWrapper, is_sparse: bool = False) -> Array:
        record = self.file.tensors[tensor_wrapper.tensor_idx]
        if record.data is None:
            raise UnsupportedError(
                f'its argument "{record.name}" is computed by the model: only constants are '
                "supported there"
            )
        return _dequantized(record) if self.is_real(record.index) else record.data

    # -- what this converter adds ------------------------------------------------------------------

    def stored(self, index: int) -> Expr:
        """The tensor as the file has it: a variable, or a constant."""
        if index not in self.values:
            data = self.file.tensors[index].data
            assert data is not None
            return constant(data)
        return self.values[index]

    def dequantized(self, index: int) -> Expr:
        """A call; get_expr binds it anew for every reader."""
        scales, zero_points, axis = self.quantization(index)
        return relax.op.dequantize(self.stored(index), scales, zero_points, axis=axis)

    def quantization(self, index: int) -> tuple[Expr, Expr, int]:
        """Scale, zero point and axis as Relax takes them; a bias has the scale that the accumulator
        has."""
        record = self.file.tensors[index]
        scales, zero_points = record.scales, record.zero_points
        if self.is_bias(index):
            places = (OPERANDS[self.record.code].data, 1)
            data, weights = (self.file.tensors[self.record.inputs[n]].scales for n in places)
            if data is not None and weights is not None:
                scales, zero_points = data * weights, np.zeros(weights.shape, np.int32)
        if scales is None or zero_points is None:
            raise UnsupportedError(f'"{record.name}" holds integers without a scale')
        if scales.size == 1:
            return constant(scales[0]), constant(zero_points[0]), 0
        return constant(scales), constant(zero_points), record.axis

    def convert_op_to_relax(self) -> None:
        for record in self.file.operators:
            with refusing(self.file, record, self.model_name):
                check_operator(self.file, record, self.model_name)
        for record in self.file.operators:
            self.record = record
            with refusing(self.file, record, self.model_name):
                self.convert(record)

    def convert(self, record: OperatorRecord) -> None:
        """By the converter of its kind. Raises ModelError, without the operator's name."""
        try:
            if is_wide(self.file, record):
                WIDE[record.code](self, record.table)
            elif is_hybrid(self.file, record):
                self.store(record, HYBRID[record.code](self, record.table))
            else:
                self.store(record, self.convert_map[record.code](op=record.table))
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(_unfitting(self.file, record)) from error

    def store(self, record: OperatorRecord, converted: Expr) -> None:
        """Quantizes what an operator returned, names it, and compares its shape with the file's."""
        if converted is None:
            return
        converted = self.bb.normalize(with_types(with_flat_kernels(converted), self.bb.emit))
        for position, index in enumerate(record.outputs):
            target = self.file.tensors[index]
            expr = converted if len(record.outputs) == 1 else self.bb.emit(converted[position])
            if shape(expr) != target.shape:
                raise ModelError(
                    f'"{target.name}" would have shape {shape(expr)}, the file says {target.shape}'
                )
            if self.is_real(index):
                copied = relabels(self.file, record)
                scales, zero_points, axis = self.quantization(record.inputs[0] if copied else index)
                expr = (
                    expr
                    if isinstance(expr, relax.Var)
                    else self.bb.emit(expr, name_hint=target.name + FLOAT)
                )
                expr = relax.op.quantize(
                    expr, scales, zero_points, axis=axis, out_dtype=target.dtype
                )
                if copied:  # a reshape of integers is what canonical.py leaves as it is
                    expr = relax.op.reshape(
                        self.bb.emit(expr, name_hint=target.name + COPIED), target.shape
                    )
            elif dtype(expr) != target.dtype:
                raise ModelError(
                    f'"{target.name}" would be {dtype(expr)}, the file says {target.dtype}'
                )
            self.values[index] = self.bb.emit(expr, name_hint=target.name)

    # -- what WHOLE_OPERATORS ask -----------------------------------------------------------------

    def give(self, index: int, expr: Expr) -> None:
        """A tensor as the file has it, computed. Raises ModelError where the file says another."""
        target, found = self.file.tensors[index], self.bb.normalize(expr)
        if (shape(found), dtype(found)) != (target.shape, target.dtype):
            raise ModelError(
                f'"{target.name}" would be {dtype(found)} {shape(found)}, the file says '
                f"{target.dtype} {target.shape}"
            )
        self.values[index] = self.bb.emit(found, name_hint=target.name)

    def keep(self, index: int, expr: Expr) -> None:
        """The next value of a state: a binding of its own, so that what comes in does not go out
        as it is."""
        self.give(index, expr)

    # -- what tflite_converters.py asks ------------------------------------------------------------

    def real(self, position: int) -> Expr:
        """Input number `position` of the operator, as real numbers."""
        return self.get_tensor_expr(self.get_tensors([self.record.inputs[position]])[0])

    def activated(self, expr: Expr, activation: int) -> Expr:
        """A fused activation behind an expression."""
        return self.convert_fused_activation_function(expr, activation)

    def convert_slopes(self, op: TfliteTable) -> Expr | None:
        """PRELU: TVM's converter knows the one on real numbers."""
        return prelu(self) if self.is_real(self.record.inputs[0]) else self.convert_prelu(op)

    def convert_same(self, op: TfliteTable) -> Expr:
        """QUANTIZE and DEQUANTIZE: `get_expr` and `store` do all of it.

        What float operators computed is quantized as it is: a float32 that is cast to float32 keeps
        their operator from being read as the one on integers, whose kernel rounds otherwise.
        """
        record = self.file.tensors[self.record.inputs[0]]
        if record.dtype == "float16":
            return relax.op.astype(self.stored(record.index), "float32")
        if self.is_real(record.index):
            return self.dequantized(record.index)
        computed = record.data is None and record.index not in self.file.inputs
        if self.record.code == "QUANTIZE" and record.dtype == "float32" and computed:
            return relax.op.astype(self.stored(record.index), "float32")
        return self.stored(record.index)


def _unfitting(file: TfliteFile, record: OperatorRecord) -> str:
    """What TVM, which checks shapes against each other, could not make an operator of."""
    tensors = [file.tensors[index] for index in record.inputs if index >= 0]
    shapes = " and ".join(f"{tensor.dtype} {list(tensor.shape)}" for tensor in tensors)
    options = ", ".join(f"{name} = {value}" for name, value in record.options.items())
    return f"inputs {shapes}{' with ' * bool(options)}{options} do not fit together in it"


def _dequantized(record: TensorRecord) -> NDArray[np.float32]:
    assert record.data is not None
    assert record.scales is not None
    assert record.zero_points is not None
    along = [1] * record.data.ndim
    if record.scales.size > 1:
        along[record.axis] = -1
    centred = record.data.astype(np.int64) - record.zero_points.reshape(along or -1)
    return np.asarray(centred * record.scales.reshape(along or -1), np.float32).reshape(
        record.shape
    )
