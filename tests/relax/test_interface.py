# SPDX-License-Identifier: Apache-2.0
"""relax/interface.py: a module that is none, and other inputs or outputs, are found."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.relax.compat import relax, tvm
from loadstone.relax.interface import verify_interface


def module(*shapes: tuple[int, ...], dtype: str = "int8", outputs: int = 1) -> tvm.IRModule:
    """Adds each input to itself; the first ones are outputs."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{n}", relax.TensorType(shape, dtype)) for n, shape in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            sums = [builder.emit(relax.op.add(x, x)) for x in inputs]
            whole = sums[0] if outputs == 1 else relax.Tuple(sums[:outputs])
            found = builder.emit_output(whole)
        builder.emit_func_output(found)
    return builder.get()


def test_the_same_interface_passes() -> None:
    verify_interface(module((1, 4)), module((1, 4)))


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (module((1, 5)), r"inputs were int8\[1, 4\], and are int8\[1, 5\]"),
        (module((1, 4), dtype="uint8"), r"inputs were int8\[1, 4\], and are uint8"),
        (module((1, 4), (1, 4)), r"inputs were int8\[1, 4\], and are int8\[1, 4\], int8"),
    ],
)
def test_another_interface_is_found(after: tvm.IRModule, found: str) -> None:
    with pytest.raises(LoweringError, match=found):
        verify_interface(module((1, 4)), after)


def test_another_number_of_outputs_is_found() -> None:
    two = module((1, 4), (1, 4), outputs=2)
    with pytest.raises(LoweringError, match="outputs were"):
        verify_interface(module((1, 4), (1, 4)), two)


def test_what_is_not_well_formed_is_found() -> None:
    one, other = module((1, 4))["main"], module((1, 4))["main"]
    broken = tvm.IRModule({"main": relax.Function(one.params, other.body, one.ret_ty)})
    with pytest.raises(LoweringError, match="no well-formed Relax"):
        verify_interface(module((1, 4)), broken)
