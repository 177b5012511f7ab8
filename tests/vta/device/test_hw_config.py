# SPDX-License-Identifier: Apache-2.0
"""Devices: VTA's own files are read, every limit is named, and what is read is what is written."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from loadstone.errors import ConfigError
from loadstone.vta.device.hw_config import HwConfig, config_of, device_names, load_config
from loadstone.vta.isa.spec import Capability, Memory

#: VTA's vta_config.json as its authors ship it.
VTA_FILE = {
    "TARGET": "sim",
    "HW_VER": "0.0.2",
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}
TINY = load_config("vtaq-tiny").to_json()


def test_the_built_in_devices() -> None:
    assert device_names() == [
        "vta-de10nano",
        "vta-pynq",
        "vta-ultra96",
        "vta-zcu104",
        "vtab-1x16x16",
        "vtab-1x8x8",
        "vtaq-1x16x16",
        "vtaq-1x32x32",
        "vtaq-1x8x8",
        "vtaq-4x16x16",
        "vtaq-tiny",
        "vtaq2-1x16x16",
        "vtaq2-tiny",
    ]
    assert {load_config(name).name for name in device_names()} == set(device_names())


def test_depths_and_tiles_of_the_default_vta() -> None:
    c = load_config("vta-pynq")
    assert c.widths == {"lu": 13, "li": 11, "lw": 10, "la": 11}
    assert {m.name: (c.depth(m), c.tile_bytes(m)) for m in Memory} == {
        "UOP": (2048, 4),
        "WGT": (1024, 256),
        "INP": (2048, 16),
        "ACC": (2048, 64),
        "OUT": (2048, 16),
        "ACC_8BIT": (2048, 16),
        "WGT_4BIT": (1024, 288),
        "WGT_PLANES": (1024, 8),
    }
    assert c.peak_gops == 51.2
    assert not c.has(Capability.REGIONS)


def test_a_batch_multiplies_the_lanes() -> None:
    c = load_config("vtaq-4x16x16")
    assert (
        c.macs_per_cycle,
        c.tile_bytes(Memory.INP),
        c.tile_bytes(Memory.ACC),
        c.tile_bytes(Memory.WGT),
    ) == (1024, 64, 256, 256)
    assert c.peak_gops == 409.6
    assert c.has(Capability.REQUANTIZE)
    assert c.has(Capability.REQUANTIZE | Capability.REGIONS)


@pytest.mark.parametrize("name", device_names())
def test_json_reads_back(name: str) -> None:
    c = load_config(name)
    assert load_config(json.loads(json.dumps(c.to_json()))) == c


# --- VTA's own files ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "board"),
    [
        ("sim", "vta-pynq"),
        ("tsim", "vta-de10nano"),
        ("pynq", "vta-pynq"),
        ("de10nano", "vta-de10nano"),
        ("ultra96", "vta-ultra96"),
        ("zcu104", "vta-zcu104"),
        ("intelfocl", "vta-pynq"),
    ],
)
def test_vta_config_json(target: str, board: str, tmp_path: Path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps({**VTA_FILE, "TARGET": target}))
    mine, ours = load_config(path), load_config(board)
    assert mine.fingerprint() == ours.fingerprint()
    assert (mine.name, mine.clock_mhz, mine.bus_bits) == (
        "vta_config",
        ours.clock_mhz,
        ours.bus_bits,
    )
    assert (mine.registers, mine.register_base, mine.bus_offset, mine.timing) == (
        ours.registers,
        ours.register_base,
        ours.bus_offset,
        ours.timing,
    )


def test_keys_of_older_files_and_of_forks() -> None:
    c = load_config(VTA_FILE)
    assert load_config({**VTA_FILE, "ACC_DEP_DISTANCE": 3, "HW_FREQ": 100, "LOG_OUT_WIDTH": 3}) == c
    older = {key: value for key, value in VTA_FILE.items() if key != "LOG_BLOCK"}
    assert load_config({**older, "LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 4}) == c
    with pytest.raises(ConfigError, match="LOG_BLOCK, LOG_BLOCK_IN and LOG_BLOCK_OUT differ"):
        load_config({**older, "LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 5})


def test_a_bitstream_has_2048_micro_ops_at_most() -> None:
    assert load_config(VTA_FILE).uop_depth == 2048
    assert load_config({**VTA_FILE, "LOG_UOP_BUFF_SIZE": 12}).uop_depth == 1024
    assert load_config({**VTA_FILE, "uop_depth": 8192}).uop_depth == 8192


# --- refusals -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"LOG_INP_WIDTH": 5}, "LOG_INP_WIDTH=5 is not 3: only int8 inputs"),
        ({"LOG_ACC_WIDTH": 4}, "LOG_ACC_WIDTH=4 is not 5: only int8 inputs"),
        (
            {"LOG_UOP_BUFF_SIZE": 16},
            "lu=LOG_UOP_BUFF_SIZE-2=14 is outside [1, 13]: uop_bgn, uop_end and the loop "
            "counts share",
        ),
        ({"LOG_UOP_BUFF_SIZE": 1}, "lu=LOG_UOP_BUFF_SIZE-2=-1 is outside [1, 13]"),
        ({"LOG_UOP_BUFF_SIZE": 10**9}, "lu=LOG_UOP_BUFF_SIZE-2=999999998 is outside [1, 13]"),
        (
            {"LOG_ACC_BUFF_SIZE": 16},
            "la=LOG_ACC_BUFF_SIZE-LOG_BATCH-LOG_BLOCK-2=12 is outside [1, 11]: ALU's factors",
        ),
        (
            {"LOG_WGT_BUFF_SIZE": 14, "LOG_INP_BUFF_SIZE": 17},
            "la+li+lw=33 is outside [3, 32]: GEMM's factors share one 64-bit word",
        ),
        (
            {"LOG_WGT_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 12, "LOG_ACC_BUFF_SIZE": 15},
            "la+max(la,li)+lw=33 is outside [3, 32]: a micro-op has 32 bits",
        ),
        ({"LOG_INP_BUFF_SIZE": 2}, "li=LOG_INP_BUFF_SIZE-LOG_BATCH-LOG_BLOCK=0 is outside [1, 15]"),
        ({"LOG_BLOCK": 8}, "LOG_BLOCK=8 is outside [1, 7]"),
        ({"LOG_BATCH": -1}, "LOG_BATCH=-1 is outside [0, 6]"),
        ({"uop_depth": 257}, "uop_depth=257 is outside [1, 256]"),
        ({"LOG_BLOCK": "four"}, "LOG_BLOCK='four' is not an integer"),
        ({"LOG_BLOCK": 4.0}, "LOG_BLOCK=4.0 is not an integer"),
        ({"LOG_BLOCK": True}, "LOG_BLOCK=True is not an integer"),
        ({"LOG_BLOCK": None}, "key LOG_BLOCK is missing"),
        ({"clock_mhz": 0}, "clock_mhz=0 is outside [1, 10000]"),
        ({"products_per_multiplier": 3}, "products_per_multiplier=3 is outside [1, 2]: a multi"),
        ({"register_base": -1}, "register_base=-1 is outside [0, "),
        ({"bus_bits": 48}, "bus_bits=48 is not one of 32, 64, 128, 256, 512"),
        ({"profile": "npu"}, "profile='npu' is not one of vta, vtaq"),
        ({"registers": "axi"}, "registers='axi' is not one of native, vta-chisel, vta-hls"),
        (
            {"capabilities": ["fly"]},
            "capability 'fly' is not one of alu_mul, load_acc8, config, requantize, "
            "gemm_overwrite, regions",
        ),
        ({"capabilities": [["fly"]]}, "capability ['fly'] is not one of"),
        ({"capabilities": ["requantize"]}, "capability requantize needs capability config"),
        ({"capabilites": []}, "unknown key 'capabilites'; known are LOG_INP_WIDTH,"),
        ({"timing": "fast"}, "timing table 'fast' is not one of ours"),
        ({"timing": 3}, "timing is a int, not a table's name"),
        (
            {"timing": {"nop_cycles": 2}},
            'timing.nop_cycles must be {"value": integer, "source": "where it comes from"}',
        ),
        (
            {"timing": {"nop_cycles": {"value": -1, "source": "?"}}},
            "timing.nop_cycles=-1 is outside [0, ",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**TINY, **change})
    assert str(caught.value).startswith(f"device vtaq-tiny: {message}")


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000, '"LOG_BLOCK"'])
def test_files_that_are_no_device(text: str, tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="device file .*d.json: "):
        load_config(path)


def test_a_missing_device_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="is neither built in .*vta-de10nano, .*vtaq-tiny.* nor a JSON file"
    ):
        load_config(tmp_path / "none.json")


# --- identity -------------------------------------------------------------------------------------
def test_the_hash_follows_what_changes_meaning_and_nothing_else() -> None:
    c = load_config("vtaq-tiny")
    assert c.config_hash == zlib.crc32(c.configuration())
    assert (
        load_config(
            {**TINY, "clock_mhz": 50, "name": "x", "bus_bits": 64, "timing": "vta-rtl"}
        ).config_hash
        == c.config_hash
    )
    for change in ({"LOG_INP_BUFF_SIZE": 11}, {"capabilities": []}, {"uop_depth": 128}):
        assert load_config({**TINY, **change}).config_hash != c.config_hash
    assert (
        len({load_config(name).fingerprint() for name in device_names()}) == 10
    )  # the four boards are one VTA


def test_a_device_from_its_fingerprint() -> None:
    assert config_of(load_config("vtaq-1x32x32").fingerprint()).name == "vtaq-1x32x32"
    pynq = load_config("vta-pynq").fingerprint()  # three more boards have the same
    assert config_of(pynq, "vta-pynq") == load_config("vta-pynq")
    assert config_of(pynq, "vta-ultra96") == load_config("vta-ultra96")
    assert config_of(pynq, "of-a-file").name == "of-a-file"
    assert config_of(pynq).name in device_names()
    assert config_of(pynq, "x */ int y;\n").name in device_names()
    odd = HwConfig("odd", 1, 3, 12, 13, 14, 14, capabilities=Capability.CONFIG)
    found = config_of(odd.fingerprint())
    assert (found.name, found.widths, found.capabilities) == (
        "unnamed",
        odd.widths,
        odd.capabilities,
    )
    with pytest.raises(ConfigError, match="a fingerprint of 3 bytes has not the 32"):
        config_of(b"abc")
    with pytest.raises(ConfigError, match="is not one of isa version 1, int8 and int32"):
        config_of(b"\x02" + odd.fingerprint()[1:])
    with pytest.raises(ConfigError, match="LOG_BATCH=99"):
        config_of(bytes([1, 3, 3, 5, 99]) + odd.fingerprint()[5:])
