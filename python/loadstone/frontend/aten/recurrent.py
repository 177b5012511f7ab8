# SPDX-License-Identifier: Apache-2.0
"""nn.LSTM, nn.GRU and nn.RNN.

In:   the arguments of aten.lstm and its kin: the sequence, states, weights of all layers.
Out:  the outputs of every step, and the last states.
Next: torch.py emits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from loadstone.errors import UnsupportedError
from loadstone.frontend.aten.build import Build, extents, importer, stored
from loadstone.frontend.recurrent import GATES, Gates, States, gates_of, unrolled
from loadstone.relax.compat import is_constant, relax, value

if TYPE_CHECKING:
    from loadstone.relax.types import Expr

__all__: list[str] = []


@dataclass(frozen=True, eq=False)
class _Recurrent:
    """What aten.lstm and its kin take. hx: states, one or two."""

    x: Expr
    hx: Expr | Sequence[Expr]
    params: Sequence[Expr]
    has_biases: bool
    num_layers: int
    bidirectional: bool
    batch_first: bool


def _convert(kind: str, activation: str, build: Build, said: _Recurrent) -> list[Expr]:
    """(T, B, directions * H), and (layers * directions, B, H) for each state."""
    if len(extents(said.x)) != 3:
        raise UnsupportedError("its input has no batch: give it one (x[:, None])")
    return _Stack(build, kind, activation, said.params, said).outputs(said.x, said.hx)


@dataclass(frozen=True, eq=False)
class _Stack:
    build: Build
    kind: str
    activation: str
    weights: Sequence[Expr]
    options: _Recurrent

    def outputs(self, x: Expr, states: Expr | Sequence[Expr]) -> list[Expr]:
        emit, options = self.build.emit, self.options
        begin = states if isinstance(states, list | tuple) else [states]
        directions = 2 if options.bidirectional else 1
        arrays = 4 if options.has_biases else 2
        if len(self.weights) != options.num_layers * directions * arrays:
            raise UnsupportedError("a projection of its states (proj_size) is not unrolled")
        if options.batch_first:
            x = emit(relax.op.permute_dims(x, [1, 0, 2]))
        hidden: list[Expr] = []
        cells: list[Expr] = []
        for layer in range(options.num_layers):
            made = []
            for direction in range(directions):
                index = layer * directions + direction
                own = [self.state(entry, index) for entry in begin]
                gates = self.gates(self.weights[index * arrays : (index + 1) * arrays])
                found = unrolled(emit, x, gates, own, reverse=direction == 1)
                made.append(found)
                hidden.append(found.hidden)
                cells += [] if found.cell is None else [found.cell]
            x = self.joined([self.sequence(entry) for entry in made], 2)
        if options.batch_first:
            x = emit(relax.op.permute_dims(x, [1, 0, 2]))
        return [x, *(self.last(entries) for entries in (hidden, cells) if entries)]

    def gates(self, weights: Sequence[Expr]) -> Gates:
        arrays = [stored(entry, "weights of a recurrent layer") for entry in weights]
        if not self.options.has_biases:
            arrays += [np.zeros(len(arrays[0]), np.float32)] * 2
        order = range(GATES[self.kind])
        return gates_of(self.kind, arrays, order, activation=self.activation)

    def state(self, states: Expr, index: int) -> Expr | None:
        if is_constant(states) and not value(states).any():
            return None
        emit, (_, batch, width) = self.build.emit, extents(states)
        one = emit(relax.op.strided_slice(states, [0], [index], [index + 1]))
        return emit(relax.op.reshape(one, (batch, width)))

    def sequence(self, states: States) -> Expr:
        batch, width = extents(states.hidden)
        flat = self.joined(list(states.steps), 0)
        return self.build.emit(relax.op.reshape(flat, (len(states.steps), batch, width)))

    def last(self, states: Sequence[Expr]) -> Expr:
        one = (1, *extents(states[0]))
        return self.joined([self.build.emit(relax.op.reshape(s, one)) for s in states], 0)

    def joined(self, parts: list[Expr], axis: int) -> Expr:
        return parts[0] if len(parts) == 1 else self.build.emit(relax.op.concat(parts, axis=axis))


#: dropout lies between layers, in training alone.
for _name, _kind, _activation in (
    ("lstm", "lstm", "tanh"),
    ("gru", "gru", "tanh"),
    ("rnn_tanh", "rnn", "tanh"),
    ("rnn_relu", "rnn", "relu"),
):
    importer(f"aten.{_name}.input", gathers=_Recurrent, free=("dropout",), only={"train": False})(
        partial(_convert, _kind, _activation)
    )
