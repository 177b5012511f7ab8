# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/replay.py: programs measured on VTA's RTL, byte for byte and cycle for cycle."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.errors import LoadstoneError
from loadstone.simulator.replayed import figures
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.replay import replay
from loadstone.vta.simulator.vectors import (
    Vector,
    load_vectors,
)
from tests.sample_model import dense_model


def test_every_measured_program_is_exact_to_the_byte_and_to_the_cycle(shared: Path) -> None:
    replayed = [replay(v)[0] for v in load_vectors([shared / "vta_rtl"])]
    assert [r.name for r in replayed if not r.exact] == []
    assert [(r.name, r.cycles, r.measured) for r in replayed if any(r.errors().values())] == []
    counts = {g.group: (g.programs, g.measured) for g in figures(replayed)}
    assert counts == {"micro": (92, 92), "random": (80, 80), "conv": (8, 8), "fsim_only": (20, 0)}


def test_every_rescaled_layer_is_exact_to_the_byte_and_to_the_cycle(shared: Path) -> None:
    """Layers of real networks with any scales, in a folder without index.json."""
    replayed = [replay(v)[0] for v in load_vectors([shared / "vta_exact"])]
    assert len(replayed) == len({r.name for r in replayed}) == 15
    assert [r.name for r in replayed if not r.exact] == []
    assert [r.name for r in replayed if any(r.errors().values())] == []


def test_beats_and_bursts_are_those_of_the_bus(shared: Path) -> None:
    for vector in load_vectors([shared / "vta_rtl", shared / "vta_exact"]):
        if vector.counters["rd_beats"] >= 0:
            result = vector.simulator(vector.dram_in.copy(), strict=False).run(vector.insns)
            counted = (
                result.read_beats,
                result.write_beats,
                result.read_bursts,
                result.write_bursts,
            )
            assert counted == tuple(vector.counters.values()), vector.name


def test_no_check_fires_on_a_measured_program(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(
            [
                "replay",
                str(shared / "vta_rtl"),
                "--strict",
                "--check",
                "races",
                "--check",
                "init",
                "--json",
            ]
        )
        == 0
    )
    assert all(
        not p["findings"] and not p["message"]
        for p in json.loads(capsys.readouterr().out)["programs"]
    )


def test_a_spoilt_byte_is_told_with_its_address(conv: Vector) -> None:
    out = conv.out.copy()
    out[5] ^= 1
    replayed, _ = replay(replace(conv, out=out))
    assert not replayed.exact
    assert (
        "1 bytes differ, the first at "
        f"0x{conv.dram_base + int(conv.out_regions[0][0]) + 5:x}: {conv.out[5]} instead of"
        in replayed.message
    )


def test_a_byte_stored_outside_the_out_regions_is_seen(conv: Vector) -> None:
    shorter = replace(conv, out_regions=np.array([[conv.out_regions[0][0], 16]]), out=conv.out[:16])
    assert not replay(shorter)[0].exact


def test_mistakes_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(LoadstoneError, match=r"neither an index\.json with programs nor a \.npz"):
        load_vectors([tmp_path])
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(LoadstoneError, match=r"x\.npz is no .npz file"):
        load_vectors([tmp_path / "x.npz"])
    np.savez(tmp_path / "y.npz", insns=np.zeros((1, 16), np.uint8))
    with pytest.raises(LoadstoneError, match=r"y\.npz: has no array 'dram_base"):
        load_vectors([tmp_path / "y.npz"])


def test_vectors_are_for_the_device_that_a_model_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four boards share a fingerprint; their cycles are not the same."""
    artifact = dense_model(load_config("vta-zcu104")).artifact
    artifact.save(tmp_path / "dense.ldsm")
    assert main(["vectors", str(tmp_path / "dense.ldsm"), "-o", str(tmp_path / "out")]) == 0
    assert load_vectors([tmp_path / "out"])[0].config == load_config("vta-zcu104")
    mine = replace(artifact.devices[0], name="mine")
    replace(artifact, devices=(mine,)).save(tmp_path / "mine.ldsm")
    assert main(["vectors", str(tmp_path / "mine.ldsm"), "-o", str(tmp_path / "out")]) != 0
    assert "for device 'mine' (config hash" in capsys.readouterr().err
