# SPDX-License-Identifier: Apache-2.0
"""relax/convolutions.py: the types that TVM finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax.compat import constant, dtype, relax, shape, value
from loadstone.relax.convolutions import channels_last_conv2d, with_flat_kernels, with_types

LAYOUTS = st.tuples(st.sampled_from(["NCHW", "NHWC"]), st.sampled_from(["OIHW", "OHWI", "HWIO", "HWOI"]))  # fmt: skip # noqa: E501
SIZES = st.integers(1, 6)


def tensor(extents: list[int] | None, kind: str = "float32") -> Any:
    return relax.Var("x", relax.TensorType(extents, kind))


def found_by_tvm(call: Any) -> Any:
    """The call with its type; None where TVM refuses it."""
    builder = relax.BlockBuilder()
    try:
        with builder.function("main", list(relax.analysis.free_vars(call))):
            with builder.dataflow():
                normal = builder.normalize(call)
                output = builder.emit_output(normal)
            builder.emit_func_output(output)
    except Exception:
        return None
    return normal


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_convolution_has_the_type_that_tvm_finds_or_is_left_to_it(data: Any) -> None:
    draw = data.draw
    layout, order = draw(LAYOUTS)
    groups = draw(st.sampled_from([1, 1, 2]))
    extents = {"N": draw(SIZES), "C": draw(SIZES), "H": draw(SIZES), "W": draw(SIZES)}
    window = {"O": draw(SIZES), "I": draw(SIZES), "H": draw(SIZES), "W": draw(SIZES)}
    if draw(st.integers(0, 4)):
        extents["C"], window["O"] = window["I"] * groups, window["O"] * groups
    kernel: Any = tensor([window[letter] for letter in order])
    if draw(st.booleans()):
        flat = tensor([int(np.prod(list(window.values())))])
        kernel = relax.op.reshape(flat, [window[letter] for letter in order])
    if draw(st.booleans()):
        turned = tensor([window[letter] for letter in reversed(order)])
        kernel = relax.op.permute_dims(turned, [3, 2, 1, 0])
    call = relax.op.nn.conv2d(
        tensor([extents[letter] for letter in layout]),
        kernel,
        strides=[draw(st.integers(1, 3)), draw(st.integers(1, 3))],
        padding=[draw(st.integers(0, 2)) for _ in range(4)],
        dilation=[draw(st.integers(1, 2)), draw(st.integers(1, 2))],
        groups=groups,
        data_layout=layout,
        kernel_layout=order,
    )
    wanted = found_by_tvm(relax.Call(call.op, call.args, call.attrs, call.ty_args))
    found = with_types(call)
    assert found.same_as(call)
    if wanted is None:
        assert found.ty.is_missing()
    elif not found.ty.is_missing():
        assert (shape(found), dtype(found)) == (shape(wanted), dtype(wanted))
    else:  # an empty result
        assert 0 in (shape(wanted) or (0,)) or min(shape(wanted) or (0,)) < 0


def test_what_is_not_known_is_left_to_tvm() -> None:
    kernel = tensor([8, 3, 3, 4])
    unknown = relax.op.nn.conv2d(tensor(None), kernel, data_layout="NHWC", kernel_layout="OHWI")
    assert with_types(unknown).ty.is_missing()
    mixed = relax.op.nn.conv2d(tensor([1, 5, 5, 4], "float16"), kernel, data_layout="NHWC", kernel_layout="OHWI")  # fmt: skip # noqa: E501
    assert with_types(mixed).ty.is_missing()
    variable = tensor([2])
    assert with_types(variable) is variable


def test_channels_last() -> None:
    old = relax.op.nn.conv2d(tensor([1, 4, 9, 9]), tensor([6, 4, 3, 3]), strides=2, padding=1)
    made = channels_last_conv2d(tensor([1, 9, 9, 4]), tensor([6, 3, 3, 4]), old.attrs)
    assert shape(made) == (1, 5, 5, 6)
    assert shape(channels_last_conv2d(*made.args, old.attrs, padding=[0, 0, 1, 1])) == (1, 4, 4, 6)


def test_what_a_convolution_reads_is_bound() -> None:
    """In relu(conv(x, permute_dims(w)))."""
    builder = relax.BlockBuilder()
    x, w = tensor([1, 9, 9, 4]), tensor([3, 3, 4, 6])
    turned = relax.op.permute_dims(w, [3, 0, 1, 2])
    call = relax.op.nn.conv2d(x, turned, data_layout="NHWC", kernel_layout="OHWI")
    with builder.function("main", [x, w]):
        with builder.dataflow():
            found = with_types(relax.op.nn.relu(call), builder.emit)
            inner = found.args[0]
            assert isinstance(inner.args[1], relax.Var)
            assert shape(inner) == shape(found_by_tvm(call)) == (1, 7, 7, 6)
            output = builder.emit_output(builder.normalize(found))
        builder.emit_func_output(output)
    relax.analysis.well_formed(builder.get())


def depthwise(kernel: Any, channels: int = 5) -> Any:
    return relax.op.nn.conv2d(
        tensor([1, 6, 4, channels]),
        kernel,
        groups=channels,
        data_layout="NHWC",
        kernel_layout="HWOI",
    )


def test_a_depthwise_kernel_with_a_multiplier_is_one_that_tvm_takes() -> None:
    """As TVM 0.26 imports it from TFLite, under a bias and an activation."""
    weights = np.arange(3 * 3 * 5 * 3, dtype=np.float32).reshape(3, 3, 5, 3)
    flat = tensor([1, 3, 3, 15])
    for kernel in (relax.op.reshape(flat, [3, 3, 5, 3]), constant(weights)):
        call = relax.op.clip(relax.op.add(depthwise(kernel), tensor([15])), 0, 6)
        assert found_by_tvm(call) is None
        made = found_by_tvm(with_flat_kernels(call))
        assert shape(made) == (1, 4, 2, 15)
    made = with_flat_kernels(depthwise(constant(weights)))
    np.testing.assert_array_equal(value(made.args[1]).reshape(3, 3, 5, 3), weights)
    assert (
        with_flat_kernels(depthwise(relax.op.reshape(flat, [3, 3, 5, 3])))
        .args[1]
        .args[0]
        .same_as(flat)
    )


@pytest.mark.parametrize("extents", [[3, 3, 15, 1], [3, 3, 5, 1], [3, 3, 10, 2]])
def test_any_other_kernel_stays_as_it_is(extents: list[int]) -> None:
    call = depthwise(tensor(extents))
    assert with_flat_kernels(call).same_as(call)
