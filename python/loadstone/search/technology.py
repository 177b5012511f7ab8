# SPDX-License-Identifier: Apache-2.0
"""Process nodes: by which factor area, energy and delay of 45 nm change at another one.

In:   a node in nanometres.
Out:  factors.
Next: assumptions.py scales the published constants by them.

    [S] A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction of CMOS device
        performance from 180 nm to 7 nm", Integration 58, 2017: table 3 (area), tables 4 and 5
        (delay and energy as polynomials of the supply voltage), high-performance transistors

Each node has its nominal supply voltage; 45 nm has the 0.9 V of the published energies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["NODES", "area_factor", "delay_factor", "energy_factor"]

_BASE_NM = 45


@dataclass(frozen=True)
class _Node:
    """area: relative to 45 nm. delay, energy: coefficients of the voltage's powers, highest
    first."""

    volts: float
    area: float
    delay: tuple[float, ...]
    energy: tuple[float, ...]


NODES: Mapping[int, _Node] = {
    65: _Node(1.1, 1.5, (-53.3, 230.4, -333.9, 178.6), (3.755, -4.398, 1.975)),
    45: _Node(0.9, 1.0, (-501.6, 1567.0, -1619.0, 566.1), (1.018, -0.3107, 0.1539)),
    32: _Node(0.9, 0.46, (-1047.0, 2982.0, -2797.0, 873.5), (0.8367, -0.4341, 0.1701)),
    20: _Node(0.9, 0.21, (0.0, 34.63, -66.37, 41.15), (0.373, -0.1582, 0.04104)),
    16: _Node(0.85, 0.19, (0.0, 24.8, -47.52, 28.87), (0.2958, -0.1241, 0.03024)),
    14: _Node(0.8, 0.17, (-40.66, 109.2, -100.6, 35.92), (0.2363, -0.09675, 0.02239)),
    10: _Node(0.75, 0.1, (-34.95, 93.65, -85.99, 30.4), (0.2068, -0.09311, 0.02375)),
    7: _Node(0.7, 0.059, (-28.58, 76.6, -70.26, 24.69), (0.1776, -0.09097, 0.02447)),
}


def _at(coefficients: tuple[float, ...], volts: float) -> float:
    value = 0.0
    for coefficient in coefficients:
        value = value * volts + coefficient
    return value


def area_factor(nm: int) -> float:
    """Of logic and memories."""
    return NODES[nm].area


def energy_factor(nm: int) -> float:
    """Of one operation."""
    node, base = NODES[nm], NODES[_BASE_NM]
    return _at(node.energy, node.volts) / _at(base.energy, base.volts)


def delay_factor(nm: int) -> float:
    """Of a gate."""
    node, base = NODES[nm], NODES[_BASE_NM]
    return _at(node.delay, node.volts) / _at(base.delay, base.volts)
