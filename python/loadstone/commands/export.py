# SPDX-License-Identifier: Apache-2.0
"""`loadstone export MODEL.lds --board BOARD -o DIR`: a small C project around compiled models.

In:   an artifact, or several that share a device; the kind of board.
Out:  a folder with the model's bytes, main.c, the runtime and drivers it needs, a Makefile, and
      (cortex-m, riscv) a port and a linker script; for a module the files that Zephyr, ESP-IDF,
      PlatformIO and CMake require; for Arduino a library in its layout, with an example.
Next: `make -C DIR` with a cross-compiler; driver/README.md for the port to a board of your own.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from loadstone.artifact.format import Artifact, HostStep
from loadstone.backend.builtin import load_config
from loadstone.backend.device import Device
from loadstone.commands.answers import add_json_option, answer
from loadstone.commands.exported_accelerators import (
    accelerator_files,
    register_files,
)
from loadstone.commands.exported_header import assembly, dma_align, header, is_decoder
from loadstone.commands.exported_names import (
    UNNAMED,
    check_name,
    named_file,
    named_files,
    named_text,
)
from loadstone.commands.exported_several import (
    SharedModel,
    own_file,
    own_sample,
    several_files,
    shared_models,
)
from loadstone.commands.exported_steps import for_the_board, operator_set
from loadstone.commands.plugin_options import add_plugin_options
from loadstone.commands.proof_options import add_require_option, loaded
from loadstone.errors import ArtifactError, ConfigError, ModelError
from loadstone.files import source_folder, write_whole
from loadstone.language.words_table import table_beside
from loadstone.printable import one_line
from loadstone.runtime.arrays import read_arrays
from loadstone.runtime.device import device_of_artifact

__all__ = ["BOARDS", "configure", "export", "export_several", "extend", "run"]

_EPILOG = """\
examples:
  loadstone export model.lds --board cortex-m -o firmware && make -C firmware CPU=cortex-m55
  loadstone export model.lds --board riscv -o firmware && make -C firmware
  loadstone export model.lds --board linux -o app && make -C app CROSS_COMPILE=aarch64-linux-gnu-
  loadstone export model.lds --board module -o model_module     a Zephyr module, an ESP-IDF component, a PlatformIO or CMake library
  loadstone export a.lds b.lds --board cortex-m -o firmware --periods 20ms,50ms     two models that share the device by priorities
  loadstone export a.lds --board module --name a -o a      and b: two models in an application of yours, with one runtime
  loadstone export model.lds --board arduino -o ~/Arduino/libraries/loadstone_model
  loadstone export model.lds --board cortex-m -o firmware --sample x.npz       a first input, built in
  loadstone export model.lds --board cortex-m -o firmware --require-proof proof.json     only what is proved (docs/proofs.md)
  loadstone export model.lds --board cortex-m -o firmware --uma-backends mine/     with programs of your own accelerator

Several models are compiled for one device, and with --switch-within CYCLES a program of one keeps the others waiting no longer than that. The first has the
highest priority. `loadstone bound a.lds b.lds --periods 20ms,50ms` says how long each response takes at most.

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds MODEL and the options."""
    parser.epilog = _EPILOG
    what = parser.add_argument_group("the board")
    results = parser.add_argument_group("results")
    parser.add_argument(
        "models",
        metavar="MODEL.lds",
        nargs="+",
        help="an artifact; several for one device: a firmware with all of them (cortex-m, riscv)",
    )
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
        action="append",
        default=[],
        help="inputs whose first sample is built into the firmware (cortex-m, riscv); of several models one for each, in their order",
    )
    several = parser.add_argument_group("several models")
    several.add_argument(
        "--priorities",
        metavar="N,N",
        help="the largest goes first (default: the first model has the highest)",
    )
    several.add_argument(
        "--periods",
        metavar="T,T",
        help="from one release of each to the next, such as 20ms,50ms (default: each is released once)",
    )
    add_require_option(what)
    add_json_option(results)


def extend(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Adds --uma-backends."""
    add_plugin_options(parser, words, attributes=False, installed=False)


