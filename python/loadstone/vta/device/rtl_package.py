# SPDX-License-Identifier: Apache-2.0
"""The parameters of one device for its hardware: the SystemVerilog package lds_config_pkg.

In:   a HwConfig: sizes, capabilities, and the timing constants that are choices of the hardware.
Out:  `config_package`, the package's text. UnsupportedError for a device that hw_sim/rtl does not
      support.
Next: hw_sim/rtl; vta/simulator/rtl_build.py compiles both with Verilator, `make synth` with yosys.
"""

from __future__ import annotations

from loadstone.errors import ConfigError
from loadstone.vta.device.hw_config import HwConfig, builtin_timing
from loadstone.vta.isa.spec import Memory

__all__ = ["config_package"]

#: Parameter -> the timing constant that is the same choice.
_CHOICES = {
    "ALU_TENSOR_STEP_CYCLES": "alu_tensor_step_cycles",
    "STORE_TILE_CYCLES": "store_tile_cycles",
    "FETCH_BATCH": "fetch_batch_instructions",
    "QUEUE_ENTRIES": "stage_queue_entries",
    "READS_IN_FLIGHT": "read_requests_in_flight",
    "LOADS_IN_FLIGHT": "loads_in_flight",
    "LOAD_AHEAD_BEATS": "load_ahead_beats",
    "BURST_MAX_BEATS": "burst_max_beats",
    "BURST_BOUNDARY_BYTES": "burst_boundary_bytes",
}

#: Parameters that are no sizes of memories.
_ANY = ("STORE_TILE_CYCLES", "ALU_TENSOR_STEP_CYCLES", "LOAD_AHEAD_BEATS")


def config_package(config: HwConfig) -> str:
    """The text of lds_config_pkg.sv. Raises ConfigError for what hw_sim/rtl cannot be."""
    _check(config)
    widths = config.widths
    values = {
        "LU": widths["lu"],
        "LI": widths["li"],
        "LW": widths["lw"],
        "LA": widths["la"],
        "LOG_BATCH": config.log_batch,
        "LOG_BLOCK": config.log_block,
        "BUS_BITS": config.bus_bits,
        "UOP_DEPTH": config.depth(Memory.UOP),
        "PRODUCTS_PER_MULTIPLIER": config.products_per_multiplier,
        "CAPABILITIES": int(config.capabilities),
        **{name: _choice(config, constant) for name, constant in _CHOICES.items()},
    }
    return "\n".join(
        [
            f"// GENERATED from the device {config.name}: do not edit.",
            "package lds_config_pkg;",
            *(f"  localparam int {name} = {value};" for name, value in values.items()),
            f"  localparam logic [31:0] CONFIG_HASH = 32'h{config.config_hash:08X};",
            "endpackage",
            "",
        ]
    )


def _choice(config: HwConfig, constant: str) -> int:
    """A constant that a device's own table leaves out is the measured VTA's."""
    return (config.timing.get(constant) or builtin_timing("vta-rtl")[constant]).value


def _check(config: HwConfig) -> None:
    tile_bits = 8 * config.batch * config.block
    if config.bus_bits > tile_bits:
        raise ConfigError(
            f"device {config.name}: a bus of {config.bus_bits} bits is wider than an INP tile of "
            f"{tile_bits}, which the RTL cannot take apart: give bus_bits={tile_bits} or less"
        )
    for name, constant in _CHOICES.items():
        value = _choice(config, constant)
        if name not in _ANY and value & (value - 1):
            raise ConfigError(
                f"device {config.name}: timing.{constant}={value} must be a power of two for the "
                "RTL"
            )
    if config.timing["alu_tensor_step_cycles"].value not in (1, 2):
        raise ConfigError(
            f"device {config.name}: timing.alu_tensor_step_cycles must be 1 (two read ports of "
            "ACC) or 2 (one) for the RTL"
        )
