"""Every operator of graph/: the Relax pattern that it has in canonical form, and how a match
reads.

In:   `main` of a module in canonical form.
Out:  FORMS, in the order in which they are tried: the longest first.
Next: a back end picks those it runs and adds a predicate to each (vta/patterns.py);
      partition/eager.py applies them.

To add an operator: a dataclass in graph/, its rule in graph/reference.py, and one line here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loadstone.graph import Operator
from loadstone.partition.patterns import affine, elementwise, movement, pooling, weighted
from loadstone.partition.patterns.reader import Mismatch, Reader

__all__ = ["FORMS", "Form", "Mismatch", "Reader", "form"]

#: The most tensors that one concatenation on a device may join.
MAX_CONCATENATED = 8


@dataclass(frozen=True)
class Form:
    """name: the operator's `kind`. pattern: builds TVM's dataflow pattern. extract: raises Mismatch
    when it is not one."""

    name: str
    pattern: Callable[[], Any]
    extract: Callable[[Reader, Any], Operator]


FORMS: tuple[Form, ...] = (
    Form("conv2d", weighted.conv2d_pattern, weighted.conv2d),
    Form("batch_norm", affine.batch_norm_pattern, affine.batch_norm),
    Form("channel_add", affine.channel_pattern("add"), affine.channel_add),
    Form("channel_mul", affine.channel_pattern("multiply"), affine.channel_mul),
    Form("dense", weighted.dense_pattern, weighted.dense),
    Form("add", elementwise.binary_pattern("add"), elementwise.binary("add")),
    Form("sub", elementwise.binary_pattern("subtract"), elementwise.binary("subtract")),
    Form("mul", elementwise.binary_pattern("multiply"), elementwise.binary("multiply")),
    Form("average_pool2d", pooling.pool_pattern("nn.avg_pool2d"), pooling.average_pool2d),
    Form("max_pool2d", pooling.pool_pattern("nn.max_pool2d"), pooling.max_pool2d),
    Form("mean", pooling.pool_pattern("mean"), pooling.mean),
    *(
        Form("concatenate", movement.concatenate_pattern(count), movement.concatenate)
        for count in range(2, MAX_CONCATENATED + 1)
    ),
    Form("slice", movement.slice_pattern, movement.slice_),
    Form("pad", movement.pad_pattern, movement.pad),
    Form("reshape", movement.reshape_pattern, movement.reshape),
    Form("transpose", movement.transpose_pattern, movement.transpose),
    Form("resize", movement.resize_pattern, movement.resize),
    Form("softmax", elementwise.softmax_pattern, elementwise.softmax),
    Form("sigmoid", elementwise.function_pattern("sigmoid"), elementwise.sigmoid),
    Form("leaky_relu", elementwise.function_pattern("nn.leakyrelu"), elementwise.leaky_relu),
    Form("argmax", elementwise.argmax_pattern, elementwise.argmax),
    Form("requantize", elementwise.requantize_pattern, elementwise.requantize),
    Form("quantize", elementwise.quantize_pattern, elementwise.quantize),
    Form("dequantize", elementwise.dequantize_pattern, elementwise.dequantize),
)


def form(name: str) -> Form:
    """The first form of that name."""
    return next(entry for entry in FORMS if entry.name == name)
