# SPDX-License-Identifier: Apache-2.0
"""The places of an artifact's bytes: header, sections and their entries, as in runtime/FORMAT.md.

In:   nothing.
Out:  one struct for each kind of entry, and `require`, which names the rule that a file breaks.
Next: writer.py and reader.py pack and unpack them.
"""

from __future__ import annotations

import struct

from loadstone.backend.device import INSN_BYTES
from loadstone.errors import ArtifactError

__all__ = [
    "ENTRY_BYTES",
    "HEADER",
    "HEADER_BYTES",
    "MAGIC",
    "MAX_DATA_ALIGN",
    "OLDEST",
    "RANGE",
    "REGION",
    "SECTIONS",
    "SECTION_ALIGN",
    "STEP",
    "TENSOR",
    "VERSION",
    "WITH_PROGRAMS",
    "WITH_REAL",
    "WITH_TYPES",
    "WORD",
    "align",
    "require",
]

MAGIC = b"LDSM"
#: The newest format, and the oldest that is read. A file says the least version that has all it
#: holds (runtime/FORMAT.md, Versions): WITH_PROGRAMS brought programs of other devices and states,
#: WITH_TYPES four element types, WITH_REAL operators of real numbers.
VERSION, OLDEST = 4, 1
WITH_PROGRAMS, WITH_TYPES, WITH_REAL = 2, 3, 4
HEADER = struct.Struct("<4sIII20sIIIII")
SECTIONS = (
    "strings",
    "regions",
    "tensors",
    "inputs",
    "outputs",
    "steps",
    "words",
    "instructions",
    "source_map",
    "data",
)
HEADER_BYTES = HEADER.size + 8 * len(SECTIONS)
REGION = struct.Struct("<8I")
TENSOR = struct.Struct("<I4BIIfi6I2H3I")
STEP = struct.Struct("<HBBIII")
RANGE = struct.Struct("<4I")
WORD = struct.Struct("<I")
ENTRY_BYTES = dict(zip(SECTIONS, (1, 32, 64, 4, 4, 16, 4, INSN_BYTES, 16, 1), strict=True))
SECTION_ALIGN = 64
MAX_DATA_ALIGN = 4096
assert HEADER_BYTES == 136
assert [s.size for s in (REGION, TENSOR, STEP, RANGE)] == [32, 64, 16, 16]


def require(sound: bool, rule: str, text: str) -> None:
    """Raises ArtifactError unless `sound`."""
    if not sound:
        raise ArtifactError(f"{text} (rule {rule} of runtime/FORMAT.md)")


def align(value: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-value // alignment) * alignment
