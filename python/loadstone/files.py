# SPDX-License-Identifier: Apache-2.0
"""Files that a user names: written whole or not at all, and read as hostile.

In:   a path; bytes, a text, or a block that writes to an open file.
Out:  the file; what stands in JSON or in an archive of arrays, within limits.
Next: whatever reads or writes artifacts, arrays, models, vectors, costs, reports, dumps.

Written bytes go to a temporary file beside the target, then to the disk (fsync), and only then the
name changes over. A full disk, an interrupt or a second writer leaves the old file, or a whole
new one; a process that is killed leaves its temporary file, which the next writer of that name
removes: it is locked while it is written. An archive says how large its arrays are before it is
unpacked: a few kilobytes of it can stand for terabytes.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from loadstone.errors import LoadstoneError
from loadstone.numerics import Array

__all__ = [
    "MAX_ARRAYS_BYTES",
    "JsonObject",
    "JsonValue",
    "check_places",
    "is_file",
    "parsed_json",
    "read_whole",
    "source_folder",
    "unpacked_arrays",
    "write_whole",
    "written_whole",
]

#: What JSON holds: None, a bool, a number, a text, a list or an object of these.
JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, JsonValue]

#: What the arrays of one file may take in memory, all together.
MAX_ARRAYS_BYTES = 8 << 30
_MOST_LINKS = 40  # as the kernel follows
#: What is read of a pipe or a device.
MAX_STREAM_BYTES = 512 << 20


def write_whole(path: str | Path, content: bytes | str) -> None:
    """Writes bytes, or a text as UTF-8. It is on the disk when this returns.

    Raises OSError that names `path`.
    """
    with written_whole(path) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def written_whole(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends without an exception.

    A symbolic link of this user, or of root, stays a link, and the file that it names is replaced;
    that of another user, who would choose what is overwritten, is refused. What is no regular file
    (a device, a pipe) cannot be replaced: it is written as it is. Raises OSError that names `path`.
    """
    try:
        if foreign_link(path):
            raise PermissionError(errno.EPERM, FOREIGN_LINK)
        target = os.path.realpath(path, strict=False)
        old = _mode(path)
        if old is not None and not stat.S_ISREG(old):
            with open(path, "wb") as file:
                yield file
            return
        with _replacing(target, old) as file:
            yield file
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


@contextmanager
def _replacing(target: str, old: int | None) -> Iterator[BinaryIO]:
    """The name of a file that is complete goes to `target`; one that is not is removed, and so are
    those of processes that were killed."""
    folder, name = os.path.split(target)
    begin = f".{name[:64]}."
    _remove_leftovers(folder or ".", begin)
    file, temporary = _locked_file(os.path.join(folder, begin))
    with file:
        try:
            yield file
            file.flush()
            if old is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(old))
            os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _locked_file(begin: str) -> tuple[BinaryIO, str]:
    """A new file that is locked, and its name: the process's mask decides who may read it."""
    import secrets  # here: it brings what a command that only reads never needs

    while True:
        name = f"{begin}{secrets.token_hex(8)}.part"
        file = open(name, "xb")  # noqa: SIM115
        with suppress(OSError):  # a file system without locks: nobody removes it, then
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file, name
        file.close()  # another process took it for a leftover before it was locked


def _remove_leftovers(folder: str, begin: str) -> None:
    """Temporary files for one name that no process writes any more."""
    whole = re.compile(re.escape(begin) + r"[0-9a-f]{16}\.part")
    with suppress(OSError):
        for name in filter(whole.fullmatch, os.listdir(folder)):
            with suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(file.name)


#: Why such a path is not written.
FOREIGN_LINK = "it is a link of another user, who would choose what is overwritten"


def foreign_link(path: str | Path) -> bool:
    """Whether a path is a link, or leads over one, that another user has made (root's are no
    other's)."""
    here, steps = os.fspath(path), 0
    while os.path.islink(here) and steps < _MOST_LINKS:
        if os.lstat(here).st_uid not in (os.geteuid(), 0):
            return True
        here, steps = os.path.join(os.path.dirname(here), os.readlink(here)), steps + 1
    return False


