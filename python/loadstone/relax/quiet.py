# SPDX-License-Identifier: Apache-2.0
"""What TVM's C++ writes to stderr about code of its own making.

In:   a block of code that calls TVM.
Out:  nothing of its warnings; all else that came there.
Next: quantization/, artifact/c_operator.py and relax/saved.py run TVM inside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quietly"]


@contextmanager
def quietly() -> Iterator[None]:
    """Drops the warnings that TVM's C++ writes to stderr about code of its own making; what else
    comes there passes, at the end."""
    sys.stderr.flush()
    own = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(own, 2)
            os.close(own)
            caught.seek(0)
            os.write(2, b"".join(line for line in caught if b": Warning: " not in line))
