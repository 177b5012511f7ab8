# SPDX-License-Identifier: Apache-2.0
"""relax/interface.py: a module that is none, and other inputs or outputs, are found."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.errors import LoweringError
from loadstone.relax.compat import relax, tvm
from loadstone.relax.interface import verify_interface


def module(
    *shapes: tuple[int | tvm.tirx.Var, ...], dtype: str = "int8", outputs: int = 1
) -> tvm.IRModule:
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


def test_a_shape_that_is_not_known_is_none_of_a_single_number() -> None:
    after = module((tvm.tirx.Var("n", "int64"),))
    with pytest.raises(LoweringError, match=r"inputs were int8\[\], and are int8\?"):
        verify_interface(module(()), after)


def test_other_outputs_of_the_same_inputs_are_found() -> None:
    before, after = (module((1, 4), (1, 5), outputs=n) for n in (2, 1))
    with pytest.raises(LoweringError, match=r"outputs were int8\[1, 4\], int8\[1, 5\], and are"):
        verify_interface(before, after)


def test_what_is_not_well_formed_is_found() -> None:
    one, other = module((1, 4))["main"], module((1, 4))["main"]
    broken = tvm.IRModule({"main": relax.Function(one.params, other.body, one.ret_ty)})
    with pytest.raises(LoweringError, match="no well-formed Relax"):
        verify_interface(module((1, 4)), broken)
