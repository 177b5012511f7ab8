# SPDX-License-Identifier: Apache-2.0
"""relax/compat.py: what of TVM a command imports."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("tvm", reason="TVM is not installed")

#: As __main__.py does it, but for the command: what of TVM is there then.
COMMAND = """
import os
from loadstone.__main__ import start
import loadstone.cli
def main(words, interrupted):
    from loadstone.relax.compat import tvm
    from tvm.backend.loader import is_loaded
    known = [tvm.get_global_func(name, allow_missing=True) is not None for name in words]
    print(*known, is_loaded("cuda"), os.environ["TVM_DEVICE_BACKEND_AUTOLOAD"])
    import tvm.runtime.disco
    return 0
loadstone.cli.main = main
start(["tvm.contrib.sort.topk", "tvm.contrib.random.uniform", "tvm.contrib.no"])
"""


@pytest.mark.parametrize("said", [None, "1"])
def test_a_command_loads_code_generators_for_gpus_only_when_told_to(said: str | None) -> None:
    """What belongs to the host is there in any case, and what TVM did not find while it was
    imported can be imported afterwards."""
    environment = {**os.environ, "TVM_DEVICE_BACKEND_AUTOLOAD": said or ""}
    if said is None:
        del environment["TVM_DEVICE_BACKEND_AUTOLOAD"]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True", "False", str(said == "1"), said or "0"]
