# SPDX-License-Identifier: Apache-2.0
"""Columns of lanes on an ECP5-85F: no site twice, a lane's cells beside each other, no guesses."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

from loadstone.vta.simulator.rtl_build import RTL
from tools import rtl_floorplan

DEVICE = "device.compute."


def names(lanes: int) -> tuple[list[str], list[str]]:
    """As yosys names the multipliers and memories of a device with so many lanes."""
    multipliers = [
        f"{DEVICE}execute.g_lane[{n}].g_slow.rq_lane.{part}_6_TRELLIS_FF_Q_DI_MULT18X18D_P9"
        for n in range(lanes)
        for part in ("high_high", "high_low", "low_high", "low_low")
    ]
    multipliers += [
        f"{DEVICE}macs.g_batch[0].g_out[{n}].products[{k}]_TRELLIS_FF_Q_DI_MULT18X18D_P9"
        for n in range(lanes)
        for k in range(lanes)
    ]
    multipliers += [f"device.load.engine.check.area_MULT18X18D_P9_{n}" for n in range(8)]
    memories = [
        f"{DEVICE}{memory}words.0.{n}"
        for memory, count in (
            ("acc_ram.first.", 4 * lanes),
            ("acc_ram.g_second.second.", 4 * lanes),
            ("acc_ram.out.", lanes),
            ("macs.wgt_ram.memory.", 4 * lanes),
            ("macs.inp_ram.memory.", 8),
            ("uop_ram.g_bank[1].memory.", 4),
        )
        for n in range(count)
    ]
    memories += [f"device.fetch.buffer.words.0.{n}" for n in range(4)]
    memories += [f"device.g_queue[{n % 3}].queue.memory.words.0.{n}" for n in range(15)]
    return multipliers, [*memories, *(f"memory.memory.words.{n}.0" for n in range(32))]


def tile(site: str) -> tuple[int, int]:
    match = re.match(r"X(\d+)/Y(\d+)/(?:MULT18_[0145]|EBR[0-3])$", site)
    assert match is not None
    return int(match[1]), int(match[2])


def test_every_cell_of_a_1x8x8_has_a_site_of_its_own() -> None:
    multipliers, memories = names(8)
    sites = rtl_floorplan.assign(multipliers, memories, 8)
    assert sites.keys() == {*multipliers, *memories}
    assert max(Counter(sites.values()).values()) == 1
    assert {tile(sites[name])[1] for name in multipliers} == {34, 58}
    assert {tile(sites[name])[1] for name in memories} == {22, 46, 70, 82}
    assert all("MULT18" in sites[name] for name in multipliers)
    assert all("EBR" in sites[name] for name in memories)


def test_a_lane_is_a_column_and_lanes_do_not_overlap() -> None:
    multipliers, memories = names(8)
    sites = rtl_floorplan.assign(multipliers, memories, 8)
    columns = []
    for lane in range(8):
        own = [
            name for name in multipliers if f"g_lane[{lane}]" in name or f"g_out[{lane}]" in name
        ]
        for memory in ("first", "second", "wgt_ram.memory"):
            own += [
                f
                for f in memories
                if (p := f.split(f"{memory}.words.0."))[1:] and int(p[1]) // 4 == lane
            ]
        own.append(f"{DEVICE}acc_ram.out.words.0.{lane}")
        assert len(own) == 4 + 8 + 3 * 4 + 1
        columns.append(sorted(tile(sites[name])[0] for name in own))
    assert all(column[-1] - column[0] <= 15 for column in columns)
    assert all(left[-1] < right[0] for left, right in pairwise(columns))
    shared = [tile(sites[name])[0] for name in memories if ".uop_ram." in name or ".fetch." in name]
    assert columns[3][-1] < min(shared) <= max(shared) < columns[4][0]


def test_lanes_of_stores_have_a_row_of_their_own_beside_out() -> None:
    """A device whose stores requantize: OUT is as wide as ACC, and store alone reads it."""
    multipliers, memories = names(8)
    lanes = [
        f"device.store.g_requantize.lanes.g_lane[{n}].lane.{part}_6_TRELLIS_FF_Q_DI_MULT18X18D_P9"
        for n in range(8)
        for part in ("high_high", "high_low", "low_high", "low_low")
    ]
    smaller = [
        name for name in memories if not re.search(r"(first|second|wgt_ram\S*|out)\.words", name)
    ]
    for memory in (
        "acc_ram.first.",
        "acc_ram.g_second.second.",
        "acc_ram.out.",
        "macs.wgt_ram.memory.",
    ):
        smaller += [f"{DEVICE}{memory}words.0.{n}" for n in range(16)]
    more = [*multipliers, *lanes, "device.store.g_requantize.steps_MULT18X18D"]
    sites = rtl_floorplan.assign(more, smaller, 8)
    assert sites.keys() == {*more, *smaller}
    assert max(Counter(sites.values()).values()) == 1
    assert {tile(sites[name])[1] for name in lanes} == {10}
    for n in range(8):
        own = [name for name in more if re.search(rf"(g_lane|g_out)\[{n}\]", name)]
        own += [f"{DEVICE}acc_ram.out.words.0.{2 * n + k}" for k in range(2)]
        columns = sorted(tile(sites[name])[0] for name in own)
        assert columns[-1] - columns[0] <= 15
        assert {tile(sites[name])[1] for name in own[-2:]} == {22}


def test_what_has_no_room_is_left_to_the_placer() -> None:
    multipliers, memories = names(16)
    sites = rtl_floorplan.assign(multipliers, memories, 16)
    assert max(Counter(sites.values()).values()) == 1
    assert 0 < len(sites) < len(multipliers) + len(memories)


def test_the_names_are_those_of_the_sources() -> None:
    """A pattern that no instance has any more would move cells silently."""
    text = "\n".join(path.read_text() for path in RTL.glob("*.sv"))
    for instance in (
        *("g_lane", "g_slow", "g_out", "g_second", "g_queue"),
        *("acc_ram", "first", "second", "out", "wgt_ram", "inp_ram", "uop_ram", "fetch", "macs"),
    ):
        assert re.search(rf"(begin : | ){instance} ?(\(|\n|$)", text, re.MULTILINE), instance


def test_the_netlist_is_kept_but_for_the_sites(tmp_path: Path) -> None:
    multipliers, memories = names(4)
    cells = {
        name: {"type": kind, "attributes": {"src": "here"}, "connections": {}}
        for kind, group in (("MULT18X18D", multipliers), ("DP16KD", memories))
        for name in group
    }
    cells["logic"] = {"type": "LUT4", "attributes": {}, "connections": {}}
    source, target = tmp_path / "lds_ulx3s.json", tmp_path / "out.json"
    source.write_text(
        json.dumps({"modules": {"LUT4": {"cells": {}}, "lds_ulx3s": {"cells": cells}}})
    )
    assert rtl_floorplan.main([str(source), str(target)]) == 0
    written = json.loads(target.read_text())["modules"]["lds_ulx3s"]["cells"]
    sites = {name: cell["attributes"].pop("BEL", None) for name, cell in written.items()}
    assert written == cells
    assert sites.pop("logic") is None
    assert sites == rtl_floorplan.assign(multipliers, memories, 4)
