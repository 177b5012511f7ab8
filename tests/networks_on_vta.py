# SPDX-License-Identifier: Apache-2.0
"""Int8 networks as their frameworks made them, on VTA as it is: what each must reach.

In:   a file of ../shared/models.
Out:  `NETWORKS`, `measure`: where multiply-accumulates run, what stays on the host, cycles,
      elements that differ from the golden; `line` of a table.
Next: tests/test_networks_on_vta.py (`make test`, `make test-all`) and `python -m tests.bench vta`.

Every program runs in the simulator's strict mode, which stops where VTA's hardware would do
otherwise, and is searched for races and for reads of what nobody wrote.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadstone.commands.vectors import of_artifact
from loadstone.compiler import compile
from loadstone.simulator.programs import program_cycles
from loadstone.vta.device.hw_config import load_config
from tests.compiled import golden

__all__ = ["DEVICE", "HEAD", "LEAST_MACS_PERCENT", "NETWORKS", "Known", "Row", "line", "measure"]

DEVICE = "vta-pynq"
#: Of the multiply-accumulates of each network, on the device.
LEAST_MACS_PERCENT = 98.0
#: What every ONNX network, whose inputs and outputs are float32, leaves to the host.
EDGES = "dequantize quantize reshape softmax transpose"


@dataclass(frozen=True)
class Known:
    """host: kinds of operators that may stay on the host. cycles: at most; None: no limit is known.
    quick: whether `make test` compiles it. different: elements that may differ from the golden."""

    host: str = "softmax"
    cycles: int | None = None
    quick: bool = False
    different: int = 0


NETWORKS = {
    "mlpt_resnet8_int8.tflite": Known(cycles=245_000, quick=True),
    "mlpt_vww_int8.tflite": Known(cycles=430_000),
    "mlpt_kws_int8.tflite": Known(cycles=135_000),
    "mlpt_ad_int8.tflite": Known("", 46_000, quick=True),
    "mlpt_strww_int8.tflite": Known(),
    "tflm_person_detect.tflite": Known(),
    "tflm_micro_speech.tflite": Known("reshape softmax"),
    "mlonmcu_micro_kws_m_int8.tflite": Known("reshape softmax"),
    # ONNX Runtime adds float32 products: five averages of four that end in a half (35.5, 102.5 ...)
    # and a sum of 46.499999 fall to the other side there, and one output element with them.
    "mlonmcu_micro_kws_m_qdq.onnx": Known(EDGES, different=1),
    "mlonmcu_micro_kws_m_qoperator.onnx": Known(EDGES),
    "coral_mnv1_0.25_128_u8.tflite": Known("requantize softmax"),
    "coral_tf2_mnv2_1.0_224_ptq.tflite": Known("requantize softmax", 12_000_000),
    # 16 of 10,357,408 sums of convolutions lie so near a tie (at most 0.00002 of a step away) that
    # ONNX Runtime's float32 falls to the other side: the first one in conv1 of the first sample,
    # where 14.5000008 steps become 14. The elements that differ follow from these.
    "squeezenet_qdq_int8.onnx": Known(EDGES, different=18),
}


@dataclass(frozen=True)
class Row:
    """host: (kind, operator, why) of each that stays there. different, outputs: elements of the
    golden's first samples. unsafe: what strict mode, races or uninitialised reads say."""

    file: str
    macs: int
    macs_on_device: int
    host: tuple[tuple[str, str, str], ...]
    cycles: int
    different: int
    outputs: int
    unsafe: tuple[str, ...]

    @property
    def macs_percent(self) -> float:
        """Of the multiply-accumulates, on the device."""
        return 100 * self.macs_on_device / self.macs

    def misses(self) -> list[str]:
        """What the network does not reach."""
        known = NETWORKS[self.file]
        heavy = [name for kind, name, _ in self.host if kind not in known.host.split()]
        found = [*self.unsafe]
        if heavy:
            found.append(f"on the host: {', '.join(heavy)}")
        if self.macs_percent < LEAST_MACS_PERCENT:
            found.append(f"less than {LEAST_MACS_PERCENT} % on the device")
        if self.different > known.different:
            found.append(f"{self.different} elements differ")
        if known.cycles is not None and self.cycles > known.cycles:
            found.append(f"more than {known.cycles} cycles")
        return found


def measure(shared: Path, file: str, samples: int = 4) -> Row:
    """Compiles a network, runs the first samples of its golden, checks every program."""
    config = load_config(DEVICE)
    compiled = compile(shared / "models" / file, DEVICE)
    rows = compiled.explain()
    inputs, wanted = golden(shared, file, samples)
    different = sum(
        int(np.count_nonzero(got.reshape(want.shape) != want))
        for got, want in zip(compiled.run(*inputs), wanted, strict=True)
    )
    unsafe = []
    for program in of_artifact(compiled.artifact, config):
        simulator = program.simulator(
            program.dram_in.copy(), strict=True, races=True, uninitialised=True, timing=False
        )
        result = simulator.run(program.insns)
        unsafe += [] if result.status == "NONE" else [str(result.message)]
        unsafe += [finding.text for finding in simulator.findings()]
    return Row(
        file,
        sum(row["macs"] for row in rows),
        sum(row["macs"] for row in rows if row["where"] != "host"),
        tuple(
            (row["kind"], row["operator"], row["why"] or "")
            for row in rows
            if row["where"] == "host"
        ),
        sum(program_cycles(compiled.artifact, config)),
        different,
        sum(want.size for want in wanted),
        tuple(unsafe),
    )


HEAD = f"{'network on ' + DEVICE:<36} {'MACs %':>7} {'cycles':>9} {'differ':>12}  on the host"


def line(row: Row) -> str:
    """One row of the table; a layer with multiply-accumulates on the host is named with its
    reason."""
    kinds = Counter(kind for kind, _, _ in row.host)
    host = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "nothing"
    text = (
        f"{row.file:<36} {row.macs_percent:>7.2f} {row.cycles:>9} "
        f"{row.different:>4} of {row.outputs:>4}  {host}"
    )
    left = [
        f"    {name}: {why}"
        for kind, name, why in row.host
        if kind not in NETWORKS[row.file].host.split()
    ]
    return "\n".join([text, *left])
