# SPDX-License-Identifier: Apache-2.0
"""`loadstone export MODEL.lds --board BOARD -o DIR`: a small C project around a compiled model.

In:   an artifact, the kind of board.
Out:  a folder with the model's bytes, main.c, the runtime and drivers it needs, a Makefile, and
      (cortex-m, riscv) a port and a linker script; for a module the files that Zephyr, ESP-IDF,
      PlatformIO and CMake require; for Arduino a library in its layout, with an example.
Next: `make -C DIR` with a cross-compiler; driver/README.md for the port to a board of your own.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.builtin import load_config
from loadstone.backend.device import Device
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.exported_accelerators import (
    REGISTER_BLOCKS,
    accelerator_declarations,
    accelerator_files,
    register_files,
)
from loadstone.commands.exported_names import (
    UNNAMED,
    check_name,
    named_file,
    named_files,
    named_text,
)
from loadstone.commands.exported_steps import for_the_board, operator_set
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.proof_options import add_require_option, loaded
from loadstone.errors import ArtifactError, ModelError
from loadstone.files import source_folder, write_whole
from loadstone.language.words_table import table_beside
from loadstone.printable import c_comment, one_line
from loadstone.runtime.arrays import read_arrays
from loadstone.runtime.device import device_of_artifact
from loadstone.runtime.footprint import pool_bytes, session_bytes

__all__ = ["BOARDS", "configure", "export", "extend", "run"]

_EPILOG = """\
examples:
  loadstone export model.lds --board cortex-m -o firmware && make -C firmware CPU=cortex-m55
  loadstone export model.lds --board riscv -o firmware && make -C firmware
  loadstone export model.lds --board linux -o app && make -C app CROSS_COMPILE=aarch64-linux-gnu-
  loadstone export model.lds --board module -o model_module     a Zephyr module, an ESP-IDF component, a PlatformIO or CMake library
  loadstone export a.lds --board module --name a -o a      and b: two models in one firmware, with one runtime
  loadstone export model.lds --board arduino -o ~/Arduino/libraries/loadstone_model
  loadstone export model.lds --board cortex-m -o firmware --sample x.npz       a first input, built in
  loadstone export model.lds --board cortex-m -o firmware --require-proof proof.json     only what is proved (docs/proofs.md)
  loadstone export model.lds --board cortex-m -o firmware --uma-backends mine/     with programs of your own accelerator

