# SPDX-License-Identifier: Apache-2.0
"""Operators that TVM converts as ONNX means them.

In:   an OnnxNode.
Out:  what TVM's converter of the operator makes of it.
Next: importer.py binds it.

An operator stands here as long as ONNX's node tests and the sweep over its attributes find TVM's
converter right for all that the table says it reads; any other has its own in a file of its family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadstone.errors import LoadstoneError
from loadstone.frontend.onnx.node import OnnxNode
from loadstone.frontend.onnx.table import ALL, converter
from loadstone.relax.compat import onnx_importer

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: One input, no attributes.
_PLAIN = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSwish "
    "Identity IsNaN Log Mish Neg Not Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus "
    "Softsign Sqrt Tan Tanh"
)


@converter(*_PLAIN.split())
@converter("MatMul", inputs=2)
@converter("BitwiseNot")
@converter("ArgMax", "ArgMin", attributes="axis keepdims select_last_index")
@converter("BatchNormalization", attributes="epsilon momentum", inputs=5)
@converter("Cast", attributes="to saturate")
@converter("Concat", attributes="axis", inputs=ALL)
@converter("Constant", attributes="value", inputs=0)
@converter("DequantizeLinear", attributes="axis", inputs=3)
@converter("Einsum", attributes="equation", inputs=ALL)
@converter("Expand", inputs=2, constants=(1,))
@converter("Flatten", attributes="axis")
@converter("Gather", "GatherElements", attributes="axis", inputs=2)
@converter("GatherND", attributes="batch_dims", inputs=2)
@converter("Gelu", attributes="approximate")
@converter("Gemm", attributes="alpha beta broadcast transA transB", inputs=3)
@converter("HardSigmoid", attributes="alpha beta")
@converter("InstanceNormalization", attributes="epsilon", inputs=3)
@converter("LRN", attributes="alpha beta bias size")
@converter("Softmax", "LogSoftmax", "Hardmax", attributes="axis")
@converter("QuantizeLinear", attributes="axis saturate", inputs=3)
@converter("Reshape", attributes="allowzero shape", inputs=2, constants=(1,))
@converter("ScatterElements", attributes="axis reduction", inputs=3)
@converter("ScatterND", attributes="reduction", inputs=3)
@converter("Shrink", attributes="bias lambd", types=("float32", "float16", "float64"))
@converter("Slice", inputs=5, constants=(1, 2, 3, 4), opsets=(10, ALL))
@converter("Squeeze", "Unsqueeze", attributes="axes", inputs=2, constants=(1,))
@converter("Tile", inputs=2, constants=(1,))
@converter("Transpose", attributes="perm")
@converter("Trilu", attributes="upper", inputs=2, constants=(1,))
@converter("Where", inputs=3)
def by_tvm(node: OnnxNode) -> Expr | list[Expr]:
    """Raises UnsupportedError where TVM's converter gives up."""
    importer = onnx_importer()
    inputs = importer.onnx_input()
    inputs.extend(node.inputs)
    attributes = importer.ONNXGraphImporter({}, "float32")._parse_attr(node.proto.attribute)  # noqa: SLF001 (TVM has no public one)
    attributes["tvm_custom"] = {
        "name": node.proto.output[0],
        "num_outputs": len(node.proto.output),
    }
    convert = importer._get_convert_map()[node.op_type].get_converter(node.opset)  # noqa: SLF001 (nor here)
    try:
        return convert(node.builder, inputs, attributes, [{}, {}])
    except LoadstoneError:
        raise
    except Exception as error:
        raise node.given_up() from error


@converter("GridSample", attributes="align_corners mode padding_mode", inputs=2)
def _grid_sample(node: OnnxNode) -> Expr | list[Expr]:
    """What a place halfway between two elements reads behind a reflection, runtimes decide."""
    mode, padding = node.attributes["mode"], node.attributes["padding_mode"]
    if (mode, padding) == ("nearest", "reflection"):
        raise node.refusal(
            "its mode is nearest and its padding_mode reflection, where runtimes do not agree on "
            "places between two elements",
            "export it with another mode, or with the padding border or zeros",
        )
    return by_tvm(node)
