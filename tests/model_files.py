# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.model_files`, as `make models` calls it: the public models of tests and benches,
by address and SHA-256.

In:   tests/models.tsv; ../shared/models, or the folder that LOADSTONE_SHARED names; the network.
Out:  where every model is; a folder `models` in the cache with those that were fetched, which
      LOADSTONE_SHARED may name afterwards; one line for what is lacking, and exit status 1.
Next: `make bench`. Golden outputs are not published, so that tests which need them stay skipped.

Nothing is fetched that is there: a copy is known by its digest, whatever its name. What arrives
with another digest is not kept. `--table FILE` writes the table from a manifest. No
address of the table has been tried yet from a machine with a network: `--from` names another
server.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.errors import LoadstoneError
from loadstone.files import write_whole
from tests.conftest import ROOT, SHARED

__all__ = ["TABLE", "ModelFile", "collected", "fetched", "main", "read_table", "table_text"]

TABLE = ROOT / "tests/models.tsv"
_SERVER = "https://raw.githubusercontent.com"
_HEAD = """\
# The public models of tests and benches: python -m tests.model_files --table FILE
# file, SHA-256, bytes, licence, repository, commit, path in it. Without a commit the path is a blob
# of an earlier one; without a path the file was made, as the last column says.
"""
_BLOBS = "https://api.github.com"
_RAW = {"Accept": "application/vnd.github.raw+json"}  # else a blob comes as JSON
_TIMEOUT_S = 30


@dataclass(frozen=True)
class ModelFile:
    """A row. commit, path: empty where the file was made, as `how` says."""

    file: str
    sha256: str
    size_bytes: int
    licence: str
    repository: str
    commit: str
    path: str
    how: str = ""

    def address(self, server: str = _SERVER) -> str:
        """Of the bytes; empty where nobody publishes them."""
        if self.path and not self.commit:
            server = _BLOBS if server == _SERVER else server
            return f"{server}/repos/{self.repository}/git/blobs/{self.path}"
        return f"{server}/{self.repository}/{self.commit}/{self.path}" if self.path else ""


def table_text(manifest: Sequence[Mapping[str, object]]) -> str:
    """The table of a manifest's models."""
    lines = []
    for entry in sorted(manifest, key=lambda entry: str(entry["file"])):
        made = entry.get("source_path") is None
        is_blob = not made and entry["provenance"] != "HEAD"
        path = entry["source_blob"] if is_blob else entry.get("source_path")
        columns = [
            entry["file"],
            entry["sha256"],
            entry["bytes"],
            entry["licence"],
            str(entry["source_repo"]).removeprefix("github.com/"),
            "" if made or is_blob else entry["repo_head"],
            "" if made else path,
            entry.get("how", "") if made else "",
        ]
        lines.append("\t".join(str(column) for column in columns).rstrip("\t"))
    return _HEAD + "\n".join(lines) + "\n"


def read_table(path: Path = TABLE) -> list[ModelFile]:
    """The rows."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, digest, size, *rest = line.split("\t")
            rows.append(ModelFile(name, digest, int(size), *rest, *[""] * (4 - len(rest))))
    return rows


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def collected(rows: Iterable[ModelFile], folders: Sequence[Path]) -> dict[str, Path]:
    """Where copies are, by the name in the table. Files of another size are not read."""
    sizes: dict[int, list[Path]] = {}
    for folder in folders:
        for path in sorted(folder.glob("*")) if folder.is_dir() else ():
            if path.is_file():
                sizes.setdefault(path.stat().st_size, []).append(path)
    found = {}
    for row in rows:
        for path in sizes.get(row.size_bytes, ()):
            if digest_of(path) == row.sha256:
                found[row.file] = path
                break
    return found


def fetched(row: ModelFile, server: str) -> bytes:
    """The bytes. Raises LoadstoneError where they are others, or are not published there;
    ConnectionError where nobody answers."""
    if not row.path:
        raise LoadstoneError(f"not published ({row.how})")
    address = row.address(server)
    try:
        request = urllib.request.Request(address, headers=_RAW)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read(row.size_bytes + 1)
    except urllib.error.HTTPError as error:
        raise LoadstoneError(f"{address} answers {error.code}") from None
    except OSError as error:
        raise ConnectionError(f"no answer from {server}: {error}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != row.sha256:
        raise LoadstoneError(
            f"{address} has other bytes, of SHA-256 {found[:12]}... and not {row.sha256[:12]}..."
        )
    return data


def fill(
    rows: Sequence[ModelFile], shared: Path, cache: Path, server: str, say: Callable[[str], None]
) -> dict[str, list[str]]:
    """Makes `cache` whole, as far as it can. Returns why -> the files that are lacking."""
    there = collected(rows, [cache]) | collected(rows, [shared])
    if all(there.get(row.file) == shared / row.file for row in rows):
        say(f"{len(rows)} models in {shared}: nothing to fetch")
        return {}
    lacking: dict[str, list[str]] = {}
    silent = ""
    cache.mkdir(parents=True, exist_ok=True)
    for row in rows:
        copy = there.get(row.file)
        if copy == cache / row.file:
            continue
        try:
            if copy is None and silent and row.path:
                raise ConnectionError(silent)
            data = fetched(row, server) if copy is None else copy.read_bytes()
        except ConnectionError as error:
            silent = str(error)
            lacking.setdefault(silent, []).append(row.file)
        except LoadstoneError as error:
            lacking.setdefault(str(error), []).append(row.file)
        else:
            write_whole(cache / row.file, data)
            say(f"{row.file}: {'fetched' if copy is None else f'copied from {copy}'}")
    say(
        f"{len(collected(rows, [cache]))} of {len(rows)} models in {cache}: LOADSTONE_SHARED="
        f"{cache.parent} make bench"
    )
    return lacking


def main(arguments: list[str] | None = None) -> int:
    """1 where a model is lacking that is published."""
    parser = argparse.ArgumentParser(prog="python -m tests.model_files")
    parser.add_argument("--table", type=Path, metavar="MANIFEST.json", help="write the table")
    parser.add_argument("--from", dest="server", default=_SERVER, help="address of the server")
    parser.add_argument("--cache", type=Path, default=_cache(), help="default: %(default)s")
    parser.add_argument("--rows", type=Path, default=TABLE, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.table:
        manifest = json.loads(args.table.read_text(encoding="utf-8"))["models"]
        write_whole(TABLE, table_text(manifest))
        return 0
    rows = read_table(args.rows)
    lacking = fill(rows, SHARED / "models", args.cache / "models", args.server, print)
    if lacking:
        said = "; ".join(f"{', '.join(names)}: {why}" for why, names in lacking.items())
        print(f"lacking {said}", file=sys.stderr)
    published = {row.file for row in rows if row.path}
    return int(any(published & set(names) for names in lacking.values()))


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "loadstone"


if __name__ == "__main__":
    sys.exit(main())
