# SPDX-License-Identifier: Apache-2.0
"""vta/simulator/vectors.py: vectors that we write are what was measured, of text and of models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish
from loadstone.vta.isa.spec import Capability
from loadstone.vta.simulator.vectors import (
    DramRegion,
    Stimulus,
    load_vectors,
    measure,
    save_vectors,
)
from tests.sample_model import dense_model


def test_what_we_write_is_what_was_measured(shared: Path, tmp_path: Path) -> None:
    paths = sorted((shared / "vta_rtl").glob("conv_*.npz"))
    vectors = [
        measure(Stimulus(v.name, v.config, v.insns, v.dram_base, v.dram_in))
        for v in load_vectors(paths)
    ]
    save_vectors(tmp_path, vectors)
    for path in paths:
        theirs, ours = np.load(path), np.load(tmp_path / path.name)
        for name in theirs.files:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=f"{path.name}: {name}")
            assert ours[name].dtype == theirs[name].dtype


def test_vectors_of_text_on_a_device_with_regions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "copy.txt").write_text(
        "load uop[0] = dram[1024 + x] for x<1\nload acc[0] = dram[260 + x] for x<1\n"
        "alu acc[u] += 1 for i<1 j<1 u in 0..1 push(store)\npop(compute) store dram[1100 + "
        "x] = out[0] for x<1 push(compute)\n"
        "pop(store) nop compute\nfinish\n"
    )
    memory = np.zeros(0x4000, np.uint8)
    memory[260 * 64 - 0x1000 :][:64:4] = 7
    memory.tofile(tmp_path / "in.bin")
    words = [
        "vectors",
        str(tmp_path / "copy.txt"),
        "--device",
        "vtaq-1x16x16",
        "--memory",
        f"{tmp_path}/in.bin@0x1000",
        "-o",
        str(tmp_path / "out"),
    ]
    assert main(words) == 0
    vector = np.load(tmp_path / "out" / "copy.npz")
    assert vector["out_regions"].tolist() == [[1100 * 16 - 0x1000, 16]]
    assert vector["out"].tolist() == [8] * 16
    assert main(["replay", str(tmp_path / "out"), "--max-error", "0"]) == 0
    assert "WRONG" not in capsys.readouterr().out


def test_what_is_stored_to_inp_is_no_output() -> None:
    """Its dram_base would be the place of other bytes."""
    text = (
        "load uop[0] = dram[1024 + x] for x<1\nload acc[0] = dram[260 + x] for x<1\n"
        "alu acc[u] += 1 for i<1 j<1 u in 0..1 push(store)\npop(compute) store inp[3 + x] = "
        "out[0] for x<2\nstore dram[1100 + x] = out[0] for x<1 push(compute)\npop(store) finish"
    )
    base = load_config("vtaq2-1x16x16")
    config = replace(base, capabilities=base.capabilities | Capability.STORE_INP)
    memory = DramRegion(0, 0x6000)
    stimulus = Stimulus(
        "inp", config, assemble(text, config), 0x1000, np.zeros(0x5000, np.uint8), [memory]
    )
    assert measure(stimulus).out_regions.tolist() == [[1100 * 16 - 0x1000, 16]]


def test_measure_refuses_what_does_not_finish() -> None:
    config = load_config("vta-pynq")
    waiting = encode_stream([Finish(pop_prev=1)], config)
    with pytest.raises(LoadstoneError, match="waits for a token from load"):
        measure(Stimulus("stuck", config, waiting, 0x1000, np.zeros(16, np.uint8)))


@pytest.mark.parametrize("device", ["vta-pynq", "vtaq-1x16x16", "vtaq-1x32x32"])
def test_vectors_of_a_model_have_every_device_program(
    device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without regions addresses are absolute, as when the runtime binds a model."""
    config = load_config(device)
    artifact = dense_model(config).artifact
    artifact.save(tmp_path / "dense.ldsm")
    assert (
        main(
            [
                "vectors",
                str(tmp_path / "dense.ldsm"),
                "-o",
                str(tmp_path / "out"),
                "--device",
                device,
            ]
        )
        == 0
    )
    vectors = load_vectors([tmp_path / "out"])
    assert len(vectors) == len(artifact.programs) == 1
    assert vectors[0].config == config
    assert bool(vectors[0].regions) == config.has(Capability.REGIONS)
    assert vectors[0].out.size > 0
    assert (
        main(
            [
                "replay",
                str(tmp_path / "out"),
                "--check",
                "races",
                "--check",
                "init",
                "--max-error",
                "0",
            ]
        )
        == 0
    )
    assert "WRONG" not in capsys.readouterr().out


def test_vectors_of_a_model_for_another_device_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dense_model(load_config("vtaq-1x16x16")).artifact.save(tmp_path / "dense.ldsm")
    assert (
        main(
            [
                "vectors",
                str(tmp_path / "dense.ldsm"),
                "-o",
                str(tmp_path / "out"),
                "--device",
                "vta-pynq",
            ]
        )
        == 2
    )
    assert "is not for vta-pynq: its config hash is" in capsys.readouterr().err
