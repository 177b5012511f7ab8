# SPDX-License-Identifier: Apache-2.0
"""Convolutions lowered by hand, tile by tile: programs for the tests of the passes.

In:   sizes of layers that follow each other; or tests/golden/passes/nests.txt, a text of nests.
Out:  operations on virtual tiles, constants, places; what the layers compute, in NumPy.
Next: test_pipeline.py runs them on the simulator; the tests of each pass read what it makes of
      them.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.backend.region import Address
from loadstone.ir_pass.nest_text import parsed
from loadstone.numerics import Rounding, requantize
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.spec import Memory
from loadstone.vta.kernels.emitter import Emitter
from loadstone.vta.kernels.from_nests import kernel_of_nests
from loadstone.vta.passes.pipeline import PASSES
from loadstone.vta.passes.program import UOP_TENSOR, LayerOperation, VtaProgram
from loadstone.vta.stream.operations import (
    Access,
    DramTile,
    FillNest,
    GemmNest,
    Operation,
    RequantizeNest,
    TileLoad,
    TileStore,
    VirtualTile,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "passes"
ZERO_POINT = -3


class Layer:
    """A square convolution with stride 1 and `same` padding, lowered by hand, tile by tile."""

    def __init__(
        self, rng: np.random.Generator, block: int, c: int, h: int, w: int, o: int, k: int
    ) -> None:
        self.c, self.h, self.w, self.o, self.k, self.block = c, h, w, o, k, block
        self.weights = rng.integers(-127, 128, (o, c, k, k, block, block)).astype(np.int8)
        self.bias = rng.integers(-9999, 9999, (o, block)).astype(np.int32)
        self.multiplier = rng.integers(1 << 30, 1 << 31, (o, block)).astype(np.int32)
        self.shift = np.full((o, block), -10, np.int32)

    def operations(self, x: str, y: str, rows: int, outputs: int) -> list[Operation]:
        p, ops, kk = self.k // 2, [], self.k * self.k
        for o0 in range(0, self.o, outputs):
            n = min(outputs, self.o - o0)
            rq = VirtualTile(Memory.ACC, 3 * n, "operands")
            ops.append(
                TileLoad(Memory.ACC, rq, 0, DramTile(y + ".operands", 3 * o0), 1, 3 * n, 3 * n)
            )
            for i0 in range(0, self.h, rows):
                h = min(rows, self.h - i0)
                acc = VirtualTile(Memory.ACC, n * h * self.w, "acc")
                inp = VirtualTile(Memory.INP, self.c * (h + 2 * p) * (self.w + 2 * p), "inp")
                wgt = VirtualTile(Memory.WGT, n * self.c * kk, "wgt")
                ops.append(FillNest((n * h * self.w,), Access(acc, 0, (1,)), 0))
                low, high, wide = max(0, i0 - p), min(self.h, i0 + h + p), self.w + 2 * p
                plane = (h + 2 * p) * wide
                for c in range(self.c):
                    tile = DramTile(x, c * self.h * self.w + low * self.w)
                    pads = {
                        "y_pad_0": low - i0 + p,
                        "y_pad_1": i0 + h + p - high,
                        "x_pad_0": p,
                        "x_pad_1": p,
                        "pad_value": ZERO_POINT,
                    }
                    ops.append(
                        TileLoad(
                            Memory.INP, inp, c * plane, tile, high - low, self.w, self.w, **pads
                        )
                    )
                count = n * self.c * kk
                ops.append(
                    TileLoad(
                        Memory.WGT,
                        wgt,
                        0,
                        DramTile(y + ".weights", o0 * self.c * kk),
                        1,
                        count,
                        count,
                    )
                )
                ops.append(
                    GemmNest(
                        (n, h, self.w, self.c, self.k, self.k),
                        Access(acc, 0, (h * self.w, self.w, 1, 0, 0, 0)),
                        Access(inp, 0, (0, wide, 1, plane, wide, 1)),
                        Access(wgt, 0, (self.c * kk, 0, 0, kk, self.k, 1)),
                    )
                )
                dst, src = Access(acc, 0, (h * self.w, 1)), Access(rq, 0, (3, 0))
                ops.append(
                    RequantizeNest(
                        (n, h * self.w), dst, src, ZERO_POINT, -128, 127, Rounding.DOUBLE
                    )
                )
                ops.append(
                    TileStore(
                        acc,
                        0,
                        DramTile(y, o0 * self.h * self.w + i0 * self.w),
                        n,
                        h * self.w,
                        self.h * self.w,
                    )
                )
        return ops

    def expected(self, x: NDArray[np.int8]) -> NDArray[np.int8]:
        p = self.k // 2
        padded = np.pad(
            x.astype(np.int64), ((0, 0), (p, p), (p, p), (0, 0)), constant_values=ZERO_POINT
        )
        acc = np.zeros((self.o, self.h, self.w, self.block), np.int64)
        for y in range(self.k):
            for z in range(self.k):
                acc += np.einsum(
                    "chwi,ocai->ohwa",
                    padded[:, y : y + self.h, z : z + self.w],
                    self.weights[:, :, y, z].astype(np.int64),
                )
        acc += self.bias[:, None, None]
        out = (
            requantize(
                acc, self.multiplier[:, None, None], self.shift[:, None, None], Rounding.DOUBLE
            )
            + ZERO_POINT
        )
        return np.clip(out, -128, 127).astype(np.int8)

    def constants(self, y: str) -> dict[str, NDArray[Any]]:
        return {
            y + ".weights": self.weights,
            y + ".operands": np.stack([self.bias, self.multiplier, self.shift], 1),
        }


def network(
    config: HwConfig, rng: np.random.Generator, blocks: list[int], size: int, kernels: list[int]
) -> list[Layer]:
    pairs = zip(pairwise(blocks), kernels, strict=True)
    return [Layer(rng, config.block, c, size, size + 1, o, k) for (c, o), k in pairs]


def unbuilt(
    layers: list[Layer], config: HwConfig, rows: int, outputs: int
) -> tuple[VtaProgram, NDArray[np.uint8]]:
    """The program in front of the first pass, and region 0's content. Region 1: micro-ops, 2:
    arena."""
    constants: dict[str, NDArray[Any]] = {}
    operations: list[LayerOperation] = []
    places = {UOP_TENSOR: Address(1, 0), "t0": Address(2, 0)}
    end = layers[0].c * layers[0].h * layers[0].w * config.block
    for k, layer in enumerate(layers):
        operations += [
            (f"layer{k}", op) for op in layer.operations(f"t{k}", f"t{k + 1}", rows, outputs)
        ]
        constants |= layer.constants(f"t{k + 1}")
        places[f"t{k + 1}"] = Address(2, end)
        end += layer.o * layer.h * layer.w * config.block
    data = bytearray()
    for name, value in constants.items():
        data += bytes(-len(data) % 1024)
        places[name] = Address(0, len(data))
        data += value.tobytes()
    return VtaProgram(config, places, operations), np.frombuffer(bytes(data), np.uint8).copy()


def small_program(device: str = "vtaq-tiny") -> VtaProgram:
    """Two layers, unbuilt: loads that are not needed again, outputs in turn, pads at borders."""
    config = load_config(device)
    layers = network(config, np.random.default_rng(0), [1, 2, 1], 3, [3, 1])
    return unbuilt(layers, config, 2, 1)[0]


#: Whose tiles the nests of nests.txt have: VTA-Q, and VTA as it is.
NEST_DEVICES = ("vtaq-1x16x16", "vta-pynq")


def nest_program(device: str) -> VtaProgram:
    """nests.txt as operations of one of NEST_DEVICES, in front of the first pass."""
    config, emitter = load_config(device), Emitter({})
    function = parsed((GOLDEN / "nests.txt").read_text(encoding="utf-8"))
    kernel = kernel_of_nests(function, config)
    kernel.emit(emitter, *(DramTile(name, 0) for name in kernel.parameters))
    arena = {name: Address(2, 4096 * number) for number, name in enumerate("xyz")}
    constants = {"w": Address(0, 0), "v": Address(0, 4096)}
    places = {UOP_TENSOR: Address(1, 0), **constants, **arena}
    return VtaProgram(config, places, [(function.name, each) for each in emitter.operations])


def behind(name: str, program: VtaProgram) -> VtaProgram:
    """The program behind the pass of this name."""
    for made in PASSES:
        program = made().run(program)
        if made.name == name:
            break
    return program


def compare_golden(name: str, text: str, update: bool, device: str = "") -> None:
    """Holds `text` against tests/golden/passes/NAME.txt, or writes it. device: of nests.txt, whose
    texts have it in their names."""
    path = GOLDEN / (f"{name}.{device}.txt" if device else f"{name}.txt")
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), (
        f"{path.name} changed: read the difference, then run pytest with --update-golden"
    )
