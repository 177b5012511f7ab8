# SPDX-License-Identifier: Apache-2.0
"""commands/schemas: what every command prints with --json is what its schema says, and so are its
errors."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.cli import COMMANDS, main
from loadstone.commands import devices
from loadstone.errors import Refusal, UnsupportedError, VerificationError
from tests.conftest import ROOT
from tests.float_models import images, small_onnx
from tests.language.texts import small
from tests.search.small_network import small_network
from tests.test_cli import status_of

SCHEMAS = ROOT / "python/loadstone/commands/schemas"
T = "vtaq-tiny"
LANGUAGE = all(find_spec(name) for name in ("gguf", "tokenizers"))
#: Command -> words, in an order in which each finds what it reads. Other ways of asking stand in
#: OTHERS.
WORDS: dict[str, tuple[str, ...]] = {
    "compile": (
        *("net.onnx", "--target", T, "-o", "net.lds", "--explain"),
        *("--switch-within", "10000000"),
    ),
    "bound": ("net.lds", "net.lds", "--periods", "10s,10s"),
    "inspect": ("net.lds",),
    "run": ("net.lds", "--inputs", "x.npz"),
    "profile": ("net.lds",),
    "compare": ("net.lds", "--inputs", "x.npz", "--against", "net.onnx", "--all"),
    "prove": ("net.lds", "net.onnx"),
    "generate": ("text.lds", "in the", "--tokens", "3"),
    "perplexity": ("text.lds", "text.txt", "--against", "text.gguf"),
    "vectors": ("net.lds", "-o", "vectors"),
    "replay": ("vectors",),
    "export": ("net.lds", "--board", "linux", "-o", "project"),
    "disasm": ("net.lds",),
    "asm": ("one.txt", "-o", "one.bin"),
    "devices": (),
    "target": (),
    "doctor": (),
    "completion": ("bash",),
    "backend": ("new", "npu", "-o", "mine"),
    "conform": (T, "--cases", "1"),
    "tune": ("net.onnx", "--target", T, "-o", "tuned.json", "--trials", "4", "--workers", "1"),
    "sweep": ("space.yaml", "--models", "net.onnx", "-o", "r.parquet", "--workers", "1"),
    "quantize": ("float.onnx", "--data", "few.npz", "-o", "q.onnx"),
    "demo": ("-o", "shown"),
    "mcp": (),
    "serve": ("sim", "npu.sock", "--clients", "0"),
    "simd": ("socket", "--clients", "0"),
}
OTHERS = (
    ("profile", "net.lds", "--inputs", "x.npz"),
    ("run", "net.lds", "--inputs", "x.npz", "--expect", "y.npz", "--atol", "1e9"),
    ("run", "net.lds", "--inputs", "x.npz", "--with", "net.lds"),
    ("devices", T),
    ("target", T),
    ("compile", "net.onnx", "--target", "vta-pynq", "-o", "other.lds"),
    ("compile", "net.onnx", "--target", T, "--format", "onnx", "-o", "cut.onnx"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read; each writes beside it."""
    made = tmp_path_factory.mktemp("json")
    (made / "net.onnx").write_bytes(small_network())
    (made / "float.onnx").write_bytes(small_onnx())
    (made / "one.txt").write_text("finish\n", encoding="utf-8")
    (made / "space.yaml").write_text(f"base: {T}\ndevice:\n  bus_bits: [64, 128]\n")
    rng = np.random.default_rng(0)
    np.savez(made / "x.npz", in0=rng.integers(-128, 128, (2, 1, 16, 20, 20), np.int8))
    np.savez(made / "y.npz", out0=np.zeros((2, 1, 16, 20, 20), np.int8))
    np.savez(made / "few.npz", in0=images(4))
    (made / "text.txt").write_text("the thing in the king")
    if LANGUAGE:
        gguf, artifact = small()
        shutil.copy(gguf, made / "text.gguf")
        for end in (".lds", ".words.json"):
            shutil.copy(artifact.with_suffix(end), made / f"text{end}")
    return made


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def value_of(text: str) -> Any:
    """Strict JSON: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_every_command_has_a_schema_and_a_row() -> None:
    assert {path.stem for path in SCHEMAS.glob("*.json")} == {*COMMANDS, "error"}
    assert WORDS.keys() == COMMANDS.keys()


@pytest.mark.parametrize(
    "words",
    [*((name, *words) for name, words in WORDS.items()), *OTHERS],
    ids=lambda words: "-".join(word for word in words[:3] if "." not in word),
)
def test_an_answer_is_what_its_schema_says(
    words: tuple[str, ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words[0] in ("generate", "perplexity") and not LANGUAGE:
        pytest.skip("gguf or tokenizers is not installed (the extra `language`)")
    monkeypatch.chdir(folder)
    if not (folder / "net.lds").exists() and "net.lds" in words[1:2]:
        assert main(["compile", *WORDS["compile"]]) == 0
        capsys.readouterr()
    if words[0] == "replay" and not (folder / "vectors").exists():
        assert main(["vectors", *WORDS["vectors"]]) == 0
        capsys.readouterr()
    assert main([*words, "--json"]) == 0
    value = value_of(capsys.readouterr().out)
    validator(words[0]).validate(value)
    assert not validator("error").is_valid(value)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_is_a_value_too_with_the_same_line_and_status(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(command, "--nonsense", "--json") == 2
    out, err = capsys.readouterr()
    value = value_of(out)
    validator("error").validate(value)
    assert value["error"]["type"] == "ArgumentError"
    assert err.startswith(value["error"]["message"])
    assert not validator(command).is_valid(value)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(_: object) -> None:
        raise error

    monkeypatch.setattr(devices, "run", fails)


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            UnsupportedError(Refusal("dilated", "dilation 1", "MaxPool", "pool_1", "net.onnx")),
            2,
            {
                "type": "UnsupportedError",
                "message": 'net.onnx: MaxPool (node "pool_1"): dilated: dilation 1',
                "model": "net.onnx",
                "operator": "MaxPool",
                "node": "pool_1",
                "reason": "dilated",
                "remedy": "dilation 1",
            },
        ),
        (
            UnsupportedError(Refusal("its rows\nhave two lines", "")),
            2,
            {"message": "its rows have two lines", "reason": "its rows have two lines"},
        ),
        (UnsupportedError("a text"), 2, {"type": "UnsupportedError", "message": "a text"}),
        (
            FileNotFoundError(2, "No such file", "x"),
            2,
            {"type": "FileNotFoundError", "message": "x: No such file"},
        ),
        (
            VerificationError("prefetch", "a store moved", "vta_0"),
            70,
            {"type": "VerificationError"},
        ),
    ],
)
def test_an_error_has_the_fields_of_its_type(
    error: Exception,
    status: int,
    said: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing(monkeypatch, error)
    assert main(["devices"]) == status
    line = capsys.readouterr()
    assert line.out == ""
    assert main(["devices", "--json"]) == status
    out, err = capsys.readouterr()
    value = value_of(out)
    validator("error").validate(value)
    assert err == line.err == f"loadstone: {value['error']['message']}\n"
    assert value["error"]["exit_status"] == status
    assert {**value["error"], **said} == value["error"]
    parts = {"model", "operator", "node", "reason", "remedy"}
    assert parts & value["error"].keys() == parts & said.keys()
