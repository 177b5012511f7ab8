"""Loadstone: from a trained int8 network to an accelerator nobody can write C for.

In:   public names only.
Out:  compile, quantize, the exceptions; imported when they are used, so that a board needs no TVM.
Next: compiler.py holds the whole way as one function.

    quantized = loadstone.quantize("float.onnx", samples)  # of a float model only
    compiled = loadstone.compile("net.tflite", target="vtaq-1x16x16")
    outputs = compiled.run(images)                         # on the simulator, through the C runtime
    compiled.save("net.lds")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loadstone.errors import LoadstoneError

if TYPE_CHECKING:
    from loadstone.compiler import Compiled, compile, quantize  # noqa: A004

__all__ = ["Compiled", "LoadstoneError", "__version__", "compile", "quantize"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Public names that need TVM."""
    if name in ("Compiled", "compile", "quantize"):
        from loadstone import compiler

        return getattr(compiler, name)
    raise AttributeError(f"module 'loadstone' has no attribute {name!r}")
