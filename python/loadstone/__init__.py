"""Loadstone: from a trained int8 network to an accelerator nobody can write C for.

In:   public names only.
Out:  `loadstone.__version__`; the submodules are imported where they are used.
Next: compiler.py holds the whole way as one function.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
