# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's scalers, imputers and linear models, as ONNX's own operators.

In:   a node of the domain ai.onnx.ml with the element type and the extents of its input.
Out:  the nodes and constants that compute what ONNX Runtime computes for it.
Next: ml.py puts them in the node's place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from loadstone.errors import UnsupportedError
from loadstone.frontend.message import short
from loadstone.numerics import Array

__all__ = ["ESTIMATORS", "Estimator"]

#: From here on Equal and Where take numbers of every type.
_LEAST_OPSET = 11
#: From here on the axes of every reduction are an input.
_AXES_AS_INPUT = 18
_ANEW = "export it anew"
_CAST = "put a Cast before it"


@dataclass
class Estimator:
    """One node under rewriting. where: begins a message about it. element_type: ONNX's number.
    extents: of its input. read: outputs that somebody reads. nodes, constants: what
    takes its place."""

    node: NodeProto
    where: str
    opset: int
    element_type: int
    extents: Sequence[int]
    read: frozenset[str]
    nodes: list[NodeProto] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)

    def refusal(self, reason: str, remedy: str) -> UnsupportedError:
        """What to raise. reason: the thing, its value, the limit. remedy: what helps."""
        return UnsupportedError(f"{self.where}: {reason}: {remedy}")

    def text(self, name: str, default: str) -> str:
        """An attribute of text."""
        found = [a.s.decode("utf-8", "replace") for a in self.node.attribute if a.name == name]
        return found[0] if found else default

    def whole(self, name: str, default: int) -> int:
        """An attribute of one whole number."""
        return next((int(a.i) for a in self.node.attribute if a.name == name), default)

    def number(self, name: str) -> float:
        """An attribute of one number, 0 where it is left out."""
        return next((float(a.f) for a in self.node.attribute if a.name == name), 0.0)

    def floats(self, name: str) -> Array:
        """An attribute of many numbers, (count,) float32."""
        found = [a.floats for a in self.node.attribute if a.name == name]
        return np.array(found[0] if found else [], np.float32)

    def wholes(self, name: str) -> Array:
        """An attribute of many whole numbers, (count,) int64."""
        found = [a.ints for a in self.node.attribute if a.name == name]
        return np.array(found[0] if found else [], np.int64)

    def constant(self, given: Array) -> str:
        """Adds an initializer."""
        name = f"{self._stem()}/constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(given, name))
        return name

    def emit(
        self, op_type: str, *inputs: str, output: str = "", **attributes: int | Sequence[int]
    ) -> str:
        """Appends a node and gives its output's name. output: where the name is not free."""
        name = output or f"{self._stem()}/step{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, list(inputs), [name], name=name, **attributes))
        return name

    def _stem(self) -> str:
        return next(str(name) for name in self.node.output if name)

    def real(self) -> str:
        """The input in float32: in no other type do these operators compute."""
        x = str(self.node.input[0])
        if self.element_type == TensorProto.FLOAT:
            return x
        return self.emit("Cast", x, to=TensorProto.FLOAT)

    def rows(self) -> str:
        """The input in float32 with two dimensions."""
        x = self.real()
        if len(self.extents) == 2:
            return x
        return self.emit("Reshape", x, self.constant(np.array([1, -1], np.int64)))

    def check_opset(self) -> None:
        """Raises UnsupportedError where what is emitted would mean something else."""
        if self.opset < _LEAST_OPSET:
            raise self.refusal(
                f"the model has opset {self.opset}, and from {_LEAST_OPSET} on it is imported",
                f"export it with a target_opset of at least {_LEAST_OPSET}",
            )

    def check_rows(self) -> None:
        """Raises UnsupportedError for an input that is neither a row nor rows of features."""
        if not 1 <= len(self.extents) <= 2:
            raise self.refusal(
                f"its input has {len(self.extents)} dimensions, rows of features have 1 or 2",
                "reshape it before",
            )

    def per_feature(self, name: str, given: Array) -> Array:
        """One number, or as many as there are features."""
        if given.size == 1:
            return given
        self.check_rows()
        if given.size != self.extents[-1]:
            raise self.refusal(
                f"its {name} has {given.size} numbers, and its input {self.extents[-1]} features",
                _ANEW,
            )
        return given


