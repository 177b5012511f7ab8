# SPDX-License-Identifier: Apache-2.0
"""`loadstone export`: the project builds without a warning, and under Linux computes what Python
does."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.isa import accelerator as accelerators
from loadstone.isa.accelerator import register_accelerator
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from tests.artifact.test_program_step import program_model
from tests.board.models import convolutions, gate, island
from tests.board.tools import need
from tests.cached_cc import make_with_cache
from tests.certificates import write_certificate
from tests.float_models import images, small_onnx
from tests.isa.tables import npu
from tests.repeat import more
from tests.runtime.test_device import external_model
from tests.sample_model import INTEGER_DEVICES, copy_model, dense_model


def make(folder: Path, *words: str, compiler: str = "") -> str:
    """As a user calls it; with a compiler, what it compiled for other tests is not compiled
    again."""
    cached = [make_with_cache(compiler)] if compiler else []
    done = subprocess.run(
        ["make", "-C", str(folder), *words, *cached], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize("name", ["vtaq-1x16x16", pytest.param("vta-pynq", marks=more)])
def test_a_firmware_builds(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    model = dense_model(load_config(name))
    model.artifact.save(tmp_path / "m.lds")
    np.savez(tmp_path / "x.npz", in0=np.ones((1, 1, model.weights.shape[1]), np.int8))
    words = [
        "export",
        f"{tmp_path}/m.lds",
        "--board",
        "cortex-m",
        "-o",
        f"{tmp_path}/fw",
        "--sample",
        f"{tmp_path}/x.npz",
    ]
    assert main(words) == 0
    assert "next: make -C" in capsys.readouterr().out
    for cpu, flags in (
        ("cortex-m3", "-DBOARD_SEMIHOSTING -DBOARD_IRQ=31"),
        ("cortex-m55", "-mfloat-abi=hard -Werror"),
    ):
        make(tmp_path / "fw", f"CPU={cpu}", f"FLAGS={flags}")
        assert (tmp_path / "fw/model.elf").is_file()
        make(tmp_path / "fw", "clean")


def test_an_artifact_that_is_not_proved_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_model().save(tmp_path / "m.lds")
    write_certificate(tmp_path / "m.lds", tmp_path / "proof.json")
    words = ["export", f"{tmp_path}/m.lds", "--board", "linux", "-o", f"{tmp_path}/app"]
    assert main([*words, "--require-proof", f"{tmp_path}/proof.json"]) == 0
    write_certificate(tmp_path / "m.lds", tmp_path / "proof.json", tolerance=1)
    capsys.readouterr()
    assert main([*words, "--require-proof", f"{tmp_path}/proof.json"]) == 2
    assert "is at most 1 level(s) off, not equal" in capsys.readouterr().err
    assert main([*words, "--require-proof", f"{tmp_path}/proof.json", "--near"]) == 0
    dense_model(load_config("vtaq-1x16x16")).artifact.save(tmp_path / "m.lds")
    capsys.readouterr()
    assert main([*words, "--require-proof", f"{tmp_path}/proof.json"]) == 2
    assert "m.lds: its SHA-256 begins with" in capsys.readouterr().err


@pytest.mark.parametrize(("flags", "clock"), [((), "100000000u"), (("-DMODEL_CLOCK_HZ=9u",), "9u")])
def test_a_bitstream_of_another_clock_is_said_to_the_compiler(
    flags: tuple[str, ...], clock: str, tmp_path: Path
) -> None:
    """What a program can take, and so when a device hangs, follows from it."""
    need("gcc", "gcc")
    dense_model(load_config("vta-pynq")).artifact.save(tmp_path / "m.lds")
    words = ["export", f"{tmp_path}/m.lds", "--board", "linux", "-o", f"{tmp_path}/app"]
    assert main(words) == 0
    (tmp_path / "app/clock.c").write_text('#include "model.h"\nclock MODEL_CLOCK_HZ\n')
    shown = ["gcc", "-E", "-P", *flags, "-Iloadstone/include", "clock.c"]
    text = subprocess.run(
        shown, cwd=tmp_path / "app", capture_output=True, text=True, check=True
    ).stdout
    assert text.splitlines()[-1] == f"clock {clock}"


#: What Zephyr and ESP-IDF have of CMake, as far as a module uses it: both end in one library.
HOSTS = {
    "zephyr": """
        set(ZEPHYR_BASE /zephyr)
        macro(zephyr_library_named name)
          add_library(${name} STATIC)
          set(LIBRARY ${name})
        endmacro()
        macro(zephyr_library_sources)
          target_sources(${LIBRARY} PRIVATE ${ARGN})
        endmacro()
        macro(zephyr_include_directories)
          target_include_directories(${LIBRARY} PUBLIC ${ARGN})
        endmacro()
        set(CONFIG_LOADSTONE y)""",
    "esp-idf": """
        set(ESP_PLATFORM 1)
        function(idf_component_register)
          cmake_parse_arguments(THE "" "" "SRCS;INCLUDE_DIRS" ${ARGN})
          add_library(loadstone STATIC ${THE_SRCS})
          target_include_directories(loadstone PUBLIC ${THE_INCLUDE_DIRS})
        endfunction()""",
    "cmake": "",
}


@pytest.mark.parametrize("host", ["zephyr", pytest.param("esp-idf", marks=more), "cmake"])
def test_a_module_builds_where_hosts_look_for_it(host: str, tmp_path: Path) -> None:
    """With the cross-compiler, from another folder; the application sees the model and the port."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    copy_model().save(tmp_path / "m.lds")
    words = ["export", f"{tmp_path}/m.lds", "--board", "module", "-o", f"{tmp_path}/module"]
    assert main(words) == 0
    module = tmp_path / "module"
    for name in ("zephyr/module.yml", "Kconfig", "idf_component.yml", "loadstone/session.c"):
        assert (module / name).is_file()
    library = "loadstone_model" if host == "cmake" else "loadstone"
    (tmp_path / "main.c").write_text(
        '#include "lds_hal_baremetal.h"\n#include "model.h"\n'
        "lds_baremetal board;\nunsigned long size(void);\n"
        "unsigned long size(void) { return (unsigned long)(model_bytes_end - model_bytes); }\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.22)\nproject(app LANGUAGES C ASM)\n{HOSTS[host]}\n"
        f"add_subdirectory(module)\nadd_library(app STATIC main.c)\n"
        f"target_link_libraries(app PRIVATE {library})\n"
        f"target_compile_options({library} PRIVATE -Wall -Wextra -Werror)\n"
    )
    tools = Path(sys.executable).parent
    cross = "-DCMAKE_SYSTEM_NAME=Generic -DCMAKE_C_COMPILER=arm-none-eabi-gcc -DCMAKE_C_FLAGS"
    generate = [*cross.split()[:-1], "-DCMAKE_C_FLAGS=-mcpu=cortex-m33 -mthumb"]
    ninja = ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"]
    checks = [
        "-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY",
        "-DCMAKE_ASM_FLAGS=-mcpu=cortex-m33",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    ]
    source = ["-S", str(tmp_path), "-B", str(tmp_path / "build")]
    for command in (
        [str(tools / "cmake"), *source, *ninja, *generate, *checks],
        [str(tools / "cmake"), "--build", str(tmp_path / "build")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
    commands = json.loads((tmp_path / "build/compile_commands.json").read_text())
    used = {c["file"]: c["command"] for c in commands if c["file"].startswith(f"{module}/")}
    assert used.keys() == {str(p) for p in (*module.glob("loadstone/*.c"), module / "model.S")}
    assert f"-Wa,-I{module}" in used.pop(str(module / "model.S"))
    assert all("-ffp-contract=off" in command for command in used.values())
    (archive,) = (tmp_path / "build/module").glob(f"lib{library}.a")
    listed = subprocess.run(
        ["arm-none-eabi-nm", str(archive)], capture_output=True, text=True, check=True
    ).stdout
    for symbol in ("lds_session_open", "lds_baremetal_hal", "lds_registers_native", "model_bytes"):
        assert f" {symbol}\n" in listed, symbol
    assert (module / "model.lds").read_bytes() in archive.read_bytes()


def test_a_module_builds_by_its_platformio_manifest(tmp_path: Path) -> None:
    """The sources that the manifest filters, with its flags from the library's folder alone."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    copy_model().save(tmp_path / "m.lds")
    module = tmp_path / "module"
    assert main(["export", f"{tmp_path}/m.lds", "--board", "module", "-o", str(module)]) == 0
    build = json.loads((module / "library.json").read_text())["build"]
    nothing, *patterns = build["srcFilter"]
    assert nothing == "-<*>"
    sources = [str(p) for form in patterns for p in module.glob(form[2:-1])]
    assert len(sources) > 10
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m33", "-mthumb", "-Werror", "-r", "-nostdlib"]
    flags = [*build["flags"], "-o", str(tmp_path / "all.o")]
    done = subprocess.run(
        [*command, *flags, *sources], cwd=module, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (module / "model.lds").read_bytes() in (tmp_path / "all.o").read_bytes()


@contextmanager
def serving(socket: Path, device: str, *words: str) -> Iterator[Path]:
    """A simulator process behind a socket."""
    serve = [sys.executable, "-m", "loadstone", "simd", str(socket), "--device", device, *words]
    with subprocess.Popen(serve) as server:
        try:
            while not socket.exists() and server.poll() is None:
                time.sleep(0.02)
            yield socket
        finally:
            server.terminate()


def application(
    artifact: Artifact, device: str, x: np.ndarray, folder: Path, *words: str, fault: str = ""
) -> tuple[bytes, str]:
    """What the exported Linux project writes for inputs `x`, and says, with a simulator process.
    words: for its make. fault: of the simulator, with which the program fails."""
    artifact.save(folder / "m.lds")
    assert main(["export", f"{folder}/m.lds", "--board", "linux", "-o", f"{folder}/app"]) == 0
    make(folder / "app", "FLAGS=-Werror", *words, compiler="gcc")
    (folder / "in").write_bytes(x.tobytes())
    with serving(folder / "socket", device, *(["--fault", fault] if fault else [])) as socket:
        command = [f"{folder}/app/model", f"simd:{socket}", f"{folder}/in", f"{folder}/out"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == bool(fault), done.stderr
    return (folder / "out").read_bytes(), done.stderr


def test_an_application_runs_against_the_simulator(tmp_path: Path) -> None:
    config = load_config("vtaq-4x16x16")
    model = dense_model(config)
    x = np.random.default_rng(1).integers(-128, 128, (8, 1, model.weights.shape[1]), np.int8)
    written, said = application(model.artifact, config.name, x, tmp_path)
    assert ": 2 runs, " in said
    y = np.frombuffer(written, np.int8).reshape(8, 1, -1)
    assert np.array_equal(y, model.expected(x))


def test_an_application_says_the_whole_fault(tmp_path: Path) -> None:
    """Where the device came to an end, and why; what it gave before is written."""
    model = dense_model(load_config("vtaq-1x16x16"))
    x = np.random.default_rng(1).integers(-128, 128, (2, 1, model.weights.shape[1]), np.int8)
    artifact, name = model.artifact, "vtaq-1x16x16"
    written, said = application(artifact, name, x, tmp_path, fault="bus-error@1:2")
    assert re.fullmatch(
        r"model: device vtaq-1x16x16, step \d, instruction 2, layer dense, error 4, "
        r"bus address \d+\n"
        r"model: run: the device stopped with an error \(-30\)\n",
        said,
    ), said
    assert written == model.expected(x[:1]).tobytes()


def test_an_application_does_not_guess_where_registers_are(tmp_path: Path) -> None:
    """A configuration without register_base, through /dev/mem; UIO has them from the tree."""
    copy_model().save(tmp_path / "m.lds")
    assert main(["export", f"{tmp_path}/m.lds", "--board", "linux", "-o", f"{tmp_path}/app"]) == 0
    make(tmp_path / "app", "FLAGS=-Werror", compiler="gcc")
    words = [str(tmp_path / "app/model"), "devmem:0x1c000000+0x4000000", "in", "out"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "model: devmem: the device's configuration has no register_base: uio:/dev/uio0 has it from "
        "the device tree\n",
    )


def test_steps_in_c_compute_in_the_application_what_python_does(tmp_path: Path) -> None:
    """On a device that takes four samples at once: the steps go through them one by one."""
    artifact = island(tmp_path, "vtaq-4x16x16")
    x = np.random.default_rng(1).integers(-128, 128, (8, 1, 16), np.int8)
    with device.open("sim:vtaq-4x16x16") as dev, dev.load(artifact, trust=True) as session:
        (wanted,) = session.run([x])
    assert application(artifact, "vtaq-4x16x16", x, tmp_path)[0] == wanted.tobytes()


def test_operators_of_real_numbers_compute_in_the_application_what_python_does(
    tmp_path: Path,
) -> None:
    artifact = gate(tmp_path, "vtaq-4x16x16")
    x = np.random.default_rng(1).integers(-128, 128, (8, 1, 16), np.int8)
    with device.open("sim:vtaq-4x16x16") as dev, dev.load(artifact) as session:
        (wanted,) = session.run([x])
    assert application(artifact, "vtaq-4x16x16", x, tmp_path)[0] == wanted.tobytes()


@pytest.mark.full
def test_a_firmware_links_the_operators_of_its_model_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No other function of real numbers, and nothing that came from the file is code."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    gate(tmp_path, "vtaq-1x16x16").save(tmp_path / "m.lds")
    words = ["export", f"{tmp_path}/m.lds", "--board", "cortex-m", "-o", f"{tmp_path}/fw"]
    assert main(words) == 0
    assert "the code of whoever made it" not in capsys.readouterr().out
    make(tmp_path / "fw", "CPU=cortex-m55", "FLAGS=-mfloat-abi=hard -Werror")
    command = ["arm-none-eabi-nm", str(tmp_path / "fw/model.elf")]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    linked = set(re.findall(r"lds_(\w+)_float32\b", names))
    assert linked == {"sigmoid", "erf", "exp", "multiply", "softmax"}
    assert "lds_gather" not in names


@pytest.mark.parametrize("name", ["vtaq-1x16x16", "vtab-1x8x8"])
def test_a_debug_build_prints_what_each_layer_leaves(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`loadstone compare --digests` takes it, of int8 and of bfloat16; other inputs are found."""
    if name == "vtab-1x8x8":
        (tmp_path / "net.onnx").write_bytes(small_onnx())
        artifact, x = compile(tmp_path / "net.onnx", name).artifact, np.stack(images(2))
    else:
        network = convolutions(tmp_path)
        artifact, x = network.artifact, network.inputs[:2]
    np.savez(tmp_path / "x.npz", in0=x)
    np.savez(tmp_path / "others.npz", in0=x[::-1])
    _, said = application(artifact, name, x, tmp_path, "DEBUG=1")
    assert ": 1 runs, " in said
    (tmp_path / "said.txt").write_text(said)
    words = ["compare", f"{tmp_path}/m.lds", "--trust", "--against", "sim"]
    words += ["--digests", f"{tmp_path}/said.txt", "--inputs"]
    capsys.readouterr()
    assert main([*words, f"{tmp_path}/x.npz"]) == 0
    found = int(capsys.readouterr().out.split(": ")[1].split()[0])
    assert found == said.count("loadstone digest") >= 3
    assert main([*words, f"{tmp_path}/others.npz"]) == 1


@pytest.mark.parametrize("name", INTEGER_DEVICES)
def test_the_dma_memory_is_enough(name: str) -> None:
    """What the project reserves is what a session takes from a pool of exactly that size."""
    from loadstone.library.native import ffi, lib
    from loadstone.runtime.footprint import pool_bytes

    config = load_config(name)
    artifact = dense_model(config).artifact
    lib()
    null = lib().lds_hal_null_create(config.config_hash, pool_bytes(artifact))
    dev = device.OpenedDevice("null", "", config)
    dev._handle = device.Handle(ffi.new("lds_device *"), None)
    native = lib().lds_registers_named(b"native")
    assert lib().lds_device_open(dev._handle.device, lib().lds_hal_null_hal(null), native, 0) == 0
    with dev.load(artifact) as session:
        session.execute()
    lib().lds_hal_null_destroy(null)


def test_names_in_a_model_are_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An artifact may come from anybody: its names stay in their comment, and on their line of the
    terminal."""
    evil = "x*/\n#error injected\n/*/ \x1b[31m"
    model = copy_model()
    tensors = tuple(dataclasses.replace(t, name=evil) for t in model.tensors)
    steps = tuple(dataclasses.replace(s, name=evil) for s in model.steps)
    dataclasses.replace(model, name=evil, tensors=tensors, steps=steps).save(tmp_path / "m.lds")
    for words in (
        ["export", "--board", "linux", "-o", f"{tmp_path}/app"],
        ["inspect", "--layers"],
        ["disasm"],
    ):
        assert main([words[0], f"{tmp_path}/m.lds", *words[1:]]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\n#error" not in out
    header = (tmp_path / "app/model.h").read_text()
    assert header.count("*/") == header.count("/*") == 4
    assert "\n#error" not in header


def test_a_plugins_function_becomes_a_stub(tmp_path: Path) -> None:
    external_model().save(tmp_path / "m.lds")
    assert main(["export", f"{tmp_path}/m.lds", "--board", "linux", "-o", f"{tmp_path}/app"]) == 0
    assert "int plugin_tests_total(" in (tmp_path / "app/steps/plugins.c").read_text()
    make(tmp_path / "app", "FLAGS=-Werror", compiler="gcc")


def test_a_model_that_needs_python_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = external_model()
    steps = (*step.steps[:-1], host_step.external("total", (1,), (2,), "loadstone.relax", "{}"))
    dataclasses.replace(step, steps=steps).save(tmp_path / "m.lds")
    assert main(["export", f"{tmp_path}/m.lds", "--board", "linux", "-o", f"{tmp_path}/app"]) == 2
    assert "needs the function 'loadstone.relax' of the Python" in capsys.readouterr().err


@pytest.fixture
def npu_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "_FACTORIES", {})
    register_accelerator("npu", lambda _: npu())


@pytest.mark.full
def test_programs_of_another_device(
    npu_known: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under Linux and for a Cortex-M: its table and its registers; with VTA's programs beside it
    where the board has a second place."""
    need("arm-none-eabi-gcc", "gcc-arm-none-eabi")
    alone, vta = program_model(), copy_model()
    both = dataclasses.replace(
        alone, devices=(*vta.devices, *alone.devices[1:]), steps=(*alone.steps, *vta.steps)
    )
    alone.save(tmp_path / "alone.lds")
    both.save(tmp_path / "both.lds")
    words = ["export", f"{tmp_path}/both.lds", "--board", "cortex-m", "-o", f"{tmp_path}/both"]
    assert main(words) == 0
    make(tmp_path / "both", "FLAGS=-Werror", compiler="arm-none-eabi-gcc")
    assert main(["export", f"{tmp_path}/alone.lds", "--board", "linux", "-o", f"{tmp_path}/l"]) == 0
    make(tmp_path / "l", "FLAGS=-Werror", compiler="gcc")
    assert ": m for linux (npu); next: make" in capsys.readouterr().out
    assert main(["export", f"{tmp_path}/both.lds", "--board", "linux", "-o", f"{tmp_path}/n"]) == 0
    make(tmp_path / "n", "FLAGS=-Werror", compiler="gcc")
