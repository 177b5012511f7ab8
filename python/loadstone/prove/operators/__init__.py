# SPDX-License-Identifier: Apache-2.0
"""The network's operators as symbols: one file for each family.

In:   operators (network.py), symbols of their inputs.
Out:  symbols of their outputs.
Next: definition.py goes through a network with them.
"""

from __future__ import annotations

__all__: list[str] = []
