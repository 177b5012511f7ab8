# SPDX-License-Identifier: Apache-2.0
"""What the scheduler itself costs: workers that sleep, so that many of them fit on two cores.

In:   Dask's LocalCluster with threads for workers: processes would measure their own starting.
Out:  a line for each number of workers: what a unit of half a second takes more, in time of the
      clock and of the CPU.
Next: docs/choose-a-device.md.
"""

from __future__ import annotations

import logging
import time

__all__ = ["run"]

_WORKERS = (1, 2, 8, 16, 32, 64)
_UNIT_SECONDS = 0.5
_UNITS_EACH = 8


def _nap(_: int) -> None:
    time.sleep(_UNIT_SECONDS)


def run() -> bool:
    """Prints; there is no limit, since the clock is the machine's."""
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    for count in _WORKERS:
        cluster = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
        with cluster, Client(cluster, set_as_default=False) as client:
            client.gather(client.map(_nap, range(count), pure=False))
            units = _UNITS_EACH * count
            seconds, cpu = time.perf_counter(), time.process_time()
            client.gather(client.map(_nap, range(units), pure=False))
            seconds, cpu = time.perf_counter() - seconds, time.process_time() - cpu
        ideal = _UNITS_EACH * _UNIT_SECONDS
        print(
            f"  {count:3} workers, {units:4} units of {_UNIT_SECONDS} s: {seconds:6.2f} s of "
            f"{ideal:.2f} s; {1000 * cpu / units:5.1f} ms of CPU a unit",
            flush=True,
        )
    return True
