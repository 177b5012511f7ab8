# SPDX-License-Identifier: Apache-2.0
"""analysis/names.py: short, and still different."""

from __future__ import annotations

from loadstone.analysis.names import short_names


def test_the_last_component_with_as_many_as_are_needed() -> None:
    first = "model/activation/Relu;model/conv2d/BiasAdd;model/conv2d/Conv2D"
    second = "model/conv2d_1/BiasAdd;model/conv2d_1/Conv2D"
    names = short_names([first, second, "Identity", f"pack {first}", "x y"])
    assert names == {
        first: "conv2d/Conv2D",
        second: "conv2d_1/Conv2D",
        "Identity": "Identity",
        f"pack {first}": "pack conv2d/Conv2D",
        "x y": "x y",
    }


def test_what_stays_equal_keeps_its_whole_name() -> None:
    assert short_names(["a/b;c", "b;c"]) == {"a/b;c": "a/b;c", "b;c": "b;c"}
    assert short_names(["line\x1b[2J"]) == {"line\x1b[2J": "line?[2J"}


def test_a_part_that_reads_a_bias_names_no_operator() -> None:
    conv = "model/conv2d_5/Conv2D;model/conv2d_5/BiasAdd/ReadVariableOp/resource1"
    dense = "model/dense/MatMul;model/dense/BiasAdd"
    assert short_names([conv, dense, "model/BiasAdd"]) == {
        conv: "Conv2D",
        dense: "MatMul",
        "model/BiasAdd": "BiasAdd",
    }
