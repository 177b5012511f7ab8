# SPDX-License-Identifier: Apache-2.0
"""offload.py: what a region asks of memory, which operators addresses do, and its program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from loadstone import graph as g
from loadstone.backend.region import Address
from loadstone.numerics import Rounding
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Finish, Gemm
from loadstone.vta.isa.spec import Memory
from loadstone.vta.passes.pipeline import PASSES
from loadstone.vta.region.addresses import find_aliases, is_free
from loadstone.vta.region.offload import OffloadedRegion
from tests import lowered as lo

CONFIG = load_config("vtaq-1x16x16")
CLAMP = {"low": -128, "high": 127, "rounding": Rounding.DOUBLE}


def addition(a: str, b: str, out: str, channels: int = 32) -> g.Add:
    x, y, z = (lo.tensor(name, (1, 4, 4, channels)) for name in (a, b, out))
    return g.Add(name=f"{out} =", inputs=(x, y), outputs=(z,), **CLAMP)


def concatenation(*inputs: g.Tensor) -> g.Concatenate:
    out = lo.tensor("joined", (1, 4, 4, sum(t.shape[3] for t in inputs)))
    return g.Concatenate(name="joined =", inputs=inputs, outputs=(out,), axis=3, **CLAMP)


def first_layer() -> g.Conv2D:
    """Three channels: taps folded into channels fill a tile."""
    rng = np.random.default_rng(0)
    return g.Conv2D(
        name="conv",
        inputs=(lo.tensor("image", (1, 16, 16, 3)),),
        outputs=(lo.tensor("y", (1, 16, 16, 16)),),
        weights=rng.integers(-127, 128, (16, 3, 3, 3)).astype(np.int8),
        weight_scales=np.full(16, 0.01, np.float32),
        weight_zero_points=np.zeros(16, np.int32),
        bias=np.zeros(16, np.int32),
        strides=(1, 1),
        dilation=(1, 1),
        padding=(1, 1, 1, 1),
        groups=1,
        **CLAMP,
    )


def region(*operators: g.Operator, from_host: tuple[str, ...] = ()) -> OffloadedRegion:
    tensors = {t.name: t for o in operators for t in (*o.inputs, *o.outputs)}
    made = {t.name for o in operators for t in o.outputs}
    seen = [t for n, t in tensors.items() if n not in made] + [operators[-1].output]
    return OffloadedRegion("region", operators, [tensors[name] for name in from_host], seen, CONFIG)


def built(made: OffloadedRegion, config: HwConfig = CONFIG) -> list[str]:
    """Layers of the program, with every form and constant at a place of its own."""
    names = [form.name for form, _, _ in made.layouts] + list(made.constants)
    places = {name: Address(2, n << 20) for n, name in enumerate(names)}
    program, uops = made.build(places, Address(1, 0))
    insns = list(decode_stream(program.instructions, config))
    assert isinstance(insns[-1], Finish)
    assert len(uops) % config.tile_bytes(Memory.UOP) == 0
    assert sum(layer.count for layer in program.layers) == len(insns)
    assert max(made.tokens.values()) <= 255
    return [layer.name for layer in program.layers]


def test_layouts_say_who_touches_them_first_and_last() -> None:
    made = region(addition("a", "b", "c"), addition("c", "a", "d"))
    assert {form.name: (first, last) for form, first, last in made.layouts} == {
        "a": (0, 1),
        "b": (0, 0),
        "c": (0, 1),
        "d": (1, 1),
    }
    assert dict.fromkeys(built(made)) == dict.fromkeys(["c =", "d =", "finish"])


def test_products_with_weights_of_zeros_are_left_out() -> None:
    """Of 32 channels the first 16 go nowhere: half of the products."""
    conv = first_layer()

    def products(weights: np.ndarray) -> int:
        x = lo.tensor("image", (1, 16, 16, 32))
        made = region(replace(conv, inputs=(x,), weights=weights))
        names = ("image", "y", *made.constants)
        places = {name: Address(2, n << 20) for n, name in enumerate(names)}
        program, _ = made.build(places, Address(1, 0))
        insns = decode_stream(program.instructions, CONFIG)
        return sum(insn.steps for insn in insns if isinstance(insn, Gemm))

    weights = np.ones((16, 3, 3, 32), np.int8)
    half = weights * (np.arange(32) >= 16)
    assert products(half.astype(np.int8)) * 2 == products(weights)
    assert products(weights * 0) <= 16 * 16  # sums that are set to zero


def test_an_input_from_the_host_is_packed_with_taps_in_channels() -> None:
    plain, packed = region(first_layer()), region(first_layer(), from_host=("image",))
    assert [form.kernel for form, _, _ in plain.layouts] == [(1, 1), (1, 1)]
    image = packed.layouts[0][0]
    assert image.name == "image for conv"
    assert image.kernel != (1, 1)
    assert image.pads == tuple(1 if k > 1 else 0 for k in image.kernel)
    (operations,) = (run for run in packed.runs if run.name == "operations")
    assert operations.text is not None
    assert "image[" in operations.text()
    assert built(packed) == ["conv", "finish"]


def test_whole_blocks_are_joined_by_addresses() -> None:
    whole = [addition("a", "b", "p"), addition("c", "d", "q")]
    joined = concatenation(whole[0].output, whole[1].output)
    made = region(*whole, joined)
    plane = 4 * 4 * CONFIG.tile_bytes(Memory.INP)
    assert made.aliases == {"p": ("joined", 0), "q": ("joined", 2 * plane)}
    assert is_free(joined, CONFIG)
    assert "joined =" not in built(made)
    part = concatenation(lo.tensor("r", (1, 4, 4, 8)), whole[1].output)
    assert not is_free(part, CONFIG)
    assert find_aliases([*whole, part], CONFIG) == {}


def test_the_passes_are_shown_once_there_are_places() -> None:
    made = region(addition("a", "b", "c"))
    assert {run.subject for run in made.runs} == {"region", "c ="}
    assert [run.name for run in made.runs][-1] == "operations"
    built(made)
    passes = [run for run in made.runs if run.entry.stage == "program"]
    assert [run.name for run in passes] == [step.name for step in PASSES]
    assert {run.subject for run in passes} == {"region"}
    assert all(run.verified and run.text is not None and run.text() for run in passes)
