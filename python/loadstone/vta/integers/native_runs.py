# SPDX-License-Identifier: Apache-2.0
"""Some channels of runs as C++ takes them: the inner loops of the searches are in native/.

In:   runs (runs.py), numbers of channels, arrays of what is tried.
Out:  `NativeRuns`: the searches of native/include/lds_rescale.h, and who checks sizes for them.
Next: search.py and digit_search.py say what is tried. C++ finds; proof.py proves what is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadstone.library.native import CData, ffi, lib
from loadstone.numerics import Array
from loadstone.vta.integers.runs import IntArray, Runs

__all__ = ["DigitCandidates", "NativeForm", "NativeRuns", "NativeStairs"]

#: Integers of lds_rescale_candidate, of lds_rescale_bend, and of lds_rescale_found.
_CANDIDATE, _BEND, _FOUND = 5, 3, 8


@dataclass(frozen=True)
class NativeForm:
    """lds_rescale_form: (C,) of each channel but the first two."""

    count: int
    signed: bool
    left: IntArray
    shift: IntArray
    offset: IntArray
    low: IntArray
    high: IntArray


@dataclass(frozen=True)
class DigitCandidates:
    """offsets: (n,), at each of which all candidates are tried. candidates: (n, 5) of
    lds_rescale_candidate."""

    offsets: IntArray
    candidates: IntArray


@dataclass(frozen=True)
class NativeStairs:
    """lds_rescale_stairs_form: left, unit, real (C,); window_of (outputs,) numbers below `windows`;
    bends (n, 3)."""

    signed: bool
    left: IntArray
    unit: IntArray
    real: NDArray[np.float64]
    window_of: IntArray
    windows: int
    bends: IntArray


def _inside(what: str, numbers: IntArray, count: int) -> None:
    """What C++ takes for places in a table of `count`."""
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < count:
        raise AssertionError(f"{what} {numbers.min()} to {numbers.max()} of {count}")


class NativeRuns:
    """channels: (C,) numbers of those that are searched."""

    def __init__(self, runs: Runs, channels: IntArray) -> None:
        shape = (len(runs.scale), runs.first.shape[1])
        _inside("channels", channels, shape[0] * (shape[1] > 0))
        self._searched, self._count = runs, len(channels)
        self._kept: list[CData] = []
        self._runs = self._struct(
            "lds_rescale_runs",
            first=self._integers(runs.first, shape),
            last=self._integers(runs.last, shape),
            value=self._integers(runs.value, shape),
            scale=self._array(runs.scale, np.float64, "double", shape[:1]),
            runs=shape[1],
            low=runs.low,
            high=runs.high,
            tolerance=runs.tolerance,
            channels=self._of_each(channels),
            count=self._count,
        )

    def digits(self, form: NativeForm, rings: tuple[DigitCandidates, ...]) -> IntArray:
        """(C, 8) of lds_rescale_found: one ring after the other."""
        if form.count not in (2, 3):
            raise AssertionError(f"{form.count} digits: the search takes 2 or 3")
        found, rows = self._found()
        own = self._struct(
            "lds_rescale_form",
            count=form.count,
            is_signed=form.signed,
            left=self._of_each(form.left),
            shift=self._of_each(form.shift),
            offset=self._of_each(form.offset),
            low=self._of_each(form.low),
            high=self._of_each(form.high),
        )
        for ring in rings:
            shapes = ring.offsets.shape, (len(ring.candidates), _CANDIDATE)
            candidates = self._integers(ring.candidates, shapes[1])
            lib().lds_rescale_digits(
                self._runs,
                own,
                self._integers(ring.offsets, shapes[0]),
                len(ring.offsets),
                ffi.cast("lds_rescale_candidate *", candidates),
                len(ring.candidates),
                found,
            )
        return rows

    def parts(self, shift: IntArray, limit: IntArray) -> IntArray:
        """(C, 8) of lds_rescale_found."""
        found, rows = self._found()
        lib().lds_rescale_parts(self._runs, self._of_each(shift), self._of_each(limit), found)
        return rows

    def needs_sign(
        self, slope: IntArray, shift: IntArray, distances: IntArray
    ) -> NDArray[np.bool_]:
        """(C,)."""
        needs = np.zeros(self._count, np.uint8)
        lib().lds_rescale_needs_sign(
            self._runs,
            self._of_each(slope),
            self._of_each(shift),
            self._integers(distances, distances.shape),
            len(distances),
            self._array(needs, np.uint8, "uint8_t", needs.shape),
        )
        return needs.astype(np.bool_)

    def stairs(
        self, form: NativeStairs, offsets: IntArray, fits: NDArray[np.bool_]
    ) -> tuple[IntArray, IntArray]:
        """(C, 8) of lds_rescale_found, and (C, windows, 2) of lds_rescale_window. offsets, fits:
        (n, C), where which are tried."""
        runs = self._searched
        _inside("outputs", runs.value - runs.low, len(form.window_of))
        _inside("windows", form.window_of, form.windows)
        own = self._struct(
            "lds_rescale_stairs_form",
            is_signed=form.signed,
            left=self._of_each(form.left),
            unit=self._of_each(form.unit),
            real=self._array(form.real, np.float64, "double", (self._count,)),
            window_of=self._integers(form.window_of, form.window_of.shape),
            window_count=form.windows,
            bends=ffi.cast(
                "lds_rescale_bend *", self._integers(form.bends, (len(form.bends), _BEND))
            ),
            bend_count=len(form.bends),
        )
        found, rows = self._found()
        windows = np.zeros((self._count, form.windows, 2), np.int64)
        shape = (len(offsets), self._count)
        lib().lds_rescale_stairs(
            self._runs,
            own,
            self._integers(offsets, shape),
            self._array(fits, np.uint8, "uint8_t", shape),
            len(offsets),
            found,
            ffi.cast("lds_rescale_window *", self._integers(windows, windows.shape)),
        )
        return rows, windows

    def _found(self) -> tuple[CData, IntArray]:
        rows = np.zeros((self._count, _FOUND), np.int64)
        return ffi.cast("lds_rescale_found *", self._integers(rows, rows.shape)), rows

    def _of_each(self, array: IntArray) -> CData:
        return self._integers(array, (self._count,))

    def _integers(self, array: IntArray, shape: tuple[int, ...]) -> CData:
        return self._array(array, np.int64, "int64_t", shape)

    def _array(
        self, array: Array, dtype: type[np.generic], name: str, shape: tuple[int, ...]
    ) -> CData:
        """A pointer; what it points to lives as long as this."""
        if array.shape != shape:
            raise AssertionError(f"an array of {array.shape}, where C++ reads {shape}")
        self._kept.append(ffi.from_buffer(f"{name}[]", np.ascontiguousarray(array, dtype)))
        return self._kept[-1]

    def _struct(self, name: str, **fields: object) -> CData:
        return ffi.new(f"{name} *", fields)
