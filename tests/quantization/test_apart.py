# SPDX-License-Identifier: Apache-2.0
"""quantization/apart.py: concatenations of tensors of very different ranges keep their scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from loadstone.compiler import compile
from loadstone.frontend import onnx
from loadstone.frontend.rewrites import canonical
from loadstone.quantization.apart import FACTOR, ranges_on, with_own_scales
from loadstone.quantization.export_onnx import export_onnx
from loadstone.quantization.network import Network, Role
from loadstone.quantization.options import Options
from loadstone.quantization.pipeline import prepare, quantize_prepared
from loadstone.quantization.simulate import FakeQuantizedRunner
from tests.onnx_builder import Graph

RNG = np.random.default_rng(5)
SAMPLES = RNG.normal(0, 1, (6, 1, 3, 8, 8)).astype(np.float32)


def joined(*gains: float, alone: bool = False, at_once: bool = False) -> bytes:
    """Concatenations, one in the other, of convolutions of so different gains; one reads the whole,
    and one the last of them; alone: nothing else does that. at_once: one concatenation of all."""
    graph = Graph()
    rng = np.random.default_rng(1)
    x = graph.input((1, 3, 8, 8), np.float32)

    def conv(source: str, inputs: int, outputs: int, gain: float) -> str:
        weights = rng.normal(0, gain, (outputs, inputs, 1, 1)) / np.sqrt(inputs)
        bias = graph.constant(np.zeros(outputs), np.float32)
        made = graph.constant(weights, np.float32)
        return graph.node("Conv", source, made, bias, kernel_shape=[1, 1])

    parts = [conv(x, 3, 16, gain) for gain in gains]
    whole, last = parts[0], parts[-1]
    for more in [parts[1:]] if at_once else [[part] for part in parts[1:]]:
        whole = graph.node("Concat", whole, *more, axis=1)
    outputs = [] if alone else [(conv(last, 16, 8, 1), np.float32)]
    outputs.append((conv(whole, 16 * len(gains), 8, 1), np.float32))
    return graph.save(outputs, [(1, 8, 8, 8)] * len(outputs))


def prepared(model: bytes) -> FakeQuantizedRunner:
    return prepare(canonical(onnx.from_bytes(model, "net.onnx")))


def regrouped(*gains: float, alone: bool = False) -> tuple[Network, Network]:
    """A network before and behind."""
    from loadstone.quantization.samples import samples_from

    runner = prepared(joined(*gains, alone=alone))
    samples = samples_from({"in0": SAMPLES}, runner.network.parameters, "samples")
    return runner.network, with_own_scales(runner.network, ranges_on(runner, samples))


def roles(network: Network) -> list[Role]:
    return [layer.role for layer in network.layers if layer.kind == "concat"]


def test_tensors_of_like_ranges_share_a_scale_as_before() -> None:
    before, behind = regrouped(1.0, 1.1, 0.9)
    assert behind is before


def test_a_small_one_keeps_its_own_scale_and_the_others_share() -> None:
    before, behind = regrouped(1.0, 1.1, 0.05)
    assert roles(before) == [Role.MOVED, Role.MOVED]
    assert roles(behind) == [Role.MOVED, Role.COMPUTED]
    first, second = (layer for layer in behind.layers if layer.kind == "concat")
    groups = behind.groups
    assert len({groups[item] for item in (*first.inputs, first.output)}) == 1
    large, small = second.inputs
    assert groups[large] == groups[second.output] != groups[small]
    assert set(groups) == set(before.groups)
    assert sorted(set(groups.values())) == list(range(len(set(groups.values()))))


def test_what_only_concatenations_read_shares_their_scale() -> None:
    """It is rounded to that in any case."""
    before, behind = regrouped(1.0, 1.1, 0.05, alone=True)
    assert behind is before


@pytest.mark.parametrize(
    ("last", "shares"), [(1.0, True), (0.7, True), (0.3, False), (0.05, False)]
)
def test_what_is_like_the_whole_is_not_rounded_twice(last: float, shares: bool) -> None:
    """Of a concatenation that rounds, inputs of nearly the output's range have its scale in the
    exported file, so that their integers are moved; one of a third of it has its own."""
    model = prepared(joined(1.0, 0.7, last, at_once=True))
    made = quantize_prepared(model, {"in0": SAMPLES}, Options(equalize=False))
    graph = export_onnx(made.module, made.outputs).graph
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    (whole,) = (node for node in graph.node if node.op_type == "Concat")
    output = next(node for node in graph.node if whole.output[0] in node.input)
    ends = [*(makers[name] for name in whole.input), output]
    assert [node.op_type for node in ends] == ["DequantizeLinear"] * 3 + ["QuantizeLinear"]
    first, second, small, scale = (float(constants[node.input[1]]) for node in ends)
    assert first == second == scale
    assert small == scale if shares else small < scale / 2


def test_a_range_is_held_against_all_that_share_a_scale() -> None:
    """The last is like the whole before it, though it is unlike the first of all."""
    step = FACTOR**0.6
    _, behind = regrouped(step**2, step, 1.0)
    assert roles(behind) == [Role.MOVED, Role.COMPUTED]


@pytest.mark.parametrize("scheme", ["affine", "symmetric"])
def test_it_is_several_decibels_better(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = joined(1.0, 0.1, 0.02)
    found = []
    for factor in (FACTOR, 1e9):
        monkeypatch.setattr("loadstone.quantization.apart.FACTOR", factor)
        made = quantize_prepared(
            prepared(model), {"in0": SAMPLES}, Options(scheme=scheme, equalize=False)
        )
        found.append(made.report["output_sqnr_db"][0])
    assert found[0] > found[1] + 10


def test_powers_of_two_share_as_before() -> None:
    """Shifts cost a device no product; scales of their own would."""
    runner = prepared(joined(1.0, 0.05))
    before = runner.network
    quantize_prepared(runner, {"in0": SAMPLES}, Options(scheme="pow2"))
    assert runner.network is before
    made = quantize_prepared(runner, {"in0": SAMPLES})
    assert runner.network is before
    assert made is not None


@pytest.mark.parametrize("device", ["vtaq-1x16x16", "vta-pynq"])
def test_such_a_network_runs_on_devices_with_the_integers_of_its_file(
    device: str, tmp_path: Path
) -> None:
    from tests.bench.quantization import run_onnx

    made = quantize_prepared(prepared(joined(1.0, 0.7, 0.05, at_once=True)), {"in0": SAMPLES})
    compiled = compile(made.module, device)
    places = {row["kind"]: row["where"] for row in compiled.explain()}
    assert places["concatenate"] != "host"
    found = compiled.run(SAMPLES)[1]
    exported = export_onnx(made.module, made.outputs).SerializeToString()
    wanted = [outputs[1] for outputs in run_onnx(exported, list(SAMPLES))]
    step = np.diff(np.unique(np.stack(wanted))).min()
    assert np.abs(found.reshape(-1) - np.stack(wanted).reshape(-1)).max() <= 1.01 * step


def test_a_tensor_that_is_always_zero_shares_any_scale() -> None:
    before, behind = regrouped(1.0, 0.0, 0.9)
    assert behind is before
