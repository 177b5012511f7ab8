# SPDX-License-Identifier: Apache-2.0
"""Conformance vectors: programs with the memory before and after, and cycle counts. One .npz each,
and index.json.

In:   a folder or files, measured on hardware or written by us; or a program and its memory.
Out:  Vector objects; the same files. What a hardware team runs through its RTL, and replay.py
      through the simulator.
Next: replay.py.

    insns           uint8 (N, 16)   the stream. It lies outside the image, on the first page of 4096
                          bytes after it
    dram_base       int64           bus address of byte 0 of the image
    dram_in         uint8           the image before the run
    out_regions     int64 (k, 2)    [offset, length] in the image, ascending, disjoint: every byte
                          that a STORE writes
    out             uint8           these bytes after the run, concatenated; no other byte changes
    cycles_lat0     int64           cycles to FINISH; -1: not measured
    cycles_lat64    int64           the same with 64 more cycles in front of every read burst
    rd_beats, wr_beats, rd_bursts, wr_bursts   int64
    regions         int64 (8, 3)    base, bytes, read-only: only for devices with regions; else
                          bases are 0
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadstone.errors import ConfigError, LoadstoneError
from loadstone.files import JsonObject, unpacked_arrays, written_whole
from loadstone.simulator.vector_files import (
    LATENCIES,
    DramRegion,
    check_spans,
    file_stem,
    gathered,
    listed_files,
    merged,
    sha256_of,
    with_written,
    write_index,
)
from loadstone.vta.device.hw_config import HwConfig, load_config
from loadstone.vta.isa.codec import decode_stream, encode_stream
from loadstone.vta.isa.spec import INSN_BYTES, MAX_REGIONS, Capability, Memory, Opcode
from loadstone.vta.simulator.result import Result
from loadstone.vta.simulator.sim import Simulator

__all__ = [
    "Stimulus",
    "Vector",
    "absolute",
    "load_vectors",
    "measure",
    "save_vectors",
]

_COUNTERS = ("rd_beats", "wr_beats", "rd_bursts", "wr_bursts")


@dataclass(frozen=True, eq=False)
class Vector:
    """One program, what it does to memory, and how long it takes. Cycles and counters are -1 where
    not measured."""

    name: str
    config: HwConfig
    insns: npt.NDArray[np.uint8]
    dram_base: int
    dram_in: npt.NDArray[np.uint8]
    out_regions: npt.NDArray[np.int64]
    out: npt.NDArray[np.uint8]
    cycles: Mapping[int, int]  # by latency
    counters: Mapping[str, int]
    regions: tuple[DramRegion, ...] = ()
    group: str = ""
    description: str = ""

    def dram_out(self) -> npt.NDArray[np.uint8]:
        """The whole image after the run.

        uint8 (bytes of the image,).
        """
        return with_written(self.dram_in, self.out_regions, self.out)

    def simulator(
        self, image: npt.NDArray[np.uint8], latency: int = 0, **options: Any
    ) -> Simulator:
        """A device with `image` (changed by a run) as its memory.

        image: uint8 (bytes,), as `dram_in`. latency: cycles more in front of every read burst.
        """
        simulator = Simulator(self.config, **options)
        simulator.set_timing("read_burst_extra_cycles", self.config_extra + latency)
        simulator.map(self.dram_base, image)
        for number, region in enumerate(self.regions):
            simulator.set_region(number, region.base, region.size_bytes, read_only=region.read_only)
        return simulator

    @property
    def config_extra(self) -> int:
        """What the device's own table puts in front of every read burst."""
        constant = self.config.timing.get("read_burst_extra_cycles")
        return constant.value if constant else 0


# --- reading --------------------------------------------------------------------------------------
def load_vectors(paths: Iterable[str | Path], device: str | None = None) -> list[Vector]:
    """Vectors of files, and of folders: those that index.json lists, without one every .npz.
    `device` replaces what the index says of it (default: vta-pynq).

    Raises LoadstoneError naming the file that cannot be read.
    """
    found: list[Vector] = []
    for path in map(Path, paths):
        folder = path if path.is_dir() else path.parent
        index, entries = listed_files(path)
        config = load_config(device) if device else _config_of(index)
        found += [_load(folder / name, entry, config) for name, entry in entries.items()]
    return found


