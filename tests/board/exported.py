# SPDX-License-Identifier: Apache-2.0
"""A firmware as `loadstone export` writes it, built with -Werror and run on its emulated board; and
the cases of guest/run_cases.c on the same port.

In:   a network, the kind of board.
Out:  what the firmware printed; the arguments that boot the cases.
Next: several.py has several networks; test_cortex_m.py, test_riscv.py, test_networks.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from loadstone.artifact.format import Artifact
from loadstone.cli import main
from loadstone.commands.exported_accelerators import accelerator_declarations, accelerator_files
from tests.board import build
from tests.board.build import TOOLCHAINS
from tests.board.emulator import MACHINES, boot
from tests.board.models import Network
from tests.board.tools import ROOT, need, run
from tests.cached_cc import make_with_cache

__all__ = [
    "BOARDS",
    "FirmwareBoard",
    "cases_of",
    "check_exported",
    "exported_lines",
    "firmware",
    "others_irq",
]


@dataclass(frozen=True)
class FirmwareBoard:
    """A board's name for `loadstone export`, its machine and compiler; the flags that let the
    firmware print; the words before the firmware, and behind it, that boot it; words for make."""

    exports: str
    machine: str
    toolchain: str
    prints: str
    boots: str
    arguments: tuple[str, ...] = ()
    make: tuple[str, ...] = ()


_PRINTS_TO_UART = "-DBOARD_UART=0x10000000u -DBOARD_EXIT=0x00100000u"
BOARDS = {
    "cortex-m": FirmwareBoard(
        "cortex-m",
        "mps2-an385",
        "cortex-m3",
        "-DBOARD_SEMIHOSTING",
        "-kernel",
        ("-semihosting-config", "enable=on,target=native,chardev=console"),
    ),
    "riscv": FirmwareBoard("riscv", "virt-riscv64", "riscv64-firmware", _PRINTS_TO_UART, "-bios"),
    "riscv32": FirmwareBoard(
        "riscv",
        "virt-riscv32",
        "riscv32-firmware",
        f"{_PRINTS_TO_UART} -isystem/usr/include/newlib",
        "-bios",
        make=("CROSS_COMPILE=riscv64-unknown-elf-", "ARCH=rv32imac", "ABI=ilp32"),
    ),
}


#: What `loadstone export` says of a model, for the cases: memory for any.
_MODEL = """\
#ifndef MODEL_H
#define MODEL_H
#include "loadstone.h"
#define MODEL_REGISTER_BASE {registers:#x}u
#define MODEL_BUS_OFFSET 0u
#define MODEL_DMA_BYTES 0x1000000u
#define MODEL_DMA_ALIGN 4096u
{accelerators}#endif
"""
_PROJECT = ROOT / "python/loadstone/boards"
_GUEST = ROOT / "tests/board/guest"


def firmware(board: str, network: Network, runs: int) -> list[str | Path]:
    """The arguments that boot the cases on the exported project's own port, with a network in its
    flash."""
    model, inputs = network.artifact.to_bytes(), network.inputs.tobytes()
    return cases_of(board, model, inputs, f"-DRUNS={runs}u", of=network.artifact)


def cases_of(
    board: str, model: bytes, inputs: bytes, *defined: str, of: Artifact | None = None
) -> list[str | Path]:
    """The same of what guest/firmware.c takes; defined: its macros; of: the model, which may have
    further devices."""
    kind = BOARDS[board]
    machine = MACHINES[kind.machine]
    data = build.data(kind.toolchain, model=model, inputs=inputs)
    declared = accelerator_declarations(of) if of else ""
    header = _MODEL.format(registers=machine.registers, accelerators=declared)
    # an object's name holds where its headers are, and not what these say
    folder = data.parent / hashlib.sha256(header.encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    (folder / "model.h").write_text(header)
    further = []
    for name, text in (accelerator_files(of) if of else {}).items():
        further.append(data.parent / Path(name).name)
        further[-1].write_text(text)
    sources = [
        *build.RUNTIME,
        *build.drivers("hal_baremetal.c"),
        *(_PROJECT / "firmware" / name for name in ("device.c", "print.c", "libc.c")),
        *(_PROJECT / kind.exports / name for name in ("board.c", "startup.c")),
        _GUEST / "run_cases.c",
        _GUEST / "share_cases.c",
        _GUEST / "firmware.c",
        *further,
        data,
    ]
    flags = [
        *(f"-I{each}" for each in (folder, _PROJECT / "firmware")),
        *kind.prints.split(),
        f"-DBOARD_IRQ={machine.line}",
        others_irq(board),
        *defined,
        *("-T", _PROJECT / kind.exports / "link.ld", "-Wl,--wrap=lds_baremetal_interrupt"),
    ]
    return [
        kind.boots,
        build.executable(kind.toolchain, "firmware", sources, flags),
        *kind.arguments,
    ]


def others_irq(board: str) -> str:
    """The flag that gives a model's devices behind the first one their interrupts."""
    return f"-DBOARD_ACCELERATORS_IRQ={MACHINES[BOARDS[board].machine].line + 1}"


def check_exported(
    network: Network,
    folder: Path,
    board: str = "cortex-m",
    plugins: Sequence[Path] = (),
    flags: str = "",
) -> None:
    """Output and cycles of the first input are those of a native run."""
    assert exported_lines(network, folder, board=board, plugins=plugins, flags=flags) == [
        "output " + " ".join(str(byte) for byte in network.outputs[0]),
        f"cycles {network.cycles[0]}",
    ]


def exported_lines(
    network: Network,
    folder: Path,
    *make: str,
    board: str = "cortex-m",
    order: str = "program",
    plugins: Sequence[Path] = (),
    wrong: Sequence[str] = (),
    registers: int | None = None,
    flags: str = "",
) -> list[str]:
    """What an exported project prints. make: more words for it. order, wrong: of the device.
    registers: where the firmware looks for it, if elsewhere than it is."""
    kind = BOARDS[board]
    machine, chain = MACHINES[kind.machine], TOOLCHAINS[kind.toolchain]
    need(chain.prefix + "gcc", chain.packages)
    need("make", "make")
    network.artifact.save(folder / "model.lds")
    np.savez(folder / "in.npz", in0=network.inputs[:1])
    project = folder / "firmware"
    words = [
        *("export", folder / "model.lds", "--board", kind.exports, "-o", project),
        *("--sample", folder / "in.npz"),
        *(word for plugin in plugins for word in ("--uma-backends", plugin)),
    ]
    assert main([str(word) for word in words]) == 0
    flags = (
        f"-Werror {kind.prints} -DBOARD_REGISTERS={registers or machine.registers:#x}u "
        f"-DBOARD_IRQ={machine.line} {flags}"
    )
    cached = make_with_cache(chain.prefix + "gcc")
    run(["make", "-C", project, f"FLAGS={flags}", *kind.make, *make, cached])
    with boot(
        kind.machine,
        [kind.boots, project / "model.elf", *kind.arguments],
        device=network.device,
        order=order,
        plugins=plugins,
        faults=wrong,
    ) as running:
        if wrong or registers:  # the firmware's exit status is the emulator's
            with pytest.raises(AssertionError, match="QEMU ended with"):
                running.finish()
            return running.lines
        return running.finish()
