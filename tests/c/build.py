# SPDX-License-Identifier: Apache-2.0
"""Build C programs for this machine with 64 and with 32 bits, under the sanitizers.

In:   C files; MODES to parametrize a test with.
Out:  an executable; a skipped test where a compiler or the 32-bit libraries are absent.
Next: test_c.py, test_threads.py, driver/test_dma_memory.py.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import objects
from tests.board.tools import ROOT, missing, need, run
from tests.repeat import ALL, more

__all__ = ["LONG_MODES", "MODES", "SANITIZED", "STRICT", "compile_c", "includes", "mode_flags"]

#: Strictest C99, what runs on a board.
STRICT = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wvla",
    "-Wcast-align",
    "-Wcast-qual",
    "-Wundef",
)
#: Not optimised: a third of the compiler's time; in `make test-all` as a user's build.
SANITIZED = (
    *("-g", "-O1" if ALL else "-O0"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
)
#: Widths of size_t that tests run with.
MODES = [64, pytest.param(32, id="32")]
#: Of long tests: the narrower size_t, in which sums wrap; the wider one in `make test-all`.
LONG_MODES = [pytest.param(64, marks=more, id="64"), pytest.param(32, id="32")]
#: Debian keeps the kernel's headers where -m32 does not look; gcc-multilib, which links them,
#: cannot be installed beside cross-compilers.
_HEADERS = ("-idirafter", "/usr/include/x86_64-linux-gnu")
_PACKAGES = "libc6-dev-i386 lib32gcc-12-dev lib32stdc++-12-dev"


@functools.cache
def _links(flags: tuple[str, ...]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.c"
        source.write_text(
            "#include <errno.h>\n#include <stdlib.h>\nint main(void) "
            "{ return sizeof(void *) == 4 ? 0 : 1; }\n"
        )
        command = ["gcc", *flags, str(source), "-o", f"{folder}/a"]
        built = subprocess.run(command, capture_output=True, check=False).returncode == 0
        return built and subprocess.run([f"{folder}/a"], check=False).returncode == 0


def mode_flags(bits: int) -> tuple[str, ...]:
    """The compiler's flags for a size_t of so many bits; skips the test where this machine cannot
    build and run them."""
    if bits == 64:
        return ()
    need("gcc", "gcc")
    if not _links(("-m32", *_HEADERS)):
        missing(f"gcc -m32 does not link here: apt-get install {_PACKAGES}")
    return ("-m32", *_HEADERS)


def includes(root: Path = ROOT) -> list[str]:
    """Where the headers of runtime and drivers are, the private ones too."""
    return [
        f"-I{root}/{folder}"
        for folder in ("runtime/include", "driver/include", "runtime", "driver")
    ]


def compile_c(
    bits: int, out: Path, sources: Sequence[Path], flags: Sequence[str], compiler: str = "gcc"
) -> Path:
    """Strict C99 with ASan and UBSan. Returns `out`."""
    need(compiler, compiler)
    command = [compiler, *mode_flags(bits), *STRICT, *SANITIZED, *flags]
    run([*command, *objects.all_compiled(command, sources), "-o", out])
    return out
