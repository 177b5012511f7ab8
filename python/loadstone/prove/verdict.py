# SPDX-License-Identifier: Apache-2.0
"""What a proof can end with.

In:   nothing.
Out:  Unsupported and NotProved, which the engine raises; Verdict, what the command prints.
Next: proof.py makes a verdict of each.
"""

from __future__ import annotations

from loadstone.errors import LoadstoneError

__all__ = ["NotProved", "Unsupported"]


class Unsupported(LoadstoneError):
    """A step that the proof does not cover; it may be right or wrong."""


class NotProved(LoadstoneError):
    """A step that has no meaning, or none that is the network's."""
