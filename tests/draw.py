# SPDX-License-Identifier: Apache-2.0
"""What random single-operator models are made of, and the count of elements that differ.

In:   a seed.
Out:  shapes, scales, zero points and int8 arrays; `Count` compares results.
Next: test_operators_*.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.graph import Quantization

__all__ = ["MILLION", "Count", "Random"]

MILLION = 1_000_000


@dataclass
class Random:
    """Draws what single-operator models are made of."""

    seed: int
    rng: np.random.Generator = field(init=False)
    powers: bool = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.powers = self.seed % 3 == 0

    def int(self, low: int, high: int) -> int:
        """Within [low, high]."""
        return int(self.rng.integers(low, high, endpoint=True))

    def chance(self, of: int) -> bool:
        """True once in `of` times."""
        return self.int(1, of) == 1

    def pick(self, options: Sequence[Any]) -> Any:
        """One of them."""
        return options[self.int(0, len(options) - 1)]

    def channels(self, most: int = 200) -> int:
        """1 to `most`: evenly in their logarithm, often a whole number of blocks."""
        if self.chance(3):
            return min(most, int(self.pick([8, 16, 32, 48, 64, 128])))
        return max(1, min(most, round(2.0 ** self.rng.uniform(0, np.log2(200)))))

    def scale(self, low: float = 2**-9, high: float = 1.0) -> float:
        """A float32 value, log-uniform; a power of two in every third model."""
        exponent = self.rng.uniform(np.log2(low), np.log2(high))
        return float(np.float32(2.0 ** (round(exponent) if self.powers else exponent)))

    def near(self, scale: float) -> float:
        """A scale for an output whose values spread like `scale`, within a factor of 4 each way."""
        return self.scale(scale / 4, scale * 4)

    def weight_scales(self, channels: int) -> NDArray[np.float32]:
        """One per channel; one channel in eight is far off, as in real networks: there they reach
        from 2^-36 to 2^-1."""
        far = self.rng.random(channels) < (0.125 if channels > 1 else 0)
        return np.array(
            [self.scale(2**-36, 1.0) if odd else self.scale(2**-9, 2**-4) for odd in far],
            np.float32,
        )

    def quantization(self, scale: float | None = None) -> Quantization:
        return Quantization(self.scale() if scale is None else scale, self.int(-128, 127))

    def int8(self, *shape: int) -> NDArray[np.int8]:
        return self.rng.integers(-128, 127, shape, np.int8, endpoint=True)


@dataclass
class Count:
    """Elements compared, those that differ, and those inside the clamp: only they say anything
    about rounding."""

    total: int = 0
    wrong: int = 0
    inside: int = 0

    def compare(self, got: NDArray[Any], want: NDArray[Any]) -> None:
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        self.total += got.size
        self.wrong += np.count_nonzero(got != want)
        self.inside += np.count_nonzero((want > want.min()) & (want < want.max()))

    def check(self, at_least: int) -> None:
        print(
            f"{self.total:,} elements, {self.inside:,} of them inside the clamp, "
            f"{self.wrong} differ"
        )
        assert self.wrong == 0, f"{self.wrong} of {self.total:,} elements differ"
        assert self.inside >= at_least, "too few elements say anything about rounding"
