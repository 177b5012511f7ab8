# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_graph.py against torch.export.load: the same graph, signature and weights; and
programs that it leaves to PyTorch."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

from loadstone.frontend.torch import from_bytes
from loadstone.frontend.torch_file import checked_files
from loadstone.frontend.torch_graph import ExportedGraph, exported_graph
from tests.frontend.torch_programs import changed, saved
from tests.torch_network import float_program, int8_program

MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


class Varied(nn.Module):
    """Arguments and results of all kinds: lists, none, types, keywords, several results; a weight
    that is used twice, one with other strides, a buffer, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.turned = nn.Parameter(torch.randn(6, 8).t())
        self.register_buffer("offset", torch.arange(8, dtype=torch.int64))
        self.register_buffer("gone", torch.ones(8), persistent=False)

    def forward(self, x: Any, y: Any) -> Any:
        """(1, 4, 8), (1, 4, 8) -> (1, 4, 6), (1, 2, 8)."""
        one, other = self.norm(self.first(x)).chunk(2, dim=1)
        joined = torch.cat([one, other, self.second(y)], 1)[:, :4]
        joined = torch.clamp(joined, min=-1.0) + self.offset.to(torch.float32) * self.gone
        values, _ = joined.max(dim=1, keepdim=True)
        ones = torch.ones(8, dtype=torch.float32, device="cpu") * torch.tensor([2.0])
        return (joined * values + ones) @ self.turned, one.contiguous()


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        """(1, 4, 8) -> (1, 4, 8)."""
        return self.inner(x, x, x, need_weights=False)[0]


class Branches(nn.Module):
    def forward(self, x: Any) -> Any:
        """(2, 4) -> (2, 4)."""
        return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))


def varied() -> Any:
    return torch.export.export(Varied().eval(), (torch.randn(1, 4, 8), torch.randn(1, 4, 8)))


PROGRAMS: dict[str, Callable[[], Any]] = {
    "float": float_program,
    "int8": int8_program,
    "varied": varied,
    "attention": lambda: torch.export.export(Attends().eval(), (torch.randn(1, 4, 8),)),
    "recurrent": lambda: torch.export.export(nn.LSTM(4, 3).eval(), (torch.randn(5, 1, 4),)),
}


def read(file: bytes) -> ExportedGraph | None:
    return exported_graph(checked_files(file, "net.pt2"))


def stored(values: Any) -> dict[str, Any]:
    return {name: (value.dtype, value.tolist(), value.stride()) for name, value in values.items()}


def meaning(node: Any) -> list[Any]:
    """Shapes, types and strides of what it computes; none of a check."""
    val = node.meta.get("val")
    values = list(val) if isinstance(val, tuple | list) else [val]
    return [(v.shape, v.dtype, v.stride()) for v in values if v is not None]


@pytest.mark.parametrize("case", PROGRAMS)
def test_the_same_program_as_pytorch_loads(case: str) -> None:
    file = saved(PROGRAMS[case]())
    ours, theirs = read(file), torch.export.load(io.BytesIO(file))
    assert ours is not None
    names = [
        [(n.name, n.op, str(n.target), str(n.args), str(n.kwargs)) for n in graph.nodes]
        for graph in (ours.graph, theirs.graph)
    ]
    assert names[0] == names[1]
    for one, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert one.op == "output" or meaning(one) == meaning(other)
        assert one.meta.get("nn_module_stack") == other.meta.get("nn_module_stack")
    assert ours.graph_signature.input_specs == theirs.graph_signature.input_specs
    assert ours.graph_signature.output_specs == theirs.graph_signature.output_specs
    assert stored(ours.state_dict) == stored(theirs.state_dict)
    assert stored(ours.constants) == stored(theirs.constants)


def test_it_computes_what_the_module_does() -> None:
    """Its graph run by torch.fx."""
    program = varied()
    given = torch.randn(1, 4, 8), torch.randn(1, 4, 8)
    ours = read(saved(program))
    assert ours is not None
    tensors = {**ours.state_dict, **ours.constants}
    inputs = [
        given[0 if spec.arg.name == "x" else 1] if spec.target is None else tensors[spec.target]
        for spec in ours.graph_signature.input_specs
    ]
    found = torch.fx.Interpreter(torch.fx.GraphModule({}, ours.graph)).run(*inputs)
    for one, other in zip(found, program.module()(*given), strict=True):
        assert torch.equal(one, other)


def test_an_open_batch_is_left_to_pytorch() -> None:
    batch = {"x": {0: torch.export.Dim("batch", min=1, max=8)}}
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    program = torch.export.export(
        network, (torch.randn(2, 4),), dynamic_shapes=({0: batch["x"][0]},)
    )
    assert read(saved(program)) is None
    assert len(from_bytes(saved(program), "net.pt2")["main"].params) == 1


def test_parts_of_a_graph_are_left_to_pytorch() -> None:
    assert read(saved(torch.export.export(Branches(), (torch.randn(2, 4),)))) is None


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "later format": (MODEL, lambda tree: tree["schema_version"].update(minor=99)),
    "other format": (MODEL, lambda tree: tree["schema_version"].update(major=7)),
    "other operators": (MODEL, lambda tree: tree["opset_version"].update(aten=11)),
    "unknown type": (
        MODEL,
        lambda tree: next(iter(tree["graph_module"]["graph"]["tensor_values"].values())).update(
            dtype=9
        ),
    ),
    "unknown argument": (
        MODEL,
        lambda tree: tree["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(name="other"),
    ),
    "a number for a text": (
        MODEL,
        lambda tree: tree["graph_module"]["graph"]["nodes"][0]["inputs"][-1].update(
            arg={"as_int": "1"}
        ),
    ),
    "an unknown tensor": (
        MODEL,
        lambda tree: tree["graph_module"]["graph"]["nodes"][0]["inputs"][0].update(
            arg={"as_tensor": {"name": "nobody"}}
        ),
    ),
    "more than the file": (
        WEIGHTS,
        lambda tree: next(iter(tree["config"].values()))["tensor_meta"]["sizes"][0].update(
            as_int=1 << 20
        ),
    ),
    "outside the file": (
        WEIGHTS,
        lambda tree: next(iter(tree["config"].values()))["tensor_meta"]["storage_offset"].update(
            as_int=1 << 20
        ),
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_it_does_not_know_is_left_to_pytorch(case: str) -> None:
    member, change = CHANGES[case]
    good = saved(float_program())
    assert read(good) is not None
    assert read(changed(good, member, change)) is None
