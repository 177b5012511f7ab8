"""The back ends in docs/examples: real networks in a composite with VTA-Q and the host, against LiteRT's goldens; and their size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import Artifact
from loadstone.compiler import compile
from loadstone.plugins import load_plugins
from tests.conftest import ROOT

EXAMPLES = {"c_library": "my-accel"}
MOST_LINES = 300


@pytest.mark.parametrize("folder", EXAMPLES)
def test_an_example_is_short(folder: str) -> None:
    lines = {p.name: len(p.read_text(encoding="utf-8").splitlines()) for p in (ROOT / "docs/examples" / folder).iterdir() if p.is_file()}
    print(f"{folder}: {sum(lines.values())} lines: {lines}")
    assert sum(lines.values()) <= MOST_LINES


@pytest.mark.parametrize(
    ("target", "where"),
    [
        ("my-accel,vtaq-1x16x16", {"my-accel": 9, "vta": 6, "host": 1}),
        ("my-accel -max_kernel=1,vtaq-1x16x16", {"my-accel": 2, "vta": 13, "host": 1}),
        ("vtaq-1x16x16,my-accel", {"vta": 15, "host": 1}),
        ("my-accel", {"my-accel": 9, "host": 7}),
    ],
)
def test_resnet8_with_the_c_library_equals_litert(shared: Path, tmp_path: Path, target: str, where: dict[str, int]) -> None:
    plugins = load_plugins([ROOT / "docs/examples/c_library"])
    assert plugins.problems == []
    compiled = compile(shared / "models/mlpt_resnet8_int8.tflite", target, plugins=plugins)
    assert Counter(row["where"] for row in compiled.explain()) == where
    compiled.save(tmp_path / "resnet8.lds")
    assert Artifact.load(tmp_path / "resnet8.lds").to_bytes() == compiled.artifact.to_bytes()
    golden = np.load(shared / "models/golden/mlpt_resnet8_int8.tflite.npz")
    (got,) = compiled.run(golden["in0"][:4])
    np.testing.assert_array_equal(got, golden["out0"][:4])
