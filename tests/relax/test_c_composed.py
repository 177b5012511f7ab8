# SPDX-License-Identifier: Apache-2.0
"""relax/c_composed.py: doubles that are right to all but their last digits, small ones too."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from loadstone.relax.c_composed import COMPOSED
from loadstone.relax.c_math import closure

WANTED = {
    **{n: getattr(np, n) for n in ("tan", "sinh", "cosh", "log1p", "expm1")},
    **{f"a{n}": getattr(np, f"arc{n}") for n in ("sin", "cos", "sinh", "cosh", "tanh")},
}


def test_doubles_keep_their_digits(tmp_path: Path) -> None:
    assert {f"lds_{name}" for name in WANTED} == set(COMPOSED)
    text = "#include <stdint.h>\n" + "\n".join(closure(set(COMPOSED)))
    for name in COMPOSED:
        text += f"\ndouble t_{name}(double x);\ndouble t_{name}(double x) {{ return {name}(x); }}\n"
    (tmp_path / "made.c").write_text(text)
    library = tmp_path / "made.so"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off", "-nostdlib"]
    flags += ["-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, "-o", library, tmp_path / "made.c"], check=True)
    functions = ctypes.CDLL(str(library))
    sizes = np.geomspace(1e-14, 1e3, 300)
    x = np.concatenate([sizes, -sizes, 1 - sizes, 1 + sizes, [0, 1, -1, np.inf, -np.inf, np.nan]])
    for name, want_of in WANTED.items():
        function = functions[f"t_lds_{name}"]
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double]
        got = np.array([function(value) for value in x])
        with np.errstate(all="ignore"):
            want = want_of(x)
        if name in ("sinh", "cosh", "expm1"):  # their largest results are infinite a little early
            got, want = got[np.abs(x) < 700], want[np.abs(x) < 700]
        np.testing.assert_allclose(got, want, rtol=2e-14, atol=0, err_msg=name)
