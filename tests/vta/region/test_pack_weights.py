# SPDX-License-Identifier: Apache-2.0
"""Which weights are packed, and that their bytes expand to just these weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

import onnx

from loadstone import compiler
from loadstone.library.native import ffi, lib
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.packed_weights import expanded, packed
from loadstone.vta.isa.spec import SCRATCHPAD_OF, Memory
from loadstone.vta.isa.weight_planes import decoded_rows
from loadstone.vta.region.pack_weights import coded_weights, packed_weights
from loadstone.vta.stream.operations import DramTile, TileLoad, VirtualTile
from tests.onnx_builder import Graph, run

CONFIG = load_config("vtaq2-1x16x16")


def load(first: int = 0, x: int = 2, y: int = 1, stride: int = 2, **pads: int) -> TileLoad:
    tile = VirtualTile(Memory.WGT, 64, "w")
    return TileLoad(Memory.WGT, tile, 0, DramTile("w", first), y, x, stride, **pads)


def drawn(seed: int, groups: int = 3) -> np.ndarray:
    """Weight tiles that have such groups, none of which leaves int8."""
    rng = np.random.default_rng(seed)
    multipliers = rng.integers(0, 137, (groups, 16)).astype(np.uint8)
    most = 127 - (15 * multipliers.astype(int) + 4 >> 3)
    minima = rng.integers(-128, most + 1).astype(np.int8)
    numbers = rng.integers(0, 1 + rng.integers(1, 16), (groups, 2, 16, 16)).astype(np.uint8)
    return expanded(packed(numbers, multipliers, minima), 16)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_whatever_such_numbers_give_is_found_again(seed: int) -> None:
    tiles = drawn(seed)
    found = packed_weights("w", tiles, [load()], CONFIG)
    assert found is not None
    assert found.shape == (3, 288)
    assert np.array_equal(expanded(found, 16), tiles)


def test_one_weight_beside_the_others_leaves_the_constant_as_it_is() -> None:
    tiles = drawn(5)
    row = np.concatenate([tiles[2, 3], tiles[3, 3]])
    free = sorted(set(range(-128, 128)) - set(row.tolist()))
    refused = 0
    for weight in free:
        other = tiles.copy()
        other[2, 3, 7] = weight
        found = packed_weights("w", other, [load()], CONFIG)
        assert found is None or np.array_equal(expanded(found, 16), other)
        refused += found is None
    assert refused > 100
    noise = np.random.default_rng(1).integers(-128, 128, tiles.shape).astype(np.int8)
    assert packed_weights("w", noise, [load()], CONFIG) is None


@pytest.mark.parametrize(
    "bad",
    [load(first=1), load(x=3), load(y=2, stride=3), load(x=1), load(x_pad_0=2), load(y_pad_1=1)],
)
def test_loads_of_parts_of_groups_leave_it_as_it_is(bad: TileLoad) -> None:
    tiles = drawn(6)
    assert (
        packed_weights("w", tiles, [load(), load(2, 4, 1), load(y=2, stride=4)], CONFIG) is not None
    )
    assert packed_weights("w", tiles, [load(), bad], CONFIG) is None
    other = replace(bad, dram=DramTile("v", bad.dram.tile))
    assert packed_weights("w", tiles, [load(), other], CONFIG) is not None


def test_not_where_the_device_or_the_size_does_not_allow_it() -> None:
    tiles = drawn(7)
    assert packed_weights("w", tiles, [load()], load_config("vtaq-1x16x16")) is None
    assert packed_weights("w", tiles[:5], [load()], CONFIG) is None


def test_a_block_that_no_group_fits_is_an_error() -> None:
    none = ffi.new("int8_t[]", 4), ffi.new("uint8_t[]", 36)
    assert lib().lds_weights4(none[0], 1, 2, none[1]) == lib().LDS_WEIGHTS4_BAD_ARGUMENT


@pytest.mark.parametrize("rows", [1, 20])
def test_a_dense_layer_of_such_weights_is_loaded_by_4_bits_and_is_exact(rows: int) -> None:
    """Its numbers alone say that it has 4 bits; a device without the capability loads bytes."""
    tiles = np.stack([drawn(seed, groups=3) for seed in range(4)])  # of 64 outputs, 96 inputs
    weights = np.ascontiguousarray(tiles.transpose(0, 2, 1, 3).reshape(64, 96).T)
    graph = Graph()
    x = graph.input((rows, 96), np.int8)
    y = graph.node("MatMulInteger", x, graph.constant(weights))
    model = graph.save([(y, np.int32)], [(rows, 64)])
    given = np.random.default_rng(2).integers(-128, 128, (rows, 96)).astype(np.int8)
    (wanted,) = run(model, [given])
    loaded = {}
    for name in ("vtaq-1x16x16", "vtaq2-1x16x16"):
        compiled = compiler.compile(onnx.load_model_from_string(model), name)
        assert np.array_equal(compiled.run(given[None])[0][0], wanted), name
        config = load_config(name)
        loads = [
            insn
            for program in compiled.artifact.programs
            for insn in decode_stream(program.instructions, config)
            if isinstance(insn, Load) and insn.memory_id in (Memory.WGT, Memory.WGT_4BIT)
        ]
        sizes = [i.x_size * i.y_size * config.tile_bytes(Memory(i.memory_id)) for i in loads]
        loaded[name] = sum(sizes)
        memory = Memory.WGT_4BIT if name == "vtaq2-1x16x16" else Memory.WGT
        assert {i.memory_id for i in loads if not i.is_noop} == {memory}
    assert loaded == {"vtaq-1x16x16": 64 * 96, "vtaq2-1x16x16": 64 * 96 * 9 // 16}


def test_weights_are_coded_where_that_is_a_sixteenth_shorter() -> None:
    """Four planes and a head's nibble are 17 of 32 words; seven are 29, and eight more than all."""
    rng = np.random.default_rng(3)
    for bits, words in ((3, 17), (4, 17), (6, 25), (7, 29)):
        limit = 1 << bits - 1
        tiles = rng.integers(-limit, limit, (6, 16, 16)).astype(np.int8)
        tiles[:, :, 0] = -limit
        found = coded_weights("w", tiles, [load()], CONFIG)
        assert found is not None
        assert found[1].tolist() == [words * tile for tile in range(7)]
        assert np.array_equal(decoded_rows(found[0], 96).reshape(tiles.shape), tiles)
    assert coded_weights("w", tiles, [load()], load_config("vtaq-1x16x16")) is None
    tiles[:, :, 0] = -128
    assert coded_weights("w", tiles, [load()], CONFIG) is None
    tiles[:3, :, 0] = -1  # of 198 words 12 fewer than the tiles', and then one more
    assert coded_weights("w", tiles, [load()], CONFIG) is None


