# SPDX-License-Identifier: Apache-2.0
"""Find the first layer whose numbers are wrong.

In:   an artifact, a device, inputs; the reference (expected.py).
Out:  a LayerDifference for each layer, in order.
Next: commands/compare.py prints the first that differs; loaded.py returns a LayerDifferences.

The reference is one of

    the network       graph/reference.py on the model's file: every tensor, equal to the
                      model's framework in every bit; for a float model, real numbers
    another device    the same artifact there, the simulator for instance
    another artifact  of the same network
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loadstone.analysis.html import rows_table
from loadstone.analysis.names import short_names
from loadstone.analysis.taps import Tap, taps, values
from loadstone.artifact.format import Artifact, DataType
from loadstone.errors import ModelError
from loadstone.graph.bfloat16 import widened
from loadstone.numerics import Array
from loadstone.runtime.arrays import misfit
from loadstone.runtime.device import OpenedDevice

__all__ = [
    "Expected",
    "LayerDifference",
    "LayerDifferences",
    "described",
    "differences",
    "digest",
    "from_tensors",
    "one_run",
    "read_digests",
    "tells_factors",
]

#: The expected value of a tap; None where it is not known.
Expected = Callable[[Tap], Array | None]
_ELEMENTS_A_FACTOR = 16
#: What float32 leaves open between two orders of a sum, or two exponentials of 3 units in the last
#: place (runtime/FORMAT.md): a millionth of an element, and what is below the normal numbers.
_FLOAT32_RELATIVE, _FLOAT32_ABSOLUTE = 2.0**-20, float(np.finfo(np.float32).tiny)
_FNV_START, _FNV_PRIME = 0x811C9DC5, 0x01000193


@dataclass(frozen=True)
class LayerDifference:
    """How a layer differs from the reference. first: the index of the first element that differs,
    batch first, channels last; got, wanted: its two values. elements: 0 where the reference has no
    value. decibels: signal-to-noise ratio; None where nothing differs. from_float: the reference is
    a float network, which integers only approximate. rounding: float32 whose elements differ by no
    more than a millionth each, as those of a softmax do that the host computes in C."""

    layer: str
    tensor: str
    step: int
    shape: tuple[int, ...]
    elements: int
    different: int = 0
    largest: float = 0.0
    first: tuple[int, ...] = ()
    got: float = 0.0
    wanted: float = 0.0
    decibels: float | None = None
    from_float: bool = False
    rounding: bool = False


@dataclass(frozen=True, repr=False)
class LayerDifferences:
    """The differences of all layers, in order."""

    layers: tuple[LayerDifference, ...]

    @property
    def equal(self) -> bool:
        """Whether all elements of all layers are equal, those of float32 within its rounding."""
        return self.first is None

    @property
    def first(self) -> LayerDifference | None:
        """The first layer that differs by more than the rounding of float32."""
        return next((e for e in self.layers if e.different and not e.rounding), None)

    def rows(self) -> list[tuple[str, str, str]]:
        """For each layer its name, its elements, and its difference as text."""
        short = short_names([layer.layer for layer in self.layers])
        return [(short[e.layer], str(e.elements), described(e)) for e in self.layers]

    def __repr__(self) -> str:
        if self.first is None:
            return f"<comparison of {len(self.layers)} layers: all equal>"
        where = f"first different in {self.first.layer!r}"
        return f"<comparison of {len(self.layers)} layers: {where}: {described(self.first)}>"

    def _repr_html_(self) -> str:
        return rows_table("comparison", ("layer", "elements", "difference"), self.rows(), "")


def described(entry: LayerDifference) -> str:
    """The difference of a layer as a sentence, without the layer's name."""
    if not entry.different:
        return "equal"
    if not entry.first:
        return f"its digest over {entry.elements} elements differs"
    noise = "" if entry.decibels is None else f"{entry.decibels:.1f} dB; "
    rounding = ", within the rounding of float32" if entry.rounding else ""
    return (
        f"{noise}{entry.different} of {entry.elements} elements differ, by {entry.largest:g} at "
        f"most{rounding}; the first at {list(entry.first)} of {list(entry.shape)}: {entry.got:g}, "
        f"not {entry.wanted:g}"
    )


def differences(
    artifact: Artifact,
    device: OpenedDevice,
    inputs: Sequence[Array],
    expected: Expected,
    *,
    trust: bool = False,
) -> Iterator[LayerDifference]:
    """Yields the difference of each layer, in order; the device runs only as far as the caller
    iterates.

    inputs: of one run, each in the shape (samples of a run * rows, ...) of the artifact's input.
    """
    known = [tap for tap in taps(artifact) if expected(tap) is not None]
    for tap, got in values(artifact, device, inputs, known, trust=trust):
        wanted = expected(tap)
        assert wanted is not None
        yield difference(tap, got, wanted)


