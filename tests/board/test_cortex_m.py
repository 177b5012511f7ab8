# SPDX-License-Identifier: Apache-2.0
"""Rung 5: a Cortex-M3 firmware under QEMU's mps2-an385, the device on its bus and at its NVIC."""

from __future__ import annotations

import json
import re
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from loadstone.analysis.compare import one_run
from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.library.native import lib
from loadstone.runtime import device
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.registers import ERRORS, STATES
from loadstone.vta.simulator.rtl_build import library
from loadstone.vta.simulator.sim import ORDERS
from tests.analysis.faults import KINDS, Fault, faults
from tests.board import build, cases, console, models, several, sharing
from tests.board.emulator import MACHINES, boot
from tests.board.exported import cases_of, check_exported, exported_lines, firmware, others_irq
from tests.board.models import Network
from tests.board.tools import ROOT, need, run
from tests.repeat import more

pytestmark = [pytest.mark.full, pytest.mark.rung("5")]

BOARD, MACHINE = "cortex-m", "mps2-an385"
#: What an exported model's header says of a model for four devices.
THREE_MORE = "#define MODEL_ACCELERATORS 3\n#define MODEL_FIRST_IS_ACCELERATOR 0\n"


def test_network_gives_the_native_bytes_and_faults_are_survived(network: Network) -> None:
    faults = cases.faults(network, MACHINES[MACHINE].pool)
    with boot(
        MACHINE, firmware(BOARD, network, cases.RUNS), device=network.device, faults=faults
    ) as board:
        cases.check(board.finish(), network)


@pytest.mark.parametrize("faulty", [False, True])
def test_networks_share_the_device_within_their_bounds(
    figure: Callable[[str], None], *, faulty: bool
) -> None:
    """A loop around lds_schedule_step, in cycles that the device counts."""
    packed, networks = sharing.networks(faulty=faulty)
    program = cases_of(BOARD, packed, b"-", "-DCASES=share_cases")
    with boot(MACHINE, program, timeout_s=sharing.SECONDS) as on:
        figure(f"{MACHINE}: {sharing.check(on.finish(), networks)}")


def test_real_networks_share_the_device(shared: Path, figure: Callable[[str], None]) -> None:
    packed, networks = sharing.real_networks(shared)
    program = cases_of(BOARD, packed, b"-", "-DCASES=share_cases")
    with boot(MACHINE, program, timeout_s=sharing.SECONDS) as on:
        figure(f"{MACHINE}, MLPerf Tiny: {sharing.check(on.finish(), networks)}")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(others_irq(BOARD), id="interrupt"),
        pytest.param("", id="polled", marks=more),
    ],
)
def test_a_network_of_two_devices_on_one_bus(divided: Network, tmp_path: Path, flags: str) -> None:
    """As exported: each device with registers of its own, the second one with an interrupt of its
    own or polled; outputs and cycles are the simulator's, which times both on one bus."""
    check_exported(divided, tmp_path, flags=flags)


def test_each_of_two_devices_has_its_interrupt(divided: Network) -> None:
    """Each job of either comes to the handler once."""
    runs = len(divided.inputs)
    with boot(MACHINE, firmware(BOARD, divided, runs), device=divided.device) as board:
        cases.check_all_interrupts(board.finish(), divided)


@pytest.mark.parametrize("number", [pytest.param(0, marks=more), 1])
def test_one_of_two_devices_fails_and_the_next_run_is_exact(divided: Network, number: int) -> None:
    """The run ends with its status and names it, whatever the other device does meanwhile."""
    booted, faults = firmware(BOARD, divided, cases.RUNS), cases.failing(divided, number)
    with boot(MACHINE, booted, device=divided.device, faults=faults) as board:
        cases.check_fails(board.finish(), divided, number)


def test_several_networks_in_one_firmware(tmp_path: Path) -> None:
    several.check_periods(tmp_path, BOARD)


