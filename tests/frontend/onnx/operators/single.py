# SPDX-License-Identifier: Apache-2.0
"""Models of one ONNX operator, and what ONNX Runtime makes of them.

In:   the operator, inputs (arrays, or shapes to draw them for), constants, attributes.
Out:  the bytes of a model; or that the imported network gives ONNX Runtime's results, without
      optimisations, or those of ONNX's reference where it lacks the operator.
Next: the tests of frontend/onnx/operators/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from loadstone.graph.reference import run as run_graph
from tests.imported import onnx_graph
from tests.onnx_builder import OPSET, Graph, run

__all__ = ["arrays", "check", "check_model", "single"]

Given = Sequence[tuple[int, ...] | NDArray[Any]]


def arrays(inputs: Given) -> list[NDArray[Any]]:
    """Shapes become float32 numbers of a few binary digits."""
    draw = np.random.default_rng(3)
    return [
        x if isinstance(x, np.ndarray) else (draw.integers(-40, 40, x) / 8).astype(np.float32)
        for x in inputs
    ]


def single(
    kind: str,
    inputs: Given,
    *constants: NDArray[Any] | None,
    domain: str = "",
    opset: int = OPSET,
    outputs: int = 1,
    shape: tuple[int, ...] | None = None,
    **attributes: Any,
) -> bytes:
    """One node: inputs of the model, then constants (None: left out). shape: of the first output,
    where ONNX does not infer it."""
    graph = Graph()
    names = [graph.input(x.shape, x.dtype) for x in arrays(inputs)]
    names += ["" if c is None else graph.constant(c) for c in constants]
    made = [graph.node(kind, *names, domain=domain, **attributes)]
    made += [f"{made[0]}_{index}" for index in range(1, outputs)]
    graph.nodes[-1].output.extend(made[1:])
    model = onnx.load_model_from_string(
        graph.save([(m, np.float32) for m in made], [shape] if shape else None, opset=opset)
    )
    for entry in model.graph.output if shape is None else ():
        entry.type.tensor_type.elem_type = 0
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return bytes(inferred.SerializeToString())


def check(kind: str, inputs: Given, *constants: NDArray[Any] | None, **node: Any) -> None:
    """The imported node gives what ONNX Runtime gives; whole numbers exactly."""
    check_model(single(kind, inputs, *constants, **node), arrays(inputs))


def check_model(
    model: bytes,
    given: list[NDArray[Any]],
    *,
    by_reference: bool = False,
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> None:
    """by_reference: ONNX's reference judges, in ONNX Runtime's place."""
    if by_reference:
        names = [entry.name for entry in onnx.load_model_from_string(model).graph.input]
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
        wanted = evaluator.run(None, dict(zip(names, given, strict=True)))
    else:
        wanted = run(model, given)
    for got, want in zip(run_graph(onnx_graph(model), given), wanted, strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(got, want)
