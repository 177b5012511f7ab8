# SPDX-License-Identifier: Apache-2.0
"""wheels.py: each wheel runs where its name says, and is the same from two folders.

`make test-all` builds them, and needs the extras `wheel` and `cross`: zig compiles its
C++ library first, a minute for each target.
"""

from __future__ import annotations

import platform
import re
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.sim import kernels_available
from tests import wheels
from tests.board import models
from tests.board.debian_python import check_runs, installed, interpreter
from tests.board.tools import ROOT, need, run
from tests.repeat import more
from tests.test_wheel import EPOCH, HOW, check_installed, oldest_python, source_of

#: Compiled sooner than as a user has it.
QUICK = [word for word in HOW if word.startswith("-C")] or [
    f"-Ccmake.define.CMAKE_{language}_FLAGS_RELEASE=-O1" for language in ("C", "CXX")
]
KERNELS = """
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.simulator.sim import kernels_available
print(*kernels_available(load_config("vtaq-1x16x16")))
"""
PROGRAM = Path(__file__).parent / "board/guest/user/easy.c"


def built(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel of a platform, from a copy of the tracked files in `folder`."""
    for package in ("ziglang", "auditwheel", "scikit_build_core"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: make wheels")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    return wheels.wheel(wheels.PLATFORMS[name], source_of(ROOT, folder), folder / "made", QUICK)


def libraries(wheel: Path, folder: Path) -> Path:
    """The folder with the wheel's libraries."""
    zipfile.ZipFile(wheel).extractall(folder)
    return folder / "loadstone"


def test_a_platform_that_is_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert wheels.main(["riscv128"]) == 2
    assert capsys.readouterr().err == (
        "riscv128: not of x86_64, aarch64, armv7l, musl-x86_64, musl-aarch64\n"
    )


@pytest.mark.parametrize(
    ("name", "needed", "size", "why"),
    [
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", {"libc.so.6", "libm.so.6"}, 9, ""),
        ("manylinux_2_29_x86_64", {"libc.so.6"}, 9, "needs a newer glibc than 2.28"),
        ("manylinux_2_17_aarch64", {"libc.so.6"}, 9, "is for another processor than x86_64"),
        ("manylinux_2_17_x86_64", {"libc.so.6", "libstdc++.so.6"}, 9, "needs .'libstdc"),
        ("manylinux_2_17_x86_64", {"libc.so.6"}, 10_000_001, "10000001 bytes, and at most"),
    ],
)
def test_a_wheel_that_is_for_fewer_systems_is_none(
    name: str,
    needed: set[str],
    size: int,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tmp_path / f"loadstone-1-py3-none-{name}.whl"
    made.write_bytes(bytes(size))
    monkeypatch.setattr(wheels, "_needed", lambda _: needed)
    wanted = wheels.PLATFORMS["x86_64"]
    if not why:
        assert wheels._small(wheels._of_glibc(made, wanted)) == made
        return
    with pytest.raises(AssertionError, match=why):
        wheels._small(wheels._of_glibc(made, wanted))


@more
def test_the_wheel_for_x86_64_runs_in_an_empty_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of this Python and of the oldest, with all kernels that the checkout's own library has."""
    if platform.machine() != "x86_64":
        pytest.skip(f"this machine is {platform.machine()}")
    wheel = built("x86_64", tmp_path, monkeypatch)
    for number, python in enumerate((Path(sys.executable), oldest_python())):
        folder = tmp_path / f"environment-{number}"
        folder.mkdir()
        tools = check_installed(wheel, python, folder)
        found = run([tools / "python", "-c", KERNELS]).split()
        assert found == kernels_available(load_config("vtaq-1x16x16"))


@more
@pytest.mark.parametrize(("name", "arch"), [("aarch64", "arm64"), ("armv7l", "armhf")])
def test_a_wheel_runs_with_debians_python_of_its_processor(
    name: str, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = built(name, tmp_path, monkeypatch)
    python = interpreter(arch, installed(wheel, tmp_path / "site"))
    check_runs(python, models.dense("vtaq-1x16x16"), tmp_path)


@more
def test_the_library_for_musl_runs_in_a_c_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("musl-gcc", "musl-tools")
    wheel = built("musl-x86_64", tmp_path, monkeypatch)
    assert re.search(r"-py3-none-musllinux_1_\d_x86_64\.whl$", wheel.name), wheel.name
    there = libraries(wheel, tmp_path / "files")
    network = models.dense("vtaq-1x16x16")
    network.artifact.save(tmp_path / "net.lds")
    (tmp_path / "in.bin").write_bytes(network.inputs.tobytes())
    headers = ("runtime/hosts/include", "runtime/include", "driver/include")
    includes = [f"-I{there / 'csrc' / part}" for part in headers]
    link = [there / "libloadstone.so", f"-Wl,-rpath,{there}", "-pthread"]
    program = tmp_path / "easy"
    run(["musl-gcc", "-std=c99", "-Werror", "-Wall", *includes, PROGRAM, *link, "-o", program])
    run([program, "sim", "net.lds", "in.bin", "out.bin"], cwd=tmp_path)
    assert (tmp_path / "out.bin").read_bytes() == b"".join(network.outputs)


@more
def test_a_wheel_is_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = built("aarch64", tmp_path / "one", monkeypatch)
    two = built("aarch64", tmp_path / "a folder" / "of another length", monkeypatch)
    assert one.name == two.name
    assert one.read_bytes() == two.read_bytes()
