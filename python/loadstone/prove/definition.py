# SPDX-License-Identifier: Apache-2.0
"""A network as symbols: what each element of each of its tensors is.

In:   a network, and the values of a proof.
Out:  Definition: Elements, operator by operator.
Next: proof.py compares with them what a device stores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loadstone.prove.network import ModelNetwork, ModelOperator
from loadstone.prove.operators.elements import Elements
from loadstone.prove.operators.elementwise import channel_function, function, of_two
from loadstone.prove.operators.ends import dequantize, quantize
from loadstone.prove.operators.movement import (
    concat,
    pad,
    reshape,
    resize_nearest,
    slice_,
    transpose,
)
from loadstone.prove.operators.pooling import max_pool
from loadstone.prove.operators.products import batch_matmul
from loadstone.prove.operators.resizing import check_resize, resize_bilinear
from loadstone.prove.operators.weighted import average_pool, convolution, dense, mean
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import arg_max, softmax
from loadstone.prove.values import Values
from loadstone.prove.verdict import Unsupported

__all__ = ["TAKEN", "Definition"]

_STATED: Mapping[str, Callable[[Elements, ModelOperator], None]] = {
    "conv2d": convolution,
    "depthwise_conv2d": convolution,
    "dense": dense,
    "batch_matmul": batch_matmul,
    "average_pool": average_pool,
    "mean": mean,
    "global_average_pool": mean,
    "max_pool": max_pool,
    "add": of_two,
    "sub": of_two,
    "mul": of_two,
    "requantize": function,
    "table": function,
    "channel_table": channel_function,
    "reshape": reshape,
    "transpose": transpose,
    "pad": pad,
    "slice": slice_,
    "concat": concat,
    "resize_nearest": resize_nearest,
    "resize_bilinear": resize_bilinear,
}
#: Those that are taken as they are: equal names on equal rows are equal.
TAKEN: Mapping[str, Callable[[Elements, ModelOperator, RowFunctions], None]] = {
    "softmax": softmax,
    "arg_max": arg_max,
    "quantize": quantize,
    "dequantize": dequantize,
}


class Definition:
    """The network's side of a proof."""

    def __init__(self, values: Values, network: ModelNetwork) -> None:
        self.network = network
        self.elements = Elements(values, network)
        self.rows = RowFunctions(values)

    def state(self) -> None:
        """States all operators. Raises Unsupported for one that a proof does not know."""
        for operator in self.network.operators:
            if operator.kind not in _STATED and operator.kind not in TAKEN:
                raise Unsupported(f"{operator.where}: operator {operator.kind}")
            if operator.kind == "resize_bilinear":
                check_resize(operator)
        for operator in self.network.operators:
            if operator.kind in TAKEN:
                TAKEN[operator.kind](self.elements, operator, self.rows)
            else:
                _STATED[operator.kind](self.elements, operator)
