# SPDX-License-Identifier: Apache-2.0
"""gguf.py: decoders of the Llama family from GGUF files, against an independent decoder in NumPy,
bit by bit; and chunks of rows against single rows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

import loadstone
from loadstone.artifact import memory_layout
from loadstone.artifact.format import HostStep, RegionKind, ViewLayout
from loadstone.artifact.host_step import HostOpcode
from loadstone.cli import main
from loadstone.commands.export import export
from loadstone.errors import LoadstoneError
from loadstone.frontend import Reading, import_model
from loadstone.language.generate import generate
from loadstone.relax import row_numerics as rows
from loadstone.relax.saved import run_module
from loadstone.runtime.device import OpenedDevice, device_of_artifact
from loadstone.vta.device.hw_config import load_config
from loadstone.vta.isa.codec import decode_stream
from loadstone.vta.isa.insn import Load
from loadstone.vta.isa.spec import Memory
from tests.board.tools import run
from tests.c.build import STRICT
from tests.commands.test_export import make, serving
from tests.frontend.gguf_models import GROUPS, HEADS, INNER, LAYERS, WIDTH, WORDS, Reference, tiny
from tests.hosts.easy import Easy
from tests.hosts.in_c import run_in_c
from tests.language.texts import small

Array = NDArray[Any]
PLACES = 8
READING = Reading(shapes={"window": (PLACES,)})
GEMMA = {
    "attention__sliding_window": 3,
    "attention__sliding_window_pattern": 2,
    "rope__freq_base_swa": 100.0,
}
FAMILIES: dict[str, dict[str, Any]] = {"llama": {}, "qwen2": {}, "qwen3": {}, "gemma3": GEMMA}
CASES = [*FAMILIES, "llama with a head of its own"]
CACHES = ("keys", "key_scales", "values", "value_scales")


def empty() -> list[Array]:
    """The caches of all layers."""
    size = WIDTH // HEADS
    kinds = [(size, np.int8), (1, np.float32), (size, np.int8), (1, np.float32)]
    return [np.zeros((GROUPS, PLACES, last), kind) for _ in range(LAYERS) for last, kind in kinds]


def stepped(module: Any, tokens: list[int], place: int, caches: list[Array]) -> list[Array]:
    """Scores and caches, by TVM and NumPy."""
    given = [np.array(tokens, np.int32), np.array([place, len(tokens)], np.int32), *caches]
    return [np.asarray(y) for y in run_module(module, given)]


@pytest.mark.parametrize("case", CASES)
def test_a_decoder_computes_what_an_independent_one_does(case: str, tmp_path: Path) -> None:
    arch = case.split(" ")[0]
    path = tiny(tmp_path / "m.gguf", arch, tied=case == arch, **FAMILIES[arch])
    module, reference = import_model(path, READING), Reference(path)
    caches, token = empty(), 7
    for place in range(6):
        scores, *caches = stepped(module, [token], place, caches)
        wanted = reference.next(token)
        assert scores.shape == (1, WORDS)
        assert np.array_equal(scores[0].view(np.int32), wanted.view(np.int32)), place
        token = (int(wanted.argmax()) + place) % WORDS
    for layer in range(LAYERS):
        for kind, at in (("k", 0), ("v", 2)):
            kept = reference.caches[layer][kind]
            levels = np.stack([entry[0] for entry in kept], 1)
            scales = np.stack([entry[1] for entry in kept], 1)
            assert np.array_equal(caches[4 * layer + at][:, :6], levels)
            assert np.array_equal(caches[4 * layer + at + 1][:, :6, 0], scales)


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
def test_a_tied_embedding_stands_in_memory_once(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are read out of the head's weights, for both entries; a file with a head of its own
    has a table for them."""
    monkeypatch.setattr(memory_layout, "_LARGE_BYTES", WORDS * WIDTH)
    for name, tied in (("tied", True), ("own", False)):
        path = tiny(tmp_path / f"{name}.gguf", tied=tied)
        artifact = loadstone.compile(path, target, reading=READING).artifact
        gathers = [
            step.inputs[0]
            for step in artifact.steps
            if isinstance(step, HostStep) and step.opcode == HostOpcode.GATHER
        ]
        blocked = [
            (view.offset_bytes, view.shape)
            for view in (artifact.tensors[number] for number in gathers)
            if view.layout == ViewLayout.BLOCKED
        ]
        assert len(blocked) == 2 * tied  # in `next` and `chunk`
        for offset, shape in blocked:
            assert (offset, shape) == (blocked[0][0], (WORDS, 1, 1, WIDTH))
            constants = artifact.regions[0].data
            row = constants[offset : offset + 16]  # the first word's first tile
            assert constants.count(row) == 1


