# SPDX-License-Identifier: Apache-2.0
"""The hardware behind a socket: the C runtime and its driver run a model on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.errors import DeviceError
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.rtl_simd import rtl_name, rtl_socket
from tests.sample_model import dense_model

TINY = load_config("vtaq-tiny")
needs_rtl = pytest.mark.usefixtures("verilator")


def test_names_of_the_hardware() -> None:
    assert [rtl_name(name) for name in ("rtl", "rtl:x.json", "sim", "rtlx")] == [
        "",
        "x.json",
        None,
        None,
    ]


@needs_rtl
def test_a_model_runs_on_the_hardware_through_the_driver() -> None:
    model = dense_model(TINY)
    shape = model.artifact.tensors[model.artifact.inputs[0]].shape
    inputs = np.random.default_rng(2).integers(-128, 128, (3, *shape), np.int8)
    with (
        rtl_socket(TINY) as name,
        device.open(name) as opened,
        opened.load(model.artifact) as session,
    ):
        (outputs,) = session.run([inputs])
        cycles = session.counters.cycles
    assert np.array_equal(outputs, model.expected(inputs))
    assert cycles > 100


@needs_rtl
def test_the_command_runs_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = dense_model(TINY)
    shape = model.artifact.tensors[model.artifact.inputs[0]].shape
    inputs = np.random.default_rng(3).integers(-128, 128, (2, *shape), np.int8)
    model.artifact.save(tmp_path / "m.lds")
    np.savez(tmp_path / "x.npz", in0=inputs, out0=model.expected(inputs))
    words = ["run", tmp_path / "m.lds", "--inputs", tmp_path / "x.npz", "--expect"]
    assert main([*map(str, words), str(tmp_path / "x.npz"), "--device", "rtl"]) == 0
    assert "as expected" in capsys.readouterr().out


@needs_rtl
def test_a_device_with_other_registers_is_refused() -> None:
    with pytest.raises(DeviceError, match="native page only"), rtl_socket(load_config("vta-pynq")):
        pass


def test_faults_are_the_simulators(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadstone", "simd", str(tmp_path / "s"), "--fault", "dead@0"]
    done = subprocess.run(
        [*command, "--device", "rtl:vtaq-tiny"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no faults to order" in done.stderr
