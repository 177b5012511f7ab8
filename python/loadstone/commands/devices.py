# SPDX-License-Identifier: Apache-2.0
"""`loadstone devices [NAME] [--json]`: list or describe devices.

In:   a built-in name or a JSON file, or nothing for all built-in devices.
Out:  one line for each device, or everything about one; or JSON that load_config reads back.
Next: a person chooses; scripts read the JSON.
"""

from __future__ import annotations

import argparse

from loadstone.commands.answers import json_text
from loadstone.commands.terminal import print_table
from loadstone.vta.device.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.spec import Capability, Memory

__all__ = ["configure", "run"]

_EPILOG = """\
examples:
  loadstone devices                              one line for each built-in device
  loadstone devices vtaq-1x16x16                 everything about one
  loadstone devices path/to/vta_config.json      what Loadstone makes of a VTA bitstream's own file
  loadstone devices vta-pynq --json > mine.json  a file to change: `--device mine.json` takes it

GOPS counts a multiply-accumulate as two operations. Scratchpad depths are in tiles.
"""

_PADS = (Memory.UOP, Memory.INP, Memory.WGT, Memory.ACC)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds NAME and --json."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a device, or a JSON file such as VTA's vta_config.json",
    )
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace) -> None:
    """Prints one device or all."""
    if args.name:
        config = load_config(args.name)
        print(json_text(config.to_json()) if args.json else details(config))
        return
    configs = [load_config(name) for name in device_names()]
    if args.json:
        print(json_text([c.to_json() for c in configs]))
    else:
        print_table(_HEADS, map(_cells, configs), table(configs))


_HEADS = ("device", "tile", ">uop", ">inp", ">wgt", ">acc", ">MHz", ">bus", ">GOPS", "capabilities")


def _cells(c: HwConfig) -> tuple[str, ...]:
    return (
        c.name,
        f"{c.batch}x{c.block}x{c.block}",
        *(str(c.depth(m)) for m in _PADS),
        str(c.clock_mhz),
        str(c.bus_bits),
        f"{c.peak_gops:.1f}",
        _capabilities(c),
    )


def table(configs: list[HwConfig]) -> str:
    """One line for each device."""
    lines = [
        f"{'device':<14} {'tile':<8} {'uop':>5} {'inp':>5} {'wgt':>5} {'acc':>5} {'MHz':>5} "
        f"{'bus':>4} {'GOPS':>7}  capabilities"
    ]
    for c in configs:
        name, tile, *depths, mhz, bus, gops, can = _cells(c)
        pads = " ".join(f"{depth:>5}" for depth in depths)
        lines.append(f"{name:<14} {tile:<8} {pads} {mhz:>5} {bus:>4} {gops:>7}  {can}")
    return "\n".join(lines)


def details(c: HwConfig) -> str:
    """Everything about one device."""
    lines = [
        f"{c.name}: {c.description}" if c.description else c.name,
        f"  profile       {c.profile}",
        f"  GEMM          {c.batch}x{c.block} input by {c.block}x{c.block} weights: "
        f"{c.macs_per_cycle} multiply-accumulates a cycle",
        f"  clock         {c.clock_mhz} MHz: {c.peak_gops:.1f} GOPS at peak",
        f"  bus           {c.bus_bits} bits: {c.bus_bits // 8 * c.clock_mhz / 1000:.1f} GB/s "
        "at peak",
        f"  registers     {c.registers} at 0x{c.register_base:X}",
        f"  capabilities  {_capabilities(c)}",
        f"  config hash   0x{c.config_hash:08X}",
        "  scratchpad  tiles  bytes/tile     bytes",
    ]
    for memory in _PADS:
        depth, size = c.depth(memory), c.tile_bytes(memory)
        lines.append(f"    {memory.name.lower():<9} {depth:>5}  {size:>10}  {depth * size:>8}")
    on = f"measured on {c.measured}" if c.measured else "not measured on this design"
    lines.append(f"  timing constants: {on}")
    width = max(map(len, c.timing), default=0)
    lines += [
        f"    {name:<{width}}  {entry.value:>5}  {entry.source}" for name, entry in c.timing.items()
    ]
    return "\n".join(lines)


def _capabilities(c: HwConfig) -> str:
    return " ".join(str(k.name).lower() for k in Capability if c.has(k)) or "-"