def _scaler(made: Estimator) -> None:
    """(x - offset) * scale. What is left out changes nothing."""
    x = made.real()
    offset = made.floats("offset") if made.floats("offset").size else np.zeros(1, np.float32)
    scale = made.floats("scale") if made.floats("scale").size else np.ones(1, np.float32)
    shift = made.constant(made.per_feature("offset", offset))
    moved = made.emit("Sub", x, shift)
    factor = made.constant(made.per_feature("scale", scale))
    made.emit("Mul", moved, factor, output=made.node.output[0])


def _normalizer(made: Estimator) -> None:
    """Each row by its norm; MAX: by its largest, the sign with it. A norm of 0 divides nothing."""
    made.check_rows()
    norm, output = made.text("norm", "MAX"), made.node.output[0]
    if norm in ("L1", "L2"):
        made.emit("LpNormalization", made.real(), output=output, axis=-1, p=int(norm[1]))
        return
    if norm != "MAX":
        raise made.refusal(f'its norm is "{short(norm)}", and L1, L2 and MAX are imported', _ANEW)
    x = made.real()
    if made.opset < _AXES_AS_INPUT:
        largest = made.emit("ReduceMax", x, axes=[-1], keepdims=1)
    else:
        axes = made.constant(np.array([-1], np.int64))
        largest = made.emit("ReduceMax", x, axes, keepdims=1)
    is_zero = made.emit("Equal", largest, made.constant(np.zeros(1, np.float32)))
    divisor = made.emit("Where", is_zero, made.constant(np.ones(1, np.float32)), largest)
    made.emit("Div", x, divisor, output=output)


def _binarizer(made: Estimator) -> None:
    """1 above the threshold, in the input's type."""
    kind = _kind(made)
    if kind.kind != "f":
        raise made.refusal(f"its input is {kind}, and float32 and float64 are imported", _CAST)
    threshold = made.constant(np.array([made.number("threshold")], kind))
    above = made.emit("Greater", made.node.input[0], threshold)
    made.emit("Cast", above, output=made.node.output[0], to=made.element_type)


def _imputer(made: Estimator) -> None:
    """Another number for each that is missing, in the input's type. A NaN is missing where NaN is
    what is replaced."""
    kind, x = _kind(made), made.node.input[0]
    is_real = kind.kind == "f"
    name = "imputed_value_floats" if is_real else "imputed_value_int64s"
    other = "imputed_value_int64s" if is_real else "imputed_value_floats"
    given = made.floats(name) if is_real else made.wholes(name)
    if not given.size or made.floats(other).size or made.wholes(other).size:
        raise made.refusal(
            f"its input is {kind}, and then it has {name} and no {other}",
            f"{_CAST}, or export it anew",
        )
    replaced = (
        made.number("replaced_value_float") if is_real else made.whole("replaced_value_int64", 0)
    )
    if not is_real and np.any(
        np.append(given, replaced).astype(kind) != np.append(given, replaced)
    ):
        raise made.refusal(f"it has whole numbers that {kind} does not hold", _ANEW)
    values = made.constant(made.per_feature(name, given.astype(kind)))
    if np.isnan(replaced):
        is_missing = made.emit("IsNaN", x)
    else:
        is_missing = made.emit("Equal", x, made.constant(np.array([replaced], kind)))
    made.emit("Where", is_missing, values, x, output=made.node.output[0])


def _kind(made: Estimator) -> np.dtype[np.generic]:
    found: np.dtype[np.generic] = helper.tensor_dtype_to_np_dtype(made.element_type)
    return found


def _linear_regressor(made: Estimator) -> None:
    """x times coefficients, (targets, features), plus intercepts."""
    targets = made.whole("targets", 1)
    intercepts = made.floats("intercepts")
    if intercepts.size not in (0, targets):
        raise made.refusal(f"it has {intercepts.size} intercepts for {targets} targets", _ANEW)
    bias = intercepts if intercepts.size else np.zeros(targets, np.float32)
    transform = _transform(made, is_single=targets == 1)
    scores = _scores(made, bias, made.node.output[0] if transform is None else "")
    if transform is not None:
        _transformed(made, transform, scores, made.node.output[0])