def check_places(paths: Iterable[str | Path | None], error: type[LoadstoneError]) -> None:
    """Whether files can be written there, asked before minutes of work. Raises `error`."""
    for path in (Path(path) for path in paths if path):
        folder = Path(os.path.realpath(path)).parent
        if foreign_link(path):
            why = FOREIGN_LINK
        elif path.is_dir():
            why = "it is a folder"
        elif not folder.is_dir():
            why = f"{folder} is no folder"
        elif not path.exists() and not os.access(folder, os.W_OK):
            why = f"{folder} takes no new files"
        else:
            continue
        raise error(f"{path} cannot be written: {why}")


def read_whole(path: str | Path) -> bytes:
    """The bytes of a file. What is no regular file, such as a pipe, has a limit: a device may give
    bytes for ever. Raises OSError that names `path`."""
    with open(path, "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read()
        data = file.read(MAX_STREAM_BYTES + 1)
    if len(data) > MAX_STREAM_BYTES:
        more = f"it is no regular file and gives more than {MAX_STREAM_BYTES >> 20} MiB"
        raise OSError(errno.EFBIG, more, os.fspath(path))
    return data


def _mode(path: str | Path) -> int | None:
    """Type and permissions of what is there; None for nothing. Raises OSError for a loop."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def is_file(path: str | Path) -> bool:
    """Whether a file can be read there; False for names that none can have, and loops of links."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def parsed_json(text: str | bytes, where: str, error: type[LoadstoneError]) -> JsonValue:
    """JSON with numbers that float64 holds. Raises `error` that begins with `where`."""
    try:
        return json.loads(text, parse_constant=_number, parse_int=_integer, parse_float=_number)
    except RecursionError:
        raise error(f"{where}: it is nested too deeply to be read") from None
    except ValueError as cause:  # JSONDecodeError and UnicodeDecodeError are ValueErrors, too
        raise error(f"{where}: it is no JSON that can be read: {cause}") from None


def _number(text: str) -> float:
    value = float(text.replace("Infinity", "inf"))
    if not math.isfinite(value):
        raise ValueError(f"{text} is no finite number")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 300:  # Python's own limit is 4,300 digits, float64's about 308
        raise ValueError(f"an integer of {len(digits)} digits is too large")
    return int(digits)


def unpacked_arrays(
    source: str | Path | bytes, where: str, error: type[LoadstoneError]
) -> dict[str, Array]:
    """Every array of an .npz archive, or the one of an .npy file as `in0`; no pickled objects.
    Each has the shape and type that the file gives it.

    source: a path, or the file's bytes. Raises `error` that begins with `where`, OSError for a file
    that cannot be opened.
    """
    import zipfile

    if not isinstance(source, bytes) and not is_file(source):  # a pipe, a device
        source = read_whole(source)
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as file:
        try:
            is_archive = zipfile.is_zipfile(file)
            file.seek(0)
            if not is_archive:
                return {"in0": _array(file)}
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _limit(sum(member.file_size for member in members))
                arrays = {}
                for member in members:
                    with archive.open(member) as opened:
                        arrays[member.filename.removesuffix(".npy")] = _array(opened)
                return arrays
        except _TooLarge as cause:
            raise error(f"{where}: {cause}") from None
        # what a damaged archive raises is listed nowhere: zlib.error, RuntimeError, EOFError ...
        except Exception:
            raise error(
                f"{where} is no .npz file of arrays: numpy.savez(path, in0=samples) makes one"
            ) from None


class _TooLarge(Exception):
    pass


def _limit(size_bytes: int) -> None:
    if size_bytes > MAX_ARRAYS_BYTES:
        raise _TooLarge(
            f"its arrays take {size_bytes:.3g} bytes, more than {MAX_ARRAYS_BYTES >> 30} GiB: "
            "split it into several files"
        )


def _array(file: Any) -> Array:
    """One array in .npy form; its header is believed only as far as the limit."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0}
    reader = readers.get(version, np.lib.format.read_array_header_2_0)
    shape, _, dtype = reader(file)
    if dtype.hasobject:
        raise ValueError("pickled objects are not read")
    count = 1
    for extent in shape:
        count *= int(extent)
    _limit(count * max(dtype.itemsize, 1))
    file.seek(0)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def source_folder() -> Path:
    """The folder of the package's own runtime/ and driver/: `csrc`, or a checkout's root. Raises
    LoadstoneError."""
    package = Path(str(resources.files("loadstone")))
    for folder in (package / "csrc", package.parent.parent):
        if (folder / "runtime/include/loadstone.h").is_file():
            return folder
    raise LoadstoneError("the C sources of the runtime are not installed beside the package")
