# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements or choose among them, as ONNX.

In:   their calls in a module in canonical form (NHWC).
Out:  nodes; where the layout is ONNX's own, no transposition is written.
Next: export_onnx.py, which adds the operators that compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.quantization.onnx_writer import FIRST, PLAIN, TO_FIRST, TO_LAST, OnnxWriter
from loadstone.relax.compat import integers, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Call, Expr, Var

__all__ = ["MovesWriter"]


class MovesWriter(OnnxWriter):
    """The converters. Each takes a variable, its call, and the bias, which only layers with weights
    have."""

    def broadcast(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Expand, to the shape of the result."""
        extents = self.constant(np.array(shape(variable), np.int64), f"{self.name(variable)}/shape")
        self.emit(variable, PLAIN, "Expand", [self.plain(call.args[0]), extents])

    def concat(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Concat, in the layout of its parts."""
        items = (
            self.bound[call.args[0]].fields
            if isinstance(call.args[0], relax.Var)
            else call.args[0].fields
        )
        layout, axis = self.layout(*items), int(call.attrs.axis) % len(shape(variable) or ())
        self.emit(
            variable,
            layout,
            "Concat",
            [self.get(item, layout) for item in items],
            axis=TO_LAST[axis] if layout == FIRST else axis,
        )

    def permute(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Transpose, or no node where the other layout exists already."""
        axes, source = list(integers(call.attrs.axes)), call.args[0]
        if axes == TO_FIRST and (source, FIRST) in self.names:
            self.names[variable, PLAIN] = self.names[source, FIRST]
        elif axes == TO_LAST and (source, PLAIN) in self.names:
            self.names[variable, FIRST] = self.names[source, PLAIN]
        else:
            self.emit(variable, PLAIN, "Transpose", [self.plain(source)], perm=axes)

    def reshape(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Where only axes of length 1 change places, the bytes may be the same with channels first,
        so that no transposition is needed."""
        source, old, new = call.args[0], shape(call.args[0]) or (), shape(variable) or ()
        layout = (
            FIRST
            if (source, PLAIN) not in self.names
            and _same_order(old)
            and (source, FIRST) in self.names
            else PLAIN
        )
        name = self.names[source, layout] if layout == FIRST else self.plain(source)
        extents = tuple(old[axis] for axis in TO_FIRST) if layout == FIRST else old
        if _same_order(new) and extents == tuple(new[axis] for axis in TO_FIRST):
            self.names[variable, FIRST] = name
            return
        target = self.constant(np.array(new, np.int64), f"{self.name(variable)}/shape")
        self.emit(variable, PLAIN, "Reshape", [name, target])

    def pad(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Pad; its widths follow the layout."""
        widths, layout = integers(call.attrs.pad_width), self.layout(call.args[0])
        order = TO_FIRST if layout == FIRST else range(len(widths) // 2)
        pads = np.array([widths[2 * axis + side] for side in (0, 1) for axis in order], np.int64)
        name, mode = self.name(variable), str(call.attrs.pad_mode)
        inputs = [self.get(call.args[0], layout), self.constant(pads, f"{name}/pads")]
        inputs.append(self.constant(np.float32(float(call.attrs.pad_value)), f"{name}/value"))
        self.emit(variable, layout, "Pad", inputs, mode=mode)

    def slice_(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Slice."""
        axes, begins, ends = (np.array(integers(item), np.int64) for item in call.args[1:4])
        steps = (
            np.array(integers(call.args[4]), np.int64) if len(call.args) > 4 else np.ones_like(axes)
        )
        name = self.name(variable)
        terms = {"starts": begins, "ends": ends, "axes": axes, "steps": steps}
        self.emit(
            variable,
            PLAIN,
            "Slice",
            [
                self.plain(call.args[0]),
                *(self.constant(array, f"{name}/{term}") for term, array in terms.items()),
            ],
        )

    def resize(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Resize. Raises UnsupportedError for methods that ONNX does not have."""
        attrs, name = call.attrs, self.name(variable)
        method = {"nearest_neighbor": "nearest", "linear": "linear"}.get(str(attrs.method))
        if method is None or str(attrs.layout) != "NHWC":
            raise UnsupportedError(
                f'"{name}": a resize by {attrs.method} in {attrs.layout} has no ONNX form in '
                "Loadstone"
            )
        sizes = np.array([(shape(variable) or ())[axis] for axis in TO_FIRST], np.int64)
        options: dict[str, object] = {
            "coordinate_transformation_mode": str(attrs.coordinate_transformation_mode),
            "mode": method,
        }
        if method == "nearest":
            rounding = str(attrs.rounding_method)
            options["nearest_mode"] = (
                rounding
                if rounding in ("floor", "ceil", "round_prefer_ceil", "round_prefer_floor")
                else "round_prefer_floor"
            )
        self.emit(
            variable,
            FIRST,
            "Resize",
            [self.get(call.args[0], FIRST), "", "", self.constant(sizes, f"{name}/sizes")],
            **options,
        )

    def take(self, variable: Var, call: Call, bias: Expr | None) -> None:
        """Gather."""
        axis = 0 if call.attrs.axis is None else int(call.attrs.axis)
        self.emit(
            variable,
            PLAIN,
            "Gather",
            [self.plain(call.args[0]), self.plain(call.args[1])],
            axis=axis,
        )


def _same_order(extents: Sequence[int]) -> bool:
    """Whether a 4-D NHWC tensor has the same bytes channels first."""
    return len(extents) == 4 and (extents[3] == 1 or extents[1] * extents[2] == 1)