def _linear_classifier(made: Estimator) -> None:
    """Labels, (rows,), and scores, (rows, classes). One row of coefficients is of two classes: the
    second above 0; what its score lacks to 1 is the first's. multi_class says how it was
    trained."""
    intercepts = made.floats("intercepts")
    if not intercepts.size:
        raise made.refusal("it has no intercepts, one for each row of its coefficients", _ANEW)
    label, chances = (*made.node.output, "", "")[:2]
    is_single = intercepts.size == 1
    labels = _labels(made, label in made.read, chances, max(2, intercepts.size))
    transform = _transform(made, is_single=is_single)
    if is_single and transform == "Softmax":
        raise made.refusal(
            "its post_transform is SOFTMAX for one row of coefficients, which ONNX Runtime does "
            "not apply",
            "export it with LOGISTIC, or with a row for each class",
        )
    scores = _scores(made, intercepts, "")
    if labels is not None:
        _labelled(made, scores, labels, label)
    if chances not in made.read:
        return
    found = _transformed(made, transform or "Identity", scores, "" if is_single else chances)
    if is_single:
        rest = made.emit("Sub", made.constant(np.ones(1, np.float32)), found)
        made.emit("Concat", rest, found, output=chances, axis=1)


def _labelled(made: Estimator, scores: str, labels: Array, output: str) -> None:
    """The label of the largest score, of equal ones the first."""
    if made.floats("intercepts").size == 1:
        above = made.emit("Greater", scores, made.constant(np.zeros(1, np.float32)))
        place = made.emit("Cast", above, to=TensorProto.INT64)
        rows = made.emit("Reshape", place, made.constant(np.array([-1], np.int64)))
    else:
        rows = made.emit("ArgMax", scores, axis=1, keepdims=0)
    made.emit("Gather", made.constant(labels), rows, output=output, axis=0)


def _labels(made: Estimator, is_read: bool, chances: str, count: int) -> Array | None:
    """None where nobody reads them."""
    if not is_read:
        return None
    if any(a.name == "classlabels_strings" and a.strings for a in made.node.attribute):
        remedy = (
            f"cut it with --outputs {chances}, whose largest is the label's number"
            if chances
            else "export it with labels that are whole numbers"
        )
        raise made.refusal("the labels are texts, which nothing here computes with", remedy)
    labels = made.wholes("classlabels_ints")
    if labels.size != count:
        raise made.refusal(f"it has {labels.size} labels for {count} classes", _ANEW)
    return labels


def _scores(made: Estimator, bias: Array, output: str) -> str:
    """(rows, targets) float32."""
    made.check_rows()
    coefficients, features = made.floats("coefficients"), made.extents[-1]
    if coefficients.size != bias.size * features:
        raise made.refusal(
            f"it has {coefficients.size} coefficients for {bias.size} times {features} features",
            _ANEW,
        )
    matrix = made.constant(coefficients.reshape(bias.size, features))
    return made.emit("Gemm", made.rows(), matrix, made.constant(bias), output=output, transB=1)


#: What follows the scores, as ONNX's operator.
_TRANSFORMS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def _transform(made: Estimator, *, is_single: bool) -> str | None:
    given = made.text("post_transform", "NONE")
    if given == "NONE":
        return None
    if given not in _TRANSFORMS:
        raise made.refusal(
            f"its post_transform is {short(given)}, and only NONE, {', '.join(_TRANSFORMS)} are "
            "imported",
            "export it with NONE, and transform the scores behind the artifact",
        )
    if is_single and made.node.op_type == "LinearRegressor":
        raise made.refusal(
            f"its post_transform is {given} for one target, which ONNX Runtime does not apply",
            "export it with NONE",
        )
    return _TRANSFORMS[given]


def _transformed(made: Estimator, transform: str, scores: str, output: str) -> str:
    if transform == "Softmax":
        return made.emit(transform, scores, output=output, axis=1)
    return made.emit(transform, scores, output=output)


#: By operator of the domain ai.onnx.ml.
ESTIMATORS: dict[str, Callable[[Estimator], None]] = {
    "Scaler": _scaler,
    "Normalizer": _normalizer,
    "Binarizer": _binarizer,
    "Imputer": _imputer,
    "LinearRegressor": _linear_regressor,
    "LinearClassifier": _linear_classifier,
}
