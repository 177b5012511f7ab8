# SPDX-License-Identifier: Apache-2.0
"""Whether what the compiler makes is also looked at by other means than those that made it.

In:   LOADSTONE_VERIFY in the environment.
Out:  yes or no.
Next: pipeline.py and operators/kernels.py run their verifiers.
"""

from __future__ import annotations

import os

__all__ = ["verified"]


def verified() -> bool:
    """Yes in all tests; a user's compile has the checks that cost little."""
    return os.environ.get("LOADSTONE_VERIFY", "0") not in ("", "0")
