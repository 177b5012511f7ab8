# SPDX-License-Identifier: Apache-2.0
"""A model in the C runtime alone: what `loadstone export` writes, compiled, on lds_easy.h.

In:   an artifact whose external steps are C.
Out:  `run_in_c`: its outputs; no step of it is Python's.
Next: test_easy.py, tests/test_networks_in_c.py.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.commands.export import export
from loadstone.library.native import ffi, lib, library_file
from loadstone.numerics import Array
from loadstone.runtime.c_step import C_FLAGS
from loadstone.runtime.device import device_of_artifact
from tests.hosts.easy import Easy, open_device

__all__ = ["run_in_c"]


def run_in_c(artifact: Artifact, inputs: list[Array], folder: Path) -> list[Array]:
    """inputs: (samples, ...) each, of the first entry."""
    export(artifact, device_of_artifact(artifact), "linux", folder)
    exported = Artifact.load(folder / "model.lds")
    device = open_device("sim")
    steps = _steps(folder)
    if steps is not None:
        function = ctypes.c_char.in_dll(steps, "model_external")
        external = ffi.cast("lds_easy_external", ctypes.addressof(function))
        assert lib().lds_easy_device_external(device, external, ffi.NULL) == 0
    samples = len(inputs[0])
    views = [exported.tensors[index] for index in exported.only().outputs]
    shapes = [(samples, view.shape[0] // exported.samples, *view.shape[1:]) for view in views]
    outputs = [np.zeros(shape, view.dtype.numpy) for shape, view in zip(shapes, views, strict=True)]
    with Easy(exported, device) as net:
        net.run([np.ascontiguousarray(x) for x in inputs], outputs)
    return outputs


def _steps(folder: Path) -> ctypes.CDLL | None:
    """The library of the external steps; None for a model that has none. The set of the runtime's
    own operators is for a firmware: the library has them all."""
    files = sorted(set((folder / "steps").glob("*.c")) - {folder / "steps/operators.c"})
    if not files:
        return None
    library = folder / "steps.so"
    flags = [*C_FLAGS, "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-Wl,--no-undefined"]
    include = [f"-I{folder}", f"-I{folder / 'loadstone/include'}"]
    command = ["gcc", *flags, *include, "-o", library, *files, library_file()]
    subprocess.run([*map(str, command), f"-Wl,-rpath,{library_file().parent}"], check=True)
    return ctypes.CDLL(str(library))
