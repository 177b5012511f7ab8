# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's scalers, imputers and linear models, as ONNX's own operators.

In:   a Rewriting of a node of the domain ai.onnx.ml.
Out:  ESTIMATORS, the rules that emit what ONNX Runtime computes for it.
Next: rewriting.py replaces the node by that.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from loadstone.frontend.message import short
from loadstone.frontend.onnx.rewriting import Rewriting, Rule
from loadstone.numerics import Array

__all__ = ["ESTIMATORS"]

#: From here on the axes of every reduction are an input.
_AXES_AS_INPUT = 18
_ANEW = "export it anew"
_CAST = "put a Cast before it"


def _real(made: Rewriting) -> str:
    """The input in float32: in no other type do these operators compute."""
    if made.element_type(0) == TensorProto.FLOAT:
        return made.given(0)
    return made.emit("Cast", made.given(0), to=TensorProto.FLOAT)


def _features(made: Rewriting) -> int:
    """How many a row has. Raises UnsupportedError for an input that is neither a row nor rows."""
    extents = made.extents(0)
    if not 1 <= len(extents) <= 2:
        raise made.refusal(
            f"its input has {len(extents)} dimensions, rows of features have 1 or 2",
            "reshape it before",
        )
    return extents[-1]


def _per_feature(made: Rewriting, name: str, given: Array) -> Array:
    """One number, or as many as there are features."""
    if given.size > 1 and given.size != _features(made):
        raise made.refusal(
            f"its {name} has {given.size} numbers, and its input {_features(made)} features", _ANEW
        )
    return given


def _scaler(made: Rewriting) -> None:
    """(x - offset) * scale. What is left out changes nothing."""
    x = _real(made)
    offset = made.floats("offset") if made.floats("offset").size else np.zeros(1, np.float32)
    scale = made.floats("scale") if made.floats("scale").size else np.ones(1, np.float32)
    shift = made.constant(_per_feature(made, "offset", offset))
    moved = made.emit("Sub", x, shift)
    factor = made.constant(_per_feature(made, "scale", scale))
    made.emit("Mul", moved, factor, output=made.made(0))


def _normalizer(made: Rewriting) -> None:
    """Each row by its norm; MAX: by its largest, the sign with it. A norm of 0 divides nothing."""
    _features(made)
    norm, output = made.text("norm", "MAX"), made.made(0)
    if norm in ("L1", "L2"):
        made.emit("LpNormalization", _real(made), output=output, axis=-1, p=int(norm[1]))
        return
    if norm != "MAX":
        raise made.refusal(f'its norm is "{short(norm)}", and L1, L2 and MAX are imported', _ANEW)
    x = _real(made)
    if made.opset < _AXES_AS_INPUT:
        largest = made.emit("ReduceMax", x, axes=[-1], keepdims=1)
    else:
        axes = made.constant(np.array([-1], np.int64))
        largest = made.emit("ReduceMax", x, axes, keepdims=1)
    is_zero = made.emit("Equal", largest, made.constant(np.zeros(1, np.float32)))
    divisor = made.emit("Where", is_zero, made.constant(np.ones(1, np.float32)), largest)
    made.emit("Div", x, divisor, output=output)


def _binarizer(made: Rewriting) -> None:
    """1 above the threshold, in the input's type."""
    kind = made.kind(0)
    if kind.kind != "f":
        raise made.refusal(f"its input is {kind}, and float32 and float64 are imported", _CAST)
    threshold = made.constant(np.array([made.number("threshold")], kind))
    above = made.emit("Greater", made.given(0), threshold)
    made.emit("Cast", above, output=made.made(0), to=made.element_type(0))


def _imputer(made: Rewriting) -> None:
    """Another number for each that is missing, in the input's type. A NaN is missing where NaN is
    what is replaced."""
    kind, x = made.kind(0), made.given(0)
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
    values = made.constant(_per_feature(made, name, given.astype(kind)))
    if np.isnan(replaced):
        is_missing = made.emit("IsNaN", x)
    else:
        is_missing = made.emit("Equal", x, made.constant(np.array([replaced], kind)))
    made.emit("Where", is_missing, values, x, output=made.made(0))


