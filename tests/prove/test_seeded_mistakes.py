# SPDX-License-Identifier: Apache-2.0
"""One seeded mistake in each pass that rewrites what a device does: no proof takes the artifact.

Each mistake is one that the pass could have made: what a copy brings begins late, a product is
left out that is not zero, two tiles share a place while both live. The compiler's own verifiers are
off. Without the mistake the same network is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed")

from loadstone.artifact import memory_layout
from loadstone.artifact.format import Artifact
from loadstone.compiler import compile as compile_model
from loadstone.graph import Conv2D
from loadstone.ir_pass import insert_dma_copy
from loadstone.passes.log import VERIFY
from loadstone.prove.proof import Proof
from loadstone.prove.read_tflite import read_tflite
from loadstone.prove.verdict import Status
from loadstone.vta.device.hw_config import HwConfig
from loadstone.vta.isa.packed_weights import expanded
from loadstone.vta.isa.spec import Memory
from loadstone.vta.operators import constants, edges, kernels, residual, weighted
from loadstone.vta.passes.allocate.allocate import Allocate
from loadstone.vta.passes.encode.encode import Encode
from loadstone.vta.passes.prefetch import Prefetch
from loadstone.vta.passes.program import VtaProgram
from loadstone.vta.passes.skip_pads.skip_pads import SkipPads
from loadstone.vta.passes.store_inp.store_inp import StoreInp
from loadstone.vta.passes.synchronize.synchronize import Synchronize
from loadstone.vta.region import fold_pixels, held_constants
from loadstone.vta.stream.operations import GemmNest, TileLoad, TileRole, TileStore
from tests.tflite_builder import Graph, Padding

Patch = pytest.MonkeyPatch


def plain(dtype: type[np.integer[Any]] = np.int8) -> bytes:
    """Two convolutions, the first of few channels with a stride of two, an addition, a dense
    layer."""
    graph, rng = Graph(), np.random.default_rng(7)
    zero = 131 if dtype is np.uint8 else 3
    x = graph.input((1, 16, 16, 3), dtype, 0.05, zero)
    y = _convolution(graph, x, 16, 2, rng)
    z = _convolution(graph, y, 16, 1, rng)
    total = graph.tensor(z.shape, dtype, 0.3, zero)
    graph.operator("ADD", [y, z], [total])
    out = graph.tensor((1, 20), dtype, 2.0, zero)
    inputs = int(np.prod(total.shape))
    w, b = _weights(graph, (20, inputs), dtype, rng), _bias(graph, 20, rng)
    graph.operator("FULLY_CONNECTED", [total, w, b], [out])
    return graph.save([out])


def unsigned() -> bytes:
    """The same of uint8, with a weight of nine bits in each layer."""
    return plain(np.uint8)


def narrow() -> bytes:
    """Depthwise convolutions of few channels, whose columns are folded, between pointwise ones."""
    graph, rng = Graph(), np.random.default_rng(9)
    x = graph.input((1, 16, 16, 16), np.int8, 0.05, 3)
    a = _convolution(graph, x, 8, 1, rng, kernel=1)
    b = _depthwise(graph, a, 1, rng)
    c = graph.tensor(a.shape, np.int8, 0.3, 3)
    graph.operator("ADD", [a, b], [c])
    return graph.save([_convolution(graph, _depthwise(graph, c, 2, rng), 32, 1, rng, kernel=1)])


def _depthwise(graph: Graph, x: Any, stride: int, rng: Any) -> Any:
    channels, size = x.shape[3], x.shape[1] // stride
    y = graph.tensor((1, size, size, channels), np.int8, 0.2, 3)
    w, bias = _weights(graph, (1, 3, 3, channels), np.int8, rng), _bias(graph, channels, rng)
    graph.operator("DEPTHWISE_CONV_2D", [x, w, bias], [y], depth_multiplier=1, **_options(stride))
    return y


def _options(stride: int) -> dict[str, Any]:
    ones = {"dilation_h_factor": 1, "dilation_w_factor": 1}
    return {"padding": Padding.SAME, "stride_h": stride, "stride_w": stride, **ones}


def _convolution(
    graph: Graph, x: Any, channels: int, stride: int, rng: Any, kernel: int = 3
) -> Any:
    dtype = x.dtype.type
    w = _weights(graph, (channels, kernel, kernel, x.shape[3]), dtype, rng)
    size = -(-x.shape[1] // stride)
    y = graph.tensor((1, size, size, channels), dtype, 0.2, x.zero_point[0])
    graph.operator("CONV_2D", [x, w, _bias(graph, channels, rng)], [y], **_options(stride))
    return y


def _weights(graph: Graph, shape: tuple[int, ...], dtype: type[Any], rng: Any) -> Any:
    """Of uint8 a single weight is beyond int8, less its zero point."""
    low, high = (0, 247) if dtype is np.uint8 else (-127, 128)
    levels = rng.integers(low, high, shape).astype(dtype)
    if dtype is np.uint8:
        levels.reshape(-1)[5] = 255
    return graph.constant(levels, 0.01, 120 if dtype is np.uint8 else 0)


def _bias(graph: Graph, channels: int, rng: Any) -> Any:
    return graph.constant(rng.integers(-2000, 2000, channels).astype(np.int32), 0.0005)


def packed() -> bytes:
    """Two dense layers, whose weights are numbers of 4 bits by multipliers beside minima."""
    graph, rng = Graph(), np.random.default_rng(11)
    y = graph.input((1, 64), np.int8, 0.05, 3)
    for outputs in (64, 32):
        multipliers = rng.integers(8, 120, (outputs, 2, 1))
        numbers = rng.integers(0, 16, (outputs, 2, 32)) * multipliers + 4 >> 3
        levels = graph.constant((numbers - 120).reshape(outputs, 64).astype(np.int8), 0.01, 0)
        out = graph.tensor((1, outputs), np.int8, 2.0, 3)
        graph.operator("FULLY_CONNECTED", [y, levels, _bias(graph, outputs, rng)], [out])
        y = out
    return graph.save([y])


# -- mistakes: each says whether it was made -------------------------------------------------------

Made = list[str]
Mistake = Callable[[Patch, Made], None]


def _in_pass(kind: type[Any], change: Callable[[VtaProgram], VtaProgram | None]) -> Mistake:
    """A mistake in what a pass on programs makes, wherever it fits."""

    def seed(patch: Patch, made: Made) -> None:
        run = kind.run

        def wrong(self: Any, program: VtaProgram) -> VtaProgram:
            after: VtaProgram = run(self, program)
            changed = change(after)
            if changed is None:
                return after
            made.append(kind.name)
            return changed

        patch.setattr(kind, "run", wrong)

    return seed


def _without_a_product(program: VtaProgram) -> VtaProgram | None:
    """SkipPads leaves out a GEMM that reads no zeros."""
    places = [k for k, (_, op) in enumerate(program.operations) if isinstance(op, GemmNest)]
    if len(places) < 2:
        return None
    kept = [op for k, op in enumerate(program.operations) if k != places[-1]]
    return replace(program, operations=kept, columns=None)


def _late_load(program: VtaProgram) -> VtaProgram | None:
    """Prefetch moves a load of weights behind the next one's product: their places are swapped."""
    loads = [
        k
        for k, (_, op) in enumerate(program.operations)
        if isinstance(op, TileLoad) and op.dram.role is TileRole.WEIGHTS
    ]
    if len(loads) < 2:
        return None
    operations = list(program.operations)
    first, second = (operations[k][1] for k in loads[:2])
    assert isinstance(first, TileLoad)
    assert isinstance(second, TileLoad)
    operations[loads[0]] = (operations[loads[0]][0], replace(first, dram=second.dram))
    return replace(program, operations=operations, source=None, columns=None)