@pytest.mark.parametrize("bad", [load(y=2, stride=3), load(x_pad_0=2), load(y_pad_1=1)])
def test_loads_of_rows_apart_leave_weights_uncoded(bad: TileLoad) -> None:
    tiles = np.ones((12, 16, 16), np.int8)
    fine = [load(), load(1, 3, 1), load(y=2, x=4, stride=4)]
    assert coded_weights("w", tiles, fine, CONFIG) is not None
    assert coded_weights("w", tiles, [*fine, bad], CONFIG) is None


def test_a_dense_layer_of_small_weights_is_loaded_in_bit_planes_and_is_exact() -> None:
    rng = np.random.default_rng(8)
    weights = np.clip(np.rint(rng.laplace(0, 6, (96, 64))), -127, 127).astype(np.int8)
    graph = Graph()
    x = graph.input((3, 96), np.int8)
    y = graph.node("MatMulInteger", x, graph.constant(weights))
    model = graph.save([(y, np.int32)], [(3, 64)])
    given = rng.integers(-128, 128, (3, 96)).astype(np.int8)
    (wanted,) = run(model, [given])
    compiled = compiler.compile(onnx.load_model_from_string(model), "vtaq2-1x16x16")
    assert np.array_equal(compiled.run(given[None])[0][0], wanted)
    loads = [
        insn
        for program in compiled.artifact.programs
        for insn in decode_stream(program.instructions, CONFIG)
        if isinstance(insn, Load) and SCRATCHPAD_OF[Memory(insn.memory_id)] is Memory.WGT
    ]
    assert {i.memory_id for i in loads if not i.is_noop} == {Memory.WGT_PLANES}
    assert 0.5 < sum(8 * i.x_size for i in loads) / (64 * 96) < 0.9
