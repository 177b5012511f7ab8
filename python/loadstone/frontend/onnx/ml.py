# SPDX-License-Identifier: Apache-2.0
"""The operators that skl2onnx puts behind a classifier, in ONNX's own: labels by number,
probabilities as a matrix.

In:   nodes of ArrayFeatureExtractor and ZipMap of the domain ai.onnx.ml.
Out:  Gather, and the matrix that a ZipMap reads in place of its dictionaries; LABELS, by operator.
Next: rewriting.py does them. Scalers and linear models of the domain are estimators.py's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import TensorProto

from loadstone.frontend.onnx.rewriting import Rewriting, Rule

__all__ = ["LABELS"]

_DOMAIN = "ai.onnx.ml"


def _gathered(made: Rewriting) -> None:
    """Elements of the last axis by number; of one row the result has two dimensions."""
    if made.element_type(0) == TensorProto.STRING:
        raise made.refusal(
            "the labels are texts, which nothing here computes with",
            f"cut it with --outputs {made.given(1)}, which is the label's number",
        )
    extents = [1, -1] if len(made.extents(0)) == 1 else [-1]
    places = made.emit("Reshape", made.given(1), made.constant(np.array(extents, np.int64)))
    made.emit("Gather", made.given(0), places, output=made.node.output[0], axis=-1)


def _matrix(made: Rewriting) -> None:
    """A column for each class, in the order of the ZipMap's classes."""
    made.emit("Identity", made.given(0), output=made.node.output[0])


LABELS: Mapping[tuple[str, str], Rule] = {
    (_DOMAIN, "ArrayFeatureExtractor"): _gathered,
    (_DOMAIN, "ZipMap"): _matrix,
}
