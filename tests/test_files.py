# SPDX-License-Identifier: Apache-2.0
"""A file is written whole, or the old one stays."""

from __future__ import annotations

import ast
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loadstone import files
from loadstone.errors import ConfigError, LoadstoneError
from loadstone.files import check_places, read_whole, unpacked_arrays, write_whole, written_whole


def test_bytes_and_texts(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"\x00\xff")
    write_whole(tmp_path / "b", "Grün\n")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_text(encoding="utf-8") == "Grün\n"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"], "no temporary file stays"


def test_what_fails_on_the_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.lds"
    path.write_bytes(b"old")

    def half() -> None:
        with written_whole(path) as file:
            file.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.lds"]


def test_a_full_disk_leaves_the_old_file_and_names_it(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: write() fails in the same place."""
    path = tmp_path / "model.lds"
    path.write_bytes(b"old")
    script = (
        "import sys; from loadstone.files import write_whole\n"
        "try: write_whole(sys.argv[1], bytes(1 << 20))\n"
        "except OSError as error: print(error.filename)"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.lds"]


def test_of_many_writers_one_wins_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.lds"
    contents = [bytes([k]) * 300_000 for k in range(8)]
    threads = [threading.Thread(target=write_whole, args=(path, c)) for c in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["model.lds"]


def test_links_permissions_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    write_whole("/dev/null", b"gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_of_another_user_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder that others write, who puts one there would choose what is overwritten."""
    real, link, further = tmp_path / "real", tmp_path / "link", tmp_path / "further"
    real.write_bytes(b"old")
    link.symlink_to("further")
    further.symlink_to(real)
    assert not files.foreign_link(link)
    lstat = os.lstat

    def of_another(path: str) -> os.stat_result:
        found = list(lstat(path))
        if Path(path).name == "further":
            found[4] = os.geteuid() + 1
        return os.stat_result(found)

    monkeypatch.setattr(os, "lstat", of_another)
    with pytest.raises(PermissionError, match="it is a link of another user") as caught:
        write_whole(link, b"new")
    assert caught.value.filename == str(link)
    with pytest.raises(LoadstoneError, match="link cannot be written: it is a link of another"):
        check_places([link], LoadstoneError)
    assert real.read_bytes() == b"old"
    write_whole(real, b"new")


def test_what_a_killed_process_left_goes_with_the_next_writer(tmp_path: Path) -> None:
    """And what another one is still writing stays."""
    path = tmp_path / "model.lds"
    script = (
        "import os, signal, sys\nfrom loadstone.files import written_whole\n"
        "with written_whole(sys.argv[1]) as file:\n"
        "    file.write(b'part')\n    file.flush()\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
        assert done.returncode == -signal.SIGKILL
    assert len(os.listdir(tmp_path)) == 1, "the second removed what the first had left"
    other = tmp_path / f".other.lds.{'0' * 16}.part"
    strange = tmp_path / ".model.lds.mine.part"
    for file in (other, strange):
        file.write_bytes(b"")
    with written_whole(path) as first:
        write_whole(path, b"second")
        first.write(b"first")
        assert len([n for n in os.listdir(tmp_path) if n.startswith(".model.lds.")]) == 2
    assert path.read_bytes() == b"first"
    assert sorted(os.listdir(tmp_path)) == sorted([other.name, strange.name, "model.lds"])


@pytest.mark.parametrize("what", ["absent/model.lds", "file/model.lds", "loop", "."])
def test_a_path_that_cannot_be_is_named(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="model|loop|directory") as caught:
        write_whole(tmp_path / what, b"")
    assert caught.value.filename == str(tmp_path / what)


def test_what_gives_bytes_for_ever_is_read_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe is read, a device that never ends is named; a regular file has no limit."""
    monkeypatch.setattr(files, "MAX_STREAM_BYTES", 1 << 20)
    with pytest.raises(OSError, match="gives more than 1 MiB") as caught:
        read_whole("/dev/zero")
    assert caught.value.filename == "/dev/zero"
    assert read_whole("/dev/null") == b""
    with pytest.raises(OSError, match="gives more than 1 MiB"):
        unpacked_arrays("/dev/zero", "zeros", LoadstoneError)
    (tmp_path / "large").write_bytes(bytes(3 << 20))
    assert len(read_whole(tmp_path / "large")) == 3 << 20
    reader, writer = os.pipe()
    os.write(writer, b"piped")
    os.close(writer)
    assert read_whole(f"/dev/fd/{reader}") == b"piped"
    os.close(reader)


def test_places_are_checked_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    good = [tmp_path / "new", tmp_path / "file", "/dev/null", None, "new"]
    check_places(good, ConfigError)
    for path, why in (
        (tmp_path, "it is a folder"),
        (".", "it is a folder"),
        (tmp_path / "none/new", "none is no folder"),
        (tmp_path / "file/new", "file is no folder"),
    ):
        with pytest.raises(ConfigError, match=f"cannot be written: .*{why}"):
            check_places([tmp_path / "new", path], ConfigError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_takes_no_files_is_no_place(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigError, match="takes no new files"):
        check_places([tmp_path / "new"], ConfigError)
    tmp_path.chmod(0o755)


#: What a tool is given in a folder of its own, which a build that was killed begins anew.
OWN_FOLDERS = {
    "hosts/cut.py": {"write_bytes"},
    "runtime/c_meanings.py": {"write_text"},
    "runtime/c_step.py": {"write_text"},
    "runtime/step_time.py": {"write_text"},
    "library/parsed_api.py": {"write_text"},
    "search/evaluate.py": {"write_bytes"},
    "vta/simulator/rtl_build.py": {"write_text"},
}
IN_PLACE = ("write_text", "write_bytes", "copy", "copy2", "copyfile", "copyfileobj", "copytree")


def test_no_other_module_writes_a_file_in_place() -> None:
    """Exported headers once were copied, and a kill left the first half of one."""
    package, found = Path(files.__file__).parent, dict[str, set[str]]()
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
                name = node.func.attr
                if name in IN_PLACE and (name.startswith("write") or of == "shutil"):
                    found.setdefault(path.relative_to(package).as_posix(), set()).add(name)
    assert found == OWN_FOLDERS
