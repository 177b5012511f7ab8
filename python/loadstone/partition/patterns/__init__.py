# SPDX-License-Identifier: Apache-2.0
"""Every operator of graph/: its Relax pattern in canonical form, and how a match becomes the
operator.

In:   `main` of a module in canonical form.
Out:  FORMS, in the order in which they are tried: the longest first.
Next: a back end selects the forms that it runs, and adds a predicate to each
      (vta/region/patterns.py);
      partition/eager.py applies them.

To add an operator: a dataclass in graph/, its rule in graph/reference.py, and one line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from loadstone.backend.interface import OperatorPattern, Pattern
from loadstone.errors import LoweringError
from loadstone.partition.patterns import affine, elementwise, movement, pooling, reduction, weighted
from loadstone.partition.patterns.planes import PLANE_PATTERNS
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.partition.patterns.real import REAL_PATTERNS

__all__ = [
    "OPERATOR_PATTERNS",
    "PLANE_PATTERNS",
    "REAL_PATTERNS",
    "Mismatch",
    "OperatorPattern",
    "Reader",
    "entries_of",
    "operator_pattern",
]

#: The most tensors that one concatenation on a device may join.
MAX_CONCATENATED = 8


OPERATOR_PATTERNS: tuple[OperatorPattern, ...] = (
    OperatorPattern("conv2d", weighted.conv2d_pattern, weighted.conv2d),
    OperatorPattern("batch_norm", affine.batch_norm_pattern, affine.batch_norm),
    OperatorPattern("channel_add", affine.channel_pattern("add"), affine.channel_add),
    OperatorPattern("channel_mul", affine.channel_pattern("multiply"), affine.channel_mul),
    OperatorPattern("dense", weighted.dense_pattern, weighted.dense),
    OperatorPattern("add", elementwise.binary_pattern("add"), elementwise.binary("add")),
    OperatorPattern("sub", elementwise.binary_pattern("subtract"), elementwise.binary("subtract")),
    OperatorPattern("mul", elementwise.binary_pattern("multiply"), elementwise.binary("multiply")),
    OperatorPattern("div", elementwise.binary_pattern("divide"), elementwise.binary("divide")),
    OperatorPattern(
        "squared_difference",
        elementwise.squared_difference_pattern,
        elementwise.squared_difference,
    ),
    OperatorPattern("batch_matmul", reduction.batch_matmul_pattern, reduction.batch_matmul),
    OperatorPattern("batch_matmul_turned", reduction.turned_matmul_pattern, reduction.batch_matmul),
    OperatorPattern("l2_normalize", reduction.l2_normalize_pattern, reduction.l2_normalize),
    OperatorPattern("reduce_sum", reduction.reduce_pattern("sum"), reduction.reduce_sum),
    OperatorPattern("reduce_product", reduction.reduce_pattern("prod"), reduction.reduce_product),
    OperatorPattern(
        "average_pool2d", pooling.pool_pattern("nn.avg_pool2d"), pooling.average_pool2d
    ),
    OperatorPattern("max_pool2d", pooling.pool_pattern("nn.max_pool2d"), pooling.max_pool2d),
    OperatorPattern("mean", pooling.pool_pattern("mean"), pooling.mean),
    *(
        OperatorPattern("concatenate", movement.concatenate_pattern(count), movement.concatenate)
        for count in range(1, MAX_CONCATENATED + 1)
    ),
    OperatorPattern("slice", movement.slice_pattern, movement.slice_),
    OperatorPattern("pad", movement.pad_pattern, movement.pad),
    OperatorPattern("reshape", movement.reshape_pattern, movement.reshape),
    OperatorPattern("relabel", movement.relabel_pattern, movement.relabel),
    OperatorPattern("transpose", movement.transpose_pattern, movement.transpose),
    OperatorPattern("resize", movement.resize_pattern, movement.resize),
    OperatorPattern("softmax", elementwise.softmax_pattern, elementwise.softmax),
    OperatorPattern("layer_norm", elementwise.layer_norm_pattern, elementwise.layer_norm),
    OperatorPattern("sigmoid", elementwise.function_pattern("sigmoid"), elementwise.sigmoid),
    OperatorPattern(
        "leaky_relu", elementwise.function_pattern("nn.leakyrelu"), elementwise.leaky_relu
    ),
    OperatorPattern("table", elementwise.table_pattern, elementwise.table),
    OperatorPattern("hard_swish", elementwise.hard_swish_pattern, elementwise.hard_swish),
    *(
        OperatorPattern(name, elementwise.function_pattern(name), elementwise.tflite_function(name))
        for name in ("abs", "sqrt", "rsqrt")
    ),
    OperatorPattern("argmax", elementwise.argmax_pattern, elementwise.argmax),
    OperatorPattern("requantize", elementwise.requantize_pattern, elementwise.requantize),
    OperatorPattern("quantize", elementwise.quantize_pattern, elementwise.quantize),
    OperatorPattern("dequantize", elementwise.dequantize_pattern, elementwise.dequantize),
)


def entries_of(backend: str, pattern: Pattern) -> Sequence[OperatorPattern]:
    """The patterns that a line of a back end's table names. Raises LoweringError for an unknown
    name."""
    if isinstance(pattern.operator_pattern, OperatorPattern):
        return [pattern.operator_pattern]
    known = (*OPERATOR_PATTERNS, *PLANE_PATTERNS, *REAL_PATTERNS)
    entries = [entry for entry in known if entry.name == pattern.kind]
    if not entries:
        near = get_close_matches(pattern.kind, {entry.name for entry in known}, 1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise LoweringError(
            f"back end {backend} offers {pattern.kind!r}, which is no operator pattern: {meant}"
            "docs/bring-your-own-accelerator.md lists them under `Names of patterns`"
        )
    return entries


def operator_pattern(name: str) -> OperatorPattern:
    """The first form with this name."""
    known = (*OPERATOR_PATTERNS, *PLANE_PATTERNS)
    return next(entry for entry in known if entry.name == name)
