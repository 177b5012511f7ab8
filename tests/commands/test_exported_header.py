# SPDX-License-Identifier: Apache-2.0
"""exported_header.py: what a model's header says, by gcc's preprocessor; its bytes, by gcc."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from loadstone.commands.exported_header import assembly, dma_align, header, is_decoder
from loadstone.vta.device.hw_config import load_config
from tests.board.tools import need
from tests.sample_model import copy_model, dense_model

CONFIG = load_config("vtaq-1x16x16")
MODEL = dense_model(CONFIG).artifact


@pytest.mark.parametrize("parts", [False, True])
def test_what_comes_with_a_model_is_declared(*, parts: bool) -> None:
    text = header(MODEL, CONFIG, sample=parts, steps=parts, operators=parts)
    for name in ("MODEL_SAMPLE", "MODEL_EXTERNAL", "MODEL_OPERATORS"):
        assert (f"#define {name} 1\n" in text) == parts
    assert "#define MODEL_INPUTS 1u\n" in text
    assert f"#define MODEL_CONFIG_HASH {CONFIG.config_hash:#x}u\n" in text
    assert re.search(r"#define MODEL_SESSION_BYTES [1-9]\d+u\n", text)
    assert not is_decoder(MODEL)


def test_memory_begins_where_its_regions_may() -> None:
    assert dma_align(MODEL) == 4096
    regions = [replace(r, align_bytes=1 << 16) if r.on_device else r for r in MODEL.regions]
    assert dma_align(replace(MODEL, regions=tuple(regions))) == 1 << 16
    assert dma_align(copy_model()) == 4096


def test_the_bytes_are_those_of_the_file(tmp_path: Path) -> None:
    need("gcc", "gcc")
    (tmp_path / "model.lds").write_bytes(bytes(range(1, 100)))
    (tmp_path / "m.S").write_text(assembly("model", "model.lds"))
    (tmp_path / "main.c").write_text(
        "#include <stdio.h>\nextern const char model_bytes[], model_bytes_end[];\n"
        "int main(void) {\n"
        "  return fwrite(model_bytes, 1, model_bytes_end - model_bytes, stdout) == 0;\n"
        "}\n"
    )
    subprocess.run(["gcc", "m.S", "main.c", "-o", "out"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "out"], capture_output=True, check=True)
    assert done.stdout == bytes(range(1, 100))
