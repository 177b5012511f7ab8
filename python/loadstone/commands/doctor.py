# SPDX-License-Identifier: Apache-2.0
"""`loadstone doctor`: which parts are installed, and their purpose.

In:   this machine.
Out:  a line for each part: whether it is installed, its version, the guide that needs it, how to
      install it; or JSON. Exit status 1 when Loadstone itself cannot work.
Next: docs/getting-started.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import loadstone
from loadstone.commands.answers import json_text
from loadstone.commands.terminal import print_table
from loadstone.errors import COMPILER_PYTHON, LoadstoneError, python_too_old

__all__ = ["TOOLS", "configure", "run", "version_text"]

_EPILOG = """\
examples:
  loadstone doctor             what is installed, which inner loops, which tools for which guide
  loadstone doctor --json      for a bug report
"""
#: Package -> its purpose, how it is installed.
PACKAGES = {
    "numpy": ("everything", "pip install numpy"),
    "cffi": ("running models", "pip install cffi"),
    "apache-tvm": ("loadstone compile, quantize", "pip install 'loadstone[compiler]'"),
    "onnx": ("ONNX models", "pip install 'loadstone[compiler]'"),
    "tflite": ("TFLite models", "pip install 'loadstone[compiler]'"),
    "torch": ("PyTorch models", "pip install 'loadstone[torch]'"),
    "pillow": ("folders of images as samples", "pip install 'loadstone[images]'"),
    "rich": ("tables in a terminal", "pip install 'loadstone[terminal]'"),
    "argcomplete": ("loadstone completion", "pip install 'loadstone[terminal]'"),
    "mcp": ("loadstone mcp", "pip install 'loadstone[mcp]'"),
    "onnxruntime": ("docs/onnxruntime.md; the demo's comparison", "pip install onnxruntime"),
    "ai-edge-litert": ("docs/litert.md", "pip install ai-edge-litert"),
}
#: Program -> its purpose, Debian's package.
TOOLS = {
    "cc": ("docs/c-projects.md; steps in C", "gcc"),
    "cmake": ("docs/c-projects.md", "cmake"),
    "arm-none-eabi-gcc": (
        "docs/deploy.md: Cortex-M firmware",
        "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    ),
    "riscv64-linux-gnu-gcc": (
        "docs/deploy.md: RISC-V firmware",
        "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    ),
    "aarch64-linux-gnu-gcc": ("docs/deploy.md: boards under Linux", "gcc-aarch64-linux-gnu"),
    "qemu-system-arm": ("docs/boards/emulated.md: boards without boards", "qemu-system-arm"),
    "qemu-system-riscv64": ("docs/boards/emulated.md: boards without boards", "qemu-system-misc"),
    "verilator": ("docs/hardware.md: --device rtl", "verilator"),
    "chromium": ("docs/tune.md: pages of `loadstone profile --html`", "chromium"),
}


@dataclass(frozen=True)
class Installed:
    """A part that may be installed. install: the command that installs it."""

    kind: str
    name: str
    found: str | None
    what_for: str
    install: str


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds --json."""
    parser.epilog = _EPILOG
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> int:
    """1 when the native library cannot be used."""
    parts = list(_parts())
    if args.json:
        print(json_text([asdict(part) for part in parts]))
    else:
        print(version_text())
        print(f"{platform.system()} {platform.machine()}, Python {platform.python_version()}")
        cells = [
            (part.kind, part.name, part.found or f"missing: {part.install}", part.what_for)
            for part in parts
        ]
        plain = "\n".join(
            f"  {kind:<8} {name:<22} {found:<44} {what_for}".rstrip()
            for kind, name, found, what_for in cells
        )
        print_table(("", "what", "found", "for"), cells, plain)
    return 0 if next(part for part in parts if part.name == "libloadstone").found else 1


def version_text() -> str:
    """`loadstone 0.1.0 (commit 1a2b3c4), TVM 0.27.0`: the commit in a checkout only."""
    commit, tvm = _commit(), _version("apache-tvm")
    return (
        f"loadstone {loadstone.__version__}"
        + (f" (commit {commit})" if commit else "")
        + (f", TVM {tvm}" if tvm else ", without TVM")
    )


def _commit() -> str | None:
    root = Path(loadstone.__file__).parent.parent.parent
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    words = [git, "-C", str(root), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _parts() -> Iterator[Installed]:
    newer = f"Python {'.'.join(map(str, COMPILER_PYTHON))} or newer" if python_too_old() else ""
    for package, (what_for, install) in PACKAGES.items():
        remedy = newer if newer and re.search(r"\[(compiler|torch)\]", install) else install
        yield Installed("package", package, _version(package), what_for, remedy)
    yield Installed(
        "library", "libloadstone", _library(), "running models", "make lib, or the wheel"
    )
    kernels = ", ".join(_kernels())
    yield Installed("kernels", "simulator", kernels or None, "the fastest is taken", "make lib")
    for tool, (what_for, package) in TOOLS.items():
        found = shutil.which(tool)
        yield Installed("tool", tool, found, what_for, f"apt-get install {package}")
    yield Installed("cpu", "processors", str(os.cpu_count()), "loadstone run --threads N", "")


def _library() -> str | None:
    from loadstone.library.native import library_file

    try:
        return library_file().name
    except LoadstoneError:
        return None


def _kernels() -> list[str]:
    if _library() is None:
        return []
    from loadstone.vta.device.hw_config import load_config
    from loadstone.vta.simulator.sim import kernels_available

    return kernels_available(load_config("vtaq-1x16x16"))
