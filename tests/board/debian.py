# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels for other machines, with the one module that they lack.

In:   an architecture of Debian ("arm64", "armhf").
Out:  Kernel: the boot image, uio.ko, and uio_pdrv_genirq.ko built against Debian's own headers from
      Debian's own source.
Next: linux_image.py makes the initial file system.

Packages are downloaded and unpacked below build/board, through an apt state of its own: nothing is
installed, no architecture is added to the machine, no privileges are needed. A second run downloads
nothing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.board.tools import BUILD, locked, missing, need, run

__all__ = ["Kernel", "apt_state", "downloaded", "kernel", "unpack"]


@dataclass(frozen=True)
class Kernel:
    """What is booted, and the modules to insert, in order."""

    image: Path
    uio: Path
    uio_pdrv_genirq: Path


@dataclass(frozen=True)
class _Flavour:
    package: str  # linux-image-PACKAGE
    prefix: str  # of the cross-compiler
    compiler: str  # Debian's package of it


_FLAVOURS = {
    "arm64": _Flavour("arm64", "aarch64-linux-gnu-", "gcc-aarch64-linux-gnu"),
    "armhf": _Flavour("armmp", "arm-linux-gnueabihf-", "gcc-arm-linux-gnueabihf"),
}


def kernel(arch: str) -> Kernel:
    """The kernel of one architecture. Skips the test when a tool or the network is not there."""
    with locked(f"linux-{arch}"):
        return _kernel(arch)


def _kernel(arch: str) -> Kernel:
    flavour = _FLAVOURS[arch]
    root = BUILD / f"linux-{arch}"
    result = Kernel(root / "vmlinuz", root / "uio.ko", root / "uio_pdrv_genirq.ko")
    if all(path.is_file() for path in (result.image, result.uio, result.uio_pdrv_genirq)):
        return result
    need(flavour.prefix + "gcc", flavour.compiler)
    need("make", "make")
    need("xz", "xz-utils")
    with locked("apt"):
        debs = _download(arch, flavour)
        _source(debs["source"])
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    unpack(debs["image"], root / "image", "./boot/vmlinuz*", "*/kernel/drivers/uio/uio.ko")
    shutil.copy(next(root.glob("image/boot/vmlinuz*")), result.image)
    shutil.copy(next(root.glob("image/**/uio.ko")), result.uio)
    shutil.copy(
        _build_module(root, debs, flavour, with_table=arch != "armhf"), result.uio_pdrv_genirq
    )
    return result


# --- packages -------------------------------------------------------------------------------------
def _download(arch: str, flavour: _Flavour) -> dict[str, Path]:
    """The packages of one kernel, by their part: image, headers, common, kbuild, source."""
    need("apt-get", "apt, on a Debian machine")
    host = run(["dpkg", "--print-architecture"]).strip()
    apt = apt_state(host)
    meta = run(["apt-cache", *apt, "show", f"linux-image-{flavour.package}:{arch}"])
    depends = re.search(
        r"^Depends: linux-image-(\S+)-" + flavour.package + r"(?:-unsigned)? \(= ([^)]+)\)",
        meta,
        re.MULTILINE,
    )
    if not depends:
        missing(f"apt knows no kernel package for {arch}")
    abi, version = depends.groups()
    series = ".".join(abi.split(".")[:2])
    packages = {
        "image": f"linux-image-{abi}-{flavour.package}:{arch}",
        "headers": f"linux-headers-{abi}-{flavour.package}:{arch}",
        "common": f"linux-headers-{abi}-common",
        "kbuild": f"linux-kbuild-{series}:{host}",
        "source": f"linux-source-{series}",
    }
    debs = downloaded(apt, list(packages.values()), f"={version}")
    return dict(zip(packages, debs, strict=True))


def downloaded(apt: Sequence[str], packages: Sequence[str], version: str = "") -> list[Path]:
    """The packages' files, NAME:ARCHITECTURE each; what was downloaded before is taken."""
    folder = BUILD / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    absent = [package for package in packages if _kept(folder, package) is None]
    if absent:
        wanted = [f"{package}{version}" for package in absent]
        said = f"{', '.join(absent)} cannot be downloaded"
        run(["apt-get", *apt, "-qq", "download", *wanted], cwd=folder, or_skip=said)
    return [deb for package in packages if (deb := _kept(folder, package)) is not None]


