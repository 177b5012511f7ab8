# SPDX-License-Identifier: Apache-2.0
"""Random models of one ONNX operator: every attribute that its converter reads, at other values
than the default.

In:   an operator's name and a seed.
Out:  `drawn`: a model with its inputs; `outcomes`: equal to ONNX Runtime without optimisations,
      refused, or wrong.
Next: test_attribute_sweep.py, and the tests of operators/, each for its own operators.

What ONNX Runtime itself refuses is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from loadstone.compiler import Compiled, compile
from loadstone.errors import LoadstoneError
from loadstone.runtime.c_step import prepare
from tests.frontend.onnx.node_cases import PYTHON
from tests.onnx_builder import run

Array = NDArray[Any]
__all__ = ["DEVICE", "Drawn", "Sketch", "check", "converted", "drawn", "outcomes"]

DEVICE = "vtaq-1x16x16"
FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@dataclass
class Sketch:
    """One node under construction. rng: where all numbers come from."""

    rng: np.random.Generator
    inputs: list[tuple[str, Array, bool]] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 17
    domain: str = ""

    def one(self, *choices: Any) -> Any:
        """One of them."""
        return choices[int(self.rng.integers(len(choices)))]

    def number(self, low: int, high: int) -> int:
        """A number of [low, high]."""
        return int(self.rng.integers(low, high + 1))

    def shape(self, low: int = 1, high: int = 4) -> tuple[int, ...]:
        """Of so many dimensions."""
        return tuple(self.number(1, 5) for _ in range(self.number(low, high)))

    def values(self, shape: Sequence[int], kind: str = "float32", scale: float = 2.0) -> Array:
        """Numbers of a type: real ones around 0, all that small integers may be."""
        if kind == "bool":
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if kind.startswith("float"):
            return (self.rng.normal(size=shape) * scale).astype(kind)
        low = 0 if kind.startswith("uint") else -9
        return self.rng.integers(low, 10, shape).astype(kind)

    def input(self, value: Array) -> Array:
        """A tensor that is there when the model runs."""
        self.inputs.append((f"x{len(self.inputs)}", value, False))
        return value

    def constant(self, value: Any, kind: str = "int64") -> None:
        """An initializer."""
        self.inputs.append((f"x{len(self.inputs)}", np.asarray(value, kind), True))

    def nothing(self) -> None:
        """An optional input that is left out."""
        self.inputs.append(("", np.zeros(0), True))

    def maybe(self, **attributes: Any) -> None:
        """Says each attribute, or leaves it at its default."""
        for name, value in attributes.items():
            if self.rng.integers(4):
                self.attributes[name] = value

    def axis(self, rank: int) -> int:
        """From the front or from the back."""
        return self.number(-rank, rank - 1)

    def broadcast(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that stretches to this one."""
        kept = [n if self.rng.integers(3) else 1 for n in shape]
        return tuple(kept[self.number(0, len(kept) - 1) if kept and self.rng.integers(2) else 0 :])


@dataclass(frozen=True, eq=False)
class Drawn:
    """A model with inputs, and what ONNX Runtime makes of them."""

    op_type: str
    seed: int
    model: onnx.ModelProto
    inputs: Sequence[Array]
    outputs: Sequence[Array]


def drawn(op_type: str, sketch: Callable[[Sketch], None], seed: int) -> Drawn | None:
    """None where ONNX Runtime takes nothing of twenty that were drawn."""
    rng = np.random.default_rng([seed, *op_type.encode()])
    for _ in range(20):
        made = Sketch(rng)
        sketch(made)
        model = _model(op_type, made)
        inputs = [value for _, value, constant in made.inputs if not constant]
        try:
            outputs = run(model.SerializeToString(), inputs)
        except Exception:
            continue
        if all(isinstance(y, np.ndarray) and y.size for y in outputs):
            return Drawn(op_type, seed, model, inputs, outputs)
    return None


def _model(op_type: str, made: Sketch) -> onnx.ModelProto:
    names = [f"y{k}" for k in range(made.outputs)]
    node = helper.make_node(
        op_type,
        [name for name, _, _ in made.inputs],
        names,
        name="node",
        domain=made.domain,
        **made.attributes,
    )
    kept = [(name, value) for name, value, constant in made.inputs if not constant]
    entries = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in kept
    ]
    constants = [
        numpy_helper.from_array(value, name)
        for name, value, constant in made.inputs
        if constant and name
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph([node], "swept", entries, outputs, constants)
    opsets = [helper.make_opsetid("", made.opset)]
    if made.domain:
        opsets.append(helper.make_opsetid(made.domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {entry.name: entry for entry in inferred.graph.output}
    for entry in model.graph.output:
        entry.CopyFrom(types[entry.name])
    return model


def converted(case: Drawn) -> Compiled | str:
    """The artifact, or why there is none."""
    try:
        return compile(case.model, DEVICE, as_float=True)
    except LoadstoneError as error:
        return f"{'traceback' if PYTHON.search(str(error)) else 'refused'}: {error}"
    except Exception as error:
        return f"traceback: {type(error).__name__}: {error}"


def outcomes(cases: Sequence[Drawn]) -> Iterator[tuple[Drawn, str]]:
    """equal, refused: why, wrong: where, or traceback: which."""
    made = [converted(case) for case in cases]
    prepare(*(entry.artifact for entry in made if not isinstance(entry, str)))
    for case, entry in zip(cases, made, strict=True):
        yield case, entry if isinstance(entry, str) else _compared(case, entry)


def _compared(case: Drawn, made: Compiled) -> str:
    try:
        outputs = made.run(*(x[None] for x in case.inputs), allow_nan=True)
    except Exception as error:
        return f"traceback: running it: {type(error).__name__}: {error}"
    if len(outputs) != len(case.outputs):
        return f"wrong: {len(outputs)} outputs, not {len(case.outputs)}"
    for k, (stored, want) in enumerate(zip(outputs, case.outputs, strict=True)):
        got = stored[0].reshape(want.shape) if stored[0].size == want.size else stored[0]
        if (got.dtype, got.shape) != (want.dtype, want.shape):
            return f"wrong: {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
        rtol = {"float16": 2e-3, "float32": 1e-4, "float64": 1e-6}.get(want.dtype.name, 0.0)
        near = np.isclose(got, want, rtol, rtol / 10, equal_nan=True)
        if not near.all():
            return f"wrong: {int((~near).sum())} of {near.size} elements of output {k}"
    return "equal"


def check(sketches: Mapping[str, Callable[[Sketch], None]], seeds: Sequence[int]) -> dict[str, int]:
    """How many of all drawn are equal and refused. Fails for a wrong one, with its seed."""
    cases = [drawn(op_type, sketch, seed) for op_type, sketch in sketches.items() for seed in seeds]
    counts = {"equal": 0, "refused": 0}
    bad = []
    for case, outcome in outcomes([case for case in cases if case is not None]):
        word = outcome.partition(":")[0]
        if word in counts:
            counts[word] += 1
        else:
            bad.append(f"{case.op_type} {case.seed}: {outcome}")
    assert bad == []
    return counts
