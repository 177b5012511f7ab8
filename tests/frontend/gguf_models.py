# SPDX-License-Identifier: Apache-2.0
"""Small decoders as GGUF files, and what they compute, in NumPy.

In:   an architecture's name; a file.
Out:  `tiny`, a file of random weights by the writer of the package gguf; `Reference`, a decoder
      that reads it with that package's own reader.
Next: test_gguf.py, test_gguf_decoder.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.relax import row_numerics as rows

__all__ = ["LETTERS", "Reference", "add_words", "tiny"]

Array = NDArray[Any]
F = np.float32
LAYERS, WIDTH, HEADS, GROUPS, INNER, WORDS = 2, 64, 2, 1, 96, 50
EPSILON = 1e-5
#: Of the 256 bytes, as byte-level pairs write them: printable ones stand for themselves, the others
#: for letters from 256 on, one after the other.
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
LETTERS = [chr(b) if b in PRINTABLE else chr(256 + OTHERS.index(b)) for b in range(256)]
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("Ġ t", "h e", "Ġt he", "i n", "Ġ a", "in g", "Ċ Ċ")


def add_words(writer: Any, controls: Sequence[str] = CONTROLS, **changes: Any) -> int:
    """A tokenizer of byte-level pairs; how many words it has. changes: of its keys, None leaves one
    out."""
    words = [*controls, *LETTERS, *("".join(merge.split()) for merge in MERGES)]
    keys: dict[str, Any] = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": words,
        "token_type": [3] * len(controls) + [1] * (len(words) - len(controls)),
        "merges": list(MERGES),
        "eos_token_id": 2,
        "bos_token_id": 1,
        **changes,
    }
    for name, value in keys.items():
        key = f"tokenizer.ggml.{name}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        elif value is not None:
            writer.add_string(key, value)
    return len(words)


def tiny(
    path: Path,
    arch: str = "llama",
    *,
    words: dict[str, Any] | None = None,
    tied: bool = True,
    four: str = "",
    **changes: Any,
) -> Path:
    """Two layers of 64, two heads on one group, 96 inner, 50 words. words: with a tokenizer, whose
    keys are changed so. tied: the head's weights are the embedding's. four: encoding of the layers'
    linears, such as Q4_1. changes: further keys, without the architecture's name; None leaves one
    out."""
    import gguf

    rng, writer = np.random.default_rng(1), gguf.GGUFWriter(str(path), arch)
    count = WORDS if words is None else add_words(writer, **words)
    size = WIDTH // HEADS
    keys: dict[str, Any] = {
        "block_count": LAYERS,
        "context_length": 32,
        "embedding_length": WIDTH,
        "feed_forward_length": INNER,
        "attention.head_count": HEADS,
        "attention.head_count_kv": GROUPS,
        "attention.layer_norm_rms_epsilon": EPSILON,
        "rope.dimension_count": size,
        "rope.freq_base": 10000.0,
        **{name.replace("__", "."): value for name, value in changes.items()},
    }
    for name, value in keys.items():
        if isinstance(value, str):
            writer.add_string(f"{arch}.{name}", value)
        elif isinstance(value, float):
            writer.add_float32(f"{arch}.{name}", value)
        elif value is not None:
            writer.add_uint32(f"{arch}.{name}", value)

    def matrix(name: str, *shape: int) -> None:
        made = rng.standard_normal(shape).astype(F) / F(np.sqrt(shape[-1]))
        wanted = ("ffn_gate", "token_embd") if arch in ("llama", "gemma3") else ("ffn_gate",)
        kind = gguf.GGMLQuantizationType.Q8_0 if name.endswith(wanted) else None
        if four and name.startswith("blk."):
            kind = gguf.GGMLQuantizationType[four]
        if kind is not None:
            writer.add_tensor(f"{name}.weight", gguf.quants.quantize(made, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", made)

    def vector(name: str, count: int, end: str = "weight") -> None:
        writer.add_tensor(f"{name}.{end}", rng.uniform(0.5, 1.5, count).astype(F))

    matrix("token_embd", count, WIDTH)
    vector("output_norm", WIDTH)
    for layer in range(LAYERS):
        name = f"blk.{layer}"
        vector(f"{name}.attn_norm", WIDTH)
        vector(f"{name}.ffn_norm", WIDTH)
        outputs = {"q": HEADS * size, "k": GROUPS * size, "v": GROUPS * size}
        for one, count in outputs.items():
            matrix(f"{name}.attn_{one}", count, WIDTH)
            if arch == "qwen2":
                vector(f"{name}.attn_{one}", count, "bias")
        matrix(f"{name}.attn_output", WIDTH, HEADS * size)
        matrix(f"{name}.ffn_gate", INNER, WIDTH)
        matrix(f"{name}.ffn_up", INNER, WIDTH)
        matrix(f"{name}.ffn_down", WIDTH, INNER)
        if arch in ("qwen3", "gemma3"):
            vector(f"{name}.attn_q_norm", size)
            vector(f"{name}.attn_k_norm", size)
        if arch == "gemma3":
            vector(f"{name}.post_attention_norm", WIDTH)
            vector(f"{name}.post_ffw_norm", WIDTH)
    if not tied:
        matrix("output", WORDS, WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def grid_rows(raw: Array) -> tuple[Array, Array]:
    """Levels and scales of rows in Q4_1: of 32 weights two halves, scale and minimum, then sixteen
    bytes, whose low halves are the first sixteen numbers; all of 0 and 15 are there."""
    blocks = raw.reshape(len(raw), -1, 20)
    step, low = (
        np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16)[..., 0].astype(F)
        for at in (0, 2)
    )
    numbers = np.concatenate([blocks[..., 4:] & 15, blocks[..., 4:] >> 4], -1).astype(np.int32)
    real = numbers.astype(F) * step[..., None] + low[..., None]
    levels, channel = np.empty(real.shape), np.abs(real).max((1, 2)) / F(127)
    for row, own in enumerate(numbers):
        while True:
            m = np.rint(8 * step[row] / channel[row]).astype(np.int32)
            steps = own * m[:, None] + 4 >> 3
            levels[row] = np.rint((real[row] / channel[row] - steps).mean(-1))[:, None] + steps
            most = np.abs(levels[row]).max()
            if most <= 127:
                break
            channel[row] *= max(F(most) / F(127), F(1.001))
    return levels.reshape(len(raw), -1), channel


class Reference:
    """One token at a time, of a file of any size. real: without any rounding to int8. rotate: rows
    of whole blocks of 64. weights4: as `Reading` says it, of linears in Q4_1. caches: of each layer
    keys and values, a list of (int8 rows, scales) for each place. sums: the int32 of each product
    of the last token, by the weight's name."""

    def __init__(
        self, path: Path, *, real: bool = False, rotate: bool = True, weights4: str = ""
    ) -> None:
        import gguf

        self.real, self.rotate, self.weights4 = real, rotate, weights4
        reader = gguf.GGUFReader(str(path))
        self.arch = str(reader.fields["general.architecture"].contents())
        self.weights = {
            t.name: np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), F)
            for t in reader.tensors
        }
        self.raw = {t.name: np.asarray(t.data) for t in reader.tensors}
        self.keys = {
            name.removeprefix(f"{self.arch}."): field.contents()
            for name, field in reader.fields.items()
        }
        self.layers, self.width = (self.keys[n] for n in ("block_count", "embedding_length"))
        self.heads = self.keys["attention.head_count"]
        self.groups = self.keys["attention.head_count_kv"]
        self.epsilon = F(self.keys["attention.layer_norm_rms_epsilon"])
        self.tied = "output.weight" not in self.weights
        self.rounded: dict[str, tuple[Array, Array]] = {}
        self.caches: list[dict[str, list[tuple[Array, Array]]]] = [
            {"k": [], "v": []} for _ in range(self.layers)
        ]
        self.sums: dict[str, Array] = {}
        self.place = 0

    def integers(self, key: str, rotate: bool) -> tuple[Array, Array]:
        """A matrix with a scale for each output."""
        if key not in self.rounded and self.packs(key):
            self.rounded[key] = grid_rows(self.raw[key])
        if key not in self.rounded:
            w = rows.hadamard(self.weights[key]) if rotate else self.weights[key]
            channel = np.abs(w).max(1) / F(127)
            self.rounded[key] = np.rint(w / channel[:, None]), channel
        return self.rounded[key]

    def packs(self, key: str) -> bool:
        """Whether a linear keeps its 4 bits."""
        last = key.endswith("ffn_down.weight")
        return (
            bool(self.weights4) and key.startswith("blk.") and not (last and self.weights4 != "all")
        )

    def embedded(self, token: int) -> Array:
        """A word's row, rotated where the head's weights, which it is one of, are."""
        key = "token_embd.weight"
        if self.real or not self.tied:
            return np.asarray(self.weights[key][token])
        levels, channel = self.integers(key, self.rotate and self.width % 64 == 0)
        return np.asarray(levels[token] * channel[token])

    def product(self, x: Array, name: str, weights: str | None = None) -> Array:
        key = f"{weights or name}.weight"
        if self.real:
            return np.asarray(self.weights[key] @ x + self.weights.get(f"{name}.bias", F(0)))
        rotate = self.rotate and len(x) % 64 == 0 and not self.packs(key)
        levels, channel = self.integers(key, rotate)
        x = rows.hadamard(x) if rotate else x
        scale = np.abs(x).max() / F(127)
        q, sums = np.rint(x / scale), np.zeros(len(levels), np.int32)
        for begin in range(0, len(q), 1024):  # below 2^24, where float32 has every integer
            piece = slice(begin, begin + 1024)
            sums += (levels[:, piece] @ q[piece]).astype(np.int32)
        self.sums[name] = sums
        y = sums.astype(F) * scale * channel
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, x: Array, name: str) -> Array:
        w = self.weights[f"{name}.weight"]
        return x * (F(1) / np.sqrt(rows.sum_rows(x * x) / F(len(w)) + self.epsilon))[..., None] * w

    def turned(self, x: Array, base: float) -> Array:
        size = x.shape[-1]
        angle = self.place * base ** (-np.arange(0, size, 2) / size)
        cosine, sine = np.cos(angle).astype(F), np.sin(angle).astype(F)
        pairs = (slice(0, None, 2), slice(1, None, 2))
        if self.arch != "llama":
            pairs = (slice(0, size // 2), slice(size // 2, None))
        y = np.empty_like(x)
        for head in range(len(x)):
            a, b = x[head, pairs[0]], x[head, pairs[1]]
            y[head, pairs[0]], y[head, pairs[1]] = a * cosine - b * sine, a * sine + b * cosine
        return y

    def attended(self, q: Array, layer: int, window: int) -> Array:
        """Head for head, place for place."""
        size, made = q.shape[1], []
        kept = [self.caches[layer][kind][-window:] for kind in "kv"]
        levels = [np.stack([entry[0] for entry in one]).astype(F) for one in kept]
        scales = [np.stack([entry[1] for entry in one]) for one in kept]
        for head, query in enumerate(q):
            group = head // (self.heads // self.groups)
            products = rows.sum_rows(query * levels[0][:, group])
            score = products * scales[0][:, group] * F(1 / np.sqrt(size))
            weight = rows.row_exp(score - score.max())
            y = np.zeros(size, F)
            for by, v in zip(weight * scales[1][:, group], levels[1][:, group], strict=True):
                y = y + by * v
            made.append(y / rows.sum_rows(weight))
        return np.concatenate(made)

    def next(self, token: int) -> Array:
        """Scores of the token behind this one."""
        gemma, size = self.arch == "gemma3", self.width // self.heads
        x = self.embedded(token) * F(np.sqrt(self.width) if gemma else 1)
        if not self.real and self.tied and self.rotate and self.width % 64 == 0:
            x = turned_back(x)
        for layer in range(self.layers):
            name = f"blk.{layer}"
            pattern = self.keys.get("attention.sliding_window_pattern", 0)
            slides = bool(pattern) and (layer + 1) % pattern != 0
            window = int(self.keys["attention.sliding_window"]) if slides else 1 << 20
            base = float(self.keys["rope.freq_base_swa" if slides and gemma else "rope.freq_base"])
            h = self.norm(x, f"{name}.attn_norm")
            q, k, v = (self.product(h, f"{name}.attn_{one}").reshape(-1, size) for one in "qkv")
            if f"{name}.attn_q_norm.weight" in self.weights:
                q, k = self.norm(q, f"{name}.attn_q_norm"), self.norm(k, f"{name}.attn_k_norm")
            q, k = self.turned(q, base), self.turned(k, base)
            for kind, new in (("k", k), ("v", v)):
                scale = np.abs(new).max(1) / F(127)
                kept = np.rint(new / scale[:, None]).astype(np.int8), scale
                exact = new, np.ones(len(new), F)
                self.caches[layer][kind].append(exact if self.real else kept)
            y = self.product(self.attended(q, layer, window), f"{name}.attn_output")
            x = x + (self.norm(y, f"{name}.post_attention_norm") if gemma else y)
            h = self.norm(x, f"{name}.ffn_norm")
            gate, up = (self.product(h, f"{name}.ffn_{one}") for one in ("gate", "up"))
            y = self.product(rows.gate(gate, up, int(gemma)), f"{name}.ffn_down")
            x = x + (self.norm(y, f"{name}.post_ffw_norm") if gemma else y)
        self.place += 1
        return self.product(
            self.norm(x, "output_norm"), "output", "token_embd" if self.tied else None
        )


def turned_back(x: Array) -> Array:
    """Blocks of 64 by the Hadamard matrix, a product after the other."""
    number = np.arange(64)
    parity = np.bitwise_count(number[:, None] & number) & 1
    matrix = np.where(parity == 1, F(-0.125), F(0.125))
    y = np.zeros((len(x) // 64, 64), F)
    for k, by in enumerate(matrix):
        y = y + x.reshape(-1, 64)[:, k, None] * by
    return y.reshape(-1)
