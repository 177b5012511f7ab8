# SPDX-License-Identifier: Apache-2.0
"""plugins.py, commands/backend.py and external regions: back ends from folders and packages,
through targets and the command line."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import HostStep
from loadstone.backend import plugins as plugins_module
from loadstone.backend.device import NO_DEVICE
from loadstone.backend.plugins import GROUP, load_plugins
from loadstone.backend.target import accelerators, attributes_of, resolve
from loadstone.backend.template.backend import MyNpu
from loadstone.backend.template.test_backend import small_model
from loadstone.cli import main
from loadstone.compiler import compile
from loadstone.errors import TargetError
from tests.forked import tools

TEMPLATE = Path(sys.modules[MyNpu.__module__].__file__ or "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a user has it, from `loadstone backend new`."""
    assert main(["backend", "new", "npu-a", "-o", str(tmp_path / "mine")]) == 0
    return tmp_path / "mine"


def test_the_template_passes_its_test_at_once(folder: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(TEMPLATE.parents[3])}
    python = tools(folder.parent / "tools") / "python"
    words = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    done = subprocess.run(
        words, env=env, cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_new_never_overwrites_and_names_bad_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    for words, message in (
        (["npu-a", "-o", str(folder)], "npu_a.py is there already"),
        (["Npu"], "'Npu' is no name"),
        (["vta"], "'vta' is no name"),
    ):
        assert main(["backend", "new", *words]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_a_composite_names_the_plugin(folder: Path) -> None:
    known = load_plugins([folder])
    assert known.problems == []
    target = resolve("npu-a -max_channels=64,vtaq-tiny -clock_mhz=50,llvm -mcpu=cortex-a53", known)
    assert [backend.name for backend in target.backends] == ["npu-a", "vta"]
    assert target.backends[0].attributes == {"max_channels": 64}
    assert (target.device.name, target.device.clock_mhz) == ("vtaq-tiny", 50)
    assert "npu-a" in accelerators(known)
    assert [attribute.default for attribute in attributes_of("npu-a", known)] == [512]
    for text, message in (
        ("npu-a -lanes=3", "npu-a has no attribute 'lanes'; it has max_channels"),
        ("npu-a -max_channels=x", "is not an integer"),
        ("npu-b,vtaq-tiny", "'npu-b' is no accelerator; known are .*npu-a"),
    ):
        with pytest.raises(TargetError, match=message):
            resolve(text, known)


def test_without_a_device_there_is_no_program(folder: Path, tmp_path: Path) -> None:
    compiled = compile(
        small_model(tmp_path / "small.onnx"), "npu-a", plugins=load_plugins([folder])
    )
    assert compiled.artifact.device == NO_DEVICE.name
    assert compiled.artifact.programs == ()
    external = [
        step
        for step in compiled.artifact.steps
        if isinstance(step, HostStep) and step.function == "npu-a.execute"
    ]
    assert len(external) == 1  # both convolutions in one call
    assert len(external[0].inputs) == 1 + 2 * 4


BROKEN = {
    "syntax": ("from loadstone.backend import Backend\ndef", "SyntaxError"),
    "raises": ("import loadstone.backend\n1 / 0", "ZeroDivisionError"),
    "leaves": ("from loadstone import backend\nraise SystemExit(3)", "SystemExit"),
    "empty": ("import loadstone.backend", "defines no subclass"),
    "abstract": (
        "from loadstone.backend import Backend\nclass A(Backend):\n    name = 'a'\n",
        "class A lacks lower, patterns",
    ),
    "nameless": (
        TEMPLATE.read_text(encoding="utf-8").replace('"my-npu"', '"my npu"'),
        "name 'my npu' is not letters",
    ),
    "reserved": (TEMPLATE.read_text(encoding="utf-8").replace('"my-npu"', '"host"'), "name 'host'"),
    "default": (
        TEMPLATE.read_text(encoding="utf-8").replace("range(1, 2**16)", "range(1, 9)"),
        "attribute max_channels=512 is not in [1, 8]",
    ),
    "again": (
        TEMPLATE.read_text(encoding="utf-8").replace("my-npu", "npu-b"),
        "npu-b is known already, from",
    ),
}


def test_a_broken_plugin_is_one_line_and_the_others_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a_second.py").write_text(
        TEMPLATE.read_text(encoding="utf-8").replace("my-npu", "npu-b"), encoding="utf-8"
    )
    for name, (text, _cause) in BROKEN.items():
        (folder / f"broken_{name}.py").write_text(text, encoding="utf-8")
    known = load_plugins([folder])
    assert list(known.backends) == ["npu-b", "npu-a"]
    assert len(known.problems) == len(BROKEN)
    for name, (_text, cause) in BROKEN.items():
        (line,) = [problem for problem in known.problems if f"broken_{name}.py" in problem]
        assert cause in line
        assert "\n" not in line
    capsys.readouterr()
    assert main(["target", "npu-a", "--uma-backends", str(folder)]) == 0
    out, err = capsys.readouterr()
    assert "-max_channels=512" in out
    assert err.count("\n") == len(BROKEN)


def test_a_folder_that_is_none_and_a_name_of_a_device_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "x.onnx", "-t", "npu-a", "--uma-backends", str(folder / "absent")]) == 2
    assert "absent is no folder and no *.py file" in capsys.readouterr().err
    (folder / "tiny.py").write_text(
        TEMPLATE.read_text(encoding="utf-8").replace("my-npu", "vtaq-tiny"), encoding="utf-8"
    )
    with pytest.raises(TargetError, match="calls itself vtaq-tiny, as a built-in device does"):
        resolve("vtaq-tiny", load_plugins([folder]))