then: change board.c and link.ld (cortex-m, riscv) for your board; under Linux, `./model uio:/dev/uio0 in.bin out.bin`
"""
_BAREMETAL = ("hal_baremetal.c", "mmio.h", "pool.c")
#: Board -> the drivers that it needs besides the runtime.
BOARDS = {
    "arduino": _BAREMETAL,
    "cortex-m": _BAREMETAL,
    "riscv": _BAREMETAL,
    "module": _BAREMETAL,
    "linux": (
        "hal_linux_uio.c",
        "hal_linux_devmem.c",
        "hal_simd.c",
        "linux_board.c",
        "linux_board.h",
        "map_shared.h",
        "mmio.h",
        "packets.c",
        "pool.c",
        "pool_shortage.h",
    ),
}
#: Boards whose project is a firmware: the folder of all of them, and one of each processor.
_FIRMWARE = ("cortex-m", "riscv")
#: What to do with boards that have no Makefile.
_NEXT = {
    "arduino": "install {} as a library, open its example RunOnce",
    "module": "name {} to your build",
}
#: Arduino compiles a library's sources with the board's flags; a step in C computes the model's
#: integers only if products and sums are rounded separately.
_ARDUINO_FLAGS = b'#pragma GCC optimize("fp-contract=off")\n'
_PAGE = 4096


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("the board")
    results = parser.add_argument_group("results")
    parser.add_argument("model", metavar="MODEL.lds", help="an artifact")
    what.add_argument("--board", choices=sorted(BOARDS), required=True, help="the kind of project")
    results.add_argument("-o", "--output", metavar="DIR", required=True, help="the folder to write")
    what.add_argument(
        "--device", metavar="FILE", help="the device's JSON file, if it is not built in"
    )
    what.add_argument(
        "--name",
        metavar="NAME",
        default=UNNAMED,
        help="the model's name in C, so that a firmware may have several (module, arduino; default: %(default)s)",
    )
    what.add_argument(
        "--sample",
        metavar="IN.npz",
        help="inputs whose first sample is built into the firmware (cortex-m, riscv)",
    )
    add_require_option(what)
    add_json_option(results)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False, installed=False)


def run(args: argparse.Namespace) -> None:
    """Writes the project, and prints the next step."""
    artifact = loaded(args)
    device = load_config(args.device) if args.device else device_of_artifact(artifact)
    if device.fingerprint() != artifact.fingerprint:
        raise ArtifactError(
            f"{args.model} was compiled for device {artifact.device or 'unknown'!r}, not for "
            f"{device.name!r}"
        )
    sample = _sample(artifact, args.sample) if args.sample else None
    folder = Path(args.output)
    check_name(args.name, args.board, others=bool(artifact.further))
    export(artifact, device, args.board, folder, sample, args.name)
    no_text = _add_words(args.model, folder) if has_decoder(args.board, artifact) else ""
    steps = folder / ("src/steps_steps.c" if args.board == "arduino" else "steps")
    foreign = list[str]()
    if any(isinstance(step, HostStep) and step.function for step in artifact.steps):
        foreign = [str(steps)]
    then = _NEXT.get(args.board, "make -C {}").format(folder)
    names = [one_line(name) for name in artifact.names_at_work(device.name)]
    value = {
        "folder": str(folder),
        "model": one_line(artifact.name),
        "board": args.board,
        "devices": names,
        "foreign_code": foreign,
        "next": then,
        "no_text": no_text,
    }
    lines = [f"{path}: C from {args.model}, the code of whoever made it" for path in foreign]
    if no_text:
        lines.append(f"{folder}: decode takes and writes numbers of tokens, no text: {no_text}")
    about = f"{value['model']} for {args.board} ({', '.join(names)})"
    answer(args, value, [*lines, f"{folder}: {about}; next: {then}"])


def export(
    artifact: Artifact,
    device: Device,
    board: str,
    folder: Path,
    sample: bytes | None = None,
    name: str = UNNAMED,
) -> None:
    """Writes the project. name: the model's name in C. Raises ArtifactError for a model that C
    alone cannot run."""
    artifact, steps = for_the_board(artifact)
    operators = operator_set(artifact)
    own = {"steps/operators.c": operators} if operators else {}
    files = {**named_files({**steps, **own}, name), **accelerator_files(artifact)}
    folder.mkdir(parents=True, exist_ok=True)
    for part in _templates(board, artifact):
        templates = Path(str(resources.files("loadstone.boards"))) / part
        for file in templates.rglob("*"):
            if file.is_file():
                target = folder / file.relative_to(templates)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, named_text(file.read_text(encoding="utf-8"), name))
    drivers = [*BOARDS[board], *register_files(artifact, device)]
    if board == "arduino":
        folder = folder / "src"
        _copy_sources(folder, folder, drivers, _ARDUINO_FLAGS)
    else:
        _copy_sources(folder / "loadstone", folder / "loadstone/include", drivers, b"")
    for path, text in files.items():
        # Arduino passes only one folder to the compiler, src/
        target = folder / (path.replace("/", "_") if board == "arduino" else path)
        target.parent.mkdir(exist_ok=True)
        write_whole(target, (_ARDUINO_FLAGS if board == "arduino" else b"") + text.encode())
    data = artifact.to_bytes()
    write_whole(folder / named_file("model.lds", name), data)
    if sample is not None:
        write_whole(folder / "sample.bin", sample)
    extras = (_EXTERNAL if steps else "") + (_OPERATORS if operators else "")
    header = _header(artifact, device, data, sample is not None, extras)
    write_whole(folder / named_file("model.h", name), named_text(header, name))
    assembly = _assembly("model", "model.lds") + (
        _assembly("sample", "sample.bin") if sample else ""
    )
    write_whole(folder / named_file("model.S", name), named_text(assembly, name))


def _templates(board: str, artifact: Artifact) -> list[str]:
    """The folders of files that a project has as they are."""
    parts = ["firmware", board] if board in _FIRMWARE else [board]
    return [*parts, "decoder"] if has_decoder(board, artifact) else parts


def has_decoder(board: str, artifact: Artifact) -> bool:
    """Whether boards/decoder/decode.c comes with it."""
    return board == "linux" and is_decoder(artifact)


def _add_words(model: str, folder: Path) -> str:
    """Writes words.bin, with which decode takes and writes text; "" or why there is none."""
    path = folder / "words.bin"
    path.unlink(missing_ok=True)  # of another model
    try:
        write_whole(path, table_beside(Path(model), (folder / "model.lds").read_bytes()))
    except ModelError as error:
        return str(error)
    return ""


def _copy_sources(folder: Path, headers: Path, drivers: list[str], first: bytes) -> None:
    """first: a line before each source's own."""
    root = source_folder()
    headers.mkdir(parents=True, exist_ok=True)
    public = [*(root / "runtime/include").glob("*.h"), *(root / "driver/include").glob("*.h")]
    for header in public:
        if header.name not in ("lds_api.h", "lds_hal_sim.h"):
            write_whole(headers / header.name, header.read_bytes())
    for source in [*(root / "runtime").glob("*.[ch]"), *(root / "driver" / d for d in drivers)]:
        write_whole(folder / source.name, first + source.read_bytes())


#: Of a model with external steps.
_EXTERNAL = """#define MODEL_EXTERNAL 1
/* Executes the external steps: steps/steps.c. */
int model_external(void *ctx, lds_session *session, uint32_t step);
"""
#: Of a model with operators of real numbers.
_OPERATORS = """#define MODEL_OPERATORS 1
/* For lds_session_config.operators: steps/operators.c. */
extern const lds_operator_set model_operators;
"""


