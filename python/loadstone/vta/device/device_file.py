# SPDX-License-Identifier: Apache-2.0
"""A device's file: its keys, and the defaults for those that VTA's own files lack.

In:   the JSON of vta_config.json, or of one of devices/*.json.
Out:  the same with keys checked and defaults filled in; readers of single keys.
Next: hw_config.py makes a HwConfig of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources

from loadstone.errors import ConfigError
from loadstone.files import JsonObject, JsonValue
from loadstone.vta.isa.spec import Capability

__all__ = [
    "ELEMENT_WIDTHS",
    "FLOAT_WIDTH",
    "LOG_SIZES",
    "LOG_WIDTHS",
    "capabilities",
    "complete",
    "device_names",
    "integer",
    "read_builtin",
]

#: Keys of VTA's vta_config.json that every device file must have, with VTA's own widths: int8,
#: int8, int32. Elements of 16 bits are bfloat16, and then accumulators are float32.
LOG_WIDTHS = {"LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5}
ELEMENT_WIDTHS = ("LOG_INP_WIDTH", "LOG_WGT_WIDTH")
FLOAT_WIDTH = 4
LOG_SIZES = (
    "LOG_BATCH",
    "LOG_BLOCK",
    "LOG_UOP_BUFF_SIZE",
    "LOG_INP_BUFF_SIZE",
    "LOG_WGT_BUFF_SIZE",
    "LOG_ACC_BUFF_SIZE",
)
#: VTA's TARGET names the board: what a bare vta_config.json leaves unsaid comes from our file for
#: it. For other targets (sim, fsim, forks' own) it comes from vta-pynq's, as in VTA itself.
_VTA_TARGETS = {
    "de10nano": "vta-de10nano",
    "tsim": "vta-de10nano",
    "ultra96": "vta-ultra96",
    "zcu104": "vta-zcu104",
}
#: The micro-op scratchpad of VTA's bitstreams, whatever LOG_UOP_BUFF_SIZE says: higher indices
#: wrap.
_VTA_UOP_DEPTH = 2048
#: Pages of registers of VTA's own bitstreams.
_VTA_PAGES = ("vta-chisel", "vta-hls")
_OURS = {
    "name",
    "description",
    "profile",
    "capabilities",
    "clock_mhz",
    "bus_bits",
    "uop_depth",
    "registers",
    "register_base",
    "bus_of",
    "bus_offset",
    "products_per_multiplier",
    "timing",
    "measured",
}


def device_names() -> list[str]:
    """Names of the built-in devices."""
    return sorted(
        p.name[:-5]
        for p in resources.files("loadstone.vta.devices").iterdir()
        if p.name.endswith(".json")
    )


def read_builtin(name: str) -> JsonObject:
    """The file of a built-in device."""
    data: JsonObject = json.loads(
        resources.files("loadstone.vta.devices")
        .joinpath(name + ".json")
        .read_text(encoding="utf-8")
    )
    return data


def complete(data: JsonObject, name: str) -> JsonObject:
    """The file's keys with what older files and VTA's own leave out. Raises ConfigError for a key
    that nobody knows, for widths that are not supported, and for regions without their page."""
    if "LOG_BLOCK_IN" in data:  # older files of VTA give two sides
        data = {"LOG_BLOCK": data["LOG_BLOCK_IN"], "LOG_BLOCK_OUT": data["LOG_BLOCK_IN"], **data}
        if not data["LOG_BLOCK"] == data["LOG_BLOCK_IN"] == data["LOG_BLOCK_OUT"]:
            raise ConfigError(
                f"device {name}: LOG_BLOCK, LOG_BLOCK_IN and LOG_BLOCK_OUT differ: only "
                "square weight tiles are supported"
            )
    if "TARGET" in data:
        data = _with_board_defaults(data, name)
    unknown = sorted(
        key for key in data if key not in _OURS and not key.isupper()
    )  # VTA's forks add capitals of their own
    if unknown:
        raise ConfigError(
            f"device {name}: unknown key {unknown[0]!r}; known are "
            f"{', '.join([*LOG_WIDTHS, *LOG_SIZES, *sorted(_OURS)])}"
        )
    is_float = data.get("profile") == "vtab"
    for key, vta in LOG_WIDTHS.items():
        supported = FLOAT_WIDTH if is_float and key in ELEMENT_WIDTHS else vta
        if integer(data, key, name) != supported:
            raise ConfigError(
                f"device {name}: {key}={data[key]} is not {supported}: only int8 inputs and "
                "weights with int32 accumulators are supported, and in profile vtab bfloat16 (4) "
                "with float32"
            )
    known = capabilities(data.get("capabilities", []), name)
    if Capability.REGIONS in known and data.get("registers") in _VTA_PAGES:
        raise ConfigError(
            f"device {name}: capability regions needs registers=native, not {data['registers']}, "
            "which has no place for their addresses: leave it out"
        )
    return data


def _with_board_defaults(data: JsonObject, name: str) -> JsonObject:
    """VTA's own vta_config.json: clock, bus, registers, timing come from our device file for its
    TARGET."""
    board = read_builtin(_VTA_TARGETS.get(str(data["TARGET"]), "vta-pynq"))
    defaults = {
        key: value
        for key, value in board.items()
        if key in _OURS and key not in ("name", "description", "measured")
    }
    encodable = 1 << max(0, min(integer(data, "LOG_UOP_BUFF_SIZE", name) - 2, 13))
    return {**defaults, "uop_depth": min(_VTA_UOP_DEPTH, encodable), **data}


def integer(data: Mapping[str, JsonValue], key: str, name: str, default: int | None = None) -> int:
    """The number of a key; text such as 0x10 is one, too. Raises ConfigError."""
    value = data.get(key, default)
    if value is None:
        raise ConfigError(f"device {name}: key {key} is missing")
    if isinstance(value, str):
        try:
            return int(value, 0)
        except ValueError:
            pass
    elif isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ConfigError(f"device {name}: {key}={value!r} is not an integer")


def capabilities(names: JsonValue, device: str) -> Capability:
    """The capabilities of these names. Raises ConfigError."""
    known = {c.name.lower(): c for c in Capability if c.name}
    result = Capability(0)
    for item in names if isinstance(names, list) else [names]:
        if not isinstance(item, str) or item not in known:
            raise ConfigError(
                f"device {device}: capability {item!r} is not one of {', '.join(known)}"
            )
        result |= known[item]
    return result