def test_without_a_rotation(tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf")
    reading = Reading(shapes={"window": (PLACES,)}, rotate=0)
    (scores, *_) = stepped(import_model(path, reading), [7], 0, empty())
    wanted = Reference(path, rotate=False).next(7)
    assert np.array_equal(scores[0].view(np.int32), wanted.view(np.int32))
    assert not np.array_equal(wanted, Reference(path).next(7))
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(LoadstoneError, match=r"rotate is for \.gguf files"):
        import_model(tmp_path / "m.onnx", Reading(rotate=64))
    with pytest.raises(LoadstoneError, match="rotate=32 is not 64 or 0"):
        import_model(path, Reading(rotate=32))


@pytest.mark.parametrize("which", ["all", "most"])
def test_linears_keep_the_4_bits_of_their_file(which: str, tmp_path: Path) -> None:
    """On the device, which unpacks them, and which loads less."""
    path = tiny(tmp_path / "m.gguf", four="Q4_1")
    reading = Reading(shapes={"window": (PLACES,)}, weights4=which)
    (scores, *_) = stepped(import_model(path, reading), [7], 0, empty())
    reference = Reference(path, weights4=which)
    wanted = reference.next(7)
    assert np.array_equal(scores[0].view(np.int32), wanted.view(np.int32))
    assert not np.array_equal(wanted, Reference(path).next(7))
    compiled = loadstone.compile(path, "vtaq2-1x16x16", reading=reading)
    artifact = compiled.artifact
    config = load_config("vtaq2-1x16x16")
    loads = [
        insn
        for program in artifact.programs
        for insn in decode_stream(program.instructions, config)
        if isinstance(insn, Load) and not insn.is_noop
    ]
    packed = sum(insn.x_size * insn.y_size for insn in loads if insn.memory_id == Memory.WGT_4BIT)
    inner = 2 * INNER * WIDTH + (INNER * WIDTH if which == "all" else 0)
    weights = LAYERS * (inner + (2 * WIDTH + 2 * WIDTH // HEADS * GROUPS) * WIDTH)
    assert packed == 2 * weights // (32 * 16)  # in `next` and `chunk`
    with OpenedDevice("sim", "", compiled.device) as device, device.load(artifact) as session:
        for token in (7, 3):
            place = reference.place if token == 3 else 0
            (found,) = session.run(
                [np.array([[token]], np.int32), np.array([[place, 1]], np.int32)], entry="next"
            )
            wanted = wanted if token == 7 else reference.next(token)
            assert np.array_equal(found.reshape(-1).view(np.int32), wanted.view(np.int32))


@pytest.mark.parametrize("which", ["all", "most"])
def test_4_bits_come_with_their_error_beside_int8_s(
    which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each linear that keeps them, against the independent decoder's integers, which for int8
    are rotated."""
    path = tiny(tmp_path / "m.gguf", four="Q4_1")
    four, eight = Reference(path, weights4=which), Reference(path)
    command = ["compile", str(path), "-t", "vtaq2-1x16x16", "--shape", f"window={PLACES}"]
    command += ["--weights4", which, "-o", str(tmp_path / "m.lds")]
    main([*command, "--json"])
    entries = json.loads(capsys.readouterr().out)["weight_errors"]
    wanted = [key for key in four.weights if key.startswith("blk.") and "norm" not in key]
    wanted = [key for key in wanted if four.packs(key)]
    assert sorted(f"{entry['name']}.weight" for entry in entries) == sorted(wanted)
    for entry in entries:
        key = f"{entry['name']}.weight"
        weights = four.weights[key]
        turned = rows.hadamard(weights) if weights.shape[1] % 64 == 0 else weights
        for real, reference, name in ((weights, four, "error"), (turned, eight, "int8")):
            levels, channel = reference.integers(key, real is not weights)
            off = np.sqrt(np.mean((levels * channel[:, None].astype(float) - real) ** 2))
            assert entry[name] == pytest.approx(off / np.sqrt(np.mean(real**2)), rel=1e-3)
        assert 0.001 < entry["int8"] < entry["error"] < 0.02
    main(command)
    worst = max(entries, key=lambda entry: float(entry["error"]))
    said = f"{worst['name']} {worst['error']:.2%} (int8 {worst['int8']:.2%})"
    assert f"4-bit weights  off by {said}" in capsys.readouterr().out
    assert not loadstone.compile(path, "vtaq2-1x16x16", reading=READING).weight_errors


def test_weights_that_have_no_4_bits_are_refused(tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf")
    with pytest.raises(LoadstoneError, match=r"'blk.0.attn_q.weight' is F32 of 64 inputs, which"):
        import_model(path, Reading(weights4="all"))
    with pytest.raises(LoadstoneError, match="weights4='some' is not 'all' or 'most'"):
        import_model(path, Reading(weights4="some"))
    (tmp_path / "m.onnx").write_bytes(b"")
    with pytest.raises(LoadstoneError, match=r"weights4 is for \.gguf files"):
        import_model(tmp_path / "m.onnx", Reading(weights4="all"))


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_a_chunk_leaves_what_single_tokens_leave(arch: str, tmp_path: Path) -> None:
    """Rows of one chunk each have a sliding window of their own, as Gemma's."""
    path = tiny(tmp_path / "m.gguf", arch, **FAMILIES[arch])
    shapes = {"window": (PLACES,), "tokens": (4,)}
    single, chunk = import_model(path, READING), import_model(path, Reading(shapes=shapes))
    one, whole = [np.zeros(0), *empty()], [np.zeros(0), *empty()]
    tokens = (3, 1, 4, 1, 5, 2)
    for place, token in enumerate(tokens):
        one = stepped(single, [token], place, one[1:])
    for place in (0, 3):
        row = [*tokens[place : place + 3], 9]
        given = [np.array(row, np.int32), np.array([place, 3], np.int32), *whole[1:]]
        whole = [np.asarray(y) for y in run_module(chunk, given)]
    assert all(np.array_equal(a, b) for a, b in zip(one, whole, strict=True))


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
def test_on_a_device_token_by_token(target: str, tmp_path: Path) -> None:
    """Through compiler, C runtime and simulator, its caches in place: tokens, scores, caches, and
    the int32 sums of every product."""
    path = tiny(tmp_path / "m.gguf")
    compiled = loadstone.compile(path, target, reading=READING, rows=1)
    artifact, reference = compiled.artifact, Reference(path)
    host = [step.opcode for step in artifact.steps if isinstance(step, HostStep)]
    assert HostOpcode.EXTERNAL not in host
    assert HostOpcode.COPY not in host  # the caches are never moved
    assert [artifact.tensors[i].name for i in artifact.inputs] == ["tokens", "place"]
    assert [artifact.tensors[i].name for i in artifact.outputs] == ["scores"]
    with OpenedDevice("sim", "", compiled.device) as device, device.load(artifact) as session:
        token = 7
        for place in range(5):
            given = [np.array([[token]], np.int32), np.array([[place, 1]], np.int32)]
            (scores,) = session.run(given)
            wanted = reference.next(token)
            assert np.array_equal(np.asarray(scores).reshape(-1), wanted), place
            check_sums(session, reference)
            token = int(wanted.argmax())
        check_caches(session, reference)
        session.reset()
        (again,) = session.run([np.array([[7]], np.int32), np.array([[0, 1]], np.int32)])
        assert np.array_equal(np.asarray(again).reshape(-1), Reference(path).next(7))
        with pytest.raises(LoadstoneError, match="lie beyond the places"):
            session.run([np.array([[7]], np.int32), np.array([[PLACES, 1]], np.int32)])


@pytest.mark.parametrize("target", ["vtaq-1x16x16", "vta-pynq"])
def test_chunks_and_single_tokens_of_one_artifact(target: str, tmp_path: Path) -> None:
    """Both entries in one session, in turn: scores and caches are the independent decoder's."""
    path = tiny(tmp_path / "m.gguf")
    whole = loadstone.compile(path, target, reading=READING, rows=4)
    alone = loadstone.compile(path, target, reading=READING, rows=1).artifact
    artifact, reference = whole.artifact, Reference(path)
    assert artifact.entry_names == ("next", "chunk")
    first = artifact.only()
    assert artifact.regions[0].data.startswith(alone.regions[0].data)
    assert (first.steps, first.inputs, first.outputs) == (alone.steps, alone.inputs, alone.outputs)
    grown = len(artifact.regions[0].data) - len(alone.regions[0].data)
    assert grown < len(alone.regions[0].data) // 50  # no weights stand there twice
    tokens = [7, 3, 49, 0, 11, 5, 6]
    wanted = [reference.next(token) for token in tokens]
    with OpenedDevice("sim", "", whole.device) as device, device.load(artifact) as session:
        place = 0
        for count in (3, 1, 2, 1):
            given, rows = tokens[place : place + count], 1 if count == 1 else 4
            row = np.array([[*given, *[13] * (rows - count)]], np.int32)
            entry = "next" if count == 1 else "chunk"
            (scores,) = session.run([row, np.array([[place, count]], np.int32)], entry=entry)
            place += count
            assert np.array_equal(np.asarray(scores).reshape(-1), wanted[place - 1]), place
        check_caches(session, reference)
        with pytest.raises(LoadstoneError, match="lie beyond the places"):
            session.run([row[:, :1].repeat(4, 1), np.array([[6, 3]], np.int32)], entry="chunk")
        check_caches(session, reference)  # nothing was written
    with Easy(artifact) as net:  # the same in C alone
        scores = np.zeros((1, 1, WORDS), np.float32)
        net.choose("chunk")
        net.run([np.array([tokens[:4]], np.int32), np.array([[0, 4]], np.int32)], [scores])
        assert np.array_equal(scores.reshape(-1), wanted[3])
        net.choose("next")
        net.run([np.array([tokens[4:5]], np.int32), np.array([[4, 1]], np.int32)], [scores])
        assert np.array_equal(scores.reshape(-1), wanted[4])


def test_in_c_alone(tmp_path: Path) -> None:
    """What `loadstone export` writes: the same scores, and a set of the operators it has."""
    path = tiny(tmp_path / "m.gguf")
    compiled, reference = loadstone.compile(path, "vtaq-1x16x16", reading=READING), Reference(path)
    tokens = np.array([[7], [3], [49], [0]], np.int32)
    places = np.array([[k, 1] for k in range(4)], np.int32)
    (folder := tmp_path / "c").mkdir()
    (scores,) = run_in_c(compiled.artifact, [tokens, places], folder)
    wanted = np.stack([reference.next(int(token)) for (token,) in tokens])
    assert np.array_equal(scores.reshape(4, -1), wanted)
    text = (folder / "steps/operators.c").read_text()
    assert "lds_row_step_check" in text
    assert "lds_attention" in text
    assert "lds_softmax_int8" not in text
    include = [f"-I{folder}", f"-I{folder / 'loadstone/include'}"]
    run(["gcc", *STRICT, *include, "-c", str(folder / "steps/operators.c"), "-o", "/dev/null"])


def test_an_exported_decoder_continues_a_text(tmp_path: Path) -> None:
    """boards/decoder/decode.c: the file stays where it is read to, a prompt of two chunks, then
    single tokens."""
    path = tiny(tmp_path / "m.gguf")
    artifact = loadstone.compile(path, "vtaq-1x16x16", reading=READING, rows=4).artifact
    export(artifact, device_of_artifact(artifact), "linux", tmp_path / "app")
    make(tmp_path / "app", "FLAGS=-Werror", "decode", compiler="gcc")
    prompt, reference = [7, 3, 49, 0, 11], Reference(path)
    for token in prompt:
        scores = reference.next(token)
    wanted = [int(scores.argmax())]
    while len(wanted) < 3:
        wanted.append(int(reference.next(wanted[-1]).argmax()))
    with serving(tmp_path / "socket", "vtaq-1x16x16") as socket:
        command = [str(tmp_path / "app/decode"), f"simd:{socket}", f"{tmp_path}/app/model.lds"]
        done = decoded(command, prompt, 3)
        assert [int(word) for word in done.stdout.split()] == wanted, done.stderr
        assert done.stderr.startswith("4 runs, ")
        done = decoded(command, prompt, 9)  # more than the window has places
        assert done.returncode == 1
        assert "lie beyond the places" in done.stderr
        done = decoded(command, [WORDS], 1)
        assert "a token that the model does not have" in done.stderr


def test_an_exported_decoder_writes_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of words beside the model: the text of `loadstone generate`, or an error in one
    line."""
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (the extra `language`)")
    _, artifact = small()
    app = tmp_path / "app"
    assert main(["export", str(artifact), "--board", "linux", "-o", str(app)]) == 0
    assert "no text" not in capsys.readouterr().out
    make(app, "FLAGS=-Werror", "decode", compiler="gcc")
    prompt = "the king, and the <|im_end|> in a wi"  # more than a chunk
    other = tmp_path / "other.bin"
    table = bytearray((app / "words.bin").read_bytes())
    table[28] ^= 1
    other.write_bytes(table)
    with serving(tmp_path / "socket", "vtaq-1x16x16") as socket:

        def said(text: bytes, words: Path) -> tuple[int, bytes, str]:
            command = [app / "decode", f"simd:{socket}", app / "model.lds", "5", words]
            done = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
            return done.returncode, done.stdout, done.stderr.decode()

        wanted = generate(artifact, prompt, tokens=5)
        assert wanted.prompt_tokens > 16
        status, shown, error = said(prompt.encode(), app / "words.bin")
        assert (status, shown.decode("utf-8", "replace")) == (0, wanted.text), error
        for text, words, why in (
            (b"the \xff", app / "words.bin", "stdin holds no text in UTF-8"),
            (b"", app / "words.bin", "stdin holds no text"),
            (b"a" * 70000, app / "words.bin", "stdin holds more than 65536 bytes"),
            (b"a" * 99, app / "words.bin", "lie beyond the places"),
            (b"the", other, "other.bin"),
            (b"the", app / "model.lds", "model.lds"),
        ):
            status, shown, error = said(text, words)
            assert (status, shown) == (1, b"")
            assert why in error
            assert error.count("\n") == 1
    artifact.with_suffix(".words.json").rename(tmp_path / "away.json")
    try:
        assert main(["export", str(artifact), "--board", "linux", "-o", str(app)]) == 0
    finally:
        (tmp_path / "away.json").rename(artifact.with_suffix(".words.json"))
    assert "no text: small.words.json is not beside small.lds" in capsys.readouterr().out
    assert not (app / "words.bin").exists()


def decoded(command: list[str], prompt: list[int], count: int) -> subprocess.CompletedProcess[str]:
    text = " ".join(map(str, prompt))
    return subprocess.run(
        [*command, str(count)], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def memory(session: Any, name: str) -> Array:
    """What a tensor of a host step holds, by the tensor's name."""
    for number, step in enumerate(session.artifact.steps):
        if isinstance(step, HostStep):
            for k, index in enumerate((*step.inputs, *step.outputs)):
                if session.artifact.tensors[index].name == name:
                    return np.array(session._operand(session._session, number, k, index))
    raise KeyError(name)


def check_sums(session: Any, reference: Reference) -> None:
    """The int32 of each product that no other step has overwritten: of the last layer's and the
    head's, which share no memory with others."""
    step = next(
        s
        for s in reversed(session.artifact.steps)
        if isinstance(s, HostStep) and s.opcode == HostOpcode.RESCALE_ROWS
    )
    tensor = session.artifact.tensors[step.inputs[0]]
    planes = memory(session, tensor.name).reshape(step.parameters["planes"], -1)
    wide = planes.astype(np.int32)
    sums = wide[-1] << (8 * (len(wide) - 1))
    for plane in range(len(wide) - 1):
        sums |= (wide[plane] & 255) << (8 * plane)
    assert np.array_equal(sums[:WORDS], reference.sums["output"])


def check_caches(session: Any, reference: Reference) -> None:
    states = [k for k, r in enumerate(session.artifact.regions) if r.kind == RegionKind.STATE]
    assert len(states) == 1
    for layer in range(LAYERS):
        for kind, name in (("k", "keys"), ("v", "values")):
            kept = reference.caches[layer][kind]
            levels = np.stack([entry[0] for entry in kept], 1)
            scales = np.stack([entry[1] for entry in kept], 1)
            found = memory(session, f"{name}_{layer}_next").reshape(GROUPS, PLACES, -1)
            assert np.array_equal(found[:, : len(kept)], levels)
            assert not found[:, len(kept) :].any()
            by = memory(session, f"{name[:-1]}_scales_{layer}_next").reshape(GROUPS, PLACES)
            assert np.array_equal(by[:, : len(kept)], scales)


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"window": (33,)}, "a window of 33 is more than its context 32"),
        ({"tokens": (9,), "window": (8,)}, "9 tokens are more than the 8 places"),
        ({"batch": (2,)}, "two sizes can be said"),
        ({"tokens": (1, 2)}, "two sizes can be said"),
    ],
)
def test_sizes_that_are_refused(shapes: Any, said: str, tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf")
    with pytest.raises(LoadstoneError, match=said) as caught:
        import_model(path, Reading(shapes=shapes))
    assert "\n" not in str(caught.value)


def test_a_tensor_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    """Qwen2's biases in a Llama are read; a norm of queries' neighbours is not."""
    import gguf

    path = tiny(tmp_path / "m.gguf")
    reader = gguf.GGUFReader(str(path))
    assert "blk.0.attn_q.weight" in {t.name for t in reader.tensors}
    data = path.read_bytes().replace(b"blk.1.ffn_norm.weight", b"blk.9.ffn_norm.weight")
    path.write_bytes(data)
    with pytest.raises(LoadstoneError, match=r"'blk\.1\.ffn_norm\.weight' is missing"):
        import_model(path)
    data = tiny(path).read_bytes().replace(b"llama.block_count", b"llama.vocab_size\x00")
    assert data != path.read_bytes()
    path = tiny(path, block_count=1)
    with pytest.raises(LoadstoneError, match=r"tensor 'blk\.1\.[a-z_.]+' is not understood"):
        import_model(path)


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf", attention__head_count=4)
    with pytest.raises(LoadstoneError):
        import_model(path)
