# SPDX-License-Identifier: Apache-2.0
"""The places of an artifact's bytes: header, sections and their entries, as in runtime/FORMAT.md.

In:   nothing.
Out:  one struct for each kind of entry, and `require`, which names the rule that a file breaks.
Next: writer.py and reader.py pack and unpack them.
"""

from __future__ import annotations

import struct

from loadstone.errors import ArtifactError

__all__ = [
    "CODE_ALIGN_BYTES",
    "DEVICE",
    "ENTRIES_SINCE",
    "ENTRY_BYTES",
    "ENTRY_WORDS",
    "HEADER",
    "HEADER_BYTES",
    "MAGIC",
    "MAX_DATA_ALIGN",
    "OLDEST",
    "REGION",
    "SECTIONS",
    "SECTION_ALIGN",
    "STEP",
    "TENSOR",
    "VERSION",
    "WORD",
    "align",
    "require",
]

MAGIC = b"LDSM"
#: The newest format, and the oldest that is read (runtime/FORMAT.md, Versions).
VERSION, OLDEST = 8, 5
#: The first that has entries; and the words of one: name, steps, inputs, outputs.
ENTRIES_SINCE, ENTRY_WORDS = 7, 4
HEADER = struct.Struct("<4s7I")
SECTIONS = (
    "strings",
    "regions",
    "tensors",
    "inputs",
    "outputs",
    "steps",
    "words",
    "devices",
    "code",
    "data",
)
HEADER_BYTES = HEADER.size + 8 * len(SECTIONS)
REGION = struct.Struct("<8I")
TENSOR = struct.Struct("<I4BIIfi6I2H3I")
STEP = struct.Struct("<HBBIII")
DEVICE = struct.Struct("<II32s")
WORD = struct.Struct("<I")
ENTRY_BYTES = dict(zip(SECTIONS, (1, 32, 64, 4, 4, 16, 4, 40, 1, 1), strict=True))
SECTION_ALIGN = 64
#: What a program begins at a multiple of, in the section and in a session's copy of that.
CODE_ALIGN_BYTES = 64
MAX_DATA_ALIGN = 4096
assert HEADER_BYTES == 112
assert [s.size for s in (REGION, TENSOR, STEP, DEVICE)] == [32, 64, 16, 40]


def require(sound: bool, rule: str, text: str) -> None:
    """Raises ArtifactError unless `sound`."""
    if not sound:
        raise ArtifactError(f"{text} (rule {rule} of runtime/FORMAT.md)")


def align(value: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-value // alignment) * alignment
