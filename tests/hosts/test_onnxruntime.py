# SPDX-License-Identifier: Apache-2.0
"""hosts/onnxruntime.py and runtime/hosts/onnxruntime: EPContext models in ONNX Runtime, with our
provider."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact, BufferView, DataType, MemoryRegion, RegionKind
from loadstone.backend.device import NO_DEVICE, ProgramDevice
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.errors import ModelError, UnsupportedError
from loadstone.hosts import onnxruntime as host
from loadstone.hosts.cut import HostModel
from tests import onnx_builder
from tests.compiled import golden, network
from tests.hosts.easy import bytes_kept
from tests.hosts.partial import SHAPE, images, onnx_with_sine
from tests.sample_model import copy_model

onnxruntime = pytest.importorskip(
    "onnxruntime", "1.23", reason="ONNX Runtime 1.23 is absent: pip install onnxruntime"
)
TARGET = "vtaq-1x16x16"


@pytest.fixture(scope="module", autouse=True)
def devices() -> Iterator[list[Any]]:
    """Those of our provider, which the process knows once."""
    onnxruntime.register_execution_provider_library("Loadstone", str(host.provider_file()))
    yield [d for d in onnxruntime.get_ep_devices() if d.ep_name == host.PROVIDER]
    gc.collect()  # sessions that errors still hold call the library when they are freed
    onnxruntime.unregister_execution_provider_library("Loadstone")


def opened(model: bytes, devices: list[Any], **options: str) -> Any:
    """A session with our provider."""
    chosen = onnxruntime.SessionOptions()
    chosen.intra_op_num_threads = 1
    chosen.log_severity_level = 4
    chosen.add_provider_for_devices(devices, options)
    return onnxruntime.InferenceSession(model, chosen, enable_fallback=0)


def run(session: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    names = [entry.name for entry in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


@pytest.fixture(scope="module")
def sine(tmp_path_factory: pytest.TempPathFactory) -> HostModel:
    path = tmp_path_factory.mktemp("sine") / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    return host.compile(path, TARGET)


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What our own run gives for images(20)."""
    path = tmp_path_factory.mktemp("ours") / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    return compile(path, TARGET).run(images(20))[0]


def nodes(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_from_string(data).graph.node]


# --- runs -----------------------------------------------------------------------------------------
def test_a_network_on_two_devices_equals_that_on_one(shared: Path, devices: list[Any]) -> None:
    path = shared / "models/mlonmcu_micro_kws_m_qdq.onnx"
    made = [host.compile(path, f"{TARGET}{count}") for count in ("", " -count=2")]
    assert [part.artifact.further for one in made for part in one.parts] == [(), (1,)]
    one, two = (opened(model.data, devices) for model in made)
    rng = np.random.default_rng(5)
    shape = [n if isinstance(n, int) else 1 for n in one.get_inputs()[0].shape]
    for _ in range(3):
        x = rng.standard_normal(shape).astype(np.float32) * 20
        assert all(map(np.array_equal, run(one, x), run(two, x)))


