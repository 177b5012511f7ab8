# SPDX-License-Identifier: Apache-2.0
"""Rungs 6 and 7: Debian's Linux on arm64, armv7 and a ZCU102 under QEMU; an unmodified user-space
UIO driver, real interrupts, DMA."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.vta.device.hw_config import load_config
from tests import further
from tests.board import build, cases, console, debian, linux_image, models
from tests.board.emulator import FRAGMENTS, MACHINES, boot
from tests.board.models import Network
from tests.board.tools import ROOT, need, run
from tests.branches import branches
from tests.repeat import more

pytestmark = pytest.mark.full
GUEST = ROOT / "tests/board/guest"
TOOLCHAINS = {"arm64": "aarch64", "armhf": "armv7"}
ARCHITECTURES = {
    "virt-arm64": "arm64",
    "virt-armhf": "armhf",
    **dict.fromkeys(("zcu102", *FRAGMENTS), "arm64"),
}
#: Processes that are killed, each a millisecond later in a run.
KILLS = 4


def image(
    machine: str, network: Network, runs: int, registers: str = "native", kills: int = 0
) -> list[str | Path]:
    """The arguments that boot Debian's kernel, fetched and completed once and kept in build/board,
    with this network in its file system. kills: processes that are killed afterwards."""
    arch = ARCHITECTURES[machine]
    sources = [
        *build.RUNTIME,
        *build.drivers("hal_linux_uio.c", "linux_board.c"),
        GUEST / "run_cases.c",
        GUEST / "linux/init.c",
    ]
    program = build.executable(TOOLCHAINS[arch], "init", sources)
    offset = MACHINES[machine].memory_base if machine in FRAGMENTS else 0
    options = (f"runs={runs}", f"registers={registers}", f"bus_offset={offset:#x}")
    options = (*options, f"kills={kills}")
    return linux_image.arguments(
        machine,
        debian.kernel(arch),
        program,
        network.artifact.to_bytes(),
        network.inputs.tobytes(),
        *options,
    )


@pytest.mark.parametrize(
    "machine",
    [
        pytest.param("virt-arm64", marks=pytest.mark.rung("6")),
        pytest.param("virt-armhf", marks=(pytest.mark.rung("7"), more)),
        pytest.param("zcu102", marks=pytest.mark.rung("7")),
    ],
)
def test_network_gives_the_native_bytes_and_faults_are_survived(
    machine: str, network: Network
) -> None:
    """And then processes: of two one is refused, and behind one that was killed in the middle of a
    run (the first in one that hangs) the next is right."""
    faults = cases.faults(network, MACHINES[machine].pool)
    faults.append(f"hang@{cases.RUNS + 1}")  # behind the program without memory
    booted = image(machine, network, cases.RUNS, kills=KILLS)
    with boot(machine, booted, device=network.device, faults=faults) as board:
        lines = board.finish()
    cases.check(lines[: lines.index("done") + 1], network)
    cases.check_killed(lines[lines.index("done") + 1 :], network, KILLS)


@more
@pytest.mark.rung("6")
def test_bfloat16_gives_the_native_bits(tmp_path: Path) -> None:
    network = models.reals(tmp_path)
    with boot("virt-arm64", image("virt-arm64", network, 3), device=network.device) as board:
        cases.check_healthy(board.finish(), network)


@pytest.mark.rung("6")
def test_killed_simulator_does_not_hang_the_guest(convolutions: Network) -> None:
    with boot("virt-arm64", image("virt-arm64", convolutions, 3), faults=["hang@1"]) as board:
        for line in board.read():
            if line == "run 1 begin":
                board.simulator.kill()
        cases.check_gone(board.lines, convolutions, 1)


@pytest.mark.rung("7")
@pytest.mark.parametrize(
    ("machine", "device", "registers"),
    [
        ("zcu102", "vta-ultra96", "vta-hls"),
        ("virt-arm64", "vta-de10nano", "vta-chisel"),
        pytest.param("virt-armhf", "vta-de10nano", "vta-chisel", marks=more),
    ],
)
def test_pages_of_vtas_bitstreams_work_too(machine: str, device: str, registers: str) -> None:
    """At the addresses and on the CPUs that these have on their boards; they are polled, and know
    no error."""
    network = models.dense(device)
    booted = image(machine, network, 3, registers, kills=KILLS)
    with boot(machine, booted, device=device) as board:
        lines = board.finish()
    cases.check_healthy(lines[: lines.index("done") + 1], network)
    cases.check_killed(lines[lines.index("done") + 1 :], network, KILLS)


@pytest.mark.rung("7")
@pytest.mark.parametrize(
    ("fragment", "device", "interrupts"),
    [
        ("pynq-z2", "vta-pynq", 0),
        ("de10-nano", "vta-de10nano", 0),
        ("ultra96", "vta-ultra96", 0),
        ("kv260", "vtaq-1x16x16", 3),
    ],
)
def test_a_fragment_boots_as_it_is_shipped(fragment: str, device: str, interrupts: int) -> None:
    """Its registers, memory, sizes and interrupt, at their addresses; without an interrupt it is
    polled."""
    network, config = models.dense(device), load_config(device)
    if fragment != "kv260":
        assert config.register_block.base_address == MACHINES[fragment].registers
    with boot(fragment, image(fragment, network, 3, config.registers), device=device) as board:
        lines = board.finish()
    cases.check_healthy(lines, network)
    assert console.interrupts(lines) >= interrupts


#: What a page's commands do that is not done here: the bitstream, the board's own files, the copy
#: to the board. The last two lines are what the booted system and the test do.
BY_HAND = ("wget ", 'python3 -c "from pynq', "bootgen ", "git clone ", "scp ", "cp /media/")
BY_HAND += ("sudo ", "./model ", "cmp ")


@pytest.mark.rung("7")
@pytest.mark.parametrize(
    ("page", "fragment", "device", "tree"),
    [
        ("pynq", "pynq-z2", "vta-pynq", "system.dtb"),
        ("ultra96", "ultra96", "vta-ultra96", "system.dtb"),
        ("de10-nano", "de10-nano", "vta-de10nano", "socfpga.dtb"),
    ],
)
def test_the_page_of_a_board_leads_to_the_first_inference(
    page: str, fragment: str, device: str, tree: str, tmp_path: Path
) -> None:
    """Every command of docs/boards, in its order, from a folder with what the page says is there: a
    model, samples, what they give, the tree that boots. The program and the tree that they make
    then run on the emulated board. (Debian's kernel for arm64 runs programs for armv7, too: no
    other boots on this machine.)"""
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    need("arm-linux-gnueabihf-gcc", "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross")
    need("dtc", "device-tree-compiler")
    network = models.convolutions(tmp_path)
    (tmp_path / "convolutions.tflite").rename(tmp_path / "resnet8.tflite")
    (tmp_path / "driver").symlink_to(ROOT / "driver")
    shutil.copy(linux_image.tree_before(fragment), tmp_path / tree)
    np.savez(tmp_path / "x.npz", in0=network.inputs)
    golden = np.stack([np.frombuffer(y, np.int8).reshape(1, -1) for y in network.outputs])
    np.savez(tmp_path / "golden.npz", out0=golden.reshape(len(golden), 1, 1, 1, -1))
    text = (ROOT / f"docs/boards/{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    here = f"PATH={Path(sys.executable).parent}:$PATH; set -e\n"
    run(
        ["bash", "-c", here + "\n".join(line for line in lines if not line.startswith(BY_HAND))],
        cwd=tmp_path,
    )
    made = [(tmp_path / "app/model", (tmp_path / "in.bin").read_bytes())]
    sources = [*build.RUNTIME, *build.drivers("hal_linux_uio.c", "linux_board.c")]
    sources += [GUEST / "run_cases.c", GUEST / "linux/init.c"]
    init = build.executable("aarch64", "init", sources)
    kernel, booting = debian.kernel("arm64"), tmp_path / "board.dtb"
    booted = linux_image.programs(fragment, kernel, init, made, booting)
    with boot(fragment, booted, device=device) as board:
        printed = board.finish()
    want = (tmp_path / "golden.bin").read_bytes()
    assert want == b"".join(network.outputs)
    assert f"program 0 status 0 output {want.hex()}" in printed, printed


@pytest.mark.rung("7")
def test_memory_that_linux_uses_is_refused() -> None:
    """As when the reservation comes in an overlay of a running system: too late."""
    network, fragment = models.dense("vta-pynq"), "pynq-z2"
    lines = image(fragment, network, 3, "vta-hls")
    tree = linux_image.device_tree(fragment)
    run(["fdtput", "-r", tree, "/reserved-memory"])
    with boot(fragment, lines, device="vta-pynq") as board:
        failed = [line for line in board.finish() if line.startswith("failed ")]
    assert len(failed) == 1
    assert "(System RAM); reserve it with no-map in the device tree that boots" in failed[0]


def exported(
    folder: Path, made: Sequence[tuple[Artifact, np.ndarray]], plugins: Sequence[Path]
) -> list[str | Path]:
    """The arguments that boot projects which `loadstone export --board linux` wrote, one after the
    other, on a board with two devices."""
    need("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")
    projects = dict[int, Path]()
    for artifact, _ in made:  # one that runs several times is built once
        if id(artifact) in projects:
            continue
        number = len(projects)
        project = projects[id(artifact)] = folder / str(number)
        artifact.save(folder / f"{number}.lds")
        words = ["export", folder / f"{number}.lds", "--board", "linux", "-o", project]
        words += [word for plugin in plugins for word in ("--uma-backends", plugin)]
        assert main([str(word) for word in words]) == 0
        cross = "CROSS_COMPILE=aarch64-linux-gnu-"
        run(["make", "-C", project, cross, "FLAGS=-static -Werror"])
    chosen = [(projects[id(artifact)] / "model", inputs.tobytes()) for artifact, inputs in made]
    sources = [*build.RUNTIME, *build.drivers("hal_linux_uio.c", "linux_board.c")]
    sources += [GUEST / "run_cases.c", GUEST / "linux/init.c"]
    init = build.executable("aarch64", "init", sources)
    return linux_image.programs("virt-arm64", debian.kernel("arm64"), init, chosen)


@pytest.mark.rung("6")
def test_a_network_of_two_devices_on_one_bus(divided: Network, tmp_path: Path) -> None:
    """Registers and an interrupt of each; outputs and cycles are the simulator's, which times both
    on one bus."""
    runs, healthy = len(divided.inputs), 2
    booted = exported(tmp_path, [(divided.artifact, divided.inputs)] * healthy, ())
    with boot("virt-arm64", booted, device=divided.device) as board:
        lines = board.finish()
    check_programs(lines, divided, range(healthy))
    (events,) = (re.fullmatch(r"events (\d+) (\d+)", e) for e in lines if e.startswith("events"))
    assert events, lines
    counted = sorted(map(int, events.groups()))  # the kernel numbers devices as it finds them
    each = sorted(healthy * runs * len(divided.artifact.programs_of(n)) for n in (0, 1))
    assert all(come >= jobs for come, jobs in zip(counted, each, strict=True)), counted


def check_programs(lines: Sequence[str], network: Network, healthy: Sequence[int]) -> None:
    """These of several, one after the other, gave the native bytes in the native cycles."""
    want = b"".join(network.outputs).hex()
    for number in healthy:
        assert f"program {number} status 0 output {want}" in lines, lines
    said = f"{network.artifact.name}: {len(network.inputs)} runs, {network.cycles[-1]} cycles each"
    assert lines.count(said) == len(healthy), lines


@pytest.mark.rung("6")
@pytest.mark.parametrize("number", [pytest.param(0, marks=more), 1])
def test_one_of_two_devices_fails_and_the_next_program_is_exact(
    divided: Network, tmp_path: Path, number: int
) -> None:
    """A program ends with the status of the device that failed, and names it."""
    booted = exported(tmp_path, [(divided.artifact, divided.inputs)] * 8, ())
    faults = cases.failing(divided, number, len(divided.inputs))
    with boot("virt-arm64", booted, device=divided.device, faults=faults) as board:
        lines = board.finish()
    check_programs(lines, divided, range(0, 8, 2))
    for program in range(1, 8, 2):
        assert f"program {program} status 256 output " in lines, lines
    ends = [line for line in lines if line.startswith("model: ")]
    name = divided.artifact.devices[number].name
    places, statuses = ends[::2], ends[1::2]
    assert all(place.startswith(f"model: device {name}, step ") for place in places), ends
    wanted = ["stopped with an error (-30)", *["hung and was reset (-31)"] * 2, "answers (-33)"]
    for said, end in zip(statuses, wanted, strict=True):
        assert said.startswith("model: run: "), ends
        assert end.split(" (")[1] in said, ends


@more
@pytest.mark.rung("6")
def test_networks_on_two_devices_of_plugins(shared: Path, tmp_path: Path) -> None:
    """ResNet8 and DS-CNN, divided between the systolic array and the layer engine: each device with
    registers and an interrupt of its own, both with one memory."""
    folders, names = (models.SYSTOLIC, models.DESCRIPTORS), ("systolic", "layer-engine")
    networks = []
    for file in ("mlpt_resnet8_int8.tflite", "mlpt_kws_int8.tflite"):
        network = models.on_example(shared, folders, ",".join(names), file)
        devices = [one.name for one in network.artifact.devices[1:]]
        assert devices == list(names)
        networks.append(network)
    booted = exported(tmp_path, [(n.artifact, n.inputs) for n in networks], folders)
    with boot("virt-arm64", booted, device=names[0], second=names[1], plugins=folders) as board:
        lines = board.finish()
    for number, network in enumerate(networks):
        want = b"".join(network.outputs).hex()
        assert f"program {number} status 0 output {want}" in lines, lines


@more
@pytest.mark.rung("6")
@pytest.mark.parametrize("second", ["systolic", "vtaq-1x8x8"])
def test_devices_that_no_data_ties(tmp_path: Path, second: str) -> None:
    """VTA-Q and another device, a plug-in's or a second VTA: both are started before either is
    waited for."""
    if second == "systolic":
        artifact, inputs, outputs = branches(tmp_path)
    else:
        graph, artifact = further.branches()
        inputs = np.stack(further.inputs(graph))
        outputs = further.expected(graph, list(inputs))
    (other,) = artifact.programs_of(1)
    assert (artifact.device_of(other).name, other.beside) == (second, True)
    booted = exported(tmp_path, [(artifact, inputs)], [models.SYSTOLIC])
    plugins = [models.SYSTOLIC]
    with boot("virt-arm64", booted, second=second, plugins=plugins) as board:
        lines = board.finish()
    want = b"".join(y[k].tobytes() for k in range(len(inputs)) for y in outputs).hex()
    assert f"program 0 status 0 output {want}" in lines, lines
