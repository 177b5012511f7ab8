# SPDX-License-Identifier: Apache-2.0
"""hosts/litert.py and runtime/hosts/litert: networks in LiteRT's interpreter, with our delegate."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadstone.cli import main
from loadstone.errors import UnsupportedError
from loadstone.hosts import litert
from loadstone.hosts.cut import HostModel
from tests import tflite_builder
from tests.compiled import golden, network
from tests.hosts.easy import bytes_kept
from tests.hosts.partial import tflite_with
from tests.repeat import more

interpreter = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="LiteRT is absent: pip install ai-edge-litert"
)
TARGET = "vtaq-1x16x16"


def opened(data: bytes, device: str = "sim", delegate: Any = None) -> Any:
    """LiteRT's interpreter of a file, with our delegate."""
    delegate = delegate or loaded(device)
    made = interpreter.Interpreter(
        model_content=data,
        experimental_delegates=[delegate],
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF,
        num_threads=1,
    )
    made.allocate_tensors()
    return made


def loaded(device: str) -> Any:
    return interpreter.load_delegate(str(litert.delegate_file()), {"device": device})


def run(made: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    for detail, x in zip(made.get_input_details(), inputs, strict=True):
        made.set_tensor(detail["index"], x.reshape(detail["shape"]))
    made.invoke()
    return [made.get_tensor(detail["index"]) for detail in made.get_output_details()]


def plan(made: Any) -> list[str]:
    """Names of the interpreter's operators, those that were replaced too."""
    return [operator["op_name"] for operator in made._get_ops_details()]


@pytest.fixture(scope="module")
def sine(tmp_path_factory: pytest.TempPathFactory) -> HostModel:
    path = tmp_path_factory.mktemp("sine") / "sine.tflite"
    path.write_bytes(tflite_with("SIN"))
    return litert.compile(path, TARGET)


def images(count: int) -> np.ndarray:
    return np.random.default_rng(1).integers(-128, 128, (count, 1, 6, 6, 8)).astype(np.int8)


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "file", ["mlpt_kws_int8.tflite", pytest.param("mlpt_resnet8_int8.tflite", marks=more)]
)
def test_a_network_is_one_operator_and_equals_our_own_run(
    shared: Path, tmp_path: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.tflite"
    words = ["compile", str(shared / "models" / file), "-t", TARGET, "--format", "litert"]
    assert main([*words, "-o", str(path)]) == 0
    assert "operators in 1 artifact of" in capsys.readouterr().out
    made = opened(path.read_bytes())
    assert plan(made).count("DELEGATE") == 1
    (x,), (y,) = golden(shared, file, 4)
    (ours,) = network(shared, file, TARGET).run(x)
    for sample, wanted, own in zip(x, y, ours, strict=True):
        (got,) = run(made, sample)
        assert np.array_equal(got.reshape(wanted.shape), wanted)
        assert np.array_equal(got.reshape(own.shape), own)


def test_a_network_on_two_devices_equals_litert_s_own_kernels(shared: Path) -> None:
    path = shared / "models/mlpt_kws_int8.tflite"
    compiled = litert.compile(path, f"{TARGET} -count=2")
    (part,) = compiled.parts
    assert part.artifact.further == (1,)
    made = opened(compiled.data)
    (x,), (y,) = golden(shared, path.name, 3)
    for sample, wanted in zip(x, y, strict=True):
        (got,) = run(made, sample)
        assert np.array_equal(got.reshape(wanted.shape), wanted)


def test_without_the_delegate_the_file_is_what_it_was(sine: HostModel) -> None:
    for x in images(3):
        assert np.array_equal(
            tflite_builder.run(sine.data, [x])[0], tflite_builder.run(tflite_with("SIN"), [x])[0]
        )


@pytest.mark.parametrize(
    "middle", ["SIN", *(pytest.param(k, marks=more) for k in ("SQRT", "SIGN"))]
)
def test_what_stands_in_the_middle_is_litert_s(tmp_path: Path, middle: str) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_with(middle))
    compiled = litert.compile(path, TARGET)
    assert [part.nodes for part in compiled.parts] == [(0, 1), (3, 4)]
    assert list(compiled.left) == [2]
    made = opened(compiled.data)
    assert plan(made).count("DELEGATE") == 2
    for x in images(5):
        (wanted,) = tflite_builder.run(tflite_with(middle), [x])
        assert np.array_equal(run(made, x)[0], wanted)