def test_a_network_equals_our_own_run(
    shared: Path, tmp_path: Path, devices: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its softmax of real numbers is ONNX Runtime's: one element in 48 may differ by one step."""
    file = "mlonmcu_micro_kws_m_qdq.onnx"
    path = tmp_path / "net.onnx"
    words = [
        "compile",
        str(shared / "models" / file),
        "-t",
        TARGET,
        "--format",
        "onnx",
        "--explain",
    ]
    assert main([*words, "-o", str(path)]) == 0
    out = capsys.readouterr().out
    assert "45 of 48 operators in 1 artifact of" in out
    assert "operator 57: works on float32 (nn.softmax)" in out
    data = path.read_bytes()
    assert nodes(data).count("EPContext") == 1
    assert "Conv" not in nodes(data)
    session = opened(data, devices)
    (x,), (y,) = golden(shared, file, 4)
    (ours,) = network(shared, file, TARGET).run(x)
    got = np.stack([run(session, sample.reshape(1, *sample.shape[1:]))[0] for sample in x])
    for reference in (y, ours):
        different = got.reshape(-1) != reference.reshape(-1)
        assert different.sum() <= 1
        assert np.abs(got.reshape(-1) - reference.reshape(-1)).max() < 0.004


def test_what_stands_in_the_middle_is_onnx_runtimes(
    sine: HostModel, wanted: np.ndarray, devices: list[Any]
) -> None:
    assert nodes(sine.data) == ["EPContext", "Add", "Sin", "EPContext"]
    assert [len(part.nodes) for part in sine.parts] == [4, 5]
    session = opened(sine.data, devices)
    assert session.get_providers() == [host.PROVIDER, "CPUExecutionProvider"]
    for x, y in zip(images(20), wanted, strict=True):
        assert np.array_equal(run(session, x)[0], y)
    assert len(np.unique(wanted)) > 100


def test_weights_and_kernels_are_in_the_artifacts_alone(sine: HostModel) -> None:
    graph = onnx.load_from_string(sine.data).graph
    (kept,) = graph.initializer  # what ONNX Runtime adds in the middle
    assert tuple(kept.dims) == (1, 16, 6, 6)
    onnx.checker.check_model(onnx.load_from_string(onnx_with_sine()))


def test_several_inputs_and_outputs_in_any_order(tmp_path: Path, devices: list[Any]) -> None:
    """Both are convolved, the second comes first in what they are joined to; one of them leaves the
    part as well."""
    graph = onnx_builder.Graph()
    x, z = two_convolved(graph)
    joined = graph.quantize(graph.node("Concat", z, x, axis=1), 0.125, 2)
    convolved = graph.nodes[[node.output[0] for node in graph.nodes].index(x)].input[0]
    data = graph.save([(joined, np.int8), (convolved, np.int8)], [(1, 32, 4, 4), (1, 16, 4, 4)])
    path = tmp_path / "two.onnx"
    path.write_bytes(data)
    made = host.compile(path, TARGET)
    assert nodes(made.data) == ["EPContext"]
    session = opened(made.data, devices)
    random = np.random.default_rng(0)
    for _ in range(3):
        inputs = [random.integers(-128, 128, (1, 16, 4, 4)).astype(np.int8) for _ in range(2)]
        for got, reference in zip(
            run(session, *inputs), onnx_builder.run(data, inputs), strict=True
        ):
            assert np.array_equal(got, reference)


def two_convolved(graph: onnx_builder.Graph) -> tuple[str, str]:
    """Two inputs, each convolved; dequantized. In powers of two float32 is exact."""
    made = []
    for _ in range(2):
        x = graph.dequantize(graph.input((1, 16, 4, 4), np.int8), 0.125, 2)
        kernel = graph.constant(np.random.default_rng(3).integers(-9, 10, (16, 16, 1, 1), np.int8))
        y = graph.node("Conv", x, graph.dequantize(kernel, 2.0**-5, 0))
        made.append(graph.dequantize(graph.quantize(y, 0.125, 2), 0.125, 2))
    return made[0], made[1]


def test_a_batch_that_the_model_leaves_open(tmp_path: Path, devices: list[Any]) -> None:
    model = onnx.load_from_string(onnx_with_sine())
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    path = tmp_path / "open.onnx"
    path.write_bytes(model.SerializeToString())
    for target in (TARGET, "vtaq-4x16x16"):
        session = opened(host.compile(path, target).data, devices)
        x = images(6).reshape(6, *SHAPE[1:])
        whole = run(session, x)[0]
        single = np.concatenate([run(session, sample[None])[0] for sample in x])
        assert np.array_equal(whole, single)


def test_a_graph_inside_a_node_keeps_what_it_reads(tmp_path: Path, devices: list[Any]) -> None:
    """An If, whose branches read the network's own tensors, stays, and so do they."""
    model = onnx.load_from_string(onnx_with_sine())
    graph = model.graph
    (sin,) = [node for node in graph.node if node.op_type == "Sin"]
    branches = []
    for kind in ("Sin", "Neg"):
        inner = helper.make_node(kind, [sin.input[0]], [f"{kind}_out"])
        info = helper.make_tensor_value_info(f"{kind}_out", onnx.TensorProto.FLOAT, (1, 16, 6, 6))
        branches.append(helper.make_graph([inner], kind, [], [info]))
    graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    choice = helper.make_node(
        "If", ["yes"], list(sin.output), then_branch=branches[0], else_branch=branches[1]
    )
    at = list(graph.node).index(sin)
    graph.node.remove(sin)
    graph.node.insert(at, choice)
    path = tmp_path / "if.onnx"
    path.write_bytes(model.SerializeToString())
    made = host.compile(path, TARGET)
    assert nodes(made.data) == ["EPContext", "Add", "If", "EPContext"]
    session = opened(made.data, devices)
    x = images(1)[0]
    assert np.array_equal(run(session, x)[0], run(opened(plain_sine(tmp_path), devices), x)[0])


def plain_sine(folder: Path) -> bytes:
    path = folder / "plain.onnx"
    path.write_bytes(onnx_with_sine())
    return host.compile(path, TARGET).data


# --- what goes wrong ------------------------------------------------------------------------------
def refusal(data: bytes, devices: list[Any], **options: str) -> str:
    with pytest.raises(Exception, match="loadstone: ") as caught:
        opened(data, devices, **options)
    text = str(caught.value)
    return text[text.index("loadstone: ") :]


def with_artifact(data: bytes, artifact: bytes, number: int = 0) -> bytes:
    model = onnx.load_from_string(data)
    node = [n for n in model.graph.node if n.op_type == "EPContext"][number]
    (attribute,) = [a for a in node.attribute if a.name == "ep_cache_context"]
    attribute.s = artifact
    return bytes(model.SerializeToString())


def test_a_wrong_artifact_is_refused_in_one_line(sine: HostModel, devices: list[Any]) -> None:
    good = sine.parts[0].artifact.to_bytes()
    for artifact, line in (
        (b"", "loadstone: an EPContext node"),
        (b"x" * 200, "loadstone: artifact: not a Loadstone artifact"),
        (good[:-1], "loadstone: artifact: the artifact's size is not what its header says"),
        (good[:-9] + b"\x55" + good[-8:], "loadstone: artifact: the artifact's content is damaged"),
    ):
        begin = "loadstone: " if artifact == b"" else line
        text = refusal(with_artifact(sine.data, artifact), devices)
        assert text.startswith(begin)
        assert "\n" not in text.strip()


def test_an_artifact_of_another_part_is_refused(
    sine: HostModel, tmp_path: Path, devices: list[Any]
) -> None:
    """By its ports where these differ in number, else when it runs."""
    session = opened(with_artifact(sine.data, copy_model().to_bytes()), devices)
    with pytest.raises(Exception, match=r"model 'copy': input 'x' has another type or shape"):
        run(session, images(1)[0])
    other = sine.parts[1].artifact.to_bytes()
    session = opened(with_artifact(sine.data, other), devices)
    with pytest.raises(Exception, match="has another type or shape than it was compiled for"):
        run(session, images(1)[0])
    graph = onnx_builder.Graph()
    joined = graph.quantize(graph.node("Concat", *two_convolved(graph), axis=1), 0.1, 2)
    path = tmp_path / "join.onnx"
    path.write_bytes(graph.save([(joined, np.int8)], [(1, 32, 4, 4)]))
    join = compile(path, TARGET).artifact.to_bytes()
    text = refusal(with_artifact(sine.data, join), devices)
    assert text.strip() == "loadstone: model 'join' has 2 inputs, its EPContext node has 1"


@pytest.mark.parametrize("dtype", list(DataType))
def test_an_artifact_of_any_type_is_read_within_the_table(
    devices: list[Any], dtype: DataType
) -> None:
    """A port of each type in a node that ONNX Runtime gives float: refused, and copied where it
    is; the table once ended before bfloat16."""
    regions = tuple(MemoryRegion(n, RegionKind.HOST, 64, 8) for n in ("in", "out"))
    tensors = tuple(BufferView(n, (1, 4), dtype, k, 0) for k, n in enumerate("xy"))
    whole = host_step.Strided((1,))
    copies = host_step.copy("copy", 0, 1, (4,), whole, whole)
    none = NO_DEVICE
    model = Artifact("c", (ProgramDevice.of(none),), 1, regions, tensors, (0,), (1,), (copies,))
    node = onnx.helper.make_node(
        "EPContext",
        ["x"],
        ["y"],
        domain="com.microsoft",
        main_context=1,
        embed_mode=1,
        ep_cache_context=model.to_bytes(),
        source=host.PROVIDER,
    )
    ports = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in ("x", "y")
    ]
    graph = onnx.helper.make_graph([node], "g", ports[:1], ports[1:])
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    data = onnx.helper.make_model(graph, opset_imports=sets, ir_version=8).SerializeToString()
    session, x = opened(data, devices), np.arange(4, dtype=np.float32).reshape(1, 4)
    if dtype is DataType.FLOAT32:
        assert np.array_equal(run(session, x)[0], x)
        return
    with pytest.raises(Exception, match="has another type or shape than it was compiled for"):
        run(session, x)


