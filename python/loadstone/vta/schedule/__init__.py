# SPDX-License-Identifier: Apache-2.0
"""Computations of operators on the blocked layout, as nests: one file per family, with tile sizes
from tile.py."""