def run(args: argparse.Namespace) -> None:
    """Writes the project, and prints the next step."""
    if len(args.models) > 1:
        _run_several(args)
        return
    (args.model,) = args.models
    _check_words(args)
    artifact = loaded(args)
    device = _device(args, artifact)
    sample = _sample(artifact, args.sample[0]) if args.sample else None
    folder = Path(args.output)
    check_name(args.name, args.board, others=bool(artifact.further))
    export(artifact, device, args.board, folder, sample, args.name)
    no_text = _add_words(args.model, folder) if has_decoder(args.board, artifact) else ""
    steps = folder / ("src/steps_steps.c" if args.board == "arduino" else "steps")
    foreign = [f"{path}: C from {args.model}" for path in [steps] if _has_c(artifact)]
    lines = [f"{text}, the code of whoever made it" for text in foreign]
    if no_text:
        lines.append(f"{folder}: decode takes and writes numbers of tokens, no text: {no_text}")
    _answer(args, [artifact], device, [str(steps)] if foreign else [], no_text, lines)


def _check_words(args: argparse.Namespace) -> None:
    """Raises ConfigError for words of several models with one."""
    for option in ("priorities", "periods"):
        if getattr(args, option) is not None:
            raise ConfigError(f"--{option} is for several models: leave it out, or name another")
    if len(args.sample) > 1:
        raise ConfigError(f"--sample is given {len(args.sample)} times for one model: give one")


def _run_several(args: argparse.Namespace) -> None:
    """A firmware with all models."""
    if args.board not in _FIRMWARE:
        raise ConfigError(
            f"--board {args.board} takes one model: several are for {' and '.join(_FIRMWARE)}; else export "
            "each with --board module --name NAME, or run `loadstone serve` under Linux"
        )
    for option, words in (("name", args.name != UNNAMED), ("require-proof", args.require_proof)):
        if words:
            raise ConfigError(
                f"--{option} is of one model, and {len(args.models)} are named: leave it out, or export each "
                "with --board module --name NAME"
            )
    if args.sample and len(args.sample) != len(args.models):
        raise ConfigError(
            f"--sample is wanted for each model, {len(args.models)} times, not {len(args.sample)}"
        )
    artifacts = [loaded(argparse.Namespace(**vars(args), model=model)) for model in args.models]
    device = _device(argparse.Namespace(**vars(args), model=args.models[0]), artifacts[0])
    samples = [_sample(a, path) for a, path in zip(artifacts, args.sample, strict=False)]
    models = shared_models(
        args.models,
        artifacts,
        samples or [None] * len(artifacts),
        args.priorities,
        args.periods,
    )
    folder = Path(args.output)
    export_several(models, device, args.board, folder)
    foreign = [
        (str(folder / f"steps/{one.name}_steps.c"), path)
        for one, path in zip(models, args.models, strict=True)
        if _has_c(one.artifact)
    ]
    lines = [f"{file}: C from {path}, the code of whoever made it" for file, path in foreign]
    _answer(args, artifacts, device, [file for file, _ in foreign], "", lines)


def _device(args: argparse.Namespace, artifact: Artifact) -> Device:
    device = load_config(args.device) if args.device else device_of_artifact(artifact)
    if device.fingerprint() != artifact.fingerprint:
        raise ArtifactError(
            f"{args.model} was compiled for device {artifact.device or 'unknown'!r}, not for "
            f"{device.name!r}"
        )
    return device


def _has_c(artifact: Artifact) -> bool:
    """Whether its author's C comes with it."""
    return any(isinstance(step, HostStep) and step.function for step in artifact.steps)


