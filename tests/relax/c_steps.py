# SPDX-License-Identifier: Apache-2.0
"""A COperator, compiled with strict warnings as errors and called.

In:   what c_operator made; arrays.
Out:  its outputs, in arrays like those given.
Next: tests of the printer and of what uses it.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadstone.artifact.c_operator import COperator
from loadstone.numerics import Array
from loadstone.runtime.c_step import C_FLAGS

__all__ = ["call", "compiled"]

STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wcast-align", "-Wcast-qual")


def call(made: COperator, inputs: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """Not linked with libm: what the text does not define is an error of the linker."""
    outputs = [np.empty_like(array) for array in like]
    scratch = np.zeros(made.workspace_bytes // 8 + 1, np.float64)
    operands = [*map(np.ascontiguousarray, inputs), *made.constants, *outputs, scratch]
    with tempfile.TemporaryDirectory() as folder:
        function = ctypes.CDLL(str(compiled(Path(folder), [made.source])))[made.symbol]
    function.restype = None
    function((ctypes.c_void_p * len(operands))(*(array.ctypes.data for array in operands)))
    return outputs


def compiled(folder: Path, sources: Sequence[str]) -> Path:
    """The library of several files, made in a folder."""
    files, library = [folder / f"{k}.c" for k in range(len(sources))], folder / "steps.so"
    for file, source in zip(files, sources, strict=True):
        file.write_text(source)
    flags = [*C_FLAGS, *STRICT, "-fPIC", "-shared", "-Wl,--no-undefined"]
    subprocess.run(["gcc", *flags, "-o", library, *files], check=True)
    return library
