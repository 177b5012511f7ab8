# SPDX-License-Identifier: Apache-2.0
"""Instruction sets of other accelerators as tables: codec, assembler, C and page come of one."""
