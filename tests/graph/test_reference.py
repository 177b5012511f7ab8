# SPDX-License-Identifier: Apache-2.0
"""graph/reference.py: import and extraction are exact, before there is any device code.

Every network of shared/models runs in NumPy from its dataclasses and is compared with its golden
outputs, element by element.
TFLite networks are equal, all of them. ONNX networks mean integer kernels with float32 rounding
(docs/numerics.md), the goldens are float convolutions between quantize and dequantize: the elements
that differ are counted, printed and bounded.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone import graph as g
from loadstone.errors import LoweringError
from loadstone.frontend import load
from loadstone.graph.reference import run, run_all, run_operator
from loadstone.numerics import Rounding
from loadstone.partition.eager import partition
from tests.repeat import more, times

SMALL = (
    *(
        "mlpt_resnet8_int8.tflite",
        "mlpt_vww_int8.tflite",
        "mlpt_kws_int8.tflite",
        "mlpt_ad_int8.tflite",
        "mlpt_strww_int8.tflite",
    ),
    *(
        "tflm_person_detect.tflite",
        "tflm_micro_speech.tflite",
        "mlonmcu_micro_kws_m_int8.tflite",
        "coral_mnv1_0.25_128_u8.tflite",
    ),
    "tinyengine_mcunet_det_int8.tflite",
)
#: More samples than any golden has.
EVERY = 1 << 30
LARGE = ("coral_tf2_mnv2_1.0_224_ptq.tflite", "coral_deeplab_mnv2_dm05.tflite")
#: ONNX network -> (largest share of elements that may differ, largest difference), of what was
#: measured and printed.
ONNX = {
    "mlonmcu_micro_kws_m_qdq.onnx": (2 / 80, 1 / 255),
    "mlonmcu_micro_kws_m_qoperator.onnx": (0, 0),
    "squeezenet_qdq_int8.onnx": (0.01, 4.1 / 255),
    "ulfg_slim_320_qdq_int8.onnx": (0.1, 0.5),
}


def network(shared: Path, file: str) -> g.Graph:
    return partition(load(shared / "models" / file), [], file).graph


def compared(shared: Path, file: str, samples: int) -> tuple[int, int, float]:
    """(elements, different, largest difference) over the goldens of one network, the real images
    included."""
    graph = network(shared, file)
    elements = different = 0
    largest = 0.0
    for golden in sorted((shared / "models" / "golden").glob(f"{file}*.npz")):
        data = np.load(golden)
        for sample in range(min(len(data["in0"]), samples)):
            inputs = [
                data[f"in{k}"][sample].reshape(tensor.shape)
                for k, tensor in enumerate(graph.inputs)
            ]
            for k, got in enumerate(run(graph, inputs)):
                want = data[f"out{k}"][sample].reshape(got.shape)
                assert got.dtype == want.dtype
                difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
                elements += difference.size
                different += int(np.count_nonzero(difference))
                largest = max(largest, float(difference.max()))
    print(
        f"{file}: {elements} elements compared, {different} different, largest difference "
        f"{largest:.6g}"
    )
    return elements, different, largest


@pytest.mark.parametrize("file", SMALL)
def test_tflite_networks_give_litert_s_integers(shared: Path, file: str) -> None:
    elements, different, _ = compared(shared, file, 1)
    assert elements > 0
    assert different == 0


@pytest.mark.full
@pytest.mark.parametrize("file", [*(pytest.param(file, marks=more) for file in SMALL), *LARGE])
def test_tflite_networks_give_litert_s_integers_on_every_sample(shared: Path, file: str) -> None:
    elements, different, _ = compared(shared, file, times(1, EVERY))
    assert elements > 0
    assert different == 0


@pytest.mark.parametrize(
    "file", [file if "kws" in file else pytest.param(file, marks=pytest.mark.full) for file in ONNX]
)
def test_onnx_networks_come_near_their_float_goldens(shared: Path, file: str) -> None:
    elements, different, largest = compared(shared, file, times(4, EVERY))
    share, difference = ONNX[file]
    assert different <= share * elements
    assert largest <= difference + 1e-6


def test_a_spoiled_weight_is_seen(shared: Path) -> None:
    """The comparison above can fail: one weight of one channel changes the outputs."""
    graph = network(shared, "mlpt_kws_int8.tflite")
    first = graph.operators[0]
    assert isinstance(first, g.Conv2D)
    spoiled = first.weights.copy()
    spoiled[0] += 1
    changed = replace(graph, operators=(replace(first, weights=spoiled), *graph.operators[1:]))
    data = np.load(shared / "models" / "golden" / "mlpt_kws_int8.tflite.npz")
    wrong = [
        np.any(run(changed, [x.reshape(graph.inputs[0].shape)])[0] != y)
        for x, y in zip(data["in0"], data["out0"], strict=True)
    ]
    assert any(wrong)


def test_every_tensor_of_a_run_has_the_shape_and_type_of_the_graph(shared: Path) -> None:
    graph = network(shared, "mlpt_resnet8_int8.tflite")
    values = run_all(graph, [np.zeros(graph.inputs[0].shape, np.int8)])
    for operator in graph.operators:
        assert (values[operator.output.name].shape, values[operator.output.name].dtype.name) == (
            operator.output.shape,
            operator.output.dtype,
        )


# --------------------------------------------------------------------------------------------------
# Rules that no network above has
# --------------------------------------------------------------------------------------------------


def tensor(
    name: str, *shape: int, scale: float = 0.5, zero_point: int = 0, dtype: str = "int8"
) -> g.Tensor:
    return g.Tensor(name, shape, dtype, g.Quantization(scale, zero_point))


def only(operator: g.Operator, *inputs: NDArray[np.generic]) -> NDArray[np.generic]:
    return run_operator(operator, inputs)[0]


def test_the_edge_of_a_uint8_model_flips_the_top_bit() -> None:
    source, target = (
        tensor("x", 256, zero_point=127, dtype="uint8"),
        tensor("y", 256, zero_point=-1),
    )
    values = np.arange(256, dtype=np.uint8)
    into = g.Requantize(
        name="y", inputs=(source,), outputs=(target,), low=-128, high=127, rounding=Rounding.DOUBLE
    )
    out = g.Requantize(
        name="z", inputs=(target,), outputs=(source,), low=0, high=255, rounding=Rounding.DOUBLE
    )
    np.testing.assert_array_equal(only(into, values), (values ^ 0x80).view(np.int8))
    np.testing.assert_array_equal(only(out, only(into, values)), values)


def test_a_lookup_indexes_from_minus_128() -> None:
    table = np.arange(127, -129, -1).astype(np.int8)
    operator = g.Lookup(name="y", inputs=(tensor("x", 3),), outputs=(tensor("y", 3),), table=table)
    np.testing.assert_array_equal(
        only(operator, np.array([-128, 0, 127], np.int8)), [127, -1, -128]
    )


def test_a_slice_takes_steps_and_a_transpose_permutes() -> None:
    values = np.arange(24, dtype=np.int8).reshape(4, 6)
    cut = g.Slice(
        name="y",
        inputs=(tensor("x", 4, 6),),
        outputs=(tensor("y", 2, 3),),
        begin=(1, 0),
        strides=(2, 2),
    )
    np.testing.assert_array_equal(only(cut, values), values[1::2, ::2])
    turned = g.Transpose(
        name="y", inputs=(tensor("x", 4, 6),), outputs=(tensor("y", 6, 4),), permutation=(1, 0)
    )
    np.testing.assert_array_equal(only(turned, values), values.T)


def test_averages_of_uint8_models_round_half_up_and_those_of_int8_models_away_from_zero() -> None:
    def average(*, unsigned: bool) -> g.AveragePool2D:
        return g.AveragePool2D(
            name="y",
            inputs=(tensor("x", 1, 1, 2, 1),),
            outputs=(tensor("y", 1, 1, 1, 1),),
            kernel=(1, 2),
            strides=(1, 1),
            padding=(0, 0, 0, 0),
            low=-128,
            high=127,
            rounding=Rounding.DOUBLE,
            count_include_pad=False,
            unsigned=unsigned,
        )

    values = np.array([-2, -1], np.int8).reshape(1, 1, 2, 1)
    assert only(average(unsigned=False), values).item() == -2
    assert only(average(unsigned=True), values).item() == -1


def test_an_operator_without_a_rule_is_named() -> None:
    class Mystery(g.Operator):
        kind = "mystery"

    operator = Mystery(name="m", inputs=(tensor("x", 1),), outputs=(tensor("m", 1),))
    with pytest.raises(LoweringError, match="no rule for mystery"):
        run_operator(operator, [np.zeros(1, np.int8)])
