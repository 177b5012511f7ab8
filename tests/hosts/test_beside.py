# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/beside.c: networks of several devices through lds_easy.h, with the outputs of one
device, the cycles of the simulator, and the failing device by its name."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.graph import Graph
from loadstone.library.native import lib, library_file
from loadstone.simulator.programs import program_runs
from loadstone.vta.device.cores import cores_of
from loadstone.vta.device.hw_config import HwConfig
from tests.board.tools import need, run
from tests.c.build import SANITIZED, STRICT, includes
from tests.further import FIRST, SECOND, branches, chain, expected, inputs
from tests.hosts.easy import Easy, EasyError, bytes_kept, open_device
from tests.repeat import times
from tests.simd_client import process


def on_two(bus: str = "private") -> tuple[Graph, Artifact]:
    """Two programs side by side on equal devices."""
    return branches(*cores_of(FIRST, 2, bus=bus))


def exact(net: Easy, graph: Graph, seed: int = 0) -> None:
    given = inputs(graph, seed)
    wanted = expected(graph, given)
    outputs = [np.zeros_like(y) for y in wanted]
    net.run(given, outputs)
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def renamed(artifact: Artifact, **changes: object) -> Artifact:
    """Its last device is another one."""
    *before, last = artifact.devices
    return replace(artifact, devices=(*before, replace(last, **changes)))  # type: ignore[arg-type]


def table(folder: Path, config: HwConfig = FIRST) -> Path:
    path = folder / "timing.txt"
    path.write_text("".join(f"{name} {c.value}\n" for name, c in config.timing.items()))
    return path


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("made", [on_two, branches, chain])
def test_outputs_are_those_of_each_operators_own_rule(made: object) -> None:
    """Equal devices, and one of other blocks beside the first."""
    graph, artifact = made()  # type: ignore[operator]
    with Easy(artifact) as net:
        for seed in range(3):
            exact(net, graph, seed)


@pytest.mark.parametrize("bus", ["private", "shared"])
def test_cycles_are_those_of_programs_side_by_side(bus: str, tmp_path: Path) -> None:
    graph, artifact = on_two(bus)
    wanted = sum(one.cycles for one in program_runs(artifact, FIRST).values())
    with Easy(artifact, f"sim;timing={table(tmp_path)}") as net:
        for _ in range(3):
            exact(net, graph)
            assert lib().lds_easy_cycles(net.net) == wanted


def test_networks_with_a_bus_each_and_with_one_are_timed_each_as_it_says(tmp_path: Path) -> None:
    """Of one device that has worked already."""
    device = open_device(f"sim;timing={table(tmp_path)}")
    made = [on_two(bus) for bus in ("private", "shared")]
    wanted = [sum(one.cycles for one in program_runs(a, FIRST).values()) for _, a in made]
    assert wanted[0] < wanted[1]
    for turn in (0, 1, 0, 1):  # one after the other: cycles depend on where memory begins
        with Easy(made[turn][1], device) as net:
            exact(net, made[turn][0])
            assert lib().lds_easy_cycles(net.net) == wanted[turn]


def test_a_simulator_process_has_a_socket_for_each(tmp_path: Path) -> None:
    graph, artifact = on_two()
    with process(tmp_path, "--device", "vtaq-1x16x16 -count=2") as (_, path):
        device = open_device(f"simd:{path}")
        for _ in range(2):  # the second network finds the connection of the first
            with Easy(artifact, device) as net:
                exact(net, graph)
    with (
        process(tmp_path, "--device", "vtaq-1x16x16") as (_, path),
        pytest.raises(EasyError, match=r"^the simulator at .*\.vtaq-1x16x16\.1 does not answer"),
    ):
        Easy(artifact, f"simd:{path}")


def test_null_stands_for_all_of_them() -> None:
    graph, artifact = on_two()
    with Easy(artifact, "null") as net:
        net.run(inputs(graph), [np.zeros(t.shape, np.int8) for t in graph.outputs])


# --- what goes wrong ------------------------------------------------------------------------------
def test_a_fault_names_the_device(tmp_path: Path) -> None:
    graph, artifact = on_two()
    fault = "vtaq-1x16x16.1:bus-error@1:1"
    words = ["--device", "vtaq-1x16x16 -count=2", "--fault", fault, "--fault", "bus-error@2:1"]
    with process(tmp_path, *words) as (_, path), Easy(artifact, f"simd:{path}") as net:
        exact(net, graph)
        with pytest.raises(EasyError, match=r", device 'vtaq-1x16x16\.1', instruction \d+ \(layer"):
            exact(net, graph)
        with pytest.raises(EasyError, match=r"step '[^']*', instruction \d+ \(layer"):
            exact(net, graph)
        exact(net, graph)


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 300, "a b"])
def test_a_name_that_no_device_has_is_refused(name: str) -> None:
    with pytest.raises(EasyError, match="has a name that no device has|artifact"):
        Easy(renamed(on_two()[1], name=name))


