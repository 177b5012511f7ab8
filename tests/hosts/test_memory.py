# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/memory.c and runtime/bind.c: arrays in the device's memory are used where they
are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact
from loadstone.artifact.host_step import Strided
from loadstone.library.native import CData, ffi, lib
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden, network
from tests.hosts.easy import Easy, EasyError, bytes_kept, check, open_device
from tests.sample_model import copy_model, dense_model


def host_model() -> Artifact:
    """y = x of 16 int8, moved by a host step."""
    model = copy_model()
    regions = [replace(r, device_reads=False, device_writes=False) for r in model.regions[1:]]
    step = host_step.copy("copy", 0, 1, [16], Strided((1,)), Strided((1,)))
    return replace(model, regions=(model.regions[0], *regions), steps=(step,))


class Memory:
    """Arrays in the memory of a device."""

    def __init__(self, device: CData) -> None:
        self.device = device
        self.taken: list[CData] = []

    def array(self, value: np.ndarray, lead_bytes: int = 0) -> np.ndarray:
        """A copy of it, so many bytes behind the start of a piece."""
        data, error = ffi.new("void **"), ffi.new("lds_easy_error *")
        size_bytes = lead_bytes + value.nbytes
        check(lib().lds_easy_memory_alloc(self.device, size_bytes, data, error), error)
        assert int(ffi.cast("uintptr_t", data[0])) % 64 == 0
        self.taken.append(data[0])
        there = np.frombuffer(ffi.buffer(data[0], size_bytes), np.uint8)[lead_bytes:]
        array = there.view(value.dtype).reshape(value.shape)
        array[...] = value
        return array

    def has(self, array: np.ndarray, size_bytes: int) -> int:
        """Its bus address, or 0."""
        bus, data = ffi.new("uint64_t *"), ffi.cast("void *", array.ctypes.data)
        return int(bus[0]) if lib().lds_easy_memory_has(self.device, data, size_bytes, bus) else 0

    def free(self) -> None:
        for data in self.taken:
            lib().lds_easy_memory_free(self.device, data)
        self.taken = []


