# SPDX-License-Identifier: Apache-2.0
"""frontend/torch.py: a program that is not done is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

from loadstone.compiler import compile
from loadstone.errors import ModelError
from loadstone.frontend.torch import from_program
from loadstone.relax.compat import shape
from loadstone.relax.saved import run_module
from tests.frontend.test_torch import quantized


class Counting(nn.Module):
    """Writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("runs", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        """x, and one more run."""
        self.runs.add_(1)
        return x * 2


class Sixteen(nn.Module):
    """Activations of 16 bits."""

    def forward(self, x: Any) -> Any:
        """x, rounded."""
        return quantized.quantize_per_tensor(x, 0.1, 0, -32768, 32767, torch.int16).float()


PROGRAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "dynamic shape": (
        lambda: torch.export.export(
            nn.ReLU(), (torch.zeros(2, 3),), dynamic_shapes=({1: torch.export.Dim("width")},)
        ),
        'net: input "input" has the dynamic dimension 1 (',
    ),
    "bfloat16": (
        lambda: torch.export.export(nn.ReLU(), (torch.zeros(2, dtype=torch.bfloat16),)),
        'input "input" is bfloat16',
    ),
    "a number": (
        lambda: torch.export.export(
            Scaled(), (torch.zeros(2), 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC)
        ),
        "no tensor",
    ),
    "a buffer": (
        lambda: torch.export.export(Counting(), (torch.zeros(2),)),
        'writes its buffer "runs": call model.eval()',
    ),
    "16 bits": (
        lambda: torch.export.export(Sixteen(), (torch.zeros(2),)),
        "it quantizes to int16: Loadstone runs 8-bit activations",
    ),
    "a module": (
        lambda: nn.ReLU(),
        "a ReLU is no program yet: torch.export.export(model.eval(), (example,)) makes one",
    ),
}


class Scaled(nn.Module):
    """With an argument that is no tensor."""

    def forward(self, x: Any, factor: int) -> Any:
        """x times factor."""
        return x * factor


class Weighed(nn.Module):
    """Two inputs and a number; the batch appears in a view."""

    def forward(self, pair: tuple[Any, Any], factor: float, *, more: Any) -> Any:
        """(N, 4, 6), (N, 4, 6), (N, 24) -> (N, 24)."""
        return (pair[0] + pair[1] * factor).view(pair[0].shape[0], 24) + more


def test_a_symbolic_batch_becomes_one() -> None:
    batch, pair = torch.export.Dim("batch", min=2), (torch.zeros(3, 4, 6), torch.ones(3, 4, 6))
    shapes = {"pair": ({0: batch}, {0: batch}), "factor": None, "more": {0: batch}}
    program = torch.export.export(
        Weighed(), (pair, 2.0), {"more": torch.zeros(3, 24)}, dynamic_shapes=shapes
    )
    module = from_program(program, "net")
    assert [shape(parameter) for parameter in module["main"].params] == [
        (1, 4, 6),
        (1, 4, 6),
        (1, 24),
    ]
    torch.manual_seed(3)
    a, b, c = (torch.randn(extents).numpy() for extents in ((1, 4, 6), (1, 4, 6), (1, 24)))
    np.testing.assert_allclose(
        run_module(module, [a, b, c])[0], (a + 2 * b).reshape(1, 24) + c, atol=1e-5
    )


@pytest.mark.parametrize("case", PROGRAMS)
def test_a_program_that_is_not_done_is_one_line(case: str) -> None:
    made, message = PROGRAMS[case]
    with pytest.raises(ModelError) as caught:
        from_program(made(), "net")
    assert str(caught.value).startswith("net: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_given_to_compile_is_one_line() -> None:
    with pytest.raises(ModelError, match="is no program yet"):
        compile(nn.ReLU(), "vtaq-tiny")
