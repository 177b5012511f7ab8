# SPDX-License-Identifier: Apache-2.0
"""prove/host_steps.py: what steps of the host do to symbols is what the C runtime does to bytes;
and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
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
from loadstone.artifact.host_operators import COPY_PARAMETERS
from loadstone.artifact.host_step import HostOpcode, PackWindow, SoftmaxScaling, Strided
from loadstone.backend.device import ProgramDevice
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.host_steps import HostSteps
from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.rows import RowFunctions
from loadstone.prove.values import Values
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.runtime.device import OpenedDevice
from loadstone.vta.device.hw_config import load_config
from tests.prove.values_at import ValuesAt

CONFIG = load_config("vtaq-1x16x16")
INT8, UINT8, FLOAT32, INT32 = DataType.INT8, DataType.UINT8, DataType.FLOAT32, DataType.INT32
_CONSTANTS, _INPUT, _OUTPUT = range(3)


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
        return BufferView("table", (256,), self.y.dtype, _CONSTANTS, 0)

    def proved(
        self,
        values: Values,
        symbols: Integers,
        table: NDArray[np.uint8],
        rows: RowFunctions | None = None,
    ) -> tuple[Integers, HostSteps]:
        """What a proof makes of symbols of the bytes of x: symbols of those of y."""
        dram = SymbolDram()
        dram.constants(_CONSTANTS, table.tobytes())
        for region, view in ((_INPUT, self.x), (_OUTPUT, self.y)):
            dram.empty(region, view.size_bytes)
        dram.write(_INPUT, np.arange(len(symbols)), symbols, "the test", NOBODY)
        host = HostSteps(values, rows or RowFunctions(values), dram)
        read = [(self.x, self.y, self.table)[k] for k in self.step.inputs]
        host.run(self.step, read, [self.y])
        return dram.read(_OUTPUT, np.arange(self.y.size_bytes), "the test"), host


def view(name: str, dtype: DataType, *shape: int, blocks: tuple[int, int] = (0, 0)) -> BufferView:
    layout = ViewLayout.BLOCKED if any(blocks) else ViewLayout.ROW_MAJOR
    region = _INPUT if name == "x" else _OUTPUT
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


WINDOW = PackWindow((3, 2), (2, 1), (1, 1), -9)
CASES = {
    "pack": packed(INT8, PackWindow(), nchw=False),
    "pack of two samples": packed(INT8, PackWindow(), nchw=False, batch=3),
    "pack of uint8": packed(UINT8, PackWindow(), nchw=False),
    "pack of windows": packed(INT8, WINDOW, nchw=False),
    "pack of windows of uint8": packed(UINT8, WINDOW, nchw=True, batch=2),
    "pack of channels first": packed(INT8, PackWindow(), nchw=True),
    "unpack": unpacked(INT8, nchw=False),
    "unpack to uint8": unpacked(UINT8, nchw=False),
    "unpack to channels first": unpacked(INT8, nchw=True),
    "lookup": looked_up(INT8, INT8),
    "lookup of uint8": looked_up(UINT8, INT8),
    "lookup to uint8": looked_up(INT8, UINT8),
    "lookup of uint8 to uint8": looked_up(UINT8, UINT8),
    "copy": copied(INT8, INT8),
    "copy of uint8": copied(UINT8, INT8),
    "fill": Case(host_step.fill("fill", 1, 200), view("x", INT8, 1, 4), view("y", INT8, 1, 9)),
}
TABLES = {
    "drawn": np.random.default_rng(1).integers(0, 256, 256).astype(np.uint8),
    "flips": (np.arange(256) ^ 128).astype(np.uint8),
    "moves nothing": np.arange(256).astype(np.uint8),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("known", [0.0, 0.4, 1.0])
def test_steps_do_to_symbols_what_they_do_to_bytes(name: str, known: float) -> None:
    case = CASES[name]
    for table in TABLES.values() if "lookup" in name else [TABLES["drawn"]]:
        rng = np.random.default_rng(5)
        data = rng.integers(0, 256, case.x.size_bytes, np.uint8)
        is_uint8 = case.x.dtype == UINT8
        levels = (data ^ 128 if is_uint8 else data).view(np.int8).astype(np.int64)
        fixed = rng.random(len(data)) < known
        values = ValuesAt(levels[~fixed])
        n = int((~fixed).sum())
        symbols = levels & 255
        symbols[~fixed] = values.opaque(np.full(n, -128), np.full(n, 127))
        symbols = flipped(symbols) if is_uint8 else symbols
        made, _ = case.proved(values, symbols, table)
        wanted = case.run(data, table)
        written = made != NOBODY
        assert (shown(values, made) == wanted)[written].all()
        assert written.all() or name.startswith("copy")
        assert written.sum() in (len(made), 12)


def opaque(values: Values, n: int) -> Integers:
    return values.opaque(np.full(n, -128), np.full(n, 127))


def test_a_table_that_moves_nothing_leaves_symbols() -> None:
    values = Values()
    symbols = opaque(values, 40)
    flips, same = TABLES["flips"], TABLES["moves nothing"]
    for read, made, table in ((INT8, INT8, same), (UINT8, UINT8, same), (INT8, UINT8, flips),
                              (UINT8, INT8, flips)):  # fmt: skip
        held = flipped(symbols) if read == UINT8 else symbols
        found, host = looked_up(read, made).proved(values, held, table)
        assert ((flipped(found) if made == UINT8 else found) == symbols).all()
        assert host.stored == []
    found, host = looked_up(INT8, UINT8).proved(values, symbols, TABLES["drawn"])
    (stored,) = host.stored
    assert (flipped(stored) == found).all()


def softmax(depth: int = 5, dtype: DataType = INT8, **constants: int) -> Case:
    scaling = replace(SoftmaxScaling(1 << 30, 22, -100), **constants)
    step = host_step.softmax_int8("softmax", 0, 1, depth, scaling)
    return Case(step, view("x", dtype, 1, 40), view("y", dtype, 1, 40))


def argmax(depth: int = 5, dtype: DataType = INT8) -> Case:
    step = host_step.argmax("argmax", 0, 1, depth)
    return Case(step, view("x", dtype, 1, 40), view("y", INT32, 1, 40 // depth))


def test_rows_with_the_same_constants_are_the_same() -> None:
    """Of softmax and arg max; uint8 is int8 less 128."""
    values = Values()
    rows = RowFunctions(values)
    symbols = opaque(values, 40)

    def of(case: Case, x: Integers) -> Integers:
        return case.proved(values, x, TABLES["drawn"], rows)[0]

    first = of(softmax(), symbols)
    assert (of(softmax(), symbols) == first).all()
    assert (flipped(of(softmax(dtype=UINT8), flipped(symbols))) == first).all()
    for other in (softmax(4), softmax(multiplier=7), softmax(left_shift=7), softmax(diff_min=-7)):
        assert not (of(other, symbols) == first).any()
    moved = of(softmax(), np.roll(symbols, 5))
    assert (moved == np.roll(first, 5)).all()
    places = of(argmax(), symbols)
    assert len(places) == 4 * 8
    assert (of(argmax(dtype=UINT8), flipped(symbols)) == places).all()
    assert not (of(argmax(4), symbols)[:32] == places).any()


def quantize(dtype: DataType = INT8, **changed: Any) -> Case:
    low = 0 if dtype == UINT8 else -128
    step = host_step.quantize("quantize", 0, 1, half_to_even=True, low=low, high=low + 255)
    step = replace(step, parameters={**step.parameters, **changed.pop("parameters", {})})
    return Case(step, view("x", FLOAT32, 1, 10), replace(view("y", dtype, 1, 10), **changed))


def dequantize(dtype: DataType = INT8, **changed: Any) -> Case:
    x = replace(view("x", dtype, 1, 10), **changed)
    return Case(host_step.dequantize("dequantize", 0, 1), x, view("y", FLOAT32, 1, 10))


def test_ends_with_the_same_constants_are_the_same() -> None:
    values = Values()
    rows = RowFunctions(values)

    def of(case: Case, x: Integers) -> Integers:
        return case.proved(values, x, TABLES["drawn"], rows)[0]

    real, levels = opaque(values, 40), opaque(values, 10)
    first = of(quantize(), real)
    assert len(set(first.tolist())) == 10
    assert (flipped(of(quantize(UINT8, zero_point=131), real)) == first).all()
    for other in (quantize(scale=0.5), quantize(zero_point=4), quantize(UINT8),
                  quantize(parameters={"half_to_even": 0})):  # fmt: skip
        made = of(other, real)
        assert not ((flipped(made) if other.y.dtype == UINT8 else made) == first).any()
    back = of(dequantize(), levels)
    assert len(set(back.tolist())) == 40
    assert (of(dequantize(UINT8, zero_point=131), flipped(levels)) == back).all()
    assert not (of(dequantize(scale=0.5), levels) == back).any()
    assert not (of(dequantize(zero_point=4), levels) == back).any()


def described(kind: str, fields: Mapping[str, object], x: BufferView, y: BufferView) -> HostStep:
    tensors = [[[t.name, list(t.shape), "int8", [t.scale, t.zero_point]]] for t in (x, y)]
    text = json.dumps({"kind": kind, "fields": dict(fields), "arrays": [], "tensors": tensors})
    return HostStep("mean", HostOpcode.EXTERNAL, (0,), (1,), {}, "loadstone.operator", text)


def mean() -> Case:
    x, y = view("x", INT8, 1, 2, 2, 4), view("y", INT8, 1, 4)
    fields = {"axes": [1, 2], "low": -128, "high": 127, "rounding": 0}
    return Case(described("Mean", fields, x, y), x, y)


def test_bytes_that_are_no_elements_are_not_added_up_by_the_host() -> None:
    """A sum knows elements by their fingerprints, and what a device made of a sum has none."""
    values = Values()
    symbols = opaque(values, 16)
    source = values.origin(symbols[:1])[0]
    halved = values.functions.make(
        FunctionKind.SHIFT, np.array([[1]]), np.array([[values.identity]])
    )
    made, host = mean().proved(values, symbols, TABLES["drawn"])
    assert (host.stored[0] == made).all()
    symbols[7] = values.stored(source, halved)[0]
    with pytest.raises(NotProved, match="no element of the network"):
        mean().proved(values, symbols, TABLES["drawn"])


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (Case(HostStep("s", HostOpcode.SOFTMAX_FLOAT32, (0,), (1,), {"depth": 2}),
              view("x", INT8, 1, 4), view("y", INT8, 1, 4)), Unsupported, "softmax_float32"),
        (Case(host_step.fill("f", 1, 3), view("x", INT8, 1, 4), view("y", INT32, 1, 4)),
         Unsupported, "other types than bytes"),
        (Case(copied(INT8, INT8).step, view("x", FLOAT32, 1, 31), view("y", INT8, 1, 16)),
         Unsupported, "other types than bytes"),
        (Case(quantize().step, view("x", INT32, 1, 10), view("y", INT8, 1, 10)), Unsupported,
         "float32, int8 and uint8"),
        (Case(quantize().step, view("x", FLOAT32, 1, 10), view("y", INT32, 1, 10)), Unsupported,
         "float32, int8 and uint8"),
        (Case(dequantize().step, view("x", INT32, 1, 10), view("y", FLOAT32, 1, 10)), Unsupported,
         "float32, int8 and uint8"),
        (quantize(parameters={"low": -127}), Unsupported, "levels from -127 to 127"),
        (quantize(parameters={"high": 126}), Unsupported, "levels from -128 to 126"),
        (quantize(UINT8, parameters={"low": 1}), Unsupported, "levels from 1 to 255"),
        (Case(argmax().step, view("x", INT32, 1, 40), view("y", INT32, 1, 8)), Unsupported,
         "the largest of int32"),
        (Case(copied(INT8, INT8).step, view("x", INT8, 1, 27), view("y", INT8, 1, 16)), NotProved,
         "do not fit its tensors"),
        (Case(copied(INT8, INT8).step, view("x", INT8, 1, 31), view("y", INT8, 1, 13)), NotProved,
         "do not fit its tensors"),
        (Case(packed(INT8, PackWindow(), nchw=False).step, view("x", INT8, 1, 59),
              view("y", INT8, 1, 5, 4, 3, blocks=(1, 4))), NotProved, "do not fit its tensors"),
    ],
)  # fmt: skip
def test_steps_that_are_not_executed(case: Case, error: type[Exception], message: str) -> None:
    values = Values()
    with pytest.raises(error, match=message):
        case.proved(values, opaque(values, case.x.size_bytes), TABLES["drawn"])


def test_copies_fit_their_tensors_to_the_last_element() -> None:
    case = copied(INT8, INT8)
    values = Values()
    fits = Case(case.step, view("x", INT8, 1, 28), view("y", INT8, 1, 14))
    made, _ = fits.proved(values, opaque(values, 28), TABLES["drawn"])
    assert (made != NOBODY).sum() == 12
    for name in ("in_offset", "out_offset"):
        step = replace(case.step, parameters={**case.step.parameters, name: -1})
        with pytest.raises(NotProved, match="do not fit"):
            Case(step, case.x, case.y).proved(values, opaque(values, 31), TABLES["drawn"])
    nothing = dict.fromkeys(COPY_PARAMETERS, 0)
    made, _ = Case(replace(case.step, parameters=nothing), case.x, case.y).proved(
        values, opaque(values, 31), TABLES["drawn"]
    )
    assert (made == NOBODY).all()


@pytest.mark.parametrize("name", ["pack", "unpack", "lookup", "copy"])
def test_what_nobody_wrote_is_not_read(name: str) -> None:
    values = Values()
    case = CASES[name]
    symbols = opaque(values, case.x.size_bytes)
    symbols[-1] = NOBODY
    with pytest.raises(NotProved, match="bytes of x that nobody wrote"):
        case.proved(values, symbols, TABLES["drawn"])
    for other in (quantize(), argmax()):
        symbols = opaque(values, other.x.size_bytes)
        symbols[3] = NOBODY
        with pytest.raises(NotProved, match="nobody wrote"):
            other.proved(values, symbols, TABLES["drawn"])


def test_lookups_of_what_is_no_byte_of_their_type_or_in_no_constant() -> None:
    values = Values()
    with pytest.raises(Unsupported, match="bytes of another type"):
        looked_up(INT8, INT8).proved(values, flipped(opaque(values, 40)), TABLES["drawn"])
    with pytest.raises(Unsupported, match="bytes of another type"):
        looked_up(UINT8, INT8).proved(values, opaque(values, 40), TABLES["drawn"])
    varying = opaque(values, 256)
    for table in (varying, flipped(varying), np.append(np.arange(255), varying[0])):
        dram = SymbolDram()
        dram.empty(_CONSTANTS, 256)
        dram.empty(_INPUT, 40)
        dram.empty(_OUTPUT, 40)
        dram.write(_CONSTANTS, np.arange(256), table, "the test", NOBODY)
        dram.write(_INPUT, np.arange(40), opaque(values, 40), "the test", NOBODY)
        case = looked_up(INT8, INT8)
        with pytest.raises(Unsupported, match="no constant"):
            HostSteps(values, RowFunctions(values), dram).run(
                case.step, [case.x, case.table], [case.y]
            )
