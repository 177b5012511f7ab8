# SPDX-License-Identifier: Apache-2.0
"""What compiling takes, and what starting a command takes: processor time, each in a process of its
own, beside what other tools take in the same run.

In:   the networks of ../shared/models (skipped without them), and chains of convolutions made here;
      Vela, where it is installed (`pip install 'loadstone[bench]'`).
Out:  for each network seconds beside Vela's and beside what LiteRT takes to be ready for it; for
      each command milliseconds beside those of `import numpy`; seconds by number of operators.
      `--plot FILE` writes the last as a picture (docs/images/compile-time.svg).
Next: a person reads the ratios.

Seconds are of the user's processor time of one thread, without imports (TVM; Vela's own): what else
the machine does changes them less than it changes the clock. Verifiers of passes, which tests
switch on, are off, as for users.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.large import resnet50
from tests.conftest import SHARED
from tests.onnx_builder import Graph

__all__ = ["chain", "compile_seconds", "other_seconds", "picture", "run"]

DEVICE = "vtaq-1x16x16"
#: Networks that are compiled.
NETWORKS = (
    "mlpt_resnet8_int8.tflite",
    "mlpt_vww_int8.tflite",
    "mlpt_kws_int8.tflite",
    "coral_tf2_mnv2_1.0_224_ptq.tflite",
)
#: ResNet-50: seconds and MiB.
LARGE_LIMITS = (6.0, 1024.0)
#: Commands that read ResNet8's artifact, and the targets of the issue in milliseconds.
COMMANDS = {"--help": 80, "disasm": 250, "inspect": 250, "run": 250}
#: What each other tool does, given a model's path; the first word of its output is its seconds.
OTHERS = {
    "Vela": """
from ethosu.vela import vela
import sys, tempfile, time
with tempfile.TemporaryDirectory() as folder:
    begin = time.process_time()
    vela.main([sys.argv[1], "--output-dir", folder, "--accelerator-config", "ethos-u55-256"])
""",
    "LiteRT": """
from ai_edge_litert.interpreter import Interpreter
import sys, time
begin = time.process_time()
Interpreter(sys.argv[1], num_threads=1).allocate_tensors()
""",
}
#: Operators of the chains.
COUNTS = (10, 30, 100, 300, 1000, 3000)
#: Of an operator in the longest chain: so many times what one takes in a chain of a hundred.
MOST_GROWTH = 1.5


def chain(count: int) -> bytes:
    """An int8 network of `count` convolutions by 1x1, one after the other: 16 channels, 8x8."""
    rng = np.random.default_rng(count)
    graph = Graph()
    value = graph.dequantize(graph.input((1, 16, 8, 8), np.int8), 0.05, 0)
    for _ in range(count):
        weights = graph.dequantize(
            graph.constant(rng.integers(-127, 128, (16, 16, 1, 1)), np.int8), 0.01, 0
        )
        quantized = graph.quantize(graph.node("Conv", value, weights), 0.05, 0)
        value = graph.dequantize(quantized, 0.05, 0)
    return graph.save([(quantized, np.int8)])


def compile_seconds(model: str | Path) -> dict[str, float]:
    """Seconds and MiB of one compilation in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.compiler", "--measure", str(model)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LOADSTONE_VERIFY": "0"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return dict(json.loads(done.stdout))


