# SPDX-License-Identifier: Apache-2.0
"""What is chosen of a layer's schedule and of a region's program: named, and kept in files.

In:   an operator and its device, or the operators of a region; the choices that the compile was
      given (backend/schedule_choices.py).
Out:  `LayerChoice`, `RegionChoice`. None in a field: the cost model decides.
Next: operators/, region/fold_pixels.py, passes/prefetch.py and passes/allocate/allocate.py do as
      they say.

A choice is kept by what decides how good it is: device and timing, the operator's kind, shapes and
quantization; not by names. Where there is RQ, every int8 weight costs the same, and layers of one
shape share what was found; where the form of the requantization depends on the numbers, they are
part of the key.

    {"tile": [1, 1, 2, 4, 8, 28], "order": "pixels", "fold": [0, 1], "joined": 4, "form": "digits"}
    {"columns": [2, 2, 1], "prefetch": 3, "place": "spread"}

No choice changes an integer of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import numpy as np

from loadstone import graph as g
from loadstone.backend.schedule_choices import ScheduleChoices
from loadstone.errors import ConfigError
from loadstone.files import JsonObject
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.device.timing_tables import WORST_EXTRA
from loadstone.vta.isa.spec import Capability

__all__ = [
    "FORMS",
    "NO_LAYER_CHOICE",
    "NO_REGION_CHOICE",
    "ORDERS",
    "PLACES",
    "LayerChoice",
    "RegionChoice",
    "device_digest",
    "layer_choice",
    "layer_key",
    "region_choice",
    "region_key",
]

#: Which loops are outside: pixels, and each input tile is loaded once; or channels, and weights.
ORDERS = ("pixels", "channels")
#: How the GEMM core requantizes: by digits of the sum, or by parts of the weights.
FORMS = ("digits", "parts")
#: Where tiles go in a scratchpad: passes/allocate/allocate.py says what each is.
PLACES = ("spread", "packed", "fitted")
_MOST = 1 << 24


@dataclass(frozen=True)
class LayerChoice:
    """tile: of the kernel's loops, outermost first: samples, groups, output blocks, input blocks,
    rows, columns of a convolution; rows, columns, input blocks where the GEMM core requantizes;
    the loops over tiles of an operator on elements. A tile that fits its scratchpads once alone is
    not double-buffered. order: one of ORDERS. fold: whether the host folds a first layer's taps
    along (height, width) into channels. joined: most blocks of channels in one kernel, where the
    GEMM core requantizes. form: one of FORMS."""

    tile: tuple[int, ...] | None = None
    order: str | None = None
    fold: tuple[int, ...] | None = None
    joined: int | None = None
    form: str | None = None

    def to_json(self) -> JsonObject:
        """Without what is left to the cost model."""
        return _to_json(self)

    @staticmethod
    def from_json(record: JsonObject, where: str) -> LayerChoice:
        """Raises ConfigError for what is no such record."""
        return LayerChoice(**_read(record, _LAYER, where))


@dataclass(frozen=True)
class RegionChoice:
    """columns: of each tensor between two operators that can fold, how many columns lie in its
    channels. prefetch: quarters of WGT that weights may fill ahead of their turn. place: one of
    PLACES, which is tried first."""

    columns: tuple[int, ...] | None = None
    prefetch: int | None = None
    place: str | None = None

    def to_json(self) -> JsonObject:
        """Without what is left to the compiler."""
        return _to_json(self)

    @staticmethod
    def from_json(record: JsonObject, where: str) -> RegionChoice:
        """Raises ConfigError for what is no such record."""
        return RegionChoice(**_read(record, _REGION, where))


def _to_json(choice: LayerChoice | RegionChoice) -> JsonObject:
    values = {field.name: getattr(choice, field.name) for field in fields(choice)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None
    }


def _sizes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(x) is int and 0 <= x <= _MOST for x in value):
        raise ValueError(f"a list of whole numbers from 0 to {_MOST}")
    return tuple(value)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise ValueError(f"a whole number from 0 to {_MOST}")
    return value


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return str(value)

    return read


_LAYER: dict[str, Callable[[object], Any]] = {
    "tile": _sizes,
    "order": _one_of(ORDERS),
    "fold": _sizes,
    "joined": _number,
    "form": _one_of(FORMS),
}
_REGION: dict[str, Callable[[object], Any]] = {
    "columns": _sizes,
    "prefetch": _number,
    "place": _one_of(PLACES),
}


def _read(
    record: JsonObject, readers: dict[str, Callable[[object], Any]], where: str
) -> dict[str, Any]:
    found = {}
    for name, value in record.items():
        if name not in readers:
            raise ConfigError(f"{where}: {name!r} is none of {', '.join(readers)}")
        try:
            found[name] = readers[name](value)
        except ValueError as wanted:
            raise ConfigError(f"{where}: {name} {value!r} is not {wanted}") from None
    return found


#: All is left to the cost model.
NO_LAYER_CHOICE = LayerChoice()
NO_REGION_CHOICE = RegionChoice()


# --- what is chosen -------------------------------------------------------------------------------
def layer_choice(op: g.Operator, config: HwConfig, choices: ScheduleChoices | None) -> LayerChoice:
    """The choice that was made for an operator; an empty one for an operator without choices."""
    if choices is None:
        return NO_LAYER_CHOICE
    return LayerChoice.from_json(choices.record(layer_key(op, config)), f"layer {op.name}")


def region_choice(
    operators: Sequence[g.Operator], config: HwConfig, choices: ScheduleChoices | None
) -> RegionChoice:
    """The same of operators that run together, as they are before columns are folded."""
    if choices is None:
        return NO_REGION_CHOICE
    record = choices.record(region_key(operators, config))
    return RegionChoice.from_json(record, f"region of {operators[0].name}")


# --- what they are kept by ------------------------------------------------------------------------
def device_digest(config: HwConfig) -> str:
    """Of all that decides cycles: what programs mean, the bus, every constant of the timing but the
    one that is for bounds alone."""
    timing = sorted(
        (name, constant.value) for name, constant in config.timing.items() if name != WORST_EXTRA
    )
    said = (config.fingerprint(), config.bus_bits, timing)
    return sha256(repr(said).encode()).hexdigest()[:16]


def layer_key(op: g.Operator, config: HwConfig) -> str:
    """16 hex digits, of device and operator without names."""
    return _digest((device_digest(config), *_content(op, config)))


def region_key(operators: Sequence[g.Operator], config: HwConfig) -> str:
    """The same of several operators and how they hang together."""
    numbers: dict[str, int] = {}
    parts: list[object] = ["region", device_digest(config)]
    for op in operators:
        tensors = (*op.inputs, *op.outputs)
        parts.append([numbers.setdefault(tensor.name, len(numbers)) for tensor in tensors])
        parts.append(_content(op, config))
    return _digest(parts)


def _digest(said: object) -> str:
    return sha256(repr(said).encode()).hexdigest()[:16]


def _content(op: g.Operator, config: HwConfig) -> tuple[object, ...]:
    """What decides the operator's cycles, printable."""
    by_shape = config.has(Capability.REQUANTIZE) and isinstance(op, g.Weighted)
    skipped = {"name", "inputs", "outputs"}
    values = []
    for field in fields(op):
        if field.name in skipped:
            continue
        value = getattr(op, field.name)
        if isinstance(value, np.ndarray):
            value = (value.shape, str(value.dtype), _numbers(value, by_shape))
        values.append((field.name, value))
    tensors: list[tuple[Any, ...]] = [
        (tensor.shape, str(tensor.dtype), tensor.quantization)
        for tensor in (*op.inputs, *op.outputs)
    ]
    if isinstance(op, g.Weighted) and by_shape:
        tensors = [(*tensor[:2], tensor[2] and tensor[2].zero_point) for tensor in tensors]
        values.append(("parts", _parts(op)))
    return type(op).__name__, values, tensors


def _numbers(value: np.ndarray, by_shape: bool) -> str:
    return "" if by_shape else sha256(np.ascontiguousarray(value).tobytes()).hexdigest()


def _parts(op: g.Weighted) -> str:
    """Which weights, less their zero points, leave int8: they take GEMMs of their own."""
    zeros = op.weight_zero_points.astype(np.int64).reshape(-1, *[1] * (op.weights.ndim - 1))
    centred = op.weights.astype(np.int64) - zeros
    large = (centred < -128) | (centred > 127)
    return sha256(np.packbits(large).tobytes()).hexdigest() if large.any() else ""
