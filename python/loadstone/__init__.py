# SPDX-License-Identifier: Apache-2.0
"""Loadstone compiles trained networks for accelerators that are driven by a queue of instructions.

Four calls lead from a model's file to its results:

    quantized = loadstone.quantize("float.onnx", samples)
    compiled = loadstone.compile(quantized, target="vtaq-1x16x16")
    compiled.save("net.lds")
    model = loadstone.load("net.lds")
    outputs = model.run(images)

quantize takes a float model and about a hundred representative samples, and returns the same
    network in int8. A model that is already quantized does not need this step.
compile takes that network, or the file of an int8 model (TFLite, ONNX, PyTorch), and the name of a
    target. The result's `explain()` lists where each operator runs and why, and its `profile()` the
    cycles of each layer. This needs TVM: pip install 'loadstone[compiler]'.
load reads a compiled model from its file. Neither this nor running it needs TVM or a compiler.
run takes an array (samples, ...) for each input, and returns one for each output. It uses a
    bit-exact simulator, or with `device=` hardware, through the same C runtime.

A request that cannot be fulfilled raises a LoadstoneError, whose one line names the remedy. Samples
may be a folder of images: ImageFolder. The command line offers the same and more: loadstone --help.

A language model, compiled from a .gguf file and saved, writes text:
loadstone.generate("net.lds", "The capital of France is") returns Generated: text, tokens, speed.

In:   public names only.
Out:  compile, quantize, load and their types, imported on first use, so that a board needs no TVM.
Next: compiler.py holds all stages as one function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loadstone.errors import LoadstoneError, not_installed

if TYPE_CHECKING:
    from loadstone.analysis.loaded import LoadedModel, load
    from loadstone.compiler import Compiled, compile, quantize  # noqa: A004
    from loadstone.language.generate import Generated, generate
    from loadstone.quantization.images import ImageFolder
    from loadstone.runtime.schedule import Schedule

__all__ = [
    "Compiled",
    "Generated",
    "ImageFolder",
    "LoadedModel",
    "LoadstoneError",
    "Schedule",
    "__version__",
    "compile",
    "generate",
    "load",
    "quantize",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Public names that are imported when they are used; some need TVM."""
    if name in ("LoadedModel", "load"):
        from loadstone.analysis import loaded

        return getattr(loaded, name)
    if name in ("Generated", "generate"):
        from loadstone.language import generate

        return getattr(generate, name)
    if name == "Schedule":
        from loadstone.runtime.schedule import Schedule

        return Schedule
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
