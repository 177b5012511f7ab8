# SPDX-License-Identifier: Apache-2.0
"""Debian's Python, NumPy and cffi for another processor, under qemu-user.

In:   an architecture of Debian ("arm64", "armhf"); a folder of packages, or a wheel for it.
Out:  the words before a script that run it there.
Next: test_python.py; tests/test_wheels.py.

The packages are those of Debian's release on this machine, unpacked below build/board as
debian.py's kernels are: nothing is installed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np

from tests.board.debian import apt_state, downloaded, unpack
from tests.board.models import Network
from tests.board.tools import BUILD, locked, need, run

__all__ = ["check_runs", "installed", "interpreter"]

#: Architecture -> qemu-user's program, the folder of its libraries.
_EMULATORS = {
    "arm64": ("qemu-aarch64", "aarch64-linux-gnu"),
    "armhf": ("qemu-arm", "arm-linux-gnueabihf"),
}
#: Of one architecture: Python, NumPy, cffi, and the libraries that these load.
_PACKAGES = (
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libssl3"),
    *("libblas3", "liblapack3", "libgfortran5", "libbz2-1.0", "liblzma5"),
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib"),
    *("python3-numpy", "python3-cffi-backend"),
)
#: Of any; what cffi and NumPy import besides.
_ANY = ("python3-cffi", "python3-pkg-resources")


def installed(wheel: Path, folder: Path) -> Path:
    """The folder that has a wheel as pip lays it out for the processor that its name says."""
    platform = wheel.stem.rpartition("-")[2].partition(".")[0]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile"]
    only = ["--only-binary", ":all:", "--python-version", "3.11", "--platform", platform]
    run([*pip, *only, "--target", folder, wheel])
    return folder


def interpreter(arch: str, folder: Path) -> list[str]:
    """How Python runs there, with the packages of a folder. Skips the test when a tool or the
    network is not there."""
    emulator, libraries = _EMULATORS[arch]
    need(emulator, "qemu-user")
    root = _root(arch)
    places = [root / "usr/lib" / libraries / name for name in ("blas", "lapack")]
    settings = {
        "PYTHONHOME": root / "usr",
        "PYTHONPATH": f"{folder}:{root / 'usr/lib/python3/dist-packages'}",
        "LD_LIBRARY_PATH": ":".join(map(str, places)),
    }
    words = [word for name, value in settings.items() for word in ("-E", f"{name}={value}")]
    return [emulator, "-L", str(root), *words, str(root / "usr/bin/python3.11")]


def _root(arch: str) -> Path:
    root = BUILD / f"python-{arch}"
    with locked(f"python-{arch}"):
        if not root.is_dir():
            need("apt-get", "apt, on a Debian machine")
            with locked("apt"):
                apt = apt_state(run(["dpkg", "--print-architecture"]).strip())
                names = [f"{name}:{arch}" for name in _PACKAGES]
                debs = downloaded(apt, [*names, *_ANY])
            half = root.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            for deb in debs:
                unpack(deb, half, "*")
            half.rename(root)
    return root


def check_runs(python: list[str], network: Network, folder: Path) -> None:
    """A network on the simulator gives the native outputs and cycles, through the command line."""
    network.artifact.save(folder / "net.lds")
    outputs = np.stack([np.frombuffer(out, np.int8) for out in network.outputs])
    np.savez(folder / "x.npz", in0=network.inputs, out0=outputs[:, None])
    words = ["run", "net.lds", "--inputs", "x.npz", "--expect", "x.npz", "--json"]
    said = json.loads(run([*python, "-m", "loadstone", *words], cwd=folder))
    assert said["cycles"] == sum(network.cycles)
