# SPDX-License-Identifier: Apache-2.0
"""relax/c_math.py: every function is the double result, rounded to float once."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path

import numpy as np

from loadstone.relax.c_math import MATH, closure

#: By the function's name without prefix: over float64 arrays.
WANTED = {
    **{n: getattr(np, n) for n in ("exp", "log", "sqrt", "tanh", "sin", "cos", "floor", "ceil")},
    **{n: getattr(np, n) for n in ("trunc", "fabs", "rint", "fmod")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    **{n: getattr(np, n) for n in ("tan", "sinh", "cosh")},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("tan", "sin", "cos", "sinh", "cosh", "tanh")},
    "pow": np.power,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
TWO = ("pow", "fmod")
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow"]


def compiled(folder: Path) -> ctypes.CDLL:
    names = sorted(set(MATH.values()))
    text = "#include <stdint.h>\n" + "\n".join(closure({f"{name}f" for name in names}))
    for name in names:
        second = ", y[k]" if name.removeprefix("lds_") in TWO else ""
        text += (
            f"\nvoid t_{name}(const float *x, const float *y, float *z, long n);"
            f"\nvoid t_{name}(const float *x, const float *y, float *z, long n) {{\n  long k;\n"
            f"  (void)y;\n  for (k = 0; k < n; ++k) z[k] = {name}f(x[k]{second});\n}}\n"
        )
    (folder / "math.c").write_text(text)
    flags = [*STRICT, "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-nostdlib"]
    command = ["gcc", *flags, "-o", folder / "math.so", folder / "math.c"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "math.so"))


def test_every_function_is_rounded_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    random = [rng.normal(0, spread, 2000) for spread in (1e-6, 0.1, 1, 5, 40, 1000)]
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -0.5, -1.5, 8388609, 1e30, -1e30]
    edges += [1, -1, 2, 1 + 2**-23, 1 - 2**-24, 89.4, -89.4, 88.8, 1e-30, -1e-30]
    x = np.concatenate([*random, edges]).astype(np.float32)
    y = np.resize(rng.normal(0, 3, 1000), x.size).astype(np.float32)
    library = compiled(tmp_path)
    for function in sorted(set(MATH.values())):
        name, z = function.removeprefix("lds_"), np.empty_like(x)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, y, z)]
        getattr(library, f"t_{function}")(*pointers, ctypes.c_long(x.size))
        with np.errstate(all="ignore"):
            arguments = [a.astype(np.float64) for a in ((x, y) if name in TWO else (x,))]
            want = WANTED[name](*arguments).astype(np.float32)
        if name in ("sin", "cos", "tan"):
            want[np.abs(x) >= 2**20] = np.nan
        same = (want == z) | (np.isnan(want) & np.isnan(z))
        assert same.all(), (name, x[~same][:3], z[~same][:3], want[~same][:3])
