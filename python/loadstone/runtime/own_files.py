# SPDX-License-Identifier: Apache-2.0
"""The models that this user has compiled on this machine: their code may run without --trust.

In:   an artifact.
Out:  its digest, stored in the user's own state folder; whether it is stored there.
Next: external_steps.py checks it before it runs code of a file; compiled.py stores it on saving.

`$XDG_STATE_HOME/loadstone` (`~/.local/state/loadstone`) holds a random key and a line for each
artifact, the HMAC-SHA-256 of its bytes: without the key nobody can create a line, and a line is
valid for one file only. Folder and files must belong to the user and be inaccessible to others;
otherwise, or if they cannot be created, every file is treated like one from elsewhere.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from loadstone.artifact.format import Artifact
from loadstone.files import write_whole

__all__ = ["is_own", "remember"]

_KEY_BYTES = 32
#: Of so many lines the first half is forgotten.
_MAX_LINES = 4096


def remember(artifact: Artifact) -> None:
    """Makes an artifact known that this process has compiled. Where that cannot be kept, it is not
    known: no error."""
    with contextlib.suppress(OSError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = _key(folder) or _new_key(folder)
        if key is None:
            return
        lines = _lines(folder)
        line = _line(key, artifact)
        if line in lines:
            return
        if len(lines) >= _MAX_LINES:
            kept = "".join(f"{old}\n" for old in lines[-_MAX_LINES // 2 :])
            write_whole(folder / "known", kept)
            os.chmod(folder / "known", 0o600)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        file = os.open(folder / "known", flags, 0o600)
        try:
            os.write(file, f"{line}\n".encode())
        finally:
            os.close(file)


def is_own(artifact: Artifact) -> bool:
    """Whether this user has compiled exactly this artifact here."""
    try:
        folder = _folder()
        key = _key(folder)
        return key is not None and _line(key, artifact) in _lines(folder)
    except OSError:
        return False


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # as the XDG specification has it
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(base) / "loadstone"


def _line(key: bytes, artifact: Artifact) -> str:
    return hmac.new(key, artifact.to_bytes(), "sha256").hexdigest()


def _key(folder: Path) -> bytes | None:
    data = _private(folder, "key")
    return data if data is not None and len(data) == _KEY_BYTES else None


def _new_key(folder: Path) -> bytes | None:
    """Whole from its first moment; of two processes that make one, the first one's."""
    made = folder / f"key.{secrets.token_hex(8)}"
    file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, secrets.token_bytes(_KEY_BYTES))
    finally:
        os.close(file)
    with contextlib.suppress(FileExistsError):
        os.link(made, folder / "key")
    made.unlink()
    return _key(folder)


def _lines(folder: Path) -> list[str]:
    data = _private(folder, "known")
    return [] if data is None else data.decode("ascii", "replace").split("\n")[:-1]


def _private(folder: Path, name: str) -> bytes | None:
    """The bytes of a file that nobody else may have written or read; None where it is not there, or
    not so."""
    if not _is_private(os.lstat(folder)):
        return None
    try:
        file = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with open(file, "rb") as opened:
        about = os.fstat(file)
        return opened.read() if _is_private(about) and stat.S_ISREG(about.st_mode) else None


def _is_private(about: os.stat_result) -> bool:
    return about.st_uid == os.getuid() and not about.st_mode & 0o077
