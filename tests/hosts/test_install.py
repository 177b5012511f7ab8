# SPDX-License-Identifier: Apache-2.0
"""`cmake --install`: what other C projects find, and docs/examples/c_project built with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import loadstone
from tests.board.tools import missing, need
from tests.c.build import STRICT, mode_flags
from tests.compiled import golden, network
from tests.sample_model import copy_model

RESNET8 = "mlpt_resnet8_int8.tflite"
EXAMPLE = "docs/examples/c_project"


def tool(name: str) -> str:
    """cmake and ninja are installed beside Python."""
    return str(Path(sys.executable).parent / name)


def run(command: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True, text=True, check=False, timeout=120, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def prefix(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make lib` has built, installed, and then moved: nothing in it may say where it was."""
    build = root / "build/native"
    if not (build / "libloadstone.a").is_file():
        missing(f"{build} holds no library: make lib")
    first = tmp_path_factory.mktemp("first") / "loadstone"
    run([tool("cmake"), "--install", build, "--prefix", first])
    return first.rename(tmp_path_factory.mktemp("moved") / "loadstone")


def built(prefix: Path, root: Path, folder: Path) -> Path:
    generate = [tool("cmake"), "-S", root / EXAMPLE, "-B", folder, "-G", "Ninja"]
    run([*generate, f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", f"-DCMAKE_PREFIX_PATH={prefix}"])
    run([tool("cmake"), "--build", folder])
    return folder / "classify"


def pkg_config(prefix: Path, *words: str) -> list[str]:
    need("pkg-config", "pkg-config")
    path = prefix / "lib/pkgconfig"
    env = {**os.environ, "PKG_CONFIG_PATH": str(path)}
    return run(["pkg-config", *words, "loadstone"], env=env).stdout.split()


def test_a_program_of_twenty_lines_runs_a_network(
    prefix: Path, root: Path, shared: Path, tmp_path: Path
) -> None:
    program = built(prefix, root, tmp_path / "build")
    network(shared, RESNET8, "vtaq-1x16x16").save(tmp_path / "resnet8.lds")
    (images,), (wanted,) = golden(shared, RESNET8, 2)
    for image, scores in zip(images, wanted, strict=True):
        (tmp_path / "image.bin").write_bytes(image.tobytes())
        with (tmp_path / "image.bin").open("rb") as file:
            done = run([program, "sim", tmp_path / "resnet8.lds"], stdin=file)
        assert [int(line) for line in done.stdout.split()] == scores.reshape(-1).tolist()
    text = (root / EXAMPLE / "classify.c").read_text(encoding="utf-8")
    assert text[text.index("int main") :].count("\n") <= 20


def test_its_errors_are_one_line(prefix: Path, root: Path, tmp_path: Path) -> None:
    program = built(prefix, root, tmp_path / "build")
    for words, line in (
        (["gpu", "m.lds"], "device 'gpu' is not one of sim, null"),
        (["sim", "/nowhere.lds"], "/nowhere.lds: No such file or directory"),
    ):
        done = subprocess.run(
            [program, *words], input=bytes(3072), capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.decode().startswith(line)
        assert done.stderr.count(b"\n") == 1


def copying_program(folder: Path) -> Path:
    """C that runs m.lds, whose path it gets, and is content when it copies."""
    copy_model().save(folder / "m.lds")
    source = folder / "copy.c"
    source.write_text(
        '#include <lds_easy.h>\n#include <string.h>\nint main(int argc, char **argv) {\n'
        "  signed char x[16] = {1, 2, 3}, y[16];\n"
        "  const void *inputs[1];\n  void *outputs[1];\n"
        "  lds_easy_device *d;\n  lds_easy *n;\n"
        "  inputs[0] = x, outputs[0] = y;\n"
        "  return argc != 3 || lds_easy_device_open(argv[1], &d, 0) || "
        "lds_easy_open_file(d, argv[2], &n, 0)\n"
        "    || lds_easy_run(n, inputs, outputs, 1, 0) || memcmp(x, y, 16);\n}\n"
    )  # fmt: skip
    return source


@pytest.mark.parametrize("static", [False, True])
def test_pkg_config_and_a_plain_compiler(prefix: Path, tmp_path: Path, static: bool) -> None:
    """A header alone, in strict C99 and in C++, and a link with either library."""
    need("gcc", "gcc")
    assert pkg_config(prefix, "--modversion") == [loadstone.__version__]
    source = copying_program(tmp_path)
    flags = pkg_config(prefix, "--cflags", "--libs", *(["--static"] if static else []))
    library = f"-Wl,-rpath,{prefix}/lib"
    if static:
        flags = [str(prefix / "lib/libloadstone.a") if f == "-lloadstone" else f for f in flags]
    run(["gcc", *STRICT, source, *flags, library, "-o", tmp_path / "copy"])
    run([tmp_path / "copy", "sim", tmp_path / "m.lds"])
    linked = run(["ldd", tmp_path / "copy"]).stdout
    assert ("libloadstone.so" in linked) != static


def test_a_host_of_32_bits_builds_and_runs_everything(root: Path, tmp_path: Path) -> None:
    """All libraries with all warnings; the simulator in a process whose size_t has 32 bits."""
    flags = " ".join(mode_flags(32))
    generate = [tool("cmake"), "-S", root, "-B", tmp_path / "build", "-G", "Ninja"]
    generate += [f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}", "-DCMAKE_BUILD_TYPE=Debug"]
    generate += ["-DCMAKE_UNITY_BUILD=ON", "-DLOADSTONE_KERNEL_OPTIMIZATION=-O1"]
    run([*generate, f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"])
    run([tool("cmake"), "--build", tmp_path / "build"])
    run([tool("cmake"), "--install", tmp_path / "build", "--prefix", tmp_path / "installed"])
    place = [f"-I{tmp_path}/installed/include/loadstone", f"-L{tmp_path}/installed/lib"]
    link = ["-lloadstone", f"-Wl,-rpath,{tmp_path}/installed/lib", "-o", tmp_path / "copy"]
    run(["gcc", *mode_flags(32), *STRICT, copying_program(tmp_path), *place, *link])
    run([tmp_path / "copy", "sim;pool_mb=64", tmp_path / "m.lds"])


def test_each_header_stands_alone_in_c_and_in_cpp(prefix: Path, tmp_path: Path) -> None:
    need("g++", "g++")
    headers = sorted((prefix / "include/loadstone").iterdir())
    assert {"loadstone.h", "lds_easy.h", "lds_hal.h", "lds_sim.h"} <= {h.name for h in headers}
    for header in headers:
        for compiler, language in (("gcc", "c"), ("g++", "c++")):
            include = f"-I{header.parent}"
            run([compiler, "-x", language, "-fsyntax-only", "-Wall", "-Werror", include, header])


def test_versions_agree_everywhere(prefix: Path, root: Path) -> None:
    version = loadstone.__version__
    assert f"project(loadstone VERSION {version} " in (root / "CMakeLists.txt").read_text()
    assert f'\nversion = "{version}"\n' in (root / "pyproject.toml").read_text()
    config = prefix / "lib/cmake/loadstone/loadstone-config-version.cmake"
    assert f'set(PACKAGE_VERSION "{version}")' in config.read_text()
    assert np.all([(prefix / "lib" / f"libloadstone.{kind}").is_file() for kind in ("a", "so")])
