# SPDX-License-Identifier: Apache-2.0
"""A plan as a network in PyTorch, quantized by PT2E with XNNPACK's or with X86Inductor's quantizer.

In:   plan.Plan, a seed for the options.
Out:  the bytes of a .pt2 file, and the options as text; what PyTorch computes of such a file.
Next: campaign.py compiles it.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from numpy.typing import NDArray
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.draw import Random
from tests.quantizers.plan import Layer, Plan

__all__ = ["Network", "opened", "quantized", "run"]

#: campaign.py forks when this process has computed: the threads of OpenMP do not live on there, and
#: the child would wait for them.
torch.set_num_threads(1)

Tensor = Any


class Network(nn.Module):
    """The layers of a plan, one after the other."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.plan = plan
        self.arrays = nn.ParameterList(
            nn.Parameter(torch.from_numpy(array.copy()), requires_grad=False)
            for layer in plan.layers
            for array in layer.arrays
        )

    def forward(self, x: Tensor) -> Any:
        """Every output of the plan."""
        values, arrays = [x], iter(self.arrays)
        for layer in self.plan.layers:
            operands = [values[k] for k in layer.inputs] + [next(arrays) for _ in layer.arrays]
            values.append(_FUNCTIONS[layer.kind](layer, *operands))
        found = tuple(values[k] for k in self.plan.outputs)
        return found[0] if len(found) == 1 else found


def quantized(plan: Plan, seed: int) -> tuple[bytes, str]:
    """By PT2E; one in four with X86Inductor's quantizer."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    draw = Random(9_000_011 + seed)
    samples = [torch.from_numpy(sample) for sample in plan.samples]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        name, quantizer = _x86() if draw.chance(4) else _xnnpack(per_channel=not draw.chance(3))
        program = torch.export.export(Network(plan).eval(), (samples[0],))
        prepared = prepare_pt2e(program.module(), quantizer)
        for sample in samples:
            prepared(sample)
        converted = torch.export.export(convert_pt2e(prepared), (samples[0],))
        file = io.BytesIO()
        torch.export.save(converted, file)
    return file.getvalue(), name


def opened(model: bytes) -> Any:
    """The program of a file as a module, whose graph has the weights by name."""
    return torch.export.load(io.BytesIO(model)).module()


def run(model: bytes, inputs: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """What PyTorch computes, all outputs in order; attention by its definition: the kernel for CPUs
    gives no numbers for causal masks with a negative scale."""
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        found = opened(model)(*(torch.from_numpy(x) for x in inputs))
    return [np.asarray(y) for y in (found if isinstance(found, tuple | list) else [found])]


def _xnnpack(*, per_channel: bool) -> tuple[str, Any]:
    from torchao.testing.pt2e._xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    config = get_symmetric_quantization_config(is_per_channel=per_channel)
    return f"xnnpack per_channel={per_channel}", XNNPACKQuantizer().set_global(config)


def _x86() -> tuple[str, Any]:
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    config = x86.get_default_x86_inductor_quantization_config()
    return "x86", x86.X86InductorQuantizer().set_global(config)


def _convolution(layer: Layer, x: Tensor, w: Tensor, b: Tensor = None) -> Tensor:
    stride, pad, dilation, groups = (
        layer.options[name] for name in ("stride", "pad", "dilation", "groups")
    )
    return F.conv2d(x, w, b, stride, pad, dilation, groups)


def _transposed(layer: Layer, x: Tensor, w: Tensor, b: Tensor = None) -> Tensor:
    return F.conv_transpose2d(x, w, b, layer.options["stride"], layer.options["pad"])


def _pool(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda layer, x: function(x, layer.options["kernel"], layer.options["stride"])


def _one(function: Callable[..., Tensor], *more: Any) -> Callable[..., Tensor]:
    return lambda layer, *operands: function(*operands, *more)


_FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "conv": _convolution,
    "transposed": _transposed,
    "dense": _one(F.linear),
    "relu": _one(F.relu),
    "relu6": _one(F.relu6),
    "leaky": _one(F.leaky_relu, 0.1),
    "sigmoid": _one(torch.sigmoid),
    "tanh": _one(torch.tanh),
    "hardswish": _one(F.hardswish),
    "silu": _one(F.silu),
    "max_pool": _pool(F.max_pool2d),
    "average_pool": _pool(F.avg_pool2d),
    "mean": _one(F.adaptive_avg_pool2d, 1),
    "add": _one(torch.add),
    "multiply": _one(torch.mul),
    "concatenate": lambda layer, *operands: torch.cat(operands, 1),
    "flatten": _one(torch.flatten, 1),
    "nearest": lambda layer, x: F.interpolate(x, scale_factor=2.0),
    "slice": lambda layer, x: x[:, layer.options["begin"] : layer.options["end"]],
    "transpose": _one(torch.transpose, 1, 2),
    "product": _one(torch.matmul),
    "softmax": _one(torch.softmax, -1),
}
