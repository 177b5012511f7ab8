# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/easy.c: networks on devices by name, in C, compared with the runtime's own face."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.compiler import compile
from loadstone.library.native import ffi, lib
from loadstone.runtime.device import open as open_runtime
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_program_step import program_model
from tests.compiled import golden, network
from tests.float_models import images, small_onnx
from tests.hosts.easy import Easy, EasyError, bytes_kept, open_device, zeros_like
from tests.sample_model import copy_model, dense_model

X = np.arange(-24, 24, dtype=np.int8).reshape(3, 16)


def copied(x: np.ndarray, net: Easy) -> np.ndarray:
    y = np.zeros_like(x)
    net.run([x], [y])
    return y


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["vtaq-1x16x16", "vtaq-4x16x16", "vta-pynq"])
@pytest.mark.parametrize("samples", [1, 3, 4, 9])
def test_any_number_of_samples_on_any_batch(name: str, samples: int) -> None:
    dense = dense_model(load_config(name))
    random = np.random.default_rng(samples)
    width = dense.weights.shape[1]
    x = random.integers(-128, 128, (samples, 1, width), np.int8)
    y = np.zeros((samples, 1, len(dense.weights)), np.int8)
    with Easy(dense.artifact) as net:
        net.run([x], [y])
        assert lib().lds_easy_samples(net.net) == load_config(name).batch
        assert lib().lds_easy_input_bytes(net.net, 0) == width
        assert lib().lds_easy_output_bytes(net.net, 0) == len(dense.weights)
        assert lib().lds_easy_input_bytes(net.net, 1) == 0
        assert lib().lds_easy_copied_bytes(net.net) == x.nbytes + y.nbytes
    assert np.array_equal(y, dense.expected(x))


def test_a_shared_network_equals_its_framework(shared: Path) -> None:
    file = "mlpt_resnet8_int8.tflite"
    inputs, wanted = golden(shared, file, 3)
    with Easy(network(shared, file, "vtaq-1x16x16").artifact) as net:
        outputs = zeros_like(wanted)
        net.run(inputs, outputs)
        assert ffi.string(lib().lds_easy_name(net.net)) == b"mlpt_resnet8_int8"
    assert all(map(np.array_equal, outputs, wanted))


def test_inputs_and_outputs_by_name_and_index(tmp_path: Path) -> None:
    path = tmp_path / "m.lds"
    copy_model().save(path)
    with Easy(str(path)) as net:
        tensor = ffi.new("lds_tensor *")
        assert lib().lds_easy_find_input(net.net, b"x") == 0
        assert lib().lds_easy_find_input(net.net, b"y") == -1
        assert lib().lds_easy_find_output(net.net, b"y") == 0
        assert lib().lds_easy_output(net.net, 0, tensor) == 0
        assert (ffi.string(tensor.name), list(tensor.dims)[: tensor.rank]) == (b"y", [1, 16])
        assert lib().lds_easy_output(net.net, 1, tensor) == lib().LDS_ERR_ARGUMENT
        assert lib().lds_easy_input_count(net.net) == lib().lds_easy_output_count(net.net) == 1
        assert np.array_equal(copied(X, net), X)


def test_a_run_in_the_devices_memory_copies_nothing() -> None:
    with Easy(copy_model()) as net:
        there = lib().lds_easy_input_data(net.net, 0)
        ffi.memmove(there, X[1].tobytes(), 16)
        for given in (ffi.NULL, ffi.new("void *[]", [there]), ffi.new("void *[]", [ffi.NULL])):
            inputs = ffi.cast("const void *const *", given)
            assert lib().lds_easy_run(net.net, inputs, ffi.NULL, 1, ffi.NULL) == 0
        assert ffi.buffer(lib().lds_easy_output_data(net.net, 0), 16)[:] == X[1].tobytes()
        assert lib().lds_easy_copied_bytes(net.net) == 0
        error = ffi.new("lds_easy_error *")
        assert lib().lds_easy_run(net.net, ffi.NULL, ffi.NULL, 2, error) != 0
        assert ffi.string(error.text) == (
            b"model 'copy': 2 samples do not fit the device's memory, which holds 1: give arrays"
        )