def _linear_regressor(made: Rewriting) -> None:
    """x times coefficients, (targets, features), plus intercepts."""
    targets = made.whole("targets", 1)
    intercepts = made.floats("intercepts")
    if intercepts.size not in (0, targets):
        raise made.refusal(f"it has {intercepts.size} intercepts for {targets} targets", _ANEW)
    bias = intercepts if intercepts.size else np.zeros(targets, np.float32)
    transform = _transform(made, is_single=targets == 1)
    scores = _scores(made, bias, made.made(0) if transform is None else "")
    if transform is not None:
        _transformed(made, transform, scores, made.made(0))


def _linear_classifier(made: Rewriting) -> None:
    """Labels, (rows,), and scores, (rows, classes). One row of coefficients is of two classes: the
    second above 0; what its score lacks to 1 is the first's. multi_class says how it was
    trained."""
    intercepts = made.floats("intercepts")
    if not intercepts.size:
        raise made.refusal("it has no intercepts, one for each row of its coefficients", _ANEW)
    label, chances = made.made(0), made.made(1)
    is_single = intercepts.size == 1
    labels = _labels(made, max(2, intercepts.size)) if label else None
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
    if not chances:
        return
    found = _transformed(made, transform or "Identity", scores, "" if is_single else chances)
    if is_single:
        rest = made.emit("Sub", made.constant(np.ones(1, np.float32)), found)
        made.emit("Concat", rest, found, output=chances, axis=1)


def _labelled(made: Rewriting, scores: str, labels: Array, output: str) -> None:
    """The label of the largest score, of equal ones the first."""
    if made.floats("intercepts").size == 1:
        above = made.emit("Greater", scores, made.constant(np.zeros(1, np.float32)))
        place = made.emit("Cast", above, to=TensorProto.INT64)
        rows = made.emit("Reshape", place, made.constant(np.array([-1], np.int64)))
    else:
        rows = made.emit("ArgMax", scores, axis=1, keepdims=0)
    made.emit("Gather", made.constant(labels), rows, output=output, axis=0)


def _labels(made: Rewriting, count: int) -> Array:
    """By class, (count,) int64."""
    if any(a.name == "classlabels_strings" and a.strings for a in made.node.attribute):
        chances = made.node.output[1] if len(made.node.output) > 1 else ""
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


def _scores(made: Rewriting, bias: Array, output: str) -> str:
    """(rows, targets) float32."""
    coefficients, features = made.floats("coefficients"), _features(made)
    if coefficients.size != bias.size * features:
        raise made.refusal(
            f"it has {coefficients.size} coefficients for {bias.size} times {features} features",
            _ANEW,
        )
    rows = _real(made)
    if len(made.extents(0)) == 1:
        rows = made.emit("Reshape", rows, made.constant(np.array([1, -1], np.int64)))
    matrix = made.constant(coefficients.reshape(bias.size, features))
    return made.emit("Gemm", rows, matrix, made.constant(bias), output=output, transB=1)


#: What follows the scores, as ONNX's operator.
_TRANSFORMS = {"LOGISTIC": "Sigmoid", "SOFTMAX": "Softmax"}


def _transform(made: Rewriting, *, is_single: bool) -> str | None:
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


def _transformed(made: Rewriting, transform: str, scores: str, output: str) -> str:
    if transform == "Softmax":
        return made.emit(transform, scores, output=output, axis=1)
    return made.emit(transform, scores, output=output)


#: By domain and operator.
ESTIMATORS: dict[tuple[str, str], Rule] = {
    ("ai.onnx.ml", "Scaler"): _scaler,
    ("ai.onnx.ml", "Normalizer"): _normalizer,
    ("ai.onnx.ml", "Binarizer"): _binarizer,
    ("ai.onnx.ml", "Imputer"): _imputer,
    ("ai.onnx.ml", "LinearRegressor"): _linear_regressor,
    ("ai.onnx.ml", "LinearClassifier"): _linear_classifier,
}