def test_a_fault_of_one_network_leaves_the_others_exact(tmp_path: Path) -> None:
    several.check_faults(tmp_path, BOARD)


@more
def test_the_driver_runs_a_model_on_the_hardware() -> None:
    """VTA-Q's RTL under Verilator behind the same registers, interrupt and DMA; a program without
    memory behind it gives the registers that the simulator's does."""
    need("verilator", "verilator")
    network = models.dense("vtaq-tiny")
    library(load_config("vtaq-tiny"))  # built before the machine waits for it
    runs = len(network.inputs)
    with boot(MACHINE, firmware(BOARD, network, runs), device="rtl:vtaq-tiny") as board:
        lines = board.finish()
    cases.check_healthy(lines, network)
    bad = console.bad_address(lines)
    assert (bad.state, bad.error, bad.address) == (STATES["ERROR"], ERRORS["BUS"][0], 0x30000000)
    assert bad.irq == 0, "the interrupt did not come"


def test_float_operators_give_the_native_bits() -> None:
    """Without a floating-point unit: the compiler's own arithmetic."""
    network = models.floats()
    with boot(MACHINE, firmware(BOARD, network, 3)) as board:
        cases.check_healthy(board.finish(), network)


@more
def test_bfloat16_gives_the_native_bits(tmp_path: Path) -> None:
    """Packed and unpacked without a floating-point unit; by the driver, and as exported."""
    network = models.reals(tmp_path)
    with boot(MACHINE, firmware(BOARD, network, 3), device=network.device) as board:
        cases.check_healthy(board.finish(), network)
    check_exported(network, tmp_path)


def test_exported_project_runs_as_it_is(network: Network, tmp_path: Path) -> None:
    """`loadstone export --board cortex-m`, told only where this board's registers and interrupt
    are: link.ld is made for its memory. What a loader writes to flash is what the file holds: one
    that cleared .bss behind .data's copy there would run over the flash's end."""
    check_exported(network, tmp_path)
    segments = loaded(tmp_path / "firmware/model.elf")
    assert any(segment.virtual != segment.physical for segment in segments), ".data is copied"
    for segment in segments:
        assert segment.virtual == segment.physical or segment.memory_bytes == segment.file_bytes


class Segment(NamedTuple):
    """What a program header of an ELF file says of memory that is loaded."""

    virtual: int
    physical: int
    file_bytes: int
    memory_bytes: int


def loaded(file: Path) -> list[Segment]:
    """Of a file for a processor of 32 bits."""
    content = file.read_bytes()
    (begin,) = struct.unpack_from("<I", content, 28)
    size, count = struct.unpack_from("<HH", content, 42)
    headers = [struct.unpack_from("<8I", content, begin + size * k) for k in range(count)]
    return [Segment(*header[2:6]) for header in headers if header[0] == 1]


@pytest.mark.parametrize("reals", [models.islands, models.gates], ids=["steps in C", "operators"])
def test_exported_real_numbers_give_the_native_bytes(
    reals: Callable[[Path], Network], tmp_path: Path
) -> None:
    """Without a floating-point unit and without libm."""
    check_exported(reals(tmp_path), tmp_path)


def test_exported_programs_of_another_accelerator(systolic: Network, tmp_path: Path) -> None:
    """A plug-in's device from its folder alone: instructions, validator and registers in the
    firmware, its simulator behind them."""
    check_exported(systolic, tmp_path, plugins=[models.SYSTOLIC])


