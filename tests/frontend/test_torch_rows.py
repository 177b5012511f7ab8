# SPDX-License-Identifier: Apache-2.0
"""aten/weighted.py, aten/quantized.py: layers along one axis and of rows, with a ReLU before their
quantize node, are integers; a quantized number is a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from torch import nn

from loadstone.compiler import compile

quantized = torch.ops.quantized_decomposed
LIMITS = (-128, 127, torch.int8)


class Quantized(nn.Module):
    """A layer and its ReLU between integers, as PT2E writes them."""

    def __init__(self, layer: Callable[..., Any], weights: Any) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("weights", weights)
        self.register_buffer("factor", torch.tensor(40, dtype=torch.int8))

    def forward(self, x: Any) -> Any:
        """float32 to float32."""
        x = quantized.dequantize_per_tensor(
            quantized.quantize_per_tensor(x, 0.05, 3, *LIMITS), 0.05, 3, *LIMITS
        )
        w = quantized.dequantize_per_tensor(self.weights, 0.01, 0, *LIMITS)
        y = quantized.quantize_per_tensor(F.relu(self.layer(x, w)), 0.06, -128, *LIMITS)
        y = quantized.dequantize_per_tensor(y, 0.06, -128, *LIMITS)
        factor = quantized.dequantize_per_tensor(self.factor, 0.01, 0, *LIMITS)
        y = quantized.quantize_per_tensor(y * factor, 0.03, -128, *LIMITS)
        return quantized.dequantize_per_tensor(y, 0.03, -128, *LIMITS)


@pytest.mark.parametrize(
    ("layer", "weights", "shape"),
    [(F.conv1d, (8, 16, 3), (1, 16, 20)), (F.linear, (12, 16), (1, 7, 16))],
)
def test_a_layer_and_its_relu_are_on_the_device(
    layer: Callable[..., Any], weights: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(4)
    made = Quantized(layer, torch.randint(-127, 128, weights, dtype=torch.int8)).eval()
    x = torch.randn(shape)
    compiled = compile(torch.export.export(made, (x,)), "vtaq-1x16x16")
    rows = compiled.explain()
    assert all(row["where"] == "vta" for row in rows if row["macs"])
    relus = [row["where"] for row in rows if "relu" in str(row["operator"])]
    assert relus == ["vta"], "the layer with its relu"
    (got,) = compiled.run(x.numpy()[None])
    wanted = made(x).numpy()
    assert len(np.unique(wanted)) > 20
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=0, atol=1e-6)
