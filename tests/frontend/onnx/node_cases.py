# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node tests (`onnx.backend.test`), as cases that Loadstone compiles and runs.

In:   nothing: models, inputs and outputs are in the package onnx; what it would download is left
      out.
Out:  `cases`: models with inputs and right outputs; `outcome`: equal, refused with a sentence,
      wrong, or a traceback.
Next: test_node_tests.py holds them against node_tests.txt.

What an operator's converter needs as a constant (shape, axes, pads: the table of
frontend/onnx/table.py says which) is an input of these models; it is an initializer here, with the
case's own values, as is an input without elements. Where that leaves something "computed when the
model runs", single numbers and short lists among the inputs become initializers, too.
Sizes that a model leaves open are those of the case.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.test.loader import load_model_tests

from loadstone.artifact.memory_plan import DataType
from loadstone.compiler import Compiled, compile
from loadstone.errors import LoadstoneError
from loadstone.frontend.message import one_line
from loadstone.frontend.onnx.table import row_of
from loadstone.runtime.c_step import prepare

Array = NDArray[Any]
__all__ = ["Case", "cases", "compiled", "outcome", "prepared"]

DEVICE = "vtaq-1x16x16"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
#: A converter's Python exception as the reason of a refusal: a defect.
PYTHON = re.compile(
    r"\w+Error\b|Traceback|object has no|positional argument|not subscriptable|TVM cannot compile"
    r"|cannot be imported:|cannot be brought into|list index|Check failed|not callable"
)


#: Cases whose zeros are what a transform in float32 leaves of them, 2e-7 where the largest is 54.
ROUNDED = {"test_dft_inverse": 2e-6, "test_dft_inverse_opset19": 2e-6}
#: What a refusal says that asks for constants.
_CONSTANTS = ("when the model runs", "must be constants of the model")


@dataclass(frozen=True, eq=False)
class Case:
    """One model with one set of inputs; a value that is no array is left as onnx has it."""

    name: str
    model: onnx.ModelProto
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    rtol: float
    atol: float


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    """Every case that needs no download, in the order of names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [entry for kind in KINDS for entry in load_model_tests(kind=kind)]
    made = []
    for entry in found:
        model, sets = entry.model, entry.data_sets
        if model is None:
            folder = Path(entry.model_dir)
            model = onnx.load(folder / "model.onnx")
            sets = [_stored(model, place) for place in sorted(folder.glob("test_data_set_*"))]
        inputs, outputs = ([_array(value) for value in side] for side in sets[0])
        atol = ROUNDED.get(entry.name, entry.atol)
        made.append(_baked(Case(entry.name, model, inputs, outputs, entry.rtol, atol)))
    return sorted(made, key=lambda case: case.name)


def _array(value: Any) -> Any:
    """Some cases have tensors as a file has them."""
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _stored(model: onnx.ModelProto, folder: Path) -> tuple[list[Any], list[Any]]:
    """The inputs and outputs of a case that lies in files."""

    def read(kind: str, entries: Sequence[onnx.ValueInfoProto]) -> list[Any]:
        made: list[Any] = []
        for k, entry in enumerate(entries):
            data = (folder / f"{kind}_{k}.pb").read_bytes()
            if entry.type.HasField("tensor_type"):
                made.append(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(data)))
            else:
                made.append(data)
        return made

    own = {tensor.name for tensor in model.graph.initializer}
    inputs = [entry for entry in model.graph.input if entry.name not in own]
    return read("input", inputs), read("output", model.graph.output)


def _baked(case: Case, *, lists: bool = False) -> Case:
    """The case with initializers for what a converter needs as a constant. lists: also for single
    numbers and short lists."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
    wanted = set()
    for node in model.graph.node:
        row = row_of(node, opsets)
        wanted |= {e for k, e in enumerate(node.input) if row is not None and k in row.constants}
    own = {tensor.name for tensor in model.graph.initializer}
    entries = [entry for entry in model.graph.input if entry.name not in own]
    kept, inputs = [], []
    for entry, value in zip(entries, case.inputs, strict=False):
        is_array = isinstance(value, np.ndarray | np.generic)
        is_list = is_array and value.ndim <= 1 and value.size < 9
        if is_array and (entry.name in wanted or value.size == 0 or (lists and is_list)):
            model.graph.initializer.append(
                onnx.numpy_helper.from_array(np.asarray(value), entry.name)
            )
            continue
        if is_array and entry.type.tensor_type.HasField("shape"):
            for extent, size in zip(entry.type.tensor_type.shape.dim, value.shape, strict=True):
                extent.dim_value = size
        kept.append(entry)
        inputs.append(value)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return Case(case.name, model, inputs, case.outputs, case.rtol, case.atol)


def compiled(case: Case) -> tuple[Case, Compiled | str]:
    """The case as it was compiled, and the artifact, or what stands in its place: refused or a
    traceback."""
    made = _attempt(case)
    if isinstance(made, str) and any(words in made for words in _CONSTANTS):
        case = _baked(case, lists=True)
        made = _attempt(case)
    return case, made


def _attempt(case: Case) -> Compiled | str:
    try:
        return compile(case.model, DEVICE, as_float=True)
    except LoadstoneError as error:
        text = str(error)
        return f"{'traceback' if PYTHON.search(text) else 'refused'}: {text}"
    except Exception as error:
        return f"traceback: {type(error).__name__}: {one_line(error)}"


def prepared(made: Sequence[Compiled | str]) -> None:
    """Compiles the C of many artifacts in one go."""
    prepare(*(entry.artifact for entry in made if not isinstance(entry, str)))


def outcome(case: Case, made: Compiled | str) -> str:
    """What became of a case: "equal", or a word and why."""
    if isinstance(made, str):
        return made
    try:
        types = [DataType[t.dtype.upper()].numpy for t in made.graph.inputs]
        inputs = [_stored_as(np.asarray(x), t) for x, t in zip(case.inputs, types, strict=True)]
        outputs = made.run(*(x[None] for x in inputs), allow_nan=True)
    except Exception as error:
        return (
            f"traceback: running it: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        )
    return _compared(case, [output[0] for output in outputs])


def _stored_as(value: Array, kind: np.dtype[Any]) -> Array:
    """A bfloat16 is its bits; numbers that onnx keeps as objects get their type."""
    return value.view(kind) if value.dtype.name == "bfloat16" else value.astype(kind)


def _compared(case: Case, outputs: Sequence[Array]) -> str:
    if len(outputs) != len(case.outputs):
        return f"wrong: {len(outputs)} outputs of {len(case.outputs)}"
    for k, (given, wanted) in enumerate(zip(outputs, case.outputs, strict=True)):
        want = np.asarray(wanted).reshape(np.shape(wanted) or 1)  # one number has one dimension
        is_bits = want.dtype.name == "bfloat16" and given.dtype == np.uint16
        got = given.view(want.dtype) if is_bits else given
        if got.dtype != want.dtype:
            return f"wrong: output {k} is {got.dtype}, not {want.dtype}"
        if got.shape != want.shape:
            return f"wrong: output {k} has the shape {got.shape}, not {want.shape}"
        rtol, atol = (case.rtol, case.atol) if want.dtype.kind not in "biu" else (0.0, 0.0)
        if want.dtype.name == "bfloat16":
            got, want = got.astype(np.float64), want.astype(np.float64)
        near = np.isclose(got, want, rtol, atol, equal_nan=True)
        if not near.all():
            return f"wrong: {int((~near).sum())} of {near.size} elements of output {k}"
    return "equal"
