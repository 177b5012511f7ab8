# SPDX-License-Identifier: Apache-2.0
"""A mistake of the user, or a hostile file, is one line and exit status 2: never a traceback."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact
from loadstone.artifact.memory_plan import BufferView, DataType, MemoryRegion, RegionKind
from loadstone.cli import main
from loadstone.errors import LoadstoneError
from loadstone.runtime.externals import run_operator_step
from tests.sample_model import copy_model


def external_model(function: str, attributes: str) -> Artifact:
    """The copy model, and behind it a function of the host."""
    model = copy_model()
    return dataclasses.replace(
        model,
        regions=(*model.regions, MemoryRegion("host", RegionKind.HOST, 64, 4)),
        tensors=(*model.tensors, BufferView("sum", (1,), DataType.INT32, 3, 0)),
        outputs=(2,),
        steps=(*model.steps, host_step.external("total", (1,), (2,), function, attributes)),
    )


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that the command line says."""
    try:
        status = main(words)
    except SystemExit as stop:  # argparse
        status = int(stop.code or 0)
    said = capsys.readouterr()
    assert status == 2, (words, said)
    assert said.err.count("\n") == 1, said.err
    assert len(said.err) <= 480, "the program's name, and at most 400 characters"
    return said.err


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "copy.lds"
    copy_model().save(path)
    x = np.zeros((2, 1, 16), np.int8)
    np.savez(tmp_path / "x.npz", in0=x, out0=x)
    return str(path)


def huge_npy() -> bytes:
    """An array of 16 TB by its header, and no data."""
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 4), }"
    return b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117) + b"\n"


