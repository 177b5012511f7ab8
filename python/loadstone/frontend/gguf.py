# SPDX-License-Identifier: Apache-2.0
"""GGUF to Relax: a decoder of the Llama family, with dynamic int8.

In:   the bytes of a GGUF file.
Out:  an IRModule whose `main` takes `tokens` (R,) and `place` (2,), a position and how many of the
      tokens are valid, and gives the `scores` of the last valid one, float32 (1, vocabulary). Its
      caches are states: int8 (groups, places, size) after RoPE, and a float32 scale for each place.
Next: vta/region/byte_planes.py brings the sums out of a device, artifact/states.py keeps the caches
      in place.

Weights become int8, a scale a channel, and each row of activations gets a scale of its own when the
network runs; where rows are whole blocks of 64, and nobody says otherwise, both are rotated by
Hadamard matrices first (relax/row_numerics.py). R and the places are the reader's: shapes `tokens`
and `window`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError
from loadstone.frontend.gguf_decoder import DecoderSizes, decoder_sizes
from loadstone.frontend.gguf_file import GgufFile
from loadstone.frontend.names import OUTPUTS
from loadstone.frontend.reading import STATES, WEIGHT_ERRORS, WHOLE, Reading
from loadstone.numerics import Array
from loadstone.relax import row_calls as calls
from loadstone.relax import row_numerics as rows
from loadstone.relax.compat import abandoning, exact_constant, named, relax, shape, tvm, with_main
from loadstone.relax.grid_weights import error_entry, grid_levels, weights_error

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, IRModule, Var

__all__ = ["from_bytes"]

#: Places of the caches where nobody says how many.
_PLACES = 512
_BLOCK = 64  # of a rotation
_OUTPUTS = 4096  # that are quantized at a time
_CACHES = ("keys", "key_scales", "values", "value_scales")


def from_bytes(data: bytes, name: str, reading: Reading = WHOLE) -> IRModule:
    """Raises ModelError, one line, for a file that is damaged, of another architecture, or says
    what is not understood."""
    file = GgufFile(data, name)
    sizes = decoder_sizes(file)
    count, places = _asked(reading, name, min(_PLACES, sizes.context))
    if places > sizes.context:
        raise ModelError(f"{name}: a window of {places} is more than its context {sizes.context}")
    if count > places:
        raise ModelError(f"{name}: {count} tokens are more than the {places} places of its window")
    return _Decoder(file, sizes, (count, places), reading).module()


def _asked(reading: Reading, name: str, places: int) -> tuple[int, int]:
    """(tokens of a run, places). Raises ModelError for other options."""
    shapes = dict(reading.shapes)
    tokens, window = shapes.pop("tokens", (1,)), shapes.pop("window", (places,))
    if shapes or reading.inputs or reading.outputs or len(tokens) != 1 or len(window) != 1:
        raise ModelError(
            f"{name}: of a GGUF file two sizes can be said: tokens=R, of one run, and "
            "window=N, of its caches"
        )
    return tokens[0], window[0]


@dataclass(frozen=True)
class _Integers:
    """Weights as constants: int8 levels (inputs, outputs), float32 scales of the outputs."""

    levels: Expr
    scales: Expr
    outputs: int
    rotated: bool


class _Decoder:
    """Writes one module. extents: rows of a run, places of the caches."""

    def __init__(
        self, file: GgufFile, sizes: DecoderSizes, extents: tuple[int, int], reading: Reading
    ) -> None:
        self.rotates, self.weights4 = reading.rotate != 0, reading.weights4
        self.file, self.sizes = file, sizes
        self.count, self.places = extents
        self.bb = relax.BlockBuilder()
        self.tokens = relax.Var("tokens", relax.TensorType((self.count,), "int32"))
        self.place = relax.Var("place", relax.TensorType((2,), "int32"))
        self.caches = [self._cache(layer) for layer in range(sizes.layers)]
        self.read: set[str] = set()
        self.errors: list[str] = []  # as WEIGHT_ERRORS says
        self.rounded: dict[tuple[Expr, bool], tuple[Expr, Expr]] = {}
        self.divisors = self._weights("rope_freqs.weight") if self._has("rope_freqs") else None
        self.tables: dict[tuple[float, float], Expr] = {}

    def module(self) -> IRModule:
        """All layers and the head."""
        parameters = [self.tokens, self.place, *(v for own in self.caches for v in own.values())]
        with abandoning(self.bb), self.bb.function("main", parameters):
            with self.bb.dataflow():
                outputs = self._written()
                final = self.bb.emit_output(relax.Tuple(outputs))
            self.bb.emit_func_output(final)
        names = ["scores", *(f"{v.name}_next" for own in self.caches for v in own.values())]
        states = [
            json.dumps({"input": 2 + k, "output": 1 + k, "begin": ""})
            for k in range(len(outputs) - 1)
        ]
        main = with_main(self.bb.get())["main"]
        attributes = {STATES: states, OUTPUTS: names, "loadstone.numerics": "onnx"}
        attributes[WEIGHT_ERRORS] = self.errors
        return tvm.IRModule({"main": main.with_attrs(attributes)})

    def _written(self) -> list[Expr]:
        """The scores, and all caches."""
        kept: list[Expr] = []
        width, is_tied = self.sizes.width, not self._has("output")
        head = self._integers("token_embd.weight" if is_tied else "output.weight", width)
        embedded = self._embedded_by(head) if is_tied else self._embedded()
        x = self._emit(relax.op.reshape(embedded, (1, self.count, width)), "rows")
        for layer in range(self.sizes.layers):
            x, after = self._layer(layer, x)
            kept += after
        last = self._norm(self._last(x), "output_norm")
        scores = self._product(last, head, "head")
        scores = self._emit(relax.op.reshape(scores, (1, head.outputs)), "scores")
        self._check_all_read()
        return [scores, *kept]

    def _embedded(self) -> Expr:
        """Rows of the embedding; where the file has integers and scales these are kept."""
        embedding = self._weights("token_embd.weight")
        self._check("token_embd.weight", embedding, (len(embedding), self.sizes.width))
        scale, blocks = (
            np.float32(self.sizes.embedding_scale),
            self.file.blocks("token_embd.weight"),
        )
        if blocks is None:
            table = exact_constant(embedding * scale)
            return self._emit(relax.op.take(table, self.tokens, 0), "embedded")
        tables = {"levels": exact_constant(blocks[0]), "scales": exact_constant(blocks[1])}
        levels, scales = (
            self._emit(relax.op.take(table, self.tokens, 0), f"embedded.{name}")
            for name, table in tables.items()
        )
        channels = exact_constant(np.full(blocks[0].shape[2], scale, np.float32))
        return self._emit(calls.rescale_rows(levels, scales, channels, planes=1), "embedded")

    def _embedded_by(self, head: _Integers) -> Expr:
        """Rows of the embedding out of the head's weights, which are the same, so that they stand
        in memory once; the Hadamard matrix turns back what it has turned."""
        levels = self._emit(calls.take_columns(head.levels, self.tokens), "embedded.levels")
        scales = self._emit(relax.op.take(head.scales, self.tokens, 0), "embedded.scales")
        factor = np.float32(self.sizes.embedding_scale)
        channels = exact_constant(np.full(self.sizes.width, factor, np.float32))
        made = self._emit(calls.rescale_rows(levels, scales, channels, planes=1), "embedded")
        if not head.rotated:
            return made
        turned = relax.op.reshape(made, (-1, _BLOCK))
        matrix = exact_constant(rows.hadamard(np.eye(_BLOCK, dtype=np.float32)))
        return self._emit(relax.op.matmul(self._emit(turned, "blocks"), matrix), "turned")

    # --- parts ------------------------------------------------------------------------------------
    def _layer(self, layer: int, x: Expr) -> tuple[Expr, list[Expr]]:
        """(rows, the caches after it)."""
        sizes, name = self.sizes, f"blk.{layer}"
        h = self._norm(x, f"{name}.attn_norm")
        q = self._heads(self._linear(h, f"{name}.attn_q"), sizes.heads, f"{name}.attn_q")
        k = self._heads(self._linear(h, f"{name}.attn_k"), sizes.groups, f"{name}.attn_k")
        v = self._heads(
            self._linear(h, f"{name}.attn_v"), sizes.groups, f"{name}.attn_v", turned=False
        )
        q, k = self._turned(q, layer, f"{name}.q"), self._turned(k, layer, f"{name}.k")
        after = [*self._kept(layer, "key", k), *self._kept(layer, "value", v)]
        attended = self._emit(
            calls.attention(q, self.place, after, window=sizes.windows[layer], factor=sizes.factor),
            f"{name}.attended",
        )
        joined = (1, self.count, sizes.heads * sizes.size)
        attended = self._emit(relax.op.reshape(attended, joined), f"{name}.joined")
        y = self._linear(attended, f"{name}.attn_output")
        x = self._emit(
            relax.op.add(x, self._post(y, f"{name}.post_attention_norm")), f"{name}.mixed"
        )
        h = self._norm(x, f"{name}.ffn_norm")
        gate, up = self._linear(h, f"{name}.ffn_gate"), self._linear(h, f"{name}.ffn_up")
        gated = self._emit(calls.gate(gate, up, function=sizes.activation), f"{name}.gated")
        y = self._linear(gated, f"{name}.ffn_down")
        return self._emit(
            relax.op.add(x, self._post(y, f"{name}.post_ffw_norm")), f"{name}.out"
        ), after

    def _heads(self, x: Expr, heads: int, name: str, *, turned: bool = True) -> Expr:
        """(1, rows, heads, size), each normalized where the file has weights for it."""
        extents = (1, self.count, heads, self.sizes.size)
        split = self._emit(relax.op.reshape(x, extents), f"{name}.heads")
        norm = f"{name}_norm"
        return self._norm(split, norm) if turned and self._has(norm) else split

    def _turned(self, x: Expr, layer: int, name: str) -> Expr:
        made = calls.rotate_places(
            x, self.place, self._angles(layer), neighbours=self.sizes.neighbours
        )
        return self._emit(made, f"{name}.turned")

    def _kept(self, layer: int, kind: str, x: Expr) -> list[Expr]:
        """The caches with these rows, int8 and scales."""
        own, name = self.caches[layer], f"blk.{layer}.{kind}"
        scales = self._emit(calls.row_scales(x, rotate=False), f"{name}.scale")
        levels = self._emit(calls.quantize_rows(x, scales, rotate=False), f"{name}.levels")
        return [
            self._emit(calls.keep_rows(own[cache], new, self.place), f"{own[cache].name}_next")
            for cache, new in ((f"{kind}s", levels), (f"{kind}_scales", scales))
        ]

    def _norm(self, x: Expr, name: str) -> Expr:
        weights = self._weights(f"{name}.weight")
        self._check(name, weights, ((shape(x) or ())[-1],))
        made = calls.rms_norm(x, exact_constant(weights), self.sizes.epsilon)
        return self._emit(made, name)

    def _post(self, y: Expr, name: str) -> Expr:
        """Gemma normalizes what it adds, too."""
        return self._norm(y, name) if self._has(name) else y

    def _linear(self, x: Expr, name: str) -> Expr:
        y = self._product(x, self._integers(f"{name}.weight", (shape(x) or ())[-1]), name)
        if f"{name}.bias" not in self.file.tensors:
            return y
        bias = self._weights(f"{name}.bias")
        self._check(f"{name}.bias", bias, ((shape(y) or ())[-1],))
        return self._emit(relax.op.add(y, exact_constant(bias)), f"{name}.biased")

    def _integers(self, name: str, depth: int) -> _Integers:
        """Weights (outputs, depth) of the file, rounded."""
        weights = self._weights(name)
        if weights.ndim != 2 or weights.shape[1] != depth:
            self._check(name, weights, (len(weights), depth))
        packs = self._packs(name)
        rotate = self.rotates and depth % _BLOCK == 0 and not packs
        scales, levels = self._grid(name, weights) if packs else _quantized(weights, rotate)
        turned = exact_constant(np.ascontiguousarray(levels.T))
        return _Integers(turned, exact_constant(scales.reshape(-1)), len(weights), rotate)

    def _packs(self, name: str) -> bool:
        """Whether a linear keeps the file's 4 bits: those of the layers, or all but their last."""
        if not self.weights4 or not name.startswith("blk."):
            return False
        return self.weights4 == "all" or not name.endswith("ffn_down.weight")

    def _grid(
        self, name: str, weights: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
        """Scales and levels of weights that have 4 bits in the file. Notes by how much they change,
        and by how much int8 would change them, which rotates as the reader says."""
        found = grid_levels(weights)
        if found is None:
            raise ModelError(
                f"{self.file.name}: {name!r} is {self.file.encoding(name)} of {weights.shape[1]} "
                "inputs, which has no 16 equidistant values in each group of 32: leave weights4 "
                "out, or convert the model to Q4_0, Q4_1 or Q4_K"
            )
        rotate = self.rotates and weights.shape[1] % _BLOCK == 0
        turned = rows.hadamard(weights) if rotate else weights
        errors = [
            weights_error(real, levels, scales)
            for real, (scales, levels) in ((weights, found), (turned, _quantized(weights, rotate)))
        ]
        self.errors.append(json.dumps(error_entry(name.removesuffix(".weight"), *errors)))
        return found

    def _product(self, x: Expr, weights: _Integers, name: str) -> Expr:
        """Rows times weights. The row's scale is found once for all that read it."""
        integers, scale = self._rounded(x, weights.rotated, name)
        made = relax.op.matmul(integers, weights.levels, out_dtype="int32")
        sums = self._emit(made, f"{name}.sums")
        return self._emit(calls.rescale_rows(sums, scale, weights.scales), name)

    def _rounded(self, x: Expr, rotate: bool, name: str) -> tuple[Expr, Expr]:
        """int8 and scale of each row."""
        if (x, rotate) not in self.rounded:
            scale = self._emit(calls.row_scales(x, rotate=rotate), f"{name}.scale")
            levels = calls.quantize_rows(x, scale, rotate=rotate)
            self.rounded[x, rotate] = self._emit(levels, f"{name}.levels"), scale
        return self.rounded[x, rotate]

    def _last(self, x: Expr) -> Expr:
        """The last valid row, (1, 1, width): with a row of zeros in front it is number `valid`."""
        if self.count == 1:
            return x
        width = self.sizes.width
        flat = self._emit(relax.op.reshape(x, (self.count, width)), "last.rows")
        none = exact_constant(np.zeros((1, width), np.float32))
        whole = self._emit(relax.op.concat([none, flat], 0), "last.all")
        number = self._emit(relax.op.strided_slice(self.place, [0], [1], [2]), "last.number")
        row = self._emit(relax.op.take(whole, number, 0), "last.row")
        return self._emit(relax.op.reshape(row, (1, 1, width)), "last")

    def _angles(self, layer: int) -> Expr:
        key = self.sizes.angles[layer]
        if key not in self.tables:
            table = self.sizes.table(layer, self.places, self.divisors)
            self.tables[key] = exact_constant(table)
        return self.tables[key]

    # --- the file ---------------------------------------------------------------------------------
    def _has(self, name: str) -> bool:
        return f"{name}.weight" in self.file.tensors

    def _weights(self, name: str) -> NDArray[np.float32]:
        self.read.add(name)
        return self.file.real(name)

    def _check(self, name: str, weights: Array, wanted: tuple[int, ...]) -> None:
        if weights.shape != wanted:
            raise ModelError(
                f"{self.file.name}: {name!r} has the shape {list(weights.shape)}, not "
                f"{list(wanted)}"
            )

    def _check_all_read(self) -> None:
        unread = [name for name in self.file.tensors if name not in self.read]
        if unread:
            raise ModelError(
                f"{self.file.name}: the tensor {unread[0]!r} is not understood: its decoder "
                "computes something that this front end does not write"
            )

    # --- Relax ------------------------------------------------------------------------------------
    def _cache(self, layer: int) -> Mapping[str, Var]:
        groups, size = self.sizes.groups, self.sizes.size
        kinds = {"keys": (size, "int8"), "values": (size, "int8")}
        return {
            name: relax.Var(
                f"{name}_{layer}",
                relax.TensorType(
                    (groups, self.places, kinds.get(name, (1, ""))[0]),
                    kinds.get(name, (1, "float32"))[1],
                ),
            )
            for name in _CACHES
        }

    def _emit(self, call: Call, name: str) -> Expr:
        return self.bb.emit(named(call, name), name_hint=name)


def _quantized(
    weights: NDArray[np.float32], rotate: bool
) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """A scale for each output, and the integers. Some outputs at a time: an embedding is a large
    part of the machine's memory, and so is each step on all of it."""
    count = -(-len(weights) // _OUTPUTS)
    parts = [
        (scales, rows.quantize_rows(some, scales, rotate))
        for some in np.array_split(weights, count)
        for scales in (rows.row_scales(some, rotate),)
    ]
    channels, levels = zip(*parts, strict=True)
    return np.concatenate(channels), np.concatenate(levels)
