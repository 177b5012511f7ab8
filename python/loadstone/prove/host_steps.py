# SPDX-License-Identifier: Apache-2.0
"""Steps of the host, on symbols.

In:   a step, its tensors, DRAM.
Out:  DRAM as the step leaves it.
Next: proof.py.

What moves bytes is executed. A softmax, and what turns real numbers into levels and back, is taken
as it is: the same rows with the same constants give the same bytes, in the artifact and in the
network.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.artifact.format import BufferView, DataType, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.host_operators import computed
from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.operators.ends import dequantized, quantized, real_bytes
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import positions
from loadstone.prove.values import CONSTANTS, Values
from loadstone.prove.verdict import NotProved, Unsupported

__all__ = ["HostSteps", "copied"]


class HostSteps:
    """Executes the steps of one artifact."""

    def __init__(self, values: Values, rows: RowFunctions, dram: SymbolDram) -> None:
        self._values, self._rows, self._dram = values, rows, dram
        #: Symbols that steps made, of those that compute.
        self.stored: list[Integers] = []

    def run(
        self, step: HostStep, inputs: Sequence[BufferView], outputs: Sequence[BufferView]
    ) -> None:
        """Raises Unsupported for a step that is not executed here, NotProved for one that reads
        what nobody wrote, or leaves its tensors."""
        name = f"step {step.name} ({step.opcode.name.lower()})"
        try:
            self._execute(step, inputs, outputs, name)
        except (IndexError, ValueError) as error:
            raise NotProved(f"{name}: its parameters do not fit its tensors") from error

    def _execute(
        self, step: HostStep, inputs: Sequence[BufferView], outputs: Sequence[BufferView], name: str
    ) -> None:
        if step.opcode in (HostOpcode.QUANTIZE, HostOpcode.DEQUANTIZE):
            self._end(step, inputs[0], outputs[0], name)
            return
        if step.opcode == HostOpcode.ARGMAX:
            self._positions(step, inputs[0], outputs[0], name)
            return
        bytes_ = DataType.INT8, DataType.UINT8
        if any(t.dtype not in bytes_ for t in (*inputs, *outputs)):
            raise Unsupported(f"{name}: tensors of other types than bytes")
        x = self.read(inputs[0], name) if inputs else np.zeros(0, np.int64)
        match step.opcode:
            case HostOpcode.PACK:
                made = _packed(step, x, inputs[0], outputs[0])
            case HostOpcode.UNPACK:
                made = _unpacked(step, x, inputs[0], outputs[0])
            case HostOpcode.COPY:
                made = copied(step, x, self.held(outputs[0], name))
            case HostOpcode.FILL:
                made = np.full(outputs[0].size_bytes, step.parameters["value"])
            case HostOpcode.LOOKUP:
                made = self._looked_up(x, inputs[0], self.read(inputs[1], name), outputs[0])
            case HostOpcode.SOFTMAX_INT8:
                made = self._softmax(step, x, outputs[0])
            case HostOpcode.EXTERNAL:
                made = computed(step, x, inputs, outputs, self._rows)
                self.stored.append(made)
            case _:
                raise Unsupported(name)
        place = _place(outputs[0])
        self._dram.write(outputs[0].region, place, made.reshape(-1), name, NOBODY)

    def _end(self, step: HostStep, read: BufferView, out: BufferView, name: str) -> None:
        """From real numbers to bytes, or back."""
        quantizes = step.opcode == HostOpcode.QUANTIZE
        real, levels = (read, out) if quantizes else (out, read)
        is_uint8 = levels.dtype == DataType.UINT8
        if real.dtype != DataType.FLOAT32 or levels.dtype not in (DataType.INT8, DataType.UINT8):
            raise Unsupported(f"{name}: tensors of other types than float32, int8 and uint8")
        constants = levels.scale, levels.zero_point - 128 * is_uint8
        x = self.read(read, name)
        if quantizes:
            p, low = step.parameters, 0 if is_uint8 else -128
            if (p["low"], p["high"]) != (low, low + 255):
                raise Unsupported(f"{name}: levels from {p['low']} to {p['high']}")
            made = quantized(self._rows, x, *constants, half_to_even=bool(p["half_to_even"]))
            made = flipped(made) if is_uint8 else made
        else:
            x = flipped(x) if is_uint8 else x
            made = real_bytes(self._rows, dequantized(self._rows, x, *constants))
        self._dram.write(out.region, _place(out), made, name, NOBODY)

    def _positions(self, step: HostStep, read: BufferView, out: BufferView, name: str) -> None:
        if read.dtype not in (DataType.INT8, DataType.UINT8):
            raise Unsupported(f"{name}: the largest of {read.dtype.name.lower()}")
        x = self.read(read, name)
        x = flipped(x) if read.dtype == DataType.UINT8 else x
        found = positions(self._rows, x.reshape(-1, step.parameters["depth"]))
        made = real_bytes(self._rows, found, out.dtype.size_bytes)
        self._dram.write(out.region, _place(out), made, name, NOBODY)

    def held(self, tensor: BufferView, name: str) -> Integers:
        """Symbols (bytes,) of a tensor, NOBODY where nobody wrote."""
        return self._dram.read(tensor.region, _place(tensor), name)

    def read(self, tensor: BufferView, name: str) -> Integers:
        """Symbols (bytes,) of a tensor. Raises NotProved where nobody wrote them."""
        held = self.held(tensor, name)
        if (held == NOBODY).any():
            raise NotProved(f"{name} reads bytes of {tensor.name} that nobody wrote")
        return held

    def _softmax(self, step: HostStep, x: Integers, out: BufferView) -> Integers:
        p = step.parameters
        is_uint8 = out.dtype == DataType.UINT8
        x = flipped(x) if is_uint8 else x
        name = "softmax", p["multiplier"], p["left_shift"], p["diff_min"]
        made = self._rows.of(name, x.reshape(-1, p["depth"]))
        return flipped(made) if is_uint8 else made

    def _looked_up(
        self, x: Integers, read: BufferView, table: Integers, out: BufferView
    ) -> Integers:
        if (table >= CONSTANTS).any() or (table < 0).any():
            raise Unsupported("a lookup in a table that is no constant")
        x = flipped(x) if read.dtype == DataType.UINT8 else x
        if out.dtype == DataType.UINT8:
            table = table ^ 128
        fixed = (x >= 0) & (x < CONSTANTS)
        if (x < 0).any():
            raise Unsupported("a lookup of bytes of another type")
        # The table stands in the order of the byte as uint8, functions of signed bytes do not.
        signed = np.concatenate([table[128:], table[:128]])
        if read.dtype == DataType.UINT8:
            signed = table
        signed = (signed ^ 128) - 128
        if np.array_equal(signed, np.arange(-128, 128)):  # uint8 as int8
            return flipped(x) if out.dtype == DataType.UINT8 else x
        made = np.zeros(len(x), np.int64)
        made[fixed] = signed[x[fixed] ^ 128] & 255
        sources, kids = self._values.origin(x[~fixed])
        number = np.full((len(kids), 1), self._values.functions.table(signed))
        functions = self._values.functions.make(FunctionKind.TABLE, number, kids[:, None])
        made[~fixed] = self._values.stored(sources, functions)
        self.stored.append(made.copy())
        return flipped(made) if out.dtype == DataType.UINT8 else made


def _place(tensor: BufferView) -> Integers:
    return np.arange(tensor.offset_bytes, tensor.offset_bytes + tensor.size_bytes)


def _packed(step: HostStep, x: Integers, read: BufferView, out: BufferView) -> Integers:
    p = step.parameters
    n, oh, ow, c = out.shape
    h, w, channels = p["h"], p["w"], p["c"]
    x = flipped(x) if read.dtype == DataType.UINT8 else x
    image = (
        x.reshape(n, channels, h, w).transpose(0, 2, 3, 1)
        if p["nchw"]
        else x.reshape(n, h, w, channels)
    )
    ys = np.arange(oh)[:, None] * p["stride_h"] + np.arange(p["kernel_h"]) - p["pad_top"]
    xs = np.arange(ow)[:, None] * p["stride_w"] + np.arange(p["kernel_w"]) - p["pad_left"]
    y, z = np.broadcast_arrays(ys[:, None, :, None], xs[None, :, None, :])
    inside = (y >= 0) & (y < h) & (z >= 0) & (z < w)
    pad = p["pad_value"] & 255
    taps = image[:, np.clip(y, 0, h - 1), np.clip(z, 0, w - 1)]
    folded = np.where(inside[None, ..., None], taps, pad).reshape(n, oh, ow, c)
    nb, cb, _, _, b, k = out.memory_shape
    full = np.full((nb * b, oh, ow, cb * k), pad)
    full[:n, :, :, :c] = folded
    return full.reshape(nb, b, oh, ow, cb, k).transpose(0, 4, 2, 3, 1, 5)


def _unpacked(step: HostStep, x: Integers, read: BufferView, out: BufferView) -> Integers:
    nb, cb, h, w, b, k = read.memory_shape
    n, _, _, c = read.shape
    image = x.reshape(nb, cb, h, w, b, k).transpose(0, 4, 2, 3, 1, 5).reshape(nb * b, h, w, cb * k)
    image = image[:n, :, :, :c]
    image = image.transpose(0, 3, 1, 2) if step.parameters["nchw"] else image
    flat = image.reshape(-1)
    return flipped(flat) if out.dtype == DataType.UINT8 else flat


def copied(step: HostStep, x: Integers, held: Integers) -> Integers:
    """Symbols (bytes,) of the output, of which `held` was there, behind a copy of x (bytes,).
    Raises IndexError for places outside."""
    p = step.parameters
    axes = range(6)
    extents = [p[f"extent_{k}"] for k in axes]
    index = np.indices(extents).reshape(6, -1)
    source, target = (
        p[f"{side}_offset"] + np.array([p[f"{side}_stride_{k}"] for k in axes]) @ index
        for side in ("in", "out")
    )
    for index, size in ((source, len(x)), (target, len(held))):
        if index.size and not 0 <= int(index.min()) <= int(index.max()) < size:
            raise IndexError(int(index.max()))
    made = held.copy()
    made[target] = x[source]
    return made
