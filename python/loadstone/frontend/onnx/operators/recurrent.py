# SPDX-License-Identifier: Apache-2.0
"""ONNX's LSTM, GRU and RNN.

In:   an OnnxNode.
Out:  its outputs: Y (T, directions, B, H), Y_h and, of an LSTM, Y_c (directions, B, H).
Next: importer.py binds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.frontend.onnx.node import Attributes, OnnxNode
from loadstone.frontend.onnx.table import converter
from loadstone.frontend.recurrent import Gates, States, gates_of, unrolled
from loadstone.numerics import Array
from loadstone.relax.compat import is_constant, relax, shape, value

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []

#: Kind, and where the gates of recurrent.py stand among ONNX's: i o f c; z r h.
_KINDS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "LSTM": ("lstm", (0, 2, 3, 1)),
    "GRU": ("gru", (1, 0, 2)),
    "RNN": ("rnn", (0,)),
}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


_SHARED = "activations activation_alpha activation_beta clip direction hidden_size layout "


@converter("RNN", attributes=_SHARED, inputs=6, outputs=2, constants=(1, 2, 3))
@converter(
    "GRU",
    attributes=_SHARED + "linear_before_reset",
    inputs=6,
    outputs=2,
    constants=(1, 2, 3),
)
@converter("LSTM", attributes=_SHARED + "input_forget", inputs=8, outputs=3, constants=(1, 2, 3))
def _recurrent(node: OnnxNode) -> list[Expr]:
    return _Layer(node).outputs()


@dataclass(frozen=True, eq=False)
class _Layer:
    node: OnnxNode

    @property
    def op_name(self) -> str:
        return self.node.op_type

    @property
    def attributes(self) -> Attributes:
        return self.node.attributes

    def emit(self, expr: Expr) -> Expr:
        return self.node.emit(expr)

    def input(self, index: int) -> Expr | None:
        return self.node.input(index)

    def outputs(self) -> list[Expr]:
        direction = self.attributes["direction"]
        reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        self.check(len(reverse))
        x = self.input(0)
        batch_first = bool(self.attributes.get("layout", 0))
        if batch_first:
            x = self.emit(relax.op.permute_dims(x, [1, 0, 2]))
        made = [
            unrolled(self.emit, x, self.gates(k), self.states(k, batch_first), reverse=backwards)
            for k, backwards in enumerate(reverse)
        ]
        results = [self.joined([self.sequence(states) for states in made], 1)]
        results.append(self.last([states.hidden for states in made]))
        if self.op_name == "LSTM":
            results.append(self.last([states.cell for states in made]))
        if batch_first:
            orders = [[2, 0, 1, 3], [1, 0, 2], [1, 0, 2]]
            results = [
                self.emit(relax.op.permute_dims(r, order))
                for r, order in zip(results, orders, strict=False)
            ]
        return results

    def check(self, directions: int) -> None:
        wrong = ""
        plain = _ACTIVATIONS[self.op_name] * directions
        # the schema's default is for two directions, also where there is one
        activations = list(self.attributes.get("activations", ()))[: len(plain)]
        relus = ["Relu"] * directions if self.op_name == "RNN" else plain
        if activations not in ([], plain, relus):
            wrong = f"activations {', '.join(activations)}"
        elif self.attributes.get("clip") is not None:
            wrong = "clip"
        elif self.attributes.get("input_forget", 0):
            wrong = "input_forget"
        elif self.input(7) is not None:
            wrong = "peepholes"
        elif self.input(4) is not None and not self.whole_sequences():
            wrong = "sequences that end before the others (sequence_lens)"
        elif self.attributes.get("activation_alpha") or self.attributes.get("activation_beta"):
            wrong = "numbers for its activations"
        if wrong:
            raise self.node.refusal(f"it has {wrong}", "export it with the usual cell")

    def whole_sequences(self) -> bool:
        lengths, extents = self.input(4), shape(self.input(0))
        if extents is None or not is_constant(lengths):
            return False
        return bool(np.all(value(lengths) == extents[1 if self.attributes.get("layout", 0) else 0]))

    def gates(self, direction: int) -> Gates:
        kind, order = _KINDS[self.op_name]
        weights, state = (value(self.input(index))[direction] for index in (1, 2))
        bias = np.zeros(2 * len(weights), np.float32)
        given: Array = value(self.input(3))[direction] if is_constant(self.input(3)) else bias
        halves = np.split(given, 2)
        relu = "Relu" in self.attributes.get("activations", ())
        return gates_of(
            kind,
            (weights, state, *halves),
            order,
            reset_after=bool(self.attributes.get("linear_before_reset", 0)),
            activation="relu" if relu else "tanh",
        )

    def states(self, direction: int, batch_first: bool) -> list[Expr | None]:
        """(B, H) of each state that is given."""
        found: list[Expr | None] = []
        for index in (5, 6):
            given = self.input(index)
            if given is None or (is_constant(given) and not value(given).any()):
                found.append(None)
                continue
            extents, axis = shape(given) or (), 1 if batch_first else 0
            one = self.emit(relax.op.strided_slice(given, [axis], [direction], [direction + 1]))
            rows = extents[0 if batch_first else 1], extents[2]
            found.append(self.emit(relax.op.reshape(one, rows)))
        return found

    def joined(self, parts: list[Expr], axis: int) -> Expr:
        return parts[0] if len(parts) == 1 else self.emit(relax.op.concat(parts, axis=axis))

    def sequence(self, states: States) -> Expr:
        rows, width = shape(states.hidden) or ()
        flat = self.joined(list(states.steps), 0)
        return self.emit(relax.op.reshape(flat, (len(states.steps), 1, rows, width)))

    def last(self, states: Sequence[Expr | None]) -> Expr:
        extents = shape(states[0]) or ()
        return self.joined([self.emit(relax.op.reshape(s, (1, *extents))) for s in states], 0)
