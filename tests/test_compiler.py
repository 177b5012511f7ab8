"""compiler.py: real int8 networks from file to the simulator's integers, through the artifact, the
C runtime and the driver.

The goldens were made by LiteRT's reference kernels and ONNX Runtime (../shared/models/README.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loadstone.artifact.format import Artifact
from loadstone.compiler import Compiled, compile
from loadstone.errors import ModelError, TargetError, UnsupportedError

TINY = ("mlpt_resnet8_int8", "mlpt_kws_int8", "mlpt_ad_int8", "mlpt_vww_int8", "mlpt_strww_int8")
#: Network -> largest difference. A uint8 softmax on the host may differ by one; everything before
#: it is equal.
OTHERS = {
    "tflm_micro_speech": 0,
    "tflm_person_detect": 0,
    "mlonmcu_micro_kws_m_int8": 0,
    "coral_mnv1_0.25_128_u8": 1,
}


def golden(shared: Path, file: str, samples: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    data = np.load(shared / "models" / "golden" / f"{file}.npz")
    inputs = [data[f"in{k}"][:samples] for k in range(sum(n.startswith("in") for n in data.files))]
    return inputs, [
        data[f"out{k}"][:samples] for k in range(sum(n.startswith("out") for n in data.files))
    ]


def check_equal(compiled: Compiled, shared: Path, file: str, samples: int, atol: int = 0) -> None:
    inputs, wanted = golden(shared, file, samples)
    for got, want in zip(compiled.run(*inputs), wanted, strict=True):
        np.testing.assert_allclose(
            got.reshape(want.shape).astype(np.int64), want.astype(np.int64), rtol=0, atol=atol
        )


@pytest.mark.parametrize("name", TINY)
def test_mlperf_tiny_equals_litert_in_every_element_and_leaves_only_softmax_to_the_host(
    shared: Path, name: str
) -> None:
    compiled = compile(shared / "models" / f"{name}.tflite", "vtaq-1x16x16")
    check_equal(compiled, shared, f"{name}.tflite", 2)
    on_host = [row["kind"] for row in compiled.explain() if row["where"] == "host"]
    assert set(on_host) <= {"softmax"}


@pytest.mark.parametrize("device", ["vtaq-1x32x32", "vtaq-4x16x16", "vtaq-tiny"])
@pytest.mark.parametrize("name", ["mlpt_resnet8_int8", "mlpt_kws_int8"])
def test_every_device_gives_the_same_integers(shared: Path, name: str, device: str) -> None:
    check_equal(compile(shared / "models" / f"{name}.tflite", device), shared, f"{name}.tflite", 4)


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
def test_other_int8_networks_equal_litert(shared: Path, name: str) -> None:
    check_equal(
        compile(shared / "models" / f"{name}.tflite", "vtaq-1x16x16"),
        shared,
        f"{name}.tflite",
        2,
        OTHERS[name],
    )


def test_an_artifact_is_the_same_each_time_and_reads_back_equal(
    shared: Path, tmp_path: Path
) -> None:
    model = shared / "models" / "mlpt_kws_int8.tflite"
    first, second = compile(model, "vtaq-1x16x16"), compile(model, "vtaq-1x16x16")
    assert first.artifact.to_bytes() == second.artifact.to_bytes()
    first.save(tmp_path / "kws.lds")
    assert Artifact.load(tmp_path / "kws.lds").to_bytes() == first.artifact.to_bytes()


def test_activations_share_memory(shared: Path) -> None:
    report = compile(shared / "models" / "mlpt_kws_int8.tflite", "vtaq-1x16x16").report()
    assert report["arena_bound_bytes"] <= report["arena_bytes"] < report["arena_sum_bytes"]


def test_a_dump_holds_every_stage_in_order(shared: Path, tmp_path: Path) -> None:
    compile(shared / "models" / "mlpt_ad_int8.tflite", "vtaq-1x16x16", dump=tmp_path / "stages")
    names = sorted(path.name for path in (tmp_path / "stages").iterdir())
    assert names[0] == "001.relax.txt"
    assert names[1] == "002.graph.txt"
    assert names[-1].endswith(".steps.txt")
    assert len(names) > 10


def test_dynamic_range_quantization_is_refused_by_name(shared: Path) -> None:
    with pytest.raises(UnsupportedError, match="dynamic"):
        compile(shared / "models" / "mlpt_kws_dynrange.tflite", "vtaq-1x16x16")


def test_what_is_no_model_and_no_device_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match=r"net\.tflite"):
        compile(path, "vtaq-1x16x16")
    with pytest.raises(TargetError, match="no-such-device"):
        compile(path, "no-such-device")