def test_exported_programs_with_registers(tmp_path: Path) -> None:
    """Gemmini: the firmware's validator follows what commands set, and its driver writes them into
    the device's queue."""
    check_exported(models.convolutions_on_gemmini(tmp_path), tmp_path, plugins=[models.GEMMINI])


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=more) for n in range(1, 11))])
def test_a_fault_is_found_from_what_a_debug_build_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """`make DEBUG=1` prints digests; `loadstone compare --digests` names the faulty layer. Of the
    sound artifact they are those of the simulator. A missing token shows on a device whose speed
    leads to another order than the program's."""
    network = models.convolutions(tmp_path)
    np.savez(tmp_path / "x.npz", in0=network.inputs[:1])
    network.artifact.save(tmp_path / "good.lds")
    subject, layers, order = network, frozenset[str](), "program"
    if seed:
        fault, order = effective_fault(network, seed)
        subject, layers = replace(network, artifact=fault.artifact), fault.layers
    lines = exported_lines(subject, tmp_path, "DEBUG=1", order=order)
    (tmp_path / "printed.txt").write_text("\n".join(lines))
    words = ["compare", f"{tmp_path}/good.lds", "--inputs", f"{tmp_path}/x.npz"]
    words += ["--against", "sim", "--digests", f"{tmp_path}/printed.txt", "--all", "--json"]
    capsys.readouterr()
    assert main(words) == bool(seed)
    found = json.loads(capsys.readouterr().out)["layers"]
    assert len(found) == sum(line.startswith("loadstone digest") for line in lines) > 3
    wrong = [entry["layer"] for entry in found if entry["different"]]
    assert wrong[:1] == [] if not seed else wrong[0] in layers


def effective_fault(network: Network, seed: int) -> tuple[Fault, str]:
    """One that changes the result, of kind `seed` first; the order in which the device shows it."""
    inputs = one_run(network.artifact, [network.inputs[:1]], 0)
    for fault in faults(network.artifact, seed, seed % len(KINDS)):
        for order in ORDERS if fault.kind == "token" else ORDERS[:1]:
            if second_result(fault.artifact, inputs, order) != network.outputs[0]:
                return fault, order
    raise AssertionError("there is always another fault")


def second_result(artifact: Artifact, inputs: list[np.ndarray], order: str) -> bytes:
    """What a device that takes this order gives when memory and scratchpads hold what a run of the
    same sample has left in them: so it is when firmware prints digests, run after run."""
    with device.open("sim") as opened, opened.load(artifact) as session:
        core = lib().lds_simdev_sim(lib().lds_hal_sim_device(opened.sim))
        assert lib().lds_sim_set_option(core, lib().LDS_SIM_ORDER, ORDERS.index(order)) == 0
        for _ in range(2):
            for view, array in zip(session.inputs, inputs, strict=True):
                view[...] = array
            session.execute()
        return session.outputs[0].tobytes()


def _on_example(folder: Path, name: str, file: str, *marks: Any) -> Any:
    return pytest.param(folder, name, file, marks=marks, id=f"{name}-{file.partition('.')[0]}")


@pytest.mark.parametrize(
    ("folder", "name", "file"),
    [
        _on_example(models.DESCRIPTORS, "layer-engine", "mlpt_vww_int8.tflite"),
        _on_example(models.SYSTOLIC, "systolic", "mlpt_resnet8_int8.tflite", more),
        _on_example(models.SYSTOLIC, "systolic", "mlpt_kws_int8.tflite", more),
        _on_example(models.SYSTOLIC, "systolic", "mlpt_vww_int8.tflite", more),
        _on_example(models.DESCRIPTORS, "layer-engine", "mlpt_resnet8_int8.tflite", more),
        _on_example(models.DESCRIPTORS, "layer-engine", "mlpt_kws_int8.tflite", more),
        _on_example(models.DESCRIPTORS, "layer-engine", "mlpt_ad_int8.tflite", more),
        _on_example(models.WORD_FIFO, "vector-engine", "mlpt_resnet8_int8.tflite", more),
        _on_example(models.GEMMINI, "gemmini", "mlpt_resnet8_f32.tflite", more),
        _on_example(models.GEMMINI, "gemmini", "mlonmcu_micro_kws_m_f32.onnx", more),
        _on_example(models.GEMMINI, "gemmini", "mlpt_vww_f32.tflite", more),
    ],
)
def test_exported_networks_on_the_examples_devices(
    *, shared: Path, tmp_path: Path, folder: Path, name: str, file: str
) -> None:
    """The layer engine, the vector engine and Gemmini have C for registers of their own."""
    network = models.on_example(shared, [folder], name, file)
    check_exported(network, tmp_path, plugins=[folder])


