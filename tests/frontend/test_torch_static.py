# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_static.py: programs whose sizes are numbers, of operators that are read."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
from torch import nn

from loadstone.errors import UnsupportedError
from loadstone.frontend.torch_static import check_inputs, functional_program


class Activations(nn.Module):
    """Operators of the table, in place too, and one that is not in it."""

    def forward(self, x: Any) -> Any:
        """(N, 4) -> (N, 2)."""
        return nn.functional.glu(nn.functional.hardswish(x.add_(1)), 1)


def targets(program: Any) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def test_what_is_not_in_the_table_is_broken_down_and_the_rest_stays() -> None:
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(Activations(), (torch.zeros(3, 4),), dynamic_shapes=({0: batch},))
    assert check_inputs(program, "net")
    static = functional_program(program, "net")
    assert static.graph_signature.user_inputs == program.graph_signature.user_inputs
    found = targets(static)
    assert "aten.hardswish.default" in found
    assert "aten.glu.default" not in found
    assert "aten.add_.Tensor" not in found
    (x,) = [node for node in static.graph.nodes if node.op == "placeholder"]
    assert tuple(x.meta["val"].shape) == (1, 4)


def test_another_dimension_must_be_a_number() -> None:
    width = torch.export.Dim("width", min=2)
    program = torch.export.export(nn.ReLU(), (torch.zeros(3, 4),), dynamic_shapes=({1: width},))
    with pytest.raises(UnsupportedError, match=r'net: input "input" has the dynamic dimension 1'):
        functional_program(program, "net")
