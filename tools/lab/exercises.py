# SPDX-License-Identifier: Apache-2.0
"""The lab's six exercises: what is in memory, what the visitor begins with, what must come out.

In:   lab/exercises/, their texts and the programs that the visitor begins with; a random generator,
      for the data.
Out:  `EXERCISES`; `Exercise.case` draws contents of the regions, and computes the output in NumPy,
      by what the exercise says and not by instructions.
Next: page_data.py writes them for the page; tests/tools/lab/test_exercises.py solves them.

Regions of DRAM have the same numbers in all exercises: 0 micro-ops, 1 weights, 2 operands,
3 input, 4 output. All are on vtaq-tiny: tiles of four int8, or of four int32 in ACC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from loadstone.numerics import requantize_double, shift_lane
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import encode_uops
from loadstone.vta.isa.spec import Memory

__all__ = ["DEVICE", "EXERCISES", "OUTPUT", "TILES", "Case", "Exercise"]

DEVICE: HwConfig = load_config("vtaq-tiny")
MICRO_OPS, WEIGHTS, OPERANDS, INPUT, OUTPUT = range(5)
#: What tiles a region's bytes are.
TILES = (Memory.UOP, Memory.WGT, Memory.ACC, Memory.INP, Memory.INP)
_LANES = DEVICE.block
_TEXTS = Path(__file__).parents[2] / "lab/exercises"

Int8Array = NDArray[np.int8]
Int64Array = NDArray[np.int64]
Rows = Sequence[tuple[int, int, int]]


@dataclass(frozen=True)
class Case:
    """regions: bytes of each before the run. output: of region OUTPUT behind it."""

    regions: tuple[bytes, ...]
    output: bytes


@dataclass(frozen=True)
class Exercise:
    """draw: region -> its array, and the output. cycles: what a solution takes at most; 0: any."""

    name: str
    micro_ops: Rows
    draw: Callable[[np.random.Generator], tuple[Mapping[int, NDArray[np.generic]], Int8Array]]
    cycles: int = 0

    @property
    def title(self) -> str:
        """Of its page."""
        return _read(self.name)[0]

    @property
    def text(self) -> tuple[str, ...]:
        """Paragraphs, with code between backquotes."""
        return _read(self.name)[1]

    @property
    def start(self) -> str:
        """The program that the visitor finds."""
        return _read(self.name)[2]

    def case(self, seed: int) -> Case:
        """Contents and result of one draw."""
        arrays, output = self.draw(np.random.default_rng(seed))
        table = encode_uops(np.array(self.micro_ops, np.int64), DEVICE)
        held: dict[int, NDArray[np.generic]] = {
            MICRO_OPS: table,
            OUTPUT: np.zeros_like(output),
            **arrays,
        }
        regions = tuple(held[r].tobytes() if r in held else b"" for r in range(len(TILES)))
        return Case(regions, output.tobytes())


def _clipped(values: Int64Array) -> Int8Array:
    return np.clip(values, -128, 127).astype(np.int8)


def _int8(rng: np.random.Generator, *shape: int, limit: int = 127) -> Int8Array:
    return rng.integers(-limit, limit + 1, shape).astype(np.int8)


def _copy(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x = _int8(rng, _LANES)
    return {INPUT: x}, x


def _add(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x = _int8(rng, 2, 8, _LANES)
    return {INPUT: x}, _clipped(x[0].astype(np.int64) + x[1])


def _race(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x, weights = _int8(rng, 2, 8, _LANES), _int8(rng, _LANES, _LANES, limit=15)
    sums = x.astype(np.int64) @ weights.T.astype(np.int64)
    return {INPUT: x, WEIGHTS: weights}, _clipped(sums >> 6)


def _dense_sums(x: Int8Array, weights: Int8Array) -> Int64Array:
    """x: [sample][in tile][lane]; weights: [out tile][in tile][out lane][in lane]."""
    sums = np.einsum("nki,okji->noj", x.astype(np.int64), weights.astype(np.int64))
    return np.asarray(sums, np.int64)


def _dense(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x, weights = _int8(rng, 8, 2, _LANES), _int8(rng, 2, 2, _LANES, _LANES, limit=31)
    return {INPUT: x, WEIGHTS: weights}, _clipped(_dense_sums(x, weights) >> 7)


def _operands(rng: np.random.Generator, tiles: int) -> NDArray[np.int32]:
    """[tile][bias, multiplier, shift][lane]."""
    bias = rng.integers(-2000, 2000, (tiles, _LANES))
    multiplier = rng.integers(1 << 30, (1 << 31) - 1, (tiles, _LANES))
    shift = shift_lane(rng.integers(-8, -5, (tiles, _LANES)))
    return np.stack([bias, multiplier, shift], axis=1).astype(np.int32)


def _requantized(sums: Int64Array, operands: NDArray[np.int32], zero: int) -> Int8Array:
    """sums: [..., tile, lane]. A ReLU: nothing is below the zero point."""
    bias, multiplier, shift = (operands[:, k] for k in range(3))
    scaled = requantize_double(sums + bias, multiplier, shift.astype(np.int8)).astype(np.int64)
    return np.clip(scaled + zero, zero, 127).astype(np.int8)


def _layer(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x, weights = _int8(rng, 8, 2, _LANES), _int8(rng, 2, 2, _LANES, _LANES)
    operands = _operands(rng, 2)
    output = _requantized(_dense_sums(x, weights), operands, -5)
    return {INPUT: x, WEIGHTS: weights, OPERANDS: operands}, output


_ROWS, _COLUMNS = 16, 8


def _convolution(rng: np.random.Generator) -> tuple[Mapping[int, NDArray[np.generic]], Int8Array]:
    x, weights = _int8(rng, _ROWS, _COLUMNS, _LANES), _int8(rng, 9, _LANES, _LANES)
    operands = _operands(rng, 1)
    padded = np.pad(x.astype(np.int64), ((1, 1), (1, 1), (0, 0)))
    sums = np.zeros((_ROWS, _COLUMNS, _LANES), np.int64)
    for tap, weight in enumerate(weights.astype(np.int64)):
        row, column = divmod(tap, 3)
        sums += padded[row : row + _ROWS, column : column + _COLUMNS] @ weight.T
    output = _requantized(sums[:, :, None], operands, 3)
    return {INPUT: x, WEIGHTS: weights, OPERANDS: operands}, output


#: (dst, src, wgt) of the products of a sample, two tiles by two.
_PRODUCTS = [(o, k, 2 * o + k) for o in range(2) for k in range(2)]
#: A tap of a 3x3 kernel reads this tile of a strip whose rows have ten.
_TAPS = [10 * row + column for row in range(3) for column in range(3)]

EXERCISES: tuple[Exercise, ...] = (
    Exercise("copy", [(0, 0, 0)], _copy),
    Exercise("add", [(0, 8, 0)], _add),
    Exercise("race", [(0, 0, 0), (8, 0, 0)], _race),
    Exercise("dense", [*_PRODUCTS, (0, 0, 0)], _dense),
    Exercise("requantize", [*_PRODUCTS, (0, 100, 0), (1, 103, 0)], _layer),
    Exercise(
        "convolution",
        [
            *((0, src, tap) for tap, src in enumerate(_TAPS)),
            *((32, 64 + src, tap) for tap, src in enumerate(_TAPS)),
            (0, 64, 0),
            (32, 64, 0),
        ],
        _convolution,
        cycles=1900,
    ),
)


def _read(exercise: str) -> tuple[str, tuple[str, ...], str]:
    (path,) = _TEXTS.glob(f"?-{exercise}.md")
    said, start, _ = path.read_text(encoding="utf-8").split("```\n")
    title, *paragraphs = said.strip().split("\n\n")
    return title.removeprefix("# "), tuple(" ".join(p.split("\n")) for p in paragraphs), start
