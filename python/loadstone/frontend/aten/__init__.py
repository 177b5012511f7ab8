# SPDX-License-Identifier: Apache-2.0
"""What each operator of PyTorch's ATen becomes in Relax.

In:   the arguments of an operator, tensors as Relax expressions; Build for what it takes more than
      one call to say.
Out:  a Relax expression, or a list of them where PyTorch's operator has several results.
Next: frontend/torch.py emits it, and compares its shape and type with PyTorch's.

A converter has the arguments of ATen's schema, in their order, with their defaults; where these are
many, they are the fields of a dataclass beside it. Each is
compared with PyTorch itself (tests/frontend/test_aten.py). To add one: a function with
`@importer("aten.name")`, and a line in that test.
"""

from loadstone.frontend.aten import (  # noqa: F401  (each fills the table)
    attention,
    elementwise,
    movement,
    pooling,
    quantized,
    recurrent,
    weighted,
)
from loadstone.frontend.aten.build import OPERATORS, Build

__all__ = ["OPERATORS", "Build"]
