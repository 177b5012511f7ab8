# SPDX-License-Identifier: Apache-2.0
"""memory_layout.py: every address is aligned, inside its region, and nothing alive together
overlaps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from loadstone import graph as g
from loadstone.artifact.arena import ArenaPlan
from loadstone.artifact.host_step import HostOpcode
from loadstone.artifact.lifetimes import Lifetimes, find_lifetimes
from loadstone.artifact.memory_layout import (
    Content,
    MemoryLayout,
    RegionIndex,
    plan_memory,
    verify_memory,
)
from loadstone.backend.region import Address
from loadstone.compiler import compile
from loadstone.errors import LoweringError
from loadstone.numerics import Rounding
from tests import onnx_builder
from tests.artifact.test_deploy import conv, join, tensor
from tests.artifact.test_lifetimes import region


def planned(align_bytes: int = 256, content: Content | None = None) -> MemoryLayout:
    x, a, b, y = (tensor(name, 1, 4, 4, 16) for name in "xaby")
    joined = join("j", a, b)
    operators = (conv(x, a), conv(x, b), joined, conv(joined.output, y))
    graph = g.Graph(name="n", inputs=(x,), outputs=(y,), operators=operators)
    segments = [region("p", graph, 0, 4)]
    return plan_memory(graph, segments, find_lifetimes(graph, segments), align_bytes, content)


def test_it_cannot_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        planned().align_bytes = 64  # type: ignore[misc]


@pytest.mark.parametrize("align_bytes", [1, 64, 1024])
def test_the_arena_is_aligned_as_the_device_wants_and_to_cache_lines(align_bytes: int) -> None:
    memory = planned(align_bytes)
    assert memory.align_bytes == max(align_bytes, 64)
    wholes = [memory.addresses[name] for name in ("x", "j", "y")]
    assert all(address.region == RegionIndex.ARENA for address in wholes)
    assert all(address.offset_bytes % memory.align_bytes == 0 for address in wholes)


def test_parts_stand_in_their_whole() -> None:
    memory = planned()
    whole = memory.addresses["j"].offset_bytes
    assert [memory.addresses[name].offset_bytes - whole for name in "ab"] == [0, 256]


def test_constants_of_programs_stand_one_behind_the_other() -> None:
    content = Content()
    memory = planned(content=content)
    places = sorted(
        address.offset_bytes
        for address in memory.addresses.values()
        if address.region == RegionIndex.CONSTANTS
    )
    assert len(places) == len(set(places)) >= 3
    assert all(place % 64 == 0 for place in places)
    assert places[-1] < len(content.data)


def product_with_a_constant(*, second: bool) -> bytes:
    """A product whose second factor is a constant of the graph, and a sum with another one."""
    graph, random = onnx_builder.Graph(), np.random.default_rng(3)
    shape = (1, 2, 32, 32)

    def constant(scale: float) -> str:
        return graph.dequantize(graph.constant(random.integers(-127, 128, shape), "int8"), scale, 0)

    x = graph.dequantize(graph.input(shape, np.int8), 0.02, 3)
    y = graph.quantize(graph.node("MatMul", x, constant(0.0117)), 0.05, 0)
    if second:
        y = graph.node("Add", graph.dequantize(y, 0.05, 0), constant(0.01))
        y = graph.quantize(y, 0.05, 0)
    return graph.save([(y, np.int8)], [shape])


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vtaq-1x32x32", "vta-pynq"])
@pytest.mark.parametrize("second", [False, True])
def test_packed_constants_are_aligned_as_the_device_wants(
    tmp_path: Path, target: str, second: bool
) -> None:
    """And not as the constant that stands before them."""
    data = product_with_a_constant(second=second)
    (tmp_path / "m.onnx").write_bytes(data)
    x = np.random.default_rng(4).integers(-128, 128, (1, 2, 32, 32)).astype(np.int8)
    compiled = compile(tmp_path / "m.onnx", target)
    np.testing.assert_array_equal(
        compiled.run(x[None])[0][0], onnx_builder.run(data, [x], optimize=True)[0]
    )


def test_nothing_is_packed_at_the_alignment_of_another_constant() -> None:
    x, c, y = (tensor(name, 1, 4, 4, 16) for name in "xcy")
    two = join("y2", x, c)
    graph = g.Graph(
        name="n",
        inputs=(x,),
        outputs=(y,),
        operators=(two, conv(two.output, y)),
        constants={"c": np.zeros(c.shape, np.int8)},
    )
    made = region("p", graph, 0, 2)
    made.constants = {**made.constants, "last": (np.zeros(1, np.int8), 1)}
    made.aliases = {}
    segments = [made]
    memory = plan_memory(graph, segments, find_lifetimes(graph, segments), 1024)
    assert memory.addresses["c"].region == RegionIndex.CONSTANTS
    assert memory.addresses["c"].offset_bytes % 1024 == 0


def test_rows_are_views_and_one_tensor_is_one_view() -> None:
    memory = planned()
    assert [(view.name, view.region) for view in memory.views] == [
        ("x", RegionIndex.INPUT),
        ("y", RegionIndex.OUTPUT),
    ]
    assert memory.size_bytes[RegionIndex.INPUT] == 256


def test_content_is_aligned_and_filled() -> None:
    content = Content(b"abc")
    assert content.end == 64
    assert content.add(b"defg", 16) == 64
    assert content.add(b"h", 256) == 256
    assert content.filled() == b"abc".ljust(64, b"\0") + b"defg".ljust(192, b"\0") + b"h"
    assert Content().filled() == bytes(64)


def test_a_large_constant_stands_in_a_region_once() -> None:
    content, large = Content(), bytes(range(256)) * 256
    places = [content.add(large), content.add(b"small"), content.add(b"small")]
    assert content.add(large) == places[0]
    assert content.add(large[:-1]) > places[2] > places[1]  # another one; small ones stand twice
    assert content.add(large, 65536) == places[0]
    moved = Content(b"x")
    assert moved.add(large) == 64
    assert moved.add(large, 128) % 128 == 0  # there, but not at such a place


def test_a_constant_of_the_graph_is_a_view_with_its_quantization() -> None:
    x = tensor("x", 1, 4)
    two = g.Tensor("two", (1, 4), "int8", g.Quantization(0.5, 3))
    join_two = g.Concatenate(
        name="y",
        inputs=(x, two),
        outputs=(tensor("y", 1, 8),),
        axis=1,
        low=-128,
        high=127,
        rounding=Rounding.DOUBLE,
    )
    graph = g.Graph(
        name="n",
        inputs=(x,),
        outputs=join_two.outputs,
        operators=(join_two,),
        constants={"two": np.full((1, 4), 2, np.int8)},
    )
    content, lifetimes = Content(), find_lifetimes(graph, graph.operators)
    memory = plan_memory(graph, graph.operators, lifetimes, 1, content)
    (view,) = (view for view in memory.views if view.name == "two")
    assert (view.region, view.scale, view.zero_point) == (RegionIndex.CONSTANTS, 0.5, 3)
    assert bytes(content.data) == bytes([2] * 4)


def test_a_constant_operand_is_packed_when_the_model_is_compiled(tmp_path: Path) -> None:
    """Not before each run; on a device of four samples each of them has it."""
    graph, random = onnx_builder.Graph(), np.random.default_rng(0)
    x = graph.dequantize(graph.input((1, 20, 5, 6), np.int8), 2**-4, 3)
    weights = graph.constant(random.integers(-127, 128, (20, 20, 1, 1)).astype(np.int8))
    y = graph.node("Conv", x, graph.dequantize(weights, 2**-7, 0))
    y = graph.dequantize(graph.quantize(y, 2**-4, 1), 2**-4, 1)
    other = graph.constant(random.integers(-127, 128, (1, 20, 5, 6)).astype(np.int8))
    y = graph.quantize(graph.node("Add", y, graph.dequantize(other, 2**-5, -2)), 2**-4, 1)
    data = graph.save([(y, np.int8)])
    (tmp_path / "m.onnx").write_bytes(data)
    compiled = compile(tmp_path / "m.onnx", "vtaq-4x16x16")
    assert [a.backend for a in compiled.partition.assignments if a.operator.kind == "add"] == [
        "vta"
    ]
    packs = [s for s in compiled.artifact.steps if getattr(s, "opcode", None) == HostOpcode.PACK]
    assert len(packs) == 1
    samples = random.integers(-128, 128, (6, 1, 20, 5, 6)).astype(np.int8)
    (got,) = compiled.run(samples)
    for k, sample in enumerate(samples):
        np.testing.assert_array_equal(got[k], onnx_builder.run(data, [sample])[0])


# --- wrong plans: each is the right one, changed at one place ----------------------------------
def mixed() -> tuple[Lifetimes, MemoryLayout]:
    """x -> a -> b on the device, b -> c -> d -> y on the host: x and a live together in the arena,
    as do c and d in the host's memory."""
    tensors = [tensor(name, 1, 4, 4, 16) for name in "xabcdy"]
    operators = tuple(map(conv, tensors, tensors[1:]))
    graph = g.Graph(name="n", inputs=(tensors[0],), outputs=(tensors[5],), operators=operators)
    segments = [region("p", graph, 0, 2), *operators[2:]]
    lifetimes = find_lifetimes(graph, segments)
    return lifetimes, plan_memory(graph, segments, lifetimes, 64)


