# SPDX-License-Identifier: Apache-2.0
"""tests/quantizers: networks by number, through ONNX Runtime's and PyTorch's quantizers, give the
quantized model's own results; and a judge that can say no."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from tests.fuzz.models import BAD
from tests.quantizers.campaign import campaign, counts, done
from tests.quantizers.plan import plan
from tests.repeat import more, times


def test_networks_of_quantize_static_give_its_integers() -> None:
    lines = list(campaign("ort", range(times(2, 200))))
    assert not [line for line in lines if line.split()[1].rstrip(":") in BAD]
    assert sum(counts(lines)[f"ort {verdict}"] for verdict in ("equal", "near")) > len(lines) // 2


@more
def test_networks_of_pt2e_give_its_integers() -> None:
    pytest.importorskip("torchao", reason="torchao is not installed (the extra `torch`)")
    # Behind the silu of the last one PyTorch writes `alias`, which the judge did not know.
    lines = list(campaign("pt2e", [*range(20), 10541]))
    assert not [line for line in lines if line.split()[1].rstrip(":") in BAD]
    assert sum(counts(lines)[f"pt2e {verdict}"] for verdict in ("equal", "near")) > len(lines) // 2


@more
def test_the_judge_of_pt2e_has_pytorchs_result_inside_and_a_step_beside_it_outside() -> None:
    pytest.importorskip("torchao", reason="torchao is not installed (the extra `torch`)")
    from tests.quantizers.as_torch import quantized, run
    from tests.quantizers.torch_sums import integers

    judged = 0
    for number in (0, 1, 4, 10):
        network = plan(number)
        x = [network.samples[-1]]
        model, _ = quantized(network, number)
        for got, (low, high) in zip(run(model, x), integers(model, x) or [], strict=False):
            assert np.all((low <= got) & (got <= high))
            steps = np.diff(np.unique(got))
            if not steps.size:  # one value throughout
                continue
            step = steps.min()
            judged += int(np.count_nonzero(high - low < step) > got.size // 2)
    assert judged


def test_a_number_is_a_network() -> None:
    """Another number another one."""
    first, again, other = plan(5), plan(5), plan(6)
    np.testing.assert_array_equal(first.samples[0], again.samples[0])
    assert str(first) == str(again)
    assert str(first) != str(other)


def test_a_log_says_what_is_done(tmp_path: Path) -> None:
    """So that a campaign that was stopped goes on."""
    log = tmp_path / "log"
    assert done(log, "ort") == set()
    lines = ["ort:3 equal", "ort:5 near: 1 of 4 [conv; x]", "pt2e:3 different: by 2 [conv; y]"]
    log.write_text("\n".join(lines) + "\n")
    assert done(log, "ort") == {3, 5}
    assert counts(lines) == {"ort equal": 1, "ort near": 1, "pt2e different": 1}
