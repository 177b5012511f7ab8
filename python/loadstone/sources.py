# SPDX-License-Identifier: Apache-2.0
"""Where the C sources of the runtime and its drivers are.

In:   the package as it is installed.
Out:  the folder that holds runtime/ and driver/.
Next: commands/export.py copies them into a project, hosts/tvm.py compiles against their headers.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from loadstone.errors import LoadstoneError

__all__ = ["source_folder"]


def source_folder() -> Path:
    """In an installed package `csrc`, in a checkout its root. Raises LoadstoneError."""
    package = Path(str(resources.files("loadstone")))
    for folder in (package / "csrc", package.parent.parent):
        if (folder / "runtime/include/loadstone.h").is_file():
            return folder
    raise LoadstoneError("the C sources of the runtime are not installed beside the package")
