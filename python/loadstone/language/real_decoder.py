# SPDX-License-Identifier: Apache-2.0
"""The decoder of a GGUF file in float32, by NumPy: what rounding to int8 is measured against.

In:   a GgufFile, tokens.
Out:  the scores behind each of them.
Next: perplexity.py compares.

Weights are the values that the file's encoding stands for, activations and caches are float32. The
order of sums is NumPy's own: so its scores are no reference bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.frontend.gguf_decoder import decoder_sizes
from loadstone.frontend.gguf_file import GgufFile

__all__ = ["RealDecoder"]

F = np.float32
Floats = NDArray[np.float32]


class RealDecoder:
    """Of one file. Raises ModelError for what the front end refuses."""

    def __init__(self, file: GgufFile) -> None:
        self.sizes = decoder_sizes(file)
        self._weights = cache(file.real)
        self._names = frozenset(file.tensors)

    def scores(self, tokens: Sequence[int]) -> Floats:
        """(tokens, words): of what stands behind each, a text that begins with them."""
        if len(tokens) > self.sizes.context:
            raise ModelError(f"{len(tokens)} tokens are more than its context {self.sizes.context}")
        embedding = self._weights("token_embd.weight")
        x = embedding[list(tokens)] * F(self.sizes.embedding_scale)
        for layer in range(self.sizes.layers):
            x = self._layer(layer, x)
        head = "output" if "output.weight" in self._names else "token_embd"
        return self._linear(self._norm(x, "output_norm"), head)

    def _layer(self, layer: int, x: Floats) -> Floats:
        name, sizes = f"blk.{layer}", self.sizes
        h = self._norm(x, f"{name}.attn_norm")
        q, k, v = (
            self._linear(h, f"{name}.attn_{one}").reshape(len(x), -1, sizes.size) for one in "qkv"
        )
        q, k = self._maybe(q, f"{name}.attn_q_norm"), self._maybe(k, f"{name}.attn_k_norm")
        q, k = self._turned(q, layer), self._turned(k, layer)
        y = self._linear(self._attended(q, k, v, layer), f"{name}.attn_output")
        x = x + self._maybe(y, f"{name}.post_attention_norm")
        h = self._norm(x, f"{name}.ffn_norm")
        gate, up = self._linear(h, f"{name}.ffn_gate"), self._linear(h, f"{name}.ffn_up")
        y = self._linear(self._gate(gate) * up, f"{name}.ffn_down")
        return x + self._maybe(y, f"{name}.post_ffw_norm")

    def _linear(self, x: Floats, name: str) -> Floats:
        y = x @ self._weights(f"{name}.weight").T
        bias = f"{name}.bias"
        return np.asarray(y + self._weights(bias) if bias in self._names else y)

    def _norm(self, x: Floats, name: str) -> Floats:
        mean = np.square(x).mean(-1, keepdims=True, dtype=F)
        made = x / np.sqrt(mean + F(self.sizes.epsilon)) * self._weights(f"{name}.weight")
        return np.asarray(made, F)

    def _maybe(self, x: Floats, name: str) -> Floats:
        return self._norm(x, name) if f"{name}.weight" in self._names else x

    def _turned(self, x: Floats, layer: int) -> Floats:
        """RoPE of (rows, heads, size)."""
        sizes = self.sizes
        has = "rope_freqs.weight" in self._names
        divisors = self._weights("rope_freqs.weight") if has else None
        half = sizes.turned // 2
        table = sizes.table(layer, len(x), divisors)[:, None]
        cosine, sine = table[..., :half], table[..., half:]
        firsts = slice(0, 2 * half, 2) if sizes.neighbours else slice(0, half)
        seconds = slice(1, 2 * half, 2) if sizes.neighbours else slice(half, 2 * half)
        a, b, y = x[..., firsts], x[..., seconds], x.copy()
        y[..., firsts], y[..., seconds] = a * cosine - b * sine, a * sine + b * cosine
        return y

    def _attended(self, q: Floats, k: Floats, v: Floats, layer: int) -> Floats:
        """(rows, heads * size); each row sees those before it and itself."""
        rows, heads, size = q.shape
        ratio, window = heads // k.shape[1], self.sizes.windows[layer]
        distance = np.arange(rows)[:, None] - np.arange(rows)
        unseen = (distance < 0) | ((distance >= window) if window else False)
        made = np.empty_like(q)
        for head in range(heads):
            score = (q[:, head] @ k[:, head // ratio].T) * F(self.sizes.factor)
            score[unseen] = -np.inf
            weight = np.exp(score - score.max(-1, keepdims=True))
            made[:, head] = weight / weight.sum(-1, keepdims=True) @ v[:, head // ratio]
        return made.reshape(rows, heads * size)

    def _gate(self, x: Floats) -> Floats:
        """SiLU, or GELU by tanh as x / (1 + e^-2y)."""
        inner = x if self.sizes.activation == 0 else F(1.5957691216) * (x + F(0.044715) * x**3)
        return np.asarray(x / (F(1) + np.exp(-inner)), F)
