# SPDX-License-Identifier: Apache-2.0
"""The C headers in cffi's parsed form: parsed when the library is built, not in every process.

In:   _api.h, preprocessed. As a script: that file, and where to write (CMakeLists.txt runs it).
Out:  _api.ffi: a line with the digest of the header, and Python that makes cffi's FFI of it.
Next: native.py reads it; where it is missing, or is of another header, the header is parsed.

Parsing takes cffi 160 ms of processor time, reading this 9. Only cffi's compiled part is needed.
"""

from __future__ import annotations

import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

__all__ = ["FFI", "opened", "written"]

#: cffi's, of Python or of its compiled part; neither has types.
FFI: TypeAlias = Any


def written(header: str) -> str:
    """What _api.ffi holds, for the text of a header."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(header)
    ffi.set_source("loadstone._api", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "api.py")
        ffi.emit_python_code(str(path))
        return f"# {_digest(header)}\n{path.read_text(encoding='utf-8')}"


def opened(text: str, header: str) -> FFI | None:
    """The FFI that _api.ffi holds; None where it was made of another header."""
    if text.partition("\n")[0] != f"# {_digest(header)}":
        return None
    namespace: dict[str, FFI] = {}
    exec(compile(text, "_api.ffi", "exec"), namespace)
    return namespace["ffi"]


def _digest(header: str) -> str:
    return sha256(header.encode()).hexdigest()


def _main(source: str, target: str) -> None:
    text = written(Path(source).read_text(encoding="utf-8"))
    Path(target).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
