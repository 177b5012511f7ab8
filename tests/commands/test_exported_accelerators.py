# SPDX-License-Identifier: Apache-2.0
"""Two VTAs in an exported project: a module runs both, with an application that has the registers;
the boards' projects build."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from loadstone.cli import main
from loadstone.commands.exported_accelerators import accelerator_files, register_files
from loadstone.runtime.native import library_file
from loadstone.vta.hw_config import load_config
from tests.board.tools import need
from tests.commands.test_export import make
from tests.further import FIRST, SECOND, chain, expected, inputs
from tests.repeat import more
from tests.sample_model import copy_model


def test_a_module_runs_two_devices(tmp_path: Path) -> None:
    """Built by hand as any host would; the registers are those of two simulated devices."""
    need("gcc", "gcc")
    graph, artifact = chain()
    artifact.save(tmp_path / "m.lds")
    module = tmp_path / "module"
    assert main(["export", f"{tmp_path}/m.lds", "--board", "module", "-o", str(module)]) == 0
    library, root = library_file(), Path(__file__).parents[2]
    headers = [module, module / "loadstone/include", root / "driver/include"]
    sources = [*module.glob("loadstone/*.c"), *module.glob("accelerators/*.c"), module / "model.S"]
    command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command += [f"-I{folder}" for folder in [*headers, root / "hw_sim/include"]]
    second = ",".join(map(str, SECOND.fingerprint()))
    command += [f"-DSECOND_DEVICE={second}", f"-Wa,-I{module}", str(root / "tests/c/two_devices.c")]
    command += [*map(str, sources), str(library)]
    command += [f"-Wl,-rpath,{library.parent}", "-o", str(tmp_path / "app")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    given = inputs(graph)
    ran = subprocess.run(
        [str(tmp_path / "app")], input=given[0].tobytes(), capture_output=True, check=False
    )
    assert ran.returncode == 0, ran
    (want,) = expected(graph, given)
    np.testing.assert_array_equal(np.frombuffer(ran.stdout, np.int8), want.reshape(-1))


@more
def test_boards_build_with_two_devices(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    chain()[1].save(tmp_path / "m.lds")
    for board, compiler in (("cortex-m", "arm-none-eabi-gcc"), ("linux", "gcc")):
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
