# SPDX-License-Identifier: Apache-2.0
"""prove/tflite/geometry.py: windows and slices, one by one; LiteRT's kernels are asked in
test_read_tflite.py, of resizes, too."""

from __future__ import annotations

from itertools import product

import pytest

from loadstone.prove.tflite.file import TfliteOperator
from loadstone.prove.tflite.geometry import (
    SliceBounds,
    WindowGeometry,
    sliced,
    window,
)

SAME, VALID = 0, 1
_WINDOW = {"Padding": SAME, "StrideH": 1, "StrideW": 2}
_DILATED = _WINDOW | {"DilationHFactor": 1, "DilationWFactor": 3}


def operator(code: str, **options: int) -> TfliteOperator:
    return TfliteOperator(0, code, 1, (), (), "options", options)


@pytest.mark.parametrize("inside", [(1, 1), (5, 7), (8, 3)])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2), (2, 4)])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3), (3, 1)])
def test_windows_are_those_of_their_definition(
    inside: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int]
) -> None:
    """SAME has as many outputs as strides begin in the input, and pads more behind than before;
    VALID pads nothing. Counts are those of taps inside, window by window."""
    for padding, dilations in product((SAME, VALID), ((1, 1), (2, 1), (1, 2))):
        options = {"Padding": padding, "StrideH": strides[0], "StrideW": strides[1]}
        options |= {"DilationHFactor": dilations[0], "DilationWFactor": dilations[1]}
        found = window(operator("CONV_2D", **options), inside, kernel, dilated=True)
        size, pads = [], []
        for n, k, s, d in zip(inside, kernel, strides, dilations, strict=True):
            extent = (k - 1) * d + 1
            out = len(range(0, n, s)) if padding == SAME else len(range(0, n - extent + 1, s))
            missing = max((out - 1) * s + extent - n, 0) if padding == SAME else 0
            size.append(out)
            pads.append((missing // 2, missing - missing // 2))
        if min(size) == 0:
            assert found is None
            continue
        wanted = (pads[0][0], pads[1][0], pads[0][1], pads[1][1])
        assert found == WindowGeometry(inside, (size[0], size[1]), strides, dilations, wanted)
        if dilations != (1, 1):
            continue
        counts = {
            sum(
                0 <= y * strides[0] + ky - wanted[0] < inside[0]
                and 0 <= x * strides[1] + kx - wanted[1] < inside[1]
                for ky, kx in product(*map(range, kernel))
            )
            for y, x in product(*map(range, size))
        }
        assert found.counts(kernel) == sorted(counts)


@pytest.mark.parametrize(
    ("options", "inside", "kernel"),
    [
        (_WINDOW | {"StrideH": 0}, (4, 4), (1, 1)),
        (_WINDOW | {"StrideW": -1}, (4, 4), (1, 1)),
        (_WINDOW | {"Padding": 2}, (4, 4), (1, 1)),
        (_WINDOW | {"Padding": VALID}, (4, 4), (1, 5)),
        (_WINDOW | {"Padding": VALID}, (4, 4), (5, 1)),
        (_WINDOW | {"Padding": VALID}, (4, 4), (9, 9)),
        (_WINDOW, (4, 4), (0, 1)),
        (_WINDOW, (0, 4), (1, 1)),
        (_DILATED | {"DilationWFactor": 0}, (4, 4), (1, 1)),
    ],
)
def test_windows_that_mean_nothing(
    options: dict[str, int], inside: tuple[int, int], kernel: tuple[int, int]
) -> None:
    dilated = "DilationHFactor" in options
    assert window(operator("CONV_2D", **options), inside, kernel, dilated=dilated) is None
    right = _DILATED if dilated else _WINDOW
    assert window(operator("CONV_2D", **right), (4, 4), (1, 1), dilated=dilated) is not None


@pytest.mark.parametrize(
    ("begin", "size", "wanted"),
    [
        ((0, 0), (3, 4), ((0, 0), (3, 4))),
        ((1, 2), (-1, 1), ((1, 2), (2, 1))),
        ((1, 1), (1, -1), ((1, 1), (1, 3))),
        ((3, 0), (0, 4), ((3, 0), (0, 4))),
        ((-1, 0), (1, 4), None),
        ((1, 0), (3, 4), None),
        ((0, 2), (3, 3), None),
        ((1, 0), (-2, 4), None),
        ((0, 4), (3, 1), None),
        ((0, 0), (3,), None),
        ((0,), (3, 4), None),
        ((0, 0, 0), (3, 4, 1), None),
    ],
)
def test_slices(
    begin: tuple[int, ...], size: tuple[int, ...], wanted: tuple[tuple[int, ...], ...] | None
) -> None:
    found = sliced(operator("SLICE"), (3, 4), [list(begin), list(size)])
    if wanted is None:
        assert found is None
    else:
        assert found == SliceBounds(wanted[0], (1, 1), wanted[1], wanted[1])


def strided(begin: int, end: int, stride: int, *masks: int, axis: int = 0) -> SliceBounds | None:
    """Of one of two axes of 5 and 6 elements; the other one is taken whole. masks: begin, end,
    shrink."""
    sizes = (5, 6)
    constants = [[0, 0], list(sizes), [1, 1]]
    for held, value in zip(constants, (begin, end, stride), strict=True):
        held[axis] = value
    said = dict(zip(("BeginMask", "EndMask", "ShrinkAxisMask"), masks or (0, 0, 0), strict=True))
    said = {name: mask << axis for name, mask in said.items()}
    return sliced(operator("STRIDED_SLICE", **said), sizes, constants)


@pytest.mark.parametrize("axis", [0, 1])
def test_strided_slices_are_numpy_s(axis: int) -> None:
    n = (5, 6)[axis]
    seen = 0
    for begin, end, stride in product(
        range(-n - 2, n + 3), range(-n - 2, n + 3), (-2, -1, 1, 2, 3)
    ):
        for free in product((0, 1), repeat=2):
            ends = (None if free[0] else begin), (None if free[1] else end)
            places = list(range(n))[slice(*ends, stride)]
            found = strided(begin, end, stride, *free, 0, axis=axis)
            if not places:
                assert found is None
                continue
            seen += 1
            assert found is not None
            assert (found.begin[axis], found.strides[axis]) == (places[0], stride)
            assert found.shape[axis] == found.kept[axis] == len(places)
            assert (found.begin[1 - axis], found.shape[1 - axis]) == (0, (6, 5)[axis])
    assert seen > 500


@pytest.mark.parametrize("axis", [0, 1])
def test_axes_that_are_dropped_have_one_element(axis: int) -> None:
    n = (5, 6)[axis]
    for begin in range(-n - 2, n + 3):
        found = strided(begin, begin + 1, 1, 0, 0, 1, axis=axis)
        if not -n <= begin < n:
            assert found is None
            continue
        assert found is not None
        assert (found.begin[axis], found.shape[axis]) == (begin % n, 1)
        assert found.kept == ((6,), (5,))[axis]
    for stride in (-1, 0, 2):
        assert strided(1, 2, stride, 0, 0, 1, axis=axis) is None
    assert strided(1, 2, 0, axis=axis) is None
