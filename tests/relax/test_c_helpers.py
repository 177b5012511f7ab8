# SPDX-License-Identifier: Apache-2.0
"""relax/c_helpers.py: no number ends a process, and what is no number stays none, as in NumPy and
PyTorch; on every type, compiled with strict warnings and a sanitizer."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

from loadstone.relax.c_helpers import C_TYPES, helper_texts


def quotient(a: np.integer, b: np.integer) -> int:
    """Towards 0, and wrapped."""
    if b == 0:
        return 0
    size = abs(int(a)) // abs(int(b))
    return (
        int(a) if a == np.iinfo(a).min != 0 and b == -1 else size if (a < 0) == (b < 0) else -size
    )


TWO = {
    "lds_div": lambda a, b: np.array(list(map(quotient, a, b)), a.dtype),
    "lds_mod": np.fmod,
    "lds_floordiv": np.floor_divide,
    "lds_floormod": np.mod,
    "lds_min": np.minimum,
    "lds_max": np.maximum,
}
INTEGERS = [kind for kind in C_TYPES if "int" in kind]
REALS = ("float32", "float64")
FLAGS = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-O1", "-g"]
FLAGS += ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-static-libubsan"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    wanted = {f"{name} {kind}" for name in TWO for kind in INTEGERS}
    wanted |= {f"{name} {kind}" for name in ("lds_min", "lds_max") for kind in REALS}
    wanted |= {f"lds_abs {kind}" for kind in INTEGERS}
    wanted |= {f"lds_of_{real} {kind}" for real in ("float", "double") for kind in INTEGERS}
    text = "#include <stdint.h>\n" + "\n".join(helper_texts(wanted))
    for helper in sorted(wanted):
        name, kind = helper.split()
        real = name.removeprefix("lds_of_")
        source = real if real != name else C_TYPES[kind]
        second = ", b[k]" if name in TWO else ""
        made = f"void t_{name}_{kind}(const {source} *a, const {source} *b, {C_TYPES[kind]} *y)"
        text += f"\n{made};\n{made} {{\n  int k;\n  (void)b;\n"
        text += f"  for (k = 0; k < {COUNT}; ++k) y[k] = {name}_{kind}(a[k]{second});\n}}\n"
    folder = tmp_path_factory.mktemp("helpers")
    (folder / "helpers.c").write_text(text)
    command = ["gcc", *FLAGS, "-fPIC", "-shared", "-o", folder / "h.so", folder / "helpers.c"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "h.so"))


COUNT = 64


def called(library: ctypes.CDLL, name: str, kind: str, *given: np.ndarray) -> np.ndarray:
    result = np.empty(COUNT, kind)
    operands = [np.ascontiguousarray(array) for array in (given[0], given[-1])]
    library[f"t_{name}_{kind}"](*(ctypes.c_void_p(a.ctypes.data) for a in (*operands, result)))
    return result


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_are_numpys(library: ctypes.CDLL, kind: str) -> None:
    ends = np.iinfo(kind)
    numbers = [ends.min, ends.max, 0, 1, 2, 7, ends.max - 1, -1 if ends.min else 3]
    a, b = (grid.reshape(-1) for grid in np.meshgrid(*[np.array(numbers, kind)] * 2))
    for name, want in TWO.items():
        got = called(library, name, kind, a, b)
        with np.errstate(all="ignore"):
            right = want(a, b)
        np.testing.assert_array_equal(got, right, err_msg=name)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(called(library, "lds_abs", kind, a), np.abs(a))


@pytest.mark.parametrize("kind", REALS)
def test_what_is_no_number_stays_none(library: ctypes.CDLL, kind: str) -> None:
    numbers = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 3.5, -2.25]
    a, b = (grid.reshape(-1).astype(kind) for grid in np.meshgrid(numbers, numbers))
    for name in ("lds_min", "lds_max"):
        np.testing.assert_array_equal(called(library, name, kind, a, b), TWO[name](a, b))


@pytest.mark.parametrize("kind", INTEGERS)
def test_no_number_is_the_least_integer(library: ctypes.CDLL, kind: str) -> None:
    given = np.resize([np.nan, 0.0, 3.7, 100.2], COUNT)
    want = np.resize([np.iinfo(kind).min, 0, 3, 100], COUNT).astype(kind)
    for real, width in (("float", np.float32), ("double", np.float64)):
        got = called(library, f"lds_of_{real}", kind, given.astype(width))
        np.testing.assert_array_equal(got, want)