def _measured(model: str) -> dict[str, float]:
    """In this process. What is imported on the first compilation is not counted."""
    import loadstone.relax.compat  # noqa: F401
    from loadstone.compiler import compile as compile_model

    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder, "first.onnx")
        first.write_bytes(chain(1))
        compile_model(first, DEVICE)
    begin = time.process_time()
    compile_model(model, DEVICE)
    seconds = time.process_time() - begin
    return {
        "seconds": seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _processor_ms(words: list[str]) -> float:
    """The least of five: milliseconds of the user's processor time."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run(words, capture_output=True, check=True)
        found.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
    return 1000 * min(found)


def scaling(folder: Path, counts: tuple[int, ...] = COUNTS) -> list[tuple[int, float]]:
    """(operators, seconds) of each chain."""
    rows = []
    for count in counts:
        path = folder / f"chain_{count}.onnx"
        path.write_bytes(chain(count))
        rows.append((count, compile_seconds(path)["seconds"]))
        seconds = rows[-1][1]
        each = f"{1000 * seconds / count:.2f} ms each"
        print(f"{count:>6} operators {seconds:>8.2f} s, {each}", flush=True)
    return rows


def picture(rows: list[tuple[int, float]]) -> str:
    """Seconds by operators as SVG, both axes logarithmic: a line of slope 1 is linear."""
    x = [np.log10(count) for count, _ in rows]
    y = [np.log10(seconds) for _, seconds in rows]
    left, bottom, unit = np.floor(min(x)), np.floor(min(y)), 130.0
    width, height = (np.ceil(max(x)) - left) * unit, (np.ceil(max(y)) - bottom) * unit

    def at(horizontal: float, vertical: float) -> tuple[float, float]:
        return 60 + (horizontal - left) * unit, 20 + height - (vertical - bottom) * unit

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 90:.0f} {height + 70:.0f}" '
        'font-family="sans-serif" font-size="12">',
        "<title>Seconds of compilation by number of operators</title>",
        f'<rect x="60" y="20" width="{width:.0f}" height="{height:.0f}" fill="none" '
        'stroke="#888"/>',
    ]
    for exponent in range(int(left), int(left + width / unit) + 1):
        place, _ = at(exponent, 0)
        lines.append(
            f'<text x="{place:.0f}" y="{height + 38:.0f}" text-anchor="middle" fill="#666">'
            f"{10**exponent:,}</text>"
        )
    for exponent in range(int(bottom), int(bottom + height / unit) + 1):
        _, place = at(left, exponent)
        lines.append(
            f'<text x="54" y="{place + 4:.0f}" text-anchor="end" fill="#666">'
            f"{10.0**exponent:g} s</text>"
        )
    points = [at(*place) for place in zip(x, y, strict=True)]
    first, last = points[0], points[-1]
    lines += [
        f'<path d="M{last[0]:.1f},{last[1]:.1f} L{first[0]:.1f},'
        f'{last[1] + (last[0] - first[0]):.1f}" stroke="#bbb" stroke-dasharray="4" fill="none"/>',
        '<path d="M' + " L".join(f"{a:.1f},{b:.1f}" for a, b in points) + '" stroke="#27c" '
        'fill="none" stroke-width="2"/>',
        *(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="#27c"/>' for a, b in points),
        f'<text x="{60 + width / 2:.0f}" y="{height + 58:.0f}" text-anchor="middle" fill="#666">'
        "operators (dashed: linear)</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def run() -> bool:
    """Prints the tables; False where a longer network takes more for each operator."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if (SHARED / "models").is_dir():
            _networks()
            _commands(folder)
        held = _large(folder)
        return _is_linear(scaling(folder)) and held


def _large(folder: Path) -> bool:
    """ResNet-50 of random weights, built here."""
    path = folder / "resnet50.onnx"
    path.write_bytes(resnet50())
    row = compile_seconds(path)
    found, (seconds, mib) = (row["seconds"], row["peak_mib"]), LARGE_LIMITS
    print(
        f"ResNet-50, 25.5 M parameters: {found[0]:.2f} s (limit {seconds}), {found[1]:.0f} MiB "
        f"(limit {mib:.0f})",
        flush=True,
    )
    return found[0] <= seconds and found[1] <= mib


def _is_linear(rows: list[tuple[int, float]]) -> bool:
    each = {count: seconds / count for count, seconds in rows}
    growth = each[max(each)] / each[100]
    print(f"an operator of {max(each)} takes {growth:.2f} of one of 100 (limit {MOST_GROWTH})")
    return growth <= MOST_GROWTH


def other_seconds(tool: str, model: str | Path) -> float | None:
    """Of a tool of OTHERS, without its imports; None where it is not installed."""
    script = f"{OTHERS[tool]}\nprint('seconds', time.process_time() - begin)"
    words = [sys.executable, "-c", script, str(model)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        if "ModuleNotFoundError" in done.stderr:
            return None
        raise RuntimeError(f"{tool}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def _beside(seconds: float, tool: str, model: Path) -> str:
    other = other_seconds(tool, model)
    if other is None:
        return f"{tool} is not installed"
    return f"{tool} {other:.2f} s ({seconds / other:.1f} times)"


def _networks() -> None:
    for model in NETWORKS:
        path = SHARED / "models" / model
        row = compile_seconds(path)
        others = ", ".join(_beside(row["seconds"], tool, path) for tool in OTHERS)
        print(
            f"{model:<36} {row['seconds']:>6.2f} s, {row['peak_mib']:.0f} MiB; {others}",
            flush=True,
        )


def _commands(folder: Path) -> None:
    """Each with what it needs to do its work: `run` gets one sample."""
    artifact, sample = str(folder / "resnet8.lds"), str(folder / "in.npz")
    model = str(SHARED / "models" / NETWORKS[0])
    words = ["compile", model, "--target", DEVICE, "-o", artifact]
    subprocess.run([sys.executable, "-m", "loadstone", *words], capture_output=True, check=True)
    np.savez(sample, in0=np.zeros((1, 1, 32, 32, 3), np.int8))
    numpy = _processor_ms([sys.executable, "-c", "import numpy"])
    for command, target in COMMANDS.items():
        words = [command] if command.startswith("-") else [command, artifact]
        words += ["--inputs", sample] if command == "run" else []
        found = _processor_ms([sys.executable, "-m", "loadstone", *words])
        print(
            f"loadstone {command:<10} {found:>6.0f} ms (target {target}); `import numpy` takes "
            f"{numpy:.0f}"
        )


if __name__ == "__main__":
    if sys.argv[1] == "--measure":
        print(json.dumps(_measured(sys.argv[2])))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            Path(sys.argv[2]).write_text(picture(scaling(Path(temporary))))
