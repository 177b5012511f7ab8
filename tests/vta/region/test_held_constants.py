# SPDX-License-Identifier: Apache-2.0
"""held_constants.py: weights are packed where all of their loads allow it, and else whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.compiler import compile
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.region.held_constants import HeldConstants
from loadstone.vta.stream.operations import DramTile, TileLoad, VirtualTile
from tests.tflite_builder import Graph, Padding, Tensor, run

CONFIG = load_config("vtaq2-1x16x16")
#: Any of these numbers are a group's: a multiplier of one, a minimum of -8.
LEAST, MOST = -8, 7
#: What a depthwise convolution says besides.
DEPTHWISE: dict[str, Any] = {"depth_multiplier": 1}


def load(first: int, x: int) -> TileLoad:
    """Of x tiles of `w`."""
    return TileLoad(Memory.WGT, VirtualTile(Memory.WGT, 4, "w"), 0, DramTile("w", first), 1, x, x)


def test_what_other_loads_cut_into_parts_of_groups_stands_there_without() -> None:
    tiles = np.random.default_rng(0).integers(LEAST, MOST + 1, (4, 16, 16)).astype(np.int8)
    constants = {"w": (Memory.WGT, tiles), "v": (Memory.WGT, tiles)}
    held = HeldConstants(CONFIG)
    held.keep(constants, [load(0, 4)])
    assert held.packed == {"w": None, "v": None}
    assert held.loaded_by(constants, [load(2, 2)]).packed == held.packed
    apart = held.loaded_by(constants, [load(0, 2), load(2, 1)])
    first = apart.packed["w"]  # in bit planes
    assert first is not None
    assert first.tolist() == [17 * tile for tile in range(5)]
    assert apart.arrays["w"][0].nbytes == 8 * 17 * 4
    assert apart.packed["v"] is None
    assert np.array_equal(apart.arrays["v"][0], held.arrays["v"][0])
    assert held.packed == {"w": None, "v": None}, "those of layers that take no turns stay"


def test_layers_that_take_turns_load_parts_of_groups_and_are_exact(tmp_path: Path) -> None:
    """A block of channels of the last layer's weights is half a group."""
    rng, graph = np.random.default_rng(0), Graph()
    x = graph.input((1, 20, 17, 8), np.int8, 0.05, 3)

    def layer(x: Tensor, channels: int, kernel: int, stride: int, kind: str) -> Tensor:
        taps = (kernel, kernel)
        shape = (1, *taps, channels) if kernel > 1 else (channels, *taps, x.shape[3])
        scale = np.float32(0.02)
        weights = graph.constant(rng.integers(LEAST, MOST + 1, shape).astype(np.int8), scale)
        bias = rng.integers(-100, 100, channels).astype(np.int32)
        b = graph.constant(bias, x.scale[0] * scale)
        size = [-(-n // stride) for n in x.shape[1:3]]
        y = graph.tensor((1, *size, channels), np.int8, 0.05, -5)
        graph.operator(
            kind,
            [x, weights, b],
            [y],
            padding=Padding.SAME,
            stride_h=stride,
            stride_w=stride,
            dilation_h_factor=1,
            dilation_w_factor=1,
            **({} if kind == "CONV_2D" else DEPTHWISE),
        )
        return y

    y = layer(x, 32, 1, 1, "CONV_2D")
    y = layer(y, 32, 3, 2, "DEPTHWISE_CONV_2D")
    y = layer(y, 8, 1, 1, "CONV_2D")
    model = graph.save([y])
    path = tmp_path / "turns.tflite"
    path.write_bytes(model)
    image = rng.integers(-128, 128, x.shape).astype(np.int8)
    compiled = compile(path, CONFIG)
    assert np.array_equal(compiled.run(image[None])[0][0], run(model, [image])[0])
