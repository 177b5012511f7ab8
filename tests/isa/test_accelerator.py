# SPDX-License-Identifier: Apache-2.0
"""Accelerators by name, and what a description must have."""

from __future__ import annotations

import pytest

from loadstone.errors import ConfigError
from loadstone.isa.accelerator import Accelerator, accelerator_named, register_accelerator
from tests.isa import registered
from tests.isa.tables import NPU, NPU_MEANING, npu


def test_every_instruction_has_a_meaning() -> None:
    with pytest.raises(ConfigError, match="store has no meaning"):
        Accelerator("npu", NPU, {"copy": NPU_MEANING["copy"]})


def test_by_name() -> None:
    register_accelerator("test-npu", lambda values: npu(attributes=values))
    found = accelerator_named("test-npu", '{"lanes": 4}', NPU.fingerprint)
    assert found is not None
    assert found.attributes == {"lanes": 4}
    assert accelerator_named("test-other", "{}", NPU.fingerprint) is None
    for attributes, fingerprint in (("{}", bytes(32)), ("{", NPU.fingerprint), ("[]", bytes(32))):
        with pytest.raises(ConfigError, match="compile the model again"):
            accelerator_named("test-npu", attributes, fingerprint)


def test_multiplications_may_depend_on_registers_that_are_read() -> None:
    meaning = dict.fromkeys(registered.table().by_name, lambda state, fields: None)
    Accelerator("registered", registered.table(), meaning, macs={"add": "count*factor"})
    with pytest.raises(ConfigError, match="no field stride, and reads no such register"):
        Accelerator("registered", registered.table(), meaning, macs={"add": "count*stride"})
