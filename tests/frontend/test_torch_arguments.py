# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_arguments.py: an argument that no converter reads is refused by name, unless it is
what it would be without being said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten import OPERATORS
from loadstone.frontend.aten.build import PLACES
from loadstone.frontend.torch import from_program
from loadstone.frontend.torch_arguments import promoted

aten = torch.ops.aten
X = torch.zeros(1, 4, 6, 8)


class Calling(nn.Module):
    """One function of the input."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        """What it gives."""
        return self.function(x)


def exported(function: Callable[[Any], Any]) -> Any:
    return torch.export.export(Calling(function), (X,))


def overloads(key: str) -> list[Any]:
    """The schemas that an entry of the table is for."""
    namespace, name, *overload = key.split(".")
    packet = getattr(getattr(torch.ops, namespace), name)
    names = overload or [
        entry for entry in packet.overloads() if "out" not in entry and "names" not in entry
    ]
    return [getattr(packet, entry)._schema for entry in names]


@pytest.mark.parametrize("key", OPERATORS)
def test_every_argument_of_every_schema_is_accounted_for(key: str) -> None:
    """It is read, or free, or has one value that is done: the schema's default or another."""
    entry, served = OPERATORS[key], 0
    for schema in overloads(key):
        names = {argument.name: None for argument in schema.arguments}
        if not {entry.named(name, names) for name in entry.needs} <= set(names):
            continue
        read = {entry.named(name, names) for name in entry.reads}
        known = {*read, *entry.free, *entry.only, *PLACES}
        lost = [
            argument.name
            for argument in schema.arguments
            if argument.name not in known and not argument.has_default_value()
        ]
        assert not lost, str(schema)
        served += 1
        assert not ({*entry.free} & read), "free, and read"
    assert served, "an entry for no overload"


#: Functions whose program gives an argument that is not read, its name, and what is done.
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "divisor_override": (
        lambda x: nn.functional.avg_pool2d(x, 2, divisor_override=3),
        'its argument "divisor_override" is 3: only None is done',
    ),
    "half_to_float": (
        lambda x: aten._softmax.default(x.half(), 1, True),
        'its argument "half_to_float" is True: only False is done',
    ),
    "dtype": (
        lambda x: x.half().mean(3, dtype=torch.float32),
        'its argument "dtype" is torch.float32: only None is done',
    ),
    "enable_gqa": (
        lambda x: nn.functional.scaled_dot_product_attention(
            x, x[:, :2], x[:, :2], enable_gqa=True
        ),
        "enable_gqa",
    ),
    "training": (
        lambda x: aten.lstm.input(
            x[0],
            [torch.zeros(1, 6, 2)] * 2,
            [torch.zeros(8, 8), torch.zeros(8, 2)],
            False,
            1,
            0.5,
            True,
            False,
            False,
        ),
        'its argument "train" is True: only False is done',
    ),
    "an overload that is not done": (
        lambda x: (
            aten.mm.dtype(x[0, 0].half(), x[0, 0].half().t(), torch.float32)
            if torch.cuda.is_available()
            else aten.round.decimals(x, decimals=2)
        ),
        "no importer for this",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_read_is_refused_by_name(case: str) -> None:
    function, message = REFUSED[case]
    with pytest.raises(UnsupportedError) as caught:
        from_program(exported(function), "net")
    assert message in str(caught.value)


def test_what_changes_nothing_may_be_said() -> None:
    from_program(exported(lambda x: torch.softmax(x, 1, dtype=torch.float32)), "net")
    from_program(exported(lambda x: x.to(memory_format=torch.channels_last).clone()), "net")
    from_program(exported(lambda x: torch.sum(x, 1, dtype=torch.float32)), "net")


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: x.int() > 0.5, "float32"),
        (lambda x: x.int() > 1, "int32"),
        (lambda x: x.int() > x.long(), "int64"),
        (lambda x: (x > 0) == (x < 0), "bool"),
        (lambda x: x.int() > torch.ones(()), "float32"),
        (lambda x: x.half() > torch.ones(()), "float16"),
    ],
)
def test_operands_meet_where_pytorch_says(function: Callable[[Any], Any], kind: str) -> None:
    *_, node, _ = exported(function).graph.nodes
    assert promoted(node) == kind
