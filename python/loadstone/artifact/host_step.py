# SPDX-License-Identifier: Apache-2.0
"""The steps that the host executes between device programs, and when one is sound.

In:   the table of operators (host_operators.py); tensors of the memory plan.
Out:  HostStep, which checks itself (rules R19 to R21); one function per operator to make one.
Next: artifact/format.py writes them; runtime/operators.c executes them, runtime/device.py the
      external ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loadstone.artifact.host_operators import (
    BROADCAST_PARAMETERS,
    COPY_PARAMETERS,
    LOWEST,
    OPERATORS,
    PACK_PARAMETERS,
    HostOpcode,
)
from loadstone.artifact.memory_plan import MAX_RANK, BufferView, MemoryRegion, RegionKind
from loadstone.errors import ArtifactError

__all__ = [
    "EXTERNAL_C",
    "EXTERNAL_OPERATOR",
    "EXTERNAL_RELAX",
    "OPERATORS",
    "HostOpcode",
    "HostStep",
    "PackWindow",
    "SoftmaxScaling",
    "Strided",
    "argmax",
    "broadcast",
    "copy",
    "dequantize",
    "external",
    "fill",
    "gather",
    "lookup",
    "matmul_float32",
    "on_rows",
    "pack",
    "quantize",
    "softmax_float32",
    "softmax_int8",
    "sum_float32",
    "unary",
    "unpack",
]

#: Names of the runtime's external functions: C of the step's own, whose attributes are the
#: function's symbol, a line break and its source; and what Python runs.
EXTERNAL_C = "loadstone.c"
EXTERNAL_OPERATOR = "loadstone.operator"
EXTERNAL_RELAX = "loadstone.relax"


@dataclass(frozen=True)
class HostStep:
    """One operator of the host. inputs and outputs are indices of tensors; parameters go by the
    names in OPERATORS."""

    name: str
    opcode: HostOpcode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parameters: Mapping[str, int] = field(default_factory=dict)
    function: str = ""  # external: what device.register_external knows
    attributes: str = ""  # external: a text that the function understands

    def check(self, tensors: tuple[BufferView, ...], regions: tuple[MemoryRegion, ...]) -> None:
        """Raises ArtifactError naming the step and the rule of runtime/FORMAT.md that is broken."""

        def require(sound: bool, rule: str, text: str) -> None:
            if not sound:
                raise ArtifactError(
                    f"step {self.name!r} ({_operator_name(self.opcode)}): {text} (rule "
                    f"{rule} of runtime/FORMAT.md)"
                )

        require(self.opcode in OPERATORS, "R19", "the operator is unknown")
        spec = OPERATORS[self.opcode]
        counts = (len(self.inputs), len(self.outputs))
        wanted = "any number" if spec.inputs < 0 else f"{spec.inputs} and {spec.outputs}"
        require(
            counts == (spec.inputs, spec.outputs)
            or (spec.inputs < 0 and 1 <= counts[1] <= 255 and counts[0] <= 255),
            "R19",
            f"it has {counts[0]} inputs and {counts[1]} outputs, not {wanted}",
        )
        require(
            tuple(self.parameters) == spec.parameters,
            "R19",
            f"its parameters are {', '.join(self.parameters)}, not {spec.parameters}",
        )
        require(
            all(0 <= i < len(tensors) for i in (*self.inputs, *self.outputs)),
            "R19",
            f"it names a tensor beyond the {len(tensors)} there are",
        )
        outputs = [tensors[i] for i in self.outputs]
        require(
            all(regions[t.region].kind != RegionKind.CONSTANTS for t in outputs),
            "R19",
            "it writes constants",
        )
        for name, value in self.parameters.items():
            low = LOWEST.get(name, 0)
            require(low <= value < 1 << 31, "R20", f"{name}={value} is outside [{low}, 2147483647]")
        inputs = [tensors[i] for i in self.inputs]
        problem = spec.rule(inputs, outputs, self.parameters)
        require(not problem, "R20", problem)
        require(
            self.opcode == HostOpcode.EXTERNAL or self._apart(tensors),
            "R21",
            "its tensors overlap in memory",
        )

    def _apart(self, tensors: tuple[BufferView, ...]) -> bool:
        spec = OPERATORS[self.opcode]
        in_place = spec.in_place and self.inputs[0] == self.outputs[0]
        used = self.inputs[1:] + self.outputs if in_place else self.inputs + self.outputs
        later = len(self.inputs) if spec.shared else 0
        return not any(
            tensors[a].overlaps(tensors[b])
            for i, a in enumerate(used)
            for b in used[max(i + 1, later) :]
        )


def _operator_name(operator: int) -> str:
    return (
        HostOpcode(operator).name.lower() if operator in set(HostOpcode) else f"operator {operator}"
    )


# --- one function per operator --------------------------------------------------------------------
@dataclass(frozen=True)
class Strided:
    """How a copy walks through one of its tensors, in elements: a step for each axis, from offset
    on."""

    strides: Sequence[int]
    offset: int = 0


#: A copy's last axis with fewer elements is short.
_SHORT = 8


@dataclass(frozen=True)
class PackWindow:
    """Which taps a pack folds into channels. pads: (top, left); pad_value is int8."""

    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    pad_value: int = 0


_WHOLE = PackWindow()


@dataclass(frozen=True)
class SoftmaxScaling:
    """The input's scale as TFLite's Prepare computes it."""

    multiplier: int
    left_shift: int
    diff_min: int


def _padded(values: Sequence[int], fill: int) -> list[int]:
    return [fill] * (MAX_RANK - len(values)) + [int(v) for v in values]


def copy(
    name: str, x: int, y: int, extents: Sequence[int], source: Strided, target: Strided
) -> HostStep:
    """y[target.offset + sum i*target.strides] = x[source.offset + sum i*source.strides] for all i
    in extents, in elements; up to 6 axes.

    The runtime is quick along the last axis. Where that is short, as the three channels of an
    image are, the longest one takes its place.
    """
    axes = list(range(len(extents)))
    pieces = axes and source.strides[-1] == target.strides[-1] == 1
    if axes and not pieces and extents[-1] < _SHORT:
        axes.append(axes.pop(max(axes[::-1], key=lambda axis: extents[axis])))
    numbers = [
        source.offset,
        target.offset,
        *_padded([extents[axis] for axis in axes], 1),
        *_padded([source.strides[axis] for axis in axes], 0),
        *_padded([target.strides[axis] for axis in axes], 0),
    ]
    return HostStep(
        name, HostOpcode.COPY, (x,), (y,), dict(zip(COPY_PARAMETERS, numbers, strict=True))
    )


def fill(name: str, y: int, value: int) -> HostStep:
    """Every byte of y becomes `value` [0, 255]."""
    return HostStep(name, HostOpcode.FILL, (), (y,), {"value": value})


def pack(
    name: str,
    x: int,
    y: int,
    hwc: tuple[int, int, int],
    window: PackWindow = _WHOLE,
    nchw: bool = False,
) -> HostStep:
    """Row-major to blocked; a window larger than 1x1 folds its taps into channels."""
    w = window
    values = (*hwc, *w.kernel, *w.strides, *w.pads, w.pad_value, int(nchw))
    return HostStep(
        name, HostOpcode.PACK, (x,), (y,), dict(zip(PACK_PARAMETERS, values, strict=True))
    )


def unpack(name: str, x: int, y: int, nchw: bool = False) -> HostStep:
    """Blocked to row-major."""
    return HostStep(name, HostOpcode.UNPACK, (x,), (y,), {"nchw": int(nchw)})


def quantize(
    name: str, x: int, y: int, *, half_to_even: bool, low: int = -128, high: int = 127
) -> HostStep:
    """round(x / scale) + zero_point of y, clamped."""
    return HostStep(
        name,
        HostOpcode.QUANTIZE,
        (x,),
        (y,),
        {"half_to_even": int(half_to_even), "low": low, "high": high},
    )


def dequantize(name: str, x: int, y: int) -> HostStep:
    """(x - zero_point) * scale of x."""
    return HostStep(name, HostOpcode.DEQUANTIZE, (x,), (y,))


def lookup(name: str, x: int, table: int, y: int) -> HostStep:
    """y = table[x read as uint8]; x and y may be one tensor."""
    return HostStep(name, HostOpcode.LOOKUP, (x, table), (y,))


def softmax_int8(name: str, x: int, y: int, depth: int, scaling: SoftmaxScaling) -> HostStep:
    """TFLite's reference softmax over rows of `depth`."""
    values = {"depth": depth, **vars(scaling)}
    return HostStep(name, HostOpcode.SOFTMAX_INT8, (x,), (y,), values)


