# SPDX-License-Identifier: Apache-2.0
"""ONNX to Relax.

In:   the bytes of an .onnx file.
Out:  an IRModule.
Next: layout.py and canonical.py, as for every format.

    graph.py      the model in one piece, sizes fixed
    rewriting.py  operators of other domains in ONNX's own
    estimators.py scikit-learn's scalers and linear models
    fused.py      what ONNX Runtime's optimizer fuses
    ml.py         what skl2onnx puts behind a classifier
    folding.py    constants, whole subgraphs of them; operators by ONNX's own definition
    qoperator.py  operators on integers to QDQ
    table.py      what each converter reads; a model is held against it
    node.py       a node as its converter reads it
    operators/    the converters, one file a family
    importer.py   all of this in order
"""

from loadstone.frontend.onnx.importer import from_bytes

__all__ = ["from_bytes"]