def copied(net: Easy, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> int:
    """Runs; the bytes that it copied."""
    before = lib().lds_easy_copied_bytes(net.net)
    net.run(inputs, outputs)
    return int(lib().lds_easy_copied_bytes(net.net) - before)


@pytest.mark.parametrize(
    ("target", "file"),
    [("vtaq-1x16x16", "mlpt_resnet8_int8.tflite"), ("vta-pynq", "mlpt_ad_int8.tflite")],
)
def test_a_network_of_a_framework_runs_without_copies(target: str, file: str, shared: Path) -> None:
    """With content in the output before; and from arrays elsewhere, between, with copies."""
    inputs, wanted = golden(shared, file, 3)
    with Easy(network(shared, file, target).artifact) as net:
        memory = Memory(net.device)
        x, y = memory.array(inputs[0][:1]), memory.array(np.full_like(wanted[0][:1], 85))
        for sample, want in zip(inputs[0], wanted[0], strict=True):
            x[...] = sample
            assert copied(net, [x], [y]) == 0
            assert np.array_equal(y[0], want)
            y[...] = 85
            far = np.zeros_like(y)
            assert copied(net, [x.copy()], [far]) == x.nbytes + y.nbytes
            assert np.array_equal(far[0], want)
        memory.free()


def test_whole_runs_of_the_device_are_not_copied() -> None:
    """A device of batch 4: of nine samples the first eight, where they are in its memory."""
    dense = dense_model(load_config("vtaq-4x16x16"))
    random = np.random.default_rng(0)
    x = random.integers(-128, 128, (9, 1, dense.weights.shape[1]), np.int8)
    want = dense.expected(x)
    with Easy(dense.artifact) as net:
        memory = Memory(net.device)
        near = memory.array(x), memory.array(np.zeros_like(want))
        for inputs, outputs, count in (
            (near[0], near[1], x[8].nbytes + want[8].nbytes),
            (near[0], np.zeros_like(want), x[8].nbytes + want.nbytes),
            (x, near[1], x.nbytes + want[8].nbytes),
        ):
            outputs[...] = 85
            assert copied(net, [inputs], [outputs]) == count
            assert np.array_equal(outputs, want)
        memory.free()


def test_arrays_that_overlap_or_are_not_aligned_are_copied() -> None:
    """The numbers are the same either way."""
    x = np.arange(16, dtype=np.int8).reshape(1, 16)
    with Easy(host_model()) as net:
        memory = Memory(net.device)
        both = memory.array(np.zeros(24, np.int8))
        both[:16] = x
        assert copied(net, [both[:16].reshape(1, 16)], [both[8:24].reshape(1, 16)]) == 16
        assert np.array_equal(both[8:24], x[0])
        near, odd = memory.array(x), memory.array(x, lead_bytes=1)
        assert copied(net, [odd], [near]) == 16
        assert copied(net, [near], [near]) == 16
        assert np.array_equal(near, x)
        memory.free()


def test_memory_of_another_device_is_copied() -> None:
    x = np.arange(16, dtype=np.int8).reshape(1, 16)
    other = open_device("sim")
    foreign = Memory(other)
    with pytest.raises(EasyError, match="has no memory before its first network is open"):
        foreign.array(x)
    with Easy(host_model()) as net, Easy(host_model(), other):
        memory = Memory(net.device)
        assert copied(net, [foreign.array(x)], [memory.array(x)]) == 16
        assert copied(net, [memory.array(x)], [memory.array(x)]) == 0
        foreign.free()
        memory.free()


def test_what_cannot_be_elsewhere_is_copied() -> None:
    """What the device itself reads and writes; a step that leaves a part of its output as it was,
    or writes to an input; two tensors in one memory. A view moves with what it shows."""
    x = np.arange(16, dtype=np.int8).reshape(1, 16)
    rows = host_model()
    (step,) = rows.steps
    y = rows.tensors[1]
    view = replace(y, name="view", shape=(1, 8), offset_bytes=8)
    beside = replace(y, name="beside", offset_bytes=8)
    half = host_step.copy("half", 0, 1, [8], Strided((1,)), Strided((1,)))
    spoil = host_step.fill("spoil", 0, 7)
    for model, count in (
        (rows, 0),
        (replace(rows, tensors=(*rows.tensors, view)), 0),
        (replace(rows, tensors=(*rows.tensors, beside)), 16),
        (replace(rows, steps=(half,)), 16),
        (replace(rows, steps=(half, step)), 0),
        (replace(rows, steps=(step, spoil)), 16),
        (replace(rows, outputs=(1, 1)), 32),
        (copy_model(), 32),
    ):
        with Easy(model) as net:
            memory = Memory(net.device)
            outputs = [memory.array(np.full_like(x, 85)) for _ in model.outputs]
            assert copied(net, [memory.array(x)], outputs) == count
            want = np.where(np.arange(16) < 8, x, 0) if model.steps == (half,) else x
            assert all(np.array_equal(got, want) for got in outputs)
            memory.free()


def test_the_memory_of_a_device() -> None:
    device = open_device("sim;pool_mb=4")
    net = Easy(copy_model(), device)
    memory = Memory(device)
    array = memory.array(np.zeros(100, np.int8))
    first = memory.has(array, 100)
    assert first % 64 == 0
    assert memory.has(array[8:], 92) == first + 8 > 8
    assert memory.has(array, 128) == first
    assert memory.has(array, 129) == 0
    assert memory.has(np.zeros(4, np.int8), 4) == 0
    with pytest.raises(EasyError, match="'sim;pool_mb=4' does not have 8388608 bytes of memory"):
        memory.array(np.zeros(1 << 23, np.int8))
    lib().lds_easy_memory_free(device, ffi.cast("void *", 64))  # not ours: nothing happens
    net.close()
    array[...] = 1  # a piece keeps the device
    memory.free()
    assert memory.has(array, 1) == 0


def test_a_thousand_pieces_leave_nothing() -> None:
    with Easy(copy_model()) as net:
        memory = Memory(net.device)

        def piece() -> None:
            memory.array(np.zeros(5000, np.int8))
            memory.free()

        assert bytes_kept(piece, times=1000) < 10_000
