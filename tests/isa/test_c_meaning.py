# SPDX-License-Identifier: Apache-2.0
"""isa/c_meaning.py: the header of meanings in C."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.c_meaning import function_name, meaning_header
from loadstone.isa.table import LocalMemory
from tests.isa.tables import NPU


def test_fields_memories_and_functions_stand_in_the_header() -> None:
    text = meaning_header(NPU)
    assert "typedef struct npu_work_fields {\n  uint64_t mode;\n  int64_t gain;" in text
    assert "int8_t *pad; /* 64 rows of 16 */" in text
    assert "NPU_PAD_LANES = 16," in text
    assert f"void {function_name(NPU, NPU.forms[0])}(npu_state *state" in text
    assert max(map(len, text.splitlines())) <= 110


def test_a_type_that_c_does_not_have() -> None:
    with pytest.raises(ConfigError, match="memory pad: no float16 in C"):
        meaning_header(replace(NPU, memories=(LocalMemory("pad", 64, 16, "float16"),)))