def difference(tap: Tap, got: Array, wanted: Array) -> LayerDifference:
    """The difference of one layer. Raises ModelError where the two have different numbers of
    elements."""
    if got.size != wanted.size:
        raise ModelError(
            f"layer {tap.layer!r} has {got.size} elements, and {wanted.size} where it is compared "
            "with: not the same network"
        )
    wanted = wanted.reshape(got.shape)
    a, b = _numbers(tap, got), _numbers(tap, wanted)
    from_float = bool(tap.view.scale) and wanted.dtype.kind == "f"
    if from_float:
        a, b = _as_real(tap, a, b)
    different = (a != b) & ~(np.isnan(a) & np.isnan(b))
    count = int(different.sum())
    if not count:
        return LayerDifference(tap.layer, tap.name, tap.step, got.shape, got.size)
    apart = np.abs(a - b)[different]
    first = tuple(int(k) for k in np.argwhere(different)[0])
    return LayerDifference(
        tap.layer,
        tap.name,
        tap.step,
        got.shape,
        got.size,
        count,
        float(np.inf if np.isnan(apart).any() else apart.max()),
        first,
        float(a[first]),
        float(b[first]),
        _decibels(a, b),
        from_float,
        tap.view.dtype == DataType.FLOAT32 and _within_rounding(a[different], b[different]),
    )


def _within_rounding(got: Array, wanted: Array) -> bool:
    """Of float32 values, as float64; false where one is not finite."""
    if not (np.isfinite(got).all() and np.isfinite(wanted).all()):
        return False
    allowed = _FLOAT32_RELATIVE * np.maximum(np.abs(got), np.abs(wanted))
    return bool((np.abs(got - wanted) <= np.maximum(allowed, _FLOAT32_ABSOLUTE)).all())


def tells_factors(shape: Sequence[int]) -> bool:
    """Whether a channel of this shape, channels last, has enough elements to estimate its
    factor."""
    return math.prod(shape[:-1]) >= _ELEMENTS_A_FACTOR


def _as_real(tap: Tap, got: Array, wanted: Array) -> tuple[Array, Array]:
    """The integers as real numbers, to be compared with a float network; where a channel has enough
    elements, multiplied by its factor (expected.py explains why)."""
    real = (got - tap.view.zero_point) * tap.view.scale
    if not tells_factors(got.shape):
        return real, wanted
    axes = tuple(range(got.ndim - 1))
    energy = np.square(wanted).sum(axes)
    factors = (real * wanted).sum(axes) / np.where(energy > 0, energy, 1)
    return real, wanted * factors


def _is_bfloat16(tap: Tap) -> bool:
    return tap.view.dtype == DataType.BFLOAT16


def _numbers(tap: Tap, array: Array) -> Array:
    """As float64; an array of bfloat16 may hold the bits."""
    if _is_bfloat16(tap) and array.dtype == np.uint16:
        array = widened(array)
    return array.astype(np.float64)


def _decibels(got: Array, wanted: Array) -> float | None:
    """10 log10(signal / noise); None where either is zero or not finite."""
    with np.errstate(all="ignore"):
        signal, noise = float(np.square(wanted).sum()), float(np.square(got - wanted).sum())
    if not (0 < signal < np.inf and 0 < noise < np.inf):
        return None
    return round(10 * float(np.log10(signal / noise)), 2)


def one_run(artifact: Artifact, inputs: Sequence[Array], sample: int) -> list[Array]:
    """The inputs of the run that contains a sample, as the device takes them: filled up with zeros
    after the last sample. inputs: (samples, ...) each. Raises ModelError."""
    group = artifact.samples
    found = []
    for index, array in zip(artifact.inputs, inputs, strict=True):
        tensor = artifact.tensors[index]
        shape = (tensor.shape[0] // group, *tensor.shape[1:])
        if why := misfit(array, tensor, shape):
            raise ModelError(why)
        if not len(array):
            raise ModelError(f"input {tensor.name!r} has no samples: there is nothing to compare")
        if not 0 <= sample < len(array):
            raise ModelError(f"--sample {sample} is not in [0, {len(array) - 1}]")
        begin = sample - sample % group
        rows = np.zeros((group, *shape), array.dtype)
        rows[: len(array[begin : begin + group])] = array[begin : begin + group]
        found.append(rows.reshape(tensor.memory_shape))
    return found


def from_tensors(tensors: Mapping[str, Array]) -> Expected:
    """The expected values by tensor name, of any shape with the same number of elements, batch
    first, channels last. A tensor without a value is not compared."""

    def expected(tap: Tap) -> Array | None:
        value, dtype = tensors.get(tap.name), tap.view.dtype.numpy
        if value is not None and value.dtype == np.float32 and _is_bfloat16(tap):
            return value
        if value is not None and value.dtype == np.uint8 and dtype == np.int8:
            return (value.astype(np.int16) - 128).astype(np.int8)  # as the device has unsigned ones
        return value if value is not None and value.dtype == dtype else None

    return expected


def digest(array: Array) -> int:
    """32-bit FNV-1a of the bytes of an array of any shape, in order, as in runtime/layers.c."""
    value = _FNV_START
    for byte in np.ascontiguousarray(array).tobytes():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def read_digests(text: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Reads the output of a debug build of the firmware, which has a line for each tensor:

        loadstone digest STEP BEHIND ELEMENTS DIGEST

    BEHIND is the index of the layer's last store, or of the output of a host step. Returns {(step,
    behind): (elements, digest)}, and ignores other lines. Raises ModelError where there is none.
    """
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["loadstone", "digest"] and len(words) == 6:
            found[int(words[2]), int(words[3])] = (int(words[4]), int(words[5], 16))
    if not found:
        raise ModelError(
            "no line says `loadstone digest`: build the firmware with DEBUG=1, keep what it prints"
        )
    return found
