# SPDX-License-Identifier: Apache-2.0
"""Mutilated model files: a clear error or a right result, no traceback, no signal, no hang.

200 files per format: half cut short, half with 1 to 16 bits flipped. A process of its own compiles
them one after the other and says before each what comes, so that a crash or a hang has a number;
another file of that number is the same. What compiles is run, and compared with what the framework
makes of the same file, where the framework takes it: in another process, as frameworks may die of
such files.
"""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed")
pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")

from loadstone.compiler import compile
from loadstone.errors import LoadstoneError
from tests import onnx_builder, random_onnx, random_tflite, tflite_builder
from tests.forked import tools
from tests.repeat import times

FILES = times(60, 200)
SECONDS = 60
DEVICE = "vtaq-1x16x16"


def original(kind: str, number: int) -> random_tflite.Network | random_onnx.Network:
    """Twenty networks take turns; single operators and graphs."""
    return (
        random_tflite.network(number % 20) if kind == "tflite" else random_onnx.network(number % 20)
    )


def mutilated(kind: str, number: int) -> bytes:
    """File `number`: even ones are cut, odd ones have flipped bits, every fourth of them near the
    start or the end."""
    rng = np.random.default_rng(number)
    data = np.frombuffer(original(kind, number).model, np.uint8).copy()
    if number % 2 == 0:
        return data[: rng.integers(0, len(data))].tobytes()
    low, high = (
        (0, len(data))
        if number % 4 == 1
        else (
            (0, min(256, len(data))) if rng.integers(2) else (max(0, len(data) - 2048), len(data))
        )
    )
    for place in rng.integers(low, high, rng.integers(1, 17)):
        data[place] ^= np.uint8(1 << rng.integers(8))
    return data.tobytes()


def compile_one(kind: str, number: int, folder: Path) -> str:
    """ "error: ..." or "compiled"; what was computed goes to a file. Anything but a LoadstoneError
    escapes."""
    path = folder / f"{number}.{kind}"
    path.write_bytes(mutilated(kind, number))
    try:
        compiled = compile(path, DEVICE)
        rng = np.random.default_rng(0)
        inputs = [rng.integers(0, 100, t.shape).astype(t.dtype) for t in compiled.graph.inputs]
        outputs = compiled.run(*(x[None] for x in inputs))
    except LoadstoneError as error:
        text = str(error)
        assert text, "an empty message"
        assert "\n" not in text, "a message of several lines"
        assert path.name in text, f"a message that does not name the file: {text}"
        return f"error: {text}"
    np.savez(folder / f"{number}.npz", *inputs, *(y[0] for y in outputs))
    return "compiled"


def framework(kind: str, number: int, folder: Path) -> str:
    """How the framework's outputs for the same file and inputs compare."""
    arrays = list(np.load(folder / f"{number}.npz").values())
    model = (folder / f"{number}.{kind}").read_bytes()
    count = len(original(kind, number).inputs)
    inputs, outputs = arrays[:count], arrays[count:]
    try:
        wanted = (
            tflite_builder.run(model, inputs)
            if kind == "tflite"
            else onnx_builder.run(model, inputs)
        )
    except Exception as error:
        return f"refused by the framework: {str(error).splitlines()[0][:80]}"
    same = all(
        np.array_equal(got.reshape(want.shape), want)
        for got, want in zip(outputs, wanted, strict=True)
    )
    return "equal" if same else "different"


def worker(task: str, kind: str, numbers: list[int], folder: Path) -> None:
    """Prints a line before and a line behind each file."""
    faulthandler.enable()
    for number in numbers:
        print(json.dumps({"begin": number}), flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            said = {"compile": compile_one, "framework": framework}[task](kind, number, folder)
        except BaseException as error:
            said = f"escaped: {type(error).__name__}: {error}"
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"end": number, "said": said}), flush=True)


def run_all(task: str, kind: str, numbers: list[int], folder: Path) -> dict[int, str]:
    """What every file gave; a process that dies is replaced, and the file that it died of is
    noted."""
    said: dict[int, str] = {}
    while left := [number for number in numbers if number not in said]:
        command = [
            tools(folder / "tools") / "python",
            "-m",
            "tests.frontend.test_mutilated",
            task,
            kind,
            str(folder),
            *map(str, left),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS * 10, check=False
        )
        current = left[0]
        for line in done.stdout.splitlines():
            entry = json.loads(line) if line.startswith("{") else {}
            current = entry.get("begin", current)
            if "end" in entry:
                said[entry["end"]] = entry["said"]
        if done.returncode:
            said[current] = (
                f"escaped: the process ended with {done.returncode}: {done.stderr[-300:]}"
            )
    return said


@pytest.mark.full
@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_a_clear_error_or_a_right_result(
    kind: str, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    said = run_all("compile", kind, list(range(FILES)), tmp_path)
    escaped = {number: text for number, text in said.items() if text.startswith("escaped")}
    compiled = [number for number, text in said.items() if text == "compiled"]
    checked = run_all("framework", kind, compiled, tmp_path)
    verdicts = Counter(text.split(":")[0] for text in checked.values())
    figure(
        f"{kind}: {len(said)} files, {len(said) - len(compiled) - len(escaped)} clear "
        f"errors, {len(compiled)} compiled: {dict(verdicts)}"
    )
    assert not escaped, "\n".join(f"{kind} {number}: {text}" for number, text in escaped.items())
    assert not [number for number, text in checked.items() if text == "different"]
    assert len(said) == FILES


if __name__ == "__main__":
    worker(sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[4:]], Path(sys.argv[3]))
