# SPDX-License-Identifier: Apache-2.0
"""Warn when a quantization has lost much accuracy, or when its samples were not representative.

In:   the report of a quantization (report.py); samples.
Out:  warnings, a sentence each.
Next: the commands quantize and compile print them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.files import JsonObject

if TYPE_CHECKING:
    from loadstone.quantization.samples import Samples

__all__ = [
    "NOISY_DB",
    "decibels_text",
    "faults_of_samples",
    "host_kind",
    "host_text",
    "outputs_text",
    "remarks_of",
    "warnings_of",
    "weights_text",
]

#: A result with a lower signal-to-noise ratio, in decibels, is seldom useful.
NOISY_DB = 15.0
#: The number of names in a warning.
_NAMED = 3


def faults_of_samples(samples: Samples, names: Sequence[str]) -> list[str]:
    """The reasons why samples do not show the range of an input, a sentence each. names: of the
    inputs."""
    found = []
    if len(samples) == 1:
        found.append("1 sample: every range is that of this one; give 32 to 256 different ones")
    for array, name in zip(samples.arrays, names, strict=True):
        rows = array.reshape(len(array), -1)
        if rows.shape[1] == 0:
            continue
        constant = int(np.sum((rows == rows[:, :1]).all(axis=1))) if rows.shape[1] > 1 else 0
        if len(rows) > 1 and bool((rows == rows[0]).all()):
            found.append(f"input {name!r} is the same in all {len(rows)} samples")
        elif constant:
            found.append(
                f"input {name!r} has one value everywhere in {constant} of {len(rows)} samples"
            )
    return found


def warnings_of(report: JsonObject) -> list[str]:
    """Warnings of samples that show little, of outputs that are mostly noise, and of layers that
    lose much; a sentence each."""
    found = list(report["sample_faults"])
    for number, ratio in enumerate(report["output_sqnr_db"]):
        if number in report["silent_outputs"]:
            found.append(f"output {number} is zero on all samples: nothing is known of its noise")
        elif ratio is not None and ratio < NOISY_DB:
            found.append(
                f"output {number} has {ratio:.1f} dB of signal to noise, below {NOISY_DB:g}: give "
                "other samples, or keep the layers that lose most float (--keep-float auto), or in "
                "16 bits (--keep-16 auto)"
            )
    noisy = [e for e in report["layers"] if e["sqnr_db"] is not None and e["sqnr_db"] < NOISY_DB]
    if noisy:
        named = ", ".join(f"{e['name']} {e['sqnr_db']:.1f} dB" for e in noisy[:_NAMED])
        more = f" and {len(noisy) - _NAMED} more" if len(noisy) > _NAMED else ""
        found.append(f"below {NOISY_DB:g} dB of signal to noise, in order: {named}{more}")
    return found


def remarks_of(report: JsonObject) -> list[tuple[str, str]]:
    """What people are told besides the figures, each with its heading."""
    text = weights_text(report)
    off = [("int8 weights", f"off by {text}")] if text else []
    return [*off, *(("warning", warning) for warning in warnings_of(report))]


def outputs_text(report: JsonObject) -> str:
    """Signal to noise of each output: `37.9 dB, exact, zero on all samples`."""
    return ", ".join(
        "zero on all samples" if number in report["silent_outputs"] else decibels_text(value)
        for number, value in enumerate(report["output_sqnr_db"])
    )


def host_text(report: JsonObject) -> str:
    """The layers that stay on the host, their benefit, and their cost."""
    gain = report["host_gain_db"]
    return (
        f"{', '.join(report['host'])}; {report['host_cycles']:,} cycles of "
        + (report["host_of"] or "the device's clock, by one for each multiply-accumulate")
        + ("" if gain is None else f"; {gain:+.1f} dB at the worst output")
    )


def weights_text(report: JsonObject) -> str:
    """By how much int8 changes the weights of the layers where it changes them most, of a report
    with weight_errors: `head 1.20% (int8 0.84%), gate 0.61% and 28 more`, in brackets what int8
    would change of weights that keep 4 bits; empty for another."""
    errors = sorted(report.get("weight_errors", ()), key=lambda entry: -entry["error"])
    named = ", ".join(map(_weights, errors[:_NAMED]))
    return named + (f" and {len(errors) - _NAMED} more" if len(errors) > _NAMED else "")


def _weights(entry: JsonObject) -> str:
    beside = f" (int8 {entry['int8']:.2%})" if "int8" in entry else ""
    return f"{entry['name'][-40:]} {entry['error']:.2%}{beside}"


def host_kind(report: JsonObject) -> str:
    """The type of the layers on the host."""
    return "float" if report["host_bits"] == 32 else f"{report['host_bits']} bits"


def decibels_text(value: float | None) -> str:
    """None: there is no noise."""
    return "exact" if value is None else f"{value:.1f} dB"