def test_the_simulator_counts_cycles_by_a_table(tmp_path: Path) -> None:
    config = load_config("vtaq-4x16x16")
    dense = dense_model(config)
    x = np.ones((9, 1, dense.weights.shape[1]), np.int8)  # three runs of a batch of 4
    y = np.zeros((9, 1, len(dense.weights)), np.int8)
    with open_runtime("sim") as opened:
        session = opened.load(dense.artifact)
        session.run([x[:4]])
        cycles = session.counters.cycles
    assert cycles > 0
    table = tmp_path / "timing.txt"
    table.write_text("".join(f"{name} {c.value}\n" for name, c in config.timing.items()))
    for name, wanted in (("sim", 0), (f"sim;timing={table}", 3 * cycles)):
        with Easy(dense.artifact, name) as net:
            net.run([x], [y])
            assert lib().lds_easy_cycles(net.net) == wanted


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nop_cycles 2\nnop_cycles", "a line is not `NAME VALUE`"),
        ("nop_cycles two\n", "a line is not `NAME VALUE`"),
        ("nap_cycles 2\n", "nap_cycles"),
        (None, "No such file or directory"),
    ],
)
def test_a_wrong_table_is_refused(text: str | None, line: str, tmp_path: Path) -> None:
    table = tmp_path / "timing.txt"
    if text is not None:
        table.write_text(text)
    with pytest.raises(EasyError, match=line) as caught:
        Easy(copy_model(), f"sim;timing={table}")
    assert str(caught.value).startswith(str(table))


def test_a_device_that_does_not_open_leaves_nothing_behind(tmp_path: Path) -> None:
    """The same one, asked again and again: its simulator has a thread each time."""
    device = open_device(f"sim;pool_mb=1;timing={tmp_path}/absent")

    def session() -> None:
        with pytest.raises(EasyError, match="absent"):
            Easy(copy_model(), device)

    assert bytes_kept(session, 20, 3) < 20 * 1024


def test_networks_of_one_device_share_it_and_outlive_its_owner() -> None:
    config = load_config("vtaq-1x16x16")
    dense = dense_model(config)
    device = open_device("sim")
    first, second = Easy(copy_model(config), device), Easy(dense.artifact, device)
    assert first.device is second.device
    device = first.device = second.device = None
    x = np.ones((1, 1, dense.weights.shape[1]), np.int8)
    y = np.zeros((1, 1, len(dense.weights)), np.int8)
    second.run([x], [y])
    assert np.array_equal(y, dense.expected(x))
    second.close()
    assert np.array_equal(copied(X, first), X)
    first.close()


