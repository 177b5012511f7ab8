# SPDX-License-Identifier: Apache-2.0
"""row_calls.py: what a call says, and what TVM's virtual machine makes of it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tvm", reason="TVM is not installed (the extra `compiler`)")

from loadstone.relax import row_calls as calls
from loadstone.relax import row_numerics as rows
from loadstone.relax.compat import bindings, constant, relax
from loadstone.relax.row_calls import row_call
from loadstone.relax.saved import run_module
from tests.relax.row_networks import ANGLES, CALLS, inputs_of
from tests.relax.test_c_printer import module


def test_a_call_says_its_name_tensors_and_numbers() -> None:
    x = relax.Var("x", relax.TensorType((1, 4), "float32"))
    made = calls.rms_norm(x, constant(np.ones(4, np.float32)), 0.5)
    name, tensors, numbers = row_call(made) or ("", [], [])
    assert (name, len(tensors), numbers) == ("rms_norm", 2, [0.5])
    assert tensors[0].same_as(x)
    other = relax.op.call_dps_packed("other.gate", relax.Tuple([x]), x.ty)
    assert row_call(other) is None
    assert row_call(relax.op.add(x, x)) is None


@pytest.mark.parametrize("name", CALLS)
def test_tvm_runs_what_the_functions_define(name: str) -> None:
    make, inputs = CALLS[name]
    given = inputs_of(name, np.random.default_rng(1))
    (found,) = run_module(module(make, *inputs), given)
    ((variable, _), *_) = bindings(module(make, *inputs)["main"])
    assert found.shape == tuple(int(n) for n in variable.ty.shape)
    assert np.isfinite(found.astype(float)).all()


def test_tvm_runs_rotations_and_attention_by_their_definition() -> None:
    """The others have one axis of rows."""
    rng = np.random.default_rng(2)
    x, place = inputs_of("rotate_places", rng)
    (found,) = run_module(module(CALLS["rotate_places"][0], *CALLS["rotate_places"][1]), [x, place])
    assert np.array_equal(found[0], rows.rotate_places(x[0], place, ANGLES, True))
    q, place, keys, ks, values, vs = inputs_of("attention", rng)
    (found,) = run_module(
        module(CALLS["attention"][0], *CALLS["attention"][1]), [q, place, keys, ks, values, vs]
    )
    flat = keys, ks[..., 0], values, vs[..., 0]
    assert np.array_equal(
        found[0],
        rows.attention(q[0], place, flat, window=3, factor=0.25),
    )
