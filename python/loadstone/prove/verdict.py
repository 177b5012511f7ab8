# SPDX-License-Identifier: Apache-2.0
"""What a proof can end with.

In:   nothing.
Out:  Unsupported and NotProved, which the engine raises; ProofVerdict, what is said of an artifact.
Next: proof.py makes it, commands/prove.py prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from loadstone.errors import LoadstoneError

__all__ = ["NotProved", "ProofVerdict", "Status", "Unsupported"]


class Unsupported(LoadstoneError):
    """A step that the proof does not cover; it may be right or wrong."""


class NotProved(LoadstoneError):
    """A step that has no meaning, or none that is the network's."""


class Status(Enum):
    """The three answers; their values are the command's exit statuses."""

    PROVED = 0
    NOT_PROVED = 1
    UNSUPPORTED = 3


@dataclass(frozen=True)
class ProofVerdict:
    """What is said of an artifact, and of the proof.

    reason: "" of what is proved. steps: of GEMM and ALU. symbols: bytes that were given a name.
    equalities: how many functions were compared, by the way. error_bits: the probability that
    another artifact would have been called proved is below 2^-error_bits. tolerance: by how many
    levels an element may differ from the network's function of what the artifact has before it.
    """

    status: Status
    reason: str
    operators: int
    steps: int
    symbols: int
    equalities: Mapping[str, int]
    error_bits: int
    tolerance: int = 0

    @classmethod
    def unsupported(cls, reason: str, tolerance: int = 0) -> ProofVerdict:
        """Of a network that is not stated: nothing was compared."""
        return cls(Status.UNSUPPORTED, reason, 0, 0, 0, {}, 0, tolerance)

    @property
    def said(self) -> str:
        """The answer in words."""
        return self.status.name.lower().replace("_", " ")
