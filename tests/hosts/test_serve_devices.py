# SPDX-License-Identifier: Apache-2.0
"""runtime/hosts/serve.c with networks of several devices: a block has all of them, and who dies or
fails on the second one is noticed by nobody else."""

from __future__ import annotations

import contextlib
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis.bounds import SharedNetwork, blocks_of, bound
from loadstone.artifact.format import Artifact
from loadstone.compiler import compile
from loadstone.library.native import lib
from loadstone.simulator.programs import program_runs
from tests.analysis.test_bounds import SLOW
from tests.further import FIRST
from tests.hosts.easy import Easy, EasyError
from tests.hosts.serving import nonsense, serving
from tests.hosts.test_beside import exact, on_two, renamed, table
from tests.hosts.test_serve import alone, begin, client, found
from tests.repeat import times
from tests.simd_client import process

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")


@cache
def networks(shared: Path, bus: str) -> tuple[tuple[Artifact, Artifact], ...]:
    """Keywords and ResNet8: for two devices, and the same for one of them."""
    target = f"{FIRST.name} -count=2 -bus={bus}"
    files = [shared / f"models/mlpt_{name}_int8.tflite" for name in ("kws", "resnet8")]
    return tuple(
        tuple(compile(file, to, switch_cycles=30_000).artifact for to in (target, FIRST.name))  # type: ignore[misc]
        for file in files
    )


def test_clients_of_several_devices_have_the_outputs_of_one(shared: Path, tmp_path: Path) -> None:
    """With a bus each, with one, and on one device; of two clients more one is killed in a run."""
    runs = times(20, 1000)
    (kws, kws_alone), (resnet, resnet_alone) = networks(shared, "private")
    given = [kws, networks(shared, "shared")[1][0], resnet_alone, resnet]
    wanted = [kws_alone, resnet_alone, resnet_alone]
    for n, model in enumerate(given):
        model.save(tmp_path / f"{n}.lds")
    with serving(tmp_path) as served, contextlib.ExitStack() as ends:
        children = [
            ends.enter_context(client(served.name(priority=n), tmp_path / f"{n}.lds", count, n + 1))
            for n, count in enumerate((runs, runs, runs, 10**9))
        ]
        begin(*children)
        nonsense(served.path, times(40, 2000), on_two()[1])
        children[3].kill()
        for n, model in enumerate(wanted):
            assert found(children[n]) == {"failed": {}, "digest": alone(model, runs, n + 1, {})}
        counts = served.end()
    assert counts["networks"] == 4
    assert counts["runs"] >= 3 * runs
    assert counts["failures"] <= 1  # the run of the one that was killed


@pytest.mark.parametrize("kind", ["bus-error", "hang"])
def test_a_fault_of_the_second_device_is_of_whom_it_happens_to(
    shared: Path, tmp_path: Path, kind: str
) -> None:
    (kws, kws_alone), (_, resnet_alone) = networks(shared, "private")
    faults = 3 if kind == "hang" else times(10, 300)
    kws.save(tmp_path / "0.lds")
    resnet_alone.save(tmp_path / "1.lds")
    words = ["--device", "vtaq-1x16x16 -count=2"]
    for n in range(faults):
        words += ["--fault", f"vtaq-1x16x16.1:{kind}@{9 * n + 1}:1"]
    (tmp_path / "simd").mkdir()
    with process(tmp_path / "simd", *words) as (_, path):
        options = ";hang_ms=100" if kind == "hang" else ""
        with serving(tmp_path, f"simd:{path}{options}") as served, contextlib.ExitStack() as ends:
            runs = 3 * faults + 20
            children = [
                ends.enter_context(client(served.name(priority=n), tmp_path / f"{n}.lds", runs, n))
                for n in range(2)
            ]
            begin(*children)
            first, second = map(found, children)
            counts = served.end()
    assert counts["failures"] == faults == len(first["failed"])
    assert all(", device 'vtaq-1x16x16.1'" in line for line in first["failed"].values())
    assert first["digest"] == alone(kws_alone, runs, 0, first["failed"])
    assert second == {"failed": {}, "digest": alone(resnet_alone, runs, 1, {})}


def test_what_the_server_does_not_have_is_refused(tmp_path: Path) -> None:
    graph, artifact = on_two()
    (tmp_path / "simd").mkdir()
    with (
        process(tmp_path / "simd", "--device", "vtaq-1x16x16 -count=2") as (_, path),
        serving(tmp_path, f"simd:{path}") as served,
    ):
        with pytest.raises(EasyError, match=r"vtaq-1x16x16\.2 does not answer: start `loadstone"):
            Easy(renamed(artifact, name="vtaq-1x16x16.2"), served.name())
        with pytest.raises(EasyError, match="has a name that no device has"):
            Easy(renamed(artifact, name="../vtaq"), served.name())
        for _ in range(2):
            with Easy(artifact, served.name()) as net:
                exact(net, graph)
        assert served.end()["refused"] == 2


@pytest.mark.parametrize("bus", ["private", "shared"])
def test_responses_are_within_their_bounds(shared: Path, tmp_path: Path, bus: str) -> None:
    """In cycles of the device: both ask once, at any time, and neither again before both ended."""
    artifacts = [pair[0] for pair in networks(shared, bus)]
    blocks = [blocks_of(artifact, SLOW, None, 0) for artifact in artifacts]
    least = sum(map(sum, blocks)) * 5
    said = bound(
        [SharedNetwork(a, b, least, least) for a, b in zip(artifacts, blocks, strict=True)]
    )
    worst = [0, 0]

    def run(n: int, net: Easy, delay: float) -> None:
        shapes = [
            artifacts[n].tensors[i].shape for i in (artifacts[n].inputs[0], artifacts[n].outputs[0])
        ]
        threading.Event().wait(delay)
        net.run([np.ones(shapes[0], np.int8)], [np.zeros(shapes[1], np.int8)])
        worst[n] = max(worst[n], lib().lds_easy_response_cycles(net.net))

    rng = np.random.default_rng(7)
    with serving(tmp_path, f"sim;timing={table(tmp_path, SLOW)}") as served:
        nets = [Easy(a, served.name(priority=9 - n)) for n, a in enumerate(artifacts)]
        for _ in range(times(60, 3000)):
            threads = [
                threading.Thread(target=run, args=(n, net, rng.uniform(0, 0.006) * (n == 0)))
                for n, net in enumerate(nets)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for net in nets:
            net.close()
        assert served.end()["failures"] == 0
    assert said.schedulable
    for seen, most, own in zip(worst, said.responses, map(sum, blocks), strict=True):
        assert most is not None
        assert own < seen <= most  # each waited for the other one


def test_a_bus_is_shared_while_the_first_device_works(shared: Path, tmp_path: Path) -> None:
    """A client comes again and again to the bus of a device that has programs of another one."""
    (kws, _), (_, resnet) = networks(shared, "shared")
    wanted = sum(one.cycles for one in program_runs(kws, FIRST).values())
    with serving(tmp_path, f"sim;timing={table(tmp_path)}") as served:
        resnet.save(tmp_path / "1.lds")
        with client(served.name(), tmp_path / "1.lds", 10**9, 1) as other:
            begin(other)
            for _ in range(times(10, 300)):
                with Easy(kws, served.name(priority=1)) as net:
                    x, y = (
                        np.zeros(kws.tensors[i].shape, np.int8)
                        for i in (kws.inputs[0], kws.outputs[0])
                    )
                    net.run([x], [y])
                    assert lib().lds_easy_cycles(net.net) == wanted
        assert served.end()["failures"] <= 1
