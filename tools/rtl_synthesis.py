# SPDX-License-Identifier: Apache-2.0
"""A script for yosys: hw_sim/rtl for one device as a circuit of an ECP5, or of Xilinx's series 7.

In:   a HwConfig; the sources of loadstone.vta.simulator.rtl_build.
Out:  `script`, with paths from the repository's root; its netlist is build/rtl/NAME/TOP.json.
Next: `make synth` and `make route`, `make bitstream`.

yosys reads SystemVerilog with its slang front end, which makes a module of every instance. A lane
is mapped once for all lanes, and logic by `abc`: `abc9` takes many times as long. Tables of four
inputs alone are a quarter fewer than with those that the ECP5 makes of two, four or eight of
them, which must stand side by side; with structural choices (`dch`) they are 3 % more, in fewer
levels behind each other. No module relies on what a memory gives for a word that is
written in the same cycle (lds_ram.sv), so that no logic is added for it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from loadstone.errors import LoadstoneError
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.device.rtl_package import config_package
from loadstone.vta.simulator.rtl_build import RTL, sources

__all__ = ["FAMILIES", "TOPS", "main", "script"]

_ROOT = RTL.parents[1]
#: Modules of which a device has many, all the same -> where the first of them stands.
_LANES = {
    "lds_rq_lane": "compute.execute.g_lane[0].g_slow.rq_lane",
    "lds_alu_lane": "compute.execute.g_lane[0].alu_lane",
}
#: Top -> where the device stands in it, and the folder of the board's own sources.
TOPS = {
    "lds_device": ("lds_device", None),
    "lds_ulx3s": ("lds_ulx3s.device", RTL / "boards"),
}
#: Family -> the passes before logic is mapped, how it is mapped, the passes behind.
FAMILIES = {
    "ecp5": (
        "synth_lattice -family ecp5 -nowidelut -no-rw-check -top {top}",
        "abc -lut 4 -script +strash;ifraig;scorr;dc2;strash;dch,-f;if;mfs2",
        "map_cells",
    ),
    "xc7": ("synth_xilinx -family xc7 -flatten -noiopad -top {top}", "abc -lut 6", "finalize"),
}


def script(config: HwConfig, family: str = "ecp5", top: str = "lds_device") -> str:
    """The script for a device; writes the device's parameters beside the netlist. Raises
    LoadstoneError for a device that hw_sim/rtl cannot be."""
    folder = _ROOT / "build" / "rtl" / config.name
    folder.mkdir(parents=True, exist_ok=True)
    parameters = folder / "lds_config_pkg.sv"
    parameters.write_text(config_package(config), encoding="utf-8")
    device, board = TOPS[top]
    own = sorted(board.glob("*.sv")) if board else []
    files = " ".join(str(path.relative_to(_ROOT)) for path in [parameters, *sources(), *own])
    netlist = (folder / f"{top}.json").relative_to(_ROOT)
    passes, map_logic, behind = FAMILIES[family]
    synthesize = passes.format(top=top)
    return "\n".join(
        [
            f"read_slang -j 1 --keep-hierarchy --top {top} {files}",
            *(f"chtype -set {lane}${device}.{first} t:{lane}*" for lane, first in _LANES.items()),
            *(f"setattr -mod -set keep_hierarchy 1 {lane}*" for lane in _LANES),
            f"{synthesize} -run begin:map_luts",
            map_logic,
            "clean",
            "setattr -mod -unset keep_hierarchy *",
            "flatten",
            "clean",
            f"{synthesize} -run {behind}:json",
            "stat",
            f"write_json {netlist}",
            "",
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """`make synth`: prints the script of a device."""
    parser = argparse.ArgumentParser(prog="rtl_synthesis")
    parser.add_argument("device")
    parser.add_argument("--family", choices=FAMILIES, default="ecp5")
    parser.add_argument("--top", choices=TOPS, default="lds_device")
    options = parser.parse_args(arguments)
    try:
        print(script(load_config(options.device), options.family, options.top), end="")
    except LoadstoneError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
