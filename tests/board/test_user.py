"""Rung 4: the C runtime on three more instruction sets under qemu-user, with the simulator process as its device."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.board import build, cases
from tests.board.models import Network
from tests.board.tools import ROOT, need

RUNG = "rung 4"
pytestmark = pytest.mark.full

QEMU = {"native": [], "aarch64": ["qemu-aarch64"], "armv7": ["qemu-arm"], "riscv64": ["qemu-riscv64"]}
POOL = 0x10000000  # `loadstone simd` without --base
GUEST = ROOT / "tests/board/guest"


@pytest.mark.parametrize("toolchain", list(QEMU))
def test_network_gives_the_native_bytes_and_faults_are_survived(toolchain: str, network: Network, tmp_path: Path) -> None:
    for emulator in QEMU[toolchain]:
        need(emulator, "qemu-user")
    sources = [*build.RUNTIME, *build.drivers("hal_simd.c"), GUEST / "run_cases.c", GUEST / "user/main.c"]
    program = build.executable(toolchain, "user", sources)
    (tmp_path / "model.lds").write_bytes(network.artifact.to_bytes())
    (tmp_path / "inputs").write_bytes(network.inputs.tobytes())
    serve = [sys.executable, "-m", "loadstone", "simd", tmp_path / "simd", "--device", network.device]
    serve += [word for fault in cases.faults(network, POOL) for word in ("--fault", fault)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            assert simulator.stdout is not None
            assert simulator.stdout.readline()
            arguments = [program, tmp_path / "simd", "native", tmp_path / "model.lds", tmp_path / "inputs", str(cases.RUNS)]
            done = subprocess.run([*QEMU[toolchain], *arguments], capture_output=True, text=True, timeout=120, check=True)
        finally:
            simulator.kill()
    cases.check(done.stdout.splitlines(), network, interrupts=False)
