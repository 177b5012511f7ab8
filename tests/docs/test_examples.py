# SPDX-License-Identifier: Apache-2.0
"""The back ends in docs/examples: real networks in a composite with VTA-Q and the host, against
LiteRT's goldens; and their size."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.lowering import with_copies
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from loadstone.ir_pass.nest_text import printed
from loadstone.runtime import device
from loadstone.runtime.accelerators import accelerators_of
from loadstone.simulator.table_profile import TableSimulator
from tests.conftest import ROOT
from tests.ir_pass.test_pipeline import convolution
from tests.repeat import more

EXAMPLES = {
    "c_library": "my-accel",
    "descriptors": "layer-engine",
    "gemmini": "gemmini",
    "systolic": "systolic",
    "word_fifo": "vector-engine",
}
#: Those with instructions of their own.
DEVICES = [ROOT / "docs/examples" / name for name in EXAMPLES if name != "c_library"]
#: The systolic array with a program that is written by hand.
BY_HAND = ROOT / "tests/backend/by_hand"
#: Lines that an example may have in Python, and in C.
MOST_LINES = {"Python": 350, "C": 150}


@pytest.mark.parametrize("folder", EXAMPLES)
def test_an_example_is_short(folder: str, figure: Callable[[str], None]) -> None:
    lines = {
        p.name: sum("SPDX-" not in line for line in p.read_text(encoding="utf-8").splitlines())
        for p in (ROOT / "docs/examples" / folder).iterdir()
        if p.is_file()
    }
    figure(f"{folder}: {sum(lines.values())} lines: {lines}")
    of = {"Python": 0, "C": 0}
    for name, count in lines.items():
        of["Python" if name.endswith(".py") else "C"] += count
    assert {language: n for language, n in of.items() if n > MOST_LINES[language]} == {}


def test_the_page_shows_a_computation_and_its_copies() -> None:
    backend = load_plugins([BY_HAND], installed=False).backends["systolic-by-hand"](
        accumulator_rows=160
    )
    operator = convolution(16, 1, 1, (16, 16))
    page = (ROOT / "docs/bring-your-own-accelerator.md").read_text(encoding="utf-8")
    for function in (
        backend.computations()["conv2d"](operator),
        with_copies(backend, operator),
    ):
        assert indent(printed(function), "    ") in page


def test_a_kernel_of_one_pixel_loads_what_it_reads() -> None:
    backend = load_plugins([BY_HAND], installed=False).backends["systolic-by-hand"]()
    whole = convolution(16, 1, 2, (8, 8))
    weights = whole.weights[:, 1:2, 1:2]
    operator = replace(whole, weights=weights, padding=(0, 0, 0, 0))
    text = printed(with_copies(backend, operator))
    assert "alloc x_chip: int8[8, 8, 1] x1x16 in scratchpad" in text
    assert "copy(x_chip[a0, a1, 0], x[16*i0 + 2*a0, 2*a1, 0]) for a0<8 a1<8" in text


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("my-accel,vtaq-1x16x16", {"my-accel": 9, "vta": 6, "host": 1}),
        ("my-accel -max_kernel=1,vtaq-1x16x16", {"my-accel": 2, "vta": 13, "host": 1}),
        ("vtaq-1x16x16,my-accel", {"vta": 15, "host": 1}),
        ("my-accel", {"my-accel": 9, "host": 7}),
        ("my-accel,vtaq-4x16x16", {"my-accel": 9, "vta": 6, "host": 1}),
    ],
)
def test_resnet8_with_the_c_library_equals_litert(
    shared: Path, tmp_path: Path, target: str, where: dict[str, int]
) -> None:
    plugins = load_plugins([ROOT / "docs/examples/c_library"])
    assert plugins.problems == []
    compiled = compile(shared / "models/mlpt_resnet8_int8.tflite", target, plugins=plugins)
    assert Counter(row["where"] for row in compiled.explain()) == where
    compiled.save(tmp_path / "resnet8.lds")
    assert Artifact.load(tmp_path / "resnet8.lds").to_bytes() == compiled.artifact.to_bytes()
    golden = np.load(shared / "models/golden/mlpt_resnet8_int8.tflite.npz")
    (got,) = compiled.run(golden["in0"][:4])
    np.testing.assert_array_equal(got, golden["out0"][:4])


def _counted(target: str, file: str, taken: dict[str, int], *marks: Any) -> Any:
    return pytest.param(target, file, taken, marks=marks, id=f"{target}-{file}")


RESNET8, KWS = "mlpt_resnet8_int8.tflite", "mlpt_kws_int8.tflite"


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "file", "taken"),
    [
        _counted("layer-engine", RESNET8, {"layer-engine": 14, "host": 2}),
        _counted("layer-engine", KWS, {"layer-engine": 11, "host": 2}, more),
        _counted("layer-engine", "mlpt_ad_int8.tflite", {"layer-engine": 10}, more),
        _counted("layer-engine,vtaq-1x16x16", RESNET8, {"layer-engine": 14, "host": 2}, more),
        _counted("layer-engine,vtaq-1x16x16", KWS, {"layer-engine": 11, "host": 2}),
        _counted(
            "vector-engine -meaning=c,systolic,vtaq-1x16x16",
            RESNET8,
            {"vector-engine": 3, "vta": 2},
        ),
        _counted("vector-engine -chunks=0", RESNET8, {"vector-engine": 3, "host": 13}, more),
        _counted("systolic", RESNET8, {"systolic": 10, "host": 6}, more),
        _counted("systolic", KWS, {"systolic": 6, "host": 7}, more),
        _counted("systolic -tokens=1", RESNET8, {"systolic": 10, "host": 6}, more),
        _counted("systolic -tokens=1", KWS, {"systolic": 6, "host": 7}, more),
        _counted("systolic,vtaq-1x16x16", RESNET8, {"systolic": 10, "vta": 5}, more),
        _counted("systolic,vtaq-1x16x16", KWS, {"systolic": 6, "vta": 6}, more),
        _counted("systolic,layer-engine", RESNET8, {"systolic": 10, "layer-engine": 4}, more),
        _counted("systolic,layer-engine,vtaq-1x16x16", KWS, {"systolic": 6, "layer-engine": 5}),
        _counted(
            "systolic -dim=8 -accumulator_rows=256 -scratchpad_rows=1024,vtaq-4x16x16",
            RESNET8,
            {"systolic": 10, "vta": 5},
            more,
        ),
    ],
)
def test_networks_on_the_examples_devices_equal_litert(
    *,
    shared: Path,
    tmp_path: Path,
    target: str,
    file: str,
    taken: dict[str, int],
    figure: Callable[[str], None],
) -> None:
    """Compiled, saved, read again, run by the C runtime on the simulators."""
    plugins = load_plugins(DEVICES)
    assert plugins.problems == []
    compiled = compile(shared / "models" / file, target, plugins=plugins)
    where = Counter(row["where"] for row in compiled.explain())
    assert {name: where[name] for name in taken} == taken
    compiled.save(tmp_path / "model.lds")
    artifact = Artifact.load(tmp_path / "model.lds")
    golden = np.load(shared / f"models/golden/{file}.npz")
    with device.open("sim") as opened, opened.load(artifact) as session:
        batch = session.inputs[0].shape[0]
        for k in (0, batch):
            session.inputs[0][...] = golden["in0"][k : k + batch].reshape(session.inputs[0].shape)
            session.execute()
            want = golden["out0"][k : k + batch]
            np.testing.assert_array_equal(session.outputs[0].reshape(want.shape), want)
    cycles: Counter[str] = Counter()
    busy: Counter[tuple[str, str]] = Counter()
    for one in TableSimulator(accelerators_of(artifact)).runs(artifact):
        cycles[one.device] += one.cycles
        busy.update({(one.device, unit): n for unit, n in one.run.busy_cycles.items()})
    units = {f"{name} {unit}": f"{n / cycles[name]:.0%}" for (name, unit), n in busy.items()}
    figure(f"{file} on {target}: {dict(cycles)} cycles, units busy {units}")


@pytest.mark.full
@more
@pytest.mark.parametrize(
    ("name", "file"),
    [
        *((name, file) for name in ("systolic", "layer-engine") for file in (RESNET8, KWS)),
        ("vector-engine", RESNET8),
    ],
)
def test_networks_in_the_simulator_process(
    shared: Path, tmp_path: Path, name: str, file: str
) -> None:
    """`loadstone simd` serves the example's device to this process."""
    folder = ROOT / "docs/examples" / next(key for key, value in EXAMPLES.items() if value == name)
    artifact = compile(shared / "models" / file, name, plugins=load_plugins([folder])).artifact
    golden, socket = np.load(shared / f"models/golden/{file}.npz"), tmp_path / "simd"
    serve: list[str | Path] = [sys.executable, "-m", "loadstone", "simd", socket, "--device", name]
    with subprocess.Popen(
        [*serve, "--clients", "1", "--uma-backends", folder], stdout=subprocess.PIPE, text=True
    ) as simulator:
        try:
            assert simulator.stdout is not None
            assert simulator.stdout.readline()
            with device.open(f"simd:{socket}") as opened, opened.load(artifact) as session:
                session.inputs[0][...] = golden["in0"][0]
                session.execute()
                got, want = session.outputs[0].copy(), golden["out0"][0]
        finally:
            simulator.kill()
    np.testing.assert_array_equal(got.reshape(want.shape), want)


def test_an_onnx_network_with_the_descriptor_device_equals_vta(shared: Path) -> None:
    """Its golden is ONNX Runtime's, which differs from the meaning of QDQ in rare elements."""
    plugins = load_plugins([ROOT / "docs/examples/descriptors"])
    file = shared / "models/mlonmcu_micro_kws_m_qdq.onnx"
    compiled = compile(file, "layer-engine,vtaq-1x16x16", plugins=plugins)
    assert [row["where"] for row in compiled.explain()].count("layer-engine") > 5
    x = np.load(shared / f"models/golden/{file.name}.npz")["in0"][:4]
    np.testing.assert_array_equal(compiled.run(x)[0], compile(file, "vtaq-1x16x16").run(x)[0])