def softmax_float32(name: str, x: int, y: int, depth: int) -> HostStep:
    """exp(x - max) / sum over rows of `depth`; x and y may be one tensor."""
    return HostStep(name, HostOpcode.SOFTMAX_FLOAT32, (x,), (y,), {"depth": depth})


def argmax(name: str, x: int, y: int, depth: int) -> HostStep:
    """Index of the first largest in each row of `depth`."""
    return HostStep(name, HostOpcode.ARGMAX, (x,), (y,), {"depth": depth})


def unary(name: str, opcode: HostOpcode, x: int, y: int) -> HostStep:
    """A function of each element of x; opcode: EXP_FLOAT32 to ERF_FLOAT32."""
    return HostStep(name, opcode, (x,), (y,))


def broadcast(
    name: str,
    opcode: HostOpcode,
    operands: tuple[int, int, int],
    extents: Sequence[int],
    strides: tuple[Sequence[int], Sequence[int]],
) -> HostStep:
    """y[i] = f(a[sum i*strides[0]], b[sum i*strides[1]]) for all i in extents, of up to 6 axes, y
    row-major. opcode: ADD_FLOAT32 to POWER_FLOAT32. operands: a, b, y."""
    numbers = [*_padded(extents, 1), *_padded(strides[0], 0), *_padded(strides[1], 0)]
    values = dict(zip(BROADCAST_PARAMETERS, numbers, strict=True))
    return HostStep(name, opcode, operands[:2], operands[2:], values)


