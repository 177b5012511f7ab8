# SPDX-License-Identifier: Apache-2.0
"""What devices do at the same time, and whether they may.

In:   phases: of each layer the shares of the devices that compute it.
Out:  nothing where no device touches what another one writes in the same phase, and what is written
      is what layers write that are not divided; else a VerificationError.
Next: cores.py asks before it makes programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from loadstone.errors import VerificationError
from loadstone.vta.stream.operations import Operation

__all__ = ["Claim", "Share", "Way", "verify_phases"]


@dataclass(frozen=True)
class Claim:
    """Tiles of tensors in DRAM, by tensor: bool (tiles,)."""

    tiles: Mapping[str, NDArray[np.bool_]]

    @staticmethod
    def of_all(claims: Iterable[Claim]) -> Claim:
        """What any of them touches."""
        made: dict[str, NDArray[np.bool_]] = {}
        for claim in claims:
            for name, mask in claim.tiles.items():
                made[name] = made[name] | mask if name in made else mask
        return Claim(made)

    def meets(self, other: Claim) -> bool:
        """Whether they have a tile in common."""
        return any(
            name in other.tiles and bool((mask & other.tiles[name]).any())
            for name, mask in self.tiles.items()
        )


@dataclass(frozen=True, eq=False)
class Share:
    """What one device does of one layer. cycles: (4,) of load, compute and store stage, and of its
    reads on the bus. reads, writes: of tensors that are no constants."""

    operations: Sequence[Operation]
    cycles: NDArray[np.int64]
    reads: Claim
    writes: Claim


@dataclass(frozen=True, eq=False)
class Way:
    """One way to compute a layer: the share of each device that has one, by its number."""

    name: str
    shares: Mapping[int, Share]


def verify_phases(phases: Sequence[Sequence[tuple[int, Way]]], layers: int, written: Claim) -> None:
    """Raises VerificationError where a device touches what another one writes in the same phase;
    where a layer is missing or not in its turn; or where something else is written than by layers
    that are whole. written: what these write."""
    if [number for phase in phases for number, _ in phase] != list(range(layers)):
        raise VerificationError("phases", "layers are missing, or not in their order")
    shares: list[Share] = []
    for number, phase in enumerate(phases):
        touched = [(device, share) for _, way in phase for device, share in way.shares.items()]
        _verify_apart(number, touched)
        shares += [share for _, share in touched]
    made = Claim.of_all(share.writes for share in shares).tiles
    if made.keys() != written.tiles.keys():
        raise VerificationError("phases", "other tensors are written than when no layer is divided")
    for name, tiles in written.tiles.items():
        if not np.array_equal(made[name], tiles):
            raise VerificationError("phases", f"of {name} other tiles are written")


def _verify_apart(number: int, touched: Sequence[tuple[int, Share]]) -> None:
    for (device, one), (other, two) in permutations(touched, 2):
        if device != other and (one.writes.meets(two.reads) or one.writes.meets(two.writes)):
            raise VerificationError(
                "phases", f"devices {device} and {other} meet in phase {number}"
            )
