# SPDX-License-Identifier: Apache-2.0
"""tests/matrix: every network lands by every way where the golden table says, in C, with the
quantized model's own results."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

from tests.matrix.cells import NETWORKS, cell
from tests.matrix.page import PAGE, page
from tests.matrix.table import line, lines
from tests.matrix.ways import WAYS
from tests.repeat import more

#: What `make test` compiles: others share its parts, and every front end has tests of its own.
QUICK = {("mlp", "ort")}
#: Ways whose reference adds float32 numbers and biases that lie between two integers (PyTorch):
#: there a result may be a step of the output beside ours (docs/numerics.md).
IN_FLOAT = ("xnnpack", "x86")
#: Cells of other ways that are one step off: 2 of 20 elements behind the average pool of
#: `densenet`, which ONNX Runtime sums in float32, where the mean of four integers often is a tie.
ONE_OFF = {("densenet", "ort")}
#: Several steps off. PyTorch adds the bias of a dense layer in float32, and ours is the nearest
#: integer of the accumulator: one of the 1,632 elements of the first block's `qkv` is 31.5002 steps
#: in PyTorch and 31 here. What reads it (products of two activations, layer norms, the steep side
#: of GELU) makes 4 steps of it behind the second block's GELU; each operator by itself, given
#: PyTorch's own inputs, is within a step.
FURTHER_OFF = {("vit", "xnnpack"): 0.06}
#: Ways whose steps become another class: of 128 places of `segment` one has two scores alike.
CLASSES = {("segment", "x86"): 1}
#: Of the largest result; a step of an output of 8 bits is 1/127 to 1/255 of it.
ONE_STEP, EXACT = 0.017, 1e-5
CELLS = [
    pytest.param(name, way, marks=() if (name, way) in QUICK else more, id=f"{name}-{way}")
    for name, way in lines()
]


@pytest.mark.parametrize(("name", "way"), CELLS)
def test_a_network_lands_where_the_table_says(name: str, way: str) -> None:
    found = cell(name, way)
    assert line(found) == lines()[name, way], "python -m tests.matrix --write"
    assert not found.python
    if (name, way) in CLASSES:
        assert found.different <= CLASSES[name, way]
    elif not found.refused:
        limit = ONE_STEP if way in IN_FLOAT or (name, way) in ONE_OFF else EXACT
        assert found.relative <= FURTHER_OFF.get((name, way), limit)


def test_the_table_has_lines_of_networks_that_there_are() -> None:
    """Forty; a line that is missing is written by `python -m tests.matrix --write NETWORK`."""
    assert set(lines()) <= {(name, way) for name in NETWORKS for way in WAYS}
    assert len(NETWORKS) == 40


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.matrix --page"


def test_no_front_end_is_worse_than_another_where_it_is_not_named() -> None:
    """By the multiplications that are on the device."""
    known = lines()
    for name in NETWORKS:
        shares = {way: _share(known[name, way]) for way in WAYS if (name, way) in known}
        best = max(shares.values(), default=0)
        worse = {way for way, share in shares.items() if share < min(best, 100) - 1}
        assert worse <= {"x86"} | NAMED.get(name, set()), (name, shares)


#: Worse by a way, for a reason. Everywhere: X86Inductor's quantizer leaves what stands behind a
#: convolution or a dense layer (a sum with another tensor, SiLU, hard-swish, the last layer) in
#: float32, so that such layers have no integers to give. By network: quantize_static and XNNPACK's
#: quantizer leave recurrent layers as they are, the latter also transposed convolutions and
#: products of two activations, and it cannot prepare a GRU. Of ours: the tests' writer of TFLite
#: unrolls no recurrent layers.
NAMED = {
    **{name: {"ort", "xnnpack", "tflite"} for name in ("lstm", "lstm_both_ways", "gru")},
    **{name: {"xnnpack"} for name in ("autoencoder_2d", "unet_transposed")},
    **{name: {"xnnpack"} for name in ("multihead", "transformer", "vit")},
}


def _share(text: str) -> int:
    return -1 if " refused: " in text else int(text.split()[2])
