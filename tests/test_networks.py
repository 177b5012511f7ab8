"""Real networks on every device, against what their frameworks computed: a table, in the full tier.

    python -m pytest tests/test_networks.py -n 2      prints a row per network and device, at its
           end

TFLite networks equal LiteRT's reference kernels in every element. ONNX networks equal the meaning
of QDQ (docs/numerics.md) in every element of every layer; ONNX Runtime, which made their goldens in
float32, differs from that by one in rare elements, and how often is printed. So is the agreement of
two networks whose last operators have no integer meaning.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone import compiler
from loadstone.compiler import Compiled, compile
from loadstone.graph import Operator, Tensor
from loadstone.graph import reference as graph_reference
from loadstone.partition.eager import Partition, partition
from loadstone.vta.hw_config import load_config
from tests.races import check_races

Array = NDArray[Any]
DEVICES = ("vtaq-1x16x16", "vtaq-tiny", "vtaq-1x32x32", "vtaq-4x16x16")
EXACT = (
    "mlpt_resnet8_int8.tflite",
    "mlpt_vww_int8.tflite",
    "mlpt_kws_int8.tflite",
    "mlpt_ad_int8.tflite",
    "mlpt_strww_int8.tflite",
    "tflm_person_detect.tflite",
    "tflm_micro_speech.tflite",
    "mlonmcu_micro_kws_m_int8.tflite",
    "coral_mnv1_0.25_128_u8.tflite",
    "coral_tf2_mnv2_1.0_224_ptq.tflite",
)
ONNX = (
    "mlonmcu_micro_kws_m_qdq.onnx",
    "mlonmcu_micro_kws_m_qoperator.onnx",
    "squeezenet_qdq_int8.onnx",
    "ulfg_slim_320_qdq_int8.onnx",
)
AGREEING = ("coral_deeplab_mnv2_dm05.tflite", "tinyengine_mcunet_det_int8.tflite", *ONNX)


@dataclass
class Row:
    """One network on one device."""

    network: str
    device: str
    elements: int
    different: int
    largest: float
    on_host: list[str]

    def __str__(self) -> str:
        host = ", ".join(sorted(set(self.on_host))) or "nothing"
        return (
            f"{self.network:<36} {self.device:<13} {self.elements:>9} {self.different:>7} "
            f"{self.largest:>8.4g}  {host}"
        )


def compared(shared: Path, file: str, device: str, samples: int) -> tuple[Row, Compiled]:
    """Compiles, checks for races, runs and compares all golden outputs."""
    compiled = compile(shared / "models" / file, device)
    check_races(compiled.artifact, load_config(device))
    data = np.load(shared / "models" / "golden" / f"{file}.npz")
    inputs = [data[f"in{k}"][:samples] for k in range(sum(n.startswith("in") for n in data.files))]
    outputs = compiled.run(*inputs)
    wanted = [data[f"out{k}"][: len(inputs[0])] for k in range(len(outputs))]
    errors = [
        np.abs(got.reshape(want.shape).astype(np.float64) - want)
        for got, want in zip(outputs, wanted, strict=True)
    ]
    on_host = [row["kind"] for row in compiled.explain() if row["where"] == "host"]
    different = sum(int(np.count_nonzero(e)) for e in errors)
    return Row(
        file,
        device,
        sum(e.size for e in errors),
        different,
        max(float(e.max()) for e in errors),
        on_host,
    ), compiled


@pytest.mark.full
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", EXACT)
def test_tflite_networks_equal_litert(
    shared: Path, file: str, device: str, figure: Callable[[str], None]
) -> None:
    row, _ = compared(shared, file, device, 4)
    figure(str(row))
    assert row.different == 0


@pytest.mark.full
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", AGREEING)
def test_other_networks_agree_with_their_goldens(
    shared: Path, file: str, device: str, figure: Callable[[str], None]
) -> None:
    heavy = device == "vtaq-tiny" and file == "coral_deeplab_mnv2_dm05.tflite"
    if heavy and not os.environ.get("LOADSTONE_HEAVY"):
        pytest.skip(
            "867 million multiplications, 16 at a time, take minutes: LOADSTONE_HEAVY=1 runs them"
        )
    row, _ = compared(shared, file, device, 1 if heavy else 4)
    figure(str(row))
    assert row.different < row.elements / 4


@pytest.mark.full
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("file", ONNX)
def test_every_layer_of_onnx_networks_is_exact(
    shared: Path,
    file: str,
    device: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """Every tensor between operators, made an output of the network, equals graph_reference; so do
    the outputs of the network as it is."""
    plain = compile(shared / "models" / file, device)
    monkeypatch.setattr(compiler, "partition", lambda *arguments: observed(partition(*arguments)))
    compiled = compile(shared / "models" / file, device)
    golden = np.load(shared / "models" / "golden" / f"{file}.npz")
    x = np.resize(golden["in0"], (compiled.artifact.samples, *golden["in0"].shape[1:]))
    outputs = compiled.run(x)
    want = graph_reference.run_all(compiled.graph, [x.reshape(compiled.graph.inputs[0].shape)])
    wrong = [
        t.name
        for t, got in zip(compiled.graph.outputs, outputs, strict=True)
        if not np.array_equal(got.reshape(t.shape), want[t.name])
    ]
    figure(f"{file} {device}: {len(outputs) - len(wrong)} of {len(outputs)} layers equal")
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
