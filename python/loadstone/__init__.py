# SPDX-License-Identifier: Apache-2.0
"""Loadstone compiles trained networks for accelerators that are driven by a queue of instructions.

Four names are the way from a model's file to numbers:

    quantized = loadstone.quantize("float.onnx", samples)
    compiled = loadstone.compile(quantized, target="vtaq-1x16x16")
    compiled.save("net.lds")
    model = loadstone.load("net.lds")
    outputs = model.run(images)

quantize takes a float model and a hundred samples or so of what it will see, and gives the same
    network in int8. A model that is quantized already needs no such step.
compile takes that, or the file of an int8 model (TFLite, ONNX, PyTorch), and the name of a target.
    What it gives says in `explain()` where each operator runs and why, and in `profile()` how many
    cycles it takes. It needs TVM: pip install 'loadstone[compiler]'.
load reads a compiled model again. Neither TVM nor a compiler is needed for that, nor for what
    follows.
run takes an array (samples, ...) for each input, and gives one for each output: on a simulator that
    is exact to the bit, or with `device=` on hardware, through the same C runtime.

What cannot be done is refused by a LoadstoneError, whose one line says what to do. ImageFolder
reads pictures as samples. The command line has the same and more: loadstone --help.

In:   public names only.
Out:  compile, quantize, load and their kin; imported when they are used, so that a board needs no
      TVM.
Next: compiler.py holds the whole way as one function.
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
