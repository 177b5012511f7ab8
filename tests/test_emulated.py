# SPDX-License-Identifier: Apache-2.0
"""A processor without AVX (qemu-x86_64, Nehalem): the command line runs a model there, and compiles
one, with the same bytes.

PyTorch is left out: importing TVM imports it where it is installed, which takes minutes there.
Without it the compiler is imported in about a minute (2 s of processor time without an emulator).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.hw_config import load_config
from tests.board.tools import need
from tests.repeat import more
from tests.sample_model import dense_model

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="it is an x86-64 library")

#: The command line without PyTorch, and at its end the simulator's paths.
START = """
import sys
class WithoutTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "torchgen", "torchao", "functorch"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, WithoutTorch())
from loadstone.cli import main
from loadstone.simulator.sim import kernels_available
from loadstone.vta.hw_config import load_config
status = main(sys.argv[1:])
print("kernels", *kernels_available(load_config("vtaq-1x16x16")))
sys.exit(status)
"""


def emulated(*words: object, timeout_s: float = 300) -> str:
    """What `loadstone WORDS` prints on a Nehalem."""
    need("qemu-x86_64", "qemu-user")
    command = ["qemu-x86_64", "-cpu", "Nehalem", sys.executable, "-c", START, *map(str, words)]
    one_thread = {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **one_thread},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_model_runs_without_avx(tmp_path: Path, figure: Callable[[str], None]) -> None:
    made = dense_model(load_config("vtaq-1x16x16"))
    made.artifact.save(tmp_path / "dense.lds")
    x = np.random.default_rng(3).integers(-128, 128, (5, 1, made.weights.shape[1]), np.int8)
    np.savez(tmp_path / "x.npz", in0=x)
    np.savez(tmp_path / "y.npz", out0=made.expected(x))
    said = emulated(
        *("run", tmp_path / "dense.lds", "--inputs", tmp_path / "x.npz"),
        *("--expect", tmp_path / "y.npz"),
    )
    assert said.splitlines()[-1] == "kernels portable"
    figure("loadstone run on a processor without AVX (Nehalem): kernels portable, outputs equal")


@more
def test_the_demo_runs_without_avx(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Import, calibration, quantization, compilation, simulation: all that `make demo` does."""
    pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
    said = emulated("demo", "-o", tmp_path / "demo", timeout_s=3600)
    assert said.splitlines()[-1] == "kernels portable"
    assert "99.17 % right of 600 images" in said
    figure("loadstone demo on a processor without AVX (Nehalem): as on this one")
