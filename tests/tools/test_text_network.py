# SPDX-License-Identifier: Apache-2.0
"""tools/text_network.py: one token at a time is what attention over the whole text gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone.demo.sentences import SYMBOLS, encode
from loadstone.demo.text import LAYERS, STATES

pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.onnx_builder import session
from tools.text_network import HEADS, HIDDEN, SLOPES, WIDTH, WINDOW, Weights, save

TOKENS = encode("the old sailor")


def random_weights() -> dict[str, np.ndarray]:
    """Values that float16 holds."""
    rng = np.random.default_rng(2)
    shapes = {"embedding.weight": (len(SYMBOLS), WIDTH), "norm.weight": (WIDTH,)}
    shapes |= {"norm.bias": (WIDTH,), "head.weight": (WIDTH, len(SYMBOLS))}
    shapes["head.bias"] = (len(SYMBOLS),)
    for n in range(LAYERS):
        sizes = dict.fromkeys(("query", "key", "value", "out"), (WIDTH, WIDTH))
        sizes |= {"up": (WIDTH, HIDDEN), "down": (HIDDEN, WIDTH)}
        for part, shape in sizes.items():
            shapes[f"blocks.{n}.{part}.weight"] = shape
            shapes[f"blocks.{n}.{part}.bias"] = shape[1:]
        for part in ("norm1", "norm2"):
            shapes[f"blocks.{n}.{part}.weight"] = (WIDTH,)
            shapes[f"blocks.{n}.{part}.bias"] = (WIDTH,)
    made = {name: rng.normal(0, 0.1, shape) for name, shape in shapes.items()}
    made = {k: v + 1 if "norm" in k and k.endswith("weight") else v for k, v in made.items()}
    return {name: value.astype(np.float16).astype(np.float32) for name, value in made.items()}


def norm(x: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def whole(weights: Weights, tokens: list[int]) -> np.ndarray:
    """(tokens, symbols): all at once, each token seeing those before it."""

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    count = len(tokens)
    back = np.arange(count)[:, None] - np.arange(count)[None]
    bias = -np.array(SLOPES)[:, None, None] * back + np.where(back < 0, -np.inf, 0)
    x = weights["embedding.weight"][tokens].astype(np.float64)
    for n in range(LAYERS):
        at = f"blocks.{n}"
        y = norm(x, weights, f"{at}.norm1")
        q, k, v = (
            dense(y, f"{at}.{part}").reshape(count, HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / (WIDTH // HEADS) ** 0.5 + bias
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + dense((shares @ v).swapaxes(0, 1).reshape(count, WIDTH), f"{at}.out")
        up = np.maximum(dense(norm(x, weights, f"{at}.norm2"), f"{at}.up"), 0)
        x = x + dense(up, f"{at}.down")
    return dense(norm(x, weights, "norm"), "head")


def test_token_after_token_is_the_whole_text_at_once(tmp_path: Path) -> None:
    weights = random_weights()
    save(weights, tmp_path / "text.onnx")
    opened = session(tmp_path / "text.onnx")
    names = [entry.name for entry in opened.get_outputs()]
    state = {e.name: np.zeros(e.shape, np.float32) for e in opened.get_inputs()}
    found = []
    for token in TOKENS:
        state["symbol"] = np.eye(len(SYMBOLS), dtype=np.float32)[None, token]
        results = dict(zip(names, opened.run(None, state), strict=True))
        state |= {before: results[after] for before, after in STATES.items()}
        found.append(results["scores"][0])
    np.testing.assert_allclose(np.stack(found), whole(weights, TOKENS), rtol=1e-3, atol=1e-4)
    assert state["seen"].sum() == len(TOKENS)
    assert not state["keys_0"][:, : WINDOW - len(TOKENS)].any()
