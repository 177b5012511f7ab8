# SPDX-License-Identifier: Apache-2.0
"""MLPerf Tiny's networks on the examples' devices, as the table of
docs/bring-your-own-accelerator.md.

In:   the networks, with LiteRT's outputs; the examples' folders.
Out:  a row of Markdown for each network and example: operators on the device, instructions, cycles.
      A network whose outputs are not the framework's, or whose profile has other cycles, ends it.
Next: tests/docs/test_examples_table.py holds the page against it.

    python -m tests.examples_table            prints all rows: some five minutes
    python -m tests.examples_table gemmini    those of one example
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from loadstone.analysis.compiled import Compiled
from loadstone.backend.plugins import load_plugins
from loadstone.compiler import compile
from loadstone.graph import reference
from loadstone.runtime.accelerators import accelerators_of
from loadstone.simulator.table_profile import TableSimulator
from tests.conftest import ROOT, SHARED

__all__ = ["FLOATS", "HEAD", "TARGETS", "checked", "networks_of", "row"]

#: As integers with zero points and a scale for each channel; as floats, where DS-CNN is not among
#: MLPerf Tiny's files, and MLonMCU's network for the same task is.
INTEGERS = {
    "ResNet8": "mlpt_resnet8_int8.tflite",
    "DS-CNN": "mlpt_kws_int8.tflite",
    "MobileNetV1": "mlpt_vww_int8.tflite",
}
FLOATS = {
    "ResNet8": "mlpt_resnet8_f32.tflite",
    "Micro KWS": "mlonmcu_micro_kws_m_f32.onnx",
    "MobileNetV1": "mlpt_vww_f32.tflite",
}
#: Folder of an example -> its target; whether its networks are quantized from floats.
TARGETS = {
    "c_library": ("my-accel", False),
    "descriptors": ("layer-engine", False),
    "word_fifo": ("vector-engine -meaning=c", False),
    "systolic": ("systolic", False),
    "gemmini": ("gemmini", True),
}
HEAD = (
    "| network | example | operators on the device | instructions | cycles | on the host |\n"
    "| --- | --- | --- | --- | --- | --- |"
)


def networks_of(folder: str) -> dict[str, str]:
    """Names of networks for an example, and their files."""
    return FLOATS if TARGETS[folder][1] else INTEGERS


def checked(folder: str, network: str) -> Compiled:
    """A network for an example, whose outputs for one sample were found to be right: every integer
    is LiteRT's; of a network of floats, the definition's to 1e-6, since its softmax is computed in
    float32."""
    target, floats = TARGETS[folder]
    plugins = load_plugins([ROOT / "docs/examples" / folder], installed=False)
    file = networks_of(folder)[network]
    golden = np.load(SHARED / f"models/golden/{file}.npz")
    x = golden["in0"]
    if floats:
        made = compile(SHARED / "models" / file, target, plugins=plugins, samples=x)
        want = reference.run(made.partition.graph, [x[0]])[0]
        np.testing.assert_allclose(made.run(x[:1])[0][0], want, rtol=1e-6)
        return made
    made = compile(SHARED / "models" / file, target, plugins=plugins)
    np.testing.assert_array_equal(made.run(x[:1])[0], golden["out0"][:1])
    return made


def row(folder: str, network: str) -> str:
    """One line."""
    made, device = checked(folder, network), TARGETS[folder][0].split()[0]
    where = Counter(entry["where"] for entry in made.explain())
    known = accelerators_of(made.artifact)
    runs = list(TableSimulator(known).runs(made.artifact)) if known else []
    none = "calls of C" if folder == "c_library" else "-"
    count = f"{sum(len(run.program) for run in runs):,}" if runs else none
    total = sum(run.cycles for run in runs)
    assert made.profile().cycles == total, "what `loadstone profile` prints"
    cycles = f"{total:,}" if runs else "-"
    host = where["host"]
    return f"| {network} | {folder} | {where[device]} | {count} | {cycles} | {host} |"


def rows(folders: list[str]) -> Iterator[str]:
    """All lines of some examples."""
    for folder in folders:
        for network in networks_of(folder):
            yield row(folder, network)


if __name__ == "__main__":
    print(HEAD)
    for line in rows(sys.argv[1:] or list(TARGETS)):
        print(line, flush=True)
