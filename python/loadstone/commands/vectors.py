# SPDX-License-Identifier: Apache-2.0
"""`loadstone vectors SOURCE ... -o DIR`: programs as conformance vectors, for a hardware team's
RTL.

In:   a compiled model, assembler text, or raw instruction bytes; and the memory that the program
      starts with.
Out:  a folder in the format of vectors.py: memory before and after, cycles of the simulator's
      model.
Next: `loadstone replay DIR` reads it back; a test bench runs the same files.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact
from loadstone.backend.plugins import described_accelerator
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.entry_option import add_entry, chosen_entry
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.table_sources import (
    accelerator_of_index,
    accelerator_of_model,
    assembled,
    memory_image,
    programs_of_model,
    stream_program,
    write_hex,
)
from loadstone.errors import EncodingError, LoadstoneError
from loadstone.files import read_whole
from loadstone.isa.accelerator import Accelerator
from loadstone.simulator.table_vectors import (
    VectorProgram,
    is_table_folder,
    load_table_vectors,
    measure_table,
    save_table_vectors,
)
from loadstone.simulator.vector_files import DramRegion, file_stem
from loadstone.vta.device.hw_config import HwConfig, device_names, load_config
from loadstone.vta.isa.asm import assemble
from loadstone.vta.isa.spec import INSN_BYTES, Capability
from loadstone.vta.simulator.vectors import (
    Stimulus,
    Vector,
    absolute,
    load_vectors,
    measure,
    save_vectors,
)

__all__ = ["configure", "extend", "of_artifact", "run"]

_EPILOG = """\
examples:
  loadstone vectors digits.ldsm -o vectors                     each device program of a model; its arena holds random bytes
  loadstone vectors conv.txt --device vta-pynq --memory in.bin@0x1000 -o vectors
  loadstone vectors stream.bin --device vtaq-1x16x16 --memory in.bin -o vectors
  loadstone vectors ../shared/vta_rtl/conv_conv3x3_v1.npz -o mine       a vector, with the simulator's results
  loadstone vectors net.lds --uma-backends DIR --hex -o vectors         of a plug-in's device; also for $readmemh
  loadstone vectors one.txt --device systolic --uma-backends DIR --memory in.bin -o vectors