def test_firmware_prints_the_whole_fault(convolutions: Network, tmp_path: Path) -> None:
    """Of the device: status, step, instruction, layer, error, address."""
    (line,) = exported_lines(convolutions, tmp_path, wrong=["bus-error@0:2"])
    names = "|".join(part.name for part in convolutions.artifact.programs[0].layers)
    assert re.fullmatch(
        r"loadstone: status -30: the device stopped with an error; "
        rf"step \d, instruction 2, layer ({names}), error 4, bus address \d+",
        line,
    ), line


def test_a_fault_of_the_processor_is_printed(convolutions: Network, tmp_path: Path) -> None:
    """Registers where nothing is: QEMU's processor takes a bus fault."""
    (line,) = exported_lines(convolutions, tmp_path, registers=0xD0000000)
    assert re.fullmatch(
        r"loadstone: the processor's exception 0x0000000[35] at 0x[0-9A-Fa-f]{8}, called from "
        r"0x[0-9A-Fa-f]{8}, CFSR 0x0000[0-9A-Fa-f]{4}, BFAR 0x[0-9A-Fa-f]{8}",
        line,
    ), line


@pytest.mark.parametrize(
    ("cpu", "line", "complaint"),
    [
        ("cortex-m0", "31", ""),
        ("cortex-m0", "32", "beyond the interrupts that this processor's NVIC can have"),
        ("cortex-m3", "0", ""),
        ("cortex-m3", "33", ""),
        ("cortex-m3", "239", ""),
        ("cortex-m3", "240", "beyond the interrupts that this processor's NVIC can have"),
        ("cortex-m55", "479", ""),
        ("cortex-m55", "480", "beyond the interrupts that this processor's NVIC can have"),
        ("cortex-m3", "-1", "below the interrupts that a processor's NVIC has"),
        ("cortex-m3", "NPU_IRQn", "undeclared"),
        ("cortex-m3", "20 -DBOARD_ACCELERATORS_IRQ=237", ""),
        ("cortex-m3", "20 -DBOARD_ACCELERATORS_IRQ=238", "BOARD_ACCELERATORS_IRQ on, is beyond"),
        ("cortex-m3", "20 -DBOARD_ACCELERATORS_IRQ=-1", "BOARD_ACCELERATORS_IRQ is below"),
        ("cortex-m3", "20 -DBOARD_ACCELERATORS_IRQ=NPU_IRQn", "undeclared"),
        ("cortex-m3", "20 -DBOARD_ACCELERATORS_IRQ=THIRTY", "takes for 0"),
    ],
)
def test_interrupts_that_an_nvic_cannot_have_are_errors(
    cpu: str, line: str, complaint: str, tmp_path: Path
) -> None:
    """The table of handlers reaches to the devices', whichever these are; three are behind the
    first."""
    need("arm-none-eabi-gcc", build.TOOLCHAINS["cortex-m3"].packages)
    project, out = ROOT / "python/loadstone/boards", tmp_path / "startup.o"
    words = ["arm-none-eabi-gcc", f"-mcpu={cpu}", "-mthumb", "-std=gnu99", "-Wall", "-Werror", "-c"]
    words += [f"-I{ROOT / folder}" for folder in ("runtime/include", "driver/include")]
    (tmp_path / "model.h").write_text(f"{THREE_MORE}enum {{ THIRTY = 30 }};\n")
    words += [f"-I{project / 'firmware'}", f"-I{tmp_path}", *f"-DBOARD_IRQ={line}".split()]
    words += [str(project / "cortex-m/startup.c"), "-o", str(out)]
    if complaint:
        with pytest.raises(AssertionError, match=complaint):
            run(words)
        return
    run(words)
    sizes = run(["arm-none-eabi-size", "-A", out])
    found = re.search(r"^\.vectors +(\d+)", sizes, re.MULTILINE)
    assert found
    end = int(line.split("=")[1]) + 3 if "=" in line else int(line) + 1
    assert int(found[1]) >= 4 * (16 + end)


