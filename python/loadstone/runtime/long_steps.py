# SPDX-License-Identifier: Apache-2.0
"""Host steps of many megabytes, in pieces, so that a run can end between two of them.

In:   an artifact, the C runtime's operators in a session's configuration.
Out:  a table of operators in which the long ones check before each piece whether to continue.
Next: session.py.

A step of a few megabytes takes some milliseconds in C, during which Python notices neither Ctrl-C
nor a call of cancel(). Only operators of which the artifact has a long step are changed. Packing or
unpacking one sample is one piece, and so is a gather of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod

from loadstone.artifact.format import Artifact, DataType, HostStep
from loadstone.artifact.host_step import HostOpcode
from loadstone.artifact.memory_plan import MAX_RANK
from loadstone.library.native import CData, ffi

__all__ = ["PIECE_ELEMENTS", "LongSteps", "blocks"]

#: What one piece moves or computes; a few milliseconds, and so is what Ctrl-C waits for.
PIECE_ELEMENTS = 1 << 20

#: Bytes of each operand in one row: rows are independent. Item sizes are of the operands, then the
#: parameters. 0: the operand is needed whole.
_Row = Callable[[Sequence[int], Sequence[int]], tuple[int, ...]]
_ROWS: dict[HostOpcode, _Row] = {
    HostOpcode.FILL: lambda _sizes, _p: (1,),
    HostOpcode.QUANTIZE: lambda sizes, _p: (sizes[0], sizes[1]),
    HostOpcode.DEQUANTIZE: lambda sizes, _p: (sizes[0], sizes[1]),
    HostOpcode.LOOKUP: lambda sizes, _p: (sizes[0], 0, sizes[2]),
    HostOpcode.SOFTMAX_INT8: lambda sizes, p: (sizes[0] * p[0], sizes[1] * p[0]),
    HostOpcode.SOFTMAX_FLOAT32: lambda sizes, p: (sizes[0] * p[0], sizes[1] * p[0]),
    HostOpcode.ARGMAX: lambda sizes, p: (sizes[0] * p[0], sizes[1]),
    **{
        HostOpcode(code): lambda sizes, _p: (sizes[0], sizes[1])
        for code in range(HostOpcode.EXP_FLOAT32, HostOpcode.ADD_FLOAT32)
    },
    HostOpcode.SUM_FLOAT32: lambda sizes, p: (sizes[0] * p[0] * p[1], sizes[1] * p[1]),
}


_Pieces = Iterator[tuple[CData, CData]]


class LongSteps:
    """The operators of one session. error: what ended a step in its middle; nothing is computed
    until it is taken away."""

    def __init__(self, artifact: Artifact, operators: CData, look: Callable[[], None]) -> None:
        """operators: lds_operator_set *. look: raises where the run is to end."""
        self.error: BaseException | None = None
        self._look, self._operators = look, operators
        self._keep: list[CData] = []
        self.table = operators
        if long := _long(artifact):
            self.table = ffi.new("lds_operator_set *", operators[0])
            for opcode in long:
                self._keep.append(self._callback(opcode))
                self.table.run[opcode] = self._keep[-1]

    def _callback(self, opcode: HostOpcode) -> CData:
        cut = _CUT[opcode] if opcode in _CUT else _rows(opcode)
        run = self._operators.run[opcode]

        def step(operands: CData, parameters: CData) -> None:
            if self.error is not None:
                return
            for piece in cut(operands, parameters):
                self._look()
                run(*piece)

        def failed(_kind: object, error: BaseException, _trace: object) -> None:
            self.error = error

        return ffi.callback(ffi.typeof(run), step, onerror=failed)


def _long(artifact: Artifact) -> list[HostOpcode]:
    """Kinds of step of which one is worth cutting."""
    found = {
        step.opcode
        for step in artifact.steps
        if isinstance(step, HostStep)
        and (step.opcode in _CUT or step.opcode in _ROWS)
        and max(artifact.tensors[i].elements for i in (*step.inputs, *step.outputs))
        * step.parameters.get("k", 1)
        > PIECE_ELEMENTS
    }
    return sorted(found)


def blocks(extents: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(where it begins, its extents) of boxes that fill `extents`, of `most` elements or few more
    than that."""
    axis, inner = len(extents) - 1, 1
    while axis > 0 and inner * extents[axis] <= most:
        inner *= extents[axis]
        axis -= 1
    step = max(1, most // inner)
    whole = tuple(extents[axis + 1 :])
    for outer in product(*map(range, extents[:axis])):
        for begin in range(0, extents[axis], step):
            count = min(step, extents[axis] - begin)
            yield (*outer, begin, *(0 for _ in whole)), (*(1 for _ in outer), count, *whole)


def _copied(operands: CData, parameters: CData) -> _Pieces:
    """in_offset, out_offset, extent[6], in_stride[6], out_stride[6]: boxes of the extents."""
    given = list(parameters[0 : 2 + 3 * MAX_RANK])
    extents, strides = (
        given[2 : 2 + MAX_RANK],
        (given[2 + MAX_RANK :][:MAX_RANK], given[-MAX_RANK:]),
    )
    size = DataType(operands[0].tensor.dtype).numpy.itemsize
    if prod(extents) <= PIECE_ELEMENTS:
        yield operands, parameters
        return
    part = ffi.new("lds_operand[2]", [operands[0], operands[1]])
    numbers = ffi.new("int32_t[]", given)
    for begin, counts in blocks(extents, PIECE_ELEMENTS):
        for k in range(2):
            offset = sum(a * b for a, b in zip(begin, strides[k], strict=True))
            part[k].data = operands[k].data + offset * size
        numbers[2 : 2 + MAX_RANK] = counts
        yield part, numbers


def _joined(operands: CData, parameters: CData) -> _Pieces:
    """extent[6], a_stride[6], b_stride[6]: boxes of the extents; y is row-major."""
    given = list(parameters[0 : 3 * MAX_RANK])
    extents = given[:MAX_RANK]
    own = [prod(extents[axis + 1 :]) for axis in range(MAX_RANK)]
    strides = (given[MAX_RANK:][:MAX_RANK], given[-MAX_RANK:], own)
    part = ffi.new("lds_operand[3]", [operands[k] for k in range(3)])
    numbers = ffi.new("int32_t[]", given)
    for begin, counts in blocks(extents, PIECE_ELEMENTS):
        for k in range(3):
            offset = sum(a * b for a, b in zip(begin, strides[k], strict=True))
            part[k].data = operands[k].data + offset * 4
        numbers[0:MAX_RANK] = counts
        yield part, numbers


def _multiplied(operands: CData, parameters: CData) -> _Pieces:
    """m, k, n, a_shared, b_shared: some rows of one product at a time."""
    m, k, n, a_shared, b_shared = parameters[0:5]
    part = ffi.new("lds_operand[3]", [operands[k] for k in range(3)])
    numbers = ffi.new("int32_t[]", [m, k, n, a_shared, b_shared])
    step = max(1, PIECE_ELEMENTS // (k * n))
    for batch in range(operands[2].tensor.size_bytes // (4 * m * n)):
        for begin in range(0, m, step):
            numbers[0] = min(step, m - begin)
            row = batch * m + begin
            part[0].data = operands[0].data + (begin if a_shared else row) * k * 4
            part[1].data = operands[1].data + (0 if b_shared else batch) * k * n * 4
            part[2].data = operands[2].data + row * n * 4
            part[2].tensor.size_bytes = numbers[0] * n * 4
            yield part, numbers


def _rows(opcode: HostOpcode) -> Callable[[CData, CData], _Pieces]:
    """Some rows at a time."""
    count = len(_ROWS[opcode]((1, 1, 1), (1, 1)))

    def cut(operands: CData, parameters: CData) -> _Pieces:
        sizes = [DataType(operands[k].tensor.dtype).numpy.itemsize for k in range(count)]
        row = _ROWS[opcode](sizes, parameters)
        rows = operands[0].tensor.size_bytes // row[0]
        part = ffi.new("lds_operand[]", [operands[k] for k in range(count)])
        step = max(1, PIECE_ELEMENTS // (row[0] // sizes[0] or 1))
        for begin in range(0, rows, step):
            for k, row_bytes in enumerate(row):
                if row_bytes:
                    part[k].data = operands[k].data + begin * row_bytes
                    part[k].tensor.size_bytes = min(step, rows - begin) * row_bytes
            yield part, parameters

    return cut


#: What is cut along more than one axis.
_CUT: Mapping[int, Callable[[CData, CData], _Pieces]] = {
    HostOpcode.COPY: _copied,
    HostOpcode.MATMUL_FLOAT32: _multiplied,
    **dict.fromkeys(range(HostOpcode.ADD_FLOAT32, HostOpcode.SUM_FLOAT32), _joined),
}
