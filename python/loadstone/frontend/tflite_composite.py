# SPDX-License-Identifier: Apache-2.0
"""Replace STABLEHLO_COMPOSITE of TFLite by its decomposition.

In:   a TfliteFile, and the bytes it was read from.
Out:  the network without composites.
Next: tflite_variables.py.

A converter keeps an operator of a framework by its name, with a subgraph of builtin operators that
computes the same. LiteRT runs the subgraph where no delegate supports the name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from loadstone.errors import ModelError, UnsupportedError
from loadstone.frontend.message import short
from loadstone.frontend.tflite_file import OperatorRecord, TensorRecord, TfliteFile, read
from loadstone.frontend.tflite_rules import same_quantization

__all__ = ["decomposed"]

COMPOSITE = "STABLEHLO_COMPOSITE"
#: A decomposition may have composites of its own; one that calls itself never ends.
MAX_DEPTH = 16


def decomposed(file: TfliteFile, data: bytes, name: str) -> TfliteFile:
    """data: of the file. Raises ModelError for a decomposition that does not fit its operator, and
    UnsupportedError for one that passes a tensor through."""
    return _Decomposer(file, data, name).run()


class _Decomposer:
    def __init__(self, file: TfliteFile, data: bytes, name: str) -> None:
        self.file, self.data, self.name = file, data, name
        self.tensors = list(file.tensors)

    def run(self) -> TfliteFile:
        operators = tuple(self.expanded(self.file.operators, MAX_DEPTH))
        return replace(self.file, tensors=tuple(self.tensors), operators=operators)

    def expanded(
        self, operators: tuple[OperatorRecord, ...], depth: int
    ) -> Iterator[OperatorRecord]:
        for record in operators:
            if record.code == COMPOSITE:
                yield from self.expanded(self.body(record, depth), depth - 1)
            else:
                yield record

    def where(self, record: OperatorRecord) -> str:
        file = replace(self.file, tensors=tuple(self.tensors))
        return f"{self.name}: {file.describe(record)}"

    def body(self, record: OperatorRecord, depth: int) -> tuple[OperatorRecord, ...]:
        """The operators of a composite's subgraph, on tensors of the network."""
        number = record.options["decomposition_subgraph_index"]
        if depth == 0 or number < 1:
            raise ModelError(
                f"{self.where(record)}: its decomposition, subgraph {number}, contains itself"
            )
        inner = read(self.data, self.name, number)
        place = dict[int, int]()
        for outside, inside in (
            (record.inputs, inner.inputs),
            (record.outputs, inner.outputs),
        ):
            if len(outside) != len(inside):
                raise ModelError(
                    f"{self.where(record)}: it has {len(outside)} tensors where its decomposition, "
                    f"subgraph {number}, has {len(inside)}"
                )
            for outer, index in zip(outside, inside, strict=True):
                if index in place or inner.tensors[index].data is not None:
                    raise UnsupportedError(
                        f"{self.where(record)}: its decomposition gives back "
                        f'"{short(inner.tensors[index].name)}" as it is, which is not done: end '
                        "the model before it and compute it yourself"
                    )
                self.check_same(record, outer, inner.tensors[index])
                place[index] = outer
        for tensor in inner.tensors:
            if tensor.index not in place:
                place[tensor.index] = len(self.tensors)
                self.tensors.append(replace(tensor, index=len(self.tensors)))
        return tuple(
            replace(
                operator,
                index=record.index,
                inputs=tuple(place.get(index, -1) for index in operator.inputs),
                outputs=tuple(place[index] for index in operator.outputs),
            )
            for operator in inner.operators
        )

    def check_same(self, record: OperatorRecord, outer: int, inside: TensorRecord) -> None:
        """Bytes go in and come out as they are."""
        if outer < 0:
            raise ModelError(f"{self.where(record)}: it leaves out an input")
        outside = self.tensors[outer]
        if (outside.shape, outside.dtype) != (inside.shape, inside.dtype) or not same_quantization(
            outside, inside
        ):
            raise ModelError(
                f'{self.where(record)}: "{short(outside.name)}" has another shape, type or scale '
                f'than "{short(inside.name)}" of its decomposition'
            )
