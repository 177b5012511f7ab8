# SPDX-License-Identifier: Apache-2.0
"""What Debian's kernel boots on a board: an initial file system of four files, and a device tree
with the accelerator.

In:   a Kernel, the test program, a model and its inputs.
Out:  the arguments that make QEMU boot them.
Next: emulator.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.board.debian import Kernel
from tests.board.emulator import FRAGMENTS, MACHINES
from tests.board.tools import ROOT, need, run, work

__all__ = ["arguments", "device_tree", "initramfs", "programs", "tree_before"]

_FOLDER, _PROGRAM = 0o40755, 0o100755
_SOURCES = ROOT / "tests/board/guest/linux"
_ONE_CELL = "#address-cells = <1>;\n\t#size-cells = <1>;"


def initramfs(files: dict[str, bytes]) -> bytes:
    """A cpio archive ("newc", Documentation/driver-api/early-userspace/buffer-format.rst) of these
    files at the root."""
    entries = [(name, _FOLDER, b"") for name in ("dev", "proc", "sys")]
    entries += [(name, _PROGRAM, content) for name, content in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    archive = bytearray()
    for inode, (name, mode, content) in enumerate(entries, 1):
        path = name.encode() + b"\0"
        numbers = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        archive += b"070701" + b"".join(b"%08x" % number for number in numbers) + path
        archive += bytes(-len(archive) % 4) + content
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def device_tree(machine: str, *, second: bool = False) -> Path:
    """The machine's device tree with the accelerator in it; second: and another one."""
    need("dtc", "device-tree-compiler")
    folder = work() / machine
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "board.dtb"
    if machine == "zcu102":  # QEMU has no device tree of its own for it
        run(["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", out, _SOURCES / "zcu102.dts"])
        return out
    if machine in FRAGMENTS:
        return _with_fragment(machine, folder)
    base, overlay, m = folder / "machine.dtb", folder / "overlay.dtbo", MACHINES[machine]
    need(m.qemu, "qemu-system-arm")
    size = f"{m.memory_bytes >> 20}M"
    run(
        [
            m.qemu,
            "-machine",
            f"{m.machine},dumpdtb={base}",
            "-cpu",
            m.cpu or "max",
            "-m",
            size,
            "-nodefaults",
            "-display",
            "none",
        ]
    )
    overlays = [overlay, *([folder / "second.dtbo"] if second else [])]
    for made, source in zip(overlays, ("virt.dtso", "second.dtso"), strict=False):
        run(["dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", made, _SOURCES / source])
    out = folder / "two.dtb" if second else out
    run(["fdtoverlay", "-i", base, "-o", out, *overlays])
    return out


def tree_before(machine: str) -> Path:
    """A tree that has none of the nodes of driver/devicetree's fragment: the ZCU102's with this
    board's memory, and as many cells to an address as the fragment has."""
    folder = work() / machine
    folder.mkdir(parents=True, exist_ok=True)
    fragment = ROOT / f"driver/devicetree/{machine}.dts"
    text = (_SOURCES / "zcu102.dts").read_text()
    for node in ("reserved-memory", "loadstone@a0000000"):
        text, found = re.subn(rf"\n\t{node} \{{.*?\n\t\}};\n", "\n", text, flags=re.DOTALL)
        assert found == 1
    size = MACHINES[machine].memory_bytes
    text = text.replace("reg = <0 0 0 0x10000000>;", f"reg = <0 0 0 {size:#x}>;")
    if "#address-cells = <1>;" in fragment.read_text():
        text = text.replace("#address-cells = <2>;\n\t#size-cells = <2>;", _ONE_CELL)
        text = re.sub(r"<0 (\w+) 0 (\w+)>", r"<\1 \2>", text)
    (folder / "base.dts").write_text(text)
    out = folder / "base.dtb"
    run(["dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", out, folder / "base.dts"])
    return out


def _with_fragment(machine: str, folder: Path) -> Path:
    """driver/devicetree's fragment as it is on the tree of `tree_before`."""
    fragment, out = ROOT / f"driver/devicetree/{machine}.dts", folder / "board.dtb"
    overlay = folder / "fragment.dtbo"
    run(["dtc", "-q", "-@", "-I", "dts", "-O", "dtb", "-o", overlay, fragment])
    run(["fdtoverlay", "-i", tree_before(machine), "-o", out, overlay])
    return out


def arguments(
    machine: str, kernel: Kernel, program: Path, model: bytes, inputs: bytes, *options: str
) -> list[str | Path]:
    """options: what the test program reads on the kernel's command line, such as "runs=3"."""
    files = {"model.lds": model, "inputs": inputs}
    return _arguments(machine, kernel, program, files, device_tree(machine), *options)


def programs(
    machine: str,
    kernel: Kernel,
    init: Path,
    chosen: Sequence[tuple[Path, bytes]],
    tree: Path | None = None,
) -> list[str | Path]:
    """The same for exported programs with their inputs, on two devices, or those of `tree`."""
    files: dict[str, bytes] = {}
    for k, (program, inputs) in enumerate(chosen):
        files |= {f"program{k}": program.read_bytes(), f"inputs{k}": inputs}
    tree = tree or device_tree(machine, second=True)
    return _arguments(machine, kernel, init, files, tree, f"programs={len(chosen)}")


def _arguments(
    machine: str, kernel: Kernel, init: Path, more: dict[str, bytes], tree: Path, *options: str
) -> list[str | Path]:
    files = {
        "init": init.read_bytes(),
        "uio.ko": kernel.uio.read_bytes(),
        "uio_pdrv_genirq.ko": kernel.uio_pdrv_genirq.read_bytes(),
        **more,
    }
    archive = work() / machine / "initramfs"
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(initramfs(files))
    line = " ".join([f"console={MACHINES[machine].console}", "quiet", "panic=-1", *options])
    return ["-kernel", kernel.image, "-initrd", archive, "-dtb", tree, "-append", line]
