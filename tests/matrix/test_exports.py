# SPDX-License-Identifier: Apache-2.0
"""What torch.onnx.export writes, as it is today and in its form before: networks in float32, and a
block of Llama quantized, give ONNX Runtime's results, in C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from torch import nn

from loadstone.compiler import compile, quantize
from loadstone.partition.eager import HOST
from tests.matrix.cells import network
from tests.matrix.ways import onnx_file, quietly
from tests.onnx_builder import session
from tests.repeat import more

Tensor = Any


class RootMeanSquare(nn.Module):
    """A normalization, written out as Llama's is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(1, places, width) to the same."""
        return self.factor * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Llama(nn.Module):
    """A block as Llama has it: root mean squares, rotated places, fewer keys than queries, a mask
    of what comes later, SwiGLU."""

    def __init__(self, width: int = 32, heads: int = 4, keys: int = 2, places: int = 9) -> None:
        super().__init__()
        self.heads, self.keys, self.inner = heads, keys, width // heads
        self.first, self.second = RootMeanSquare(width), RootMeanSquare(width)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, keys * self.inner, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)
        speeds = 1e4 ** (-torch.arange(0, self.inner, 2) / self.inner)
        angles = torch.arange(places)[:, None] * speeds
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1))

    def rotated(self, x: Tensor) -> Tensor:
        """(1, heads, places, inner) to the same."""
        one, two = x.chunk(2, -1)
        return x * self.cos + torch.cat([-two, one], -1) * self.sin

    def parted(self, x: Tensor, heads: int) -> Tensor:
        """(1, places, heads * inner) -> (1, heads, places, inner)."""
        return x.view(1, -1, heads, self.inner).transpose(1, 2)

    def repeated(self, x: Tensor) -> Tensor:
        """(1, keys, places, inner) -> (1, heads, places, inner)."""
        _, keys, places, inner = x.shape
        times = self.heads // keys
        wide = x[:, :, None].expand(1, keys, times, places, inner)
        return wide.reshape(1, self.heads, places, inner)

    def forward(self, x: Tensor) -> Tensor:
        """(1, places, width) to the same."""
        y = self.first(x)
        q = self.rotated(self.parted(self.q(y), self.heads))
        k = self.repeated(self.rotated(self.parted(self.k(y), self.keys)))
        v = self.repeated(self.parted(self.v(y), self.keys))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def llama(samples: int = 2) -> tuple[nn.Module, list[Tensor]]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Llama().eval(), [torch.randn(1, 9, 32) for _ in range(samples)]


NAMES = ("llama", "mobilenet_v3", "vit", "yolo", "unet_bilinear")


@more
@pytest.mark.parametrize("new", [False, True], ids=["legacy", "today"])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_in_float_gives_onnx_runtimes_results(
    name: str, new: bool, tmp_path: Path
) -> None:
    if name == "llama":
        made, samples = llama()
    else:
        made, _, samples = network(name)
    with quietly():
        file = onnx_file(made, samples[:1], tmp_path, new=new)
    found = compile(file, "vtaq-1x16x16")
    assert not found.python_steps
    x, opened = samples[1].numpy(), session(file)
    wanted = opened.run(None, {opened.get_inputs()[0].name: x})
    for got, want in zip(found.run(x[None]), wanted, strict=True):
        limit = 1e-5 * float(np.abs(want).max())
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=0, atol=limit)


@more
@pytest.mark.parametrize("new", [False, True], ids=["legacy", "today"])
def test_a_block_of_llama_is_quantized_to_the_device(new: bool, tmp_path: Path) -> None:
    """The legacy form has -inf in the mask of what comes later, today's the smallest number."""
    made, samples = llama(6)
    with quietly():
        file = onnx_file(made, samples[:1], tmp_path, new=new)
    quantized = quantize(file, np.stack([sample.numpy() for sample in samples[:4]]))
    quantized.save(tmp_path / "ours.onnx")
    found, opened = compile(quantized.module, "vtaq-1x16x16"), session(tmp_path / "ours.onnx")
    assert not found.python_steps
    assert all(row["macs"] == 0 for row in found.explain() if row["where"] == HOST)
    (got,) = found.run(np.stack([sample.numpy() for sample in samples[4:]]))
    for ours, sample in zip(got, samples[4:], strict=True):
        (want,) = opened.run(None, {opened.get_inputs()[0].name: sample.numpy()})
        limit = 1e-5 * float(np.abs(want).max())
        np.testing.assert_allclose(ours.reshape(want.shape), want, rtol=0, atol=limit)
        real = made(sample).detach().numpy()
        assert np.linalg.norm(want - real) < 0.03 * np.linalg.norm(real)
