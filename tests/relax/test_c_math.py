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


#: Functions that are made of others, over doubles.
MADE = {
    **{n: getattr(np, n) for n in ("tan", "sinh", "cosh", "log1p", "expm1")},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "sinh", "cosh", "tanh")},
}


def test_doubles_keep_their_digits(tmp_path: Path) -> None:
    """Of functions that are made of others: small results, too."""
    names = {f"lds_{name}" for name in MADE}
    text = "#include <stdint.h>\n" + "\n".join(closure(names))
    for name in names:
        text += f"\ndouble t_{name}(double x);\ndouble t_{name}(double x) {{ return {name}(x); }}\n"
    (tmp_path / "made.c").write_text(text)
    library = tmp_path / "made.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off", "-nostdlib"]
    flags += ["-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", library, tmp_path / "made.c"], check=True)
    functions = ctypes.CDLL(str(library))
    sizes = np.geomspace(1e-14, 1e3, 300)
    x = np.concatenate([sizes, -sizes, 1 - sizes, 1 + sizes, [0, 1, -1, np.inf, -np.inf, np.nan]])
    for name, want_of in MADE.items():
        function = functions[f"t_lds_{name}"]
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
        got = np.array([function(value) for value in x])
        with np.errstate(all="ignore"):
            want = want_of(x)
        if name in ("sinh", "cosh", "expm1"):  # their largest results are infinite a little early
            got, want = got[np.abs(x) < 700], want[np.abs(x) < 700]
        np.testing.assert_allclose(got, want, rtol=2e-14, atol=0, err_msg=name)
