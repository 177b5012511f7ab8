# SPDX-License-Identifier: Apache-2.0
"""The pictures of docs/any-scale.md, drawn from what the code computes.

In:   the lane that the page works through.
Out:  `pictures`: SVG by file name, of docs/images.
Next: tests/docs/test_any_scale.py compares them, and writes them anew with --update-golden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np

from loadstone.numerics import requantize_double

IMAGES = Path(__file__).resolve().parents[1] / "images"
#: The lane: multiplier and shift of the rule, its zero point; and what the device has in their
#: place: an offset, two multipliers, a constant, a shift of all.
MULTIPLIER, SHIFT, ZERO_POINT = 1359514674, -6, -128
OFFSET, M0, M1, CONSTANT, BITS = -12890, 20745, 5310604, 26730, 21
#: The accumulator that is followed through the device.
EXAMPLE = 5000


def pictures() -> dict[str, str]:
    """All of them."""
    return {
        "any-scale-runs.svg": _runs(),
        "any-scale-tile.svg": _tile(),
        "any-scale-carry.svg": _carry(),
    }


def rule(acc: int) -> int:
    """The output that the framework's kernel gives for an accumulator."""
    level = int(requantize_double(np.array([acc]), MULTIPLIER, SHIFT)[0])
    return min(max(level + ZERO_POINT, -128), 127)


def digits(acc: int) -> tuple[int, int]:
    """The lower and the upper byte of an accumulator with its offset, as the device stores them."""
    x = acc + OFFSET
    return (x + 128) % 256 - 128, min(max((x + 128) >> 8, -128), 127)


def _svg(width: int, height: int, title: str, description: str, body: Iterable[str]) -> str:
    """A picture in the style that all have."""
    other = (IMAGES / "device.svg").read_text(encoding="utf-8")
    (style,) = re.findall(r"  <style>.*?</style>\n", other, re.DOTALL)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="lds" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{title}">\n'
        f"  <title>{title}</title>\n  <desc>{description}</desc>\n{style}"
        f'  <rect class="paper" width="{width}" height="{height}"/>\n'
        + "".join(f"  {line}\n" for line in body)
        + "</svg>\n"
    )


def _text(x: float, y: float, words: str, style: str = "what", anchor: str = "start") -> str:
    side = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{x:g}" y="{y:g}"{side}>{words}</text>'


def _path(points: Iterable[tuple[float, float]], dashed: bool = False) -> str:
    line = " L".join(f"{x:g},{y:g}" for x, y in points)
    return f'<path class="arrow{" dash" if dashed else ""}" d="M{line}"/>'


def _dot(x: float, y: float) -> str:
    return f'<circle class="head" cx="{x:g}" cy="{y:g}" r="3.5"/>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'


def _arrow(points: list[tuple[float, float]]) -> list[str]:
    """A line with a head at its end, which it reaches from the left or from above."""
    (x0, y0), (x, y) = points[-2:]
    tip = f"M{x:g},{y:g} l-8,-4 v8 z" if y == y0 and x > x0 else f"M{x:g},{y:g} l-4,-8 h8 z"
    return [_path(points), f'<path class="head" d="{tip}"/>']


def _runs() -> str:
    """Three runs, the line whose floor the device takes, and the ends that a proof compares."""
    acc = range(4760, 5150)
    outputs = [rule(each) for each in acc]
    levels = sorted(set(outputs))[1:-1]

    def place(at: float, output: float) -> tuple[float, float]:
        return 60 + (at - acc[0]) * 1.75, 40 + (levels[-1] + 1.4 - output) * 52

    body = []
    for level in levels:
        own = [at for at, output in zip(acc, outputs, strict=True) if output == level]
        ends = (place(own[0], level), place(own[-1], level))
        body += [_path(ends), *(_dot(*end) for end in ends)]
        body.append(_text(ends[1][0] + 10, ends[1][1] + 4, str(level), "name"))
        body.append(_text(ends[0][0], ends[0][1] + 20, str(own[0]), "where"))
        body.append(_text(ends[1][0], ends[1][1] + 20, str(own[-1]), "where", "end"))
    line = [(at, _value(at) / 2**BITS) for at in (acc[0] + 12, acc[-1] - 12)]
    body.append(_path((place(*end) for end in line), dashed=True))
    x, y = place(*line[1])
    body.append(_text(x - 8, y - 2, f"(d0 M0 + d1 M1 + {CONSTANT}) / 2^{BITS}", "where", "end"))
    body.append(_text(60, 252, "accumulator, from left to right; output, upwards", "lane"))
    return _svg(
        760,
        262,
        "Three runs of one lane",
        "A staircase of three steps, a dot at both ends of each, and a dashed line through them.",
        body,
    )