# --- what goes wrong ------------------------------------------------------------------------------
DEVICES = "sim, null, simd:SOCKET, served:SOCKET, uio:PATH[,UDMABUF], devmem:REGISTERS,MEMORY+BYTES"
OPTIONS = (
    "registers=NAME, bus_offset=N, hang_ms=N, pool_mb=N, timing=FILE, further=PATH[,PATH] (uio)"
)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gpu", f"device 'gpu' is not one of {DEVICES}"),
        ("", f"device '' is not one of {DEVICES}"),
        ("sim:x", "device 'sim:x': sim accepts nothing after a colon"),
        ("simd", "device 'simd' is not simd:SOCKET"),
        ("uio:", "device 'uio:' is not uio:PATH[,UDMABUF]"),
        ("devmem:1", "device 'devmem:1' is not devmem:REGISTERS,MEMORY+BYTES"),
        ("devmem:1,2+0", "device 'devmem:1,2+0' is not devmem:REGISTERS,MEMORY+BYTES"),
        ("devmem:1,2+3x", "device 'devmem:1,2+3x' is not devmem:REGISTERS,MEMORY+BYTES"),
        ("sim;fast", "device 'sim;fast': option 'fast' has no value"),
        ("sim;fast=1", f"device 'sim;fast=1': option fast=1 is not one of {OPTIONS}"),
        ("sim;hang_ms=0", f"device 'sim;hang_ms=0': option hang_ms=0 is not one of {OPTIONS}"),
        (
            "sim;registers=x",
            "device 'sim;registers=x': registers=x is not native, vta-chisel or vta-hls",
        ),
        ("sim\n", f"device 'sim?' is not one of {DEVICES}"),
        ("u" * 300, f"device '{'u' * 40}...': a name of more than 255 characters"),
    ],
    ids=lambda value: value[:20],
)
def test_a_wrong_name_is_refused_with_what_it_should_be(name: str, line: str) -> None:
    with pytest.raises(EasyError) as caught:
        open_device(name)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "simd:/nowhere",
            "the simulator at /nowhere does not answer: start `loadstone simd SOCKET`",
        ),
        ("uio:/nowhere", "device 'uio:/nowhere': /nowhere: cannot open: No such file or directory"),
        (
            "sim;pool_mb=90000000",
            "device 'sim;pool_mb=90000000': 90000000 MB of memory are not available: request less, "
            ";pool_mb=N",
        ),
    ],
    ids=["simd", "uio", "memory"],
)
def test_a_device_that_is_not_there_is_one_line(name: str, line: str) -> None:
    with pytest.raises(EasyError) as caught:
        Easy(copy_model(), name)
    assert str(caught.value) == line


def test_a_small_pool_holds_a_small_model() -> None:
    with Easy(copy_model(), "sim;pool_mb=1") as net:
        assert np.array_equal(copied(X, net), X)


def test_a_vta_as_it_is_needs_its_register_page() -> None:
    with pytest.raises(EasyError) as caught:
        Easy(dense_model(load_config("vta-pynq")).artifact, "uio:/nowhere")
    assert str(caught.value) == (
        "device 'uio:/nowhere': the model was compiled for a VTA without DRAM regions: name its "
        "register page, registers=vta-hls, registers=vta-chisel or registers=native"
    )


@pytest.mark.parametrize("page", ["vta-hls", "vta-chisel", "native"])
def test_a_vta_without_regions_has_the_page_that_is_named(page: str) -> None:
    model = dense_model(load_config("vta-pynq"))
    x = np.arange(model.weights.shape[1], dtype=np.int8).reshape(1, 1, -1)
    with Easy(model.artifact, f"sim;registers={page}") as net:
        net.run([x], [y := np.zeros((1, 1, len(model.weights)), np.int8)])
    assert np.array_equal(y, model.expected(x))


def test_a_file_that_is_no_artifact_is_one_line(tmp_path: Path) -> None:
    good = copy_model().to_bytes()
    for content, why in (
        (b"", "the artifact's size is not what its header says"),
        (b"x" * 200, "not a Loadstone artifact"),
        (good[:-1], "the artifact's size is not what its header says"),
        (good[:-1] + b"\x01", "the artifact's content is damaged"),
    ):
        (tmp_path / "m.lds").write_bytes(content)
        with pytest.raises(EasyError) as caught:
            Easy(str(tmp_path / "m.lds"))
        assert str(caught.value) == f"{tmp_path / 'm.lds'}: {why}"
    for path, why in (("/nowhere", "No such file or directory"), (str(tmp_path), "Is a directory")):
        with pytest.raises(EasyError) as caught:
            Easy(path)
        assert str(caught.value) == f"{path}: {why}"


def test_external_steps_run_what_the_device_was_given(tmp_path: Path) -> None:
    """Those of a float network, which `loadstone export` wrote as C."""
    from tests.hosts.in_c import run_in_c

    float_network = compile(small_onnx_file(tmp_path), "vtaq-tiny", as_float=True)
    assert not float_network.python_steps
    x = images(2)
    (got,) = run_in_c(float_network.artifact, [x], tmp_path / "exported")
    (want,) = float_network.run(x)
    assert np.array_equal(got.reshape(want.shape), want)


