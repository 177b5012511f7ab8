# SPDX-License-Identifier: Apache-2.0
"""FULLY_CONNECTED of TFLite: by weights of the file, or by another activation.

In:   an operator's table; the Converter of tflite.py.
Out:  real numbers, where the weights are constants or everything is real; of two quantized
      activations the output's integers, in operations of Relax on integers.
Next: tflite.py quantizes the former, and has the latter already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.tflite_converters import Converter, target_of
from loadstone.frontend.tflite_file import TensorRecord, TfliteTable
from loadstone.frontend.tflite_integers import Integers, grid
from loadstone.relax.compat import constant, relax

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["dense"]

#: Number of ActivationFunctionType -> its real bounds.
_BOUNDS = {0: (-np.inf, np.inf), 1: (0.0, np.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def dense(converter: Converter, op: TfliteTable) -> Expr | None:
    """Weights (O, I); the input is taken as (M, I). Raises UnsupportedError for shapes that do not
    fit together."""
    tensors, record = converter.file.tensors, converter.record
    x, weights = (tensors[index] for index in record.inputs[:2])
    units, depth = weights.shape if len(weights.shape) == 2 else (0, 0)
    count = int(np.prod(x.shape))
    if depth < 1 or count % depth:
        raise UnsupportedError(
            f"its weights are {list(weights.shape)}, its input is {list(x.shape)}"
        )
    keeps = record.options["keep_num_dims"]
    if keeps and x.shape[-1:] != (depth,):
        raise UnsupportedError(f"it keeps the axes of {list(x.shape)}, of which {depth} are summed")
    size = (*x.shape[:-1], units) if keeps else (count // depth, units)
    if weights.is_quantized and weights.data is None:
        _of_two_activations(converter, (count // depth, depth), size)
        return None
    source = converter.real(0)
    if len(x.shape) != 2 or x.shape[1] != depth:
        source = converter.bb.normalize(relax.op.reshape(source, (-1, depth)))
    out = relax.op.matmul(source, relax.op.permute_dims(converter.real(1), [1, 0]))
    if _has_bias(converter):
        out = relax.op.add(out, converter.real(2))
    out = converter.activated(out, record.options["fused_activation_function"])
    return out if len(size) == 2 else relax.op.reshape(out, size)


def _has_bias(converter: Converter) -> bool:
    return len(converter.record.inputs) > 2 and converter.record.inputs[2] >= 0


def _of_two_activations(converter: Converter, rows: tuple[int, int], size: tuple[int, ...]) -> None:
    """Sums of products of integers, scaled as gemmlowp does it: LiteRT's kernel, which does not ask
    where the weights come from."""
    bb, integers, record = converter.bb, Integers(converter.bb), converter.record
    x, weights, target = (
        *(converter.file.tensors[index] for index in record.inputs[:2]),
        target_of(converter),
    )
    sides = [_centred(converter, tensor) for tensor in (x, weights)]
    first = bb.emit(relax.op.reshape(sides[0], rows))
    sums = bb.emit(relax.op.matmul(first, bb.emit(relax.op.permute_dims(sides[1], [1, 0]))))
    if _has_bias(converter):
        sums = bb.emit(relax.op.add(sums, converter.stored(record.inputs[2])))
    scales = [float(np.float32(grid(tensor)[0])) for tensor in (x, weights, target)]
    offset = grid(target)[1]
    levels = integers.scaled_once(integers.wide(sums), scales[0] * scales[1] / scales[2])
    moved = bb.emit(relax.op.add(levels, integers.number(offset)))
    limits = np.iinfo(target.dtype)
    bounds = [
        offset + bound / scales[2] for bound in _BOUNDS[record.options["fused_activation_function"]]
    ]
    low, high = (
        int(np.clip(np.floor(bound + 0.5) if np.isfinite(bound) else bound, limits.min, limits.max))
        for bound in bounds
    )
    clamped = bb.emit(relax.op.astype(integers.clamped(moved, low, high), target.dtype))
    converter.give(target.index, relax.op.reshape(clamped, size))


def _centred(converter: Converter, tensor: TensorRecord) -> Expr:
    """int32, without its zero point."""
    wide = converter.bb.emit(relax.op.astype(converter.stored(tensor.index), "int32"))
    return converter.bb.emit(relax.op.subtract(wide, constant(np.int32(grid(tensor)[1]))))
