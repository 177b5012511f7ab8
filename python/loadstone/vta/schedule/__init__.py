# SPDX-License-Identifier: Apache-2.0
"""TensorIR of operators on the blocked layout: one file per family, tile sizes from tile.py."""
