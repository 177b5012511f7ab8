# SPDX-License-Identifier: Apache-2.0
"""Every network of ../shared/models as `loadstone export` writes it: built with -Werror for a Linux
board and, where it fits, for a Cortex-M; under QEMU it gives the bytes of a native run."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.compiler import compile as compile_model
from loadstone.runtime import device
from tests.board.exported import check_exported
from tests.board.models import Network
from tests.board.tools import need, run
from tests.compiled import golden, network
from tests.repeat import more
from tests.test_networks import NETWORKS, ONNX
from tests.test_networks_in_c import FLOAT

DEVICE = "vtaq-1x16x16"
#: What GNU's linker says where a part is larger than the memory for it (4 MiB of flash, 4 MiB of
#: RAM, 16 MiB for the device: mps2-an385).
TOO_LARGE = re.compile(r"region `(\w+)' overflowed by (\d+) bytes")
FILES = (*NETWORKS, *ONNX, *FLOAT)
#: As it is, in float32: 3,576,600 bytes of flash, nearly all that there is.
AS_IT_IS = ("arm_kwt1_f32.tflite, as it is",)

pytestmark = [pytest.mark.full, more]


def native(artifact: Artifact, inputs: list[np.ndarray]) -> tuple[list[bytes], int]:
    """Every output of one run, and its cycles."""
    with device.open(f"sim:{DEVICE}") as dev, dev.load(artifact, trust=True) as session:
        for view, x in zip(session.inputs, inputs, strict=True):
            view[...] = x.reshape(view.shape)
        session.execute()
        return [y.tobytes() for y in session.outputs], session.counters.cycles


def compiled(shared: Path, file: str) -> Artifact:
    """Networks in float32 are quantized, with their own samples, unless they stay as they are."""
    if file not in FLOAT:
        return network(shared, file.removesuffix(", as it is"), DEVICE).artifact
    samples, _ = golden(shared, file, 4)
    return compile_model(shared / "models" / file, DEVICE, samples=samples).artifact


@pytest.mark.rung("4")
@pytest.mark.parametrize("file", FILES)
def test_on_linux(file: str, shared: Path, tmp_path: Path, figure: Callable[[str], None]) -> None:
    """On arm64, its own program, with the simulator in a process of its own."""
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    need("qemu-aarch64", "qemu-user")
    artifact = compiled(shared, file)
    inputs = [x[0] for x in golden(shared, file, 1)[0]]
    wanted, cycles = native(artifact, inputs)
    artifact.save(tmp_path / "model.lds")
    project = tmp_path / "project"
    words = ["export", tmp_path / "model.lds", "--board", "linux", "-o", project]
    assert main([str(word) for word in words]) == 0
    run(["make", "-C", project, "CROSS_COMPILE=aarch64-linux-gnu-", "FLAGS=-static -Werror"])
    (tmp_path / "in").write_bytes(b"".join(x.tobytes() for x in inputs))
    serve = [sys.executable, "-m", "loadstone", "simd", tmp_path / "simd", "--device", DEVICE]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            assert simulator.stdout is not None
            assert simulator.stdout.readline()
            program = [
                project / "model",
                f"simd:{tmp_path}/simd",
                tmp_path / "in",
                tmp_path / "out",
            ]
            subprocess.run(["qemu-aarch64", *program], check=True, timeout=1800)
        finally:
            simulator.kill()
    assert (tmp_path / "out").read_bytes() == b"".join(wanted)
    figure(f"{file}: {len(b''.join(wanted))} bytes as natively, {cycles} cycles")


@pytest.mark.rung("5")
@pytest.mark.parametrize("file", [*FILES, *AS_IT_IS])
def test_on_a_cortex_m(
    file: str, shared: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """Without an operating system; what does not fit is skipped, and says by how much."""
    artifact = compiled(shared, file)
    inputs = [x[0] for x in golden(shared, file.removesuffix(", as it is"), 1)[0]]
    wanted, cycles = native(artifact, inputs)
    case = Network(DEVICE, artifact, np.stack(inputs[:1]), (wanted[0],), (cycles,))
    try:
        check_exported(case, tmp_path)
    except AssertionError as error:
        over = TOO_LARGE.findall(str(error))
        if not over:
            raise
        said = ", ".join(f"{name} is {size} bytes too small" for name, size in over)
        pytest.skip(f"{file}: {said}")
    flash = len(artifact.to_bytes())
    figure(f"{file}: {len(wanted[0])} bytes as natively, {cycles} cycles, {flash} bytes of flash")
