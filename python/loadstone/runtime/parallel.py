# SPDX-License-Identifier: Apache-2.0
"""Many samples on several simulated devices at once: one thread and one device for each share.

In:   an artifact, inputs with a leading axis of samples, how to open a device, a number of threads.
Out:  the outputs of all samples, in their order, and what all devices counted together.
Next: `loadstone run --threads N`, for whole data sets.

Runs of a model are independent, and the C runtime releases Python's lock while it works. Shares are
whole groups of `artifact.samples`, so that the threads run the same batches as a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from itertools import pairwise
from threading import Lock
from typing import TypeAlias

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.errors import DeviceError
from loadstone.numerics import Array
from loadstone.runtime.device import OpenedDevice, Session, Totals

__all__ = ["run_in_threads"]

#: More than any host has processors: each is a simulated device with memory of its own.
MAX_THREADS = 1024
#: A wait without an end does not hear of a Ctrl-C that came just before it: so often Python looks.
_LOOK_SECONDS = 0.1

#: Outputs of one share, what its device counted, the device.
_Share: TypeAlias = tuple[list[Array], Totals, Device]


def run_in_threads(
    artifact: Artifact,
    inputs: Sequence[Array],
    open_device: Callable[[], OpenedDevice],
    threads: int,
    progress: Callable[[int], None] | None = None,
    *,
    trust: bool = False,
) -> tuple[list[Array], Totals, Device]:
    """Runs shares of the samples, each thread on a device of its own. Gives the outputs in
    the samples' order, the sum of what all devices counted over all runs, and one of the devices.

    inputs: (samples, ...) each, as for a session, which are not looked through for NaN
        (arrays.check_numbers); so are the outputs.
    progress: called with the number of samples done in all threads.
    trust: see SECURITY.md.
    Raises DeviceError as a session does, and for a number of threads not in [1, MAX_THREADS].
    """
    if not 1 <= threads <= MAX_THREADS:
        raise DeviceError(f"threads={threads} is not in [1, {MAX_THREADS}]")
    count = len(inputs[0]) if inputs else 1
    groups = -(-count // artifact.samples)
    edges = [min(count, artifact.samples * (groups * k // threads)) for k in range(threads + 1)]
    shares = [(a, b) for a, b in pairwise(edges) if a < b] or [(0, count)]
    done = dict.fromkeys(shares, 0)
    lock = Lock()
    sessions: list[Session] = []
    cancelled = False

    def work(share: tuple[int, int]) -> _Share:
        def tell(samples: int) -> None:
            with lock:
                done[share] = samples
                if progress is not None:
                    progress(sum(done.values()))

        begin, end = share
        with open_device() as opened, opened.load(artifact, trust=trust) as session:
            with lock:
                sessions.append(session)
                if cancelled:
                    session.cancel()
            outputs = session.run([array[begin:end] for array in inputs], tell, allow_nan=True)
            return outputs, session.totals, opened.device

    with ThreadPoolExecutor(len(shares)) as pool:
        try:  # the first begins while the last is submitted
            futures = [pool.submit(work, share) for share in shares]
            results = _results(futures)
        except BaseException:  # Ctrl-C, or a share that failed: nobody waits for the others
            with lock:
                cancelled = True
                for session in sessions:
                    session.cancel()
            raise
    outputs = [np.concatenate(parts) for parts in zip(*(r[0] for r in results), strict=True)]
    return outputs, sum((r[1] for r in results), Totals()), results[-1][2]


def _results(futures: Sequence[Future[_Share]]) -> list[_Share]:
    """Of all, in their order; raises what one that failed raises, without waiting for the rest."""
    unfinished = set(futures)
    while unfinished and not any(f.done() and f.exception() for f in futures):
        _, unfinished = wait(unfinished, _LOOK_SECONDS, FIRST_EXCEPTION)
    return [future.result() for future in futures if future.done()]
