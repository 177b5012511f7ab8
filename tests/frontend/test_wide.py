# SPDX-License-Identifier: Apache-2.0
"""frontend/wide.py: layers of 16 bits against ONNX Runtime's real numbers, and where float32 has
too few bits for those against exact sums."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from loadstone import compile
from loadstone.frontend import load
from loadstone.frontend.wide import with_wide_layers
from loadstone.relax.compat import bindings, dtype, is_call
from tests.onnx_builder import run
from tests.relax_text import compare_rewritten

TYPES = {"int8": np.int8, "int16": np.int16}


@dataclass(frozen=True)
class Case:
    """types: of the input, the weights, the output. bits: of the input's and the weights' values.
    zero_points: of input and output."""

    types: tuple[str, str, str]
    kind: str = "conv"
    bits: tuple[int, int] = (9, 5)
    scale: float = 1.0
    zero_points: tuple[int, int] = (0, 0)
    groups: int = 1
    clamp: bool = False
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Sketch:
    """model: QDQ of opset 21. x: one sample. exact: the output in float64, of exact sums."""

    model: onnx.ModelProto
    x: NDArray[np.float32]
    exact: NDArray[np.float64]
    step: np.float32


def sums(case: Case, x: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.int64]:
    """Of exact products; a convolution pads by one zero."""
    if case.kind == "dense":
        return x.astype(np.int64) @ weights.astype(np.int64)
    padded = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (1, 1), (1, 1)])
    _, _, rows, columns = x.shape
    each = len(weights) // case.groups
    found = np.zeros((1, len(weights), rows, columns), np.int64)
    for o, kernel in enumerate(weights.astype(np.int64)):
        first = o // each * kernel.shape[0]
        for (c, i, j), weight in np.ndenumerate(kernel):
            found[0, o] += weight * padded[0, first + c, i : i + rows, j : j + columns]
    return found


def sketch(case: Case) -> Sketch:
    rng = np.random.default_rng(case.seed)
    conv = case.kind == "conv"
    extents = (1, 4, 5, 6) if conv else (5, 36)
    sides = (8, 4 // case.groups, 3, 3) if conv else (36, 8)
    given, weighted, made = (TYPES[name] for name in case.types)
    zero, target = case.zero_points
    ends = [
        min(bits, np.iinfo(t).bits - 1)
        for bits, t in zip(case.bits, (given, weighted), strict=True)
    ]
    levels = rng.integers(-(2 ** ends[0]), 2 ** ends[0], extents)
    weights = rng.integers(1 - 2 ** ends[1], 2 ** ends[1], sides).astype(weighted)
    scale = np.float32(2.0**-10 * case.scale)
    steps = np.asarray(2.0 ** rng.integers(-9, -6, 8) * case.scale, np.float32)
    bias = np.asarray(rng.normal(size=8) * case.scale / 16, np.float32)
    along = (1, 8, 1, 1) if conv else (1, 8)
    centred = np.clip(levels, *(np.iinfo(given).min, np.iinfo(given).max)) - zero
    total = sums(case, centred, weights) * (np.float64(scale) * steps.astype(np.float64)).reshape(
        along
    ) + bias.astype(np.float64).reshape(along)
    total = np.maximum(total, 0) if case.clamp else total
    size = np.abs(total).max() / (np.iinfo(made).max - abs(target) / 2)
    step = np.float32(2.0 ** np.ceil(np.log2(size)) if case.scale == 1 else size)
    exact = np.rint(total / np.float64(step)) + target
    exact = np.clip(exact, np.iinfo(made).min, np.iinfo(made).max)

    constants = []

    def constant(name: str, array: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    nodes = [
        helper.make_node(
            "QuantizeLinear", ["x", constant("sx", scale), constant("zx", given(zero))], ["xq"]
        ),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zx"], ["xr"]),
        helper.make_node(
            "DequantizeLinear",
            [constant("w", weights), constant("sw", steps), constant("zw", np.zeros(8, weighted))],
            ["wr"],
            axis=0 if conv else 1,
        ),
        *(
            [
                helper.make_node(
                    "Conv", ["xr", "wr", constant("b", bias)], ["c"],
                    pads=[1] * 4, group=case.groups,
                )
            ]
            if conv
            else [
                helper.make_node("MatMul", ["xr", "wr"], ["m"]),
                helper.make_node("Add", ["m", constant("b", bias)], ["c"]),
            ]
        ),
        *([helper.make_node("Relu", ["c"], ["r"])] if case.clamp else []),
        helper.make_node(
            "QuantizeLinear",
            ["r" if case.clamp else "c", constant("sy", step), constant("zy", made(target))],
            ["yq"],
        ),
        helper.make_node("DequantizeLinear", ["yq", "sy", "zy"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, total.shape)],
        constants,
    )
    opset = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    real = (exact - target) * np.float64(step)
    return Sketch(model, np.asarray(centred * scale, np.float32), real, step)


def computed(found: Sketch, folder: Path) -> NDArray[Any]:
    path = folder / "wide.onnx"
    onnx.save(found.model, path)
    compiled = compile(path, "vtaq-1x16x16", as_float=True)
    outputs = compiled.run(found.x[None])
    return np.asarray(outputs if isinstance(outputs, np.ndarray) else next(iter(outputs)))[0]


SHORT = [
    Case(("int16", "int8", "int16")),
    Case(("int16", "int16", "int16"), zero_points=(768, -512), clamp=True),
    Case(("int8", "int16", "int16"), zero_points=(3, 0), bits=(7, 9), groups=4),
    Case(("int16", "int16", "int8"), "dense", zero_points=(512, 5)),
    Case(("int8", "int16", "int8"), "dense", zero_points=(-7, -128), clamp=True),
]


@pytest.mark.parametrize("case", SHORT, ids=lambda case: f"{case.kind}-{'-'.join(case.types)}")
def test_onnx_runtimes_real_numbers(case: Case, tmp_path: Path) -> None:
    """Of few bits, whose sums float32 holds: equal in every element."""
    found = sketch(case)
    want = run(found.model.SerializeToString(), [found.x])[0]
    assert len(np.unique(want)) > 8
    np.testing.assert_array_equal(computed(found, tmp_path), want)


@pytest.mark.parametrize("case", SHORT[:2], ids=("weights of 8 bits", "of 16"))
def test_sums_are_exact_where_float32_is_not(case: Case, tmp_path: Path) -> None:
    found = sketch(replace(case, bits=(15, 15), scale=1.37))
    got = computed(found, tmp_path)
    np.testing.assert_array_equal(np.rint(got / found.step), np.rint(found.exact / found.step))
    theirs = run(found.model.SerializeToString(), [found.x])[0]
    apart = np.abs(theirs - got) / found.step
    assert apart.max() <= 1.01
    assert np.mean(apart > 0.5) < 0.05


def test_the_sums_are_of_int64(tmp_path: Path) -> None:
    path = tmp_path / "wide.onnx"
    for case in (SHORT[0], SHORT[3]):
        onnx.save(sketch(case).model, path)
        function = load(path)["main"]
        made = [c for _, c in bindings(function) if is_call(c, "nn.conv2d", "matmul")]
        assert [dtype(call) for call in made] == ["int64"]
        assert {dtype(side) for side in made[0].args} == {"int16"}


def test_text_in_text_out(update_golden: bool) -> None:
    compare_rewritten("wide", with_wide_layers, update_golden)
