# SPDX-License-Identifier: Apache-2.0
"""Two devices in an exported project, VTAs or one of a plug-in: a module runs both, with an
application that has the registers; the boards' projects build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.commands.exported_accelerators import accelerator_files, register_files
from loadstone.library.native import library_file
from loadstone.vta.device.hw_config import load_config
from tests.board.tools import need
from tests.branches import branches
from tests.commands.test_export import make
from tests.conftest import ROOT
from tests.further import FIRST, SECOND, chain, expected, inputs
from tests.repeat import more
from tests.sample_model import copy_model
from tests.simd_client import process


def module_application(tmp_path: Path, artifact: Artifact, source: str, *words: str) -> Path:
    """A program of tests/c around an exported module, built by hand as any host would. words: of
    the export."""
    need("gcc", "gcc")
    artifact.save(tmp_path / "m.lds")
    module, made = tmp_path / "module", tmp_path / "app"
    export = ["export", f"{tmp_path}/m.lds", "--board", "module", "-o", str(module)]
    assert main([*export, *words]) == 0
    library = library_file()
    headers = [module, module / "loadstone/include", ROOT / "driver/include"]
    sources = [*module.glob("loadstone/*.c"), *module.glob("accelerators/*.c"), module / "model.S"]
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command += [f"-I{folder}" for folder in [*headers, ROOT / "hw_sim/include"]]
    second = ",".join(map(str, SECOND.configuration()))
    command += [f"-DSECOND_DEVICE={second}", f"-Wa,-I{module}", str(ROOT / "tests/c" / source)]
    command += [*map(str, sources), str(library)]
    command += [f"-Wl,-rpath,{library.parent}", "-o", str(made)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return made


def said(command: list[str], given: np.ndarray) -> np.ndarray:
    """What the application answers to one run's input, int8 (elements,)."""
    ran = subprocess.run(command, input=given.tobytes(), capture_output=True, check=False)
    assert ran.returncode == 0, ran
    return np.frombuffer(ran.stdout, np.int8)


def test_a_module_runs_two_devices(tmp_path: Path) -> None:
    """The registers are those of two simulated VTAs."""
    graph, artifact = chain()
    application = module_application(tmp_path, artifact, "two_devices.c")
    given = inputs(graph)
    (want,) = expected(graph, given)
    np.testing.assert_array_equal(said([str(application)], given[0]), want.reshape(-1))


def test_a_module_runs_vta_and_a_device_of_a_plugin(tmp_path: Path) -> None:
    """The systolic array of the examples beside VTA-Q, each with registers of its own."""
    artifact, samples, outputs = branches(tmp_path)
    assert artifact.programs
    plugin = ("--uma-backends", str(ROOT / "docs/examples/systolic"))
    application = module_application(tmp_path, artifact, "served_devices.c", *plugin)
    devices = ("--device", "vtaq-1x16x16", "--device", "systolic")
    with process(tmp_path, *devices, *plugin) as (_, socket):
        got = said([str(application), str(socket), f"{socket}.systolic"], samples[0])
    want = np.concatenate([y[0].reshape(-1) for y in outputs])
    np.testing.assert_array_equal(got, want)


@more
def test_boards_build_with_two_devices(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    need("riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross")
    chain()[1].save(tmp_path / "m.lds")
    for board, compiler in (
        ("cortex-m", "arm-none-eabi-gcc"),
        ("riscv", "riscv64-linux-gnu-gcc"),
        ("linux", "gcc"),
    ):
        folder = tmp_path / board
        assert main(["export", f"{tmp_path}/m.lds", "--board", board, "-o", str(folder)]) == 0
        make(folder, "FLAGS=-Werror", compiler=compiler)


def test_what_is_written_for_further_devices() -> None:
    _, artifact = chain(second=load_config("vta-pynq"))
    text = accelerator_files(artifact)["accelerators/accelerators.c"]
    assert "&lds_registers_hls," in text
    assert '{"vta-pynq", &devices[0], 0, 0},' in text
    assert register_files(artifact, FIRST) == ["regs_native.c", "regs_hls.c"]
    assert not accelerator_files(copy_model())
