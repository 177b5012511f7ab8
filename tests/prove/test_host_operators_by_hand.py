# SPDX-License-Identifier: Apache-2.0
"""prove/host_operators.py: what is stated of a step's description is what the runtime computes of
it; a description that contradicts itself, or says more than is read, is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import BufferView, HostStep
from loadstone.prove.fingerprints import Integers
from loadstone.prove.functions import FunctionKind
from loadstone.prove.host_operators import computed
from loadstone.prove.operators.ends import bits
from loadstone.prove.rows import RowFunctions
from loadstone.prove.values import Values
from loadstone.prove.verdict import NotProved, Unsupported
from loadstone.runtime.externals import run_operator_step
from tests.prove.host_cases import INT8, UINT8, described, view
from tests.prove.values_at import ValuesAt

Said = dict[str, Any]
MEAN: Said = {"axes": [1, 2], "low": -128, "high": 127, "rounding": 0, "name": "mean"}
POOL: Said = {
    "kernel": [2, 3], "strides": [2, 1], "padding": [1, 0, 1, 2], "low": -128, "high": 127,
    "rounding": 0, "count_include_pad": False, "unsigned": False, "name": "pool",
}  # fmt: skip
RESIZE: Said = {
    "align_corners": False,
    "half_pixel_centers": False,
    "rounding": 0,
    "unsigned": False,
}
SOFTMAX: Said = {"rounding": 2, "beta": 1.0}
KINDS: dict[str, Said] = {
    "Mean": MEAN,
    "AveragePool2D": POOL,
    "ResizeBilinear": RESIZE,
    "Softmax": SOFTMAX,
}
SHAPES = {
    "Mean": ((2, 3, 2, 5), (2, 5)),
    "AveragePool2D": ((2, 4, 3, 2), (2, 3, 3, 2)),
    "ResizeBilinear": ((2, 3, 4, 2), (2, 5, 7, 2)),
    "Softmax": ((2, 3, 4), (2, 3, 4)),
}
SAME = (0.25, 3), (0.25, 3)
OTHER = (0.25, 3), (0.1875, -7)


def views(kind: str, grids: Any = SAME, shapes: Any = None) -> list[BufferView]:
    made = zip("xy", shapes or SHAPES[kind], grids, strict=True)
    return [replace(view(n, INT8, *shape), scale=s, zero_point=z) for n, shape, (s, z) in made]


def opaque(values: Values, n: int) -> Integers:
    return values.opaque(np.full(n, -128), np.full(n, 127))


def stated(values: Values, step: HostStep, x: BufferView, y: BufferView) -> Integers:
    return computed(step, opaque(values, x.elements), [x], [y], RowFunctions(values))


COMPUTED = [
    ("Mean", {}, SAME, None),
    ("Mean", {}, OTHER, None),
    ("Mean", {"axes": [1]}, OTHER, ((2, 3, 2, 5), (2, 1, 2, 5))),
    ("Mean", {"axes": [3, 0]}, OTHER, ((2, 3, 2, 5), (3, 2))),
    ("Mean", {"rounding": 2}, SAME, None),
    ("Mean", {"rounding": 2, "low": -30, "high": 11}, OTHER, None),
    ("Mean", {"rounding": 2, "axes": [2]}, OTHER, ((2, 3, 2, 5), (2, 3, 5))),
    ("AveragePool2D", {}, SAME, None),
    ("AveragePool2D", {"unsigned": True}, SAME, None),
    ("AveragePool2D", {"low": -30, "high": 11}, SAME, None),
    ("AveragePool2D", {"low": -30, "high": 11, "unsigned": True}, SAME, None),
    ("AveragePool2D", {"rounding": 2}, SAME, None),
    ("AveragePool2D", {"rounding": 2, "count_include_pad": True}, OTHER, None),
    ("AveragePool2D", {"rounding": 2, "low": -30, "high": 11}, OTHER, None),
    ("AveragePool2D", {"rounding": 2, "unsigned": True}, OTHER, None),
    *(("ResizeBilinear", {"align_corners": a, "half_pixel_centers": b}, SAME, None)
      for a in (False, True) for b in (False, True)),
    ("ResizeBilinear", {"unsigned": True, "align_corners": True}, SAME,
     ((1, 5, 3, 2), (1, 3, 2, 2))),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "change", "grids", "shapes"), COMPUTED)
def test_what_is_stated_is_what_the_runtime_computes(
    kind: str, change: Said, grids: Any, shapes: Any
) -> None:
    """Byte by byte, at the ends of the range of bytes too."""
    x, y = views(kind, grids, shapes)
    step = described(kind, KINDS[kind] | {"name": "it"} | change, x, y)
    rng = np.random.default_rng(1)
    for low, high in ((-128, 128), (110, 128), (-128, -110), (-4, 6)):
        data = rng.integers(low, high, x.shape).astype(np.int8)
        values = ValuesAt(data.reshape(-1).astype(np.int64))
        made = values.bytes(stated(values, step, x, y))
        (wanted,) = run_operator_step([data], step.attributes)
        assert np.array_equal(made, wanted.reshape(-1))


@pytest.mark.parametrize("said", [{"rounding": 0, "beta": 0.5}, {"rounding": 0, "beta": 0.25}])
def test_a_softmax_of_litert(said: Said) -> None:
    """Of beta times the input's scale, whatever the grid of the output."""
    x, y = views("Softmax")
    values = Values()
    rows, symbols = RowFunctions(values), opaque(values, x.elements)
    for change in ({}, {"unsigned": False}, {"unsigned": True}):
        if change:
            with pytest.raises(Unsupported, match=r"Softmax with unsigned="):
                computed(described("Softmax", said | change, x, y), symbols, [x], [y], rows)
            continue
        made = computed(described("Softmax", said, x, y), symbols, [x], [y], rows)
        shift = 24 if said["beta"] == 0.5 else 23
        name = "softmax", 1 << 30, shift, -31 << 26 - shift
        assert np.array_equal(made, rows.of(name, symbols.reshape(-1, 4)).reshape(-1))


