# SPDX-License-Identifier: Apache-2.0
"""The sizes of a decoder of the Llama family, as a GGUF file's keys say them.

In:   a GgufFile.
Out:  DecoderSizes. What a key says and nobody reads is refused by name.
Next: gguf.py writes the decoder.

llama.cpp fixes by the architecture's name what no key says: how RoPE pairs the elements of a head,
the activation, and Gemma's scale of the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.frontend.gguf_file import GgufFile

__all__ = ["DecoderSizes", "decoder_sizes"]


@dataclass(frozen=True)
class _Family:
    """neighbours: RoPE turns elements 2i and 2i + 1. activation: row_calls.gate's function."""

    neighbours: bool = False
    activation: int = 0
    scaled_embedding: bool = False


_FAMILIES = {
    "llama": _Family(neighbours=True),
    "qwen2": _Family(),
    "qwen3": _Family(),
    "gemma3": _Family(activation=1, scaled_embedding=True),
}
#: Keys behind the architecture's name that say nothing of what is computed here.
_SILENT = {
    "context_length",
    "vocab_size",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
}


@dataclass(frozen=True)
class DecoderSizes:
    """turned: elements of a head that RoPE turns. windows: of each layer, 0: none. angles: of each
    layer's RoPE, the base and what positions are divided by."""

    layers: int
    width: int
    heads: int
    groups: int
    size: int
    turned: int
    epsilon: float
    factor: float
    context: int
    neighbours: bool
    activation: int
    embedding_scale: float
    windows: tuple[int, ...]
    angles: tuple[tuple[float, float], ...]

    def table(
        self, layer: int, places: int, divisors: NDArray[np.float32] | None
    ) -> NDArray[np.float32]:
        """(places, turned): cosines, then sines. divisors: of each frequency, where the file has
        them."""
        base, scale = self.angles[layer]
        frequency = base ** (-np.arange(0, self.turned, 2) / self.turned)
        if divisors is not None:
            frequency = frequency / divisors
        angle = np.arange(places)[:, None] / scale * frequency
        return np.concatenate([np.cos(angle), np.sin(angle)], 1).astype(np.float32)


class _Keys:
    """Reads keys behind the architecture's name, and knows which."""

    def __init__(self, file: GgufFile, family: str) -> None:
        self.file, self.prefix = file, f"{family}."
        self.read: set[str] = set()

    def whole(self, name: str, default: int | None = None) -> int:
        """An integer from 1 on."""
        found = self._found(name, default)
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found < 1 << 20:
            raise self.refusal(name, "an integer from 1 on")
        return found

    def real(self, name: str, default: float | None = None) -> float:
        """A number above 0."""
        found = self._found(name, default)
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < 1e12:
            raise self.refusal(name, "a number above 0")
        return float(found)

    def has(self, name: str) -> bool:
        """Whether the file says it."""
        return self.prefix + name in self.file.keys

    def text(self, name: str) -> str:
        """ "" where the file does not say it."""
        return str(self._found(name, ""))

    def refusal(self, name: str, wanted: str) -> ModelError:
        """Of what a key says."""
        key = self.prefix + name
        return ModelError(f"{self.file.name}: {key} is {self.file.keys.get(key)!r}, not {wanted}")

    def check_all_read(self) -> None:
        """Raises ModelError for a key that changes what is computed, and that nobody read."""
        for key in self.file.keys:
            name = key.removeprefix(self.prefix)
            if name != key and name not in self.read | _SILENT:
                raise ModelError(
                    f"{self.file.name}: {key} = {str(self.file.keys[key])[:60]} is not understood: "
                    "its decoder computes something that this front end does not write"
                )

    def _found(self, name: str, default: float | str | None) -> object:
        self.read.add(name)
        found = self.file.keys.get(self.prefix + name, default)
        if found is None:
            raise ModelError(f"{self.file.name}: the key {self.prefix}{name} is missing")
        return found


def decoder_sizes(file: GgufFile) -> DecoderSizes:
    """Raises ModelError for another architecture, and for what is not understood."""
    name = str(file.keys.get("general.architecture", ""))
    if name not in _FAMILIES:
        raise ModelError(
            f"{file.name}: the architecture {name!r} is not one of {', '.join(_FAMILIES)}"
        )
    family, keys = _FAMILIES[name], _Keys(file, name)
    layers, width = keys.whole("block_count"), keys.whole("embedding_length")
    heads = keys.whole("attention.head_count")
    groups = keys.whole("attention.head_count_kv", heads)
    keys.whole("feed_forward_length")
    size = keys.whole("attention.key_length", max(1, width // heads))
    if keys.whole("attention.value_length", size) != size:
        raise keys.refusal("attention.value_length", f"the {size} of the keys")
    if heads % groups:
        raise keys.refusal("attention.head_count_kv", f"a divisor of the {heads} heads")
    turned = keys.whole("rope.dimension_count", size)
    if turned > size or turned % 2:
        raise keys.refusal("rope.dimension_count", f"an even number up to {size}")
    windows, angles = _layers(keys, layers, is_gemma=name == "gemma3")
    if name == "gemma3" and layers == 62 and not keys.has("attention.scale"):
        raise keys.refusal("attention.scale", "said, and the 27B model has one of its own")
    made = DecoderSizes(
        layers=layers,
        width=width,
        heads=heads,
        groups=groups,
        size=size,
        turned=turned,
        epsilon=keys.real("attention.layer_norm_rms_epsilon"),
        factor=keys.real("attention.scale", 1 / sqrt(size)),
        context=keys.whole("context_length"),
        neighbours=family.neighbours,
        activation=family.activation,
        embedding_scale=sqrt(width) if family.scaled_embedding else 1.0,
        windows=windows,
        angles=angles,
    )
    keys.check_all_read()
    return made


def _layers(
    keys: _Keys, layers: int, *, is_gemma: bool
) -> tuple[tuple[int, ...], tuple[tuple[float, float], ...]]:
    """Window and RoPE of each layer. Of `pattern` layers all but the last have the window."""
    base = keys.real("rope.freq_base", 10000.0)
    scale = 1.0
    if (kind := keys.text("rope.scaling.type")) == "linear":
        scale = keys.real("rope.scaling.factor")
    elif kind in ("", "none"):
        keys.real("rope.scaling.factor", 1.0)
    else:
        raise keys.refusal("rope.scaling.type", "none or linear")
    if not keys.has("attention.sliding_window"):
        if is_gemma:
            raise keys.refusal("attention.sliding_window", "a number of places")
        return (0,) * layers, ((base, scale),) * layers
    window = keys.whole("attention.sliding_window")
    pattern = keys.whole("attention.sliding_window_pattern")
    local = keys.real("rope.freq_base_swa", None if is_gemma else base), 1.0 if is_gemma else scale
    slides = [(layer + 1) % pattern != 0 for layer in range(layers)]
    windows = tuple(window if s else 0 for s in slides)
    return windows, tuple(local if s else (base, scale) for s in slides)