def sum_float32(name: str, x: int, y: int, depth: int, inner: int) -> HostStep:
    """Sums along an axis of `depth`, `inner` elements of the axes behind it."""
    values = {"depth": depth, "inner": inner}
    return HostStep(name, HostOpcode.SUM_FLOAT32, (x,), (y,), values)


def matmul_float32(
    name: str,
    operands: tuple[int, int, int],
    sizes: tuple[int, int, int],
    *,
    a_shared: bool = False,
    b_shared: bool = False,
) -> HostStep:
    """Products of matrices (m, k) and (k, n). operands: a, b, y; shared: one for all products."""
    values = dict(zip("mkn", sizes, strict=True))
    values |= {"a_shared": int(a_shared), "b_shared": int(b_shared)}
    return HostStep(name, HostOpcode.MATMUL_FLOAT32, operands[:2], operands[2:], values)


def gather(name: str, operands: tuple[int, int, int], extent: int, inner: int) -> HostStep:
    """Parts of `inner` elements along an axis of `extent`. operands: x, indices, y; x row-major, or
    blocked of the shape (extent, 1, 1, inner)."""
    values = {"extent": extent, "inner": inner}
    return HostStep(name, HostOpcode.GATHER, operands[:2], operands[2:], values)


def on_rows(
    name: str,
    opcode: HostOpcode,
    inputs: Sequence[int],
    outputs: Sequence[int],
    values: Sequence[int],
) -> HostStep:
    """An operator on rows of a decoder, RMS_NORM to GATE. values: of its parameters, in their
    order."""
    parameters = dict(zip(OPERATORS[opcode].parameters, values, strict=True))
    return HostStep(name, opcode, tuple(inputs), tuple(outputs), parameters)


def external(
    name: str, inputs: Sequence[int], outputs: Sequence[int], function: str, attributes: str = ""
) -> HostStep:
    """A function of the Python runtime (device.register_external); the C runtime refuses it."""
    return HostStep(
        name, HostOpcode.EXTERNAL, tuple(inputs), tuple(outputs), {}, function, attributes
    )
