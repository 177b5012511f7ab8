"""A board without a board: QEMU with the simulator process as its accelerator (docs/board.md)."""
