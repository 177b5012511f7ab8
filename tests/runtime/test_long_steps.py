# SPDX-License-Identifier: Apache-2.0
"""runtime/long_steps.py: the bytes of a long host step are those of one call, and it ends between
two pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import HostOpcode, HostStep, SoftmaxScaling, Strided
from loadstone.errors import DeviceError
from loadstone.numerics import Array
from loadstone.runtime import device, long_steps
from loadstone.runtime.long_steps import LongSteps, blocks
from loadstone.runtime.session import Session
from tests.sample_model import copy_model

#: (shape, type) of input, output and what is constant between them.
Kind = tuple[tuple[int, ...], DataType]
ROWS, DEPTH = 60, 10


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small tensors are long."""
    monkeypatch.setattr(long_steps, "PIECE_ELEMENTS", 64)


def stepping(
    x: Kind, y: Kind, make: Callable[[int, int], HostStep], table: Array | None = None
) -> Artifact:
    """One host step from x to y, and a device program beside it."""
    model = copy_model()
    data = (table if table is not None else np.zeros(1, np.int8)).tobytes()
    regions = (
        MemoryRegion("x", RegionKind.INPUT, 1 << 16, 64),
        MemoryRegion("y", RegionKind.OUTPUT, 1 << 16, 64),
        MemoryRegion("table", RegionKind.CONSTANTS, len(data), 64, data=data),
    )
    tensors = [
        BufferView(name, kind[0], kind[1], len(model.regions) + k, 0, 0.05, 3)
        for k, (name, kind) in enumerate((("x2", x), ("y2", y)))
    ]
    if table is not None:
        kind = DataType.INT8 if table.dtype == np.int8 else DataType.FLOAT32
        tensors.append(BufferView("table", table.shape, kind, len(model.regions) + 2, 0, 0.05, 3))
    first = len(model.tensors)
    return replace(
        model,
        regions=(*model.regions, *regions),
        tensors=(*model.tensors, *tensors),
        inputs=(0, first),
        outputs=(1, first + 1),
        steps=(make(first, first + 1), *model.steps),
    )


INT8, FLOATS = ((ROWS, DEPTH), DataType.INT8), ((ROWS, DEPTH), DataType.FLOAT32)
TURNED = ((DEPTH, ROWS), DataType.FLOAT32)
LUT = np.arange(256, dtype=np.float32) * np.float32(0.5)
CASES: dict[str, Callable[[], Artifact]] = {
    "fill": lambda: stepping(INT8, INT8, lambda _, y: host_step.fill("s", y, 7)),
    "quantize": lambda: stepping(
        FLOATS, INT8, lambda x, y: host_step.quantize("s", x, y, half_to_even=True)
    ),
    "dequantize": lambda: stepping(INT8, FLOATS, lambda x, y: host_step.dequantize("s", x, y)),
    "lookup": lambda: stepping(INT8, FLOATS, lambda x, y: host_step.lookup("s", x, y + 1, y), LUT),
    "softmax_int8": lambda: stepping(
        INT8,
        INT8,
        lambda x, y: host_step.softmax_int8("s", x, y, DEPTH, SoftmaxScaling(1 << 30, 4, -200)),
    ),
    "softmax_float32": lambda: stepping(
        FLOATS, FLOATS, lambda x, y: host_step.softmax_float32("s", x, y, DEPTH)
    ),
    "argmax": lambda: stepping(
        ((10 * ROWS, DEPTH), DataType.INT8),
        ((10 * ROWS,), DataType.INT64),
        lambda x, y: host_step.argmax("s", x, y, DEPTH),
    ),
    "exp": lambda: stepping(
        FLOATS, FLOATS, lambda x, y: host_step.unary("s", HostOpcode.EXP_FLOAT32, x, y)
    ),
    "subtract": lambda: stepping(
        FLOATS,
        FLOATS,
        lambda x, y: host_step.broadcast(
            "s", HostOpcode.SUBTRACT_FLOAT32, (x, x, y), (ROWS, DEPTH), ((0, 1), (DEPTH, 1))
        ),
    ),
    "sum": lambda: stepping(
        ((10 * ROWS, DEPTH), DataType.FLOAT32),
        ((10 * ROWS,), DataType.FLOAT32),
        lambda x, y: host_step.sum_float32("s", x, y, DEPTH, 1),
    ),
    "matmul": lambda: stepping(
        FLOATS,
        ((3, 20, 10), DataType.FLOAT32),
        lambda x, y: host_step.matmul_float32("s", (x, y + 1, y), (20, DEPTH, 10), b_shared=True),
        LUT[:100].reshape(10, 10),
    ),
    "matmuls of one": lambda: stepping(
        ((3, 10, 10), DataType.FLOAT32),
        ((3, 10, 10), DataType.FLOAT32),
        lambda x, y: host_step.matmul_float32("s", (y + 1, x, y), (10, 10, 10), a_shared=True),
        LUT[:100].reshape(10, 10),
    ),
    "copy": lambda: stepping(
        FLOATS,
        TURNED,
        lambda x, y: host_step.copy(
            "s", x, y, [DEPTH, ROWS], Strided([1, DEPTH]), Strided([ROWS, 1])
        ),
    ),
    "copy of a part": lambda: stepping(
        INT8,
        INT8,
        lambda x, y: host_step.copy(
            "s", x, y, [6, 10, 4], Strided([100, 10, 2], 3), Strided([100, 10, 1], 5)
        ),
    ),
}


