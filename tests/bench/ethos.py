# SPDX-License-Identifier: Apache-2.0
"""VTA-Q of both generations beside Vela's estimate for Ethos-U55-256, on equal buses.

In:   networks of ../shared/models; Vela, where it is installed (`pip install 'loadstone[bench]'`).
Out:  cycles of one run of each; False where the second generation misses an aim that it has met.
Next: docs/hardware.md says how fair the comparison is.

Vela has two ports: activations in SRAM, weights in flash, each of 8 bytes in a cycle where its
clock is the core's. `8 + 8` is that, as VTA-Q reads 8 bytes and writes 8 in a cycle; `4 + 4` runs
both at half the clock, 8 bytes in all. The name of the system begins with Ethos_U55: Vela 5.2 takes
the ports of any other for 16 bytes wide, and its estimates would be those of twice the bus, while
its summary states the bandwidth of half of it. Vela's own default has a flash of one byte a cycle,
with which networks that wait for weights would look slow. Its figure is its estimate; ours are
cycles of the simulator, which are those of the RTL. Clocks and areas are not compared.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

_DEVICES = ("vtaq-1x16x16", "vtaq2-1x16x16")
#: Most cycles of the second generation: what has been reached and must stay.
NETWORKS = {
    "mlpt_resnet8_int8.tflite": 60_000,
    "mlpt_vww_int8.tflite": 64_500,
    "mlpt_kws_int8.tflite": 16_200,
    "mlpt_ad_int8.tflite": 29_200,
    "tflm_person_detect.tflite": 66_600,
    "coral_tf2_mnv2_1.0_224_ptq.tflite": 1_866_000,
}
_VELA = "import sys; from ethosu.vela import vela; sys.exit(vela.main(sys.argv[1:]))"
_PORTS = {"8 + 8": 1.0, "4 + 4": 0.5}
_SYSTEM = """
[System_Config.Ethos_U55_Equal_Bus]
core_clock=500e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale={scale}
Sram_burst_length=32
Sram_read_latency=32
Sram_write_latency=32
Sram_max_reads=4
Sram_max_writes=4
OffChipFlash_clock_scale={scale}
OffChipFlash_burst_length=128
OffChipFlash_read_latency=64
OffChipFlash_write_latency=0
OffChipFlash_max_reads=2
OffChipFlash_max_writes=0

[Memory_Mode.Two_Ports]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


def run() -> bool:
    """Prints the table."""
    shared = Path(
        os.environ.get("LOADSTONE_SHARED", Path(__file__).resolve().parents[3] / "shared")
    )
    if not (shared / "models").is_dir():
        print(f"skipped: {shared / 'models'} is absent")
        return True
    names = (*(f"Vela {port}" for port in _PORTS), *_DEVICES, "times")
    print(f"{'network':<34}" + "".join(f"{name:>15}" for name in names))
    held = True
    for name, most in NETWORKS.items():
        model = shared / "models" / name
        vela = [vela_cycles(model, scale) for scale in _PORTS.values()]
        ours = [cycles(model, device) for device in _DEVICES]
        times = f"{vela[0] / ours[1]:.2f}" if vela[0] else ""
        figures = [f"{count:,}" if count else "absent" for count in (*vela, *ours)]
        missed = ours[1] > most
        line = f"{name:<34}" + "".join(f"{figure:>15}" for figure in (*figures, times))
        print(line + (f"  above {most:,}" if missed else ""), flush=True)
        held &= not missed
    return held


def cycles(model: Path, device: str) -> int:
    """Of all programs of a network, with nothing before the first."""
    from loadstone.compiler import compile as compile_model
    from loadstone.simulator.programs import program_cycles
    from loadstone.vta.device.hw_config import load_config

    config = load_config(device)
    return sum(program_cycles(compile_model(model, config).artifact, config))


def vela_cycles(model: Path, scale: float) -> int:
    """Vela's estimate; 0 where it is not installed. scale: of the ports' clock."""
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder) / "system.ini"
        system.write_text(_SYSTEM.format(scale=scale))
        done = subprocess.run(
            [
                *(sys.executable, "-c", _VELA, str(model), "--output-dir", folder),
                *("--accelerator-config", "ethos-u55-256", "--config", str(system)),
                *("--system-config", "Ethos_U55_Equal_Bus", "--memory-mode", "Two_Ports"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if "No module named 'ethosu'" in done.stderr:
            return 0
        assert done.returncode == 0, done.stderr[-500:]
        (summary,) = Path(folder).glob("*_summary_*.csv")
        with summary.open() as file:
            (row,) = csv.DictReader(file)
        return round(float(row["cycles_total"]))
