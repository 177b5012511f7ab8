# SPDX-License-Identifier: Apache-2.0
"""frontend/rewrites.py: the front end's passes run in the order of the list, each verified, and a
rewrite that changes the model's interface is the compiler's mistake."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import VerificationError
from loadstone.frontend import import_model, rewrites
from loadstone.passes.log import PassLog
from loadstone.passes.table import PASSES
from loadstone.relax.compat import tvm
from tests.passes.networks import residual_block


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tvm.IRModule:
    path = tmp_path_factory.mktemp("model") / "block.tflite"
    path.write_bytes(residual_block())
    return import_model(path)


def test_the_passes_are_those_of_the_list(imported: tvm.IRModule) -> None:
    log = PassLog()
    rewrites.canonical(imported, log)
    frontend = [entry.name for entry in PASSES if entry.stage == "frontend"]
    assert ["import", *(run.name for run in log.runs)] == frontend
    assert all(run.verified for run in log.runs)


def test_a_rewrite_that_loses_an_input_is_named(
    imported: tvm.IRModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.relax.test_interface import module

    spoilt = [(name, run) for name, run in rewrites._REWRITES if name != "layout"]
    spoilt.insert(2, ("layout", lambda _: module((1, 4), (1, 4))["main"]))
    monkeypatch.setattr(rewrites, "_REWRITES", tuple(spoilt))
    with pytest.raises(VerificationError, match="pass layout is wrong: the inputs were int8"):
        rewrites.canonical(imported)
