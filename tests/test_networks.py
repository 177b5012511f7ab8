# SPDX-License-Identifier: Apache-2.0
"""Real networks on every device, against what their frameworks computed: a table, in the full tier.

    python -m pytest tests/test_networks.py -n 2      prints a row per network and device, at its
           end

TFLite networks equal LiteRT's reference kernels in every element. ONNX networks equal the meaning
of QDQ (docs/numerics.md) in every element of every layer; ONNX Runtime, which made their goldens in
float32, differs from that by one in rare elements, and how many these are is known for each.

`make test` runs each network on the devices that its row of NETWORKS names, `make test-all` on all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.compiler import compile
from loadstone.graph import Operator, Tensor
from loadstone.graph import reference as graph_reference
from loadstone.partition import partitioner
from loadstone.partition.eager import Partition
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden, network
from tests.races import check_races
from tests.repeat import more

DEVICES = ("vtaq-1x16x16", "vtaq-tiny", "vtaq-1x32x32", "vtaq-4x16x16")
DEFAULT = DEVICES[:1]
SAMPLES = 4
#: What every ONNX network, whose inputs and outputs are float32, leaves to the host.
EDGES = "dequantize quantize reshape softmax"


@dataclass(frozen=True)
class Known:
    """What a network is known to do.

    devices: where `make test` runs it. host: kinds of operators that may stay on the host.
    different: elements of its outputs, of four samples, that differ from the golden, at most;
    largest: by how much, in units of the output.
    """

    devices: tuple[str, ...] = DEFAULT
    host: str = ""
    different: int = 0
    largest: float = 0.0


NETWORKS = {
    "mlpt_resnet8_int8.tflite": Known(DEVICES[:3], "softmax"),
    "mlpt_vww_int8.tflite": Known(host="softmax"),
    "mlpt_kws_int8.tflite": Known(DEVICES, "softmax"),
    "mlpt_ad_int8.tflite": Known(DEVICES, ""),
    "mlpt_strww_int8.tflite": Known(("vtaq-1x16x16", "vtaq-4x16x16"), "softmax"),
    "tflm_person_detect.tflite": Known(host="softmax"),
    "tflm_micro_speech.tflite": Known(DEVICES, "reshape softmax"),
    "mlonmcu_micro_kws_m_int8.tflite": Known(host="reshape softmax"),
    "coral_mnv1_0.25_128_u8.tflite": Known(host="requantize softmax"),
    "coral_tf2_mnv2_1.0_224_ptq.tflite": Known(host="requantize softmax"),
    "coral_deeplab_mnv2_dm05.tflite": Known(host="argmax requantize resize_bilinear"),
    "tinyengine_mcunet_det_int8.tflite": Known(host="dequantize quantize"),
}
#: Largest differences are steps of the last quantization: 1/256 of a probability, a box's offset.
ONNX = {
    "mlonmcu_micro_kws_m_qdq.onnx": Known(DEVICES, EDGES, 1, 0.003922),
    "mlonmcu_micro_kws_m_qoperator.onnx": Known(DEFAULT, EDGES, 0, 0.0),
    "squeezenet_qdq_int8.onnx": Known(DEFAULT, f"{EDGES} transpose", 18, 0.01569),
    "ulfg_slim_320_qdq_int8.onnx": Known(
        DEFAULT, f"{EDGES} transpose concatenate requantize", 3938, 0.4962
    ),
}
#: Compiled in a second or two, for the quick tier.
QUICK = {
    *((file, DEVICES[0]) for file in NETWORKS if file.startswith("mlpt")),
    *(("mlpt_kws_int8.tflite", device) for device in DEVICES),
}


def everywhere(known: dict[str, Known]) -> Any:
    """Every network on every device: a parametrization."""

    def marks(file: str, device: str) -> list[pytest.MarkDecorator]:
        if (file, device) in QUICK:
            return []
        return [pytest.mark.full, *([more] if device not in known[file].devices else [])]

    pairs = [(file, device) for file in known for device in DEVICES]
    return pytest.mark.parametrize(
        ("file", "device"), [pytest.param(*pair, marks=marks(*pair)) for pair in pairs]
    )


def check_golden(shared: Path, file: str, device: str, known: Known) -> str:
    """Compiles, checks for races, runs and compares all golden outputs. The row of the table."""
    compiled = network(shared, file, device)
    check_races(compiled.artifact, load_config(device))
    inputs, wanted = golden(shared, file, SAMPLES)
    errors = [
        np.abs(got.reshape(want.shape).astype(np.float64) - want)
        for got, want in zip(compiled.run(*inputs), wanted, strict=True)
    ]
    host = {row["kind"] for row in compiled.explain() if row["where"] == "host"}
    different = sum(int(np.count_nonzero(e)) for e in errors)
    largest = max(float(e.max()) for e in errors)
    row = (
        f"{file:<36} {device:<13} {sum(e.size for e in errors):>9} {different:>7} "
        f"{largest:>8.4g}  {', '.join(sorted(host)) or 'nothing'}"
    )
    assert host <= set(known.host.split()), row
    assert different <= known.different, row
    assert largest <= known.largest, row
    return row


def test_every_network_and_every_device_has_its_turn_without_repetitions() -> None:
    rows = {**NETWORKS, **ONNX}
    assert all(set(known.devices) & set(DEVICES) for known in rows.values())
    for device in DEVICES:
        assert sum(device in known.devices for known in rows.values()) >= 5, device


@everywhere(NETWORKS)
def test_tflite_networks_equal_litert(
    shared: Path, file: str, device: str, figure: Callable[[str], None]
) -> None:
    figure(check_golden(shared, file, device, NETWORKS[file]))


@everywhere(ONNX)
def test_onnx_networks_are_exact_in_every_layer(
    shared: Path,
    file: str,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """The outputs agree with ONNX Runtime's as far as is known. Every tensor between operators,
    made an output of the network, equals graph_reference; so do the outputs of the network as it
    is."""
    figure(check_golden(shared, file, device, ONNX[file]))
    plain = network(shared, file, device)
    monkeypatch.setattr(partitioner, "partition", lambda *arguments: observed(plain.partition))
    compiled = compile(shared / "models" / file, device)
    (image,), _ = golden(shared, file, SAMPLES)
    x = np.resize(image, (compiled.artifact.samples, *image.shape[1:]))
    outputs = compiled.run(x)
    want = graph_reference.run_all(compiled.graph, [x.reshape(compiled.graph.inputs[0].shape)])
    wrong = [
        t.name
        for t, got in zip(compiled.graph.outputs, outputs, strict=True)
        if not np.array_equal(got.reshape(t.shape), want[t.name])
    ]
    figure(f"{file} {device}: {len(outputs) - len(wrong)} of {len(outputs)} layers equal")
    assert len(outputs) > len(plain.graph.outputs)
    assert not wrong
    for tensor, got in zip(plain.graph.outputs, plain.run(x), strict=True):
        np.testing.assert_array_equal(got.reshape(tensor.shape), want[tensor.name])


def observed(divided: Partition) -> Partition:
    """The same with the output of every operator as an output of the network."""

    def outputs(operators: Sequence[Operator]) -> tuple[Tensor, ...]:
        return tuple(tensor for operator in operators for tensor in operator.outputs)

    graph = replace(divided.graph, outputs=outputs(divided.graph.operators))
    segments = tuple(
        replace(segment, graph=graph, outputs=outputs(segment.operators))
        for segment in divided.segments
    )
    return replace(divided, graph=graph, segments=segments)