def inputs_of(session: Session) -> list[Array]:
    rng = np.random.default_rng(4)
    return [
        (
            rng.normal(0, 2, x.shape) if x.dtype == np.float32 else rng.integers(-128, 128, x.shape)
        ).astype(x.dtype)[None]
        for x in session.inputs
    ]


@pytest.mark.parametrize("name", CASES)
def test_pieces_leave_the_bytes_of_one_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact, looks = CASES[name](), []
    monkeypatch.setattr(Session, "_go_on", lambda _: looks.append(1))
    with device.open() as dev, dev.load(artifact) as session:
        inputs = inputs_of(session)
        given = session.run(inputs)
        assert len(looks) > 5
    monkeypatch.setattr(long_steps, "PIECE_ELEMENTS", 1 << 20)
    with device.open() as dev, dev.load(artifact) as session:
        del looks[:]
        for found, wanted in zip(given, session.run(inputs), strict=True):
            np.testing.assert_array_equal(found, wanted)
        assert len(looks) <= 5


def test_a_copy_ends_in_its_middle_and_the_session_runs_again() -> None:
    with device.open() as dev, dev.load(CASES["copy"]()) as session:
        inputs = inputs_of(session)
        wanted = session.run(inputs)
        session.outputs[1][:] = 0
        steps = session._long_steps
        assert isinstance(steps, LongSteps)
        looks, look = [0], steps._look

        def at_the_third() -> None:
            looks[0] += 1
            if looks[0] == 3:
                raise KeyboardInterrupt

        steps._look = at_the_third
        with pytest.raises(KeyboardInterrupt):
            session.run(inputs)
        assert looks == [3]
        assert 0 < np.count_nonzero(session.outputs[1]) <= 2 * 64
        steps._look = look
        for found, expected in zip(session.run(inputs), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_ctrl_c_as_the_device_begins_leaves_nothing_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python raises it when C has come back, with the device at work."""
    with device.open() as dev, dev.load(CASES["copy"]()) as session:
        inputs = inputs_of(session)
        with monkeypatch.context() as patch:

            def interrupted(_: int) -> None:
                raise KeyboardInterrupt

            patch.setattr(session, "_finish", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.run(inputs)
        session.run(inputs)


def test_cancel_ends_a_long_step() -> None:
    with device.open() as dev, dev.load(CASES["copy"]()) as session:
        inputs = inputs_of(session)
        steps = session._long_steps
        assert isinstance(steps, LongSteps)
        look = steps._look

        def cancelled() -> None:
            session.cancel()
            look()

        steps._look = cancelled
        with pytest.raises(DeviceError, match="the run of model 'copy' was cancelled"):
            session.run(inputs)
        assert not np.any(session.outputs[1])


def test_short_steps_stay_cs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_steps, "PIECE_ELEMENTS", 1 << 20)
    with device.open() as dev, dev.load(CASES["copy"]()) as session:
        steps = session._long_steps
        assert isinstance(steps, LongSteps)
        assert steps.table == steps._operators


@pytest.mark.parametrize(
    ("extents", "most"),
    [
        ((1, 1, 1, 1, 1, 7), 3),
        ((2, 3, 4, 5, 6, 7), 100),
        ((9, 1, 1, 1, 1, 1), 2),
        ((3, 4), 1),
        ((5,), 100),
    ],
)
def test_blocks_hold_every_index_once(extents: Sequence[int], most: int) -> None:
    seen = np.zeros(extents, int)
    for begin, counts in blocks(extents, most):
        seen[tuple(slice(a, a + n) for a, n in zip(begin, counts, strict=True))] += 1
        assert np.prod(counts) <= most
    assert np.all(seen == 1)
