# SPDX-License-Identifier: Apache-2.0
"""What proofs take: each int8 and uint8 file on devices with and without a multiplier behind the
accumulators.

Columns: the verdict of `loadstone prove`; processor seconds and peak memory of its process, which
reads the model and the artifact, too. What is unsupported has its reason.

The networks are those of ../shared/models; without that folder there is nothing to measure. Only
`python -m tests.bench proofs` runs it: compiling and proving all takes most of an hour. Words of
LOADSTONE_PROOFS choose files and devices: "kws vta-pynq" is what holds both.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

DEVICES = ("vtaq-1x16x16", "vtaq-1x32x32", "vta-pynq")
FILES = (
    *("mlpt_kws_int8.tflite", "mlpt_resnet8_int8.tflite", "mlpt_vww_int8.tflite"),
    *("mlpt_ad_int8.tflite", "mlpt_strww_int8.tflite", "tflm_micro_speech.tflite"),
    *("tflm_person_detect.tflite", "mlonmcu_micro_kws_m_int8.tflite"),
    *("mlonmcu_micro_kws_m_qdq.onnx", "mlonmcu_micro_kws_m_qoperator.onnx"),
    *("coral_mnv1_0.25_128_u8.tflite", "tinyengine_mcunet_det_int8.tflite"),
    *("squeezenet_qdq_int8.onnx", "ulfg_slim_320_qdq_int8.onnx"),
    *("coral_tf2_mnv2_1.0_224_ptq.tflite", "coral_deeplab_mnv2_dm05.tflite"),
)
#: Processor seconds that a proof may take on one core, where a limit is stated.
MOST_SECONDS = {
    ("mlpt_kws_int8.tflite", "vtaq-1x16x16"): 3.0,
    ("mlpt_resnet8_int8.tflite", "vtaq-1x16x16"): 6.0,
    ("mlpt_vww_int8.tflite", "vtaq-1x16x16"): 6.0,
    ("mlpt_kws_int8.tflite", "vta-pynq"): 15.0,
    ("mlpt_resnet8_int8.tflite", "vta-pynq"): 15.0,
    ("mlpt_vww_int8.tflite", "vta-pynq"): 15.0,
    ("coral_tf2_mnv2_1.0_224_ptq.tflite", "vtaq-1x16x16"): 600.0,
    ("squeezenet_qdq_int8.onnx", "vtaq-1x16x16"): 600.0,
}
MOST_MEMORY_MIB = 4096


class Measured(NamedTuple):
    """A child's exit status and last line, its processor seconds and peak memory."""

    status: int
    said: str
    seconds: float
    peak_mib: float


def run() -> bool:
    """Prints the table; False when a proof fails, or misses what it must reach."""
    shared = Path(
        os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    )
    if not (shared / "models").is_dir():
        print(f"skipped: {shared / 'models'} is absent")
        return True
    words = os.environ.get("LOADSTONE_PROOFS", "").split()
    print(f"{'network':<36} {'device':<13} {'verdict':<11} {'user s':>7} {'peak MiB':>8}")
    held = True
    for file in FILES:
        for device in DEVICES:
            if all(word in f"{file} {device}" for word in words):
                held &= _row(shared / "models" / file, device)
    return held


def _row(model: Path, device: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder) / "net.lds"
        compiled = _measured("compile", str(model), "--target", device, "-o", str(artifact))
        if compiled.status:
            print(f"{model.name:<36} {device:<13} not compiled: {compiled.said}", flush=True)
            return True
        made = _measured("prove", str(artifact), str(model), "--json")
    verdict = json.loads(made.said) if made.said.startswith("{") else {}
    misses = [str(verdict.get("reason", made.said))] if made.status else []
    if made.seconds > MOST_SECONDS.get((model.name, device), float("inf")):
        misses.append(f"above {MOST_SECONDS[model.name, device]} s")
    if made.peak_mib > MOST_MEMORY_MIB:
        misses.append(f"memory above {MOST_MEMORY_MIB} MiB")
    line = (
        f"{model.name:<36} {device:<13} {verdict.get('status', '?'):<11} {made.seconds:>7.1f} "
        f"{made.peak_mib:>8.0f}  {'; '.join(misses)}"
    )
    print(line.rstrip(), flush=True)
    return not misses or made.status == 3


def _measured(*words: str) -> Measured:
    """A command of loadstone, in a process of its own with one thread."""
    code = "import sys; from loadstone.cli import main; sys.exit(main(sys.argv[1:]))"
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            stdout=said,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    return Measured(child.returncode, text, usage.ru_utime, _mib(usage))


def _mib(usage: resource.struct_rusage) -> float:
    return usage.ru_maxrss / 1024
