# SPDX-License-Identifier: Apache-2.0
"""prove/host_steps.py: what steps of the host do to symbols is what the C runtime does to bytes;
and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import (
    HostStep,
)
from loadstone.artifact.host_operators import COPY_PARAMETERS
from loadstone.artifact.host_step import HostOpcode, PackWindow, Strided
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.host_steps import HostSteps
from loadstone.prove.memory import NOBODY, SymbolDram, flipped
from loadstone.prove.operators.ends import real_bytes
from loadstone.prove.rows import RowFunctions
from loadstone.prove.softmax import positions
from loadstone.prove.values import Values
from loadstone.prove.verdict import NotProved, Unsupported
from tests.prove.host_cases import (
    CONSTANTS,
    FLOAT32,
    INPUT,
    INT8,
    INT32,
    OUTPUT,
    UINT8,
    Case,
    argmax,
    copied,
    dequantize,
    looked_up,
    mean,
    packed,
    quantize,
    shown,
    softmax,
    unpacked,
    view,
)
from tests.prove.values_at import ValuesAt

WINDOW, WIDE = PackWindow((3, 2), (2, 1), (1, 1), -9), PackWindow((2, 3), (1, 2), (0, 2), 5)
CASES = {
    "pack": packed(INT8, PackWindow(), nchw=False),
    "pack of two samples": packed(INT8, PackWindow(), nchw=False, batch=3),
    "pack of uint8": packed(UINT8, PackWindow(), nchw=False),
    "pack of windows": packed(INT8, WINDOW, nchw=False),
    "pack of windows of uint8": packed(UINT8, WINDOW, nchw=True, batch=2),
    "pack of wide windows": packed(INT8, WIDE, nchw=False),
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
    "copy of one element": Case(
        host_step.copy("copy", 0, 1, (1,), Strided((1,)), Strided((1,), 3)),
        view("x", INT8, 1, 4),
        view("y", INT8, 1, 4),
    ),
    "copy to the first elements": Case(
        host_step.copy("copy", 0, 1, (2,), Strided((1,)), Strided((1,))),
        view("x", INT8, 1, 4),
        view("y", INT8, 1, 4),
    ),
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
        data[:4] = 0, 128, 255, 127
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
        assert written.sum() in (len(made), 12, 2, 1)


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
    assert (first == rows.of(("softmax", 1 << 30, 22, -100), symbols.reshape(8, 5)).ravel()).all()
    moved = of(softmax(), np.roll(symbols, 5))
    assert (moved == np.roll(first, 5)).all()
    places = of(argmax(), symbols)
    assert len(places) == 4 * 8
    assert (places == real_bytes(rows, positions(rows, symbols.reshape(8, 5)))).all()
    assert (of(argmax(dtype=UINT8), flipped(symbols)) == places).all()
    assert not (of(argmax(4), symbols)[:32] == places).any()


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
    symbols = opaque(values, 40)
    symbols[3] = flipped(symbols[3:4])[0]
    with pytest.raises(Unsupported, match="bytes of another type"):
        looked_up(INT8, INT8).proved(values, symbols, TABLES["drawn"])
    values = Values()
    (varying,) = opaque(values, 1)
    known = np.arange(255)
    for last in (varying, flipped(np.array([varying]))[0]):
        table = np.append(known, last)
        dram = SymbolDram()
        dram.empty(CONSTANTS, 256)
        dram.empty(INPUT, 40)
        dram.empty(OUTPUT, 40)
        dram.write(CONSTANTS, np.arange(256), table, "the test", NOBODY)
        dram.write(INPUT, np.arange(40), opaque(values, 40), "the test", NOBODY)
        case = looked_up(INT8, INT8)
        with pytest.raises(Unsupported, match="no constant"):
            HostSteps(values, RowFunctions(values), dram).run(
                case.step, [case.x, case.table], [case.y]
            )
