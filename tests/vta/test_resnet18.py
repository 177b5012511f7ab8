"""ResNet-18's convolutions on VTA as it is: ONNX Runtime's integers, inside its safe subset, free
of races, exported for RTL and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone import compiler
from loadstone.cli import main
from loadstone.frontend import onnx
from loadstone.frontend.canonical import canonical
from loadstone.numerics import Rounding
from tests.onnx_builder import run
from tests.resnet18 import LAYERS, Rounds, onnx_file

QUICK = ("C10", "C11")


@pytest.mark.parametrize("rounds", [Rounds.EVEN, Rounds.UP])
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.full) for n in LAYERS]
)
def test_a_layer_is_exact_and_its_vector_replays_without_a_race(
    name: str, rounds: Rounds, tmp_path: Path
) -> None:
    file = onnx_file(name, rounds)
    compiled = compiler.compile(canonical(onnx.from_bytes(file, f"{name}.onnx")), "vta-pynq")
    (layer,) = [o for o in compiled.graph.operators if o.kind == "conv2d"]
    assert layer.rounding is (Rounding.SINGLE if rounds is Rounds.UP else Rounding.FLOAT32)
    assert len(compiled.artifact.programs) == 1
    x = np.random.default_rng(1).integers(-128, 128, layer.input.shape).astype(np.int8)
    x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    (got,) = compiled.run(x[None])
    (want,) = run(file, [x])
    assert len(np.unique(want)) > 50
    np.testing.assert_array_equal(got[0], want)
    compiled.artifact.save(tmp_path / "layer.lds")
    assert main(["vectors", str(tmp_path / "layer.lds"), "-o", str(tmp_path / "vectors")]) == 0
    assert main(["replay", str(tmp_path / "vectors"), "--check", "races"]) == 0