def small_onnx_file(folder: Path) -> Path:
    (folder / "small.onnx").write_bytes(small_onnx())
    return folder / "small.onnx"


def test_a_model_for_another_device_and_one_that_needs_python() -> None:
    device = open_device("sim")
    with Easy(copy_model(load_config("vtaq-1x16x16")), device), pytest.raises(EasyError) as caught:
        Easy(copy_model(load_config("vtaq-4x16x16")), device)
    assert str(caught.value) == "model 'copy': the model was compiled for another device"
    model = copy_model()
    step = host_step.external("softer", [0], [1], "mine.f", "")
    with pytest.raises(EasyError, match=r"^model 'copy': a step needs a function that only the"):
        Easy(replace(model, steps=(step,)))


def test_a_model_for_an_accelerator_of_a_plug_in_is_refused_with_what_to_do() -> None:
    with pytest.raises(EasyError) as caught:
        Easy(program_model(), open_device("null"))
    assert str(caught.value) == (
        "model 'm': a step is for a device that the session was not given; a network has "
        "further VTAs here and with `loadstone serve`, but no accelerators of plug-ins: run it "
        "from Python or with `loadstone export`"
    )


def test_a_fault_names_the_step_the_layer_and_the_devices_error() -> None:
    """A socket's simulator, as faults are ordered at its process's device."""
    model = copy_model()
    (step,) = model.steps
    bad = bytearray(step.instructions)
    bad[0] |= 7  # an opcode that is none
    with pytest.raises(EasyError) as caught:
        Easy(replace(model, steps=(replace(step, instructions=bytes(bad)),)))
    assert str(caught.value) == (
        "model 'copy', instruction 0 (layer 'copy'): an instruction that the device does not know, "
        "or for which it lacks the capability"
    )


def test_a_device_that_fails_during_a_run(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    command = [sys.executable, "-m", "loadstone", "simd", str(socket), "--device", "vtaq-1x16x16"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as simulator:
        while not socket.exists():
            assert simulator.poll() is None
        with Easy(copy_model(), f"simd:{socket};hang_ms=300") as net:
            assert np.array_equal(copied(X, net), X)
            simulator.send_signal(signal.SIGKILL)
            simulator.wait()
            with pytest.raises(EasyError, match=r"^model 'copy'(, step 'copy')?.*: .*device"):
                copied(X, net)


# --- many -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("device", ["sim", "null"])
def test_a_hundred_sessions_leave_nothing(device: str) -> None:
    data = copy_model().to_bytes()

    def session() -> None:
        with Easy(data, device) as net:
            copied(X, net)

    assert bytes_kept(session) < 10_000


def test_a_hundred_refusals_leave_nothing() -> None:
    data = copy_model().to_bytes()
    bad = data[:-1] + b"\x01"

    def session() -> None:
        for model, name in ((bad, "sim"), (data, "simd:/nowhere")):
            with pytest.raises(EasyError):
                Easy(model, name)

    assert bytes_kept(session) < 20_000


@pytest.mark.parametrize("shared_device", [True, False])
def test_threads_of_one_network_and_of_two(shared_device: bool) -> None:
    device = open_device("sim")
    nets = [Easy(copy_model(), device if shared_device else "sim") for _ in range(2)]
    wrong: list[np.ndarray] = []

    def work(k: int) -> None:
        x = np.full((3, 16), k, np.int8)
        wrong.extend(y for _ in range(100) if not np.array_equal(y := copied(x, nets[k % 2]), x))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for net in nets:
        net.close()
    assert wrong == []


def test_devices_of_the_library_are_listed_in_the_header(root: Path) -> None:
    header = (root / "runtime/hosts/include/lds_easy.h").read_text(encoding="utf-8")
    for form in DEVICES.split(", "):
        assert f" *   {form} " in header
    assert all(f" *   {option}" in header for option in ("registers=", *OPTIONS.split(", ")[1:]))