def _shared_place(program: VtaProgram) -> VtaProgram | None:
    """Allocate gives a tile of weights the place of another one."""
    assert program.tile_address is not None
    tiles = [tile for tile in program.tile_address if tile.memory is Memory.WGT]
    other = next(
        (t for t in tiles if program.tile_address[t] != program.tile_address[tiles[0]]), None
    )
    if other is None:
        return None
    address = {**program.tile_address, other: program.tile_address[tiles[0]]}
    return replace(program, tile_address=address)


def _wrong_micro_op(program: VtaProgram) -> VtaProgram | None:
    """Encode writes a micro-op whose weight tile is the next one."""
    uops = program.uops.copy()
    row = int(np.argmax(uops[:, 2]))
    if not uops[row, 2]:
        return None
    uops[row, 2] -= 1
    return replace(program, uops=uops)


def _without_a_token(program: VtaProgram) -> VtaProgram | None:
    """Synchronize forgets that STORE waits for compute: the pair of both flags is gone."""
    insns = list(program.instructions)
    push = next(
        (k for k, p in enumerate(insns) if p.stage.name == "COMPUTE" and p.insn.push_next), None
    )
    pop = next(
        (k for k, p in enumerate(insns) if p.stage.name == "STORE" and p.insn.pop_prev), None
    )
    if push is None or pop is None:
        return None
    insns[push] = replace(insns[push], insn=replace(insns[push].insn, push_next=0))
    insns[pop] = replace(insns[pop], insn=replace(insns[pop].insn, pop_prev=0))
    return replace(program, instructions=insns)


