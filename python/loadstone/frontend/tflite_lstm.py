# SPDX-License-Identifier: Apache-2.0
"""TFLite's UNIDIRECTIONAL_SEQUENCE_LSTM, of int8 with an int16 cell or of float32.

In:   the operator; the interface of tflite.py for operators with a state.
Out:  the hidden state of every step; the last hidden state and cell, which are kept for the next
      run.
Next: tflite_state.py lists it.

On integers it repeats LiteRT's kernel step by step: the sums of a gate are scaled to Q3.12, those
of input and state each with its own saturation, and gemmlowp's functions of int16 follow. The four
gates are concatenated, so that a step has one product with the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tflite

from loadstone.errors import UnsupportedError
from loadstone.frontend.gemmlowp16 import (
    MAX_INTEGER_BITS,
    Int16Table,
    logistic_table,
    tanh_table,
)
from loadstone.frontend.recurrent import Gates, unrolled
from loadstone.frontend.tflite_file import TensorRecord, TfliteTable
from loadstone.frontend.tflite_integers import Integers, Stateful, single_scale
from loadstone.frontend.tflite_options import Options
from loadstone.numerics import Array
from loadstone.relax.compat import constant, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["unidirectional_lstm"]

#: Places of the operator's inputs. Gates are input, forget, candidate, output.
_X_WEIGHTS, _H_WEIGHTS, _BIASES = range(1, 5), range(5, 9), range(12, 16)
_HIDDEN, _CELL = 18, 19
_INPUTS = (20, 24)
_WITHOUT = (
    (range(9, 12), "peephole weights"),
    (range(16, 18), "a projection"),
    (range(20, 24), "layer normalization"),
)
_KINDS = ("int8", "int8", "int16"), ("float32",) * 3
#: A gate is Q3.12.
_GATE_SCALE = np.float32(2.0**-12)


def unidirectional_lstm(converter: Stateful, op: TfliteTable) -> None:
    """Raises UnsupportedError for what is not known of it."""
    options = converter.record.options
    layer = _Layer(converter, options)
    layer.check()
    convert = _on_integers if layer.tensor(0).dtype == "int8" else _on_reals
    steps, hidden, cell = convert(layer)
    inputs, bb = converter.record.inputs, converter.bb
    converter.keep(inputs[_HIDDEN], hidden)
    converter.keep(inputs[_CELL], cell)
    together = bb.emit(relax.op.stack(steps, axis=0 if options["time_major"] else 1))
    converter.give(converter.record.outputs[0], together)


class _Layer:
    """What the operator has, by its places."""

    def __init__(self, converter: Stateful, options: Options) -> None:
        self.converter, self.options = converter, options
        self.emit = converter.bb.emit

    def tensor(self, place: int) -> TensorRecord:
        return self.converter.file.tensors[self.converter.record.inputs[place]]

    def stored(self, place: int) -> Expr:
        return self.converter.stored(self.converter.record.inputs[place])

    def joined(self, places: range) -> Array:
        """Constants of the four gates, one behind the other."""
        found = []
        for place in places:
            record = self.tensor(place)
            if record.data is None:
                raise UnsupportedError(
                    f'its weights "{record.name}" are computed: only constants are known'
                )
            found.append(record.data)
        return np.concatenate(found)

    def sequence(self) -> Expr:
        """x by time: (T, B, I)."""
        x = self.stored(0)
        return x if self.options["time_major"] else self.emit(relax.op.permute_dims(x, [1, 0, 2]))

    def check(self) -> None:
        inputs, options = self.converter.record.inputs, self.options
        if len(inputs) not in _INPUTS:
            raise UnsupportedError(f"it has {len(inputs)} inputs: 20 and 24 are known")
        for places, what in _WITHOUT:
            if any(index >= 0 for index in inputs[places.start : places.stop]):
                raise UnsupportedError(f"it has {what}: only layers without are known")
        needed = (0, *_X_WEIGHTS, *_H_WEIGHTS, *_BIASES, _HIDDEN, _CELL)
        missing = [place for place in needed if inputs[place] < 0]
        if missing:
            raise UnsupportedError(
                f"it leaves out input {missing[0]}: its four gates need weights and a bias each"
            )
        self._check_types()
        if options["fused_activation_function"] != tflite.ActivationFunctionType.TANH:
            raise UnsupportedError(
                f"its activation has the number {options['fused_activation_function']}: TANH is "
                "known"
            )

    def _check_types(self) -> None:
        kinds = (self.tensor(0).dtype, self.tensor(1).dtype, self.tensor(_CELL).dtype)
        if kinds not in _KINDS:
            raise UnsupportedError(
                f"its input, weights and cell are {', '.join(kinds)}: int8, int8, int16 and "
                "float32 throughout are known: convert the model with full integer quantization"
            )
        if not (self.tensor(_HIDDEN).is_variable and self.tensor(_CELL).is_variable):
            raise UnsupportedError("its states are no variables")
        if len(self.tensor(0).shape) != 3:
            raise UnsupportedError(
                f"its input has shape {list(self.tensor(0).shape)}: three dimensions are known"
            )


_Found = tuple[list["Expr"], "Expr", "Expr"]


# --- real numbers ---------------------------------------------------------------------------------
def _on_reals(layer: _Layer) -> _Found:
    """The states of every step (B, C), the last one, and the last cell."""
    if layer.options["cell_clip"] > 0:
        raise UnsupportedError(
            f"its cell is clipped at {layer.options['cell_clip']}: of float32 it is not known"
        )
    bias = layer.joined(_BIASES)
    weights = layer.joined(_X_WEIGHTS), layer.joined(_H_WEIGHTS)
    gates = Gates("lstm", *weights, bias, np.zeros_like(bias))
    states = [layer.stored(_HIDDEN), layer.stored(_CELL)]
    found = unrolled(layer.emit, layer.sequence(), gates, states)
    assert found.cell is not None
    return list(found.steps), found.hidden, found.cell


# --- integers -------------------------------------------------------------------------------------
def _zero_point(record: TensorRecord) -> int:
    assert record.zero_points is not None
    return int(record.zero_points[0])


class _Cell:
    """A step on int64 levels. hidden: int8 levels (B, C); cell: int16 levels (B, C)."""

    def __init__(self, layer: _Layer) -> None:
        self.layer, self.integers = layer, Integers(layer.converter.bb)
        self.emit, self.size = layer.emit, layer.tensor(5).shape[1]
        self.hidden, self.cell = (self.integers.wide(layer.stored(k)) for k in (_HIDDEN, _CELL))
        self.integer_bits = self._integer_bits()
        self.state_weights = constant(layer.joined(_H_WEIGHTS).T.astype(np.int32).copy())
        self.logistic, self.tanh = _table(logistic_table()), _table(tanh_table(3))
        self.cell_tanh = (
            self.tanh if self.integer_bits == 3 else _table(tanh_table(self.integer_bits))
        )
        self.hidden_scale, self.hidden_zero_point = self._hidden_quantization()

    def _integer_bits(self) -> int:
        """Of the cell, whose scale is a power of two."""
        fraction, exponent = np.frexp(single_scale(self.layer.tensor(_CELL)))
        bits = 15 + int(exponent) - 1
        if fraction != 0.5 or not 0 <= bits <= MAX_INTEGER_BITS:
            raise UnsupportedError(
                f"the scale of its cell is {single_scale(self.layer.tensor(_CELL)):.6g}: powers of "
                f"two from 2^-15 to 2^{MAX_INTEGER_BITS - 15} are known"
            )
        return bits

    def _hidden_quantization(self) -> tuple[float, int]:
        """Of the product of output gate and cell, Q0.15 each: intermediate tensor 4."""
        converter = self.layer.converter
        table = converter.record.table
        if table.IntermediatesLength() != 5:
            raise UnsupportedError(
                f"it has {table.IntermediatesLength()} intermediate tensors: 5 are known"
            )
        places = len(converter.file.tensors)
        index = int(table.Intermediates(4))
        if not 0 <= index < places:
            raise UnsupportedError(f"its intermediate tensor 4 is number {index} of {places}")
        hidden = converter.file.tensors[index]
        scale = np.float32(2.0**-15 / float(single_scale(hidden)) * 2.0**-15)
        return float(scale), _zero_point(hidden)

    def sums(self, x: Expr, place: int, weights: range, bias: Array | None) -> Expr:
        """x (B, I) int64 levels -> (B, 4 * C) in Q3.12, not saturated."""
        quantized, layer = self.layer.tensor(place), self.layer
        joined = layer.joined(weights)
        offset = -_zero_point(quantized) * joined.astype(np.int64).sum(axis=1)
        offset = offset if bias is None else offset + bias
        turned = self.state_weights if place == _HIDDEN else constant(_turned(joined))
        narrow = self.emit(relax.op.astype(x, "int32"))
        product = self.integers.wide(self.emit(relax.op.matmul(narrow, turned)))
        total = self.emit(relax.op.add(product, self.integers.number(offset[None])))
        scales = [
            np.float32(single_scale(layer.tensor(k)) * single_scale(quantized)) / _GATE_SCALE
            for k in weights
        ]
        columns = np.repeat(np.asarray(scales, np.float32), self.size)[None]
        return self.integers.scaled(total, columns.astype(np.float64))

    def step(self, taken: Expr) -> None:
        """taken: (B, 4 * C), what the input gives, saturated to int16."""
        recurrent = self.sums(self.hidden, _HIDDEN, _H_WEIGHTS, None)
        gates = self._int16(self.emit(relax.op.add(recurrent, taken)))
        enter, forget, new, leave = (
            self._looked_up(self._gate(gates, k), self.tanh if k == 2 else self.logistic)
            for k in range(4)
        )
        kept = self._product(forget, self.cell, 15)
        entered = self._product(enter, new, 30 - (15 - self.integer_bits))
        self.cell = self._clipped(self._int16(self.emit(relax.op.add(kept, entered))))
        shown = self._looked_up(self.cell, self.cell_tanh)
        product = self.emit(relax.op.multiply(leave, shown))
        levels = self.integers.scaled(product, self.hidden_scale)
        placed = self.emit(relax.op.add(levels, self.integers.number(self.hidden_zero_point)))
        self.hidden = self.integers.clamped(placed, -128, 127)

    def _gate(self, gates: Expr, index: int) -> Expr:
        ends = [index * self.size], [(index + 1) * self.size]
        return self.emit(relax.op.strided_slice(gates, [1], *ends))

    def _int16(self, x: Expr) -> Expr:
        return self.integers.clamped(x, -32768, 32767)

    def _looked_up(self, x: Expr, table: Expr) -> Expr:
        places = self.emit(relax.op.add(x, self.integers.number(32768)))
        return self.integers.wide(self.emit(relax.op.take(table, places, axis=0)))

    def _product(self, a: Expr, b: Expr, shift: int) -> Expr:
        return self.integers.shifted(self.emit(relax.op.multiply(a, b)), shift)

    def _clipped(self, cell: Expr) -> Expr:
        clip = self.layer.options["cell_clip"]
        if clip <= 0:
            return cell
        limit = int(np.minimum(np.float32(clip) / single_scale(self.layer.tensor(_CELL)), 32767))
        return self.integers.clamped(cell, -limit, limit)


def _table(values: Int16Table) -> Expr:
    return constant(values)


def _turned(weights: Array) -> Array:
    return np.ascontiguousarray(weights.T.astype(np.int32))


def _on_integers(layer: _Layer) -> _Found:
    """As _on_reals."""
    emit, x = layer.emit, layer.sequence()
    extents = shape(x)
    assert extents is not None
    steps, batch, width = extents
    cell = _Cell(layer)
    flat = cell.integers.wide(emit(relax.op.reshape(x, (steps * batch, width))))
    sums = cell.sums(flat, 0, _X_WEIGHTS, layer.joined(_BIASES))
    taken = cell.integers.clamped(sums, -32768, 32767)
    made: list[Expr] = []
    for step in range(steps):
        ends = [step * batch], [(step + 1) * batch]
        cell.step(emit(relax.op.strided_slice(taken, [0], *ends)) if steps > 1 else taken)
        made.append(emit(relax.op.astype(cell.hidden, "int8")))
    return made, made[-1], relax.op.astype(cell.cell, "int16")
