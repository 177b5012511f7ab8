# SPDX-License-Identifier: Apache-2.0
"""Draw when load, compute and store work on which layer: one HTML page that needs nothing else.

In:   profiles of a model's device programs (profile.py), a title, lines of text.
Out:  HTML with an SVG per program: a row per stage, a colour per layer, names and cycles under the
      pointer; a table by layer.
Next: a person opens it in a browser. For zooming into tokens and single instructions there is
      `loadstone replay --trace`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Protocol

from loadstone.vta.isa.spec import Stage

__all__ = ["page"]

_WIDTH, _ROW, _LEFT = 1100, 34, 70
_STAGES = ("load", "compute", "store")
#: Events closer together than this part of the width are drawn as one bar.
_MERGE = 0.0008


class _Event(Protocol):
    """What sim.Event has."""

    @property
    def insn(self) -> int: ...

    @property
    def stage(self) -> Stage: ...

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


class _Layer(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def first_cycle(self) -> int: ...

    @property
    def last_cycle(self) -> int: ...

    @property
    def busy_cycles(self) -> dict[str, int]: ...


class ProgramTimes(Protocol):
    """What profile.py's Profile has."""

    @property
    def events(self) -> Sequence[_Event]: ...

    @property
    def layer_of(self) -> Sequence[str]: ...

    def layers(self) -> Sequence[_Layer]: ...


def page(title: str, facts: Iterable[str], programs: Sequence[ProgramTimes]) -> str:
    """The whole page."""
    body = [
        f"<h1>{escape(title)}</h1>",
        "<ul>",
        *(f"<li>{escape(fact)}</li>" for fact in facts),
        "</ul>",
    ]
    for number, program in enumerate(programs):
        colours = {layer.name: _colour(k) for k, layer in enumerate(program.layers())}
        heading = (
            f"Device program {number + 1} of {len(programs)}"
            if len(programs) > 1
            else "Device program"
        )
        body += [
            f"<h2>{heading}</h2>",
            _picture(program, colours),
            _table(program.layers(), colours),
        ]
    head = (
        f'<head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
    )
    return "\n".join(
        ("<!doctype html>", f'<html lang="en">{head}', "<body>", *body, "</body></html>", "")
    )


def _picture(program: ProgramTimes, colours: dict[str, str]) -> str:
    total = max((event.end for event in program.events), default=1) or 1
    scale = _WIDTH / total
    height = _ROW * len(_STAGES)
    parts = [
        f'<svg viewBox="0 0 {_LEFT + _WIDTH} {height + 22}" role="img" aria-label="timeline '
        f'of {total} cycles">'
    ]
    for row, stage in enumerate(_STAGES):
        parts.append(f'<text x="0" y="{row * _ROW + 21}">{stage}</text>')
        parts.append(
            f'<rect class="lane" x="{_LEFT}" y="{row * _ROW + 4}" width="{_WIDTH}" '
            f'height="{_ROW - 8}"/>'
        )
        for first, last, name in _bars(program, stage, total):
            box = (
                f'x="{_LEFT + first * scale:.2f}" y="{row * _ROW + 4}" '
                f'width="{max((last - first) * scale, 0.4):.2f}" height="{_ROW - 8}"'
            )
            tip = f"<title>{escape(name)}: {stage}, cycles {first} to {last}</title>"
            parts.append(f'<rect {box} fill="{colours.get(name, "#999")}">{tip}</rect>')
    for tick in range(5):
        anchor = ("start", "middle", "middle", "middle", "end")[tick]
        parts.append(
            f'<text x="{_LEFT + tick * _WIDTH / 4:.0f}" y="{height + 16}" '
            f'text-anchor="{anchor}">{total * tick // 4}</text>'
        )
    return "".join([*parts, "</svg>"])


def _bars(program: ProgramTimes, stage: str, total: int) -> Iterable[tuple[int, int, str]]:
    """(first cycle, last cycle, layer), neighbours of one layer joined where nobody could see the
    gap."""
    gap = total * _MERGE
    open_bar: tuple[int, int, str] | None = None
    for event in sorted(
        (e for e in program.events if e.stage.name.lower() == stage), key=lambda e: e.start
    ):
        name = program.layer_of[event.insn]
        if open_bar is not None and open_bar[2] == name and event.start - open_bar[1] <= gap:
            open_bar = (open_bar[0], event.end, name)
            continue
        if open_bar is not None:
            yield open_bar
        open_bar = (event.start, event.end, name)
    if open_bar is not None:
        yield open_bar


def _table(layers: Sequence[_Layer], colours: dict[str, str]) -> str:
    head = (
        "<tr><th></th><th>layer</th><th>from</th><th>to</th>"
        + "".join(f"<th>{stage}</th>" for stage in _STAGES)
        + "</tr>"
    )
    rows = []
    for layer in layers:
        busy = "".join(f"<td>{layer.busy_cycles[stage]}</td>" for stage in _STAGES)
        swatch = f'<td><span style="background:{colours[layer.name]}"></span></td>'
        rows.append(
            f"<tr>{swatch}<td>{escape(layer.name)}</td><td>{layer.first_cycle}</td><td>{layer.last_cycle}</td>{busy}</tr>"
        )
    return (
        f"<table>{head}{''.join(rows)}</table><p>Cycles; the stage columns count cycles "
        "in which the stage worked for the layer.</p>"
    )


def _colour(number: int) -> str:
    """Hues a golden angle apart, so that neighbours differ."""
    return f"hsl({number * 137.5 % 360:.0f} 65% {48 + 10 * (number % 2)}%)"


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px }
body { padding: 0 1rem; color: #222; background: #fff }
svg { width: 100%; font-size: 13px } .lane { fill: #f0f0f0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .15rem .6rem; text-align: right }
td:nth-child(2), th:nth-child(2) { text-align: left; max-width: 40rem; overflow-wrap: anywhere }
td span { display: inline-block; width: 1em; height: 1em }
"""
