# SPDX-License-Identifier: Apache-2.0
"""A board without a board: QEMU with the simulator process as its accelerator
(docs/boards/emulated.md)."""
