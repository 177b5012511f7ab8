"""Write a module as ONNX: float, or quantized as standard QDQ that ONNX Runtime runs.

In:   a module in canonical form (NHWC, OHWI, QDQ or float), names for its inputs and outputs.
Out:  an onnx.ModelProto, opset 13: NCHW as ONNX has it, tensors named as in the module, inputs and outputs as given.
Next: the file that `loadstone quantize` writes; frontend/onnx.py reads it back.

ONNX has convolutions and pools in NCHW only. A value may therefore exist under two names, one per layout; a Transpose is
written only where one is needed that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from loadstone._tvm import bindings, dtype, integers, is_call, is_constant, name_of, op_name, relax, result, scalar, shape, uses, value
from loadstone.errors import UnsupportedError

__all__ = ["export_onnx"]

OPSET = 13
IR_VERSION = 8
#: Layouts of a value: in the module's order of axes, or channels first.
PLAIN, FIRST = "plain", "first"
TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]

#: Relax operators of tensors alone, without attributes.
_SIMPLE = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "nn.relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "negative": "Neg",
    "erf": "Erf",
    "floor": "Floor",
    "sin": "Sin",
    "cos": "Cos",
    "greater": "Greater",
    "less": "Less",
    "where": "Where",
    "ceil": "Ceil",
}


def export_onnx(module: Any, outputs: Sequence[str], metadata: dict[str, str] | None = None) -> onnx.ModelProto:
    """The module's `main` as a model. Raises UnsupportedError for an operator that has no ONNX form here."""
    model = _Writer(module["main"], outputs).write()
    helper.set_model_props(model, metadata or {})
    onnx.checker.check_model(model, full_check=True)
    return model


