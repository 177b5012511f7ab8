# SPDX-License-Identifier: Apache-2.0
"""Train the second demo's network: `python -m tools.train_text`, some minutes, by PyTorch.

In:   the text of demo/sentences.py.
Out:  python/loadstone/demo/text.onnx, for one token at a time; the loss is printed as it falls.
Next: `loadstone demo text`.

    token -> embedding -> 4 x ( x + attention(norm(x)); x + dense(relu(dense(norm(x)))) ) -> norm
                       -> dense -> score of each symbol

Decoder only, 4 layers of 128 in 4 heads. What attention knows of places is how far back they lie: a
fixed slope for each head is taken off the scores (ALiBi, Press et al. 2022), so nothing counts
positions, and the network may run for ever. The file computes one token, and has a cache of the
last 256 keys and values of each layer as input and output: as states of a session they stay where
they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from loadstone.demo.sentences import SYMBOLS, encode, text
from loadstone.demo.text import LAYERS, network_path
from tools.text_network import HEADS, HIDDEN, SLOPES, WIDTH, Weights, save

__all__ = ["TextNetwork", "main"]

SEED = 1
STEPS = 320
BATCH = 24
CONTEXT = 96
LEARNING_RATE = 2e-3
WARM_UP = 30
CHARACTERS = 400_000


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then two dense layers, each behind a normalization and beside the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """x: (batch, tokens, WIDTH), and so is the result. bias: (HEADS, tokens, tokens)."""
        batch, tokens, _ = x.shape
        y = self.norm1(x)
        q, k, v = (
            layer(y).reshape(batch, tokens, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5 + bias
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = x + self.out(mixed)
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class TextNetwork(nn.Module):  # type: ignore[misc]
    """Scores of the next symbol behind each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(SYMBOLS), WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(SYMBOLS))
        nn.init.normal_(self.embedding.weight, std=0.5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens: (batch, tokens) -> (batch, tokens, symbols)."""
        count = tokens.shape[1]
        back = torch.arange(count)[:, None] - torch.arange(count)[None, :]
        bias = -torch.tensor(SLOPES)[:, None, None] * back
        bias = bias.masked_fill(back < 0, -torch.inf)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x))

    def arrays(self) -> Weights:
        """By name, dense weights as (inputs, outputs)."""
        return dict(_named(self))


def _named(network: TextNetwork) -> Iterator[tuple[str, Any]]:
    for name, value in network.state_dict().items():
        array = value.detach().numpy().astype(np.float32)
        turned = array.ndim == 2 and not name.startswith("embedding")
        yield name, np.ascontiguousarray(array.T if turned else array)


def train(steps: int = STEPS) -> TextNetwork:
    """Cross entropy with Adam, warmed up, cosine learning rate."""
    torch.manual_seed(SEED)
    network = TextNetwork()
    tokens = torch.tensor(encode(text(CHARACTERS, SEED)))
    optimizer = torch.optim.AdamW(network.parameters(), LEARNING_RATE, weight_decay=0.02)
    for step in range(steps):
        rate = min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + np.cos(np.pi * step / steps))
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * float(rate)
        first = torch.randint(len(tokens) - CONTEXT - 1, (BATCH,))
        rows = tokens[first[:, None] + torch.arange(CONTEXT + 1)]
        scores = network(rows[:, :-1])
        loss = nn.functional.cross_entropy(
            scores.reshape(-1, len(SYMBOLS)), rows[:, 1:].reshape(-1)
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    return network


def main() -> None:
    """Trains, prints, writes."""
    network = train()
    path = network_path()
    save(network.arrays(), path)
    print(f"{path} written: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
