# SPDX-License-Identifier: Apache-2.0
"""The tensors of a float network in float32, to measure the error of a device that rounds.

In:   a model; one run's inputs.
Out:  every float tensor by its name, batch first, channels last.
Next: compare.py compares the tensors of a bfloat16 device with them.

Batch normalizations are folded as in the network that the device runs, so that the layers are the
same. Nothing else is changed: the weights are those of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadstone.frontend import Model, load
from loadstone.numerics import Array
from loadstone.partition.relax_parts import extracted
from loadstone.quantization.fold import fold
from loadstone.relax.compat import bindings, dtype, name_of, relax
from loadstone.relax.saved import run_module

__all__ = ["float_tensors"]


def float_tensors(model: Model, inputs: Sequence[Array], samples: int) -> dict[str, Array]:
    """The tensors by name. inputs: one per input of the network, each in its shape; several
    `samples` are concatenated along the first axis."""
    module = fold(load(model))
    main = module["main"]
    group = [(variable, value) for variable, value in bindings(main) if _is_call(value)]
    named = {
        name_of(value) or str(variable.name): variable
        for variable, value in group
        if not isinstance(variable.ty, relax.TupleType) and dtype(variable) == "float32"
    }
    if not named:
        return {}
    whole = extracted(module, list(main.params), group, list(named.values()))
    parts = [np.split(array, samples) for array in inputs]
    runs = [run_module(whole, one) for one in zip(*parts, strict=True)]
    return dict(zip(named, map(np.concatenate, zip(*runs, strict=True)), strict=True))


def _is_call(value: object) -> bool:
    return not isinstance(value, relax.Var | relax.Tuple)