def _header(artifact: Artifact, device: Device, data: bytes, sample: bool, parts: str) -> str:
    inputs = "".join(
        f" *   {c_comment(artifact.tensors[i].name)}: "
        f"{artifact.tensors[i].dtype.name.lower()} {list(artifact.tensors[i].shape)}\n"
        for i in (*artifact.inputs, *artifact.outputs)
    )
    first = artifact.only()
    return f"""/* GENERATED by `loadstone export`: {c_comment(artifact.name)} for {c_comment(device.name)}.
 *
 * Inputs, then outputs:
{inputs} */
#ifndef MODEL_H
#define MODEL_H

#include "loadstone.h"

#ifdef __cplusplus
extern "C" {{
#endif

{_entries(artifact)}/* Inputs and outputs of the first entry. */
#define MODEL_INPUTS {len(first.inputs)}u
#define MODEL_OUTPUTS {len(first.outputs)}u
#define MODEL_REGISTERS {REGISTER_BLOCKS[device.register_block.name][0]}
{_registers(device.register_block.base_address)}
#define MODEL_REGISTER_BYTES {device.register_block.size_bytes:#x}u
#define MODEL_BUS_OFFSET {device.bus_offset:#x}u
#ifndef MODEL_CLOCK_HZ /* -D gives your bitstream's, where that is another */
#define MODEL_CLOCK_HZ {device.clock_mhz * 1_000_000}u
#endif
#define MODEL_CONFIG_HASH {device.config_hash:#x}u
#define MODEL_SESSION_BYTES {session_bytes(data)}u
#define MODEL_DMA_BYTES {pool_bytes(artifact)}u
#define MODEL_DMA_ALIGN {max([_PAGE, *(r.align_bytes for r in artifact.regions if r.on_device)])}u

extern const uint8_t model_bytes[], model_bytes_end[];
{parts}{accelerator_declarations(artifact)}{"#define MODEL_SAMPLE 1" + chr(10) + "extern const uint8_t sample_bytes[], sample_bytes_end[];" + chr(10) if sample else ""}
#ifdef __cplusplus
}}
#endif

#endif /* MODEL_H */
"""


def _entries(artifact: Artifact) -> str:
    """Their numbers, for lds_session_start_entry, and where the inputs and outputs of each begin
    among those of the model. Nothing for a model that has none by name."""
    known: dict[str, tuple[int, int, int]] = {}
    inputs = outputs = 0
    for number, entry in enumerate(artifact.entries):
        name = re.sub(r"\W", "_", entry.name, flags=re.ASCII).upper()
        known[name if name and name not in known else str(number)] = number, inputs, outputs
        inputs, outputs = inputs + entry.inputs, outputs + entry.outputs
    lines = [
        f"#define MODEL_{what}_{name} {value}u\n"
        for name, values in known.items()
        for what, value in zip(("ENTRY", "INPUT_OF", "OUTPUT_OF"), values, strict=True)
    ]
    if is_decoder(artifact):
        tokens = artifact.only(1).inputs[0]
        lines.append(f"#define MODEL_CHUNK_ROWS {artifact.tensors[tokens].elements}u\n")
    return "".join(lines)


def is_decoder(artifact: Artifact) -> bool:
    """Whether its entries are those of a GGUF file, on one device: boards/decoder/decode.c runs them."""
    return artifact.entry_names == ("next", "chunk") and not artifact.further


def _registers(base: int) -> str:
    """The address of the configuration; for firmware, which is given another one, an example."""
    if base:
        return f"#define MODEL_REGISTER_BASE {base:#x}u"
    return "#define MODEL_REGISTER_BASE 0x40010000u\n#define MODEL_REGISTER_BASE_UNKNOWN 1"


def _assembly(name: str, file: str) -> str:
    return f"""    .section .rodata.{name}, "a"
    .global {name}_bytes, {name}_bytes_end
    .balign 64
{name}_bytes:
    .incbin "{file}"
{name}_bytes_end:
#if defined(__linux__) && defined(__ELF__)
    .section .note.GNU-stack, "", %progbits
#endif
"""


def _sample(artifact: Artifact, path: str) -> bytes:
    """The bytes of input 0 for one run, the first sample in the first place."""
    inputs = [artifact.tensors[i] for i in artifact.only().inputs]
    tensor = inputs[0]
    (array, *_) = read_arrays(path, inputs, "in")
    shape = (tensor.shape[0] // artifact.samples, *tensor.shape[1:])
    if array.shape[1:] != shape or array.dtype != tensor.dtype.numpy:
        raise ArtifactError(
            f"{path}: in0 has shape {array.shape} and type {array.dtype}, not (samples, "
            f"{', '.join(map(str, shape))})"
        )
    return np.ascontiguousarray(array[:1]).tobytes().ljust(tensor.size_bytes, b"\0")