def moved(space: ArenaPlan, name: str, offset_bytes: int) -> ArenaPlan:
    return dataclasses.replace(space, offset_bytes={**space.offset_bytes, name: offset_bytes})


def test_a_right_plan_passes() -> None:
    lifetimes, memory = mixed()
    assert {claim.name for claim in lifetimes.arena} == {"x", "a", "b"}
    assert {claim.name for claim in lifetimes.rows} == {"b", "c", "d"}
    verify_memory(lifetimes, memory)


@pytest.mark.parametrize(("space", "name", "other"), [("arena", "x", "a"), ("host", "c", "d")])
def test_a_wrong_place_is_found(space: str, name: str, other: str) -> None:
    lifetimes, memory = mixed()
    plan: ArenaPlan = getattr(memory, space)
    without = {key: at for key, at in plan.offset_bytes.items() if key != name}
    size, at = plan.size_bytes, plan.offset_bytes[other]
    for wrong, found in (
        (dataclasses.replace(plan, offset_bytes=without), f"{name} has no place"),
        (moved(plan, name, size - 64), rf"{name} ends at byte {size + 192} of {size}"),
        (moved(plan, name, -64), rf"{name} ends at byte 192 of {size}"),
        (moved(plan, name, 32), rf"{name} begins at 32: no multiple of 64"),
    ):
        with pytest.raises(LoweringError, match=found):
            verify_memory(lifetimes, dataclasses.replace(memory, **{space: wrong}))
    shared = dataclasses.replace(
        memory,
        **{space: moved(plan, name, at)},
        addresses={**memory.addresses, name: Address(RegionIndex.ARENA, at)},
        views=tuple(
            dataclasses.replace(v, offset_bytes=at) if v.name == name else v for v in memory.views
        ),
    )
    with pytest.raises(LoweringError, match="share bytes at step"):
        verify_memory(lifetimes, shared)


@pytest.mark.parametrize(("region", "found"), [("ARENA", "of 64"), ("HOST", "of 64")])
def test_a_region_that_is_too_small_is_found(region: str, found: str) -> None:
    lifetimes, memory = mixed()
    size_bytes = {**memory.size_bytes, RegionIndex[region]: 64}
    with pytest.raises(LoweringError, match=found):
        verify_memory(lifetimes, dataclasses.replace(memory, size_bytes=size_bytes))


def test_a_place_that_is_told_otherwise_is_found() -> None:
    lifetimes, memory = mixed()
    at = memory.addresses["x"].offset_bytes
    for address in (Address(RegionIndex.ARENA, at + 64), Address(RegionIndex.HOST, at)):
        wrong = dataclasses.replace(memory, addresses={**memory.addresses, "x": address})
        with pytest.raises(LoweringError, match="x is said to stand elsewhere"):
            verify_memory(lifetimes, wrong)
    views = tuple(
        dataclasses.replace(v, offset_bytes=v.offset_bytes + 64) if v.name == "c" else v
        for v in memory.views
    )
    with pytest.raises(LoweringError, match="c is said to stand elsewhere"):
        verify_memory(lifetimes, dataclasses.replace(memory, views=views))
