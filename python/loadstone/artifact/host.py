# SPDX-License-Identifier: Apache-2.0
"""What stays on the host: operators of the graph -> steps of the artifact.

In:   an operator that no accelerator takes, and a Workspace that knows the artifact's tensors.
Out:  host steps: the C runtime's built-in operators where they suffice, else one `external` step:
      an operator as data, or code.
Next: deploy.py puts them between the device programs.

Most of what stays only moves bytes (copy with strides), or is a function of one int8 (a table of
256 entries, computed here by graph/reference.py, so that it is exact by construction). What is
neither becomes an external step. An operator of the graph is data, its fields as JSON, its arrays
as further inputs: graph/reference.py computes it in Python, and `loadstone export` makes C of it
(c_kernels/). A Relax function is steps of the runtime where it has all of its operators
(relax_steps.py), else C at once (c_operator.py), its constants further inputs; one that has no form
in C stays a module of TVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Protocol

import numpy as np

from loadstone import graph as g
from loadstone.artifact import host_step as steps
from loadstone.artifact.c_kernels import operator_arrays
from loadstone.artifact.c_text import COperator
from loadstone.artifact.host_step import (
    EXTERNAL_C,
    EXTERNAL_OPERATOR,
    EXTERNAL_RELAX,
    HostStep,
    Strided,
)
from loadstone.errors import UnsupportedError
from loadstone.files import JsonValue
from loadstone.graph.reference import run_operator
from loadstone.numerics import Array, Rounding

__all__ = ["Workspace", "has_steps", "host_steps", "is_built_in"]


class Workspace(Protocol):
    """What host_steps needs of the memory plan; tensors are named by their index in the
    artifact."""

    def tensor(self, tensor: g.Tensor) -> int:
        """The row-major form of a graph tensor."""
        ...

    def temporary(self, tensor: g.Tensor) -> int:
        """A row-major tensor that lives for this operator only."""
        ...

    def constant(self, name: str, value: Array, *, blocked: bool = False) -> int:
        """A tensor whose content the file holds, row-major; or in the device's blocks, (rows, 1, 1,
        columns). value: of any shape, or (rows, columns)."""
        ...

    def scratch(self, size_bytes: int) -> int:
        """Memory that one step may use as it likes; all steps share it."""
        ...


def host_steps(operator: g.Operator, space: Workspace) -> list[HostStep]:
    """The steps that compute `operator` from and to row-major tensors."""
    made = _built_in(operator, space)
    return made if made is not None else [_external(operator, space)]


def is_built_in(operator: g.Operator) -> bool:
    """Whether it is an operator of the graph that the C runtime alone can run."""
    return not isinstance(operator, g.Host) and _built_in(operator, _Nothing()) is not None


def has_steps(operator: g.Host) -> bool:
    """Whether the C runtime alone can run what stays Relax."""
    return _built_in(operator, _Nothing()) is not None


class _Nothing:
    """A Workspace for asking, not for making."""

    def tensor(self, tensor: g.Tensor) -> int:
        return 0

    def temporary(self, tensor: g.Tensor) -> int:
        return 0

    def constant(self, name: str, value: Array, *, blocked: bool = False) -> int:
        return 0

    def scratch(self, size_bytes: int) -> int:
        return 0


def _built_in(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    maker = _MAKERS.get(type(o))
    return None if maker is None else maker(o, space)


# --- movers ---------------------------------------------------------------------------------------
def _row_major(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _reshape(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    if np.dtype(o.input.dtype).itemsize != np.dtype(o.output.dtype).itemsize:
        return None
    return [
        steps.copy(
            o.name,
            space.tensor(o.input),
            space.tensor(o.output),
            [o.input.size],
            Strided([1]),
            Strided([1]),
        )
    ]


def _transpose(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.Transpose)
    if len(o.output.shape) > 6:
        return None
    strides = _row_major(o.input.shape)
    moved = [strides[axis] for axis in o.permutation]
    return [
        steps.copy(
            o.name,
            space.tensor(o.input),
            space.tensor(o.output),
            o.output.shape,
            Strided(moved),
            Strided(_row_major(o.output.shape)),
        )
    ]


def _slice(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.Slice)
    if len(o.output.shape) > 6:
        return None
    strides = _row_major(o.input.shape)
    start = sum(b * s for b, s in zip(o.begin, strides, strict=True))
    moved = [s * k for s, k in zip(strides, o.strides, strict=True)]
    x, y = space.tensor(o.input), space.tensor(o.output)
    return [
        steps.copy(
            o.name, x, y, o.output.shape, Strided(moved, start), Strided(_row_major(o.output.shape))
        )
    ]


def _pad(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.Pad)
    if (
        len(o.output.shape) > 6
        or np.dtype(o.output.dtype).itemsize != 1
        or min(*o.before, *o.after) < 0
    ):
        return None
    strides = _row_major(o.output.shape)
    start = sum(b * s for b, s in zip(o.before, strides, strict=True))
    x, y = space.tensor(o.input), space.tensor(o.output)
    return [
        steps.fill(o.name, y, o.value & 255),
        steps.copy(
            o.name, x, y, o.input.shape, Strided(_row_major(o.input.shape)), Strided(strides, start)
        ),
    ]


def _concatenate(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.Concatenate)
    if len(o.output.shape) > 6:
        return None
    result: list[HostStep] = []
    strides = _row_major(o.output.shape)
    start = 0
    for part in o.inputs:
        source = space.tensor(part)
        if part.quantization != o.output.quantization or (o.low, o.high) != (-128, 127):
            if np.dtype(part.dtype).itemsize != 1:
                return None
            requantized = g.Tensor(
                f"{o.name}/{part.name}", part.shape, o.output.dtype, o.output.quantization
            )
            one = replace(
                o, name=requantized.name, inputs=(part,), outputs=(requantized,), axis=1
            )  # in the table's shape
            target = space.temporary(requantized)
            result.append(
                steps.lookup(
                    o.name, source, space.constant(f"{one.name}.table", _table(one)), target
                )
            )
            source = target
        y = space.tensor(o.output)
        result.append(
            steps.copy(
                o.name,
                source,
                y,
                part.shape,
                Strided(_row_major(part.shape)),
                Strided(strides, start),
            )
        )
        start += part.shape[o.axis] * strides[o.axis]
    return result


def _resize_nearest(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.ResizeNearest)
    (n, h, w, c), (_, out_h, out_w, _) = o.input.shape, o.output.shape
    if out_h % h or out_w % w or o.align_corners or o.half_pixel_centers:
        return None
    fh, fw = out_h // h, out_w // w
    x, y = space.tensor(o.input), space.tensor(o.output)
    extents = (n * h, fh, w, fw, c)
    return [
        steps.copy(
            o.name,
            x,
            y,
            extents,
            Strided((w * c, 0, c, 0, 1)),
            Strided((fh * out_w * c, out_w * c, fw * c, c, 1)),
        )
    ]


# --- functions of one element ---------------------------------------------------------------------
def _table(o: g.Operator) -> Array:
    """What an element-wise operator makes of each of the 256 values, in the order of their
    bytes."""
    values = np.arange(256, dtype=np.uint8).view(np.dtype(o.input.dtype))
    x = g.Tensor(o.input.name, (1, 256), o.input.dtype, o.input.quantization)
    y = g.Tensor(o.output.name, (1, 256), o.output.dtype, o.output.quantization)
    plain = {entry.name: getattr(o, entry.name) for entry in fields(o)}
    return np.asarray(
        run_operator(
            type(o)(**{**plain, "inputs": (x,), "outputs": (y,)}), [values.reshape(1, 256)]
        )[0]
    ).reshape(256)


def _lookup(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    if np.dtype(o.input.dtype).itemsize != 1:
        return None
    table = space.constant(f"{o.name}.table", _table(o))
    return [steps.lookup(o.name, space.tensor(o.input), table, space.tensor(o.output))]


def _quantize(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.Quantize)
    if o.input.dtype != "float32":
        return None
    x, y = space.tensor(o.input), space.tensor(o.output)
    return [
        steps.quantize(
            o.name, x, y, half_to_even=o.rounding is Rounding.FLOAT32, low=o.low, high=o.high
        )
    ]


def _dequantize(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    if o.output.dtype != "float32" or o.input.dtype not in ("int8", "uint8", "int32"):
        return None
    return [steps.dequantize(o.name, space.tensor(o.input), space.tensor(o.output))]


def _softmax(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    from loadstone.numerics import quantize_multiplier

    assert isinstance(o, g.Softmax)
    depth = o.input.shape[-1]
    if o.rounding is Rounding.FLOAT32 or o.input.dtype not in ("int8", "uint8") or depth > 4096:
        return None
    # TFLite's Prepare: the input scale in Q5.26 and the least difference that does not vanish.
    real = min(o.beta * float(np.float32(o.input.scale)) * (1 << 26), (1 << 31) - 1.0)
    multiplier, shift = quantize_multiplier(real)
    left = int(shift)
    least = -(int(((1 << 5) - 1) * (1 << 26) / (1 << left))) if left >= 0 else 0
    if left < 0:
        return None
    x, y = space.tensor(o.input), space.tensor(o.output)
    return [
        steps.softmax_int8(o.name, x, y, depth, steps.SoftmaxScaling(int(multiplier), left, least))
    ]


def _argmax(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    assert isinstance(o, g.ArgMax)
    if (
        o.input.dtype not in ("int8", "uint8")
        or o.output.dtype not in ("int32", "int64")
        or o.axis != len(o.input.shape) - 1
    ):
        return None
    return [steps.argmax(o.name, space.tensor(o.input), space.tensor(o.output), o.input.shape[-1])]


def _relax(o: g.Operator, space: Workspace) -> list[HostStep] | None:
    """Of a function that is taken in part, nothing is left in `space`."""
    from loadstone.artifact.relax_steps import relax_steps  # TVM, which made it

    assert isinstance(o, g.Host)
    return None if relax_steps(o, _Nothing()) is None else relax_steps(o, space)


_MAKERS: Mapping[type[g.Operator], Callable[[g.Operator, Workspace], list[HostStep] | None]] = {
    g.Reshape: _reshape,
    g.Transpose: _transpose,
    g.Slice: _slice,
    g.Pad: _pad,
    g.Concatenate: _concatenate,
    g.ResizeNearest: _resize_nearest,
    g.Requantize: _lookup,
    g.Lookup: _lookup,
    g.Quantize: _quantize,
    g.Dequantize: _dequantize,
    g.Softmax: _softmax,
    g.ArgMax: _argmax,
    g.Host: _relax,
}


# --- what the C runtime has not -------------------------------------------------------------------
def _external(o: g.Operator, space: Workspace) -> HostStep:
    if isinstance(o, g.Host) and (made := _as_c(o)) is not None:
        return _c_step(o, made, space)
    inputs = [space.tensor(t) for t in o.inputs]
    outputs = [space.tensor(t) for t in o.outputs]
    if isinstance(o, g.Host):
        from loadstone.relax.saved import save_function

        return steps.external(o.name, inputs, outputs, EXTERNAL_RELAX, save_function(o.function))
    arrays = operator_arrays(o)
    for name in arrays:
        inputs.append(space.constant(f"{o.name}.{name}", getattr(o, name)))
    return steps.external(o.name, inputs, outputs, EXTERNAL_OPERATOR, _to_json(o, arrays))


def _as_c(o: g.Host) -> COperator | None:
    """None for what has no form in C."""
    from loadstone.artifact.c_operator import c_operator, parameter_bytes

    try:
        one = parameter_bytes(o.function)[0] if o.inputs else 0
        samples = o.inputs[0].size_bytes // one if one else 1
        return c_operator(o.function, samples)
    except UnsupportedError:
        return None


def _c_step(o: g.Host, made: COperator, space: Workspace) -> HostStep:
    inputs = [space.tensor(t) for t in o.inputs]
    for k, value in enumerate(made.constants):
        inputs.append(space.constant(f"{o.name}.constant{k}", value))
    outputs = [space.tensor(t) for t in o.outputs]
    if made.workspace_bytes:
        outputs.append(space.scratch(made.workspace_bytes))
    attributes = f"{made.symbol}\n{made.source}"
    return steps.external(o.name, inputs, outputs, EXTERNAL_C, attributes)


#: Fields that came late: the step of an operator that has their default is what it was.
_ONLY_IF_SET = ("float32_product", "turned")


def _to_json(o: g.Operator, arrays: Sequence[str]) -> str:
    said = [e for e in fields(o) if e.name not in (*arrays, "inputs", "outputs")]
    plain = {
        e.name: getattr(o, e.name)
        for e in said
        if e.name not in _ONLY_IF_SET or getattr(o, e.name) != e.default
    }
    plain = {k: int(v) if isinstance(v, Rounding) else v for k, v in plain.items()}
    tensors = [[_tensor_json(t) for t in side] for side in (o.inputs, o.outputs)]
    return json.dumps(
        {"kind": type(o).__name__, "fields": plain, "arrays": list(arrays), "tensors": tensors}
    )


def _tensor_json(t: g.Tensor) -> list[JsonValue]:
    return [
        t.name,
        list(t.shape),
        t.dtype,
        None if t.quantization is None else [t.quantization.scale, t.quantization.zero_point],
    ]
