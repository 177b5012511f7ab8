"""Instruction sets of other accelerators as tables: codec, assembler, C and page come of one."""