Text is that of `loadstone disasm`. Addresses in a program count from bus address 0.
"""
_PAGE = 4096
_FIRST = 0x1000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds sources, memory, device and output."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("what the programs run on")
    results = parser.add_argument_group("results")
    parser.add_argument(
        "sources",
        nargs="+",
        metavar="SOURCE",
        type=Path,
        help="a model, assembler text (.txt, .asm), instruction bytes (.bin), or a vector (.npz)",
    )
    results.add_argument(
        "-o", "--output", required=True, type=Path, metavar="DIR", help="folder to write"
    )
    add_json_option(results)
    what.add_argument(
        "--device",
        metavar="NAME",
        help="a device, its JSON file, or a plug-in's accelerator (default: that of a model or vector)",
    )
    what.add_argument(
        "--memory",
        metavar="FILE[@ADDRESS]",
        help="the content of memory before the run (default address 0x1000)",
    )
    results.add_argument(
        "--hex",
        action="store_true",
        help="a plug-in's device: memory before and after as text that Verilog's $readmemh reads",
    )
    what.add_argument(
        "--seed",
        type=int,
        default=0,
        help="the seed of the random bytes in a model's arena (default 0)",
    )
    add_entry(what)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False)


def run(args: argparse.Namespace) -> None:
    """Simulates and writes."""
    if args.seed < 0:
        raise LoadstoneError(f"vectors: --seed {args.seed}: a seed is 0 or more")
    own = described_accelerator(args.plugins, args.device) if args.device else None
    found = [_table_programs(source, own, args) for source in args.sources]
    if any(programs is not None for programs in found):
        _write_tables(args, [p for programs in found for p in _of_tables(programs)])
        return
    if args.hex:
        raise LoadstoneError(
            "vectors: --hex is for a plug-in's device: --device names none, and the sources have no "
            "program of one"
        )
    vectors = [vector for source in args.sources for vector in _vectors_of(source, args)]
    if not vectors:
        raise LoadstoneError("vectors: the sources have no program of a device: all is on the host")
    _check_names([v.name for v in vectors])
    save_vectors(args.output, vectors)
    rows = [(v.name, v.insns.size // INSN_BYTES, v.dram_in.size, v.cycles[0]) for v in vectors]
    _say(args, rows)


def _say(args: argparse.Namespace, rows: Sequence[tuple[str, int, int, int]]) -> None:
    """rows: name, instructions, bytes of memory, cycles."""
    lines = [
        f"{name:<28} {insns:>7} instructions  {size:>9} bytes  {cycles:>9} cycles"
        for name, insns, size, cycles in rows
    ]
    keys = ("name", "instructions", "memory_bytes", "cycles")
    value = [dict(zip(keys, (row[0], *map(int, row[1:])), strict=True)) for row in rows]
    answer(args, {"folder": str(args.output), "vectors": value}, lines)


def _check_names(names: Sequence[str]) -> None:
    """Raises where two programs have the same name, because they would be one file."""
    files = [file_stem(name) for name in names]
    twice = next(
        (name for name, file in zip(names, files, strict=True) if files.count(file) > 1), ""
    )
    if twice:
        raise LoadstoneError(f"vectors: two programs are called {twice!r}: write them apart")


def _table_programs(
    source: Path, own: Accelerator | None, args: argparse.Namespace
) -> list[VectorProgram] | None:
    """The programs of a plug-in's accelerator; None where the source is VTA's."""
    if source.suffix in (".txt", ".asm", ".bin"):
        return None if own is None else [stream_program(source, own, args.memory)]
    if source.suffix == ".npz":
        if own is None and not is_table_folder(source):
            return None
        vectors = load_table_vectors(
            source, lambda device: accelerator_of_index(args.plugins, device, args.device)
        )
        return [vector.program for vector in vectors]
    artifact = chosen_entry(args, Artifact.load(source))
    chosen = accelerator_of_model(artifact, args.device, args.plugins)
    return None if chosen is None else programs_of_model(artifact, chosen, args.seed)


def _of_tables(programs: list[VectorProgram] | None) -> list[VectorProgram]:
    if programs is None:
        raise LoadstoneError("vectors for different devices do not go into one folder")
    return programs


def _write_tables(args: argparse.Namespace, programs: Sequence[VectorProgram]) -> None:
    if len({program.accelerator.table.fingerprint for program in programs}) > 1:
        raise LoadstoneError("vectors for different devices do not go into one folder")
    _check_names([program.name for program in programs])
    vectors = [measure_table(program) for program in programs]
    counts = save_table_vectors(args.output, vectors)
    if args.hex:
        write_hex(args.output, vectors)
    rows = [
        (v.program.name, count, v.program.dram_in.size, v.cycles[0])
        for v, count in zip(vectors, counts, strict=True)
    ]
    _say(args, rows)


def _vectors_of(source: Path, args: argparse.Namespace) -> list[Vector]:
    if source.suffix == ".npz":
        return [
            measure(
                Stimulus(
                    v.name,
                    v.config,
                    v.insns,
                    v.dram_base,
                    v.dram_in,
                    v.regions,
                    v.description,
                    v.group,
                )
            )
            for v in load_vectors([source], args.device)
        ]
    if source.suffix in (".txt", ".asm", ".bin"):
        return [_of_stream(source, args)]
    artifact = chosen_entry(args, Artifact.load(source))
    return of_artifact(
        artifact, load_config(args.device) if args.device else _device_of(artifact), args.seed
    )


def _of_stream(source: Path, args: argparse.Namespace) -> Vector:
    if not args.device:
        raise LoadstoneError(
            f"{source}: text and bytes do not say which device they are for: give --device"
        )
    config = load_config(args.device)
    if source.suffix == ".bin":
        data = np.frombuffer(read_whole(source), np.uint8)
        if data.size == 0 or data.size % INSN_BYTES:
            raise EncodingError(
                f"{source}: {data.size} bytes are no positive multiple of {INSN_BYTES}"
            )
        insns = data.reshape(-1, INSN_BYTES)
    else:
        insns = assembled(source, lambda text: assemble(text, config))
    image, base = memory_image(args.memory)
    return measure(Stimulus(source.stem, config, insns, base, image))


def _device_of(artifact: Artifact) -> HwConfig:
    """The built-in device that the model names: the vectors' cycles come from its timing table, so
    that another device with the same fingerprint cannot replace it."""
    if artifact.device in device_names():
        config = load_config(artifact.device)
        if config.fingerprint() == artifact.fingerprint:
            return config
    raise LoadstoneError(
        f"model {artifact.name!r} is for device {artifact.device or 'unknown'!r} (config hash "
        f"{artifact.config_hash:#010x}), which is not built in: give --device FILE"
    )


def of_artifact(artifact: Artifact, config: HwConfig, seed: int = 0) -> list[Vector]:
    """A vector for each device program: constants from the model, and random bytes in the rest of
    memory. For a device without regions addresses become absolute, as when the runtime binds a
    model."""
    if config.fingerprint() != artifact.fingerprint:
        hashes = (
            f"its config hash is {artifact.config_hash:#010x}, the device's "
            f"{config.config_hash:#010x}"
        )
        raise LoadstoneError(f"model {artifact.name!r} is not for {config.name}: {hashes}")
    rng = np.random.default_rng(seed)
    regions, at = [], _FIRST
    for region in artifact.regions:
        at = -(-at // max(_PAGE, region.align_bytes)) * max(_PAGE, region.align_bytes)
        regions.append(DramRegion(at, region.size_bytes, not region.device_writes))
        at += region.size_bytes
    image = rng.integers(0, 256, at - _FIRST, np.uint8)
    for region, place in zip(artifact.regions, regions, strict=True):
        image[place.base - _FIRST :][: len(region.data)] = np.frombuffer(region.data, np.uint8)
    vectors = []
    for number, program in enumerate(artifact.programs_of(0)):
        insns = np.frombuffer(program.instructions, np.uint8).reshape(-1, INSN_BYTES)
        own = tuple(regions)
        if not config.has(Capability.REGIONS):
            insns, own = absolute(insns, config, [region.base for region in regions]), ()
        name = f"{artifact.name}_{number:02d}"
        stimulus = Stimulus(name, config, insns, _FIRST, image, own, program.name, artifact.name)
        vectors.append(measure(stimulus))
    return vectors
