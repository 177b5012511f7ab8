# SPDX-License-Identifier: Apache-2.0
"""The pages about hosts: every block of commands and of Python in them runs, as it stands there.

Those about TVM and C projects show what test_tvm.py and test_install.py do: `make test-all` runs
them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.compiled import golden
from tests.forked import tools
from tests.hosts.partial import images, onnx_with_sine, tflite_with
from tests.repeat import more

BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def with_tflite(folder: Path, root: Path, shared: Path) -> None:
    (folder / "net.tflite").write_bytes(tflite_with("SIN"))
    np.save(folder / "sample.npy", np.zeros((1, 6, 6, 8), np.int8))


def with_onnx(folder: Path, root: Path, shared: Path) -> None:
    (folder / "net.onnx").write_bytes(onnx_with_sine())
    np.save(folder / "sample.npy", images(1)[0])


def with_networks(folder: Path, root: Path, shared: Path) -> None:
    file, sounds = "mlpt_resnet8_int8.tflite", "mlonmcu_micro_kws_m_qdq.onnx"
    shutil.copyfile(shared / "models" / file, folder / "resnet8.tflite")
    shutil.copyfile(shared / "models" / sounds, folder / "kws.onnx")
    x, y = golden(shared, file, 8)
    np.savez(folder / "golden.npz", in0=x[0], out0=y[0])
    np.save(folder / "sound.npy", golden(shared, sounds, 4)[0][0][3])


def with_c_project(folder: Path, root: Path, shared: Path) -> None:
    (folder / "build").symlink_to(root / "build")
    shutil.copytree(root / "docs/examples/c_project", folder / "classify")
    file = "mlpt_resnet8_int8.tflite"
    shutil.copyfile(shared / "models" / file, folder / "resnet8.tflite")
    (folder / "image.bin").write_bytes(golden(shared, file, 1)[0][0].tobytes())


def with_executorch(folder: Path, root: Path, shared: Path) -> None:
    pytest.importorskip(
        "loadstone_executorch", reason="pip install ./packages/loadstone-executorch"
    )


def with_mlonmcu(folder: Path, root: Path, shared: Path) -> None:
    pytest.importorskip("loadstone_mlonmcu", reason="pip install ./packages/loadstone-mlonmcu")
    file = "mlpt_resnet8_int8.tflite"
    shutil.copyfile(shared / "models" / file, folder / "resnet8.tflite")
    x, y = golden(shared, file, 2)
    np.savez(folder / "samples.npz", in0=x[0], out0=y[0])


@pytest.mark.parametrize(
    ("page", "prepare"),
    [
        pytest.param("tvm-runtime.md", with_tflite, marks=more),
        ("tvm-npu.md", with_networks),
        ("litert.md", with_tflite),
        ("onnxruntime.md", with_onnx),
        pytest.param("c-projects.md", with_c_project, marks=more),
        pytest.param("executorch.md", with_executorch, marks=more),
        pytest.param("mlonmcu.md", with_mlonmcu, marks=more),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_page_shows_runs(
    page: str,
    prepare: Callable[[Path, Path, Path], None],
    root: Path,
    shared: Path,
    tmp_path: Path,
) -> None:
    prepare(tmp_path, root, shared)
    blocks = BLOCK.findall((root / "docs" / page).read_text(encoding="utf-8"))
    assert len(blocks) >= 2
    path = [str(tools(tmp_path / "tools")), str(Path(sys.executable).parent), os.environ["PATH"]]
    env = {
        **os.environ,
        "PATH": os.pathsep.join(path),
        "PREFIX": str(tmp_path / "installed"),
    }
    for language, text in blocks:
        command = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": ["python", "-c"]}
        done = subprocess.run(
            [*command[language], text],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
