# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models, changed as a tool's mistake would change them: another attribute, type, extent
or edge. Where ONNX Runtime takes the file, the numbers are its own, or one sentence refuses it.

By hand, ten thousand: `python -m tests.frontend.onnx.test_mutants 0 10000`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")

import onnx

from tests.frontend.onnx.sketches import ALL
from tests.frontend.onnx.sweep import Drawn, drawn, outcomes
from tests.onnx_builder import run
from tests.repeat import times

MUTANTS = times(40, 400)


def attribute(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Another value, another name, or none."""
    node = model.graph.node[0]
    if not node.attribute:
        node.attribute.append(onnx.helper.make_attribute("axis", int(rng.integers(-3, 4))))
        return
    entry = node.attribute[int(rng.integers(len(node.attribute)))]
    if rng.integers(4) == 0:
        node.attribute.remove(entry)
    elif entry.ints:
        entry.ints[int(rng.integers(len(entry.ints)))] = int(rng.integers(-3, 6))
    elif entry.type == onnx.AttributeProto.INT:
        entry.i = int(rng.integers(-3, 6))
    elif entry.type == onnx.AttributeProto.FLOAT:
        entry.f = float(rng.normal() * 3)
    else:
        entry.name += "s"


def opset(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    model.opset_import[0].version = int(rng.integers(1, 22))


def kind(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Of inputs and outputs alike, so that some are sound."""
    new = int(rng.choice([1, 2, 3, 5, 6, 7, 9, 11]))
    for entry in (*model.graph.input, *model.graph.output):
        entry.type.tensor_type.elem_type = new


def extent(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """The outputs are left to whoever infers them."""
    places = [d for entry in model.graph.input for d in entry.type.tensor_type.shape.dim]
    if places:
        places[int(rng.integers(len(places)))].dim_value = int(rng.integers(1, 6))
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("shape")


def edge(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """An input is another, or none."""
    node = model.graph.node[0]
    if node.input:
        names = [*node.input, ""]
        new = names[int(rng.integers(len(names)))]
        node.input[int(rng.integers(len(node.input)))] = new


def numbers(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """A constant has another number in it."""
    held = [t for t in model.graph.initializer if onnx.numpy_helper.to_array(t).size]
    if held:
        tensor = held[int(rng.integers(len(held)))]
        value = onnx.numpy_helper.to_array(tensor).copy()
        value.reshape(-1)[int(rng.integers(value.size))] = int(rng.integers(0, 6))
        tensor.CopyFrom(onnx.numpy_helper.from_array(value, tensor.name))


CHANGES = (attribute, opset, kind, extent, edge, numbers)


def mutants(seeds: Sequence[int]) -> Iterator[Drawn]:
    """Those that ONNX Runtime takes and runs."""
    names = sorted(ALL)
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        original = drawn(name := names[seed % len(names)], ALL[name], seed // len(names))
        if original is None:
            continue
        model = onnx.ModelProto.FromString(original.model.SerializeToString())
        for _ in range(int(rng.integers(1, 3))):
            CHANGES[int(rng.integers(len(CHANGES)))](rng, model)
        own = {tensor.name for tensor in model.graph.initializer}
        inputs = []
        for entry in model.graph.input:
            if entry.name not in own:
                extents = [d.dim_value for d in entry.type.tensor_type.shape.dim]
                dtype = onnx.helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
                inputs.append(rng.integers(0, 5, extents).astype(dtype))
        try:
            outputs = run(model.SerializeToString(), inputs)
        except Exception:
            outputs = []
        yield Drawn(original.op_type, seed, model, inputs, outputs)


def judged(seeds: Sequence[int]) -> tuple[Counter[str], list[str]]:
    """How many of each outcome, and what must not be: another number, a traceback."""
    counts: Counter[str] = Counter()
    bad = []
    for case, outcome in outcomes(list(mutants(seeds))):
        word = outcome.partition(":")[0]
        if word == "wrong" and not case.outputs:
            word = "more than ONNX Runtime takes"
        counts[word] += 1
        if word in ("wrong", "traceback"):
            bad.append(f"{case.op_type} {case.seed}: {outcome}")
    return counts, bad


def test_mutants_are_equal_or_refused(figure: Callable[[str], None]) -> None:
    counts, bad = judged(range(MUTANTS))
    assert bad == []
    assert counts["equal"]
    assert counts["refused"]
    figure(f"changed ONNX models: {dict(counts)}")


def main(first: int, count: int) -> None:
    """Prints what must not be."""
    total: Counter[str] = Counter()
    for begin in range(first, first + count, 200):
        counts, bad = judged(range(begin, min(begin + 200, first + count)))
        total += counts
        print(begin, dict(total), *bad, sep="\n  ", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
