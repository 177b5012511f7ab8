# SPDX-License-Identifier: Apache-2.0
"""The simulator on other processors and by other compilers: the bytes and cycles of this one, on
every path that each has.

Emulated: x86-64 without AVX and with AVX2 only, arm64 without and with dot products. A tool that is
missing skips its test.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import load_config
from tests.board import cases, models
from tests.board.models import Network
from tests.board.tools import ROOT, need, run
from tests.edges import gemm_edges, gemm_loops, requantization_edges, requantization_loops
from tests.emulated import EMULATOR, environment
from tests.programs import Program, random_program
from tests.recorded import record
from tests.repeat import more
from tests.simulated import DEVICES, HOST_KERNELS, LARGEST_BLOCK
from tests.toolchains import PROCESSORS, Processor, executable

#: What runs without an emulator, and so with the kernels that this processor has.
HERE = {
    name: Processor(chain, (), tuple(HOST_KERNELS))
    for name, chain in (("this processor", "native"), ("this processor, clang", "clang"))
}
EVERYWHERE = {**HERE, **PROCESSORS}
RANDOM_PROGRAMS = 6  # for each device
RUN_CASES = (
    ROOT / "tests/board/guest/run_cases.c",
    ROOT / "tests/board/guest/share_cases.c",
    ROOT / "tests/c/run_in_process.c",
)
#: The smallest block that a path does.
SMALLEST_BLOCK = {"portable": 2, "avx2": 8, "avx512": 16, "neon": 8}


def programs() -> Iterator[Program]:
    for config in DEVICES:
        for seed in range(RANDOM_PROGRAMS):
            yield random_program(config, np.random.default_rng(seed))
    for config in (*DEVICES, LARGEST_BLOCK):
        yield from gemm_edges(config)
    for config in DEVICES:
        if not config.is_float:
            yield from gemm_loops(config)
    yield from requantization_loops(load_config("vtaq-1x16x16"))
    for rounding in Rounding:
        yield from (program for program, _ in requantization_edges(rounding))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A file of programs, and the block of each."""
    path, everything = tmp_path_factory.mktemp("recorded") / "programs", list(programs())
    record(everything, path)
    return path, [program.config.block for program in everything]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, tuple[Path, ...]], Path]:
    """`built(toolchain, sources)`: an executable, compiled once."""
    folder = tmp_path_factory.mktemp("built")
    return cache(
        lambda toolchain, sources: executable(
            toolchain, sources, folder / f"{toolchain}-{sources[-1].stem}"
        )
    )


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[Network, Path]:
    """A compiled network, and the folder where its artifact and its device stand as files."""
    folder = tmp_path_factory.mktemp("network")
    found = models.convolutions(folder)
    (folder / "device").write_bytes(load_config(found.device).configuration())
    (folder / "model.lds").write_bytes(found.artifact.to_bytes())
    (folder / "inputs").write_bytes(found.inputs.tobytes())
    return found, folder


def run_on(processor: Processor, program: Path, *arguments: object) -> str:
    """What an executable prints there."""
    if processor.emulator[:1] == ("qemu-x86_64",) and platform.machine() != "x86_64":
        pytest.skip("this processor is no x86-64, nor is the library that the package uses")
    for emulator in processor.emulator[:1]:
        need(emulator, "qemu-user")
    return run([*processor.emulator, program, *map(str, arguments)])


def everywhere(*, but_with_clang: bool) -> list[ParameterSet]:
    """Names of all; a third library is for the slow tier."""
    names = [name for name in EVERYWHERE if not (but_with_clang and name.endswith("clang"))]
    return [
        pytest.param(
            name, marks=[pytest.mark.full, more] * (EVERYWHERE[name].toolchain == "clang-arm64")
        )
        for name in names
    ]


@pytest.mark.parametrize("name", everywhere(but_with_clang=False))
def test_every_path_of_every_processor_leaves_the_recorded_bytes_and_cycles(
    name: str,
    recording: tuple[Path, list[int]],
    built: Callable[[str, tuple[Path, ...]], Path],
    figure: Callable[[str], None],
) -> None:
    processor, (path, blocks) = EVERYWHERE[name], recording
    done = run_on(
        processor, built(processor.toolchain, (ROOT / "tests/c/replay_kernels.cc",)), path
    )
    expected = [
        (kernels, sum(block >= SMALLEST_BLOCK[kernels] for block in blocks))
        for kernels in processor.kernels
    ]
    assert done.splitlines() == [f"{kernels} {count} programs" for kernels, count in expected]
    figure(
        f"simulator on {name}: "
        + ", ".join(f"{kernels} {count} programs" for kernels, count in expected)
    )


@pytest.mark.parametrize("name", everywhere(but_with_clang=True))
def test_a_compiled_network_gives_the_same_bytes_on_every_processor(
    name: str, network: tuple[Network, Path], built: Callable[[str, tuple[Path, ...]], Path]
) -> None:
    processor, (found, folder) = EVERYWHERE[name], network
    files = [folder / file for file in ("device", "model.lds", "inputs")]
    lines = run_on(
        processor, built(processor.toolchain, RUN_CASES), *files, len(found.inputs)
    ).splitlines()
    cases.check_healthy(lines, found)


@pytest.mark.full
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the package has an x86-64 library")
def test_the_package_runs_it_without_avx(network: tuple[Network, Path], tmp_path: Path) -> None:
    """Python, NumPy and libloadstone as they are installed here, on an emulated processor."""
    need(EMULATOR[0], "qemu-user")
    found, folder = network
    np.savez(tmp_path / "inputs.npz", in0=found.inputs)
    command = [
        environment(tmp_path / "emulated"),
        "-m",
        "loadstone",
        "run",
        folder / "model.lds",
        "--inputs",
        tmp_path / "inputs.npz",
        "-o",
        tmp_path / "outputs.npz",
    ]
    run(command)
    assert np.load(tmp_path / "outputs.npz")["out0"].tobytes() == b"".join(found.outputs)


@pytest.mark.parametrize(
    ("source", "table", "compiler", "flags"),
    [
        ("kernels_avx2", "kAvx2Kernels", "g++", "-mavx2"),
        (
            "kernels_avx512",
            "kAvx512Kernels",
            "g++",
            "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni",
        ),
        ("kernels_neon", "kNeonKernels", "aarch64-linux-gnu-g++", "-march=armv8.2-a+dotprod"),
    ],
)
def test_no_function_with_vector_code_can_take_the_place_of_a_common_one(
    source: str, table: str, compiler: str, flags: str, tmp_path: Path
) -> None:
    """An inline function of a header is compiled in each file that uses it, and the linker takes
    any one: also one with AVX-512."""
    need(compiler, "g++" if compiler == "g++" else "g++-aarch64-linux-gnu")
    if compiler == "g++" and platform.machine() != "x86_64":
        pytest.skip("this processor is no x86-64")
    includes = [f"-I{ROOT / folder}/include" for folder in ("hw_sim", "driver")]
    command = [
        compiler,
        "-std=c++17",
        "-O0",
        *flags.split(),
        "-Wno-psabi",
        *includes,
        "-c",
        ROOT / f"hw_sim/{source}.cc",
    ]
    run([*command, "-o", tmp_path / "kernels.o"])
    symbols = [line.split()[-2:] for line in run(["nm", tmp_path / "kernels.o"]).splitlines()]
    assert sum(kind == "t" for kind, _ in symbols) > 10, "for this compiler the file is empty"
    shared = [name for kind, name in symbols if kind not in "tdrbU"]
    assert shared == [f"_ZN3lds3sim{len(table)}{table}E"]
