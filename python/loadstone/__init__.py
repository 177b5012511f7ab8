# SPDX-License-Identifier: Apache-2.0
"""Loadstone: from a trained int8 network to an accelerator nobody can write C for.

In:   public names only.
Out:  compile, quantize, the exceptions; imported when they are used, so that a board needs no TVM.
Next: compiler.py holds the whole way as one function.

    quantized = loadstone.quantize("float.onnx", samples)  # of a float model only
    compiled = loadstone.compile(quantized, target="vtaq-1x16x16")   # or of an int8 model's file
    outputs = compiled.run(images)                         # on the simulator, through the C runtime
    compiled.save("net.lds")
    model = loadstone.load("net.lds")                      # without TVM: model.run, model.profile
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loadstone.errors import LoadstoneError, not_installed

if TYPE_CHECKING:
    from loadstone.analysis.loaded import LoadedModel, load
    from loadstone.compiler import Compiled, compile, quantize  # noqa: A004
    from loadstone.quantization.images import ImageFolder

__all__ = [
    "Compiled",
    "ImageFolder",
    "LoadedModel",
    "LoadstoneError",
    "__version__",
    "compile",
    "load",
    "quantize",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Public names that are imported when they are used; some need TVM."""
    if name in ("LoadedModel", "load"):
        from loadstone.analysis import loaded

        return getattr(loaded, name)
    if name == "ImageFolder":
        from loadstone.quantization.images import ImageFolder

        return ImageFolder
    if name in ("Compiled", "compile", "quantize"):
        try:
            from loadstone import compiler
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] == "loadstone":
                raise
            raise LoadstoneError(
                f"loadstone.{name}: {not_installed(str(error.name), 'compiler')}"
            ) from None
        return getattr(compiler, name)
    raise AttributeError(f"module 'loadstone' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
