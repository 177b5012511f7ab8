# SPDX-License-Identifier: Apache-2.0
"""Write and read a compiled model: one file, specified byte by byte in runtime/FORMAT.md.

In:   regions and tensors (memory_plan.py), programs, host steps (host_step.py).
Out:  an Artifact; `to_bytes`, `from_bytes`, `save`, `load`.
Next: runtime/open.c checks the same bytes in place; runtime/device.py runs them.

A small model, by hand:

    Artifact(
        name="copy", devices=(ProgramDevice.of(config),), samples=1,
        regions=(Region("io", RegionKind.ARENA, 128, device_reads=True, device_writes=True),),
        tensors=(Tensor("x", (1, 16), DataType.INT8, 0, 0), Tensor("y", (1, 16), DataType.INT8, 0,
        64)), inputs=(0,), outputs=(1,),
        steps=(ProgramStep("copy", encode_stream([...], config).tobytes()),),
    )
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadstone.artifact.content import ArtifactContent
from loadstone.artifact.file_layout import MAGIC
from loadstone.artifact.host_step import HostStep
from loadstone.artifact.memory_plan import (
    BufferView,
    DataType,
    MemoryRegion,
    RegionKind,
    ViewLayout,
)
from loadstone.artifact.reader import ArtifactReader
from loadstone.artifact.writer import ArtifactWriter
from loadstone.backend.device import LayerRange, ProgramDevice, ProgramStep
from loadstone.errors import ArtifactError
from loadstone.files import read_whole, write_whole

__all__ = [
    "MAGIC",
    "Artifact",
    "BufferView",
    "DataType",
    "HostStep",
    "LayerRange",
    "MemoryRegion",
    "ProgramDevice",
    "ProgramStep",
    "RegionKind",
    "ViewLayout",
]

#: How files end that are compiled to an artifact.
_MODELS = (".tflite", ".onnx", ".pt2", ".gguf")


@dataclass(frozen=True)
class Artifact(ArtifactContent):
    """A compiled model. inputs and outputs are indices of tensors; `samples` is what one run takes.
    Device 0 is that of the session which runs it; steps run in order."""

    def to_bytes(self) -> bytes:
        """The file. Raises ArtifactError when it would not be sound."""
        self.check()
        return ArtifactWriter(self).file()

    @staticmethod
    def from_bytes(data: bytes) -> Artifact:
        """Reads a file. Raises ArtifactError for one that is not sound."""
        artifact = ArtifactReader(data).content(Artifact)
        artifact.check()
        return artifact

    def save(self, path: str | Path) -> None:
        """Writes the file."""
        write_whole(path, self.to_bytes())

    @staticmethod
    def load(path: str | Path) -> Artifact:
        """Reads a file; the error names it."""
        try:
            return Artifact.from_bytes(read_whole(path))
        except OSError as error:
            raise ArtifactError(f"{path}: {error.strerror}") from None
        except ArtifactError as error:
            if Path(path).suffix.lower() in _MODELS:
                raise ArtifactError(
                    f"{path} is a model that is not compiled yet: "
                    f"loadstone compile {path} --target DEVICE comes first, and makes an .lds file"
                ) from None
            raise ArtifactError(f"{path}: {error}") from None
