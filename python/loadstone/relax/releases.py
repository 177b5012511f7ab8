# SPDX-License-Identifier: Apache-2.0
"""Which release of TVM is installed, and whether it is one that Loadstone is tested on.

In:   the version that the installed package apache-tvm states, read without importing it: an
      importing module would fail in its own words.
Out:  its series, "0.26" or "0.27"; one line for any other.
Next: compat.py, which asks this first and gives what differs between the two under one name.
"""

from __future__ import annotations

from importlib import import_module, metadata

from loadstone.errors import LoadstoneError

__all__ = ["TESTED", "series", "series_of"]

#: What the tests run on. Another release of these series is taken for the one that stands here: the
#: names of TVM's Python API change from one series to the next.
TESTED = ("0.26.0", "0.27.0.post1")


def series_of(version: str) -> str:
    """The first two numbers of a release.

    >>> series_of("0.27.0.post1")
    '0.27'
    """
    return ".".join(version.split(".")[:2])


def series() -> str:
    """The first two numbers of the installed release. Raises LoadstoneError where Loadstone does
    not work with it, and ModuleNotFoundError where there is none."""
    try:
        found = metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:  # built from source, or not there
        found = str(import_module("tvm").__version__)
    if series_of(found) in map(series_of, TESTED):
        return series_of(found)
    raise LoadstoneError(
        f"apache-tvm {found} is installed, and the compiler works with {' and '.join(TESTED)}: "
        "pip install 'loadstone[compiler]'"
    )