def _value(acc: int) -> int:
    low, high = digits(acc)
    return low * M0 + high * M1 + CONSTANT


def _tile() -> str:
    """What happens to a tile, with the numbers of one lane."""
    low, high = digits(EXAMPLE)
    x = EXAMPLE + OFFSET
    first = high + 9 * low - 117 * high + CONSTANT
    second = (first >> 8) + 81 * low + 9 * high
    third = (second >> 8) + 81 * high
    columns: list[tuple[str, str, list[tuple[str, str]]]] = [
        (
            "GEMM",
            "a",
            [
                ("the sum", f"acc = {EXAMPLE}"),
                ("bias and offset", f"x = {x}"),
            ],
        ),
        (
            "ALU, STORE",
            "b",
            [
                ("its low byte", f"d0 = {low}"),
                ("ADD, SHR, MAX, MIN", f"d1 = {high}"),
            ],
        ),
        (
            "LOAD, GEMM, SHR",
            "c",
            [
                ("level 0: 9 d0 - 117 d1 + constant", f"{first}"),
                ("SHR 8; level 8: 81 d0 + 9 d1", f"{second}"),
                ("SHR 8; level 16: 81 d1", f"{third}"),
            ],
        ),
        (
            "ALU, STORE",
            "d",
            [("SHR 5, MAX, MIN", f"{third >> 5}"), ("its low byte", "the output")],
        ),
    ]
    widths, body, at = (176, 176, 232, 136), [], 8.0
    for (head, kind, rows), width in zip(columns, widths, strict=True):
        body.append(_text(at, 22, head.upper(), "lane"))
        for number, (what, value) in enumerate(rows):
            y = 34 + 62 * number
            body.append(_box(at, y, width - 16, 52, kind))
            body += [_text(at + 10, y + 20, what), _text(at + 10, y + 40, value, "name")]
            if number:
                body += _arrow([(at + width / 2 - 8, y - 10), (at + width / 2 - 8, y)])
        if at > 8:
            body += _arrow([(at - 16, 60), (at, 60)])
        at += width
    body.append(
        _text(8, 236, "The digits go through DRAM: only INP tiles can be multiplied.", "what")
    )
    return _svg(
        728,
        248,
        "One tile of a rescaled layer",
        "Four columns: the sum, its digits, the levels, the last shift, with numbers of one lane.",
        body,
    )


def _carry() -> str:
    """A line whose second multiplier makes up for carries, and one whose does not."""

    def panel(left: float, first: int, second: int, name: str) -> list[str]:
        values = [((x + 128) % 256 - 128) * first + ((x + 128) >> 8) * second for x in range(513)]
        low, high = min(values), max(values)

        def place(x: int) -> tuple[float, float]:
            return left + x * 0.62, 190 - (values[x] - low) / (high - low) * 140

        ends = [0, 128, 384, 513]
        shown = [_path(place(x) for x in (begin, end - 1)) for begin, end in pairwise(ends)]
        jumps = [_path((place(at - 1), place(at)), dashed=True) for at in ends[1:-1]]
        marks = [_dot(*place(x)) for x in (0, 127, 128, 256)]
        labels = [
            _text(place(x)[0] + dx, place(x)[1] + dy, f"x = {x}", "where", anchor)
            for x, dx, dy, anchor in (
                (0, 6, 14, "start"),
                (127, 0, -8, "middle"),
                (256, 8, 14, "start"),
            )
        ]
        return [*shown, *jumps, *marks, *labels, _text(left, 24, name, "name")]

    body = [
        *panel(30, 100, 25600, "M0 = 100, M1 = 25600: it rises"),
        *panel(400, 100, 1, "M0 = 100, M1 = 1: it falls at a carry"),
        _text(
            30,
            226,
            "d0 M0 + d1 M1, for x from 0 to 512; dashed: carries: d1 + 1, d0 - 255",
        ),
    ]
    return _svg(
        760,
        240,
        "What a carry does",
        "Two graphs: a straight line, and a saw that falls where the lower digit starts anew.",
        body,
    )


if __name__ == "__main__":
    for name, text in pictures().items():
        (IMAGES / name).write_text(text, encoding="utf-8")
