# SPDX-License-Identifier: Apache-2.0
"""What each operator of PyTorch's ATen becomes in Relax.

In:   the arguments of an operator, tensors as Relax expressions; Build for what it takes more than
      one call to say.
Out:  a Relax expression, or a list of them where PyTorch's operator has several results.
Next: frontend/torch.py emits it, and compares its shape and type with PyTorch's.

The parameters of a converter are the table of what it reads: they have the names of ATen's schema,
and are given all that a program says and the schema's defaults for the rest; where they are many,
they are the fields of a dataclass beside it. Any other argument of the schema has its default, or
the operator is refused by the argument's name (torch_arguments.py). Each converter is compared with
PyTorch itself (tests/frontend/test_aten.py). To add one: a function with `@importer("aten.name")`,
and a line in that test.
"""

from loadstone.frontend.aten import (  # noqa: F401  (each fills the table)
    arithmetic,
    attention,
    dynamic,
    elementwise,
    movement,
    normalizing,
    pooling,
    quantized,
    recurrent,
    reductions,
    resizing,
    spectral,
    weighted,
)
from loadstone.frontend.aten.build import OPERATORS, Build, literal
from loadstone.frontend.aten.dynamic import GIVES_SCALES, WAYS
from loadstone.frontend.aten.spectral import READS_COMPLEX

__all__ = ["GIVES_SCALES", "OPERATORS", "READS_COMPLEX", "WAYS", "Build", "literal"]