def test_an_operator_that_cannot_be_read_stays(tmp_path: Path) -> None:
    """The whole file cannot be imported; its parts can."""
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_with("UNIQUE"))  # with one output: no importer reads that
    compiled = litert.compile(path, TARGET)
    assert [part.nodes for part in compiled.parts] == [(0, 1), (3, 4)]
    assert "UNIQUE" in compiled.left[2]


def test_a_device_of_batch_4_runs_one_sample(tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_with("SIN"))
    made = opened(litert.compile(path, "vtaq-4x16x16").data)
    (x,) = images(1)
    assert np.array_equal(run(made, x)[0], tflite_builder.run(tflite_with("SIN"), [x])[0])


# --- what goes wrong ------------------------------------------------------------------------------
def refusal(data: bytes, capfd: pytest.CaptureFixture[str], device: str = "sim") -> str:
    """What the interpreter says, one line of ours."""
    with pytest.raises((RuntimeError, ValueError)) as caught:
        opened(data, device)
    said = capfd.readouterr().err + str(caught.value)
    return next(line for line in said.splitlines() if "loadstone: " in line)


def test_a_model_without_artifacts(capfd: pytest.CaptureFixture[str]) -> None:
    line = refusal(tflite_with("SIN"), capfd)
    assert "loadstone: the model carries no artifacts: compile it with `loadstone compile" in line


def test_a_spoiled_model_is_refused(sine: HostModel, capfd: pytest.CaptureFixture[str]) -> None:
    """Artifacts of another model: of other weights, of another stride, of another scale."""
    bundle = bundle_of(sine.data)
    for other in (other_weights(), tflite_with("SIN", seed=1), tflite_with("SQRT")):
        spoiled = with_bundle(other, bundle)
        if other == tflite_with("SQRT"):  # the operator between them is no artifact's
            assert plan(opened(spoiled)).count("DELEGATE") == 2
        else:
            assert "differ from those that their artifact" in refusal(spoiled, capfd)


@pytest.mark.parametrize("field", ["strideW", "fusedActivationFunction", "padding"])
def test_an_option_that_no_shape_shows_is_in_the_hash(
    sine: HostModel, capfd: pytest.CaptureFixture[str], field: str
) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(sine.data, 0)
    setattr(model.subgraphs[0].operators[0].builtinOptions, field, 1 if field != "strideW" else 2)
    assert "operators 0 to 1 differ from those that their artifact" in refusal(packed(model), capfd)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda b: b[:-1], "they are truncated"),
        (lambda b: b"LDSX" + b[4:], "they are not artifacts of Loadstone"),
        (lambda b: b[:4] + struct.pack("<I", 2) + b[8:], "they have another format version"),
        (lambda b: b[:12] + struct.pack("<I", 1 << 30) + b[16:], "they are damaged"),
        (lambda b: b[:36] + struct.pack("<I", 1 << 19) + b[40:], "they are damaged"),
        (lambda b: b[:56] + struct.pack("<I", len(b)) + b[60:], "they are damaged"),
        (lambda b: b[:-100] + bytes([b[-100] ^ 1]) + b[-99:], "the artifact's content is damaged"),
    ],
)
def test_a_damaged_bundle_is_refused(
    sine: HostModel, capfd: pytest.CaptureFixture[str], spoil: Any, why: str
) -> None:
    assert why in refusal(with_bundle(sine.data, spoil(bundle_of(sine.data))), capfd)


@pytest.mark.parametrize("port", ["input", "output"])
def test_ports_that_the_operators_have_not_are_refused(
    sine: HostModel, capfd: pytest.CaptureFixture[str], port: str
) -> None:
    """Any tensor of the file, weights in memory that nobody may write too: held against the
    node's own."""
    bundle = bytearray(bundle_of(sine.data))
    _, nodes, inputs, outputs, words = struct.unpack_from("<5I", bundle, 32)
    at = words + 4 * (nodes + (0 if port == "input" else inputs))
    (own,) = struct.unpack_from("<i", bundle, at)
    taken = struct.unpack_from(f"<{inputs + outputs}i", bundle, words + 4 * nodes)
    assert own in taken
    for other in range(40):
        struct.pack_into("<i", bundle, at, other)
        data = with_bundle(sine.data, bytes(bundle))
        if other in taken:
            continue
        try:
            run(opened(data), images(1)[0])
        except (RuntimeError, ValueError) as error:
            said = capfd.readouterr().err + str(error)
            other_shape = port == "input" and "tensors of other shapes" in said
            assert other_shape or "does not have the inputs and outputs" in said, other
        else:  # the operators read that tensor, too
            assert port == "input"


