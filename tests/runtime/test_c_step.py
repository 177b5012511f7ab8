# SPDX-License-Identifier: Apache-2.0
"""runtime/c_step.py, external_steps.py: steps that are C are compiled once, for trusted files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from loadstone.artifact import host_step
from loadstone.artifact.format import Artifact
from loadstone.errors import ArtifactError
from loadstone.runtime import device
from tests.runtime.test_device import X, external_model

SYMBOL = "lds_c_0123456789abcdef"
SOURCE = (
    f"#include <stdint.h>\nvoid {SYMBOL}(void *const *operands);\n"
    f"void {SYMBOL}(void *const *operands) {{\n"
    "  const int8_t *x = operands[0];\n  int32_t *y = operands[1], k;\n"
    "  for (y[0] = 7, k = 0; k < {elements}; ++k) y[0] += x[k];\n}}\n"
)


def c_model(attributes: str) -> Artifact:
    model = external_model()
    step = host_step.external("total", (1,), (2,), "loadstone.c", attributes)
    return dataclasses.replace(model, steps=(*model.steps[:-1], step))


def source() -> str:
    elements = external_model().tensors[1].elements
    return SOURCE.replace("{elements}", str(elements)).replace("}}", "}")


def test_a_step_in_c_computes_in_place() -> None:
    artifact = c_model(f"{SYMBOL}\n{source()}")
    with device.open() as dev, dev.load(artifact, trust=True) as session:
        (y,) = session.run([X])
    assert y[:, 0].tolist() == (X.astype(np.int32).sum(axis=(1, 2)) + 7).tolist()


def test_a_file_that_is_not_trusted_is_not_compiled() -> None:
    with device.open() as dev, pytest.raises(ArtifactError, match=r"program in C.*--trust"):
        dev.load(c_model(f"{SYMBOL}\n#error compiled"))


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        (f"{SYMBOL}\n#error spoiled", "1 of its steps are C: .* refuses it: .*spoiled"),
        (f"{SYMBOL}\nint other;\n", f"has no function '{SYMBOL}'"),
    ],
)
def test_what_does_not_compile_is_one_line(attributes: str, why: str) -> None:
    with device.open() as dev, pytest.raises(ArtifactError, match=why):
        dev.load(c_model(attributes), trust=True)


def test_a_machine_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    text = source().replace("7", "8")
    with device.open() as dev, pytest.raises(ArtifactError, match=r"no C compiler .*name it in CC"):
        dev.load(c_model(f"{SYMBOL}\n{text}"), trust=True)
