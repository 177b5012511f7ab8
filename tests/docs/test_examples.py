"""The back ends in docs/examples: real networks in a composite with VTA-Q and the host, against
LiteRT's goldens; and their size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from tests.conftest import ROOT

EXAMPLES = {"c_library": "my-accel", "descriptors": "layer-engine", "systolic": "systolic"}
#: Lines that an example may have in Python, and in C.
MOST_LINES = {"Python": 350, "C": 150}


@pytest.mark.parametrize("folder", EXAMPLES)
def test_an_example_is_short(folder: str, figure: Callable[[str], None]) -> None:
    lines = {
        p.name: len(p.read_text(encoding="utf-8").splitlines())
        for p in (ROOT / "docs/examples" / folder).iterdir()
        if p.is_file()
    }
    figure(f"{folder}: {sum(lines.values())} lines: {lines}")
    of = {"Python": 0, "C": 0}
    for name, count in lines.items():
        of["Python" if name.endswith(".py") else "C"] += count
    assert {language: n for language, n in of.items() if n > MOST_LINES[language]} == {}


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


@pytest.mark.full
@pytest.mark.parametrize(
    ("file", "target", "taken"),
    [
        ("mlpt_resnet8_int8.tflite", "systolic,vtaq-1x16x16", 9),
        (
            "mlpt_resnet8_int8.tflite",
            "systolic -dim=8 -accumulator_rows=256 -scratchpad_rows=1024,vtaq-4x16x16",
            9,
        ),
        ("mlpt_kws_int8.tflite", "systolic,vtaq-1x16x16", 5),
    ],
)
def test_networks_with_the_systolic_array_equal_litert(
    shared: Path, file: str, target: str, taken: int
) -> None:
    plugins = load_plugins([ROOT / "docs/examples/systolic"])
    assert plugins.problems == []
    compiled = compile(shared / "models" / file, target, plugins=plugins)
    assert [row["where"] for row in compiled.explain()].count("systolic") == taken
    golden = np.load(shared / "models/golden" / f"{file}.npz")
    (got,) = compiled.run(golden["in0"][:4])
    np.testing.assert_array_equal(got.reshape(golden["out0"][:4].shape), golden["out0"][:4])


@pytest.mark.parametrize(
    "file", ["mlpt_ad_int8.tflite", "mlpt_kws_int8.tflite", "mlonmcu_micro_kws_m_qdq.onnx"]
)
def test_networks_with_the_descriptor_device_equal_vta_and_litert(shared: Path, file: str) -> None:
    """The ONNX network's golden is ONNX Runtime's, which differs from the meaning of QDQ in rare
    elements: compared with VTA alone."""
    plugins = load_plugins([ROOT / "docs/examples/descriptors"])
    assert plugins.problems == []
    compiled = compile(shared / "models" / file, "layer-engine,vtaq-1x16x16", plugins=plugins)
    taken = [row for row in compiled.explain() if row["where"] == "layer-engine"]
    assert taken
    assert [row["kind"] for row in taken] == ["dense"] * len(taken)
    golden = np.load(shared / "models/golden" / f"{file}.npz")
    x = golden["in0"][:4]
    (got,) = compiled.run(x)
    np.testing.assert_array_equal(got, compile(shared / "models" / file, "vtaq-1x16x16").run(x)[0])
    if file.endswith(".tflite"):
        np.testing.assert_array_equal(got.reshape(golden["out0"][:4].shape), golden["out0"][:4])