def _kept(folder: Path, package: str) -> Path | None:
    """The package where it was downloaded before; one for all architectures is named so."""
    name, _, arch = package.partition(":")
    return max(
        (*folder.glob(f"{name}_*_{arch or '*'}.deb"), *folder.glob(f"{name}_*_all.deb")),
        default=None,
    )


def apt_state(host: str) -> list[str]:
    """Options that give apt lists of its own, from the machine's mirror, for the architectures of
    the boards."""
    root = BUILD / "apt"
    release = dict(
        re.findall(r'^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE)
    )
    suite = release.get("VERSION_CODENAME", "")
    form = "$(CREATED_BY)|$(CODENAME)|$(COMPONENT)|$(REPO_URI)"
    targets = [
        line.split("|") for line in run(["apt-get", "indextargets", "--format", form]).splitlines()
    ]
    mirror = next(
        (uri for by, name, part, uri in targets if (by, name, part) == ("Packages", suite, "main")),
        None,
    )
    if release.get("ID") != "debian" or mirror is None:
        missing(
            "Debian's kernels are fetched with apt, on a Debian machine whose sources name "
            "its release: apt-get update"
        )
    options = {
        "Dir::State": root,
        "Dir::State::lists": root / "lists",
        "Dir::State::status": root / "status",
        "Dir::Cache": root / "cache",
        # Containers' apt is told to keep none: it would read the lists anew for each package.
        "Dir::Cache::pkgcache": "pkgcache.bin",
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
        "Dir::Etc::sourcelist": root / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
    }
    apt = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    apt += [
        word
        for name in dict.fromkeys([host, *_FLAVOURS])
        for word in ("-o", f"APT::Architectures::={name}")
    ]
    stamp = root / "updated"
    if not stamp.exists():
        for folder in ("lists/partial", "cache/archives/partial"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "status").touch()
        (root / "sources.list").write_text(f"deb {mirror} {suite} main\n")
        run(
            ["apt-get", *apt, "-qq", "update"],
            or_skip="apt cannot fetch the package lists of the boards' architectures",
        )
        stamp.touch()
    return apt


def unpack(deb: Path, folder: Path, *patterns: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as tar:
        run(["tar", "-x", "-C", folder, "--wildcards", *patterns], stdin=tar.stdout)
        assert tar.stdout is not None
        tar.stdout.read()


# --- the module -----------------------------------------------------------------------------------
def _build_module(
    root: Path, debs: dict[str, Path], flavour: _Flavour, *, with_table: bool
) -> Path:
    tree = root / "headers"
    for part in ("headers", "common", "kbuild"):
        unpack(debs[part], tree, "*")
    headers = next(tree.glob(f"usr/src/linux-headers-*-{flavour.package}"))
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src", str(tree / "usr/src")))
    module = root / "module"
    module.mkdir()
    text = _source(debs["source"])
    # the host's modpost has a 64-bit idea of the table that this line declares; of_id= names the
    # node instead
    if not with_table:
        text = re.sub(r"^MODULE_DEVICE_TABLE\(of,.*\n", "", text, flags=re.MULTILINE)
    (module / "uio_pdrv_genirq.c").write_text(text)
    (module / "Kbuild").write_text("obj-m := uio_pdrv_genirq.o\n")
    cross = [f"CROSS_COMPILE={flavour.prefix}", f"CC={flavour.prefix}gcc"]
    run(["make", "-s", "-C", headers, f"M={module}", *cross, "modules"])
    return module / "uio_pdrv_genirq.ko"


def _source(deb: Path) -> str:
    """The kernel's own source of the module uio_pdrv_genirq, unmodified."""
    kept = BUILD / "uio_pdrv_genirq.c"
    if not kept.is_file():
        name = f"{deb.name.partition('_')[0]}"
        with (
            subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as outer,
            subprocess.Popen(
                ["tar", "-xO", "--wildcards", f"./usr/src/{name}.tar.xz"],
                stdin=outer.stdout,
                stdout=subprocess.PIPE,
            ) as xz,
            subprocess.Popen(
                ["xz", "-dc", "-T0"],
                stdin=xz.stdout,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as inner,
        ):
            # The first hit is enough: the rest of the archive is not read.
            text = run(
                ["tar", "-xO", "--occurrence=1", f"{name}/drivers/uio/uio_pdrv_genirq.c"],
                stdin=inner.stdout,
            )
            for process in (inner, xz, outer):
                process.kill()
        kept.write_text(text)
    return kept.read_text()