def _config_of(index: JsonObject) -> HwConfig:
    """The device that an index describes: ours whole, the measured VTA's by its depths."""
    device = index.get("device", {})
    if "loadstone" in device:
        return load_config(device["loadstone"])
    if not device:
        return load_config("vta-pynq")
    try:
        batch, block = device["batch"], device["block_in"]
        described = {
            "LOG_BATCH": _log2(batch),
            "LOG_BLOCK": _log2(block),
            "LOG_UOP_BUFF_SIZE": device["log_uop_index_bits_in_isa"] + 2,
            "LOG_INP_BUFF_SIZE": _log2(device["inp_depth"] * batch * block),
            "LOG_WGT_BUFF_SIZE": _log2(device["wgt_depth"] * block * block),
            "LOG_ACC_BUFF_SIZE": _log2(device["acc_depth"] * batch * block * 4),
            "uop_depth": device["uop_depth"],
            "bus_bits": device["bus_bits"],
        }
    except KeyError as error:
        raise ConfigError(f"index.json: device has no {error.args[0]}; give --device") from None
    except (TypeError, AttributeError):
        raise ConfigError("index.json: its device is not described by numbers") from None
    widths = {"LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": 3, "LOG_ACC_WIDTH": 5}
    return load_config({"name": "vta", "timing": "vta-rtl", **widths, **described})


def _log2(value: int) -> int:
    return value.bit_length() - 1


def _load(path: Path, entry: JsonObject, config: HwConfig) -> Vector:
    try:
        data = unpacked_arrays(path, str(path), LoadstoneError)
        group = str(entry.get("group", ""))
        if group == "fsim_only":  # VTA's functional simulator has what its RTL lacks
            config = replace(
                config, capabilities=config.capabilities | Capability.ALU_MUL | Capability.LOAD_ACC8
            )
        vector = Vector(
            name=str(entry.get("name", path.stem)),
            config=config,
            insns=np.ascontiguousarray(data["insns"], np.uint8),
            dram_base=int(data["dram_base"]),
            dram_in=np.ascontiguousarray(data["dram_in"], np.uint8),
            out_regions=data["out_regions"].astype(np.int64).reshape(-1, 2),
            out=np.ascontiguousarray(data["out"], np.uint8),
            cycles={latency: int(data.get(f"cycles_lat{latency}", -1)) for latency in LATENCIES},
            counters={name: int(data.get(name, -1)) for name in _COUNTERS},
            regions=tuple(
                DramRegion(base, size, bool(read_only))
                for base, size, read_only in data.get("regions", np.zeros((0, 3))).tolist()
            ),
            group=group,
            description=str(entry.get("description", "")),
        )
        _check(vector)
        return vector
    except KeyError as error:
        raise LoadstoneError(
            f"{path}: has no array {error.args[0].split(' ')[0]!r}; a vector needs insns, "
            "dram_base, dram_in, out_regions, out"
        ) from None
    except (OSError, ValueError) as error:
        raise LoadstoneError(f"{path}: is no vector: {error}") from None


def _check(v: Vector) -> None:
    """Raises ValueError where a vector reaches beyond its memory."""
    check_spans(v.dram_base, v.dram_in.size, v.out_regions.tolist(), v.out.size)
    inside = [(r.base - v.dram_base, r.size_bytes) for r in v.regions if r.size_bytes]
    check_spans(v.dram_base, v.dram_in.size, inside, sum(size for _, size in inside))


# --- writing --------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Stimulus:
    """A program and the memory that it begins with: a vector without what comes of it.

    insns: uint8 (N, 16). dram_in: uint8, from bus address dram_base on.
    """

    name: str
    config: HwConfig
    insns: npt.NDArray[np.uint8]
    dram_base: int
    dram_in: npt.NDArray[np.uint8]
    regions: Sequence[DramRegion] = ()
    description: str = ""
    group: str = ""


