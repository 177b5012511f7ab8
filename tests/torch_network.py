# SPDX-License-Identifier: Apache-2.0
"""A small network in PyTorch, float and quantized by PT2E, and what PyTorch computes of it layer by
layer. Shared by tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

__all__ = [
    "INPUT",
    "Network",
    "float_program",
    "images",
    "int8_program",
    "quantize",
    "quantized_values",
]

#: No extent is like a number of channels, so that no order of axes can pass for another.
INPUT = (1, 3, 20, 28)


class Network(nn.Module):
    """Convolution, depthwise and pointwise with batch normalization, a residual, a concatenation,
    every pool, a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU(inplace=True),
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False), nn.BatchNorm2d(12), nn.ReLU6()
        )
        self.pointwise = nn.Conv2d(12, 12, 1)
        self.side = nn.Conv2d(12, 8, 1)
        self.largest, self.average = nn.MaxPool2d(2), nn.AvgPool2d(2)
        self.tail = nn.Sequential(
            nn.Conv2d(20, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True)
        )
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        """(1, 3, 20, 28) -> (1, 10)."""
        x = self.stem(x)
        x = torch.relu(x + self.pointwise(self.depthwise(x)))
        x = torch.cat([self.largest(x), self.average(torch.relu(self.side(x)))], 1)
        return self.head(torch.flatten(self.pool(self.tail(x)), 1))


def network() -> Network:
    """With fixed random weights and statistics that are not the trivial ones."""
    torch.manual_seed(0)
    made = Network().eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor, low, high in (
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
                (module.weight, 0.7, 1.3),
                (module.bias, -0.2, 0.2),
            ):
                nn.init.uniform_(tensor, low, high)
    return made


def images(count: int, seed: int) -> Any:
    """(count, 1, 3, 20, 28)."""
    return torch.randn((count, *INPUT), generator=torch.Generator().manual_seed(seed))


def float_program() -> Any:
    """The network as torch.export.export gives it."""
    return torch.export.export(network(), (torch.zeros(INPUT),))


def int8_program() -> Any:
    """The network quantized as executorch's XNNPACK back end wants it: per channel, int8; average
    pools stay float."""
    return quantize(network(), images(8, seed=1))


def quantize(module: Any, samples: Any) -> Any:
    """Any network of one input, quantized so with some samples, as torch.export.export gives it."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.testing.pt2e._xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    quantizer = XNNPACKQuantizer().set_global(
        get_symmetric_quantization_config(is_per_channel=True)
    )
    example = (torch.zeros_like(samples[0]),)
    prepared = prepare_pt2e(torch.export.export(module, example).module(), quantizer)
    for sample in samples:
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), example)


class _Recorder(torch.fx.Interpreter):
    """Runs a program node by node. integers: what each quantize gives, by the name of its node.

    on_grid: biases are rounded to steps of the accumulator (input's scale times weight's scale)
        before they are added.
    """

    def __init__(self, program: Any, *, on_grid: bool) -> None:
        super().__init__(program.graph_module, garbage_collect_values=False)
        self.on_grid, self.integers = on_grid, dict[str, NDArray[Any]]()

    def run_node(self, n: Any) -> Any:
        """One operator, as PyTorch runs it."""
        if self.on_grid and str(n.target) in ("aten.conv2d.default", "aten.linear.default"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            steps = n.args[0].args[1] * self.env[n.args[1].args[1]]
            return n.target(
                *args[:2],
                torch.round(args[2].double() / steps).float() * steps,
                *args[3:],
                **kwargs,
            )
        result = super().run_node(n)
        if ".quantize_per_tensor." in str(n.target):
            self.integers[n.name] = result.numpy()
        return result


def quantized_values(
    program: Any, image: Any, *, on_grid: bool
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """(the integers of every quantize node by name, the output)."""
    signature, stored = program.graph_signature, {**program.state_dict, **program.constants}
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    placeholders = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    recorder = _Recorder(program, on_grid=on_grid)
    with torch.no_grad():
        (output,) = recorder.run(
            *(stored[targets[name]] if name in targets else image for name in placeholders)
        )
    return recorder.integers, output.numpy()
