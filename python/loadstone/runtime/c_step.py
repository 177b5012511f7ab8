# SPDX-License-Identifier: Apache-2.0
"""Steps that are C: compiled when a session opens, called with pointers to their operands.

In:   an artifact with steps of function `loadstone.c`, a C compiler.
Out:  the compiled functions, by symbol.
Next: session.py calls them. A board has them in its firmware instead (`loadstone export`).

    void SYMBOL(void *const *operands)      inputs, outputs; the last is scratch memory

The text is a program: session.py compiles it only for a file that is trusted (SECURITY.md).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loadstone.artifact.format import Artifact, HostStep
from loadstone.artifact.host_step import EXTERNAL_C
from loadstone.errors import ArtifactError, LoadstoneError
from loadstone.numerics import Array
from loadstone.printable import one_line

__all__ = ["C_FLAGS", "built_library", "c_compiler", "c_sources", "prepare", "run_c_step"]

#: Each operation is rounded by itself, whatever the processor could do in one go, so that the bytes
#: are the same on every machine.
C_FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-fno-strict-aliasing")
_COMPILERS = ("cc", "gcc", "clang")


def c_sources(artifact: Artifact) -> dict[str, str]:
    """The text of each C step by its symbol; equal steps are one."""
    found = [step for step in artifact.steps if isinstance(step, HostStep)]
    texts = [step.attributes for step in found if step.function == EXTERNAL_C]
    return {symbol: source for symbol, _, source in (text.partition("\n") for text in texts)}


def prepare(*artifacts: Artifact) -> None:
    """Compiles what the artifacts' steps call, those together that this process does not have yet.
    Raises ArtifactError without a compiler, or with the compiler's first complaint."""
    sources = {
        symbol: source
        for artifact in artifacts
        for symbol, source in c_sources(artifact).items()
        if (symbol, f"{symbol}\n{source}") not in _FUNCTIONS
    }
    if sources:
        _library(sources, artifacts[0].name)


def run_c_step(operands: Sequence[Array], attributes: str) -> None:
    """Calls the step's function on its operands, of any shape, in place."""
    symbol = attributes.partition("\n")[0]
    pointers = (ctypes.c_void_p * len(operands))(*(array.ctypes.data for array in operands))
    _FUNCTIONS[symbol, attributes](pointers)


_FUNCTIONS: dict[tuple[str, str], ctypes._FuncPointer] = {}


def c_compiler() -> list[str]:
    """The command of the host's C compiler: CC, or the first that there is; [""] for none."""
    if os.environ.get("CC"):
        return os.environ["CC"].split()
    return [next((name for name in _COMPILERS if shutil.which(name)), "")]


def built_library(
    files: Sequence[str], options: Sequence[str], refused: Callable[[str], LoadstoneError]
) -> ctypes.CDLL:
    """C files as a library of this process; its file does not stay. refused: makes the error of
    why there is none: no compiler, or its first complaint."""
    compiler = c_compiler()
    if shutil.which(compiler[0]) is None:
        known = compiler[0] or ", ".join(_COMPILERS)
        raise refused(
            f"there is no C compiler ({known}): install one (Debian: gcc), or name it in CC"
        )
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        library = str(Path(folder, "library.so"))
        command = [*compiler, *C_FLAGS, *options, "-fPIC", "-shared", "-o", library, *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            complaint = next((t for t in done.stderr.splitlines() if "error" in t), done.stderr)
            raise refused(f"{compiler[0]} refuses it: {one_line(complaint)[:200]}")
        return ctypes.CDLL(library)


def _library(sources: Mapping[str, str], name: str) -> None:
    """Fills _FUNCTIONS; the library stays in the process, its file does not."""
    with tempfile.TemporaryDirectory(prefix="loadstone-") as folder:
        files = []
        for k, source in enumerate(sources.values()):
            files.append(str(Path(folder, f"{k}.c")))
            Path(files[-1]).write_text(source)
        count = len(sources)
        loaded = built_library(
            files,
            (),
            lambda why: ArtifactError(f"model {name!r}: {count} of its steps are C: {why}"),
        )
    for symbol, source in sources.items():
        try:
            function = getattr(loaded, symbol)
        except AttributeError:
            raise ArtifactError(
                f"model {name!r}: a step in C has no function {one_line(symbol)[:80]!r}"
            ) from None
        function.restype = None
        _FUNCTIONS[symbol, f"{symbol}\n{source}"] = function
