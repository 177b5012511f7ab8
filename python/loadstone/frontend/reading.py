# SPDX-License-Identifier: Apache-2.0
"""Options for reading a model file: sizes that it leaves open, and the part to read.

In:   the user's options.
Out:  Reading; sizes from texts such as `x=1,3,224,224`.
Next: the reader of each format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from loadstone.errors import ConfigError
from loadstone.files import JsonObject

if TYPE_CHECKING:
    from loadstone.relax.types import IRModule

__all__ = [
    "STATES",
    "WEIGHT_ERRORS",
    "WHOLE",
    "Reading",
    "own_states",
    "parse_shapes",
    "weight_errors",
]

#: The attribute of `main` that says which inputs are states of the model's own: for each a text,
#: JSON of `input` and `output`, their places, and `begin`, the bytes before the first run in
#: hexadecimal, "" for zeros.
STATES = "loadstone.states"

#: The attribute of `main` that says by how much its integers change the weights of a file: for each
#: layer a text, JSON of relax/grid_weights.error_entry.
WEIGHT_ERRORS = "loadstone.weight_errors"


@dataclass(frozen=True)
class Reading:
    """shapes: of inputs by name, for dimensions that the file leaves open. inputs, outputs: names
    of tensors that the part to be read begins and ends with; none: the model's own. folder: where
    the file lies, for what it keeps in files beside it. rotate: of a GGUF file, 64: rows and
    weights in whole blocks of 64 are rotated; 0: none is; None: as the front end does, which is 64.
    weights4: of a GGUF file, which linears keep the 4 bits of its encoding: "all" but the head,
    "most", which leaves the last linear of each layer int8, too, or "" for none.
    """

    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    folder: Path | None = None
    rotate: int | None = None
    weights4: str = ""

    @property
    def is_whole(self) -> bool:
        """The model as the file has it."""
        asked = (self.shapes, self.inputs, self.outputs, self.weights4)
        return not any(asked) and self.rotate is None


WHOLE = Reading()


def own_states(module: IRModule) -> list[str]:
    """The texts of STATES."""
    return [str(text) for text in module["main"].attrs.get(STATES, ())]


def weight_errors(module: IRModule) -> list[JsonObject]:
    """What WEIGHT_ERRORS says, in order; nothing of a file whose weights stay as they are."""
    return [json.loads(str(text)) for text in module["main"].attrs.get(WEIGHT_ERRORS, ())]


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """`NAME=1,3,224,224` each. Raises ConfigError for what is no such text."""
    shapes = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        parts = sizes.split(",")
        if not name or not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
            raise ConfigError(f"--shape {text}: write it as NAME=1,3,224,224")
        shapes[name] = tuple(map(int, parts))
    return shapes
