# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN, unrolled over time: dense layers and functions of elements.

In:   a sequence, weights and biases in one order of gates, initial states.
Out:  the hidden state of every step, and the last states.
Next: onnx/operators/recurrent.py and aten/recurrent.py bring each format's layers here.

The products with the input are one dense layer for the whole sequence; those with the state are one
for each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.numerics import Array
from loadstone.relax.compat import constant, relax, shape

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__ = ["Emit", "Gates", "States", "gates_of", "unrolled"]

Emit = Callable[["Expr"], "Expr"]
#: Order of gates here: LSTM input, forget, candidate, output; GRU reset, update, candidate.
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
#: Steps are copies of the layer: beyond this a model is no use to anyone.
MAX_STEPS = 4096


@dataclass(frozen=True, eq=False)
class Gates:
    """One direction of a layer. x: (gates * H, I); h: (gates * H, H); biases of both: (gates * H,).

    reset_after: the reset gate weighs the product with the state, not the state (GRU).
    """

    kind: str
    x: Array
    h: Array
    x_bias: Array
    h_bias: Array
    reset_after: bool = True
    activation: str = "tanh"


@dataclass(frozen=True, eq=False)
class States:
    """Hidden states of every step in the order of time; the last ones. All are (B, H)."""

    steps: Sequence[Expr]
    hidden: Expr
    cell: Expr | None = None


def gates_of(kind: str, arrays: Sequence[Array], order: Sequence[int], **options: object) -> Gates:
    """arrays: weights (gates * H, ...) of the input and of the state, biases (gates * H,) of both,
    with the gates in another order; order: where this one's gates stand there."""

    def ordered(array: Array) -> Array:
        parts = np.split(np.asarray(array, np.float32), GATES[kind])
        return np.concatenate([parts[k] for k in order])

    return Gates(kind, *map(ordered, arrays), **options)  # type: ignore[arg-type]


def unrolled(
    emit: Emit, x: Expr, gates: Gates, states: Sequence[Expr | None], *, reverse: bool = False
) -> States:
    """x: (T, B, I). states: hidden and cell (B, H) to begin with; None is zero. emit binds a
    call. Raises UnsupportedError for a sequence whose length is open, or too long."""
    extents = shape(x)
    if extents is None or extents[0] > MAX_STEPS:
        raise UnsupportedError(
            f"a sequence of shape {extents} cannot be unrolled: its length is a number, at most "
            f"{MAX_STEPS}"
        )
    steps, batch, width = extents
    flat = emit(relax.op.reshape(x, (steps * batch, width)))
    taken = _dense(emit, flat, gates.x, _input_bias(gates))
    cell = _Cell(emit, gates, states)
    made: list[Expr] = []
    for step in reversed(range(steps)) if reverse else range(steps):
        ends = [step * batch], [(step + 1) * batch]
        cell.step(emit(relax.op.strided_slice(taken, [0], *ends)) if steps > 1 else taken)
        assert cell.hidden is not None
        made.append(cell.hidden)
    assert cell.hidden is not None
    return States(made[::-1] if reverse else made, cell.hidden, cell.cell)


def _dense(emit: Emit, x: Expr, weights: Array, bias: Array | None) -> Expr:
    product = emit(relax.op.matmul(x, constant(np.ascontiguousarray(weights.T))))
    return product if bias is None else emit(relax.op.add(product, constant(bias)))


def _input_bias(gates: Gates) -> Array:
    """Both biases, but for what a reset gate weighs."""
    both = gates.x_bias + gates.h_bias
    if gates.kind == "gru" and gates.reset_after:
        size = len(both) // 3
        both[2 * size :] = gates.x_bias[2 * size :]
    return np.asarray(both, np.float32)


class _Cell:
    """hidden, cell: the states; None is zero."""

    def __init__(self, emit: Emit, gates: Gates, states: Sequence[Expr | None]) -> None:
        self.emit, self.gates = emit, gates
        self.hidden, self.cell = (*states, None)[:2]
        self.size = gates.h.shape[1]

    def step(self, taken: Expr) -> None:
        """taken: (B, gates * H), what the input gives."""
        {"lstm": self._lstm, "gru": self._gru, "rnn": self._rnn}[self.gates.kind](taken)

    def _gate(self, sums: Expr, index: int) -> Expr:
        ends = [index * self.size], [(index + 1) * self.size]
        return self.emit(relax.op.strided_slice(sums, [1], *ends))

    def _with_state(self, taken: Expr, rows: slice = slice(None)) -> Expr:
        if self.hidden is None:
            return taken
        product = _dense(self.emit, self.hidden, self.gates.h[rows], None)
        return self.emit(relax.op.add(taken, product))

    def _lstm(self, taken: Expr) -> None:
        emit, sums = self.emit, self._with_state(taken)
        enter, forget, leave = (emit(relax.op.sigmoid(self._gate(sums, k))) for k in (0, 1, 3))
        new = emit(relax.op.multiply(enter, emit(relax.op.tanh(self._gate(sums, 2)))))
        if self.cell is not None:
            new = emit(relax.op.add(emit(relax.op.multiply(forget, self.cell)), new))
        self.cell = new
        self.hidden = emit(relax.op.multiply(leave, emit(relax.op.tanh(new))))

    def _gru(self, taken: Expr) -> None:
        emit, size = self.emit, self.size
        two = emit(relax.op.strided_slice(taken, [1], [0], [2 * size]))
        sums = self._with_state(two, slice(0, 2 * size))
        reset, update = (emit(relax.op.sigmoid(self._gate(sums, k))) for k in (0, 1))
        state = self._candidate_state(reset)
        entered = self._gate(taken, 2)
        new = emit(relax.op.tanh(entered if state is None else emit(relax.op.add(entered, state))))
        if self.hidden is None:  # new * (1 - update)
            kept = emit(relax.op.multiply(update, new))
            self.hidden = emit(relax.op.subtract(new, kept))
            return
        change = emit(relax.op.subtract(self.hidden, new))
        self.hidden = emit(relax.op.add(new, emit(relax.op.multiply(update, change))))

    def _candidate_state(self, reset: Expr) -> Expr | None:
        """What the state gives the candidate."""
        emit, rows = self.emit, slice(2 * self.size, None)
        weights, bias = self.gates.h[rows], self.gates.h_bias[rows]
        if not self.gates.reset_after:
            if self.hidden is None:
                return None
            return _dense(emit, emit(relax.op.multiply(reset, self.hidden)), weights, None)
        if self.hidden is None:
            return emit(relax.op.multiply(reset, constant(bias[None])))
        return emit(relax.op.multiply(reset, _dense(emit, self.hidden, weights, bias)))

    def _rnn(self, taken: Expr) -> None:
        function = relax.op.tanh if self.gates.activation == "tanh" else relax.op.nn.relu
        self.hidden = self.emit(function(self._with_state(taken)))