def test_what_is_no_back_end_is_not_executed(folder: Path, tmp_path: Path) -> None:
    """A script beside a back end; a file that is named itself is imported whatever it holds."""
    ran = tmp_path / "ran"
    script = folder / "train.py"
    script.write_text(f"import loadstone\nopen({str(ran)!r}, 'w')\n", encoding="utf-8")
    known = load_plugins([folder])
    assert list(known.backends) == ["npu-a"]
    assert not known.problems
    assert not ran.exists()
    assert list(load_plugins([folder / "npu_a.py"]).backends) == ["npu-a"]
    (problem,) = load_plugins([script]).problems
    assert "train.py: it defines no subclass" in problem
    assert ran.exists()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text("1 / 0", encoding="utf-8")
    with pytest.raises(TargetError, match=r"no \*.py file in it imports loadstone.backend"):
        load_plugins([tmp_path / "scripts"])


def test_help_shows_the_attributes_of_plugins(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["compile", "--uma-backends", str(folder), "--help-targets"])
    out = capsys.readouterr().out
    assert "--target-npu-a-max_channels INT" in out
    assert "channels that its buffers hold, [1, 65535] (default: 512)" in " ".join(out.split())
    assert "--target-vtaq-1x16x16-bus_bits INT" in out


def test_from_the_command_line_to_numbers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, artifact = small_model(tmp_path / "small.onnx"), tmp_path / "small.lds"
    mine = ["--uma-backends", str(folder)]
    target = ["--target", "npu-a,vtaq-tiny"]
    assert (
        main(
            [
                "compile",
                str(model),
                *target,
                *mine,
                "-o",
                str(artifact),
                "--target-npu-a-max_channels",
                "4",
                "--explain",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "npu-a: more than 4 channels" in out
    assert "small.lds: small for vtaq-tiny" in out
    assert main(["compile", str(model), *target, *mine, "-o", str(artifact)]) == 0
    assert "operators      2 of 4 on npu-a; on the host: " in capsys.readouterr().out
    np.savez(tmp_path / "x.npz", in0=np.ones((1, 1, 3, 9, 9), np.int8))
    assert main(["run", str(artifact), "--inputs", str(tmp_path / "x.npz"), *mine]) == 0
    capsys.readouterr()
    for words, message in (
        (["--target", "vtaq-tiny", "--target-npu-a-max_channels", "4"], "has no accelerator npu-a"),
        (
            ["--target", "npu-a -max_channels=3", "--target-npu-a-max_channels", "4"],
            "says -max_channels already",
        ),
        (["--target", "npu-a", "--target-npu-a-max_channels", "four"], "is not an integer"),
        (
            ["--target", "npu-a", "--target-npu-a-max_channels", "0"],
            "npu-a -max_channels=0 is not in [1, 65535]",
        ),
        (
            ["--target", "vtaq-tiny", "--target-vtaq-tiny-bus_bits", "65"],
            "bus_bits=65 is not one of",
        ),
        (
            ["--target", "vtaq-tiny", "--target-vtaq-1x16x16-bus_bits", "64"],
            "has no accelerator vtaq-1x16x16",
        ),
    ):
        assert main(["compile", str(model), *mine, *words]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after", "command", "message"),
    [
        (
            "        limit = int(",
            "        limit = 1 // 0 * int(",
            "compile",
            "predicate of conv2d on 'y0': ZeroDivisionError: ",
        ),
        (
            "        attributes = json.dumps(",
            "        attributes = json.dump(",
            "compile",
            "lowering of y0, y/nhwc: TypeError: ",
        ),
        (
            "    said = json.loads(attributes)",
            "    said = json.loads(arrays)",
            "run",
            "npu-a.execute in ",
        ),
    ],
)
def test_a_mistake_in_a_plugin_is_one_line_of_the_command(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: str,
    after: str,
    command: str,
    message: str,
) -> None:
    text = (folder / "npu_a.py").read_text(encoding="utf-8")
    assert text.count(before) == 1
    (folder / "npu_a.py").write_text(text.replace(before, after), encoding="utf-8")
    model, artifact, mine = (
        small_model(tmp_path / "small.onnx"),
        str(tmp_path / "small.lds"),
        ["--uma-backends", str(folder)],
    )
    words = ["compile", str(model), "-t", "npu-a,vtaq-tiny", *mine, "-o", artifact]
    if command == "run":
        assert main(words) == 0
        np.savez(tmp_path / "x.npz", in0=np.ones((1, 1, 3, 9, 9), np.int8))
        words = ["run", artifact, "--inputs", str(tmp_path / "x.npz"), *mine]
    capsys.readouterr()
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert str(folder / "npu_a.py") in line
    assert "(npu_a.py:" in line


def test_installed_packages_are_found_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def point(name: str, value: str) -> importlib.metadata.EntryPoint:
        return importlib.metadata.EntryPoint(name, value, GROUP)

    points = [
        point("my-npu", "loadstone.backend.template.backend:MyNpu"),
        point("gone", "no_such_package:Npu"),
        point("odd", "json:dumps"),
    ]
    monkeypatch.setattr(
        plugins_module, "entry_points", lambda group: points if group == GROUP else []
    )
    known = load_plugins()
    assert list(known.backends) == ["my-npu"]
    assert "entry point gone = no_such_package:Npu: ModuleNotFoundError" in known.problems[0]
    assert "is no subclass" in known.problems[1]
    assert resolve("my-npu").backends[0].name == "my-npu"