def test_a_softmax_of_real_numbers() -> None:
    x, y = views("Softmax", OTHER)
    values = Values()
    rows, symbols = RowFunctions(values), opaque(values, x.elements)
    made = computed(described("Softmax", SOFTMAX, x, y), symbols, [x], [y], rows)
    name = "softmax of real numbers", (bits(0.25), 3), (bits(0.1875), -7)
    assert np.array_equal(made, rows.of(name, symbols.reshape(-1, 4)).reshape(-1))
    assert len(set(made.tolist())) == made.size


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Softmax", {"beta": 0.5}),
        ("Softmax", {"rounding": 1}),
        ("Mean", {"low": -127}),
        ("Mean", {"high": 126}),
        ("Mean", {"rounding": 1}),
        ("AveragePool2D", {"rounding": 1}),
        ("AveragePool2D", {"count_include_pad": True}),
        ("ResizeBilinear", {"rounding": 2}),
    ],
)
def test_arithmetic_that_is_not_known(kind: str, change: Said) -> None:
    x, y = views(kind)
    said = KINDS[kind] | change
    message = rf"{kind} of rounding {said['rounding']}"
    with pytest.raises(Unsupported, match=message):
        stated(Values(), described(kind, said, x, y), x, y)


@pytest.mark.parametrize("kind", ["AveragePool2D", "ResizeBilinear"])
@pytest.mark.parametrize("grid", [(0.5, 3), (0.25, 4)])
def test_grids_that_litert_does_not_have(kind: str, grid: tuple[float, int]) -> None:
    x, y = views(kind, (SAME[0], grid))
    with pytest.raises(Unsupported, match=f"{kind} of rounding 0"):
        stated(Values(), described(kind, KINDS[kind], x, y), x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_not_read_is_refused(kind: str) -> None:
    """It may change what the runtime computes."""
    x, y = views(kind)
    with pytest.raises(Unsupported, match=f"{kind} with dilation=2"):
        stated(Values(), described(kind, KINDS[kind] | {"dilation": 2}, x, y), x, y)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        *(("Mean", {"axes": axes}) for axes in ([4], [1, 1], 1, ["1"], None)),
        *(("AveragePool2D", {"strides": strides}) for strides in
          ([0, 1], [1, 0], [1, 1], [2, 2], [-1, -1], [2], [2, 1, 1])),
        *(("AveragePool2D", {"kernel": kernel}) for kernel in
          ([4, 3], [2, 4], [2], [2, 3, 1], [2.0, 3], [0, 3])),
        *(("AveragePool2D", {"padding": pads}) for pads in
          ([1, 0, 3, 2], [2, 0, 2, 2], [1, 1, 1, 2], [1, 0, 1, 3], [1, 0, 1], [1, 0, 1, 2, 0, 0])),
        ("AveragePool2D", {"padding": [3, 0, 1]}),
        *(("Mean", {"rounding": 2, end: level}) for end in ("low", "high") for level in (1.0, "1")),
        *(("AveragePool2D", {end: None}) for end in ("low", "high")),
    ],
)  # fmt: skip
def test_fields_that_describe_no_operator(kind: str, change: Said) -> None:
    x, y = views(kind)
    with pytest.raises(NotProved, match=r"step mean .*: its attributes describe no operator"):
        stated(Values(), described(kind, KINDS[kind] | change, x, y), x, y)


def test_a_window_beside_the_image_is_not_covered() -> None:
    x, y = views("AveragePool2D")
    with pytest.raises(Unsupported, match="the average of 0 elements"):
        stated(Values(), described("AveragePool2D", POOL | {"kernel": [1, 3]}, x, y), x, y)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_is_missing(kind: str) -> None:
    x, y = views(kind)
    for name in KINDS[kind].keys() - {"name", "low", "high", "unsigned"}:
        said = {k: v for k, v in KINDS[kind].items() if k != name}
        with pytest.raises(NotProved, match="describe no operator"):
            stated(Values(), described(kind, said, x, y), x, y)


