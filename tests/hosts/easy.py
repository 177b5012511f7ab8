# SPDX-License-Identifier: Apache-2.0
"""lds_easy.h from Python, for tests; and what a process holds, to find what is not given back.

In:   a device's name, an artifact.
Out:  Easy: a network of C; EasyError, the line that a call of C gives; `bytes_kept`, what leaks are
      seen by.
Next: test_easy.py; the tests of each host compare with it.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.library.native import CData, ffi, lib

__all__ = ["Easy", "EasyError", "bytes_kept", "open_device"]


class EasyError(Exception):
    """What a call gave. status: LDS_ERR_*."""

    def __init__(self, error: CData) -> None:
        super().__init__(ffi.string(error.text).decode())
        self.status = int(error.status)


def check(status: int, error: CData) -> None:
    assert status == error.status
    if status:
        raise EasyError(error)
    assert ffi.string(error.text) == b""


def open_device(name: str) -> CData:
    """Closed when nobody has it."""
    device, error = ffi.new("lds_easy_device **"), ffi.new("lds_easy_error *")
    check(lib().lds_easy_device_open(name.encode(), device, error), error)
    return ffi.gc(device[0], lib().lds_easy_device_close)


class Easy:
    """One network. model: an artifact, its bytes, or the name of its file."""

    def __init__(self, model: Artifact | bytes | str, device: CData | str = "sim") -> None:
        self.device = open_device(device) if isinstance(device, str) else device
        net, error = ffi.new("lds_easy **"), ffi.new("lds_easy_error *")
        if isinstance(model, str):
            status = lib().lds_easy_open_file(self.device, model.encode(), net, error)
        else:
            data = model.to_bytes() if isinstance(model, Artifact) else model
            self.bytes = ffi.from_buffer(data)
            status = lib().lds_easy_open(self.device, self.bytes, len(data), net, error)
        check(status, error)
        self.net = net[0]

    def run(self, inputs: list[NDArray], outputs: list[NDArray]) -> None:
        """Fills the outputs; the number of samples is the first axis of an output."""
        pointers = [
            ffi.new("void *[]", [ffi.cast("void *", a.ctypes.data) for a in arrays])
            for arrays in (inputs, outputs)
        ]
        error = ffi.new("lds_easy_error *")
        cast = ffi.cast("const void * const *", pointers[0])
        samples = len((outputs or inputs)[0])
        check(lib().lds_easy_run(self.net, cast, pointers[1], samples, error), error)

    def choose(self, entry: str) -> None:
        """Of the entries the one that runs."""
        error = ffi.new("lds_easy_error *")
        check(lib().lds_easy_choose(self.net, entry.encode(), error), error)

    def prepared(
        self, inputs: list[NDArray], outputs: list[NDArray]
    ) -> tuple[Callable[[], object], int]:
        """A call of C with arrays that are there already, and the bytes that it copies. Without
        arrays: in place."""
        kept = (inputs, outputs)
        pointers = [
            ffi.new("void *[]", [ffi.cast("void *", a.ctypes.data) for a in arrays])
            if arrays
            else ffi.NULL
            for arrays in kept
        ]
        cast = ffi.cast("const void * const *", pointers[0])
        count = len(outputs[0]) if outputs else lib().lds_easy_samples(self.net)
        before = lib().lds_easy_copied_bytes(self.net)

        def call(_kept: object = (kept, pointers)) -> object:
            return lib().lds_easy_run(self.net, cast, pointers[1], count, ffi.NULL)

        assert call() == 0
        return call, lib().lds_easy_copied_bytes(self.net) - before

    def close(self) -> None:
        lib().lds_easy_close(self.net)
        self.net = self.device = None

    def __enter__(self) -> Easy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Mallinfo(ctypes.Structure):
    """What glibc says of the heap."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _held() -> tuple[int, int, int]:
    """Bytes of the heap, files, threads; of garbage, what is young is collected first."""
    gc.collect(1)
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    info = libc.mallinfo2()
    folders = (len(os.listdir(f"/proc/self/{name}")) for name in ("fd", "task"))
    return (int(info.uordblks + info.hblkhd), *folders)  # type: ignore[return-value]


#: Of `bytes_kept`.
_ROUNDS = 3


def bytes_kept(session: Callable[[], object], times: int = 100, warm: int = 10) -> int:
    """Bytes of the heap that so many sessions have not given back: the least of three rounds, as
    what leaks does so in each, and Python's own tables grow in one. Files and threads must be no
    more than before; those of earlier tests may end meanwhile."""
    for _ in range(warm):
        session()
    gc.collect()  # once: among all that earlier tests keep this takes a second
    grown = []
    for _ in range(_ROUNDS):
        before, *counts = _held()
        for _ in range(times):
            session()
        after, *now = _held()
        assert all(a <= b for a, b in zip(now, counts, strict=True)), "files or threads are left"
        grown.append(after - before)
    return min(grown)


def zeros_like(outputs: list[NDArray]) -> list[NDArray]:
    """Places for outputs, with content that no network makes by accident."""
    return [np.full_like(a, 85) for a in outputs]