def test_further_devices_have_no_interrupt_where_the_first_has_none(tmp_path: Path) -> None:
    need("arm-none-eabi-gcc", build.TOOLCHAINS["cortex-m3"].packages)
    words = [
        "arm-none-eabi-gcc",
        "-E",
        f"-I{ROOT / 'runtime/include'}",
        "-DBOARD_ACCELERATORS_IRQ=21",
    ]
    words += [f"-I{ROOT / 'driver/include'}", f"-I{tmp_path}"]
    (tmp_path / "model.h").write_text(f"{THREE_MORE}enum {{ THIRTY = 30 }};\n")
    with pytest.raises(AssertionError, match="give BOARD_IRQ, too"):
        run([*words, str(ROOT / "python/loadstone/boards/firmware/board.h")])


def test_killed_simulator_does_not_hang_the_guest(convolutions: Network) -> None:
    with boot(MACHINE, firmware(BOARD, convolutions, 3), faults=["hang@1"]) as board:
        for line in board.read():
            if line == "run 1 begin":
                board.simulator.kill()
        cases.check_gone(board.lines, convolutions, 1)


def test_stopped_simulator_does_not_hang_the_guest(convolutions: Network) -> None:
    """It is there, but does not answer: after five seconds the plug-in gives it up."""
    with boot(MACHINE, firmware(BOARD, convolutions, 3), faults=["hang@1"]) as board:
        for line in board.read():
            if line == "run 1 begin":
                board.simulator.send_signal(signal.SIGSTOP)
                begin = time.monotonic()
        assert time.monotonic() - begin < 120, "a busy machine is slow, but not so slow"
        cases.check_gone(board.lines, convolutions, 1)


# --- the plug-in's own refusals -------------------------------------------------------------------
def test_plugin_refuses_another_qemu(tmp_path: Path) -> None:
    """A program that says it is QEMU 8.0 loads the plug-in."""
    need("gcc", "gcc")
    program = tmp_path / "qemu"
    source = ROOT / "tests/board/qemu_plugin/fake_qemu.c"
    subprocess.run(
        ["gcc", "-std=gnu11", "-Wall", "-Werror", "-rdynamic", source, "-o", program], check=True
    )
    done = subprocess.run(
        [program, build.plugin()], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (
        1,
        "lds_board: this is QEMU 8.0; the plug-in mirrors structures of 7.2 only\n",
    )


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            "base=0x40100000,intc=armv7m,irq=20,socket=/nowhere/simd",
            "no `loadstone simd` listens at /nowhere/simd",
        ),
        (
            "base=0x40100000,intc=arm_gic,irq=20,socket=/nowhere/simd",
            "no interrupt controller is called arm_gic",
        ),
        ("base=0x40100000,intc=armv7m,socket=/nowhere/simd", "needs socket=PATH,base=ADDRESS"),
        (
            "base=0x40100004,intc=armv7m,irq=20,socket=/nowhere/simd",
            "needs socket=PATH,base=ADDRESS",
        ),
        ("colour=red", "unknown option colour"),
    ],
)
def test_plugin_says_in_one_line_what_is_wrong(options: str, complaint: str) -> None:
    need("qemu-system-arm", "qemu-system-arm")
    command = [
        "qemu-system-arm",
        "-machine",
        MACHINE,
        "-display",
        "none",
        "-nodefaults",
        "-plugin",
        f"{build.plugin()},{options}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("lds_board: ")] == [
        done.stderr.splitlines()[-1]
    ]
    assert complaint in done.stderr
