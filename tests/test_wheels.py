# SPDX-License-Identifier: Apache-2.0
"""wheels.py: each wheel runs where its name says, and is the same from two folders.

`make test-all` builds them, and needs the extras `wheel` and `cross`: zig compiles its
C++ library first, a minute for each target.
"""

from __future__ import annotations

import re
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import wheels
from tests.board import models
from tests.board.debian_python import check_runs, installed, interpreter
from tests.board.tools import ROOT, need, run
from tests.repeat import more
from tests.test_wheel import EPOCH, HOW, source_of

#: Compiled sooner than as a user has it.
QUICK = [word for word in HOW if word.startswith("-C")] or [
    f"-Ccmake.define.CMAKE_{language}_FLAGS_RELEASE=-O1" for language in ("C", "CXX")
]
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
        "riscv128: not of aarch64, armv7l, musl-x86_64, musl-aarch64\n"
    )


@more
@pytest.mark.parametrize(("name", "arch"), [("aarch64", "arm64"), ("armv7l", "armhf")])
def test_a_wheel_runs_with_debians_python_of_its_processor(
    name: str, arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = built(name, tmp_path, monkeypatch)
    named = re.search(rf"manylinux_2_(\d+)_{name}\.whl", wheel.name)
    assert named is not None, wheel.name
    assert int(named[1]) <= 28, wheel.name
    for library in libraries(wheel, tmp_path / "files").glob("*.so"):
        needed = wheels.needs(library.read_bytes())
        of_glibc = r"(libc|libm|libpthread|libdl|ld-linux.*|libloadstone)\.so"
        assert all(re.match(of_glibc, name) for name in needed), needed
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