def test_any_bytes_in_the_bundle_are_refused_or_run(sine: HostModel) -> None:
    """One word of the table at a time, spoiled: an error or a run, never a crash."""
    bundle = bundle_of(sine.data)
    random = np.random.default_rng(0)
    for at in range(16, 32 + 2 * 32 + 40, 4):
        spoiled = bytearray(bundle)
        spoiled[at : at + 4] = random.bytes(4)
        try:
            run(opened(with_bundle(sine.data, bytes(spoiled)), "null"), images(1)[0])
        except (RuntimeError, ValueError):
            continue


def test_a_wrong_device_or_option_is_one_line() -> None:
    for options, line in (
        ({"device": "gpu"}, "loadstone: device 'gpu' is not one of sim, null"),
        ({"speed": "9"}, "loadstone: option 'speed' is unknown: the delegate's only one is"),
    ):
        with pytest.raises(ValueError, match="loadstone") as caught:
            interpreter.load_delegate(str(litert.delegate_file()), options)
        assert line in str(caught.value)


def test_a_device_that_is_not_there_is_one_line(
    sine: HostModel, capfd: pytest.CaptureFixture[str]
) -> None:
    line = refusal(sine.data, capfd, "simd:/nowhere")
    assert "loadstone: the simulator at /nowhere does not answer" in line


def test_a_model_without_anything_for_the_target(tmp_path: Path) -> None:
    graph = tflite_builder.Graph()
    x, y = graph.input((1, 4), np.float32), graph.tensor((1, 4), np.float32)
    graph.operator("SIN", [x], [y])
    (tmp_path / "sin.tflite").write_bytes(graph.save([y]))
    with pytest.raises(
        UnsupportedError, match=r"^sin: no part of it runs on vtaq-1x16x16,llvm: works"
    ):
        litert.compile(tmp_path / "sin.tflite", TARGET)


# --- many -----------------------------------------------------------------------------------------
def test_a_hundred_interpreters_leave_nothing(sine: HostModel) -> None:
    (x,) = images(1)
    plain = bytes_kept(lambda: tflite_builder.run(sine.data, [x]))
    ours = bytes_kept(lambda: run(opened(sine.data), x))
    assert ours - max(plain, 0) < 20_000  # what was garbage before may be gone


@pytest.mark.parametrize("one_delegate", [True, False])
def test_two_threads(sine: HostModel, one_delegate: bool) -> None:
    delegates = [loaded("sim")] * 2 if one_delegate else [loaded("sim"), loaded("sim")]
    made = [opened(sine.data, delegate=delegate) for delegate in delegates]
    x = images(40)
    wanted = [tflite_builder.run(tflite_with("SIN"), [sample])[0] for sample in x]
    wrong: list[int] = []

    def work(begin: int) -> None:
        for k in range(begin, len(x), 2):
            if not np.array_equal(run(made[begin], x[k])[0], wanted[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(begin,)) for begin in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- files, spoiled -------------------------------------------------------------------------------
def packed(model: Any) -> bytes:
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def bundle_of(data: bytes) -> bytes:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    (entry,) = [item for item in model.metadata if item.name == b"loadstone"]
    return bytes(model.buffers[entry.buffer].data)


def with_bundle(data: bytes, bundle: bytes) -> bytes:
    return litert._Writer(data, "test").with_metadata(bundle)


def other_weights() -> bytes:
    """One bit of one weight of the first convolution."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = schema.ModelT.InitFromPackedBuf(tflite_with("SIN"), 0)
    weights = model.subgraphs[0].tensors[model.subgraphs[0].operators[0].inputs[1]].buffer
    data = np.array(model.buffers[weights].data)
    data[5] ^= 1
    model.buffers[weights].data = data
    return packed(model)
