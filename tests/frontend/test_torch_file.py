# SPDX-License-Identifier: Apache-2.0
"""frontend/torch_file.py: files that are no programs, and pickled objects in them, are refused and
never read."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")
pytest.importorskip("torch", reason="PyTorch is not installed (the extra `torch`)")

import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed
from torch import nn

from loadstone.errors import ModelError
from loadstone.frontend.torch import from_bytes
from tests.frontend.torch_programs import changed, saved
from tests.torch_network import (
    float_program,
    network,
)


def weights_file() -> bytes:
    file = io.BytesIO()
    torch.save(network().state_dict(), file)
    return file.getvalue()


def torchscript_file() -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(nn.ReLU(), torch.zeros(1)), file)
    return file.getvalue()


MODEL = "models/model.json"


def with_member(file: bytes, member: str, content: bytes) -> bytes:
    """With one file more in the archive."""
    out = io.BytesIO(file)
    with zipfile.ZipFile(out, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr(f"{archive.namelist()[0].partition('/')[0]}/{member}", content)
    return out.getvalue()


def compressed(file: bytes) -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(file)) as source,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for entry in source.namelist():
            target.writestr(entry, source.read(entry) + b" " * 100000)
    return out.getvalue()


FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "cut short": ("net.pt2", lambda: saved(float_program())[:-3000], "a damaged file (cut short?)"),
    "empty": ("net.pt2", lambda: b"", "a damaged file (cut short?)"),
    "noise": ("net.pt", lambda: bytes(range(256)), "no program of torch.export"),
    "weights": (
        "net.pt",
        weights_file,
        "holds weights without a program (a state_dict or a pickled module): export the model with",
    ),
    "weights named pt2": ("net.pt2", weights_file, "holds weights without a program"),
    "TorchScript": (
        "net.pt",
        torchscript_file,
        "holds TorchScript: export the model with torch.export.save(torch.export.export(",
    ),
    "changed inside": (
        "net.pt2",
        lambda: saved(float_program()).replace(b'"graph_module"', b'"graph_mobule"'),
        "a damaged file",
    ),
    "of another schema": (
        "net.pt2",
        lambda: changed(saved(float_program()), MODEL, lambda tree: tree.pop("graph_module")),
        "cannot load this program",
    ),
    "two of a name": (
        "net.pt2",
        lambda: with_member(saved(float_program()), MODEL, b"{}"),
        "a damaged file",
    ),
    "compiled code beside it": (
        "net.pt2",
        lambda: with_member(saved(float_program()), "data/aotinductor/model/a.so", b"ELF"),
        'a.so" besides its program, which could be code',
    ),
    "compressed": (
        "net.pt2",
        lambda: compressed(saved(float_program())),
        "a compressed archive: write it with",
    ),
}


class Touch:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def with_pickled(member: str, path: Path) -> bytes:
    """A program whose archive has an object that makes a file where it is unpickled."""
    pickled, changed = io.BytesIO(), io.BytesIO()
    torch.save(Touch(path), pickled)
    with (
        zipfile.ZipFile(io.BytesIO(saved(float_program()))) as source,
        zipfile.ZipFile(changed, "w") as target,
    ):
        root = source.namelist()[0].partition("/")[0]
        for entry in source.namelist():
            if entry != f"{root}/data/{member}":
                target.writestr(entry, source.read(entry))
        target.writestr(f"{root}/data/{member}", pickled.getvalue())
    return changed.getvalue()


def test_pickled_objects_are_refused_and_not_read(tmp_path: Path) -> None:
    file = with_pickled("constants/custom_obj_0", tmp_path / "touched")
    with pytest.raises(ModelError, match="holds pickled objects besides its tensors"):
        from_bytes(file, "net.pt2")
    assert not (tmp_path / "touched").exists()


def test_pickled_examples_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are no part of the program; PyTorch, where it loads a program, would read them."""
    file = with_pickled("sample_inputs/model.pt", tmp_path / "touched")
    from_bytes(file, "net.pt2")
    monkeypatch.setattr("loadstone.frontend.torch.exported_graph", lambda files: None)
    with pytest.raises(ModelError, match="holds pickled objects besides its tensors"):
        from_bytes(file, "net.pt2")
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_program_is_one_line(case: str) -> None:
    name, made, message = FILES[case]
    with pytest.raises(ModelError) as caught:
        from_bytes(made(), name)
    assert str(caught.value).startswith(f"{name}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