def test_what_a_timing_file_is_not_for_is_refused(tmp_path: Path) -> None:
    name = f"sim;timing={table(tmp_path)}"
    with pytest.raises(EasyError, match=f"'{SECOND.name}' is another one"):
        Easy(branches()[1], name)
    artifact = on_two("shared")[1]
    said = json.loads(artifact.devices[1].attributes)
    other = renamed(artifact, attributes=json.dumps({**said, "bus_of": "vtaq-1x16x16.7"}))
    with pytest.raises(EasyError, match="shares the bus of another device than the first"):
        Easy(other, name)
    said.pop("bus_of")
    said["description"] = '"bus_of": "x'  # a text, and no key
    graph, _ = on_two()
    with Easy(renamed(artifact, attributes=json.dumps(said)), name) as net:
        exact(net, graph)


def test_a_device_that_no_program_is_for_is_not_looked_for(tmp_path: Path) -> None:
    graph, artifact = on_two()
    unused = replace(artifact.devices[1], name="vtaq-1x16x16.2")
    with process(tmp_path, "--device", "vtaq-1x16x16 -count=2") as (_, path):
        more = replace(artifact, devices=(*artifact.devices, unused))
        with Easy(more, f"simd:{path}") as net:
            exact(net, graph)


@pytest.fixture(scope="module")
def places(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Says where a board's further devices are looked for."""
    need("gcc", "gcc")
    library, program = library_file(), tmp_path_factory.mktemp("beside") / "beside"
    hosts = root / "runtime/hosts"
    include = [*includes(root), f"-I{root}/hw_sim/include", f"-I{hosts}/include"]
    sources = [root / "tests/hosts/beside.c", hosts / "beside.c", hosts / "device_name.c"]
    link = [str(library), f"-Wl,-rpath,{library.parent}"]
    run(["gcc", *STRICT, *SANITIZED, *include, *sources, *link, "-o", program])
    return program


@pytest.mark.parametrize(
    ("device", "name", "said"),
    [
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x16x16.1", "1 /dev/uio1\n"),
        ("uio:/dev/uio0;further=/dev/uio1,/dev/uio7", "vtaq-1x16x16.2", "1 /dev/uio7\n"),
        ("uio:/dev/uio0;further=/dev/uio1,,/dev/uio7", "vtaq-1x16x16.3", "1 /dev/uio7\n"),
        ("simd:/run/s", "vtaq-1x16x16.3", "1 /run/s.vtaq-1x16x16.3\n"),
        ("uio:/dev/uio0", "vtaq-1x16x16.1", "name the UIO devices of NAME.1, NAME.2"),
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x16x16.2", "name the UIO devices of NAME.1"),
        ("uio:/dev/uio0;further=/dev/uio1,", "vtaq-1x16x16.2", "name the UIO devices of NAME.1"),
        ("uio:/dev/uio0;further=,/dev/uio2", "vtaq-1x16x16.1", "name the UIO devices of NAME.1"),
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x16x16.0", "name the UIO devices of NAME.1"),
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x16x16.1x", "name the UIO devices of NAME.1"),
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x16x16.9" * 9, "name the UIO devices of NAME"),
        ("uio:/dev/uio0;further=/dev/uio1", "vtaq-1x8x8", "programs for 'vtaq-1x8x8', too: name"),
        ("devmem:1,2+3", "vtaq-1x16x16.1", "is one device, and the artifact has programs for"),
        ("sim;further=/dev/uio1", "vtaq-1x16x16.1", "option further=/dev/uio1 is not one of"),
        ("uio:/dev/uio0;further=", "vtaq-1x16x16.1", "option further= is not one of"),
    ],
)
def test_where_the_further_devices_of_a_board_are(
    places: Path, device: str, name: str, said: str
) -> None:
    data = renamed(on_two()[1], name=name).to_bytes()
    done = subprocess.run([places, device], input=data, capture_output=True, check=False)
    assert done.stderr == b""
    out = done.stdout.decode()
    assert (out == said, done.returncode) == (True, 0) if said[0] == "1" else said in out


def test_seventeen_are_in_no_ones_way() -> None:
    """Those that nobody uses make room; those that somebody uses do not."""
    graph, artifact = on_two()
    device = open_device("sim")
    for n in range(times(40, 200)):
        with Easy(renamed(artifact, name=f"vtaq-1x16x16.{n}"), device) as net:
            exact(net, graph)
    nets = [Easy(renamed(artifact, name=f"d{n}"), device) for n in range(16)]
    with pytest.raises(EasyError, match="has 16 further devices in use, and no more"):
        Easy(renamed(artifact, name="d16"), device)
    with Easy(renamed(artifact, name="d3"), device) as net:
        exact(net, graph)
    nets.pop(7).close()
    with Easy(renamed(artifact, name="d16"), device) as net:
        exact(net, graph)
    for net in nets:
        exact(net, graph)
        net.close()


def test_nothing_is_left() -> None:
    graph, artifact = on_two()

    def session() -> None:
        with Easy(artifact) as net:
            exact(net, graph)
        with pytest.raises(EasyError):
            Easy(renamed(artifact, name="a/b"))

    assert bytes_kept(session, 20, 3) < 20 * 64
