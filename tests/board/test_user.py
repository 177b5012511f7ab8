# SPDX-License-Identifier: Apache-2.0
"""Rung 4: the C runtime on three more instruction sets under qemu-user, and with musl in place of
glibc; the simulator process is its device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.board import build, cases, models, sharing
from tests.board.models import Network
from tests.board.tools import ROOT, need
from tests.board.tools import run as run_program
from tests.repeat import more
from tests.toolchains import PROCESSORS, executable

pytestmark = [pytest.mark.full, pytest.mark.rung("4")]

QEMU = {
    "native": [],
    "musl": [],
    "aarch64": ["qemu-aarch64"],
    "armv7": ["qemu-arm"],
    "riscv64": ["qemu-riscv64"],
}
POOL = 0x10000000  # `loadstone simd` without --base
GUEST = ROOT / "tests/board/guest"


def run(toolchain: str, network: Network, runs: int, faults: list[str], folder: Path) -> list[str]:
    """What the program prints of a network."""
    (folder / "inputs").write_bytes(network.inputs.tobytes())
    model = network.artifact.to_bytes()
    return printed(toolchain, model, folder / "inputs", runs, folder, network.device, faults)


def printed(
    toolchain: str,
    model: bytes,
    inputs: Path | str,
    runs: int,
    folder: Path,
    device: str = "vtaq-1x16x16",
    faults: Sequence[str] = (),
) -> list[str]:
    """What the program prints, with a simulator process of its own. inputs "-": `model` is several,
    packed."""
    for emulator in QEMU[toolchain]:
        need(emulator, "qemu-user")
    sources = [
        *build.RUNTIME,
        *build.drivers("hal_simd.c", "packets.c"),
        GUEST / "run_cases.c",
        GUEST / "share_cases.c",
        GUEST / "user/main.c",
    ]
    program = build.executable(toolchain, "user", sources)
    (folder / "model.lds").write_bytes(model)
    serve = [sys.executable, "-m", "loadstone", "simd", folder / "simd", "--device", device]
    serve += [word for fault in faults for word in ("--fault", fault)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            assert simulator.stdout is not None
            assert simulator.stdout.readline()
            arguments = [
                program,
                folder / "simd",
                "native",
                folder / "model.lds",
                inputs,
                str(runs),
            ]
            done = subprocess.run(
                [*QEMU[toolchain], *arguments],
                capture_output=True,
                text=True,
                timeout=3600,
                check=True,
            )
        finally:
            simulator.kill()
    return done.stdout.splitlines()


@pytest.mark.parametrize("toolchain", list(QEMU))
def test_network_gives_the_native_bytes_and_faults_are_survived(
    toolchain: str, network: Network, tmp_path: Path
) -> None:
    lines = run(toolchain, network, cases.RUNS, cases.faults(network, POOL), tmp_path)
    cases.check(lines, network, interrupts=False)


@pytest.mark.parametrize("toolchain", list(QEMU))
def test_float_operators_give_the_native_bits(toolchain: str, tmp_path: Path) -> None:
    network = models.floats()
    cases.check_healthy(run(toolchain, network, 3, [], tmp_path), network)


@pytest.mark.parametrize(
    "toolchain", [name if name == "armv7" else pytest.param(name, marks=more) for name in QEMU]
)
def test_bfloat16_gives_the_native_bits(toolchain: str, tmp_path: Path) -> None:
    network = models.reals(tmp_path)
    cases.check_healthy(run(toolchain, network, 3, [], tmp_path), network)


@pytest.mark.parametrize("faulty", [False, True])
def test_networks_share_the_simulator_in_their_process(
    tmp_path: Path, figure: Callable[[str], None], *, faulty: bool
) -> None:
    """All of it on arm64: a register costs no packet there."""
    emulator = PROCESSORS["arm64 without dot products"]
    need(emulator.emulator[0], "qemu-user")
    packed, networks = sharing.networks(faulty=faulty)
    (tmp_path / "device").write_bytes(sharing.CONFIG.configuration())
    (tmp_path / "model").write_bytes(packed)
    sources = [GUEST / "run_cases.c", GUEST / "share_cases.c", ROOT / "tests/c/run_in_process.c"]
    program = executable(emulator.toolchain, sources, tmp_path / "share")
    files = [program, tmp_path / "device", tmp_path / "model"]
    command = [*emulator.emulator, *files, "-", "1"]
    lines = run_program(command, timeout_s=sharing.SECONDS).splitlines()
    figure(f"arm64, simulator in the process: {sharing.check(lines, networks)}")


@pytest.mark.parametrize(
    "toolchain", ["aarch64", *(pytest.param(n, marks=more) for n in ("armv7", "riscv64", "musl"))]
)
@pytest.mark.parametrize("faulty", [False, True])
def test_networks_share_the_device_within_their_bounds(
    toolchain: str, tmp_path: Path, figure: Callable[[str], None], *, faulty: bool
) -> None:
    packed, networks = sharing.networks(faulty=faulty)
    lines = printed(toolchain, packed, "-", 1, tmp_path)
    figure(f"{toolchain}: {sharing.check(lines, networks)}")


def test_real_networks_share_the_device(
    shared: Path, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    packed, networks = sharing.real_networks(shared)
    lines = printed("aarch64", packed, "-", 1, tmp_path)
    figure(f"aarch64, MLPerf Tiny: {sharing.check(lines, networks)}")
