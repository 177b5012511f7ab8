"""Which operators a VTA device takes, and why it leaves the others.

In:   a HwConfig.
Out:  the pattern table of the back end: forms in the order in which they are tried, each with a
      predicate.
Next: partition/eager.py applies it; operators/ lowers what is taken.

A predicate sees an operator of graph/ and answers None (taken) or a Refusal. What is taken gives
the framework's integers, not nearly (operators/ proves it, or says what would change a no), and
fits the scratchpads: it is lowered, alone, to see.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from loadstone import graph as g
from loadstone.backend.interface import Pattern, Refusal, offered
from loadstone.errors import LoadstoneError, UnsupportedError
from loadstone.graph.batching import batched_operator
from loadstone.vta.allocate import allocate
from loadstone.vta.hw_config import HwConfig
from loadstone.vta.offload import is_free
from loadstone.vta.operators import lower_operator, unsupported_reason

__all__ = ["patterns"]

#: Forms of loadstone.partition.patterns that a schedule exists for, in the order in which they are
#: tried.
_OFFERED = (
    *(
        "conv2d",
        "batch_norm",
        "channel_add",
        "channel_mul",
        "dense",
        "add",
        "sub",
        "mul",
        "average_pool2d",
        "max_pool2d",
        "mean",
    ),
    *("concatenate", "slice", "pad", "reshape", "resize", "requantize"),
)
#: Forms that no VTA can run: why, and what would change it.
_NEVER = {
    "softmax": Refusal(
        "the ALU has no exponential",
        "a model that ends in its logits: their largest names the same class",
    ),
    "argmax": Refusal(
        "the ALU compares tiles with tiles, not the lanes of one", "a model that ends in its logits"
    ),
    "quantize": Refusal("it is the edge between float32 and int8", "a model with int8 inputs"),
    "dequantize": Refusal("it is the edge between int8 and float32", "a model with int8 outputs"),
    "transpose": Refusal(
        "it moves elements between the lanes of a tile", "a model with channels last"
    ),
}


def patterns(config: HwConfig) -> Sequence[Pattern]:
    """The table of one device."""
    taken = [offered(form, partial(_predicate, config)) for form in _OFFERED]
    return [*taken, *(offered(form, partial(_refuse, refusal)) for form, refusal in _NEVER.items())]


def _refuse(refusal: Refusal, _: g.Operator) -> Refusal:
    return refusal


def _predicate(config: HwConfig, operator: g.Operator) -> Refusal | None:
    """None when the operator can be lowered exactly and each of its tiles placed."""
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype != "int8":
            return Refusal(
                f"tensor {tensor.name} is {tensor.dtype}, and the device computes on int8",
                "a model that is int8 there",
            )
    try:
        whole = batched_operator(operator, config.batch)
    except UnsupportedError as error:
        return Refusal(str(error), "a device whose batch is 1")
    if is_free(whole, config):
        return None
    if refusal := unsupported_reason(whole, config):
        return refusal
    try:
        allocate(lower_operator(whole, config).operations, config)
    except LoadstoneError as error:
        return Refusal(f"{operator.kind}: {error}", "a device with larger scratchpads")
    return None
