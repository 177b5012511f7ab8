# SPDX-License-Identifier: Apache-2.0
"""GGUF: the keys and tensors of a file of llama.cpp's, every length held against the file first.

In:   the bytes of a file of version 2 or 3, little-endian.
Out:  GgufFile: what the keys say, tensors as float32 by the package `gguf`.
Next: gguf_decoder.py reads the sizes of a decoder from the keys.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import ModelError

__all__ = ["GgufFile", "Value"]

#: What a key holds.
Value: TypeAlias = "int | float | str | list[Value]"

_STRING, _ARRAY = 8, 9
#: Formats of struct, by the numbers of the file's types.
_SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIif?Qqd", strict=True))
_MOST_AXES = 4
_Q8_BYTES = 34  # of a block in Q8_0: a scale of float16, 32 integers
_LEAST_BYTES_OF_A_KEY = 8 + 4 + 1
_LEAST_BYTES_OF_A_TENSOR = 8 + 4 + 8 + 4 + 8


@dataclass(frozen=True)
class _Tensor:
    """shape: rows first. kind: the number of its encoding. offset: in the file."""

    shape: tuple[int, ...]
    kind: int
    offset: int
    size_bytes: int


class GgufFile:
    """keys: by name. Raises ModelError, one line, for what is cut, hostile or no GGUF."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name, self.data = name, data
        self.keys: dict[str, Value] = {}
        self.tensors: dict[str, _Tensor] = {}
        try:
            self._package = import_module("gguf")
        except ImportError as error:
            raise ModelError(
                f"{name}: the package gguf is missing: pip install 'loadstone[language]'"
            ) from error
        try:
            self._read(_Cursor(data))
        except (_WrongError, UnicodeDecodeError) as error:
            raise ModelError(f"{name}: no sound GGUF file: {error}") from None

    def real(self, name: str) -> NDArray[np.float32]:
        """A tensor as float32, (rows, columns). Raises ModelError where it is missing, or holds
        what is no number."""
        if name not in self.tensors:
            raise ModelError(f"{self.name}: the tensor {name!r} is missing")
        tensor, package = self.tensors[name], self._package
        raw = np.frombuffer(self.data, np.uint8, tensor.size_bytes, tensor.offset)
        kind = package.GGMLQuantizationType(tensor.kind)
        rows = raw.reshape(*tensor.shape[:-1], -1)
        try:
            with np.errstate(all="ignore"):  # what is no number is refused below
                found = package.quants.dequantize(rows, kind)
        except NotImplementedError:
            raise ModelError(
                f"{self.name}: {name!r} is {kind.name}, which the package gguf cannot decode: "
                "convert the model to Q8_0 or F16"
            ) from None
        made = np.asarray(found, np.float32).reshape(tensor.shape)
        if not np.isfinite(made).all():
            raise ModelError(f"{self.name}: {name!r} holds infinity or what is no number")
        return made

    def encoding(self, name: str) -> str:
        """What a tensor is encoded as: `Q4_1`."""
        return str(self._package.GGMLQuantizationType(self.tensors[name].kind).name)

    def blocks(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
        """Of a tensor in Q8_0 its integers (rows, blocks, 32) and their scales (rows, blocks), as
        the file has them: their product is the tensor. None for other encodings."""
        tensor = self.tensors.get(name)
        kind = self._package.GGMLQuantizationType.Q8_0
        if tensor is None or tensor.kind != int(kind) or len(tensor.shape) != 2:
            return None
        raw = np.frombuffer(self.data, np.uint8, tensor.size_bytes, tensor.offset)
        whole = raw.reshape(tensor.shape[0], -1, _Q8_BYTES)
        scales = np.ascontiguousarray(whole[..., :2]).view("<f2")[..., 0].astype(np.float32)
        return np.ascontiguousarray(whole[..., 2:]).view(np.int8), scales

    def _read(self, at: _Cursor) -> None:
        if at.bytes(4) != b"GGUF":
            raise _WrongError("it does not begin with GGUF")
        version, tensors, keys = at.numbers("IQQ")
        if version not in (2, 3):
            raise _WrongError(f"version {version} is not 2 or 3 (little-endian)")
        at.need(keys, _LEAST_BYTES_OF_A_KEY, "keys")
        for _ in range(keys):
            name = at.text()
            if name in self.keys:
                raise _WrongError(f"the key {name!r} stands there twice")
            self.keys[name] = at.value(at.numbers("I")[0])
        at.need(tensors, _LEAST_BYTES_OF_A_TENSOR, "tensors")
        found = [self._entry(at) for _ in range(tensors)]
        align = self.keys.get("general.alignment", 32)
        if not isinstance(align, int) or align < 1 or align & (align - 1):
            raise _WrongError(f"general.alignment {align!r} is no power of two")
        base = -(-at.place // align) * align
        for name, shape, kind, offset in found:
            self._keep(name, _Tensor(shape, kind, base + offset, self._size(name, shape, kind)))

    def _keep(self, name: str, tensor: _Tensor) -> None:
        if name in self.tensors:
            raise _WrongError(f"the tensor {name!r} stands there twice")
        if tensor.offset + tensor.size_bytes > len(self.data):
            raise _WrongError(f"the tensor {name!r} lies beyond the file's end")
        self.tensors[name] = tensor

    def _entry(self, at: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
        name = at.text()
        (axes,) = at.numbers("I")
        if not 1 <= axes <= _MOST_AXES:
            raise _WrongError(f"the tensor {name!r} has {axes} axes")
        shape = at.numbers(f"{axes}Q")
        kind, offset = at.numbers("IQ")
        return name, tuple(shape[::-1]), kind, offset

    def _size(self, name: str, shape: tuple[int, ...], kind: int) -> int:
        sizes = self._package.GGML_QUANT_SIZES
        if kind not in {int(known) for known in sizes}:
            raise _WrongError(f"the tensor {name!r} has the unknown encoding {kind}")
        block, block_bytes = sizes[self._package.GGMLQuantizationType(kind)]
        if 0 in shape or shape[-1] % block:
            raise _WrongError(f"the tensor {name!r} has the shape {list(shape)}")
        return prod(shape) // int(block) * int(block_bytes)


class _WrongError(Exception):
    """What is wrong with the bytes."""


class _Cursor:
    """Reads on; never beyond the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def need(self, count: int, each: int, what: str) -> None:
        """Whether so many things of at least so many bytes can follow."""
        if count * each > len(self.data) - self.place:
            raise _WrongError(f"it says {count} {what}, and ends before")

    def bytes(self, count: int) -> bytes:
        """The next ones."""
        self.need(count, 1, "bytes")
        self.place += count
        return self.data[self.place - count : self.place]

    def numbers(self, form: str) -> tuple[int, ...]:
        """As struct has them, without gaps."""
        form = "<" + form
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def text(self) -> str:
        """Its length, then UTF-8."""
        return self.bytes(self.numbers("Q")[0]).decode("utf-8")

    def value(self, kind: int) -> Value:
        """Of one of the file's types."""
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            inner, count = self.numbers("IQ")
            if inner == _ARRAY:
                raise _WrongError("an array of arrays")
            return self.array(inner, count)
        return self.numbers(self.form(kind))[0]

    def form(self, kind: int) -> str:
        """Of struct, of one number."""
        if kind not in _SCALARS:
            raise _WrongError(f"a value has the unknown type {kind}")
        return _SCALARS[kind]

    def array(self, kind: int, count: int) -> list[Value]:
        """count: what the file says."""
        if kind == _STRING:
            self.need(count, 8, "texts")
            one: Callable[[], Value] = self.text
            return [one() for _ in range(count)]
        form = self.form(kind)
        self.need(count, struct.calcsize("<" + form), "numbers")
        return list(self.numbers(f"{count}{form}"))
