# SPDX-License-Identifier: Apache-2.0
"""docs/readers/ and docs/accuracy.md: their commands run, in order, on a real network, and print
the figures that the pages state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from tests.compiled import golden
from tests.conftest import ROOT
from tests.forked import tools

PAGES = [*sorted(ROOT.glob("docs/readers/*.md")), ROOT / "docs/accuracy.md"]
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: What a page says in bold with a number in it is a figure, and printed by a command of the page.
BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
INT8 = "mlpt_resnet8_int8.tflite"
#: Most lines before the figure: what to do first, and what you get.
MOST_LINES = 40


def photographs(shared: Path) -> np.ndarray:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (the extra `images`)")
    files = sorted(p for p in (shared / "models/images").iterdir() if p.suffix in (".jpg", ".bmp"))
    opened = [image.open(file).convert("RGB").resize((32, 32), 2) for file in files]  # bilinear
    return np.stack([np.asarray(one, np.float32) for one in opened])[:, None]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_its_figures(page: Path, shared: Path, tmp_path: Path) -> None:
    if "loadstone sweep" in page.read_text(encoding="utf-8"):
        pytest.importorskip("distributed", reason="Dask is not installed (the extra `search`)")
    shutil.copyfile(shared / "models" / INT8, tmp_path / "resnet8.tflite")
    shutil.copyfile(shared / "models/mlpt_resnet8_f32.tflite", tmp_path / "resnet8_f32.tflite")
    x, y = golden(shared, INT8, 4)
    np.savez(tmp_path / "golden.npz", in0=x[0], out0=y[0])
    images = photographs(shared)
    np.savez(tmp_path / "samples.npz", in0=images[:8])
    np.savez(tmp_path / "heldout.npz", in0=images[8:])
    path = [str(tools(tmp_path / "tools")), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {**os.environ, "PATH": os.pathsep.join(path)}
    text, said = page.read_text(encoding="utf-8"), ""
    assert BLOCK.findall(text)
    for block in BLOCK.findall(text):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
        said += done.stdout
    said += "".join(p.read_text(encoding="utf-8") for p in tmp_path.glob("*.txt"))
    said = " ".join(said.split())
    figures = [bold for bold in BOLD.findall(text) if re.search(r"\d", bold)]
    assert len(figures) >= 2
    for figure in figures:
        assert figure in said, f"{page.name}: no command printed {figure!r}"


@pytest.mark.parametrize("page", PAGES[:-1], ids=lambda page: page.stem)
def test_a_readers_page_is_short_and_has_a_picture(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert re.findall(r'^--8<-- "docs/images/\S+\.svg"$', text, re.MULTILINE)
    assert len(re.findall(r"^\d\. ", text, re.MULTILINE)) == 5
    assert "What you get: " in text
