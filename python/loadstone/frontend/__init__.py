# SPDX-License-Identifier: Apache-2.0
"""Converts model files to Relax, one module per format; then one QDQ form for all of them.

In:   a path, or a tvm.IRModule.
Out:  an IRModule in canonical form (canonical.py), or, for the quantizer, in the importer's form.
Next: quantization/ for float models, partition/eager.py for quantized ones.

    .tflite   tflite_file.py reads and checks the bytes, tflite.py converts
    .onnx     onnx/: folds constants, rewrites integer operators to QDQ, checks the model against
              a table of what is read, converts
    .pt2      torch.py reads and walks the program, aten/ converts; a program in memory, too
    .gguf     gguf_file.py reads and checks the bytes, gguf.py writes the decoder
    then      layout.py channels last; canonical.py the one form
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from loadstone.errors import (
    LoadstoneError,
    ModelError,
    Refusal,
    UnsupportedError,
    VerificationError,
)
from loadstone.files import read_whole
from loadstone.frontend.reading import WHOLE, Reading
from loadstone.frontend.tflite_schema import import_in_parts
from loadstone.passes.log import PassLog, script

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch.export import ExportedProgram

    from loadstone.relax.types import IRModule

__all__ = ["Canonical", "Model", "Reading", "import_model", "load"]


@dataclass(frozen=True, eq=False)
class Canonical:
    """What `load` made: `load` gives it back as it is. A sweep compiles a network hundreds of
    times, and its form does not depend on the device."""

    module: IRModule


#: A model file, or a model in memory.
Model: TypeAlias = "str | Path | IRModule | ExportedProgram | ModelProto | Canonical"


def load(source: Model, reading: Reading = WHOLE, log: PassLog | None = None) -> IRModule:
    """A model file, an IRModule or a torch.export.ExportedProgram, in canonical form. Raises
    ModelError, one line that names the file. reading: sizes and the part of a file. log: of its
    passes."""
    from loadstone.frontend.rewrites import canonical

    if isinstance(source, Canonical) and reading.is_whole:
        return source.module
    name = _name(source)
    log = log or PassLog()
    module = log.run("import", lambda model: import_model(model, reading), source, show=script)
    try:
        return canonical(module, log)
    except (LoadstoneError, VerificationError):
        raise
    except Exception as error:
        why = "no canonical form of it is known (frontend/canonical.py)"
        remedy = "cut the model with --inputs and --outputs to find the part"
        raise UnsupportedError(Refusal(why, remedy, model=name)) from error


def import_model(source: Model, reading: Reading = WHOLE) -> IRModule:
    """The module as the importer of the format leaves it; an IRModule is returned as it is."""
    if not isinstance(source, str | Path):
        if not reading.is_whole:
            raise ModelError(
                "shapes, inputs, outputs, rotate and weights4 are options of model files"
            )
        return _from_memory(source)
    path = Path(source)
    try:
        data = read_whole(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from error
    suffix = path.suffix.lower()
    if suffix == ".tflite" or (suffix != ".onnx" and data[4:8] == b"TFL3"):
        import_in_parts()
        from loadstone.frontend import tflite as reader
    elif suffix == ".onnx":
        from loadstone.frontend import onnx as reader  # type: ignore[no-redef]
    elif suffix in (".pt2", ".pt", ".pth"):
        from loadstone.frontend import torch as reader  # type: ignore[no-redef]
    elif suffix == ".gguf":
        from loadstone.frontend import gguf as reader  # type: ignore[no-redef]
    else:
        raise ModelError(
            f"{path}: unknown kind of model {suffix or 'without a suffix'}: Loadstone reads "
            ".tflite, .onnx, .pt2 and .gguf"
        )
    _check_decoder(path, reading)
    return reader.from_bytes(data, path.name, replace(reading, folder=path.parent))


def _check_decoder(path: Path, reading: Reading) -> None:
    """Options of .gguf files. Raises ModelError for values that there are not, and other files."""
    suffix = path.suffix.lower()
    if reading.rotate is not None and suffix != ".gguf":
        raise ModelError(f"{path.name}: rotate is for .gguf files, which the front end makes int8")
    if reading.weights4 and suffix != ".gguf":
        raise ModelError(
            f"{path.name}: weights4 is for .gguf files, and with samples for scheme dynamic"
        )
    if reading.weights4 not in ("", "all", "most"):
        raise ModelError(f"{path.name}: weights4={reading.weights4!r} is not 'all' or 'most'")
    if reading.rotate not in (None, 0, 64):
        raise ModelError(f"{path.name}: rotate={reading.rotate} is not 64 or 0")


def _from_memory(source: Model) -> IRModule:
    """What PyTorch made is converted, and an ONNX model in memory. Whoever has such an object has
    imported PyTorch, or onnx. Raises ModelError for what is no model."""
    given: Any = source
    if isinstance(source, Canonical):
        return source.module
    if type(source).__name__ == "ModelProto" and hasattr(given, "SerializeToString"):
        from loadstone.frontend import onnx

        return onnx.from_bytes(given.SerializeToString(), given.graph.name or "model")
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(source, torch.export.ExportedProgram | torch.nn.Module):
        if not hasattr(source, "functions"):
            raise ModelError(
                f"a {type(source).__name__} is no model: give the path of a .tflite, .onnx, .pt2 "
                "or .gguf file, an ONNX ModelProto, a torch.export.ExportedProgram or an IRModule"
            )
        _require_sizes(source)
        return source
    from loadstone.frontend.torch import from_program

    return from_program(source, _name(source))


def _require_sizes(module: IRModule) -> None:
    """Raises UnsupportedError for an input whose size another importer left open."""
    from loadstone.relax.compat import relax, shape

    for parameter in module["main"].params:
        if isinstance(parameter.ty, relax.TensorType) and shape(parameter) is None:
            raise UnsupportedError(
                f'input "{parameter.name}" has a dynamic shape: give the importer a fixed size '
                "(from_onnx: shape_dict)"
            )


def _name(source: Model) -> str:
    return Path(source).name if isinstance(source, str | Path) else type(source).__name__
