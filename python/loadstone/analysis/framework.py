# SPDX-License-Identifier: Apache-2.0
"""Every tensor of a network as its own framework computes it: LiteRT for .tflite, ONNX Runtime for
.onnx.

In:   a model file; one run's inputs.
Out:  the framework's tensors by name; the expected value of each layer.
Next: compare.py, when `loadstone compare --framework` asks for it.

LiteRT keeps all tensors and runs its reference kernels; ONNX Runtime returns each node's outputs,
without optimizations, so that no layer is fused into another. (It then computes a QDQ network in
float32, and may be one off where a sum lies between two integers: docs/numerics.md.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from loadstone.analysis.compare import Expected, from_tensors
from loadstone.analysis.taps import Tap
from loadstone.artifact.format import ViewLayout
from loadstone.errors import ConfigError, ModelError
from loadstone.files import read_whole
from loadstone.numerics import Array

__all__ = ["framework_expects", "framework_tensors"]

_CHANNELS_LAST = (0, 2, 3, 1)
#: Types of inputs that the artifact's inputs have in another type.
_NUMBERS = {"tensor(float)": "float32", "tensor(float16)": "float16"}


def framework_expects(path: str | Path, inputs: Sequence[Array], samples: int) -> Expected:
    """The expected value of each layer. inputs: in the shapes of the artifact's inputs, (samples *
    rows, ...) each.

    Raises ConfigError where the framework is not installed, or the model has none; ModelError for
    inputs that do not fit the network.
    """
    tensors = framework_tensors(path, inputs, samples)
    channels_first = Path(path).suffix == ".onnx"

    def expected(tap: Tap) -> Array | None:
        value = tensors.get(tap.name)
        if value is not None and channels_first:
            value = _channels_last(value, tap)
        return None if value is None else from_tensors({tap.name: value})(tap)

    return expected


def framework_tensors(
    path: str | Path, inputs: Sequence[Array], samples: int
) -> Mapping[str, Array]:
    """The tensors by name, batch first, in the framework's own shapes; several samples are
    concatenated along the first axis. inputs: (samples * rows, ...) each."""
    if Path(path).suffix == ".pt2":
        raise ConfigError(
            f"--framework: {path} is PyTorch's, whose tensors have other names than the layers: "
            "leave --framework out, and its definition is taken"
        )
    run = _onnx_runtime if Path(path).suffix == ".onnx" else _litert
    runs = [
        run(str(path), one)
        for one in zip(*(np.split(array, samples) for array in inputs), strict=True)
    ]
    return {
        name: np.concatenate([np.atleast_1d(one[name]) for one in runs])
        if samples > 1
        else runs[0][name]
        for name in runs[0]
    }


def _litert(path: str, inputs: Sequence[Array]) -> dict[str, Array]:
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ModuleNotFoundError:
        raise ConfigError("--framework: pip install ai-edge-litert, which runs .tflite") from None
    interpreter = Interpreter(
        model_content=read_whole(path),
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    described = interpreter.get_input_details()
    _fit(path, [entry["shape"].tolist() for entry in described], inputs)
    for entry, array in zip(described, inputs, strict=True):
        interpreter.set_tensor(entry["index"], array.reshape(entry["shape"]))
    interpreter.invoke()
    found = {}
    for entry in interpreter.get_tensor_details():
        try:
            found[str(entry["name"])] = np.array(interpreter.get_tensor(entry["index"]))
        except ValueError:  # a temporary of a kernel, which nobody keeps
            continue
    return found


def _onnx_runtime(path: str, inputs: Sequence[Array]) -> dict[str, Array]:
    try:
        import onnxruntime as ort
    except ModuleNotFoundError:
        raise ConfigError("--framework: pip install onnxruntime, which runs .onnx") from None
    import onnx

    model = onnx.load_from_string(read_whole(path))
    outputs = {entry.name for entry in model.graph.output}
    for name in [name for node in model.graph.node for name in node.output if name]:
        if name not in outputs:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    described = session.get_inputs()
    _fit(path, [entry.shape for entry in described], inputs)
    feeds = {
        entry.name: array.astype(_NUMBERS.get(entry.type, array.dtype)).reshape(
            [size if isinstance(size, int) else -1 for size in entry.shape]
        )
        for entry, array in zip(described, inputs, strict=True)
    }
    names = [entry.name for entry in session.get_outputs()]
    return {
        name: np.asarray(value)
        for name, value in zip(names, session.run(names, feeds), strict=True)
        if value is not None
    }


def _fit(path: str, wanted: Sequence[Sequence[object]], got: Sequence[Array]) -> None:
    """wanted: shapes; an axis that the file leaves open is not an integer."""
    known = [[int(n) for n in shape if isinstance(n, int | np.integer)] for shape in wanted]
    fits = len(wanted) == len(got) and all(
        array.size % int(np.prod(sizes)) == 0
        and (len(sizes) < len(shape) or array.size == np.prod(sizes))
        for array, sizes, shape in zip(got, known, wanted, strict=True)
    )
    if not fits:
        raise ModelError(
            f"{path} has inputs {[list(shape) for shape in wanted]}, the artifact "
            f"{[list(array.shape) for array in got]}"
        )


def _channels_last(value: Array, tap: Tap) -> Array | None:
    """An image in the layer's layout. A host step may keep channels first; where the shape does not
    determine the layout, the tensor is not compared."""
    if value.ndim != 4:
        return value
    turned = value.transpose(_CHANNELS_LAST)
    if tap.view.layout != ViewLayout.ROW_MAJOR:
        return turned
    shape = tuple(tap.view.shape)
    same = value.shape == turned.shape and max(value.shape[1:]) > 1
    if same:
        return None
    return turned if turned.shape == shape else value
