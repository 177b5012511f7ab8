# SPDX-License-Identifier: Apache-2.0
"""The operators that a VTA device takes, and the reasons for refusing others.

In:   a HwConfig; the request for each layer: the back end's passes, and how outputs are rounded.
Out:  the pattern table of the back end: names of operator patterns in the order in which
      they are tried, each with a predicate.
Next: partition/eager.py applies it; operators/ lowers the operators that are taken.

A predicate receives an operator of graph/ and returns a Taken or a Refusal. An operator that is
taken gives exactly the framework's integers (operators/ proves this, or states what would change a
refusal), and fits the scratchpads. To find out, the predicate lowers it alone, and the Taken passes
the result to the region.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from loadstone import graph as g
from loadstone.backend.interface import Pattern, Refusal, Taken, offered
from loadstone.errors import LoweringError, UnsupportedError
from loadstone.graph.batching import batched_operator
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.spec import Capability
from loadstone.vta.operators import (
    REAL_TAKEN_PATTERNS,
    TAKEN_PATTERNS,
    lower_operator,
    unsupported_reason,
)
from loadstone.vta.operators.request import PLAIN, LayerRequest
from loadstone.vta.passes.allocate.allocate import allocate
from loadstone.vta.region.addresses import is_free

__all__ = ["NEVER", "patterns"]

#: Operators that no VTA can run: why, and what would change it.
NEVER: Mapping[type[g.Operator], Refusal] = {
    g.Softmax: Refusal(
        "the ALU has no exponential",
        "a model that ends in its logits: their largest names the same class",
    ),
    g.LayerNorm: Refusal(
        "the ALU has no root", "batch normalization, which joins the layer before it"
    ),
    g.ArgMax: Refusal(
        "the ALU compares tiles with tiles, not the lanes of one", "a model that ends in its logits"
    ),
    g.Quantize: Refusal("it is the edge between float32 and int8", "a model with int8 inputs"),
    g.Dequantize: Refusal("it is the edge between int8 and float32", "a model with int8 outputs"),
    g.Transpose: Refusal(
        "it moves elements between the lanes of a tile", "a model with channels last"
    ),
    g.Div: Refusal("the ALU does not divide", "a model that multiplies by a constant instead"),
    g.SquaredDifference: Refusal(
        "no schedule squares what the ALU subtracts", "a model without squares"
    ),
    g.ReduceSum: Refusal("no schedule sums over axes but for means", "MEAN in its place"),
    g.ReduceProduct: Refusal("the ALU multiplies no two activations so", "a model without it"),
    g.L2Normalize: Refusal("the ALU has no root", "a model that ends before it"),
    g.Lookup: Refusal(
        "the ALU looks nothing up in a table", "a model whose activations are RELU or RELU6"
    ),
}


def patterns(config: HwConfig, request: LayerRequest = PLAIN) -> Sequence[Pattern]:
    """The table of one device: the patterns that a schedule exists for, in the order in which they
    are tried; then those that it never takes, each with its reason. request: without choices: who
    tuned a layer says how it is done, not whether."""
    predicate = partial(_predicate, config, request)
    if config.is_float:
        return [offered(name, predicate) for name in REAL_TAKEN_PATTERNS]
    taken = [offered(name, predicate) for name in TAKEN_PATTERNS]
    return [
        *taken,
        *(
            offered(name, partial(_refuse, replace(refusal, always=True)))
            for kind, refusal in NEVER.items()
            for name in kind.patterns
        ),
    ]


def _refuse(refusal: Refusal, _: g.Operator) -> Refusal:
    return refusal


def _predicate(config: HwConfig, request: LayerRequest, operator: g.Operator) -> Taken | Refusal:
    """Taken when the operator can be lowered exactly and each of its tiles placed: what was
    lowered, for the device's batch; nothing where addresses alone do it."""
    sums = isinstance(operator, g.PlaneWeighted) and config.has(Capability.STORE_ACC)
    for tensor in (*operator.inputs, *operator.outputs):
        if tensor.dtype != config.tensor_type and not (sums and tensor.dtype == "int32"):
            return Refusal(
                f"tensor {tensor.name} is {tensor.dtype}, and the device computes on "
                f"{config.tensor_type}",
                f"a model that is {config.tensor_type} there",
            )
    try:
        whole = batched_operator(operator, config.batch)
    except UnsupportedError as error:
        return Refusal(str(error), "a device whose batch is 1")
    if is_free(whole, config):
        return Taken()
    if refusal := unsupported_reason(whole, config, request.near):
        return refusal
    try:
        lowered = lower_operator(whole, config, request=request)
        if not lowered.placed:
            allocate(lowered.columns, config)
    except (LoweringError, UnsupportedError) as error:
        return Refusal(f"{operator.kind}: {error}", "a device with larger scratchpads")
    return Taken(lowered)
