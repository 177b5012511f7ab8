# SPDX-License-Identifier: Apache-2.0
"""relax/saved.py: a module as text means what the module does, and is compiled once."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import ArtifactError, DeviceError
from loadstone.relax import saved
from loadstone.relax.compat import relax, tvm
from loadstone.relax.saved import (
    load_function,
    missing_external,
    parameter_shapes,
    run_module,
    run_saved,
    save_function,
)


def module(outputs: int = 1, codegen: str = "") -> Any:
    """x + y, and x * y where two results are wanted."""
    x, y = (relax.Var(name, relax.TensorType((2, 3), "float32")) for name in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(x, y))
            product = builder.emit(relax.op.multiply(x, y))
            result = builder.emit_output(relax.Tuple([total, product]) if outputs == 2 else total)
        builder.emit_func_output(result)
    made = builder.get()
    return tvm.IRModule({"main": made["main"].with_attr("Codegen", codegen)}) if codegen else made


MINE = re.escape(tvm.__version__)
X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)


def test_what_is_saved_computes_the_same() -> None:
    text = save_function(module(2))
    total, product = run_saved(text, [X, Y])
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(product, X * Y)
    assert parameter_shapes(text) == [(2, 3), (2, 3)]
    assert save_function(load_function(text)) == text


@pytest.mark.parametrize("version", ["0.26.3", "0.27.9", "0.28.0"])
def test_what_another_tvm_saved_is_not_read(version: str) -> None:
    """TVM reads it without looking, and may end in a segmentation fault."""
    own = save_function(module())
    text = own.replace(f'"tvm_version":"{tvm.__version__}"', f'"tvm_version":"{version}"')
    assert text != own
    if version[:4] == tvm.__version__[:4]:
        assert parameter_shapes(text) == [(2, 3), (2, 3)]
        return
    with pytest.raises(ArtifactError, match=f"saved by TVM {version}, and this is TVM {MINE}: "):
        run_saved(text, [X, Y])
    with pytest.raises(ArtifactError, match=f"by no TVM that says its version, and .* {MINE}: "):
        load_function(own.partition(',"metadata"')[0] + "}")


def test_a_module_is_compiled_once() -> None:
    made = module()
    before = len(saved._compiled)
    for _ in range(2):
        np.testing.assert_array_equal(run_module(made, [X, Y])[0], X + Y)
    assert len(saved._compiled) == before + 1


def test_a_generator_that_tvm_has_not_is_named() -> None:
    made = module(codegen="nobody")
    assert missing_external(module()) is None
    assert missing_external(made) == (
        "function main is for code generator nobody, which this TVM was built without (no "
        "relax.ext.nobody)"
    )
    assert "a back end that divides the network itself" in str(missing_external(made, ["nobody"]))
    with pytest.raises(DeviceError, match="code generator nobody"):
        run_module(made, [X, Y])