def test_a_wrong_device_is_one_line(sine: HostModel, devices: list[Any]) -> None:
    text = refusal(sine.data, devices, device="gpu")
    assert text.startswith("loadstone: device 'gpu' is not one of sim, null")
    text = refusal(sine.data, devices, device="simd:/nowhere")
    assert text.startswith("loadstone: the simulator at /nowhere does not answer")


def test_nodes_of_other_providers_are_left_alone(sine: HostModel, devices: list[Any]) -> None:
    model = onnx.load_from_string(sine.data)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "source":
                attribute.s = b"SomebodyElse"
    with pytest.raises(Exception, match="EPContext") as caught:
        opened(model.SerializeToString(), devices)
    assert "loadstone: " not in str(caught.value)


def test_a_model_without_anything_for_the_target(tmp_path: Path) -> None:
    graph = onnx_builder.Graph()
    y = graph.node("Sin", graph.input((1, 4), np.float32))
    (tmp_path / "sin.onnx").write_bytes(graph.save([(y, np.float32)], [(1, 4)]))
    with pytest.raises(UnsupportedError, match=r"^sin: no part of it runs on vtaq-1x16x16,llvm: "):
        host.compile(tmp_path / "sin.onnx", TARGET)
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"bad\.onnx: no ONNX model"):
        host.compile(tmp_path / "bad.onnx", TARGET)


