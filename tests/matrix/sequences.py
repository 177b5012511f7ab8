# SPDX-License-Identifier: Apache-2.0
"""Small networks of sequences, of sound and of rows of numbers.

In:   nothing: weights are random, of a fixed seed.
Out:  SEQUENCES: a name -> a network and the shape of its input.
Next: ways.py exports them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as everybody calls it)
from torch import nn

from tests.matrix.images import Builder
from tests.matrix.parts import Apply, Chain, patches

__all__ = ["SEQUENCES"]

Tensor = Any


class Attention(nn.Module):
    """Self-attention of several heads, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.inner = heads, width // heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(1, places, width) to the same."""
        n, places, width = x.shape
        parts = self.qkv(x).reshape(n, places, 3, self.heads, self.inner).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        weights = (q @ k.transpose(-2, -1) * self.inner**-0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, places, width))


class Layer(nn.Module):
    """A block of a transformer, normalized before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.dense = Chain(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """(1, places, width) to the same."""
        x = x + self.attention(self.first(x))
        return x + self.dense(self.second(x))


class Vit(nn.Module):
    """Patches, a class token, places, two blocks."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.patches = patches(8, width)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.2)
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.2)
        self.layers = Chain(Layer(width, 2), Layer(width, 2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """(1, 3, 32, 32) -> (1, 10)."""
        x = torch.cat([self.token, self.patches(x)], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def recurrent(kind: type[nn.Module], two: bool = False) -> Apply:
    """A recurrent layer, its last step, classes."""
    layer = kind(10, 16, batch_first=True, bidirectional=two)
    return Apply(
        lambda p, x: p["head"](p["layer"](x)[0][:, -1]),
        layer=layer,
        head=nn.Linear(32 if two else 16, 5),
    )


def svdf() -> Apply:
    """Keywords by SVDF: a filter over features, then one over time, per unit."""
    return Apply(
        lambda p, x: p["head"](p["time"](p["features"](x)).flatten(1)),
        features=nn.Conv1d(16, 32, 1),
        time=Chain(nn.Conv1d(32, 32, 10, groups=32), nn.ReLU()),
        head=nn.Linear(32 * 7, 4),
    )


def causal(channels: int, dilation: int) -> Apply:
    """A block of a TCN: padded on the left alone, added."""
    return Apply(
        lambda p, x: F.relu(x + p["conv"](F.pad(x, (2 * dilation, 0)))),
        conv=Chain(nn.Conv1d(channels, channels, 3, dilation=dilation), nn.ReLU()),
    )


def gated(channels: int) -> Apply:
    """WaveNet's: tanh times sigmoid."""
    return Apply(
        lambda p, x: x + torch.tanh(p["value"](x)) * torch.sigmoid(p["gate"](x)),
        value=nn.Conv1d(channels, channels, 3, padding=1),
        gate=nn.Conv1d(channels, channels, 3, padding=1),
    )


SEQUENCES: dict[str, tuple[Builder, Sequence[int]]] = {
    "mlp": (
        lambda: Chain(
            nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10)
        ),
        (1, 32),
    ),
    "autoencoder": (
        lambda: Chain(
            nn.Linear(64, 32),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Linear(32, 8),
            nn.ReLU(),
            nn.Linear(8, 32),
            nn.ReLU(),
            nn.Linear(32, 64),
        ),
        (1, 64),
    ),
    "vit": (Vit, (1, 3, 32, 32)),
    "transformer": (lambda: Chain(nn.Linear(24, 32), Layer(32, 4), nn.Linear(32, 6)), (1, 12, 24)),
    "multihead": (
        lambda: Apply(
            lambda p, x: p["out"](p["layer"](x)),
            layer=nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True),
            out=nn.Linear(32, 6),
        ),
        (1, 12, 32),
    ),
    "lstm": (lambda: recurrent(nn.LSTM), (1, 6, 10)),
    "lstm_both_ways": (lambda: recurrent(nn.LSTM, two=True), (1, 6, 10)),
    "gru": (lambda: recurrent(nn.GRU), (1, 6, 10)),
    "svdf": (svdf, (1, 16, 16)),
    "audio_1d": (
        lambda: Chain(
            nn.Conv1d(1, 16, 9, 4),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.MaxPool1d(4),
            nn.Conv1d(16, 32, 3),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(32, 5),
        ),
        (1, 1, 320),
    ),
    "tcn": (
        lambda: Apply(
            lambda p, x: p["head"](p["blocks"](p["stem"](x))[:, :, -1]),
            stem=nn.Conv1d(8, 16, 1),
            blocks=Chain(causal(16, 1), causal(16, 2)),
            head=nn.Linear(16, 4),
        ),
        (1, 8, 24),
    ),
    "wavenet": (
        lambda: Chain(
            nn.Conv1d(1, 16, 3, padding=1),
            gated(16),
            gated(16),
            nn.Conv1d(16, 4, 1),
            nn.ConvTranspose1d(4, 1, 4, 2, 1),
        ),
        (1, 1, 32),
    ),
}