def _answer(
    args: argparse.Namespace,
    artifacts: Sequence[Artifact],
    device: Device,
    foreign: Sequence[str],
    no_text: str,
    lines: Sequence[str],
) -> None:
    then = _NEXT.get(args.board, "make -C {}").format(args.output)
    names = [one_line(name) for name in artifacts[0].names_at_work(device.name)]
    models = [one_line(artifact.name) for artifact in artifacts]
    value = {
        "folder": str(Path(args.output)),
        "model": models[0],
        "models": models,
        "board": args.board,
        "devices": names,
        "foreign_code": list(foreign),
        "next": then,
        "no_text": no_text,
    }
    about = f"{', '.join(models)} for {args.board} ({', '.join(names)})"
    answer(args, value, [*lines, f"{Path(args.output)}: {about}; next: {then}"])


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
    files = _model_files(artifact, device, sample, name)
    _write_templates(_templates(board, artifact), folder, name)
    drivers = [*BOARDS[board], *register_files(artifact, device)]
    if board == "arduino":
        folder = folder / "src"
        _copy_sources(folder, folder, drivers, _ARDUINO_FLAGS)
    else:
        _copy_sources(folder / "loadstone", folder / "loadstone/include", drivers, b"")
    for path, content in files.items():
        # Arduino passes only one folder to the compiler, src/
        target = folder / (path.replace("/", "_") if board == "arduino" else path)
        target.parent.mkdir(exist_ok=True)
        is_step = board == "arduino" and "/" in path
        write_whole(target, (_ARDUINO_FLAGS if is_step else b"") + content)


def export_several(models: Sequence[SharedModel], device: Device, board: str, folder: Path) -> None:
    """Writes a firmware with all of them, which share the device. Raises ArtifactError for a model
    that C alone cannot run."""
    files: dict[str, bytes] = {}
    for one in models:
        made = _model_files(one.artifact, device, one.sample, one.name)
        for path, content in made.items():
            text = path.endswith((".h", ".S"))
            own = own_sample(content.decode(), one.name).encode() if text else content
            files[own_sample(own_file(path, one.name), one.name)] = own
    align = max(dma_align(one.artifact) for one in models)
    for path, written in several_files(models, list(files), device, align).items():
        files[path] = written.encode()
    _write_templates(["firmware", board, "several"], folder, UNNAMED)
    drivers = [*BOARDS[board], *register_files(models[0].artifact, device)]
    _copy_sources(folder / "loadstone", folder / "loadstone/include", drivers, b"")
    for path, content in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        write_whole(folder / path, content)


def _model_files(
    artifact: Artifact, device: Device, sample: bytes | None, name: str
) -> dict[str, bytes]:
    """What is a model's own, by paths. Raises ArtifactError for one that C alone cannot run."""
    artifact, steps = for_the_board(artifact)
    operators = operator_set(artifact)
    own = {"steps/operators.c": operators} if operators else {}
    texts = {**named_files({**steps, **own}, name), **accelerator_files(artifact)}
    files = {path: text.encode() for path, text in texts.items()}
    files[named_file("model.lds", name)] = artifact.to_bytes()
    if sample is not None:
        files["sample.bin"] = sample
    has_sample = sample is not None
    said = header(artifact, device, sample=has_sample, steps=bool(steps), operators=bool(operators))
    files[named_file("model.h", name)] = named_text(said, name).encode()
    linked = assembly("model", "model.lds")
    linked += assembly("sample", "sample.bin") if has_sample else ""
    files[named_file("model.S", name)] = named_text(linked, name).encode()
    return files


def _write_templates(parts: Sequence[str], folder: Path, name: str) -> None:
    """The files that a project has as they are; a later part's in place of an earlier one's."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        templates = Path(str(resources.files("loadstone.boards"))) / part
        for file in templates.rglob("*"):
            if file.is_file():
                target = folder / file.relative_to(templates)
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, named_text(file.read_text(encoding="utf-8"), name))


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
    for file in public:
        if file.name not in ("lds_api.h", "lds_hal_sim.h"):
            write_whole(headers / file.name, file.read_bytes())
    for source in [*(root / "runtime").glob("*.[ch]"), *(root / "driver" / d for d in drivers)]:
        write_whole(folder / source.name, first + source.read_bytes())


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