class _Writer:
    def __init__(self, function: Any, outputs: Sequence[str]) -> None:
        self.function, self.output_names = function, list(outputs)
        self.uses = uses(function)
        self.bound = dict(bindings(function))
        self.names: dict[tuple[Any, str], str] = {}  # (variable, layout) -> ONNX name
        self.merged: dict[Any, tuple[Any, Any]] = {}  # variable of a bias addition -> (variable of its core, bias)
        self.readers: dict[Any, list[tuple[str, int]]] = {}  # variable -> (operator, position), merged biases left out
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.taken: set[str] = set()

    def write(self) -> onnx.ModelProto:
        for parameter in self.function.params:
            self.names[parameter, PLAIN] = self.fresh(parameter.name)
        self.taken.update(self.output_names)
        self.find_biases()
        cores = {core for core, _ in self.merged.values()}
        for variable, call in self.bound.items():
            if variable in cores or isinstance(call, relax.Tuple):
                continue
            if isinstance(call, relax.Var):
                self.alias(variable, call)
            else:
                self.binding(variable, call)
        for variable, name in zip(result(self.function), self.output_names, strict=True):
            self.node("Identity", [self.plain(variable)], name)
        return self.model()

    def model(self) -> onnx.ModelProto:
        inputs = [_value_info(self.names[parameter, PLAIN], parameter) for parameter in self.function.params]
        outputs = [_value_info(name, variable) for variable, name in zip(result(self.function), self.output_names, strict=True)]
        graph = helper.make_graph(_without_identities(self.nodes), "main", inputs, outputs, list(self.initializers.values()))
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="loadstone", ir_version=IR_VERSION)

    # -- names -------------------------------------------------------------------------------------------------------

    def fresh(self, name: str) -> str:
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}#{count}"
        self.taken.add(unique)
        return unique

    def name(self, variable: Any) -> str:
        return name_of(self.bound[variable]) or str(variable.name)

    def alias(self, variable: Any, source: Any) -> None:
        for layout in (PLAIN, FIRST):
            if (source, layout) in self.names:
                self.names[variable, layout] = self.names[source, layout]

    def node(self, op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], name=output, **attributes))
        return output

    def constant(self, array: NDArray[Any] | np.generic, name: str) -> str:
        unique = self.fresh(name)
        self.initializers[unique] = numpy_helper.from_array(np.asarray(array, order="C"), unique)
        return unique

    # -- layouts -----------------------------------------------------------------------------------------------------

    def plain(self, expr: Any) -> str:
        return self.get(expr, PLAIN)

    def get(self, expr: Any, layout: str) -> str:
        """The ONNX name of an operand in that layout."""
        if is_constant(expr):
            array = value(expr)
            return self.constant(np.transpose(array, TO_FIRST) if layout == FIRST else array, "constant")
        if (expr, layout) not in self.names:
            other, order, suffix = (PLAIN, TO_FIRST, "nchw") if layout == FIRST else (FIRST, TO_LAST, "nhwc")
            source = self.names[expr, other]
            target = self.fresh(f"{source}/{suffix}")
            self.names[expr, layout] = self.node("Transpose", [source], target, perm=order)
        return self.names[expr, layout]

    def layout(self, *operands: Any) -> str:
        """FIRST when a 4-D operand exists in it and the others have four axes as well."""
        variables = [operand for operand in operands if isinstance(operand, relax.Var)]
        if any(len(shape(operand) or ()) != 4 for operand in operands):
            return PLAIN
        return FIRST if any((operand, FIRST) in self.names for operand in variables) else PLAIN

    def emit(self, variable: Any, layout: str, op_type: str, inputs: Sequence[str], **attributes: Any) -> None:
        self.names[variable, layout] = self.node(op_type, inputs, self.fresh(self.name(variable)), **attributes)

    # -- convolutions and dense layers with their bias ---------------------------------------------------------------

    def find_biases(self) -> None:
        for variable, call in self.bound.items():
            if not is_call(call, "add"):
                continue
            core: Any = self.bound.get(call.args[0])
            bias = self.source(call.args[1])
            weighted = is_call(core, "nn.conv2d") or (
                is_call(core, "matmul") and len(shape(core) or ()) == 2 and self.weights(core.args[1])
            )
            vector = self.is_vector(bias)
            if weighted and vector and self.uses[call.args[0]] == 1:
                self.merged[variable] = (call.args[0], call.args[1])
        for variable, call in self.bound.items():
            if isinstance(call, relax.Call) and variable not in self.merged:
                for position, item in enumerate(call.args):
                    if isinstance(item, relax.Var):
                        self.readers.setdefault(item, []).append((op_name(call), position))

    def source(self, expr: Any) -> Any:
        """The constant behind dequantize(constant); else the expression."""
        bound: Any = self.bound.get(expr)
        return bound.args[0] if is_call(bound, "dequantize") and is_constant(bound.args[0]) else expr

    def weights(self, expr: Any) -> bool:
        return is_constant(self.source(expr))

    def is_vector(self, expr: Any) -> bool:
        return is_constant(expr) and value(expr).ndim > 0 and value(expr).size == value(expr).shape[-1]

    def operand(self, expr: Any, permutation: Sequence[int], name: str) -> str:
        """A constant or dequantized constant, transposed; a scale per channel follows its axis."""
        bound: Any = self.bound.get(expr)
        array = np.transpose(value(self.source(expr)), permutation)
        if not is_call(bound, "dequantize"):
            return self.constant(array, name)
        axis = list(permutation).index(int(bound.attrs.axis) % array.ndim) if array.ndim > 1 else 0
        return self.dequantized(self.constant(array, f"{name}/int"), bound, axis, f"{name}/real")

    def bias(self, expr: Any, name: str) -> str:
        bound: Any = self.bound.get(expr)
        array = value(self.source(expr)).reshape(-1)
        if not is_call(bound, "dequantize"):
            return self.constant(array, name)
        return self.dequantized(self.constant(array, f"{name}/int"), bound, 0, f"{name}/real")

    def dequantized(self, stored: str, call: Any, axis: int, name: str) -> str:
        return self.node("DequantizeLinear", [stored, *self.grid(call, name)], self.fresh(name), axis=axis)

    def grid(self, call: Any, name: str) -> list[str]:
        """Initializers of a quantize's or dequantize's scale and zero point."""
        kind = str(call.attrs.out_dtype) if is_call(call, "quantize") else dtype(call.args[0])
        scale, zero_point = value(call.args[1]).astype(np.float32), value(call.args[2]).astype(kind)
        if scale.size == 1:
            scale, zero_point = scale.reshape(()), zero_point.reshape(())
        return [self.constant(scale, f"{name}/scale"), self.constant(zero_point, f"{name}/zero_point")]

    # -- operators -----------------------------------------------------------------------------------------------------

    def binding(self, variable: Any, call: Any) -> None:
        core, bias = call, None
        if variable in self.merged:
            core, bias = self.bound[self.merged[variable][0]], self.merged[variable][1]
        name = op_name(core)
        if name == "dequantize" and is_constant(core.args[0]) and self.only_weights(variable):
            return  # written beside the layer that reads it
        if name in _SIMPLE:
            layout = self.layout(*core.args)
            self.emit(variable, layout, _SIMPLE[name], [self.get(operand, layout) for operand in core.args])
            return
        if name not in _TABLE:
            raise UnsupportedError(f'"{self.name(variable)}": the operator {name} has no ONNX form in Loadstone: it cannot be exported')
        _TABLE[name](self, variable, core, bias)

    def only_weights(self, variable: Any) -> bool:
        """Whether a dequantized constant is read as weights or merged bias alone."""
        return all(name in ("nn.conv2d", "matmul") and position == 1 for name, position in self.readers.get(variable, ()))

    def convolution(self, variable: Any, call: Any, bias: Any) -> None:
        name, attrs = self.name(variable), call.attrs
        inputs = [self.get(call.args[0], FIRST), self.operand(call.args[1], [0, 3, 1, 2], f"{name}/weights")]
        inputs += [self.bias(bias, f"{name}/bias")] if bias is not None else []
        pads, kernel = integers(attrs.padding), (shape(call.args[1]) or ())[1:3]
        options = {"strides": integers(attrs.strides), "pads": pads, "dilations": integers(attrs.dilation)}
        self.emit(variable, FIRST, "Conv", inputs, kernel_shape=kernel, group=int(attrs.groups), **options)

    def matmul(self, variable: Any, call: Any, bias: Any) -> None:
        name = self.name(variable)
        if bias is None:
            second = (
                self.operand(call.args[1], [0, 1], f"{name}/weights")
                if self.weights(call.args[1]) and len(shape(call.args[1]) or ()) == 2
                else None
            )
            self.emit(variable, PLAIN, "MatMul", [self.plain(call.args[0]), second or self.plain(call.args[1])])
            return
        weights = self.operand(call.args[1], [1, 0], f"{name}/weights")
        self.emit(variable, PLAIN, "Gemm", [self.plain(call.args[0]), weights, self.bias(bias, f"{name}/bias")], transB=1)

    def pool(self, variable: Any, call: Any, bias: Any) -> None:
        attrs, maximum = call.attrs, is_call(call, "nn.max_pool2d")
        options = {"strides": integers(attrs.strides), "pads": integers(attrs.padding), "ceil_mode": int(attrs.ceil_mode)}
        if maximum:
            options["dilations"] = integers(attrs.dilation)
        else:
            options["count_include_pad"] = int(attrs.count_include_pad)
        op_type = "MaxPool" if maximum else "AveragePool"
        self.emit(variable, FIRST, op_type, [self.get(call.args[0], FIRST)], kernel_shape=integers(attrs.pool_size), **options)

    def mean(self, variable: Any, call: Any, bias: Any) -> None:
        rank = len(shape(call.args[0]) or ())
        axes = sorted(axis % rank for axis in (range(rank) if call.attrs.axis is None else integers(call.attrs.axis)))
        keep = int(call.attrs.keepdims)
        if rank == 4 and axes == [1, 2]:
            target = self.fresh(self.name(variable))
            pooled = target if keep else self.fresh(f"{target}/pooled")
            self.node("GlobalAveragePool", [self.get(call.args[0], FIRST)], pooled)
            self.names[variable, FIRST if keep else PLAIN] = pooled if keep else self.node("Flatten", [pooled], target, axis=1)
            return
        self.emit(variable, PLAIN, "ReduceMean", [self.plain(call.args[0])], axes=axes, keepdims=keep)

    def reduce(self, variable: Any, call: Any, bias: Any) -> None:
        kind = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin"}[op_name(call)]
        rank = len(shape(call.args[0]) or ())
        axes = sorted(axis % rank for axis in (range(rank) if call.attrs.axis is None else integers(call.attrs.axis)))
        inputs, attributes = [self.plain(call.args[0])], {"axes": axes}
        if kind == "ReduceSum":  # since opset 13
            inputs, attributes = [*inputs, self.constant(np.array(axes, np.int64), f"{self.name(variable)}/axes")], {}
        self.emit(variable, PLAIN, kind, inputs, keepdims=int(call.attrs.keepdims), **attributes)

    def broadcast(self, variable: Any, call: Any, bias: Any) -> None:
        extents = self.constant(np.array(shape(variable), np.int64), f"{self.name(variable)}/shape")
        self.emit(variable, PLAIN, "Expand", [self.plain(call.args[0]), extents])

    def concat(self, variable: Any, call: Any, bias: Any) -> None:
        items = self.bound[call.args[0]].fields if isinstance(call.args[0], relax.Var) else call.args[0].fields
        layout, axis = self.layout(*items), int(call.attrs.axis) % len(shape(variable) or ())
        self.emit(variable, layout, "Concat", [self.get(item, layout) for item in items], axis=TO_LAST[axis] if layout == FIRST else axis)

    def softmax(self, variable: Any, call: Any, bias: Any) -> None:
        self.emit(variable, PLAIN, "Softmax", [self.plain(call.args[0])], axis=int(call.attrs.axis))

    def clip(self, variable: Any, call: Any, bias: Any) -> None:
        layout = self.layout(call.args[0])
        bounds = [
            self.constant(np.float32(scalar(bound)), f"{self.name(variable)}/{end}")
            for end, bound in zip(("min", "max"), call.args[1:], strict=True)
        ]
        self.emit(variable, layout, "Clip", [self.get(call.args[0], layout), *bounds])

    def quantize(self, variable: Any, call: Any, bias: Any) -> None:
        layout, name = self.layout(call.args[0]), self.name(variable)
        op_type = "QuantizeLinear" if is_call(call, "quantize") else "DequantizeLinear"
        per_channel = value(call.args[1]).size > 1
        layout = PLAIN if per_channel else layout
        axis = {"axis": int(call.attrs.axis)} if per_channel else {}
        self.emit(variable, layout, op_type, [self.get(call.args[0], layout), *self.grid(call, name)], **axis)

    def astype(self, variable: Any, call: Any, bias: Any) -> None:
        layout = self.layout(call.args[0])
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(str(call.attrs.dtype)))
        self.emit(variable, layout, "Cast", [self.get(call.args[0], layout)], to=kind)

    def permute(self, variable: Any, call: Any, bias: Any) -> None:
        axes, source = list(integers(call.attrs.axes)), call.args[0]
        if axes == TO_FIRST and (source, FIRST) in self.names:
            self.names[variable, PLAIN] = self.names[source, FIRST]
        elif axes == TO_LAST and (source, PLAIN) in self.names:
            self.names[variable, FIRST] = self.names[source, PLAIN]
        else:
            self.emit(variable, PLAIN, "Transpose", [self.plain(source)], perm=axes)

    def reshape(self, variable: Any, call: Any, bias: Any) -> None:
        """Where only axes of length 1 change places, channels first may be the same bytes: no transposition is needed."""
        source, old, new = call.args[0], shape(call.args[0]) or (), shape(variable) or ()
        layout = FIRST if (source, PLAIN) not in self.names and _same_order(old) and (source, FIRST) in self.names else PLAIN
        name = self.names[source, layout] if layout == FIRST else self.plain(source)
        extents = tuple(old[axis] for axis in TO_FIRST) if layout == FIRST else old
        if _same_order(new) and extents == tuple(new[axis] for axis in TO_FIRST):
            self.names[variable, FIRST] = name
            return
        target = self.constant(np.array(new, np.int64), f"{self.name(variable)}/shape")
        self.emit(variable, PLAIN, "Reshape", [name, target])

    def pad(self, variable: Any, call: Any, bias: Any) -> None:
        widths, layout = integers(call.attrs.pad_width), self.layout(call.args[0])
        order = TO_FIRST if layout == FIRST else range(len(widths) // 2)
        pads = np.array([widths[2 * axis + side] for side in (0, 1) for axis in order], np.int64)
        name, mode = self.name(variable), str(call.attrs.pad_mode)
        inputs = [self.get(call.args[0], layout), self.constant(pads, f"{name}/pads")]
        inputs.append(self.constant(np.float32(float(call.attrs.pad_value)), f"{name}/value"))
        self.emit(variable, layout, "Pad", inputs, mode=mode)

    def slice_(self, variable: Any, call: Any, bias: Any) -> None:
        axes, begins, ends = (np.array(integers(item), np.int64) for item in call.args[1:4])
        steps = np.array(integers(call.args[4]), np.int64) if len(call.args) > 4 else np.ones_like(axes)
        name = self.name(variable)
        terms = {"starts": begins, "ends": ends, "axes": axes, "steps": steps}
        self.emit(
            variable, PLAIN, "Slice", [self.plain(call.args[0]), *(self.constant(array, f"{name}/{term}") for term, array in terms.items())]
        )

    def resize(self, variable: Any, call: Any, bias: Any) -> None:
        attrs, name = call.attrs, self.name(variable)
        method = {"nearest_neighbor": "nearest", "linear": "linear"}.get(str(attrs.method))
        if method is None or str(attrs.layout) != "NHWC":
            raise UnsupportedError(f'"{name}": a resize by {attrs.method} in {attrs.layout} has no ONNX form in Loadstone')
        sizes = np.array([(shape(variable) or ())[axis] for axis in TO_FIRST], np.int64)
        options: dict[str, Any] = {"coordinate_transformation_mode": str(attrs.coordinate_transformation_mode), "mode": method}
        if method == "nearest":
            rounding = str(attrs.rounding_method)
            options["nearest_mode"] = (
                rounding if rounding in ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor") else "round_prefer_floor"
            )
        self.emit(variable, FIRST, "Resize", [self.get(call.args[0], FIRST), "", "", self.constant(sizes, f"{name}/sizes")], **options)

    def rsqrt(self, variable: Any, call: Any, bias: Any) -> None:
        root = self.node("Sqrt", [self.plain(call.args[0])], self.fresh(f"{self.name(variable)}/sqrt"))
        self.emit(variable, PLAIN, "Reciprocal", [root])

    def leaky(self, variable: Any, call: Any, bias: Any) -> None:
        layout = self.layout(call.args[0])
        self.emit(variable, layout, "LeakyRelu", [self.get(call.args[0], layout)], alpha=float(call.attrs.alpha))

    def prelu(self, variable: Any, call: Any, bias: Any) -> None:
        behind = len(shape(call.args[0]) or ()) - 1 - int(call.attrs.axis) % len(shape(call.args[0]) or (1,))
        if not is_constant(call.args[1]):
            raise UnsupportedError(f'"{self.name(variable)}": slopes that are computed have no ONNX form in Loadstone')
        slopes = self.constant(value(call.args[1]).reshape(-1, *[1] * behind), f"{self.name(variable)}/slopes")
        self.emit(variable, PLAIN, "PRelu", [self.plain(call.args[0]), slopes])

    def transposed_convolution(self, variable: Any, call: Any, bias: Any) -> None:
        attrs, name = call.attrs, self.name(variable)
        if (str(attrs.data_layout), str(attrs.kernel_layout)) != ("NCHW", "IOHW"):
            raise UnsupportedError(f'"{name}": a transposed convolution in {attrs.data_layout} has no ONNX form in Loadstone')
        terms = {"strides": "strides", "pads": "padding", "dilations": "dilation", "output_padding": "output_padding"}
        options = {term: integers(getattr(attrs, attribute)) for term, attribute in terms.items()}
        self.emit(variable, PLAIN, "ConvTranspose", [self.plain(item) for item in call.args], group=int(attrs.groups), **options)

    def take(self, variable: Any, call: Any, bias: Any) -> None:
        axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
        self.emit(variable, PLAIN, "Gather", [self.plain(call.args[0]), self.plain(call.args[1])], axis=axis)


_TABLE: dict[str, Callable[[_Writer, Any, Any, Any], None]] = {
    "nn.conv2d": _Writer.convolution,
    "matmul": _Writer.matmul,
    "nn.max_pool2d": _Writer.pool,
    "nn.avg_pool2d": _Writer.pool,
    "mean": _Writer.mean,
    **dict.fromkeys(("sum", "max", "min"), _Writer.reduce),
    "broadcast_to": _Writer.broadcast,
    "concat": _Writer.concat,
    "nn.softmax": _Writer.softmax,
    "clip": _Writer.clip,
    "quantize": _Writer.quantize,
    "dequantize": _Writer.quantize,
    "astype": _Writer.astype,
    "permute_dims": _Writer.permute,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "flatten"), _Writer.reshape),
    "nn.pad": _Writer.pad,
    "strided_slice": _Writer.slice_,
    "image.resize2d": _Writer.resize,
    "rsqrt": _Writer.rsqrt,
    "nn.leakyrelu": _Writer.leaky,
    "nn.prelu": _Writer.prelu,
    "nn.conv2d_transpose": _Writer.transposed_convolution,
    "take": _Writer.take,
}


def _same_order(extents: Sequence[int]) -> bool:
    """Whether a 4-D NHWC tensor has the same bytes channels first."""
    return len(extents) == 4 and (extents[3] == 1 or extents[1] * extents[2] == 1)


def _value_info(name: str, variable: Any) -> Any:
    extents = shape(variable)
    assert extents is not None
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype(variable))), extents)


def _without_identities(nodes: Sequence[Any]) -> list[Any]:
    """A final Identity takes the name of the node before it, where nothing else reads that."""
    reads: dict[str, int] = {}
    for node in nodes:
        for name in node.input:
            reads[name] = reads.get(name, 0) + 1
    producers = {node.output[0]: node for node in nodes}
    kept = []
    for node in nodes:
        source = producers.get(node.input[0]) if node.op_type == "Identity" else None
        if source is not None and reads[node.input[0]] == 1:
            source.output[0] = node.output[0]
        else:
            kept.append(node)
    return kept
