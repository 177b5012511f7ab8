# SPDX-License-Identifier: Apache-2.0
"""ONNX's LSTM, GRU and RNN.

In:   a node's inputs as Relax expressions, and its attributes.
Out:  its outputs: Y (T, directions, B, H), Y_h and, of an LSTM, Y_c (directions, B, H).
Next: onnx.py, in place of TVM's importer, which has none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.recurrent import Emit, Gates, States, gates_of, unrolled
from loadstone.numerics import Array
from loadstone.relax.compat import is_constant, relax, shape, value

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["RECURRENT", "recurrent"]

#: Kind, and where the gates of recurrent.py stand among ONNX's: i o f c; z r h.
RECURRENT: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "LSTM": ("lstm", (0, 2, 3, 1)),
    "GRU": ("gru", (1, 0, 2)),
    "RNN": ("rnn", (0,)),
}
_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def recurrent(
    op_name: str, inputs: Sequence[Expr | None], attributes: Mapping[str, Any], emit: Emit
) -> Expr:
    """A tuple. Raises UnsupportedError for what is not unrolled."""
    return _Layer(op_name, inputs, attributes, emit).outputs()


@dataclass(frozen=True, eq=False)
class _Layer:
    op_name: str
    inputs: Sequence[Expr | None]
    attributes: Mapping[str, Any]
    emit: Emit

    def input(self, index: int) -> Expr | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def outputs(self) -> Expr:
        direction = self.attributes.get("direction", b"forward").decode()
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
        return relax.Tuple(results)

    def check(self, directions: int) -> None:
        wrong = ""
        activations = [entry.decode() for entry in self.attributes.get("activations", ())]
        plain = _ACTIVATIONS[self.op_name] * directions
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
        elif any(not is_constant(self.input(index)) for index in (1, 2)):
            wrong = "weights that are computed"
        if wrong:
            raise UnsupportedError(f"{self.op_name} with {wrong}")

    def whole_sequences(self) -> bool:
        lengths, extents = self.input(4), shape(self.input(0))
        if extents is None or not is_constant(lengths):
            return False
        return bool(np.all(value(lengths) == extents[1 if self.attributes.get("layout", 0) else 0]))

    def gates(self, direction: int) -> Gates:
        kind, order = RECURRENT[self.op_name]
        weights, state = (value(self.input(index))[direction] for index in (1, 2))
        bias = np.zeros(2 * len(weights), np.float32)
        given: Array = value(self.input(3))[direction] if is_constant(self.input(3)) else bias
        halves = np.split(given, 2)
        relu = b"Relu" in self.attributes.get("activations", ())
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
