# SPDX-License-Identifier: Apache-2.0
"""model_files.py: what is fetched, what is not, and what is said; against a server of this
machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import model_files
from tests.model_files import TABLE, ModelFile, collected, main, read_table, table_text

DATA = {"a.tflite": b"first", "b.onnx": b"second", "c.onnx": b"third!"}


def entry(name: str, data: bytes, made: bool = False) -> dict[str, object]:
    return {
        "file": name,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "licence": "MIT",
        "source_repo": "github.com/some/one",
        **({"how": "by us"} if made else {"source_path": f"m/{name}", "repo_head": "4" * 40}),
        **({} if made else {"provenance": "HEAD", "source_blob": "5" * 40}),
    }


class _Quiet(SimpleHTTPRequestHandler):
    seen: list[str] = []  # noqa: RUF012

    def log_message(self, *_: object) -> None:
        self.seen.append(self.path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "web" / "some/one" / ("4" * 40) / "m"
    folder.mkdir(parents=True)
    for name, data in DATA.items():
        (folder / name).write_bytes(data)
    _Quiet.seen.clear()
    handler = partial(_Quiet, directory=str(tmp_path / "web"))
    serving = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """`main` for a table of three published files and one that was made."""
    shared = tmp_path / "shared"
    (shared / "models").mkdir(parents=True)
    monkeypatch.setattr(model_files, "SHARED", shared)
    rows = tmp_path / "rows.tsv"
    entries = [entry(name, data) for name, data in DATA.items()]
    rows.write_text(table_text([*entries, entry("made.onnx", b"made", made=True)]))
    return lambda server: main(
        ["--from", server, "--cache", str(tmp_path / "cache"), "--rows", str(rows)]
    )


def test_all_are_fetched_once(
    call: partial[int], server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(server) == 0
    out, err = capsys.readouterr()
    assert "a.tflite: fetched" in out
    assert f"3 of 4 models in {tmp_path}/cache/models: LOADSTONE_SHARED={tmp_path}/cache" in out
    assert err == "lacking made.onnx: not published (by us)\n"
    assert {p.name: p.read_bytes() for p in (tmp_path / "cache/models").iterdir()} == DATA
    assert len(_Quiet.seen) == 3
    assert call(server) == 0
    assert len(_Quiet.seen) == 3


def test_a_copy_under_any_name_is_known_by_its_digest(
    call: partial[int], server: str, tmp_path: Path
) -> None:
    (tmp_path / "shared/models/other").write_bytes(DATA["a.tflite"])
    (tmp_path / "shared/models/b.onnx").write_bytes(b"SECOND")
    assert call(server) == 0
    assert (tmp_path / "cache/models/a.tflite").read_bytes() == DATA["a.tflite"]
    assert (tmp_path / "cache/models/b.onnx").read_bytes() == DATA["b.onnx"]
    assert not any("a.tflite" in path for path in _Quiet.seen)


def test_nothing_is_fetched_or_copied_where_all_are_there(
    call: partial[int], server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, data in {**DATA, "made.onnx": b"made"}.items():
        (tmp_path / "shared/models" / name).write_bytes(data)
    assert call(server) == 0
    out = capsys.readouterr().out
    assert out == f"4 models in {tmp_path}/shared/models: nothing to fetch\n"
    assert _Quiet.seen == []
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("other", [b"Second", b"second and more", b""])
def test_other_bytes_are_not_kept(
    other: bytes,
    call: partial[int],
    server: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    next((tmp_path / "web").rglob("b.onnx")).write_bytes(other)
    assert call(server) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"b.onnx: {server}/some/one/{'4' * 40}/m/b.onnx has other bytes" in err
    assert {p.name for p in (tmp_path / "cache/models").iterdir()} == {"a.tflite", "c.onnx"}


def test_an_address_that_is_none_is_said_with_the_answer(
    call: partial[int], server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next((tmp_path / "web").rglob("b.onnx")).unlink()
    assert call(server) == 1
    assert "/m/b.onnx answers 404" in capsys.readouterr().err


def test_without_a_network_one_line_says_what_is_lacking(
    call: partial[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there as a copy is used all the same, and the server is asked once."""
    (tmp_path / "shared/models/c.onnx").write_bytes(DATA["c.onnx"])
    assert call("http://127.0.0.1:1") == 1
    out, err = capsys.readouterr()
    assert "c.onnx: copied from" in out
    assert err.count("\n") == 1
    assert err.startswith("lacking a.tflite, b.onnx: no answer from http://127.0.0.1:1: ")


def test_the_table_has_whole_rows() -> None:
    rows = read_table()
    assert len({row.file for row in rows}) == len(rows) > 20
    for row in rows:
        assert (len(row.sha256), len(row.commit)) in ((64, 40), (64, 0))
        assert row.size_bytes > 0
        assert row.licence
        assert row.repository.count("/") == 1
        assert bool(row.path) != bool(row.how)
        assert row.address().startswith("https://") or not row.path


def test_the_table_is_what_the_manifest_says(shared: Path) -> None:
    manifest = json.loads((shared / "models/MANIFEST.json").read_text(encoding="utf-8"))
    assert TABLE.read_text(encoding="utf-8") == table_text(manifest["models"])
    rows = read_table()
    found = collected(rows, [shared / "models"])
    assert {row.file: shared / "models" / row.file for row in rows} == found


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    past = {**entry("c", b"z"), "provenance": "history"}
    path.write_text(table_text([entry("a", b"x"), entry("b", b"y", made=True), past]))
    one, two, three = read_table(path)
    assert (three.commit, three.path) == ("", "5" * 40)
    assert three.address() == f"https://api.github.com/repos/some/one/git/blobs/{'5' * 40}"
    assert three.address("http://x") == f"http://x/repos/some/one/git/blobs/{'5' * 40}"
    digest = hashlib.sha256(b"x").hexdigest()
    assert one == ModelFile("a", digest, 1, "MIT", "some/one", "4" * 40, "m/a")
    assert (two.commit, two.path, two.how) == ("", "", "by us")
