# SPDX-License-Identifier: Apache-2.0
"""Files that a user names: written completely or not at all, and read as hostile input.

In:   a path; bytes, a text, or a block that writes to an open file.
Out:  the file; the content of JSON or of an archive of arrays, within limits.
Next: all modules that read or write artifacts, arrays, models, vectors, costs, reports, dumps.

Bytes are written to a temporary file beside the target and flushed to the disk (fsync) before the
file is renamed. A full disk, an interrupt or a second writer thus leaves the old file or a complete
new one. A killed process leaves its temporary file, which the next writer of that name removes
because its lock is free. The sizes of an archive's arrays are checked before it is unpacked,
because a few kilobytes can expand to terabytes.
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

#: The values of JSON: None, a bool, a number, a text, a list or an object of these.
JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, JsonValue]

#: The largest total size of the arrays of one file.
MAX_ARRAYS_BYTES = 8 << 30
_MOST_LINKS = 40  # as the kernel follows
#: The largest number of bytes that are read from a pipe or a device.
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
    a link of another user is refused, because that user would choose the file to overwrite. A path
    that is not a regular file (a device, a pipe) cannot be replaced, and is written directly.
    Raises OSError that names `path`.
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
    """Renames a complete file to `target`, removes an incomplete one, and removes those of killed
    processes."""
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
    """A new locked file, and its name; the process's mask determines its readers."""
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
    """Whether a path is a link, or passes through one, that another user created (root
    excepted)."""
    here, steps = os.fspath(path), 0
    while os.path.islink(here) and steps < _MOST_LINKS:
        if os.lstat(here).st_uid not in (os.geteuid(), 0):
            return True
        here, steps = os.path.join(os.path.dirname(here), os.readlink(here)), steps + 1
    return False


def check_places(paths: Iterable[str | Path | None], error: type[LoadstoneError]) -> None:
    """Checks whether files can be written at these paths, before minutes of work. Raises
    `error`."""
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
    """The bytes of a file. There is a limit for other than regular files, such as pipes, because a
    device may deliver bytes without end. Raises OSError that names `path`."""
    with open(path, "rb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read()
        data = file.read(MAX_STREAM_BYTES + 1)
    if len(data) > MAX_STREAM_BYTES:
        more = f"it is no regular file and gives more than {MAX_STREAM_BYTES >> 20} MiB"
        raise OSError(errno.EFBIG, more, os.fspath(path))
    return data


def _mode(path: str | Path) -> int | None:
    """Type and permissions of a path; None if it does not exist. Raises OSError for a loop."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def is_file(path: str | Path) -> bool:
    """Whether a file can be read at a path; False for invalid names and loops of links."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def parsed_json(text: str | bytes, where: str, error: type[LoadstoneError]) -> JsonValue:
    """JSON whose numbers fit float64. Raises `error` that begins with `where`."""
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
        # the exceptions of a damaged archive are not documented: zlib.error, RuntimeError, EOFError
        # ...
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
