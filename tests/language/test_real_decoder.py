# SPDX-License-Identifier: Apache-2.0
"""real_decoder.py: all rows at once, against the independent decoder token by token, unrounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gguf", reason="gguf is not installed (the extra `language`)")

from loadstone.errors import ModelError
from loadstone.frontend.gguf_file import GgufFile
from loadstone.language.real_decoder import RealDecoder
from tests.frontend.gguf_models import Reference, tiny
from tests.frontend.test_gguf import FAMILIES


@pytest.mark.parametrize("arch", FAMILIES)
def test_every_row_is_what_single_tokens_give(arch: str, tmp_path: Path) -> None:
    path = tiny(tmp_path / "m.gguf", arch, **FAMILIES[arch])
    tokens = [7, 3, 49, 0, 12, 7]
    found = RealDecoder(GgufFile(path.read_bytes(), "m")).scores(tokens)
    reference = Reference(path, real=True)
    wanted = np.stack([reference.next(token) for token in tokens])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


def test_a_text_beyond_its_context(tmp_path: Path) -> None:
    decoder = RealDecoder(GgufFile(tiny(tmp_path / "m.gguf").read_bytes(), "m"))
    with pytest.raises(ModelError, match="33 tokens are more than its context 32"):
        decoder.scores([1] * 33)
