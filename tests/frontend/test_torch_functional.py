# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_functional.py against PyTorch's run_decompositions: the same Relax, to the names;
and programs that it leaves to PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
from torch import nn

from loadstone.frontend.torch import _Walk
from loadstone.frontend.torch_functional import functional
from loadstone.frontend.torch_static import _decompositions


class Usual(nn.Module):
    """What networks have that a program is not functional, or not of the table, for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.act = nn.Dropout(0.5), nn.ReLU(inplace=True)
        self.linear = nn.Linear(64, 8)

    def forward(self, x: Any) -> Any:
        """(1, 3, 6, 6) -> (1, 8), (1, 4, 4, 4)."""
        x = self.act(self.norm(self.conv(x)))
        y = self.drop(x) * 2
        y += x
        y = y * x.mean((2, 3), keepdim=True).expand_as(y)
        flat = (y - 1).flatten(1).contiguous()
        return nn.functional.hardswish(self.linear(flat), inplace=True), y


class Overwrites(nn.Module):
    """Somebody else reads what is overwritten."""

    def forward(self, x: Any) -> Any:
        """(1, 4) -> (1, 4)."""
        y = x * 2
        z = y.view(4)
        y.relu_()
        return z + y


class WritesInput(nn.Module):
    def forward(self, x: Any) -> Any:
        """(1, 4) -> (1, 4)."""
        return x.relu_()


class WritesView(nn.Module):
    def forward(self, x: Any) -> Any:
        """(1, 4) -> (1, 4)."""
        y = x * 2
        y[:, 1:].relu_()
        return y


class WritesAnotherType(nn.Module):
    """The sum of integers and numbers in place has the type of what it is written to."""

    def forward(self, x: Any) -> Any:
        """(1, 4) -> (1, 4)."""
        y = x * 2
        y += torch.ones(4, dtype=torch.float64)
        return y


class Drops(nn.Module):
    def forward(self, x: Any) -> Any:
        """(1, 4) -> (1, 4)."""
        return nn.functional.dropout(x * 2, 0.5, training=True)


class NormalizesBatch(nn.Module):
    """Without statistics that were learnt."""

    def forward(self, x: Any) -> Any:
        """(1, 4, 2) -> (1, 4, 2)."""
        return nn.functional.batch_norm(x, None, None, training=True)


def exported(network: nn.Module, *shape: int) -> Any:
    return torch.export.export(network.eval(), (torch.randn(shape),))


def test_the_same_function_as_by_tracing() -> None:
    program = exported(Usual(), 1, 3, 6, 6)
    before = str(program.graph)
    ours = functional(program)
    assert ours is not None
    assert str(program.graph) == before
    traced = program.run_decompositions(_decompositions())
    assert ours.graph_signature.user_outputs == traced.graph_signature.user_outputs
    assert _Walk(ours, "net").module().script() == _Walk(traced, "net").module().script()


@pytest.mark.parametrize(
    "network", [Overwrites(), WritesInput(), WritesView(), WritesAnotherType(), Drops()]
)
def test_what_needs_more_than_a_rule_is_left_to_pytorch(network: nn.Module) -> None:
    assert functional(exported(network, 1, 4)) is None


def test_normalization_by_its_own_batch_is_left_to_pytorch() -> None:
    assert functional(exported(NormalizesBatch(), 1, 4, 2)) is None


def test_an_operator_outside_the_table_is_left_to_pytorch() -> None:
    assert functional(exported(nn.GLU(), 1, 4)) is None
