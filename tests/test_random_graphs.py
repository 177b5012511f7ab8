# SPDX-License-Identifier: Apache-2.0
"""Random networks through the whole way (file, compiler, artifact, C runtime, simulator) equal
LiteRT and ONNX Runtime exactly.

Every network is numbered; a failure names the number, and `python -m tests.test_random_graphs
tflite 1234 vtaq-tiny` runs it alone. Devices take turns. Besides the integers, every program of
every artifact is checked for races and uninitialised reads, and the C validator passes it (a
session opens in no other way).

The quick tier divides twenty networks at random, `make test` runs a hundred, `make
test-all` as many others as LOADSTONE_RANDOM_GRAPHS says: 5000 take ten minutes.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import Compiled, compile
from loadstone.partition.cost.prices import CostTable
from loadstone.vta.device.hw_config import load_config
from tests import onnx_builder, random_onnx, random_tflite, tflite_builder
from tests.races import check_races
from tests.repeat import more, times

FORMATS = ("tflite", "onnx")
#: Device number k gets the networks k, k + 8, ...: the default device half of them.
TURNS = (
    "vtaq-1x16x16",
    "vtaq-1x16x16",
    "vtaq-1x16x16",
    "vtaq-1x16x16",
    "vtaq-tiny",
    "vtaq-tiny",
    "vtaq-1x32x32",
    "vtaq-4x16x16",
)
FEW, MORE = times(100, 160), 800
#: Networks divided at random.
PARTITIONS = int(os.environ.get("LOADSTONE_RANDOM_PARTITIONS", "20"))


def device_of(seed: int) -> str:
    return TURNS[
        seed // 2 % len(TURNS)
    ]  # odd seeds are single operators: both kinds for every device


def check(kind: str, seed: int, device: str, folder: Path, strategy: str = "eager") -> Compiled:
    """Compiles and runs network `seed`; raises AssertionError where an element differs, or what the
    compiler raises."""
    config = load_config(device)
    network = random_tflite.network(seed) if kind == "tflite" else random_onnx.network(seed)
    path = folder / f"random{seed}.{kind}"
    path.write_bytes(network.model)
    compiled = compile(path, config, strategy=strategy)
    path.unlink()
    check_races(compiled.artifact, config)
    inputs = network.draw_inputs(seed, config.batch)
    outputs = compiled.run(*inputs)
    for sample in range(config.batch):
        for got, want in zip(outputs, reference(network, [x[sample] for x in inputs]), strict=True):
            different = np.count_nonzero(got[sample].reshape(want.shape) != want)
            assert not different, f"{different} of {want.size} elements differ"
            assert got.dtype == want.dtype
    return compiled


def reference(
    network: random_tflite.Network | random_onnx.Network, inputs: list[NDArray[Any]]
) -> list[NDArray[Any]]:
    if isinstance(network, random_onnx.Network):
        return onnx_builder.run(network.reference, inputs)
    return tflite_builder.run(network.model, inputs)


def run_many(
    kind: str,
    first: int,
    count: int,
    folder: Path,
    figure: Callable[[str], None],
    strategy: str = "eager",
) -> Counter[str]:
    """`count` networks from number `first`. Operators by kind and place; all failures are gathered
    before they are raised."""
    places: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + count):
        try:
            compiled = check(kind, seed, device_of(seed), folder, strategy)
        except Exception as error:
            line = (str(error).splitlines() or [""])[0]
            failures.append(
                f"{kind} {seed} {device_of(seed)}: {type(error).__name__}: {line[:200]}"
            )
        else:
            places.update(
                f"{row['kind']} {'on host' if row['where'] == 'host' else 'on device'}"
                for row in compiled.explain()
            )
    figure(
        f"{count - len(failures)} of {count} {kind} networks equal; operators: "
        f"{dict(sorted(places.items()))}"
    )
    assert not failures, f"{len(failures)} of {count} networks:\n" + "\n".join(failures[:50])
    return places


@pytest.mark.full
@pytest.mark.parametrize("kind", FORMATS)
def test_random_networks_are_exact(
    kind: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    places = run_many(kind, 0, FEW // len(FORMATS), tmp_path, figure)
    drawn = {entry.split()[0] for entry in places}
    wanted = {
        "conv2d",
        "dense",
        "add",
        "sub",
        "mul",
        "average_pool2d",
        "max_pool2d",
        "mean",
        "concatenate",
        "slice",
        "pad",
        "reshape",
    }
    assert drawn >= wanted | {"requantize", "resize_nearest", "resize_bilinear"}


@pytest.mark.full
@pytest.mark.parametrize("kind", FORMATS)
def test_random_networks_are_exact_without_a_multiplier(
    kind: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    """VTA as it is, between any scales: in strict mode, which refuses what the hardware cannot."""
    places: Counter[str] = Counter()
    for seed in range(240, 240 + times(5, 400)):
        compiled = check(kind, seed, "vta-pynq", tmp_path)
        places.update(row["kind"] for row in compiled.explain() if row["where"] != "host")
    figure(f"{kind} on vta-pynq: {dict(sorted(places.items()))}")
    assert places


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("onnx", 800076),  # the network was not drawn: its biases are less than one
        (
            "onnx",
            800576,
        ),  # with columns folded, no form is proven for one convolution
    ],
)
def test_networks_that_stopped_a_campaign_are_exact(kind: str, seed: int, tmp_path: Path) -> None:
    check(kind, seed, "vta-pynq", tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
def test_random_partitions_are_exact(
    kind: str, tmp_path: Path, figure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition by cost, at prices of the host that mean nothing: some operators of a kind go
    to the device and some do not."""
    monkeypatch.setattr(
        CostTable,
        "_measured_ns",
        lambda self, step, artifact: 10 ** (zlib.crc32(step.name.encode()) % 6),
    )
    places = run_many(kind, 0, PARTITIONS // len(FORMATS), tmp_path, figure, "cost")
    assert (
        sum(
            count
            for entry, count in places.items()
            if entry in ("conv2d on host", "add on host", "dense on host")
        )
        > 0
    )
    assert sum(count for entry, count in places.items() if entry.endswith("on device")) > 0


@pytest.mark.full
@more
@pytest.mark.parametrize("kind", FORMATS)
def test_more_random_networks_are_exact(
    kind: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    run_many(
        kind,
        FEW // len(FORMATS),
        int(os.environ.get("LOADSTONE_RANDOM_GRAPHS", MORE)) // len(FORMATS),
        tmp_path,
        figure,
    )


def test_numbers_are_networks() -> None:
    """The same number gives the same file: what failed can be looked at."""
    assert random_tflite.network(6).model == random_tflite.network(6).model
    assert random_onnx.network(6).model == random_onnx.network(6).model


if __name__ == "__main__":
    print(check(sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(".")).graph.describe())
