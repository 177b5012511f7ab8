# SPDX-License-Identifier: Apache-2.0
"""Operators with an integer rule in TFLite alone: their patterns, and the operators of graph/.

In:   quantize(sum | prod (dequantize(x))), quantize(x / sqrt(sum(x * x) + tiny)),
      quantize(relu? matmul(dequantize(a), dequantize(b))), b turned or not.
Out:  ReduceSum, ReduceProduct, L2Normalize, BatchMatMul.
Next: partition/patterns/__init__.py lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from loadstone.errors import Refusal
from loadstone.graph import BatchMatMul, L2Normalize, Quantization, ReduceProduct, ReduceSum
from loadstone.partition.patterns.forms import const, dq, op, q, tail
from loadstone.partition.patterns.reader import Mismatch, Reader
from loadstone.relax.compat import integers, is_call, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Call, DFPattern

__all__ = [
    "batch_matmul",
    "batch_matmul_pattern",
    "l2_normalize",
    "l2_normalize_pattern",
    "reduce_pattern",
    "reduce_product",
    "reduce_sum",
    "turned_matmul_pattern",
]


_Reduction = TypeVar("_Reduction", ReduceSum, ReduceProduct)


def reduce_pattern(relax_name: str) -> Callable[[], DFPattern]:
    """One operator between dequantize and quantize."""
    return lambda: q(op(relax_name)(dq()))


def reduce_sum(reader: Reader, root: Call) -> ReduceSum:
    """Over any axes."""
    return _reduce(ReduceSum, reader, root)


def reduce_product(reader: Reader, root: Call) -> ReduceProduct:
    """Over any axes."""
    return _reduce(ReduceProduct, reader, root)


def _reduce(kind: type[_Reduction], reader: Reader, root: Call) -> _Reduction:
    _only_tflite(reader)
    call = reader.call(root.args[0])
    source, output = reader.source(call.args[0], reader.output(root).name), reader.output(root)
    rank = len(source.shape)
    axes = range(rank) if call.attrs.axis is None else integers(call.attrs.axis)
    return kind(
        name=output.name,
        inputs=(source,),
        outputs=(output,),
        axes=tuple(sorted({axis % rank for axis in axes})),
    )


def l2_normalize_pattern() -> DFPattern:
    """The form that TVM's importer writes."""
    norm = op("sqrt")(op("add")(op("sum")(op("square")(dq())), const()))
    return q(op("divide")(dq(), norm))


def l2_normalize(reader: Reader, root: Call) -> L2Normalize:
    """Raises Mismatch for an axis other than the last, and for an output in steps other than
    1/128."""
    _only_tflite(reader)
    division = reader.call(root.args[0])
    total = reader.call(reader.call(reader.call(division.args[1]).args[0]).args[0])
    square = reader.call(total.args[0])
    sources = [reader.source(item) for item in (division.args[0], square.args[0])]
    output = reader.output(root)
    if sources[0] != sources[1] or output.quantization != Quantization(1 / 128, 0):
        raise Mismatch("its output is not in steps of 1/128 around 0")
    if [axis % len(sources[0].shape) for axis in integers(total.attrs.axis)] != [
        len(sources[0].shape) - 1
    ]:
        raise Mismatch("it is not over the last axis")
    return L2Normalize(
        name=output.name, inputs=(sources[0],), outputs=(output,), unsigned=reader.unsigned
    )


def batch_matmul_pattern() -> DFPattern:
    """Two activations, or an activation and a constant that is not a dense layer's weights."""
    return tail(op("matmul")(dq(), dq()))


def turned_matmul_pattern() -> DFPattern:
    """The same by the rows of a tensor, as frontend/products.py writes it."""
    return tail(op("matmul")(dq(), op("permute_dims")(dq())))


def batch_matmul(reader: Reader, root: Call) -> BatchMatMul:
    """Raises Mismatch for vectors."""
    inner, low, high = reader.tail(root)
    output = reader.output(root)
    a, b = reader.call(inner).args
    turn = reader.call(b)
    if turned := is_call(turn, "permute_dims"):
        rank = len(shape(b) or ())
        if integers(turn.attrs.axes) != (*range(rank - 2), rank - 1, rank - 2):
            raise Mismatch("its second factor is turned by more than its last two axes")
        b = turn.args[0]
    first, second = (reader.source(item, output.name) for item in (a, b))
    if min(len(first.shape), len(second.shape)) < 3:
        raise Mismatch(f"it multiplies {list(first.shape)} by {list(second.shape)}")
    largest = [max(128 + x.zero_point, 127 - x.zero_point) for x in (first, second)]
    reach = first.shape[-1] * largest[0] * largest[1]
    if not reader.tflite and reach >= 2**31:  # LiteRT's sums wrap
        raise Mismatch(
            Refusal(f"its sums can reach {reach}, and int32 ends at 2147483647", "fewer products")
        )
    return BatchMatMul(
        name=output.name,
        inputs=(first, second),
        outputs=(output,),
        turned=turned,
        rounding=reader.rounding,
        low=low,
        high=high,
    )


def _only_tflite(reader: Reader) -> None:
    if not reader.tflite:
        raise Mismatch("only TFLite has an integer rule for it")
