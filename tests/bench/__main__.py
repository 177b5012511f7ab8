# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench [NAME ...]`: measure, and print one line for each figure.

In:   names of modules of this folder; none: all of MODULES.
Out:  lines on stdout; exit status 1 when a limit that a module states is missed.
Next: a person compares them with the last ones.

A module has `run() -> bool`: prints its figures, and returns whether its limits hold.
"""

from __future__ import annotations

import importlib
import sys

MODULES = (
    *("codec", "simulator", "inference", "runtime", "hosts", "networks", "partition", "resnet18"),
    *("vta", "quantization", "quantizer_time", "bfloat16", "compiler", "workers", "sweep"),
    *("user_networks", "recurrent", "meanings", "page", "language", "ethos", "many", "newcomer"),
)


def main(names: list[str]) -> int:
    """Runs the modules, one after the other."""
    held = True
    for name in names or MODULES:
        print(f"== {name}", flush=True)
        held &= importlib.import_module(f"tests.bench.{name}").run()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