class TestArrays:
    def test_a_huge_declared_shape(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "huge.npy").write_bytes(huge_npy())
        words = ["quantize", "absent.onnx", "--data", str(tmp_path / "huge.npy")]
        line = refused([*words, "-o", str(tmp_path / "out.onnx")], capsys)
        assert "huge.npy: its arrays take 1.6e+13 bytes" in line
        with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
            archive.writestr("in0.npy", huge_npy())
        words = ["run", model, "--inputs", str(tmp_path / "huge.npz")]
        assert "more than 8 GiB" in refused(words, capsys)

    @pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY\x01\x00", b"x" * 1000])
    def test_no_archive(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
    ) -> None:
        (tmp_path / "bad.npz").write_bytes(content)
        bad = str(tmp_path / "bad.npz")
        assert "is no .npz file" in refused(["run", model, "--inputs", bad], capsys)
        assert "is no .npz file" in refused(["replay", bad], capsys)

    def test_pickled_objects_are_not_read(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        np.savez(tmp_path / "bad.npz", in0=np.array([print], object))
        words = ["run", model, "--inputs", str(tmp_path / "bad.npz")]
        assert "is no .npz file" in refused(words, capsys)

    def test_a_symbolic_link_to_itself(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        loop = tmp_path / "loop.npz"
        loop.symlink_to(loop)
        x = str(tmp_path / "x.npz")
        assert "loop.npz" in refused(["run", model, "--inputs", str(loop)], capsys)
        assert "loop.npz" in refused(["run", model, "--inputs", x, "-o", str(loop)], capsys)
        assert "loop" in refused(["run", str(loop), "--inputs", x], capsys)
        assert "loop" in refused(["devices", str(loop)], capsys)


class TestRun:
    def test_output_to_a_device_file(self, model: str, tmp_path: Path) -> None:
        assert main(["run", model, "--inputs", str(tmp_path / "x.npz"), "-o", "/dev/null"]) == 0

    def test_an_empty_name_compares_nothing_and_is_an_error(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        x = str(tmp_path / "x.npz")
        refused(["run", model, "--inputs", x, "--expect", ""], capsys)
        refused(["run", model, "--inputs", x, "-o", ""], capsys)

    def test_an_empty_name_is_not_the_current_folder(
        self,
        model: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        for words in (["export", model, "--board", "linux"], ["vectors", model]):
            for name in (["-o", ""], ["--output="], ["-o="]):
                assert "an empty word" in refused([*words, *name], capsys)
        assert os.listdir() == []

    def test_where_outputs_go_is_asked_before_the_run(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["run", model, "--inputs", str(tmp_path / "x.npz"), "--device", "sim:absent"]
        assert "it is a folder" in refused([*words, "-o", str(tmp_path)], capsys)

    def test_threads_within_reason(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = ["run", model, "--inputs", str(tmp_path / "x.npz"), "--threads"]
        assert "[1, 1024]" in refused([*words, "9" * 20], capsys)

    @pytest.mark.parametrize("name", ["sim:\udcff", "sim:a\0b", "simd:\udcff", "uio:\0"])
    def test_names_that_no_file_can_have(
        self, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        words = ["run", model, "--inputs", str(tmp_path / "x.npz"), "--device", name]
        assert "a name that no file can have" in refused(words, capsys)


class TestArtifacts:
    def words(self, artifact: Artifact, tmp_path: Path, *words: str) -> list[str]:
        artifact.save(tmp_path / "m.lds")
        (index,) = artifact.inputs
        np.savez(tmp_path / "x.npz", in0=np.zeros((1, *artifact.tensors[index].shape), np.int8))
        return ["run", str(tmp_path / "m.lds"), "--inputs", str(tmp_path / "x.npz"), *words]

    @pytest.mark.parametrize(
        "attributes",
        [
            "",
            "[" * 100_000,
            "{}",
            '{"kind": "Graph", "fields": {}, "tensors": [[], []], "arrays": []}',
            '{"kind": "__class__", "fields": {}, "tensors": [[], []], "arrays": []}',
            '{"kind": "Pad", "fields": {}, "tensors": [[], []], "arrays": []}',
            '{"kind": 5, "fields": 5, "tensors": 5}',
        ],
    )
    def test_malformed_attributes_of_an_external_step(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], attributes: str
    ) -> None:
        artifact = external_model("loadstone.operator", attributes)
        assert "loadstone.operator" in refused(self.words(artifact, tmp_path), capsys)

    def test_a_step_that_is_code_needs_trust(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        artifact = external_model("loadstone.relax", "{}")
        assert "--trust" in refused(self.words(artifact, tmp_path), capsys)


class TestPlugins:
    PLUGIN = """
from loadstone.backend import Attribute, Backend, offered
class Npu(Backend):
    name = "npu"
    {body}
    def patterns(self): return [offered("conv2d")]
    def lower(self, segment): raise SystemExit(3)
"""

    @pytest.mark.parametrize(
        ("body", "why"),
        [
            ('target_attributes = (Attribute("a", 1, ""), Attribute("a", 2, ""))', "stands twice"),
            ('target_attributes = (Attribute(5, 1, ""),)', "no Attribute with a name"),
            ('@classmethod\n    def externals(cls): return {"npu.run": None}', "is no function"),
            (
                '@classmethod\n    def externals(cls): return {"loadstone.relax": print}',
                "Loadstone's own",
            ),
            ("@classmethod\n    def externals(cls): raise SystemExit(3)", "SystemExit"),
        ],
    )
    def test_a_plug_in_that_is_wrong_is_left_out_with_a_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str, why: str
    ) -> None:
        (tmp_path / "npu.py").write_text(self.PLUGIN.format(body=body))
        words = ["target", "npu", "--uma-backends", str(tmp_path)]
        main(words)
        said = capsys.readouterr()
        assert why in said.err
        assert "Traceback" not in said.err


class TestJson:
    @pytest.mark.parametrize("text", ["[" * 100_000, "{", '{"a": NaN}', "1" + "0" * 400, "[]"])
    def test_json_that_cannot_be_used(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
    ) -> None:
        path = tmp_path / "device.json"
        path.write_text(text)
        assert "device.json" in refused(["devices", str(path)], capsys)

    def test_costs_beyond_all_numbers(
        self, tmp_path: Path, shared: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "costs.json"
        path.write_text(
            json.dumps({"format": 1, "host_ns": {}}).replace("{}", '{"a": 1' + "0" * 400 + "}")
        )
        model = shared / "models" / "mlpt_ad_int8.tflite"
        words = ["compile", str(model), "--target", "vtaq-tiny", "--partition", "cost"]
        assert "costs.json" in refused([*words, "--costs", str(path)], capsys)


def test_no_refusal_is_longer_than_four_hundred_characters() -> None:
    assert len(str(LoadstoneError("x" * 100_000))) == 400
    assert str(LoadstoneError("short")) == "short"


@pytest.mark.full
def test_ctrl_c_at_any_moment_ends_without_a_traceback() -> None:
    """From our first instruction on: what comes before is the interpreter's own start."""
    script = (
        "import sys, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import loadstone.__main__ as main\n"
        "begin = main._INTERRUPTS.begin\n"
        "def started():\n"
        "    begin()\n"
        "    print('started', flush=True)\n"
        "main._INTERRUPTS.begin = started\n"
        "main.start(['compile', '--help'])"
    )
    for delay_ms in range(0, 500, 50):
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay_ms / 1000)
            os.kill(process.pid, signal.SIGINT)
            _, said = process.communicate(timeout=60)
        # done, interrupted, or ended by the signal itself while the interpreter was leaving
        assert process.returncode in (0, 130, -signal.SIGINT), said
        assert b"Traceback" not in said, said


@pytest.mark.parametrize("hook_s", [0, 0.1])
def test_ctrl_c_where_python_ignores_errors_is_not_lost(hook_s: float) -> None:
    """In a callback of a weak reference, of which Python's own import system has one; and where the
    machine is so busy that the interrupt comes again before the hook has ended."""
    script = (
        "import os, signal, time, weakref\n"
        "import loadstone.cli\n"
        "from loadstone.__main__ import start\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Thing: pass\n"
        "def main(words, seen):\n"
        "    thing = Thing()\n"
        "    held = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))\n"
        "    del thing\n"
        "    time.sleep(20)\n"
        "def delayed(which, seconds, set=signal.setitimer):\n"
        "    signal.setitimer = set\n"
        "    set(which, seconds)\n"
        f"    time.sleep({hook_s})\n"
        "signal.setitimer = delayed\n"
        "loadstone.cli.main = main\n"
        "start([])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("command", ["inspect", "disasm", "compile"])
def test_a_zero_byte_in_a_word_is_one_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No shell passes one; a program that calls main() can."""
    assert "zero byte" in refused([command, "a\0b"], capsys)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Host"},
        {"before": [0, 0, 0, 1 << 34]},
        {"output": [1, 1, 1, 1 << 40]},
        {"input": [1, 1, 1, 4096]},
    ],
    ids=str,
)
def test_attributes_of_an_operator_cannot_ask_for_more_memory_than_its_tensors(
    change: dict[str, object],
) -> None:
    """Two hundred bytes of a file from elsewhere: refused before anything is computed."""
    said = {
        "kind": change.get("kind", "Pad"),
        "fields": {
            "name": "y",
            "before": change.get("before", [0, 0, 0, 4]),
            "after": [0, 0, 0, 0],
            "value": 3,
        },
        "arrays": [],
        "tensors": [
            [["x", change.get("input", [1, 1, 1, 4]), "int8", [1.0, 3]]],
            [["y", change.get("output", [1, 1, 1, 8]), "int8", [1.0, 3]]],
        ],
    }
    x = np.zeros((1, 1, 1, 4), np.int8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LoadstoneError, match="its attributes are no operator"):
        run_operator_step([x], json.dumps(said))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_seed_is_no_negative_number(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["vectors", model, "-o", str(tmp_path / "out"), "--seed", "-1"]
    assert "a seed is 0 or more" in refused(words, capsys)
