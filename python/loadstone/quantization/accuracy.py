# SPDX-License-Identifier: Apache-2.0
"""When a quantization has lost so much that somebody should look.

In:   the report of a quantization (report.py).
Out:  warnings, a sentence each.
Next: the commands quantize and compile print them.
"""

from __future__ import annotations

__all__ = ["NOISY_DB"]

#: Below so much signal to noise, in decibels, a result is seldom of use.
NOISY_DB = 15.0