def grid(side: int, place: int, value: object) -> Callable[[Said], object]:
    return lambda said: said["tensors"][side][0][3].__setitem__(place, value)


def tensor(side: int, place: int, value: object) -> Callable[[Said], object]:
    return lambda said: said["tensors"][side][0].__setitem__(place, value)


CHANGES: list[Callable[[Said], object]] = [
    *(grid(side, 0, scale) for side in (0, 1) for scale in (0.1, 0.0, -0.25, 1, None)),
    *(grid(side, 1, zero) for side in (0, 1) for zero in (0.5, None)),
    *(tensor(side, 1, shape) for side in (0, 1) for shape in ([2, 3, 2, 6], [60.5], 60, [])),
    *(tensor(side, 2, "uint8") for side in (0, 1)),
    *(tensor(side, 3, held) for side in (0, 1) for held in ([0.25], [0.25, 3, 0], None)),
    lambda said: said["tensors"].pop(),
    lambda said: said["tensors"].append(said["tensors"][1]),
    lambda said: said["tensors"][0].append(said["tensors"][0][0]),
    lambda said: said["tensors"][0].pop(),
    lambda said: said["tensors"][0][0].pop(),
    lambda said: said.pop("tensors"),
    lambda said: said.pop("fields"),
    lambda said: said.pop("kind"),
    lambda said: said.__setitem__("fields", [1]),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_tensors_that_are_not_those_of_the_step(number: int) -> None:
    x, y = views("Mean")
    step = described("Mean", MEAN, x, y)
    said = json.loads(step.attributes)
    CHANGES[number](said)
    step = replace(step, attributes=json.dumps(said))
    with pytest.raises(NotProved, match="describe no operator"):
        stated(Values(), step, x, y)


def test_shapes_have_the_elements_of_their_tensors() -> None:
    """In any form."""
    x, y = views("Mean")
    step = described("Mean", MEAN, x, y)
    flat = [replace(one, shape=(1, one.elements)) for one in (x, y)]
    values = Values()
    assert stated(values, step, *flat).shape == (10,)
    for k in (0, 1):
        for dtype in (UINT8,):
            spoilt = [replace(one, dtype=dtype) if k == n else one for n, one in enumerate(flat)]
            with pytest.raises(NotProved, match="describe no operator"):
                stated(Values(), step, *spoilt)


def test_steps_that_describe_nothing_that_is_known() -> None:
    values = Values()
    rows = RowFunctions(values)
    x, y = views("Mean")
    step, symbols = described("Mean", MEAN, x, y), opaque(values, x.elements)

    def refused(error: type[Exception], message: str, step: HostStep = step, **given: Any) -> None:
        said: Said = {"x": symbols, "inputs": [x], "outputs": [y], "rows": rows} | given
        with pytest.raises(error, match=message):
            computed(step, **said)

    changes: list[tuple[Said, type[Exception], str]] = [
        ({"function": "loadstone.c"}, Unsupported, r"step mean \(loadstone.c\): code that only"),
        ({"attributes": "{"}, NotProved, r"step mean \(loadstone.operator\)"),
        ({"attributes": "[]"}, NotProved, "describe no operator"),
        ({"attributes": '{"kind": "Relu", "fields": {}}'}, Unsupported, "operator Relu"),
    ]
    for change, error, message in changes:
        refused(error, message, replace(step, **change))
    refused(Unsupported, "operator Mean", inputs=[x, x])
    refused(Unsupported, "operator Mean", outputs=[y, y])
    refused(Unsupported, "operator Mean", inputs=[])
    for flipped in (-1, -2 - int(symbols[3])):
        other = symbols.copy()
        other[3] = flipped
        refused(Unsupported, "levels of uint8 as int8", x=other)
    constant = symbols.copy()
    constant[:] = 0
    assert (computed(step, constant, [x], [y], rows) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_that_are_no_elements(kind: str) -> None:
    """Of a sum a fingerprint is all that is known; a row of a softmax may be of any symbols."""
    values = Values()
    x, y = views(kind)
    symbols = opaque(values, x.elements)
    step = described(kind, KINDS[kind], x, y)
    source = values.origin(symbols[:1])[0]
    kid = np.array([[values.identity]])
    halved = values.functions.make(FunctionKind.SHIFT, np.array([[1]]), kid)
    symbols[2] = values.stored(source, halved)[0]
    rows = RowFunctions(values)
    if kind == "Softmax":
        assert len(computed(step, symbols, [x], [y], rows)) == y.elements
        return
    with pytest.raises(NotProved, match=rf"{kind} of a byte that is no element of the network"):
        computed(step, symbols, [x], [y], rows)