def _copies(patch: Patch, made: Made) -> None:
    """insert_dma_copy loads a box that begins one place late."""
    right = insert_dma_copy._region

    def wrong(*args: Any) -> Any:
        region = right(*args)
        if region.load is None:
            return region
        made.append("copies")
        return replace(region, load=_late(region.load))

    patch.setattr(insert_dma_copy, "_region", wrong)


def _late(load: Any) -> Any:
    """A copy whose source begins one place later along its first axis that has several."""
    (step,) = load.steps
    to, source = step.operands
    axis = next(k for k, size in enumerate(source.tensor.shape) if size > 1)
    at = tuple(place + 1 if k == axis else place for k, place in enumerate(source.at))
    return replace(load, steps=(step._replace(operands=(to, source._replace(at=at))),))


def _columns(patch: Patch, made: Made) -> None:
    """fold_columns puts the weights of a column beside where they belong."""
    right = fold_pixels.folded_convolution

    def wrong(op: Conv2D, factor_in: int, factor_out: int) -> Conv2D | None:
        folded = right(op, factor_in, factor_out)
        if folded is None:
            return None
        made.append("columns")
        return replace(folded, weights=np.roll(folded.weights, 1, axis=3))

    patch.setattr(fold_pixels, "folded_convolution", wrong)


def _packed(part: int) -> Mistake:
    """pack_weights writes one byte of a group otherwise: 0 of its multipliers, 1 of its minima, 2
    of its numbers."""

    def seed(patch: Patch, made: Made) -> None:
        right = held_constants.packed_weights

        def wrong(*args: Any) -> Any:
            found = right(*args)
            if found is None:
                return None
            other = found.copy()
            other[-1, (3, 16 + 3, 32 + 3)[part]] ^= 0x11
            if np.array_equal(expanded(other, 16), expanded(found, 16)):
                return found
            made.append("weights of 4 bits")
            return other

        patch.setattr(held_constants, "packed_weights", wrong)

    return seed


def _exchanged_cells(program: VtaProgram) -> VtaProgram | None:
    """StoreInp leaves the cells of a store where those of another one belong."""
    operations = list(program.operations)
    stores = [
        (k, layer, op)
        for k, (layer, op) in enumerate(operations)
        if isinstance(op, TileStore) and op.inp is not None
    ]
    for (k, layer, one), (n, _, other) in pairwise(stores):
        same = one.inp != other.inp and one.dram.tensor == other.dram.tensor
        if same and (one.y_size, one.x_size) == (other.y_size, other.x_size):
            operations[k] = layer, replace(one, inp=other.inp)
            operations[n] = layer, replace(other, inp=one.inp)
            return replace(program, operations=operations)
    return None


