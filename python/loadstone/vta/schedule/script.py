# SPDX-License-Identifier: Apache-2.0
"""A chain of products and ALU operations on one accumulator, in TVM's script.

In:   the steps; of each step, what it multiplies by what.
Out:  lines of TVMScript: a block for each step, which begins where the one before it ended.
Next: chain.py (elements) and window.py (sums over windows) put their loops and inputs around it.

    acc0[t][b, l]  = 0      + sum over k of x0[t][b, k] * weights[0][l, k]
    acc1[t][b, l]  = acc0   + sum over k of x1[t][b, k] * weights[1][l, k]
    acc2[t][b, l]  = shr(acc1, 8)
    acc3[t][b, l]  = acc2   + sum over k of x0[t][b, k] * weights[2][l, k] ...
    out            = int8(the last one)

All of them become operations in place on one accumulator. A tensor expression cannot say where a
sum begins; TensorIR can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from loadstone.ir_pass.intrinsics import PREFIX
from loadstone.vta.schedule.epilogue import Immediate

__all__ = ["ChainStep", "Multiply", "block", "chain_blocks", "function_head"]


@dataclass(frozen=True)
class Multiply:
    """acc += input `input` times weight tile `tile`."""

    input: int
    tile: int


ChainStep: TypeAlias = Multiply | Immediate


def function_head(parameters: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """The first lines of `main`. parameters: names and shapes of int8 buffers."""
    declared = (f'{name}: T.Buffer({shape}, "int8")' for name, shape in parameters.items())
    yield "@T.prim_func(s_tir=True)"
    yield f"def main({', '.join(declared)}):"
    yield '    T.func_attr({"tirx.noalias": True})'


def chain_blocks(
    steps: Sequence[ChainStep],
    loops: Mapping[str, int],
    taps: Mapping[str, int],
    read: Callable[[Multiply], str],
) -> Iterator[str]:
    """Blocks acc0, acc1 ... and their buffers.

    loops: over what the accumulators are, lanes last; taps: over what a product sums, lanes last.
    read: the product of a step, of values v_<loop> and v_<tap>.
    """
    shape, here = tuple(loops.values()), ", ".join(f"v_{name}" for name in loops)
    for number in range(len(steps)):
        yield f'    acc{number} = T.sblock_alloc_buffer({shape}, "int32")'
    for number, step in enumerate(steps):
        before = f"acc{number - 1}[{here}]" if number else "0"
        if isinstance(step, Multiply):
            yield from block(f"acc{number}", loops, taps)
            yield "            with T.init():"
            yield f"                acc{number}[{here}] = {before}"
            yield f"            acc{number}[{here}] += {read(step)}"
        else:
            yield from block(f"acc{number}", loops, {})
            call = f'T.call_pure_extern("int32", "{PREFIX}{step.op}", {before}, {step.value})'
            yield f"            acc{number}[{here}] = {call}"


def block(name: str, loops: Mapping[str, int], taps: Mapping[str, int]) -> Iterator[str]:
    """Loops and the head of a block with their values. taps: loops of a sum."""
    extents = {**loops, **taps}
    values = ", ".join(f"v_{name}" for name in extents)
    kinds = "S" * len(loops) + "R" * len(taps)
    yield f"    for {', '.join(extents)} in T.grid({', '.join(map(str, extents.values()))}):"
    yield f'        with T.sblock("{name}"):'
    yield f'            {values} = T.axis.remap("{kinds}", [{", ".join(extents)}])'
