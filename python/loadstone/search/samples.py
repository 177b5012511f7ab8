# SPDX-License-Identifier: Apache-2.0
"""Many samples on several processes or machines, each of which runs shares of them.

In:   an artifact, inputs with a leading axis of samples, a device, the workers.
Out:  the outputs of all samples, in their order, and the sum of all devices' counters: the same for
      any number of workers.
Next: `loadstone run --workers`; runtime/parallel.py does the same with threads of one process.

Shares are whole groups of `artifact.samples`, and their number depends on the samples only. A share
whose worker died is run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.errors import DeviceError
from loadstone.numerics import Array
from loadstone.runtime import device as devices
from loadstone.runtime.device import Totals
from loadstone.search.workers import Pool

__all__ = ["Runner", "run_in_pool"]

#: Shares of a data set: enough for the workers to end at about the same time.
_SHARES = 256


@dataclass(frozen=True)
class Runner:
    """What every share needs. artifact: the file's bytes; device: as of device.open, none that
    only one process can have; trust: see SECURITY.md."""

    artifact: bytes
    device: str
    trust: bool = False


def run_in_pool(
    runner: Runner,
    inputs: Sequence[Array],
    pool: Pool,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Array], Totals, Device]:
    """The outputs in the samples' order, the sum of what all devices counted, and the device.

    inputs: (samples, ...) each, as for a session, which are not looked through for NaN
        (arrays.check_numbers); so are the outputs.
    progress: called with the number of samples done.
    Raises DeviceError as a session does, and for a device that is only one.
    """
    if not devices.is_private(runner.device):
        raise DeviceError(
            f"--workers needs a device for each worker; {runner.device} is only one: use sim"
        )
    group = _artifact(runner.artifact).samples
    count = len(inputs[0]) if inputs else 1
    groups = -(-count // group)
    shares = min(groups, _SHARES) or 1
    edges = [min(count, group * (groups * k // shares)) for k in range(shares + 1)]
    units = [tuple(array[a:b] for array in inputs) for a, b in pairwise(edges)]
    done = 0

    def tell(index: int, _: object) -> None:
        nonlocal done
        done += edges[index + 1] - edges[index]
        if progress is not None:
            progress(done)

    results = pool.map(_run_share, units, tell, (runner,))
    outputs = [np.concatenate(parts) for parts in zip(*(r[0] for r in results), strict=True)]
    return outputs, sum((r[1] for r in results), Totals()), results[-1][2]


def _run_share(inputs: Sequence[Array], runner: Runner) -> tuple[list[Array], Totals, Device]:
    artifact = _artifact(runner.artifact)
    with (
        devices.open(runner.device) as opened,
        opened.load(artifact, trust=runner.trust) as session,
    ):
        return session.run(list(inputs), allow_nan=True), session.totals, opened.device


@lru_cache(maxsize=1)
def _artifact(content: bytes) -> Artifact:
    """Read once in each process."""
    return Artifact.from_bytes(content)
