# SPDX-License-Identifier: Apache-2.0
"""The options of a quantization.

In:   the arguments of `loadstone.quantize`, the options of `loadstone quantize`.
Out:  Options, checked.
Next: pipeline.py follows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loadstone.errors import LoadstoneError

if TYPE_CHECKING:
    from loadstone.quantization.network import Layer

__all__ = ["DYNAMIC", "Options", "checked"]

#: The scheme whose scales are found when the network runs (dynamic.py).
DYNAMIC = "dynamic"


@dataclass(frozen=True)
class Options:
    """The steps of a quantization. scheme: empty for affine. method: empty for expected.

    half_up: convolutions round ties up, which is cheapest on a device without a multiplier; for
        scheme pow2.
    equalize, compensate, correct: the repairs. host_cycles: the budget of the mixed plan on the
        host, in cycles as `cost` counts them. keep_float: "auto": layers stay float on the host
        until the outputs are good (mixed.GOOD_DB), within host_cycles where these are given.
        keep_16: "auto": the same with int16 instead of float, which frontend/wide.py computes.
    weights4: "all": of scheme dynamic, dense layers whose weights have 16 equidistant values in
        each group of 32 inputs keep them, as a device with the capability weights4 loads them.
    sensitivity: measure every layer alone, for the report. cost: the cycles of a layer
        (network.Layer) on the host; None: mixed.host_cycles. host: whose cycles these are, for the
        report. show: progress bars.
    """

    scheme: str = ""
    method: str = ""
    per_channel: bool = True
    half_up: bool = False
    equalize: bool = True
    compensate: bool = True
    correct: bool = True
    host_cycles: int = 0
    keep_float: str = ""
    keep_16: str = ""
    weights4: str = ""
    sensitivity: bool = False
    cost: Callable[[Layer], int] | None = None
    host: str = ""
    show: bool = False


def checked(options: Options) -> Options:
    """The options with default names filled in. Raises LoadstoneError for unknown names."""
    from loadstone.quantization.scales import METHODS, SCHEMES

    scheme = options.scheme or "affine"
    if scheme not in (*SCHEMES, DYNAMIC):
        raise LoadstoneError(
            f"scheme {scheme!r} does not exist: choose one of {', '.join(SCHEMES)}, {DYNAMIC}"
        )
    if scheme == DYNAMIC:
        return _checked_dynamic(options)
    if options.weights4:
        raise LoadstoneError(
            f"weights4 is said with scheme {scheme!r}: it is for scheme {DYNAMIC}, or leave it out"
        )
    method = options.method or "expected"
    if method not in METHODS:
        raise LoadstoneError(
            f"method {method!r} does not exist: choose one of {', '.join(METHODS)}"
        )
    if options.half_up and not SCHEMES[scheme].powers_of_two:
        raise LoadstoneError(
            f"half_up is said with scheme {scheme!r}: ties are rare there, and rounded to even; "
            "choose pow2 or leave it out"
        )
    for name in ("keep_float", "keep_16"):
        if getattr(options, name) not in ("", "auto"):
            raise LoadstoneError(
                f"{name} {getattr(options, name)!r} does not exist: the only value is auto"
            )
    if options.keep_float and options.keep_16:
        raise LoadstoneError(
            "keep_float and keep_16 are two ways for the same layers: give one of them"
        )
    if options.host_cycles < 0:
        raise LoadstoneError(f"host_cycles is {options.host_cycles}: it must be 0 or more")
    return replace(options, scheme=scheme, method=method)


#: Options of the other schemes, which choose ranges before.
_OF_RANGES = ("method", "half_up", "host_cycles", "keep_float", "keep_16", "sensitivity")


def _checked_dynamic(options: Options) -> Options:
    for name in _OF_RANGES:
        if getattr(options, name) != getattr(Options, name):
            raise LoadstoneError(
                f"{name} is said with scheme {DYNAMIC!r}, which finds each row's scale when the "
                "network runs: leave it out, or choose another scheme"
            )
    if options.weights4 not in ("", "all"):
        raise LoadstoneError(
            f"weights4 {options.weights4!r} is not for networks without a decoder's layers: the "
            "only value is all"
        )
    if options.weights4 and not options.per_channel:
        raise LoadstoneError(
            "weights4 gives each channel a scale of its own, and per_channel is false: leave one "
            "of both out"
        )
    return options
