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

__all__ = ["call"]

STRICT = ("-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wcast-align", "-Wcast-qual")


def call(made: COperator, inputs: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """Not linked with libm: what the text does not define is an error of the linker."""
    outputs = [np.empty_like(array) for array in like]
    scratch = np.zeros(made.workspace_bytes // 8 + 1, np.float64)
    operands = [*map(np.ascontiguousarray, inputs), *made.constants, *outputs, scratch]
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "step.c"), Path(folder, "step.so")
        source.write_text(made.source)
        flags = [*C_FLAGS, *STRICT, "-fPIC", "-shared", "-Wl,--no-undefined"]
        subprocess.run(["gcc", *flags, "-o", library, source], check=True)
        function = ctypes.CDLL(str(library))[made.symbol]
    function.restype = None
    function((ctypes.c_void_p * len(operands))(*(array.ctypes.data for array in operands)))
    return outputs
