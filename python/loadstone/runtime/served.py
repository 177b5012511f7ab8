# SPDX-License-Identifier: Apache-2.0
"""Samples of a network on a device that another process has: a client of `loadstone serve`.

In:   an artifact, inputs with a leading axis of samples, the name served:SOCKET with its options.
Out:  the outputs, and what the device counted.
Next: `loadstone run --device served:SOCKET`; runtime/hosts/served.c speaks with the server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.device import Device
from loadstone.library.native import CData, ffi, lib, raise_easy
from loadstone.numerics import Array
from loadstone.runtime.counters import Counters, Totals
from loadstone.runtime.device import device_of_artifact

__all__ = ["is_served", "run_served"]


def is_served(name: str) -> bool:
    """Whether a device's name is that of one that another process has."""
    return name.partition(":")[0] == "served"


def run_served(
    artifact: Artifact,
    inputs: Sequence[Array],
    name: str,
    progress: Callable[[int], None] | None = None,
) -> tuple[list[Array], Totals, Device]:
    """inputs: (samples, ...) each, of the tensors' types; so are the outputs. progress: called with
    the number of samples done. Raises DeviceError: no server answers, it refuses the network, or a
    run fails."""
    device, net, error = (
        ffi.new(f"{kind} *") for kind in ("lds_easy_device *", "lds_easy *", "lds_easy_error")
    )
    given = [np.ascontiguousarray(x) for x in inputs]
    count, group = len(given[0]) if given else 1, artifact.samples
    outputs = [
        np.empty((count, tensor.shape[0] // group, *tensor.shape[1:]), tensor.dtype.numpy)
        for tensor in (artifact.tensors[i] for i in artifact.outputs)
    ]
    data = artifact.to_bytes()
    buffer, cycles = ffi.from_buffer(data), 0
    try:
        raise_easy(lib().lds_easy_device_open(name.encode(), device, error), error)
        raise_easy(lib().lds_easy_open(device[0], buffer, len(data), net, error), error)
        for begin in range(0, count, group):
            end = min(begin + group, count)
            places = (
                _places([a[begin:end] for a in given]),
                _places([a[begin:end] for a in outputs]),
            )
            read = ffi.cast("const void *const *", places[0])
            raise_easy(lib().lds_easy_run(net[0], read, places[1], end - begin, error), error)
            cycles += lib().lds_easy_cycles(net[0])
            if progress is not None:
                progress(end)
    finally:
        lib().lds_easy_close(net[0])
        lib().lds_easy_device_close(device[0])
    runs = Totals(-(-count // group), Counters(cycles, 0, 0, 0, 0, 0))
    return outputs, runs, device_of_artifact(artifact)


def _places(arrays: Sequence[Array]) -> CData:
    return ffi.new("void *[]", [ffi.cast("void *", a.ctypes.data) for a in arrays])
