# SPDX-License-Identifier: Apache-2.0
"""Steps of the host on one input, by the C runtime and on symbols.

In:   a step, views of what it reads and writes.
Out:  Case, which runs it both ways; a maker for each operator.
Next: test_host_steps.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    Artifact,
    BufferView,
    DataType,
    HostStep,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.host_step import HostOpcode, PackWindow, SoftmaxScaling, Strided
from loadstone.backend.device import ProgramDevice
from loadstone.prove.fingerprints import Integers
from loadstone.prove.host_steps import HostSteps
from loadstone.prove.memory import NOBODY, SymbolDram
from loadstone.prove.rows import RowFunctions
from loadstone.prove.values import Values
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.prove.values_at import ValuesAt

__all__ = ["CONFIG", "CONSTANTS", "FLOAT32", "INPUT", "INT8", "INT32", "OUTPUT", "UINT8", "Case"]
__all__ += ["argmax", "copied", "dequantize", "looked_up", "mean", "packed", "quantize", "shown"]
__all__ += ["softmax", "unpacked", "view"]

CONFIG = load_config("vtaq-1x16x16")
INT8, UINT8, FLOAT32, INT32 = DataType.INT8, DataType.UINT8, DataType.FLOAT32, DataType.INT32
CONSTANTS, INPUT, OUTPUT = range(3)


@dataclass(frozen=True)
class Case:
    """A step from x, and a table, to y."""

    step: HostStep
    x: BufferView
    y: BufferView

    @staticmethod
    def plain(view: BufferView) -> BufferView:
        """The same bytes row by row."""
        if view.layout == ViewLayout.ROW_MAJOR:
            return view
        return BufferView(view.name, (1, view.size_bytes), INT8, view.region, 0)

    def run(self, data: NDArray[np.uint8], table: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """What the C runtime makes of the bytes of x."""
        shown = [self.plain(self.x), self.plain(self.y)]
        artifact = Artifact(
            name="one",
            devices=(ProgramDevice.of(CONFIG),),
            samples=1,
            regions=(
                MemoryRegion("table", RegionKind.CONSTANTS, 256, 256, data=table.tobytes()),
                MemoryRegion("in", RegionKind.INPUT, -(-self.x.size_bytes // 64) * 64, 64),
                MemoryRegion("out", RegionKind.OUTPUT, -(-self.y.size_bytes // 64) * 64, 64),
            ),
            tensors=(self.x, self.y, self.table, *shown),
            inputs=(3,),
            outputs=(4,),
            steps=(self.step,),
        )
        held = data.view(shown[0].dtype.numpy).reshape(1, *shown[0].shape)
        with OpenedDevice("sim", "", CONFIG) as device, device.load(artifact) as session:
            (made,) = session.run([held])
        return np.ascontiguousarray(made).view(np.uint8).reshape(-1)

    @property
    def table(self) -> BufferView:
        return BufferView("table", (256,), self.y.dtype, CONSTANTS, 0)

    def proved(
        self,
        values: Values,
        symbols: Integers,
        table: NDArray[np.uint8],
        rows: RowFunctions | None = None,
    ) -> tuple[Integers, HostSteps]:
        """What a proof makes of symbols of the bytes of x: symbols of those of y."""
        dram = SymbolDram()
        dram.constants(CONSTANTS, table.tobytes())
        for region, view in ((INPUT, self.x), (OUTPUT, self.y)):
            dram.empty(region, view.size_bytes)
        dram.write(INPUT, np.arange(len(symbols)), symbols, "the test", NOBODY)
        host = HostSteps(values, rows or RowFunctions(values), dram)
        read = [(self.x, self.y, self.table)[k] for k in self.step.inputs]
        host.run(self.step, read, [self.y])
        return dram.read(OUTPUT, np.arange(self.y.size_bytes), "the test"), host


def view(name: str, dtype: DataType, *shape: int, blocks: tuple[int, int] = (0, 0)) -> BufferView:
    layout = ViewLayout.BLOCKED if any(blocks) else ViewLayout.ROW_MAJOR
    region = INPUT if name == "x" else OUTPUT
    return BufferView(name, shape, dtype, region, 0, 0.25, 3, layout, *blocks)


def shown(values: ValuesAt, symbols: Integers) -> Integers:
    """The bytes of symbols, of flipped ones too."""
    other = symbols < NOBODY
    made = values.bytes(np.where(other, -2 - symbols, symbols)) & 255
    return np.where(other, made ^ 128, made)


def packed(dtype: DataType, window: PackWindow, *, nchw: bool, batch: int = 1) -> Case:
    """An image of 5 rows, 4 columns, 3 channels."""
    x = view("x", dtype, batch, *((3, 5, 4) if nchw else (5, 4, 3)))
    ends = [(n + 2 * p - k) // s + 1 for n, p, k, s in
            zip((5, 4), window.pads, window.kernel, window.strides, strict=True)]  # fmt: skip
    taps = window.kernel[0] * window.kernel[1]
    y = view("y", INT8, batch, *ends, 3 * taps, blocks=(2, 4))
    return Case(host_step.pack("pack", 0, 1, (5, 4, 3), window, nchw), x, y)


def unpacked(dtype: DataType, *, nchw: bool) -> Case:
    x = view("x", INT8, 3, 2, 5, 6, blocks=(2, 4))
    y = view("y", dtype, *((3, 6, 2, 5) if nchw else (3, 2, 5, 6)))
    return Case(host_step.unpack("unpack", 0, 1, nchw), x, y)


def looked_up(read: DataType, made: DataType) -> Case:
    step = host_step.lookup("lookup", 0, 2, 1)
    return Case(step, view("x", read, 1, 40), view("y", made, 1, 40))


def copied(read: DataType, made: DataType) -> Case:
    """Every second of three rows, backwards into another order; a part of y stays as it was."""
    source, target = Strided((10, 2), 1), Strided((1, 3), 2)
    step = host_step.copy("copy", 0, 1, (3, 4), source, target)
    return Case(step, view("x", read, 1, 31), view("y", made, 1, 16))


def softmax(depth: int = 5, dtype: DataType = INT8, **constants: int) -> Case:
    scaling = replace(SoftmaxScaling(1 << 30, 22, -100), **constants)
    step = host_step.softmax_int8("softmax", 0, 1, depth, scaling)
    return Case(step, view("x", dtype, 1, 40), view("y", dtype, 1, 40))


def argmax(depth: int = 5, dtype: DataType = INT8) -> Case:
    step = host_step.argmax("argmax", 0, 1, depth)
    return Case(step, view("x", dtype, 1, 40), view("y", INT32, 1, 40 // depth))


def quantize(dtype: DataType = INT8, **changed: Any) -> Case:
    low = 0 if dtype == UINT8 else -128
    step = host_step.quantize("quantize", 0, 1, half_to_even=True, low=low, high=low + 255)
    step = replace(step, parameters={**step.parameters, **changed.pop("parameters", {})})
    return Case(step, view("x", FLOAT32, 1, 10), replace(view("y", dtype, 1, 10), **changed))


def dequantize(dtype: DataType = INT8, **changed: Any) -> Case:
    x = replace(view("x", dtype, 1, 10), **changed)
    return Case(host_step.dequantize("dequantize", 0, 1), x, view("y", FLOAT32, 1, 10))


def described(kind: str, fields: Mapping[str, object], x: BufferView, y: BufferView) -> HostStep:
    tensors = [[[t.name, list(t.shape), "int8", [t.scale, t.zero_point]]] for t in (x, y)]
    text = json.dumps({"kind": kind, "fields": dict(fields), "arrays": [], "tensors": tensors})
    return HostStep("mean", HostOpcode.EXTERNAL, (0,), (1,), {}, "loadstone.operator", text)


def mean() -> Case:
    x, y = view("x", INT8, 1, 2, 2, 4), view("y", INT8, 1, 4)
    fields = {"axes": [1, 2], "low": -128, "high": 127, "rounding": 0}
    return Case(described("Mean", fields, x, y), x, y)
