# SPDX-License-Identifier: Apache-2.0
"""artifact/states.py: what a run leaves for the next one, in the file, in C and in Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.artifact.host_step import HostOpcode, HostStep, Strided
from loadstone.artifact.states import with_states
from loadstone.backend.device import ProgramDevice
from loadstone.cli import main
from loadstone.compiler import Compiled, compile
from loadstone.errors import ConfigError, DeviceError
from loadstone.library.native import ffi, lib
from loadstone.runtime.device import open as open_device
from loadstone.vta.device.hw_config import load_config
from tests.hosts.easy import Easy
from tests.onnx_builder import Graph, run
from tests.sample_model import copy_model, state_model

SHAPE, GRID = (1, 24), (0.0625, 7)
X = np.random.default_rng(3).integers(-60, 60, (6, *SHAPE)).astype(np.int8)


def recurrent(folder: Path) -> bytes:
    """h' = 0.5 h + x, y = h' - x: integers, with a zero point that is not 0."""
    graph = Graph()
    x, h = (graph.dequantize(graph.input(SHAPE, np.int8), *GRID) for _ in range(2))
    half = graph.dequantize(graph.constant([64], np.int8), 2**-7, 0)
    product = graph.quantize(graph.node("Mul", h, half), *GRID)
    after = graph.quantize(graph.node("Add", graph.dequantize(product, *GRID), x), *GRID)
    y = graph.quantize(graph.node("Sub", graph.dequantize(after, *GRID), x), *GRID)
    model = graph.save([(y, np.int8), (after, np.int8)], [SHAPE, SHAPE])
    (folder / "m.onnx").write_bytes(model)
    return model


def names(compiled: Compiled) -> tuple[list[str], list[str]]:
    artifact = compiled.artifact
    inputs, outputs = (
        [artifact.tensors[k].name for k in side] for side in (artifact.inputs, artifact.outputs)
    )
    return inputs, outputs


def reference(model: bytes) -> np.ndarray:
    """ONNX Runtime, step after step."""
    state, results = np.full(SHAPE, GRID[1], np.int8), []
    for x in X:
        result, state = run(model, [x, state])
        results.append(result)
    return np.stack(results)


def compiled(folder: Path) -> tuple[Compiled, np.ndarray]:
    model = recurrent(folder)
    plain = compile(folder / "m.onnx", "vtaq-tiny")
    inputs, outputs = names(plain)
    found = compile(folder / "m.onnx", "vtaq-tiny", states={inputs[1]: outputs[1]})
    assert names(found) == (inputs[:1], outputs[:1])
    return found, reference(model)


def test_runs_go_on_where_the_last_one_ended_and_a_reset_begins_anew(tmp_path: Path) -> None:
    model, want = compiled(tmp_path)
    assert not np.array_equal(want[0], want[1])
    with (
        open_device("sim") as device,
        device.load(Artifact.from_bytes(model.artifact.to_bytes())) as s,
    ):
        assert np.array_equal(s.run([X])[0], want)
        (again,) = s.run([X[:1]])
        assert not np.array_equal(again[0], want[0])
        s.reset()
        assert np.array_equal(s.run([X[:3]])[0], want[:3])
        assert np.array_equal(s.run([X[3:]])[0], want[3:])


def test_the_same_in_c(tmp_path: Path) -> None:
    model, want = compiled(tmp_path)
    assert not model.python_steps
    with Easy(model.artifact) as net:
        for _ in range(2):
            got = np.zeros_like(want)
            net.run([X], [got])
            assert np.array_equal(got, want)
            assert lib().lds_easy_reset(net.net, ffi.NULL) == 0
        got = np.zeros_like(want[:1])
        for count in range(2):
            net.run([X[:1]], [got])
            assert np.array_equal(got[0], want[0]) == (count == 0)
    assert lib().lds_easy_reset(ffi.NULL, ffi.NULL) == lib().LDS_ERR_ARGUMENT
    assert lib().lds_session_reset(ffi.NULL) == lib().LDS_ERR_ARGUMENT


@pytest.mark.parametrize("begin", [b"", bytes(range(16))])
def test_a_state_begins_with_its_data(begin: bytes) -> None:
    model = state_model(begin)
    x = np.arange(48, dtype=np.int8).reshape(3, 1, 16)
    first = np.frombuffer(begin or bytes(16), np.int8).reshape(1, 1, 16)
    with open_device("sim") as device, device.load(model) as session:
        for _ in range(2):
            assert np.array_equal(session.run([x])[0], np.concatenate([first, x[:2]]))
            session.reset()


def test_a_reset_beside_a_run_is_refused() -> None:
    with open_device("sim") as device, device.load(copy_model()) as session:
        session.start()
        with pytest.raises(DeviceError):
            session.reset()
        while not session.wait(1):
            pass
        session.reset()


def test_names_and_tensors_that_do_not_fit_are_named(tmp_path: Path) -> None:
    recurrent(tmp_path)
    inputs, outputs = names(compile(tmp_path / "m.onnx", "vtaq-tiny"))
    for states, message in (
        ({"h": outputs[1]}, f"'h' is no input of model 'm': it has {inputs[0]}, {inputs[1]}"),
        ({inputs[1]: "h"}, "'h' is no output of model 'm'"),
        ({inputs[0]: outputs[1], inputs[1]: outputs[1]}, "is another state's output"),
        (dict(zip(inputs, outputs, strict=True)), "every output is a state"),
    ):
        with pytest.raises(ConfigError, match="state") as caught:
            compile(tmp_path / "m.onnx", "vtaq-tiny", states=states)
        assert message in str(caught.value)


def test_the_command_takes_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recurrent(tmp_path)
    inputs, outputs = names(compile(tmp_path / "m.onnx", "vtaq-tiny"))
    words = ["compile", f"{tmp_path}/m.onnx", "-t", "vtaq-tiny", "-o", f"{tmp_path}/m.lds"]
    assert main([*words, "--state", f"{inputs[1]}={outputs[1]}"]) == 0
    assert Artifact.load(tmp_path / "m.lds").regions[-1].name == "state"
    assert main([*words, "--state", "h"]) == 2
    assert "--state h is not IN=OUT" in capsys.readouterr().err


def edges(folder: Path, grids: tuple[tuple[float, int], tuple[float, int]]) -> bytes:
    """The same with real numbers outside: a float32 state that is quantized where it comes in."""
    graph = Graph()
    x, h = (graph.input(SHAPE, np.float32) for _ in range(2))
    x, h = (
        graph.dequantize(graph.quantize(value, *grid), *grid)
        for value, grid in ((x, GRID), (h, grids[0]))
    )
    after = graph.quantize(graph.node("Add", h, x), *grids[1])
    real = graph.dequantize(after, *grids[1])
    y = graph.dequantize(graph.quantize(graph.node("Sub", real, x), *GRID), *GRID)
    model = graph.save([(y, np.float32), (real, np.float32)], [SHAPE, SHAPE])
    (folder / "m.onnx").write_bytes(model)
    return model


@pytest.mark.parametrize(("other", "size"), [(GRID, 24), ((0.125, 7), 96)])
def test_a_float_state_on_one_grid_is_kept_as_its_integers(
    tmp_path: Path, other: tuple[float, int], size: int
) -> None:
    """Both ways give what ONNX Runtime gives; on two grids the state stays float32."""
    model = edges(tmp_path, (GRID, other))
    plain = compile(tmp_path / "m.onnx", "vtaq-tiny")
    inputs, outputs = names(plain)
    found = compile(tmp_path / "m.onnx", "vtaq-tiny", states={inputs[1]: outputs[1]})
    view = next(t for t in found.artifact.tensors if t.name == inputs[1])
    assert view.size_bytes == size
    before, after = ([len(c.artifact.steps)] for c in (plain, found))
    assert after[0] - before[0] == (-1 if size == 24 else 1)
    sizes = {r.name: r.size_bytes for r in found.artifact.regions}
    assert sizes["input"] == 128
    reals = X.astype(np.float32) * np.float32(GRID[0])
    state, wanted = np.zeros(SHAPE, np.float32), []
    for x in reals:
        result, state = run(model, [x, state])
        wanted.append(result)
    with open_device("sim") as device, device.load(found.artifact) as session:
        np.testing.assert_array_equal(session.run([reals])[0], np.stack(wanted))
        session.reset()
        np.testing.assert_array_equal(session.run([reals[:2]])[0], np.stack(wanted[:2]))


def keeping(*more: HostStep) -> Artifact:
    """A cache of 5 places of 4, from input `before` to output `after`, into which a row is written;
    `read` is another output of its size."""
    shapes = [
        ("place", (1, 2), "int32", 0),
        ("row", (1, 4), "float32", 0),
        ("before", (1, 5, 4), "float32", 0),
        ("after", (1, 5, 4), "float32", 1),
        ("read", (1, 5, 4), "float32", 1),
    ]
    ends, tensors = [0, 0], []
    for name, shape, dtype, region in shapes:
        tensors.append(BufferView(name, shape, DataType.of(dtype), region, ends[region]))
        ends[region] += tensors[-1].size_bytes
    kinds = (RegionKind.INPUT, RegionKind.OUTPUT)
    regions = tuple(MemoryRegion(k.name, k, size, 4) for k, size in zip(kinds, ends, strict=True))
    whole = host_step.copy("o", 2, 3, [20], Strided([1]), Strided([1]))
    kept = host_step.on_rows("o", HostOpcode.KEEP_ROWS, (1, 0), (3,), (1, 4))
    result = host_step.copy("r", 3, 4, [20], Strided([1]), Strided([1]))
    own = (ProgramDevice.of(load_config("vtaq-1x16x16")),)
    steps = (whole, kept, result, *more)
    return Artifact("m", own, 1, regions, tuple(tensors), (0, 1, 2), (3, 4), steps)


@pytest.mark.parametrize("late", [False, True], ids=["in place", "read afterwards"])
def test_rows_are_written_into_a_state_in_place(late: bool) -> None:
    """Nothing is copied; where the old value is read afterwards it must stay until then."""
    more = [host_step.copy("late", 2, 4, [20], Strided([1]), Strided([1]))] if late else []
    made = with_states(keeping(*more), {"before": "after"})
    copies = [s.name for s in made.steps if isinstance(s, HostStep) and s.opcode == HostOpcode.COPY]
    assert copies == (["o", "r", "late", "keep after"] if late else ["r"])
    wanted = np.zeros((5, 4), np.float32)
    with (
        open_device("null") as device,
        device.load(Artifact.from_bytes(made.to_bytes())) as session,
    ):
        for place in (3, 0, 3):
            row = np.arange(4, dtype=np.float32)[None, None] + place + 1
            before = wanted.copy()
            wanted[place] = row
            (read,) = session.run([np.array([[[place, 1]]], np.int32), row])
            assert np.array_equal(np.asarray(read).reshape(5, 4), before if late else wanted)
        session.reset()
        (read,) = session.run([np.array([[[0, 0]]], np.int32), row])
        assert not np.asarray(read).any()


def test_a_state_of_which_a_part_is_copied_is_no_state_in_place() -> None:
    model = keeping()
    part = host_step.copy("o", 2, 3, [2, 4], Strided([4, 1]), Strided([4, 1]))
    for first in (part, host_step.copy("o", 2, 3, [20], Strided([1]), Strided([0]))):
        changed = replace(model, steps=(first, *model.steps[1:]))
        made = with_states(changed, {"before": "after"})
        assert [step.name for step in made.steps] == ["o", "o", "r", "keep after"]