def _wide(by: int) -> Mistake:
    """The first weight of a sum of two tensors is another one."""

    def seed(patch: Patch, made: Made) -> None:
        right = constants.wide_tile

        def wrong(weight: int, config: HwConfig) -> Any:
            if made:
                return right(weight, config)
            made.append("wide weights")
            return right(weight - by, config)

        patch.setattr(constants, "wide_tile", wrong)

    return seed


def _edges(patch: Patch, made: Made) -> None:
    """with_edges adds another constant where taps lie outside; here it always pays."""
    right = edges.with_edges
    patch.setattr(edges, "_cycles", lambda spec, *_: 0 if spec.edges else 1000)

    def wrong(*args: Any) -> edges.Edges:
        found = right(*args)
        if not found.weights.size:
            return found
        made.append("edges")
        weights = found.weights.copy()
        weights[0, 0, 0] ^= 1
        return replace(found, weights=weights)

    patch.setattr(weighted, "with_edges", wrong)


def _residual(patch: Patch, made: Made) -> None:
    """with_rest adds the rest of another tile of weights."""
    right = residual.with_rest

    def wrong(operations: Any, rest: str, tiles: Any) -> Any:
        found = right(operations, rest, tiles)
        loads = [
            k for k, op in enumerate(found) if isinstance(op, TileLoad) and op.dram.tensor == rest
        ]
        if loads:
            made.append("residual weights")
            del found[loads[-1]]
        return found

    patch.setattr(weighted, "with_rest", wrong)


def _memory(patch: Patch, made: Made) -> None:
    """plan_memory lets two tensors that live together share their bytes."""
    right = memory_layout.plan

    def wrong(*args: Any) -> Any:
        found = right(*args)
        if made:  # the host's memory
            return found
        made.append("memory")
        return replace(found, offset_bytes=dict.fromkeys(found.offset_bytes, 0))

    patch.setattr(memory_layout, "plan", wrong)


#: Pass -> its mistake, and the network that it is made in.
MISTAKES: dict[str, tuple[Mistake, Callable[[], bytes]]] = {
    "copies": (_copies, plain),
    "columns": (_columns, narrow),
    "edges": (_edges, plain),
    "residual weights": (_residual, unsigned),
    "skip_pads": (_in_pass(SkipPads, _without_a_product), plain),
    "prefetch": (_in_pass(Prefetch, _late_load), plain),
    "allocate": (_in_pass(Allocate, _shared_place), plain),
    "encode": (_in_pass(Encode, _wrong_micro_op), plain),
    "synchronize": (_in_pass(Synchronize, _without_a_token), plain),
    "memory": (_memory, plain),
    "multipliers of 4 bits": (_packed(0), packed),
    "minima of 4 bits": (_packed(1), packed),
    "numbers of 4 bits": (_packed(2), packed),
    "store_inp": (_in_pass(StoreInp, _exchanged_cells), plain),
    "low parts of wide weights": (_wide(60), plain),
    "high parts of wide weights": (_wide(128), plain),
}
#: Mistakes in what this device alone can.
SECOND = "vtaq2-1x16x16"
BY_SECOND = [name for name in MISTAKES if "4 bits" in name or "wide" in name or name == "store_inp"]


@contextmanager
def _seeded(mistake: Mistake) -> Iterator[Made]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VERIFY, "0")
        made: Made = []
        kernels._kernel.cache_clear()
        mistake(patch, made)
        yield made
    kernels._kernel.cache_clear()


def _compiled(model: bytes, folder: Path, device: str) -> Artifact:
    (folder / "net.tflite").write_bytes(model)
    return compile_model(folder / "net.tflite", device).artifact


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_pass_is_not_proved(name: str, tmp_path: Path) -> None:
    mistake, network = MISTAKES[name]
    model, device = network(), SECOND if name in BY_SECOND else "vtaq-1x16x16"
    proof = Proof(read_tflite(model, "net.tflite"))
    verdict = proof.of(_compiled(model, tmp_path, device))
    assert verdict.status is Status.PROVED, verdict.reason
    with _seeded(mistake) as made:
        wrong = _compiled(model, tmp_path, device)
    assert made, "the mistake was not made"
    verdict = proof.of(wrong)
    print(verdict.reason)
    assert verdict.status is not Status.PROVED
