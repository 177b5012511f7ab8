# SPDX-License-Identifier: Apache-2.0
"""The shared networks, compiled once in each test process.

In:   a file of ../shared/models, a device.
Out:  `network`, what compile() gives for the two; `golden`, inputs with the outputs that the
      network's framework computed.
Next: every test that needs a compiled real network and leaves it as it is.

Compiling a network costs a hundred times more than running it. Nothing outlives the process, so
that no result of an older compiler can be taken for one of today's.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loadstone.compiler import Compiled, compile

__all__ = ["golden", "network"]


@functools.lru_cache(maxsize=24)
def network(shared: Path, file: str, device: str) -> Compiled:
    """A network of ../shared/models for a built-in device; one of real numbers as it is."""
    return compile(shared / "models" / file, device, as_float=True)


def golden(shared: Path, file: str, samples: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """The first samples: arrays (samples, ...) of inputs, and of the outputs for them."""
    data = np.load(shared / "models" / "golden" / f"{file}.npz")
    inputs, outputs = (
        [data[f"{kind}{k}"][:samples] for k in range(sum(n.startswith(kind) for n in data.files))]
        for kind in ("in", "out")
    )
    return inputs, outputs
