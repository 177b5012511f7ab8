# SPDX-License-Identifier: Apache-2.0
"""Nodes that contain graphs, and sequences of tensors, where both are known at compile time.

In:   an If whose condition is a constant, a Loop or Scan whose number of passes is, a sequence or
      optional of tensors of the graph.
Out:  nodes without graphs in them, and tensors in place of sequences.
Next: folding.py continues with those nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import helper

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto

    from loadstone.numerics import Array

__all__ = ["Expansion"]

#: Passes of one loop that are written out; longer ones are refused as loops.
MOST_PASSES = 1024
#: From this opset on axes and sizes are inputs.
NUMBERS_ARE_INPUTS = 13


@dataclass
class Expansion:
    """What is known while a graph is gone through.

    fresh: makes a name that nothing else has from a stem. opset: the model's version of ONNX's own
    operators. constants: tensors by name, which grow.
    add: enters a constant into graph and constants. shapes: extents by tensor where all are known.
    types: ONNX's element types by tensor. sequences: the tensors of each sequence.
    """

    fresh: Callable[[str], str]
    opset: int
    constants: Mapping[str, TensorProto] = field(default_factory=dict)
    add: Callable[[str, Array], None] = lambda _name, _value: None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    types: Mapping[str, int] = field(default_factory=dict)
    sequences: dict[str, list[str]] = field(default_factory=dict)
    _passes: dict[str, int] = field(default_factory=dict)
    _parts: dict[str, list[list[str]]] = field(default_factory=dict)

    @property
    def held(self) -> set[str]:
        """Tensors that are read once more is known: results of passes, and parts of sequences."""
        parts = {e for passes in self._parts.values() for each in passes for e in each}
        return parts.union(*self.sequences.values())

    def expanded(self, node: NodeProto) -> list[NodeProto] | None:
        """The nodes that do the same; None for one that stays as it is."""
        if node.domain not in ("", "ai.onnx"):
            return None
        rule = _RULES.get(node.op_type)
        return rule(self, node) if rule else None

    # --- what rules share -------------------------------------------------------------------------
    def number(self, name: str) -> int | None:
        """The first number of a constant."""
        if name not in self.constants:
            return None
        return int(onnx.numpy_helper.to_array(self.constants[name]).reshape(-1)[0])

    def along(
        self, op_type: str, source: str, results: Sequence[str], says: str, numbers: Sequence[int]
    ) -> NodeProto:
        """Unsqueeze, Squeeze or Split with its axes or sizes, which are an input from opset 13 on
        and the attribute `says` before."""
        if self.opset < NUMBERS_ARE_INPUTS:
            return helper.make_node(op_type, [source], results, **{says: list(numbers)})
        name = self.fresh(results[0])
        self.add(name, np.array(numbers, np.int64))
        return helper.make_node(op_type, [source, name], results)

    def inlined(
        self, graph: GraphProto, given: Mapping[str, str], results: Sequence[str]
    ) -> list[NodeProto]:
        """The nodes of a graph within a node under names of their own. given: names outside by
        those of its inputs. results: what its outputs are called outside, "" for none."""
        prefix = self.fresh("pass")
        names = dict(given)
        for tensor in graph.initializer:
            names[tensor.name] = f"{prefix}/{tensor.name}"
            self.add(names[tensor.name], onnx.numpy_helper.to_array(tensor))
        for node in graph.node:
            names |= {entry: f"{prefix}/{entry}" for entry in node.output if entry}
        nodes = [_renamed(node, names) for node in graph.node]
        return nodes + [
            _node("Identity", [names.get(inner.name, inner.name)], outer)
            for inner, outer in zip(graph.output, results, strict=True)
            if outer
        ]

    def joined(self, parts: Sequence[str], axis: int, result: str) -> list[NodeProto]:
        """Tensors one behind the other along a new axis."""
        rows = [self.fresh(result) for _ in parts]
        made = [
            self.along("Unsqueeze", part, [row], "axes", [axis])
            for part, row in zip(parts, rows, strict=True)
        ]
        return [*made, _node("Concat", rows, result, axis=axis)]

    # --- rules ------------------------------------------------------------------------------------
    def branch(self, node: NodeProto) -> list[NodeProto] | None:
        """An If."""
        condition = self.number(node.input[0])
        if condition is None:
            return None
        graph = _graph(node, "then_branch" if condition else "else_branch")
        return self.inlined(graph, {}, list(node.output))

    def loop(self, node: NodeProto) -> list[NodeProto] | None:
        """One pass, and a Loop of those that are left: what it decides may be known by then."""
        count, condition = ([*node.input, "", ""][k] for k in (0, 1))
        most, goes_on = self.number(count), self.number(condition)
        if (count and most is None) or (condition and goes_on is None):
            return None
        body, key = _graph(node, "body"), node.output[0] or node.output[-1]
        done, carried = self._passes.get(key, 0), list(node.input[2:])
        parts = self._parts.setdefault(key, [])
        if goes_on == 0 or (most is not None and done >= most):
            return self.ended(node, carried, self._parts.pop(key))
        if done >= MOST_PASSES or (not count and not condition):
            return None
        number, flag = self.fresh("pass"), self.fresh("pass")
        self.add(number, np.array(done, np.int64))
        self.add(flag, np.array(True))
        given = dict(zip([e.name for e in body.input], [number, flag, *carried], strict=True))
        results = [self.fresh(key) for _ in body.output]
        self._passes[key] = done + 1
        parts.append(results[1 + len(carried) :])
        rest = onnx.NodeProto.FromString(node.SerializeToString())
        rest.input[:] = [count, results[0], *results[1 : 1 + len(carried)]]
        return [*self.inlined(body, given, results), rest]

    def ended(
        self, node: NodeProto, carried: Sequence[str], parts: Sequence[Sequence[str]]
    ) -> list[NodeProto] | None:
        """A Loop of no more passes. parts: what each pass has added to the outputs behind those
        that are carried; None where it added nothing at all: a tensor without elements."""
        scans = list(node.output[len(carried) :])
        if scans and not parts:
            return None
        ends = _called(carried, node.output)
        for k, result in enumerate(scans):
            if result:
                ends += self.joined([each[k] for each in parts], 0, result)
        return ends

    def row(self, source: str, axis: int, index: int) -> NodeProto:
        """A Gather of one place of an axis."""
        place = self.fresh(source)
        self.add(place, np.array(index, np.int64))
        return _node("Gather", [source, place], self.fresh(source), axis=axis)

    def scan(self, node: NodeProto) -> list[NodeProto] | None:
        """All passes at once: their number is an extent."""
        found = {a.name: a for a in node.attribute}
        body, scanned = _graph(node, "body"), int(found["num_scan_inputs"].i)
        states = len(node.input) - scanned
        inputs, outputs = list(node.input[states:]), len(body.output) - states
        if any(entry not in self.shapes for entry in inputs) or "directions" in found:
            return None  # opset 8 has another axis, of samples, and directions for inputs alone
        numbers = _numbers(node, "scan_input_axes", scanned)
        axes = [axis % len(self.shapes[e]) for axis, e in zip(numbers, inputs, strict=True)]
        passes = self.shapes[inputs[0]][axes[0]]
        if passes > MOST_PASSES or len(body.input) != states + scanned:
            return None
        places = _numbers(node, "scan_output_axes", outputs)
        if min(places, default=0) < 0:
            return None  # counted from the end of a rank that only inference knows
        backwards = _numbers(node, "scan_input_directions", scanned)
        nodes, carried, parts = list["NodeProto"](), list(node.input[:states]), list[list[str]]()
        for step in range(passes):
            rows = [
                self.row(entry, axis, passes - 1 - step if back else step)
                for entry, axis, back in zip(inputs, axes, backwards, strict=True)
            ]
            given = [*carried, *(row.output[0] for row in rows)]
            results = [self.fresh(entry.name) for entry in body.output]
            names = dict(zip([e.name for e in body.input], given, strict=True))
            nodes += [*rows, *self.inlined(body, names, results)]
            carried = results[:states]
            parts.append(results[states:])
        nodes += _called(carried, node.output)
        turned = _numbers(node, "scan_output_directions", outputs)
        return nodes + self.scanned(parts, places, turned, node.output[states:])

    def scanned(
        self,
        passes: Sequence[Sequence[str]],
        axes: Sequence[int],
        backwards: Sequence[int],
        results: Sequence[str],
    ) -> list[NodeProto]:
        """What a Scan joins of each output of its passes; "" of one that nobody reads."""
        made = list["NodeProto"]()
        for k, result in enumerate(results):
            part = [each[k] for each in passes]
            if result:
                made += self.joined(part[::-1] if backwards[k] else part, axes[k], result)
        return made

    def cast(self, node: NodeProto) -> list[NodeProto] | None:
        """CastLike: of its second input only the type matters."""
        kind = self.types.get(node.input[1], 0)
        if not kind:
            return None
        made = helper.make_node("Cast", node.input[:1], node.output, name=node.name, to=kind)
        made.attribute.extend(node.attribute)  # saturate
        return [made]

    # --- sequences --------------------------------------------------------------------------------
    def made(self, node: NodeProto) -> None:
        """A sequence of tensors, or of nothing."""
        self.sequences[node.output[0]] = [entry for entry in node.input if entry]

    def changed(self, node: NodeProto) -> None:
        """SequenceInsert and SequenceErase."""
        source, *rest = node.input
        held, inserts = self.sequences.get(source), node.op_type == "SequenceInsert"
        place = rest[1 if inserts else 0] if len(rest) > (1 if inserts else 0) else ""
        if held is None or (place and self.number(place) is None):
            return
        at = self.number(place) if place else (len(held) if inserts else len(held) - 1)
        assert at is not None
        at += len(held) if at < 0 else 0
        new = list(held)
        if inserts and 0 <= at <= len(held):
            new.insert(at, rest[0])
        elif not inserts and 0 <= at < len(held):
            del new[at]
        else:
            return
        self.sequences[node.output[0]] = new

    def element(self, node: NodeProto) -> list[NodeProto] | None:
        """SequenceAt."""
        held, at = self.sequences.get(node.input[0]), self.number(node.input[1])
        if held is None or at is None or not -len(held) <= at < len(held):
            return None
        return [_node("Identity", [held[at]], node.output[0])]

    def length(self, node: NodeProto) -> list[NodeProto] | None:
        """SequenceLength."""
        if node.input[0] not in self.sequences:
            return None
        self.add(node.output[0], np.array(len(self.sequences[node.input[0]]), np.int64))
        return []

    def concatenated(self, node: NodeProto) -> list[NodeProto] | None:
        """ConcatFromSequence."""
        held = self.sequences.get(node.input[0])
        found = {a.name: a.i for a in node.attribute}
        if not held:
            return None
        if found.get("new_axis", 0):
            return self.joined(held, found["axis"], node.output[0])
        return [_node("Concat", held, node.output[0], axis=found["axis"])]

    def divided(self, node: NodeProto) -> list[NodeProto] | None:
        """SplitToSequence: the Split is written, and what reads the sequence finds its parts."""
        found = {a.name: a.i for a in node.attribute}
        extents = self.shapes.get(node.input[0])
        if extents is None or node.output[0] in self.sequences:
            return None
        axis = int(found.get("axis", 0)) % len(extents)
        sizes, keeps = [1] * extents[axis], bool(found.get("keepdims", 1))
        if len(node.input) > 1 and node.input[1]:
            if node.input[1] not in self.constants:
                return None
            said = onnx.numpy_helper.to_array(self.constants[node.input[1]])
            whole, each = extents[axis], int(said.reshape(-1)[0])
            cut = [min(each, whole - begin) for begin in range(0, whole, max(1, each))]
            sizes, keeps = (said.tolist() if said.ndim else cut), True
        parts = [self.fresh(node.output[0]) for _ in sizes]
        nodes = [self.along("Split", node.input[0], parts, "split", sizes)]
        nodes[0].attribute.append(helper.make_attribute("axis", axis))
        if not keeps:
            flat = [self.fresh(node.output[0]) for _ in parts]
            nodes += [
                self.along("Squeeze", part, [row], "axes", [axis])
                for part, row in zip(parts, flat, strict=True)
            ]
            parts = flat
        self.sequences[node.output[0]] = parts
        return [*nodes, node]

    def same(self, node: NodeProto) -> list[NodeProto] | None:
        """Identity of a sequence, and what an optional holds."""
        if node.input and node.input[0] in self.sequences:
            self.sequences[node.output[0]] = self.sequences[node.input[0]]
        elif node.input and node.op_type == "OptionalGetElement":
            return [_node("Identity", [node.input[0]], node.output[0])]
        return None

    def present(self, node: NodeProto) -> list[NodeProto] | None:
        """OptionalHasElement of a tensor, or of nothing."""
        if node.input and node.input[0] and node.input[0] not in self.shapes:
            return None
        self.add(node.output[0], np.array(bool(node.input and node.input[0])))
        return []


_RULES: Mapping[str, Callable[[Expansion, NodeProto], list[NodeProto] | None]] = {
    "If": Expansion.branch,
    "Loop": Expansion.loop,
    "Scan": Expansion.scan,
    "CastLike": Expansion.cast,
    "SequenceEmpty": Expansion.made,
    "SequenceConstruct": Expansion.made,
    "SequenceInsert": Expansion.changed,
    "SequenceErase": Expansion.changed,
    "SequenceAt": Expansion.element,
    "SequenceLength": Expansion.length,
    "ConcatFromSequence": Expansion.concatenated,
    "SplitToSequence": Expansion.divided,
    "Identity": Expansion.same,
    "OptionalGetElement": Expansion.same,
    "OptionalHasElement": Expansion.present,
}


def _node(op_type: str, inputs: Sequence[str], output: str, **attributes: int) -> NodeProto:
    return helper.make_node(op_type, list(inputs), [output], name=output, **attributes)


def _graph(node: NodeProto, name: str) -> GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _numbers(node: NodeProto, name: str, count: int) -> list[int]:
    """An attribute; as many zeros if it is left out."""
    found = [list(attribute.ints) for attribute in node.attribute if attribute.name == name]
    return found[0] if found else [0] * count


def _called(values: Sequence[str], names: Sequence[str]) -> list[NodeProto]:
    """Values under the names of a node's first outputs."""
    return [
        _node("Identity", [value], name) for value, name in zip(values, names, strict=False) if name
    ]


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    """The node with other names, in the graphs that it holds, too, where they are not their own."""
    made = onnx.NodeProto.FromString(node.SerializeToString())
    made.input[:] = [names.get(entry, entry) for entry in node.input]
    made.output[:] = [names.get(entry, entry) for entry in node.output]
    for attribute in made.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {entry.name for entry in (*graph.input, *graph.initializer)}
            own |= {entry for held in graph.node for entry in held.output}
            outer = {name: new for name, new in names.items() if name not in own}
            for held in graph.node:
                held.CopyFrom(_renamed(held, outer))
            for entry in graph.output:
                entry.name = outer.get(entry.name, entry.name)
    return made
