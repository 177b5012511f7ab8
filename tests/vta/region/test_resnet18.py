# SPDX-License-Identifier: Apache-2.0
"""ResNet-18's convolutions on VTA as it is: ONNX Runtime's integers, inside its safe subset, free
of races, exported for RTL and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from loadstone import compiler
from loadstone import graph as g
from loadstone.cli import main
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.numerics import Rounding
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests.onnx_builder import Graph, run
from tests.repeat import more
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
    replays(compiled, tmp_path)


@pytest.mark.parametrize("name", [n if n == "C4" else pytest.param(n, marks=more) for n in LAYERS])
def test_a_layer_of_any_scale_is_exact(name: str, tmp_path: Path) -> None:
    """ONNX Runtime sums this file in float32, so what QLinearConv does of the same integers is
    asked: exact sums, one product in float32, ties to even."""
    file = onnx_file(name, Rounds.ANY)
    compiled = compiler.compile(canonical(onnx.from_bytes(file, f"{name}.onnx")), "vta-pynq")
    (layer,) = [o for o in compiled.graph.operators if o.kind == "conv2d"]
    assert isinstance(layer, g.Conv2D)
    assert layer.rounding is Rounding.FLOAT32
    assert len(compiled.artifact.programs) == 1
    x = np.random.default_rng(1).integers(-128, 128, layer.input.shape).astype(np.int8)
    x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    (got,) = compiled.run(x[None])
    (want,) = run(integer_file(layer), [x])
    assert len(np.unique(got)) > 50
    np.testing.assert_array_equal(got[0], np.maximum(want, 0))
    replays(compiled, tmp_path)


def test_a_window_in_one_kernel_loads_its_input_once() -> None:
    """953,552 cycles where each of the four blocks of channels had a kernel of its own."""
    compiled = compiler.compile(
        canonical(onnx.from_bytes(onnx_file("C2", Rounds.ANY), "C2.onnx")), "vta-pynq"
    )
    assert program_cycles(compiled.artifact, load_config("vta-pynq")) == [910_231]


def integer_file(layer: g.Conv2D) -> bytes:
    """The layer without its ReLU, as QLinearConv."""
    _, height, width, channels = layer.input.shape
    graph = Graph()

    def scale(value: object) -> str:
        return graph.constant(np.asarray(value), np.float32)

    operands = [graph.input((1, channels, height, width), np.int8)]
    operands += [scale(layer.input.scale), graph.constant(np.asarray(0), np.int8)]
    operands += [graph.constant(layer.weights.transpose(0, 3, 1, 2), np.int8)]
    operands += [scale(layer.weight_scales), graph.constant(layer.weight_zero_points, np.int8)]
    operands += [scale(layer.output.scale), graph.constant(np.asarray(0), np.int8)]
    operands += [graph.constant(layer.bias, np.int32)]
    pads, strides = list(layer.padding), list(layer.strides)
    out = graph.node("QLinearConv", *operands, pads=pads, strides=strides)
    return graph.save([(out, np.int8)])


def replays(compiled: compiler.Compiled, tmp_path: Path) -> None:
    """The program as a vector for RTL, on the simulator, with races looked for."""
    compiled.artifact.save(tmp_path / "layer.lds")
    assert main(["vectors", str(tmp_path / "layer.lds"), "-o", str(tmp_path / "vectors")]) == 0
    assert main(["replay", str(tmp_path / "vectors"), "--check", "races"]) == 0