def measure(stimulus: Stimulus) -> Vector:
    """A vector of what the simulator makes of a program, at both latencies. Raises
    SimulationStopped where it does not finish."""
    s = stimulus
    config, insns, dram_in = s.config, s.insns, s.dram_in
    nothing = np.zeros(0, np.uint8)
    empty = Vector(
        s.name,
        config,
        insns,
        s.dram_base,
        dram_in,
        np.zeros((0, 2), np.int64),
        nothing,
        {},
        {},
        tuple(s.regions),
        s.group,
        s.description,
    )
    cycles: dict[int, int] = {}
    result: Result | None = None
    image = dram_in.copy()
    for latency in LATENCIES:
        image = dram_in.copy()
        result = empty.simulator(image, latency).run(insns)
        cycles[latency] = result.cycles
    assert result is not None
    out_regions = _stored(insns, config, s.dram_base, s.regions)
    out = gathered(image, out_regions)
    counters = dict(
        zip(
            _COUNTERS,
            (result.read_beats, result.write_beats, result.read_bursts, result.write_bursts),
            strict=True,
        )
    )
    return replace(empty, out_regions=out_regions, out=out, cycles=cycles, counters=counters)


def _stored(
    insns: npt.NDArray[np.uint8], config: HwConfig, dram_base: int, regions: Sequence[DramRegion]
) -> npt.NDArray[np.int64]:
    """[offset, length] of the bytes that STOREs write, merged."""
    columns = decode_stream(insns, config).columns[Opcode.STORE]
    rows: list[tuple[int, int]] = []
    to_dram = columns["memory_id"] != Memory.INP
    for memory, base, region, x, y, stride in zip(
        *(
            columns[k][to_dram].tolist()
            for k in ("memory_id", "dram_base", "region", "x_size", "y_size", "x_stride")
        ),
        strict=True,
    ):
        tile = config.tile_bytes(Memory(memory))
        start = (regions[region].base if regions else 0) + base * tile - dram_base
        rows += [
            (start + k * stride * tile, start + (k * stride + x) * tile) for k in range(y) if x
        ]
    return merged(rows)


def save_vectors(folder: str | Path, vectors: Sequence[Vector]) -> None:
    """Writes NAME.npz for each, and index.json. All must be for one device."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if len({v.config.fingerprint() for v in vectors}) > 1:
        raise LoadstoneError("vectors for different devices do not go into one folder")
    programs = []
    for v in vectors:
        path = folder / f"{file_stem(v.name)}.npz"
        arrays: dict[str, Any] = {
            "insns": v.insns.reshape(-1, INSN_BYTES),
            "dram_base": np.int64(v.dram_base),
            "dram_in": v.dram_in,
            "out_regions": v.out_regions,
            "out": v.out,
            **{
                f"cycles_lat{latency}": np.int64(v.cycles.get(latency, -1)) for latency in LATENCIES
            },
            **{name: np.int64(v.counters.get(name, -1)) for name in _COUNTERS},
        }
        if v.regions:
            table = [(r.base, r.size_bytes, int(r.read_only)) for r in v.regions]
            arrays["regions"] = np.array(table + [(0, 0, 1)] * (MAX_REGIONS - len(table)), np.int64)
        with written_whole(path) as file:
            np.savez_compressed(file, **arrays)
        programs.append(
            {
                "name": v.name,
                "group": v.group,
                "description": v.description,
                "file": path.name,
                "insn_count": v.insns.size // INSN_BYTES,
                **{f"cycles_lat{latency}": v.cycles.get(latency, -1) for latency in LATENCIES},
                **v.counters,
                "sha256": sha256_of(path),
            }
        )
    device = {"loadstone": vectors[0].config.to_json()} if vectors else {}
    write_index(folder, device, programs)


# --- programs of artifacts ------------------------------------------------------------------------
def absolute(
    insns: npt.NDArray[np.uint8], config: HwConfig, bases: Sequence[int]
) -> npt.NDArray[np.uint8]:
    """A stream for a device without regions: their bases added to dram_base, the region bits
    cleared, as the C runtime does.

    insns: uint8 (N, 16); the result has the same shape. bases: bus addresses in bytes, one for each
        region.
    """
    everything = replace(config, capabilities=config.capabilities | Capability.REGIONS)
    stream = decode_stream(insns, everything)
    base_bytes = np.array([config.base_bytes(memory) for memory in Memory], np.int64)
    for opcode in (Opcode.LOAD, Opcode.STORE):
        columns = stream.columns[opcode]
        moved = np.array(bases, np.int64)[columns["region"]] // base_bytes[columns["memory_id"]]
        columns["dram_base"] += np.where(columns["x_size"] != 0, moved, 0)
        columns["region"] *= 0
    return encode_stream(stream, config)
