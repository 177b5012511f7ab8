# SPDX-License-Identifier: Apache-2.0
"""Where multipliers and block RAMs of hw_sim/rtl stand on an ECP5-85F: a column for each lane.

In:   the netlist that yosys wrote (rtl_synthesis.py), with the instances' names in its cells'.
Out:  the same with nextpnr's attribute BEL on those cells; all others are nextpnr's to place.
Next: `make route`.

A device is one lane beside the other: a lane's weights, products, accumulators and RQ are
connected to each other, and to other lanes by little but addresses. nextpnr's placer does not
see that. Left alone it puts a lane's multipliers up to 77 tiles from each other and 70 rows from
its accumulators: all wires together are half as long again, and along a row of multipliers more
nets want to pass than there are wires. What stands fixed also holds the placer's equations.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["assign", "main"]

_Rows = list[tuple[re.Pattern[str], tuple[int, ...]]]
_MULTIPLIER, _MEMORY = "MULT18X18D", "DP16KD"
#: The tiles where a group of four sites begins; the seventh is the middle of the device.
_GROUPS = [4 + 9 * n for n in range(7)] + [69 + 9 * n for n in range(6)]
_SITES = 4 * len(_GROUPS)
_MIDDLE = range(24, 28)
#: Kind -> (tile in its group, the site's name) of the four.
_GROUP_SITES = {
    _MULTIPLIER: [(0, "MULT18_0"), (1, "MULT18_1"), (4, "MULT18_4"), (5, "MULT18_5")],
    _MEMORY: [(0, "EBR0"), (2, "EBR1"), (4, "EBR2"), (6, "EBR3")],
}
#: A lane of a store that requantizes.
_STORE_LANE = re.compile(r"\.store\..*\.g_lane\[(\d+)\]\.")
#: Rows of tiles that hold them. Memories: 22, 46, 70, 82; multipliers: 10, 34, 58.
_MULTIPLIERS_OF_LANES: _Rows = [
    (re.compile(r"\.g_lane\[(\d+)\]\.g_slow\."), (58, 34)),
    (_STORE_LANE, (10,)),
    (re.compile(r"\.macs\..*\.g_out\[(\d+)\]"), (34, 58)),
]
#: A memory as wide as a tile: yosys numbers its parts from the lowest lane on.
_MEMORIES_OF_LANES: _Rows = [
    (re.compile(r"\.acc_ram\.first\.words\.\d+\.(\d+)$"), (46, 70)),
    (re.compile(r"\.acc_ram\.g_second\.second\.words\.\d+\.(\d+)$"), (46, 70)),
    (re.compile(r"\.macs\.wgt_ram\..*words\.\d+\.(\d+)$"), (22,)),
]
#: OUT's copy of ACC, which store alone reads: beside store's lanes, where it has some.
_OUT = re.compile(r"\.acc_ram\.out\.words\.\d+\.(\d+)$")
_OUT_ROW, _OUT_ROW_OF_LANES = 70, 22
#: What all lanes share: the middle of a row, then what lanes leave of it, from the middle on.
_MEMORIES_OF_ALL = [(".inp_ram.", 22), (".uop_ram.", 46), (".fetch.", 70), (".g_queue[", 70)]
_BOARD_ROW = 82


class _Sites:
    """The sites that are free, of each row, by number from the left."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._width = _MIDDLE.start // (lanes // 2)  # sites of a row in a lane's column
        self._taken: set[tuple[str, int, int]] = set()

    def _column(self, lane: int) -> range:
        half = self._lanes // 2
        first = lane * self._width if lane < half else _MIDDLE.stop + (lane - half) * self._width
        return range(first, first + self._width)

    def take(self, kind: str, rows: Iterable[int], numbers: Iterable[int]) -> str | None:
        """The name of the first that is free; None where there is none."""
        wanted = list(numbers)
        for row in rows:
            for number in wanted:
                if (kind, row, number) not in self._taken:
                    self._taken.add((kind, row, number))
                    tile, name = _GROUP_SITES[kind][number % 4]
                    return f"X{_GROUPS[number // 4] + tile}/Y{row}/{name}"
        return None

    def lane(self, kind: str, lane: int, rows: Iterable[int]) -> str | None:
        """One in a lane's column."""
        return self.take(kind, rows, self._column(lane))

    def shared(self, kind: str, row: int) -> str | None:
        """One in the middle, or as near to it as lanes leave one."""
        outwards = sorted(range(self._lanes), key=lambda n: (abs(2 * n - self._lanes + 1), n))
        return self.take(kind, [row], [*_MIDDLE, *(s for n in outwards for s in self._column(n))])


def _assign_multipliers(names: Sequence[str], sites: _Sites) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for pattern, rows in _MULTIPLIERS_OF_LANES:
        for name in names:
            if match := pattern.search(name):
                found[name] = sites.lane(_MULTIPLIER, int(match[1]), rows)
    for name in (name for name in names if name not in found):
        found[name] = next(
            filter(None, (sites.shared(_MULTIPLIER, row) for row in (34, 58, 10))), None
        )
    return found


def _assign_memories(
    names: Sequence[str], sites: _Sites, lanes: int, out_row: int
) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for pattern, rows in [*_MEMORIES_OF_LANES, (_OUT, (out_row,))]:
        parts = [(int(match[1]), name) for name in names if (match := pattern.search(name))]
        count = max((part for part, _ in parts), default=0) + 1
        for part, name in sorted(parts):
            found[name] = sites.lane(_MEMORY, part * lanes // count, rows)
    for word, row in _MEMORIES_OF_ALL:
        for name in (name for name in names if word in name):
            found[name] = sites.shared(_MEMORY, row)
    board = [name for name in names if name not in found][:_SITES]
    first = (_SITES - len(board)) // 2
    for number, name in enumerate(board, first):
        found[name] = sites.take(_MEMORY, [_BOARD_ROW], [number])
    return found


def assign(multipliers: Iterable[str], memories: Iterable[str], lanes: int) -> dict[str, str]:
    """Cell -> its site, of the cells with these names. A cell without a place of its own, or
    whose place is taken, is left out."""
    sites = _Sites(lanes)
    names = sorted(multipliers)
    out_row = _OUT_ROW_OF_LANES if any(map(_STORE_LANE.search, names)) else _OUT_ROW
    found = _assign_multipliers(names, sites)
    found |= _assign_memories(sorted(memories), sites, lanes, out_row)
    return {name: site for name, site in found.items() if site is not None}


def _lanes(names: Iterable[str]) -> int:
    numbers = [int(match[1]) for name in names if (match := re.search(r"g_lane\[(\d+)\]", name))]
    return max(numbers) + 1


def main(arguments: Sequence[str]) -> int:
    """`make route`: NETLIST OUT; the netlist's name is that of its top."""
    source, target = (Path(argument) for argument in arguments)
    netlist = json.loads(source.read_text(encoding="utf-8"))
    cells: dict[str, dict[str, Any]] = netlist["modules"][source.stem]["cells"]
    kinds = {
        kind: [name for name, cell in cells.items() if cell["type"] == kind]
        for kind in (_MULTIPLIER, _MEMORY)
    }
    placed = assign(kinds[_MULTIPLIER], kinds[_MEMORY], _lanes(cells))
    for name, site in placed.items():
        cells[name]["attributes"]["BEL"] = site
    target.write_text(json.dumps(netlist), encoding="utf-8")
    print(f"{len(placed)} of {sum(map(len, kinds.values()))} multipliers and memories have a site")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
