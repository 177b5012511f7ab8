# SPDX-License-Identifier: Apache-2.0
"""What `loadstone compile` takes for the networks that people export from PyTorch: user seconds and
memory of whole commands, quantization and imports included.

In:   the networks of user_zoo.py (`pip install 'loadstone[user-networks]'`; skipped without it).
Out:  for each network seconds and MiB, beside those of before; median and worst; what of them
      `import torch` takes.
Next: `python -m tests.bench.user_networks NAME ...` measures some, and with `--exported FOLDER`
      keeps what PyTorch exported for the next time; a person profiles the worst.

A command that takes longer than MOST_SECONDS of processor time, or needs more memory than MOST_GIB,
is ended and counts as one that took as long.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.bench.user_zoo import IMAGES, SEQUENCES

__all__ = ["TARGET", "bounded", "run"]

TARGET = "vtaq-1x16x16"
MOST_SECONDS, MOST_GIB = 120, 4
#: What is aimed at: seconds of the median network, seconds and GiB of the worst.
AIMS = (3.0, 10.0, 1.0)
#: User seconds and MiB at a commit, of the networks that were measured there: on two virtual cores
#: under other load.
BEFORE_COMMIT = "bf36cd92"
BEFORE: dict[str, tuple[float, int]] = {
    "mobilenetv3_small_050": (13.0, 751),
    "poolformer_s12": (31.9, 1592),
    "resnet18": (75.4, 2296),
    "vit_tiny_patch16_224": (16.2, 967),
}


def run(names: Sequence[str] = (), exported: str | None = None) -> bool:
    """Prints the table; False where an aim is missed, or a network is not compiled. exported: a
    folder of networks, to which those that it lacks are added."""
    if exported is not None:
        return _table(names or (*IMAGES, *SEQUENCES), Path(exported))
    with tempfile.TemporaryDirectory() as folder:
        return _table(names or (*IMAGES, *SEQUENCES), Path(folder))


def _table(names: Sequence[str], folder: Path) -> bool:
    missing = [name for name in ("torch", "timm", "transformers") if find_spec(name) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} absent (pip install 'loadstone[user-networks]')")
        return True
    _export([name for name in names if not Path(folder, f"{name}.npz").exists()], folder)
    floor = min(bounded([sys.executable, "-c", "import torch"])[0] for _ in range(3))
    print(f"`import torch` alone: {floor:.1f} user s of each network's", flush=True)
    print(f"{'network':<26} {'user s':>7} {'MiB':>6}   at {BEFORE_COMMIT}: user s, MiB")
    measured = [_measured(name, folder) for name in names]
    seconds, mib = [row[0] for row in measured], [row[1] for row in measured]
    found = statistics.median(seconds), max(seconds), max(mib) / 1024
    print(
        f"{len(measured)} networks: median {found[0]:.1f} s (aim {AIMS[0]:.0f}; "
        f"{found[0] - floor:.1f} without `import torch`), worst {found[1]:.1f} s (aim "
        f"{AIMS[1]:.0f}), at most {found[2]:.2f} GiB (aim {AIMS[2]:.0f})"
    )
    done = all(row[2] for row in measured)
    return done and all(value <= aim for value, aim in zip(found, AIMS, strict=True))


def _export(names: Sequence[str], folder: Path) -> None:
    """In one process, which imports PyTorch once. Prints why one is not exported: it is missing
    afterwards."""
    if names:
        made = [sys.executable, "-m", "tests.bench.user_zoo", str(folder), *names]
        print(subprocess.run(made, stdout=subprocess.PIPE, text=True, check=False).stdout, end="")


def _measured(name: str, folder: Path) -> tuple[float, float, bool]:
    """User seconds and MiB of one command, and whether it compiled the network."""
    model = folder / name
    if not Path(f"{model}.npz").exists():
        print(f"{name:<26} not exported", flush=True)
        return 0.0, 0.0, False
    with tempfile.TemporaryDirectory() as results:
        seconds, mib, said = bounded(
            [
                *(sys.executable, "-m", "loadstone", "compile", f"{model}.pt2", "-t", TARGET),
                *("--data", f"{model}.npz", "-o", f"{results}/{name}.lds"),
            ]
        )
    before = BEFORE.get(name)
    beside = f"{before[0]:>9.1f} {before[1]:>6}" if before else ""
    print(f"{name:<26} {seconds:>7.1f} {mib:>6.0f} {beside} {said}", flush=True)
    return seconds, mib, not said


def bounded(command: list[str]) -> tuple[float, float, str]:
    """User seconds and MiB of a command, and what was wrong; empty where nothing was."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_GIB << 30, MOST_GIB << 30))

    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limit
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode < 0:
        said = f"ended by signal {-process.returncode}"
    else:
        said = (lines or ["failed"])[-1] if process.returncode else ""
    return used.ru_utime, used.ru_maxrss / 1024, said


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--exported", metavar="FOLDER")
    sys.exit(0 if run(**vars(parser.parse_args())) else 1)
