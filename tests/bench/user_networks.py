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
BEFORE_COMMIT = "c03c75f4"
BEFORE: dict[str, tuple[float, int]] = {
    "bert": (2.9, 517),
    "convnext_atto": (6.5, 718),
    "convnextv2_atto": (9.1, 874),
    "deit_tiny_patch16_224": (7.2, 839),
    "distilbert": (2.8, 515),
    "dla46_c": (5.4, 577),
    "edgenext_xx_small": (9.6, 749),
    "efficientnet_b0": (10.1, 860),
    "efficientnet_lite0": (7.0, 798),
    "efficientvit_b0": (10.2, 851),
    "electra": (2.8, 516),
    "ese_vovnet19b_slim_dw": (4.8, 607),
    "fastvit_t8": (9.3, 785),
    "fbnetc_100": (8.2, 869),
    "ghostnet_050": (12.8, 856),
    "gpt2": (4.5, 624),
    "hardcorenas_a": (8.1, 832),
    "inception_next_atto": (8.2, 760),
    "lcnet_050": (5.9, 619),
    "levit_128s": (13.5, 1028),
    "mixer_s32_224": (11.8, 1636),
    "mnasnet_small": (6.0, 643),
    "mobilenetv2_050": (5.3, 638),
    "mobilenetv3_small_050": (6.1, 611),
    "mobilenetv4_conv_small": (6.0, 742),
    "mobileone_s0": (13.3, 935),
    "mobilevit_xxs": (8.1, 627),
    "pit_ti_224": (8.1, 812),
    "poolformer_s12": (10.3, 1231),
    "regnetx_002": (5.2, 648),
    "regnety_002": (6.6, 689),
    "repghostnet_050": (10.1, 708),
    "repvgg_a0": (8.8, 1043),
    "resmlp_12_224": (12.5, 1637),
    "resnet10t": (5.9, 805),
    "resnet18": (8.8, 1161),
    "rexnet_100": (12.4, 858),
    "semnasnet_075": (7.0, 710),
    "skresnet18": (11.3, 1208),
    "starnet_s1": (7.1, 697),
    "tf_mixnet_s": (14.8, 891),
    "tinynet_d": (7.4, 673),
    "tinynet_e": (7.3, 658),
    "vit_tiny_patch16_224": (7.6, 840),
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