def test_options_of_artifacts_are_refused(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "sine.onnx"
    path.write_bytes(onnx_with_sine())
    words = ["compile", str(path), "-t", TARGET, "--format", "onnx"]
    assert main([*words, "--dump", str(tmp_path / "d")]) != 0
    assert "--dump is for --format lds" in capsys.readouterr().err
    assert main([*words, "--tuned", str(tmp_path / "t.json")]) != 0
    assert "--tuned is for --format lds" in capsys.readouterr().err
    assert main([*words, "-o", str(path)]) != 0
    assert "is the model itself: name another file" in capsys.readouterr().err


# --- many -----------------------------------------------------------------------------------------
def test_a_hundred_sessions_leave_nothing(sine: HostModel, devices: list[Any]) -> None:
    x = images(1)[0]
    plain = bytes_kept(lambda: onnx_builder.run(onnx_with_sine(), [x]))
    ours = bytes_kept(lambda: run(opened(sine.data, devices), x))
    assert ours - plain < 50_000


@pytest.mark.parametrize("one_session", [True, False])
def test_two_threads(
    sine: HostModel, wanted: np.ndarray, devices: list[Any], one_session: bool
) -> None:
    first = opened(sine.data, devices)
    sessions = [first, first if one_session else opened(sine.data, devices)]
    x = images(20)
    wrong: list[int] = []

    def work(begin: int) -> None:
        for k in range(begin, len(x), 2):
            if not np.array_equal(run(sessions[begin], x[k])[0], wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(begin,)) for begin in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
